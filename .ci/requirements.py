"""Print the requirements of this checkout's extras, one a line, for pip to install without the package.

    python .ci/requirements.py [EXTRA ...]

The build requirements and the dependencies always come first. An extra that names others of this package,
such as ``pgbart[all]``, is followed.
"""

import re
import sys
import tomllib
from pathlib import Path


def expand(project, extras):
    """All requirements of the extras, without duplicates, in order."""
    found = []
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[([\w,\s-]+)\]", requirement)
            found += expand(project, [e.strip() for e in own[1].split(",")]) if own else [requirement]
    return list(dict.fromkeys(found))


def main():
    config = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())
    project = config["project"]
    wanted = [*config["build-system"]["requires"], *project["dependencies"], *expand(project, sys.argv[1:])]
    print("\n".join(dict.fromkeys(wanted)))


if __name__ == "__main__":
    main()
