"""The plan of a sampler: kernels of one tree, their cycles and mixtures, and one update by it."""

from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.local cimport NodeParams
from bart.kernels.moves cimport LocalMoves
from bart.kernels.particles cimport ParticleParams
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef enum Kernel:
    KERNEL_LOCAL = 0
    KERNEL_PARTICLES = 1
    KERNEL_NODE = 2
    KERNEL_PERTURB = 3
    KERNEL_ROTATE = 4
    KERNEL_SPLICE = 5
    KERNEL_RECUT = 6
    KERNEL_TRANSPOSE = 7
    KERNEL_REROUTE = 8
    CYCLE = 100             # compositions; every other number is a kernel
    MIXTURE = 101

# What a compiled sweep runs for each tree: a kernel with its parameters, or a composition of plans.
cdef struct Plan:
    int kernel              # a Kernel
    LocalMoves moves
    ParticleParams particles
    NodeParams node
    Plan* parts             # (n_parts,) of a composition, owned by its KernelPlan; NULL for a kernel
    int32_t n_parts
    double upto             # as a part of a mixture: probability of the parts up to this one
    int32_t most_kernels    # most kernels that one update runs
    int32_t most_particles  # most particles that one of them holds; at least 1

cdef int run_kernel(Tree* tree, Work* work, StepInfo* info, const Target* target, const Plan* plan,
                    bitgen_t* rng) noexcept nogil
cdef int64_t update_cost(const Plan* plan, const StepInfo* info, int64_t n_rows) noexcept nogil

cdef class KernelPlan:
    cdef Plan p
    cdef readonly bint needs_bins
    cdef object plans           # the parts, whose own parts p.parts points to
    cdef compose(self, tuple parts, upto)
