"""For tests: many single steps in one call, and a generator that plays back given uniforms."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from numpy.random cimport bitgen_t
from bart.kernels.resampling cimport draw_final, normalise, resample, wants_resampling
from bart.kernels.rng cimport bitgen_of
from bart.kernels.state cimport KernelPlan, TreeState, check_status, run_kernel, settle_labels
from bart.kernels.state import RESAMPLING
from bart.kernels.types cimport OK, StepInfo
from bart.kernels.workspace cimport Target, set_leaf_params

import numpy as np

cdef struct Script:
    double* uniforms
    int64_t n
    int64_t used


cdef double next_double(void* state) noexcept nogil:
    """The next uniform; .5 past the end (n_used then exceeds their number)."""
    cdef Script* script = <Script*>state
    script.used += 1
    return script.uniforms[script.used - 1] if script.used <= script.n else 0.5


cdef uint64_t next_uint64(void* state) noexcept nogil:
    return <uint64_t>(next_double(state) * 18446744073709551616.0)


cdef uint32_t next_uint32(void* state) noexcept nogil:
    return <uint32_t>(next_double(state) * 4294967296.0)


cdef class ScriptedBitGenerator:
    """A bit generator that plays back uniforms in [0, 1); pass it as rng to a step.

    Parameters
    ----------
    uniforms : sequence of float
        next_double gives u, next_uint64 floor(u 2^64).
    """

    cdef bitgen_t bitgen
    cdef Script script
    cdef readonly object capsule

    def __cinit__(self, uniforms):
        cdef int64_t i
        self.script.n = len(uniforms)
        self.script.used = 0
        self.script.uniforms = <double*>malloc(max(self.script.n, 1) * sizeof(double))
        if self.script.uniforms == NULL:
            raise MemoryError("no memory for the uniforms")
        for i in range(self.script.n):
            if not 0.0 <= uniforms[i] < 1.0:
                raise ValueError(f"uniforms[{i}] = {uniforms[i]} is not in [0, 1)")
            self.script.uniforms[i] = uniforms[i]
        self.bitgen.state = &self.script
        self.bitgen.next_double = next_double
        self.bitgen.next_uint64 = next_uint64
        self.bitgen.next_uint32 = next_uint32
        self.bitgen.next_raw = next_uint64
        self.capsule = PyCapsule_New(&self.bitgen, "BitGenerator", NULL)

    def __dealloc__(self):
        free(self.script.uniforms)

    @property
    def bit_generator(self):
        return self

    @property
    def generator(self):
        """What to pass as rng."""
        return self

    @property
    def n_used(self):
        """Uniforms consumed so far."""
        return self.script.used


def replicate(sampler, TreeState state, structure, const double[::1] target, params, rng, int64_t n):
    """n independent steps of a sampler from one structure: dict key() -> count."""
    cdef TreeState start = TreeState(state.domain, structure=structure, workspace=state.workspace)
    cdef KernelPlan plan = sampler.plan()
    cdef bitgen_t* bits = bitgen_of(rng)
    cdef Target given
    cdef StepInfo info
    cdef int64_t i
    cdef int status
    counts = {}
    given.base = &target[0]
    given.is_residual = False
    set_leaf_params(&state.workspace.w, params.sigma2 / params.temperature, params.leaf_mean, params.leaf_var)
    for i in range(n):
        state.copy_from(start)
        status = run_kernel(&state.t, &state.workspace.w, &info, &given, &plan.p, bits)
        settle_labels(&state.t, &state.workspace.w)
        check_status(status)
        key = state.key()
        counts[key] = counts.get(key, 0) + 1
    return counts


def ancestors(weights, scheme, rng):
    """One conditional resampling: (C,) ancestors, the clamped particle in slot 0."""
    cdef double[::1] w = np.array(weights, dtype=np.float64)
    cdef int n = w.shape[0]
    out, spare = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    cdef int32_t[::1] a = out, b = spare
    resample(&a[0], &b[0], &w[0], n, RESAMPLING.index(scheme), True, bitgen_of(rng))
    return out


def final_index(weights, bint forced, rng):
    """One draw of the final index."""
    cdef double[::1] w = np.array(weights, dtype=np.float64)
    return draw_final(&w[0], w.shape[0], forced, bitgen_of(rng))
