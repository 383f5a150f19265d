"""The plan of a sampler: kernels of one tree, their cycles and mixtures, and one update by it."""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from numpy.random cimport bitgen_t
from bart.kernels.change_swap cimport step_local
from bart.kernels.local cimport step_node
from bart.kernels.moves cimport begin_info
from bart.kernels.particles cimport step_particles
from bart.kernels.perturb_rotate cimport step_perturb, step_rotate
from bart.kernels.recut cimport step_recut
from bart.kernels.reroute cimport step_reroute
from bart.kernels.rng cimport uniform
from bart.kernels.splice cimport step_splice
from bart.kernels.transpose cimport step_transpose
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport MOVE_NONE, NO_MEMORY, OK, StepInfo
from bart.kernels.workspace cimport (Target, Work, begin_step, keep_nodes, pass_on, reserve_leaves, reserve_target,
                                     restore_nodes, weigh_target)

MOVES = ("none", "grow", "prune", "change", "swap", "pg", "local", "perturb", "rotate", "insert", "delete",
         "recut", "transpose", "shift", "shed", "absorb")
RESAMPLING = ("multinomial", "systematic", "killing")


cdef int run_kernel(Tree* tree, Work* work, StepInfo* info, const Target* target, const Plan* plan,
                    bitgen_t* rng) noexcept nogil:
    """One structure update given the target; leaf_sum holds the target's sums of the new tree's leaves on return.

    Leaf values stay integrated out through all kernels of a composition; what `info` then says: see bart.Cycle. On
    anything but OK the tree is as before the first of them.
    """
    cdef Target given = target[0]
    cdef int status
    if reserve_leaves(work, tree.n_leaves + 1) != OK:
        return NO_MEMORY
    if plan.most_kernels > 1 and (reserve_target(work) != OK or keep_nodes(work, tree) != OK):
        return NO_MEMORY
    begin_step(work, tree, target)
    weigh_target(work, &given)
    status = run_part(tree, work, info, &given, plan, rng)
    if status != OK and plan.most_kernels > 1:              # earlier kernels may have moved the tree
        restore_nodes(tree, work)
    return status


cdef int run_part(Tree* tree, Work* work, StepInfo* info, Target* target, const Plan* plan,
                  bitgen_t* rng) noexcept nogil:
    """A part of an update; `target` becomes what the next part of the update works on."""
    if plan.kernel == CYCLE:
        return run_cycle(tree, work, info, target, plan, rng)
    if plan.kernel == MIXTURE:
        return run_part(tree, work, info, target, choose_part(plan, rng), rng)
    if reserve_leaves(work, tree.n_leaves + 1) != OK:
        return NO_MEMORY
    if plan.kernel == KERNEL_LOCAL:
        return step_local(tree, work, info, target, &plan.moves, rng)
    if plan.kernel == KERNEL_NODE:
        return step_node(tree, work, info, target, &plan.node, rng)
    if plan.kernel == KERNEL_PERTURB:
        return step_perturb(tree, work, info, target, rng)
    if plan.kernel == KERNEL_ROTATE:
        return step_rotate(tree, work, info, target, rng)
    if plan.kernel == KERNEL_RECUT:
        return step_recut(tree, work, info, target, plan.node.subset, rng)
    if plan.kernel == KERNEL_SPLICE:
        return step_splice(tree, work, info, target, rng)
    if plan.kernel == KERNEL_TRANSPOSE:
        return step_transpose(tree, work, info, target, rng)
    if plan.kernel == KERNEL_REROUTE:
        return step_reroute(tree, work, info, target, rng)
    return step_particles(tree, work, info, target, &plan.particles, rng)


cdef int run_cycle(Tree* tree, Work* work, StepInfo* info, Target* target, const Plan* plan,
                   bitgen_t* rng) noexcept nogil:
    """Each part in turn: K = K_1 K_2 ..., all of which leave the posterior given the target invariant."""
    cdef StepInfo part
    cdef int32_t k
    cdef int status
    begin_info(info, MOVE_NONE)
    for k in range(plan.n_parts):
        if k > 0:
            pass_on(tree, work, target)
        status = run_part(tree, work, &part, target, &plan.parts[k], rng)
        if status != OK:
            return status
        info.move = part.move
        info.log_ratio = part.log_ratio
        info.changed |= part.changed
        info.root_changed |= part.root_changed
        info.n_stages += part.n_stages
        info.row_visits += part.row_visits
    return OK


cdef const Plan* choose_part(const Plan* plan, bitgen_t* rng) noexcept nogil:
    """A part of a mixture by its probability, K = sum_k p_k K_k; one uniform, none where there is one part alone."""
    cdef int32_t k = 0
    cdef double u
    if plan.n_parts > 1:
        u = uniform(rng)
        while k < plan.n_parts - 1 and u >= plan.parts[k].upto:
            k += 1
    return &plan.parts[k]


cdef int64_t update_cost(const Plan* plan, const StepInfo* info, int64_t n_rows) noexcept nogil:
    """Rows read in one update, roughly, a node's fixed cost counted as 500."""
    return (4 * (n_rows + 500) * plan.most_kernels + info.n_stages * (n_rows + 500 * <int64_t>plan.most_particles)
            + info.row_visits)


cdef class KernelPlan:
    """What a compiled sweep runs for each tree; made by the samplers' `plan()`.

    Parameters
    ----------
    move_probs : tuple of 4 floats, optional
        Probabilities of grow, prune, change and swap: a local sampler.
    move : str, optional
        "perturb", "rotate", "splice", "transpose", "reroute", "recut" (with subset), or "local" (with subset and
        descend): this one move.
    n_particles : int, optional
        C: a particle sampler, with resampling, ess_threshold (negative: after every stage), forced, max_stages (0:
        none) and clamped; `optimal` proposals with subset (0: all columns) and prior_share; a `subtree` with descend.
    authors : bool
        Bookkeeping "authors".
    parts : sequence of KernelPlan, optional
        A composition: each in turn, or one of them where `upto` is given.
    upto : sequence of float, optional
        Probability of the parts up to each one, that one included.

    Attributes
    ----------
    needs_bins : bool
        Whether it weighs cells of gaps: Domain.make_bins must have been called.
    """

    def __init__(self, *, move_probs=None, move=None, int n_particles=0, resampling="multinomial",
                 double ess_threshold=-1.0, bint forced=False, int max_stages=0, bint clamped=True,
                 bint authors=False, bint optimal=False, int subset=0, double prior_share=0.0, bint subtree=False,
                 double descend=0.5, parts=None, upto=None):
        cdef int k
        self.p.most_kernels = self.p.most_particles = 1
        if parts is not None:
            self.compose(tuple(parts), upto)
            return
        if move_probs is not None:
            self.p.kernel = KERNEL_LOCAL
            for k in range(4):
                self.p.moves.probability[k] = move_probs[k]
            self.p.moves.log_prune_to_grow = log(self.p.moves.probability[1]) - log(self.p.moves.probability[0])
            self.p.moves.authors = authors
            return
        self.needs_bins = optimal or move in ("local", "recut", "transpose")
        if move is not None:
            self.p.kernel = {"local": KERNEL_NODE, "perturb": KERNEL_PERTURB, "rotate": KERNEL_ROTATE,
                             "splice": KERNEL_SPLICE, "recut": KERNEL_RECUT, "transpose": KERNEL_TRANSPOSE,
                             "reroute": KERNEL_REROUTE}[move]
            self.p.node.subset, self.p.node.descend = subset, descend
            return
        self.p.kernel = KERNEL_PARTICLES
        self.p.particles.optimal = optimal
        self.p.particles.proposal.subset, self.p.particles.proposal.prior_share = subset, prior_share
        self.p.particles.subtree, self.p.particles.descend = subtree, descend
        self.p.particles.n_particles = n_particles
        self.p.particles.resampling = RESAMPLING.index(resampling)
        self.p.particles.ess_threshold = ess_threshold
        self.p.particles.forced = forced
        self.p.particles.max_stages = max_stages
        self.p.particles.clamped = clamped
        self.p.particles.authors = authors
        self.p.most_particles = max(n_particles, 1)

    cdef compose(self, tuple parts, upto):
        cdef KernelPlan part
        cdef int32_t k, n_kernels = 0, most = 0
        cdef Plan* copies = <Plan*>malloc(len(parts) * sizeof(Plan))
        if self.p.parts != NULL or copies == NULL:
            free(copies)
            raise MemoryError("no memory for a plan")
        self.plans, self.p.parts, self.p.n_parts = parts, copies, len(parts)
        memset(copies, 0, len(parts) * sizeof(Plan))
        for k, part in enumerate(parts):
            copies[k] = part.p
            copies[k].upto = 0.0 if upto is None else upto[k]
            n_kernels += part.p.most_kernels
            self.needs_bins |= part.needs_bins
            most = max(most, part.p.most_kernels)
            self.p.most_particles = max(self.p.most_particles, part.p.most_particles)
        self.p.kernel = CYCLE if upto is None else MIXTURE
        self.p.most_kernels = n_kernels if upto is None else most

    def __dealloc__(self):
        free(self.p.parts)
