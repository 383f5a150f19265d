"""A tree bound to its data, the plan of a sampler, and one step of it."""

from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Domain
from bart.kernels.local cimport NodeParams
from bart.kernels.moves cimport LocalMoves
from bart.kernels.particles cimport ParticleParams
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work, Workspace

cdef enum Kernel:
    KERNEL_LOCAL = 0
    KERNEL_PARTICLES = 1
    KERNEL_NODE = 2
    KERNEL_PERTURB = 3
    KERNEL_ROTATE = 4

# What a compiled sweep runs for each tree.
cdef struct Plan:
    int kernel              # a Kernel
    LocalMoves moves
    ParticleParams particles
    NodeParams node

cdef int run_kernel(Tree* tree, Work* work, StepInfo* info, const Target* target, const Plan* plan,
                    bitgen_t* rng) noexcept nogil
cdef void settle_labels(Tree* tree, Work* work) noexcept nogil
cdef void draw_values(Tree* tree, Work* work, bitgen_t* rng) noexcept nogil
cdef int check_status(int status) except -1

cdef class KernelPlan:
    cdef Plan p
    cdef readonly bint needs_bins

cdef class TreeState:
    cdef Tree t
    cdef readonly Domain domain
    cdef Workspace workspace
    cdef object bound           # target given out by an ensemble, with the residual it stands for
    cdef object bound_residual
    cdef object kept            # after a step on it: (leaf sums, whether the target was formed row by row)
    cdef _take(self, Tree* made)
    cdef bitgen_t* _ready(self, params, rng) except NULL
