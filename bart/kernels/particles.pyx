"""Particle Gibbs: conditional SMC over partial trees (algorithm 2 of the paper)."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from numpy.random cimport bitgen_t
from bart.kernels.adopt cimport adopt
from bart.kernels.columns cimport predicate_of
from bart.kernels.looks cimport begin_looks
from bart.kernels.moves cimport begin_info, leaf_can_split
from bart.kernels.optimal cimport log_optimal_ratio, propose_optimal
from bart.kernels.pool cimport Pool, PoolNode, pool_can_split, pool_pair, pool_reserve, pool_set_pair, pool_split
from bart.kernels.regions cimport draw_slot, load_region, push_split
from bart.kernels.resampling cimport draw_final, normalise, resample, wants_resampling
from bart.kernels.splits cimport propose_prior
from bart.kernels.tree cimport NONE, ROOT, Tree, is_leaf
from bart.kernels.types cimport (AT_MOST, CANCELLED, MOVE_PG, MUTANT, NO_MEMORY, OK, TOO_MANY_STAGES, Predicate, Stat,
                                 StepInfo)
from bart.kernels.workspace cimport (Particle, Target, Work, reserve_particles, reserve_queue,
                                     reserve_target, sum_leaves, sum_leaves_and_target)

cdef enum:
    STAGED = 1 << 30        # mark of a queue entry: costs a stage even where it cannot split ("authors")
    BATCH = 16              # root splits evaluated in one read of the target
    POLL = 20_000_000       # rows times particles between two looks for a signal


cdef int pop(Particle* particle, Work* work, bint authors) noexcept nogil:
    """Take the next eligible node. "authors" passes over unsplittable nodes that are not marked, without a stage."""
    cdef int32_t entry
    cdef PoolNode* p
    cdef bint skips = authors or (MUTANT(4) and particle != work.particles)
    particle.popped = NONE
    while particle.begin < particle.end:
        entry = particle.queue[particle.begin]
        if skips and not entry & STAGED:
            p = &work.pool.nodes[entry]
            if pool_can_split(entry, &work.pool, work.columns, work.ops) != OK:
                return NO_MEMORY
            if not p.can_split:
                particle.begin += 1
                continue
        particle.begin += 1
        particle.popped = entry
        return OK
    return OK


cdef int follow(Particle* particle, double* log_weight, Pool* pool, int32_t split) noexcept nogil:
    """Split the popped node: children become eligible; weight *= L(l) L(r) / L(eta), eq. (smcweight)."""
    cdef int32_t child = pool.splits[split].child
    particle.last_split = split
    if child == NONE:
        return OK
    if reserve_queue(particle, 2) != OK:
        return NO_MEMORY
    particle.queue[particle.end] = child
    particle.queue[particle.end + 1] = child + 1
    particle.end += 2
    if MUTANT(24) and pool.nodes[pool.splits[split].node].looks != NONE:
        return OK
    log_weight[0] += (pool.nodes[child].log_L + pool.nodes[child + 1].log_L
                      - pool.nodes[pool.splits[split].node].log_L)
    return OK


cdef void mark_children(Particle* particle, const Pool* pool, int32_t split, int32_t n_old) noexcept nogil:
    """Marks of the clamped particle's new entries: those of the old tree's leaves ("authors")."""
    cdef int32_t child = pool.splits[split].child, i
    if child == NONE:
        return
    for i in range(split + 1, n_old):                   # the history is ordered by node
        if pool.splits[i].node > child + 1:
            break
        if pool.splits[i].node >= child and pool.splits[i].child == NONE:
            particle.queue[particle.end - 2 + pool.splits[i].node - child] |= STAGED


cdef int replay(Work* work, int32_t n_old, const ParticleParams* params, const double* target,
                bitgen_t* rng) noexcept nogil:
    """The clamped particle takes its stored decision, weighted under the current target and sigma2."""
    cdef Particle* clamped = &work.particles[0]
    cdef int32_t split = clamped.last_split + 1, node, child    # its history comes first in the list
    cdef double log_ratio
    cdef bint splits
    if pop(clamped, work, params.authors) != OK:
        return NO_MEMORY
    if clamped.popped == NONE:
        return OK
    node = clamped.popped & ~STAGED
    splits = split < n_old and work.pool.splits[split].node == node
    clamped.decision.dim = NONE
    if splits and work.pool.splits[split].child != NONE:
        child = work.pool.splits[split].child
        clamped.decision.dim, clamped.decision.code = work.pool.nodes[child].dim, work.pool.nodes[child].code
    if params.optimal:
        if log_optimal_ratio(&log_ratio, node, &clamped.decision, work, &params.proposal, target, rng) != OK:
            return NO_MEMORY
        work.log_weight[0] += log_ratio
    if not splits:
        return OK
    if follow(clamped, &work.log_weight[0], &work.pool, split) != OK:
        return NO_MEMORY
    if params.authors:
        mark_children(clamped, &work.pool, split, n_old)
    return OK


cdef int propose(Work* work, int32_t first, const ParticleParams* params, const double* target,
                 bitgen_t* rng) noexcept nogil:
    """Every free particle with an eligible node pops it and draws stop or split from its proposal.

    log P / q of the decision joins the weight; it is 0 where decisions come from the prior.
    """
    cdef Particle* particle
    cdef int32_t c, node
    cdef double log_ratio
    for c in range(first, params.n_particles):
        particle = &work.particles[c]
        particle.decision.dim = NONE
        if pop(particle, work, params.authors) != OK:
            return NO_MEMORY
        if particle.popped == NONE:
            continue
        node = particle.popped & ~STAGED
        if not params.optimal:
            if propose_prior(&particle.decision, node, work, rng) != OK:
                return NO_MEMORY
            continue
        if propose_optimal(&particle.decision, &log_ratio, node, work, &params.proposal, target, rng) != OK:
            return NO_MEMORY
        work.log_weight[c] += log_ratio
    return OK


cdef void evaluate_root_splits(Work* work, int32_t first, int32_t n_particles, const double* target) noexcept nogil:
    """Statistics of the root splits of all particles, BATCH of them for each read of the target."""
    cdef Predicate[BATCH] where
    cdef int64_t[BATCH] n
    cdef double[BATCH] s
    cdef double[BATCH] w
    cdef int32_t[BATCH] particle
    cdef int32_t c, k, found = 0, child
    cdef Stat left
    for c in range(first, n_particles):
        if work.particles[c].decision.dim != NONE:
            where[found] = predicate_of(work.columns, work.particles[c].decision.dim,
                                        work.particles[c].decision.code, AT_MOST)
            particle[found] = c
            found += 1
        if found == BATCH or (c == n_particles - 1 and found > 0):
            work.ops.masked_sums(n, s, where, found, target, work.columns.n_rows)
            if work.weights != NULL:
                work.ops.masked_sums(n, w, where, found, work.weights, work.columns.n_rows)
            for k in range(found):
                left.n, left.w, left.s = n[k], n[k] if work.weights == NULL else w[k], s[k]
                child = pool_pair(&work.pool, 0, work.particles[particle[k]].decision.dim,
                                  work.particles[particle[k]].decision.code)
                pool_set_pair(&work.pool, child, left, &work.leaf)
                work.spare[particle[k]] = child
            found = 0


cdef int evaluate(Work* work, StepInfo* info, int32_t first, int32_t n_particles, bint authors,
                  const double* target) noexcept nogil:
    """Carry out the splits drawn in this stage, and record stops of marked nodes ("authors")."""
    cdef Particle* particle
    cdef int32_t c, child, split
    cdef bint at_root = info.n_stages == 1 and work.region == 0
    if pool_reserve(&work.pool, 2 * n_particles, n_particles) != OK:
        return NO_MEMORY
    if at_root:
        evaluate_root_splits(work, first, n_particles, target)
    for c in range(first, n_particles):
        particle = &work.particles[c]
        if particle.popped == NONE:
            continue
        if particle.decision.dim == NONE:
            if particle.popped & STAGED:
                particle.last_split = push_split(&work.pool, particle.last_split, particle.popped & ~STAGED, NONE)
            continue
        info.row_visits += work.pool.nodes[particle.popped & ~STAGED].stat.n
        if at_root:
            child = work.spare[c]
        elif pool_split(&child, &work.pool, particle.popped & ~STAGED, particle.decision.dim, particle.decision.code,
                        target, work.columns, &work.leaf, work.ops) != OK:
            return NO_MEMORY
        split = push_split(&work.pool, particle.last_split, particle.popped & ~STAGED, child)
        if follow(particle, &work.log_weight[c], &work.pool, split) != OK:
            return NO_MEMORY
    return OK


cdef bint all_finished(const Work* work, int32_t first, int32_t n_particles, bint authors) noexcept nogil:
    """Whether every queue is empty. "authors": a free particle that acted in this stage is finished a stage later."""
    cdef int32_t c
    cdef bint late = authors or MUTANT(3)
    for c in range(n_particles):
        if work.particles[c].begin < work.particles[c].end and (not late or c < first):
            return False
        if late and c >= first and work.particles[c].popped != NONE:
            return False
    return True


cdef int copy_particle(Particle* to, const Particle* source) noexcept nogil:
    """Copy by sharing: the waiting entries and one number; node data stay in the pool."""
    cdef int32_t n = source.end - source.begin
    to.begin = to.end = 0
    if reserve_queue(to, n) != OK:
        return NO_MEMORY
    if n > 0:
        memcpy(to.queue, source.queue + source.begin, n * sizeof(int32_t))
    to.end = n
    to.last_split = source.last_split
    to.popped = source.popped
    return OK


cdef int take_offspring(Work* work, int32_t n_particles, bint authors) noexcept nogil:
    """Replace the particles by their ancestors; afterwards all weights are equal."""
    cdef int32_t c, k
    cdef Particle swapped
    for c in range(n_particles):
        if work.ancestor[c] != c:
            if copy_particle(&work.offspring[c], &work.particles[work.ancestor[c]]) != OK:
                return NO_MEMORY
            if authors and work.ancestor[c] == 0:
                for k in range(work.offspring[c].end):
                    work.offspring[c].queue[k] |= STAGED
    for c in range(n_particles):
        if work.ancestor[c] != c:
            swapped = work.particles[c]
            work.particles[c] = work.offspring[c]
            work.offspring[c] = swapped
        if not MUTANT(10):
            work.log_weight[c] = 0.0
    return OK


_raised = []            # what a signal's handler raised within a step, until the step has ended


def take_raised():
    """The exception to raise for a step that was given up: that of a signal's handler, or KeyboardInterrupt."""
    return _raised.pop() if _raised else KeyboardInterrupt()


cdef bint signal_pending() noexcept with gil:
    """Let Python handle a signal that has come in (Ctrl-C on the main thread); True if its handler raised."""
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        _raised.append(error)
        return True
    return False


cdef int run_stages(Work* work, StepInfo* info, const Tree* tree, int32_t n_old, const double* target,
                    const ParticleParams* params, bitgen_t* rng) noexcept nogil:
    """All stages of the conditional particle filter; on return the particles are complete and weighted."""
    cdef int32_t first = 1 if params.clamped else 0, n = params.n_particles, c
    cdef int64_t visited = 0
    for c in range(n):
        work.particles[c].begin = work.particles[c].end = 0
        if reserve_queue(&work.particles[c], 2) != OK:
            return NO_MEMORY
        work.particles[c].queue[0] = work.region
        work.particles[c].end = 1
        work.particles[c].last_split = NONE
        work.log_weight[c] = 0.0
    if params.authors and params.clamped and tree.n_nodes == 1 and tree.nodes[ROOT].staged:
        work.particles[0].queue[0] |= STAGED
    while True:
        visited += work.columns.n_rows * <int64_t>n
        if visited > POLL and info.n_stages > 0:
            visited = 0
            if signal_pending():
                return CANCELLED
        if work.cancel:
            return CANCELLED
        if params.max_stages > 0 and info.n_stages >= params.max_stages:
            return TOO_MANY_STAGES
        info.n_stages += 1
        if first and replay(work, n_old, params, target, rng) != OK:
            return NO_MEMORY
        if (propose(work, first, params, target, rng) != OK
                or evaluate(work, info, first, n, params.authors, target) != OK):
            return NO_MEMORY
        if all_finished(work, first, n, params.authors):
            break
        normalise(work.weight, work.log_weight, n)
        if wants_resampling(work.weight, n, params.ess_threshold):
            resample(work.ancestor, work.spare, work.weight, n, params.resampling, params.clamped, rng)
            if take_offspring(work, n, params.authors) != OK:
                return NO_MEMORY
    normalise(work.weight, work.log_weight, n)
    return OK


cdef int step_particles(Tree* tree, Work* work, StepInfo* info, const Target* target, const ParticleParams* params,
                        bitgen_t* rng) noexcept nogil:
    """One particle Gibbs update of a tree (algorithm 2) or of a subtree: particle 0 clamped to it, the new one drawn by
    weight. With `clamped` false, an unconditional particle filter whose result replaces the tree."""
    cdef int32_t n_old, chosen, top = ROOT
    cdef const double* values
    cdef int status
    begin_info(info, MOVE_PG)
    if reserve_target(work) != OK or reserve_particles(work, params.n_particles) != OK:
        return NO_MEMORY
    if params.subtree:
        top = draw_slot(tree, params.descend, rng)
    if top == NONE or (params.clamped and params.n_particles == 1):
        sum_leaves(work, tree, target)
        return OK
    if params.subtree and is_leaf(tree, top) and not leaf_can_split(tree, top, work):
        sum_leaves(work, tree, target)
        return OK
    values = sum_leaves_and_target(work, tree, target)
    if load_region(&n_old, work, info, tree, top, params.clamped) != OK:
        return NO_MEMORY
    if params.optimal:
        begin_looks(work, values)
        work.n_shared = 0
        work.visits = 0
    status = run_stages(work, info, tree, n_old, values, params, rng)
    if status != OK:
        return status
    if params.optimal:
        info.row_visits += work.visits
    chosen = draw_final(work.weight, params.n_particles, params.forced, rng)
    if chosen == 0 and params.clamped:
        return OK
    return adopt(tree, work, info, top, work.particles[chosen].last_split, params.authors)
