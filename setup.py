"""Build of the compiled kernels.

The compiler directives live here alone, so that one variable turns every check on:

BART_DEBUG=1     bounds, wraparound, None and initialisation checks, C assertions, little optimisation
BART_MUTANTS=1   the mutant build of the tests: known errors, chosen at run time by BART_MUTANT=id
BART_ANNOTATE=1  Cython's annotated HTML beside the generated C
"""

import glob
import os
import platform
import sys

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup


def flag(name):
    return os.environ.get(name, "0") not in ("", "0")


DEBUG, MUTANTS, ANNOTATE = flag("BART_DEBUG"), flag("BART_MUTANTS"), flag("BART_ANNOTATE")

# In dependency order: a kernel cimports only from those above it.
KERNELS = [
    "rng", "rowops_baseline", "rowops_avx2", "rowops", "columns", "suffstat", "tree", "nodeset", "team", "pool",
    "workspace", "splits", "looks", "optimal", "moves", "subtrees", "change_swap", "perturb_rotate", "regions", "recut",
    "resampling", "adopt", "particles", "local", "splice", "transpose", "reroute", "starts", "forest", "cholesky",
    "plan", "state", "joint", "slide", "hyper", "sweep",
    "testing", "testing_rows",
]
X86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
TARGET_FLAGS = {"rowops_avx2": ["-mavx2", "-mpopcnt"] if X86 else []}

# No fast-math and no contraction: the same bits from every vector width. Neither errno nor exception flags are read.
FLAGS = ["-O1", "-g", "-UNDEBUG"] if DEBUG else ["-O3", "-g0"]
FLAGS += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wno-unused-function", "-Wno-unused-variable"]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": DEBUG,
    "initializedcheck": DEBUG,
    "nonecheck": DEBUG,
    "cdivision": not DEBUG,
    "embedsignature": True,
}

MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
if MUTANTS:
    MACROS.append(("BART_MUTANTS", "1"))


def extension(name):
    random_lib = os.path.join(os.path.dirname(np.__file__), "random", "lib")
    return Extension(
        f"bart.kernels.{name}",
        [f"bart/kernels/{name}.pyx"],
        include_dirs=[np.get_include(), "bart/kernels"],
        library_dirs=[random_lib] if name == "rng" else [],
        libraries=(["npyrandom"] if name == "rng" else []) + ([] if sys.platform == "win32" else ["m"]),
        define_macros=MACROS,
        extra_compile_args=FLAGS + TARGET_FLAGS.get(name, []),
        depends=sorted(glob.glob("bart/kernels/*.h") + glob.glob("bart/kernels/*.pxi")),
    )


setup(
    ext_modules=cythonize(
        [extension(name) for name in KERNELS],
        compiler_directives=DIRECTIVES,
        annotate=ANNOTATE,
        build_dir=os.environ.get("BART_BUILD_C", "build/c"),
    )
)
