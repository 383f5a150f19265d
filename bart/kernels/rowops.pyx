"""Choice of the row loops: the widest build the processor can run, or the one that BART_SIMD names."""

import os

from bart.kernels import rowops_baseline

cdef extern from *:
    """
    #if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
    static int bart_has_avx2(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2") != 0; }
    #else
    static int bart_has_avx2(void) { return 0; }
    #endif
    """
    bint has_avx2 "bart_has_avx2"()

cdef RowOps* CHOSEN = NULL
TARGETS = {"baseline": rowops_baseline}
if has_avx2():
    from bart.kernels import rowops_avx2        # not before: its very import runs wide instructions

    TARGETS["avx2"] = rowops_avx2
TARGET = None


def use(name):
    """Take the row loops of one target ("baseline", "avx2") in what is made from now on. Same results from all."""
    global CHOSEN, TARGET
    if name not in TARGETS:
        raise ValueError(f"BART_SIMD: no build {name!r} for this processor; there are {sorted(TARGETS)}")
    CHOSEN = <RowOps*><size_t>TARGETS[name].table()
    TARGET = name


cdef RowOps* rowops() noexcept nogil:
    return CHOSEN


use(os.environ.get("BART_SIMD") or next(reversed(TARGETS)))
