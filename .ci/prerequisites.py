"""Name in one line what a build needs and this machine lacks, as Debian calls it; silent otherwise.

Runs under any Python 3, because an old one is among what it reports. Exits with 1 where something is missing.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig


def missing_packages():
    """The Debian packages to install, in a fixed order."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    found = {
        "python3-venv": importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"),
        "python3-dev": os.path.exists(header),
        "gcc": shutil.which(compiler.split()[0]),
    }
    return [package for package, there in found.items() if not there]


def main():
    if sys.version_info < (3, 11):  # noqa: UP036 - this one file runs before the version is known
        version = "{}.{}".format(*sys.version_info[:2])
        sys.exit("Missing: Python 3.11 or newer (this is " + version + "; make PYTHON=/path/to/python3.11)")
    missing = " ".join(missing_packages())
    if missing:
        sys.exit("Missing: " + missing + " (Debian: apt-get install " + missing + ")")


if __name__ == "__main__":
    main()
