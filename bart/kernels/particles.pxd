"""Particle Gibbs: conditional SMC over partial trees (algorithm 2 of the paper)."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.optimal cimport OptimalParams
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef struct ParticleParams:
    int32_t n_particles         # C, the clamped one included
    int resampling              # a Resampling
    double ess_threshold        # t; negative: after every stage
    bint forced                 # final index by a forced move
    bint authors                # bookkeeping "authors" (inexact, samplers.md 3.4)
    bint clamped                # False: an unconditional particle filter, for a start
    int32_t max_stages          # 0: none (a tree cannot need more than 2 n_rows - 1)
    bint optimal                # proposals one-step optimal, else from the prior
    OptimalParams proposal
    bint subtree                # redraw a subtree, else the tree
    double descend              # probability of each step down to the subtree's slot

cdef int step_particles(Tree* tree, Work* work, StepInfo* info, const Target* target, const ParticleParams* params,
                        bitgen_t* rng) noexcept nogil
