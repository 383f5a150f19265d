"""Reroute: a cut moves past a few rows, and the leaf that held them goes, or one comes for them.

A cut on the wrong side of one row costs a leaf below, which holds that row; and the cut cannot be put right while the
leaf is there, which would be empty, nor can the leaf go while the row is there. Reroute does both in one step.

A uniform internal node v and an even direction; its cut passes r of the distinct values that its rows have on that
side, r geometric, and falls by its prior between the last of them and the next, into the cell of the new cut. Let Q be
the rows that change sides.

- absorb: Q takes all rows of one leaf. The leaf goes with its parent, whose place its sibling takes.
- Q empties no leaf, in one case of two. shift: that is all. shed: a node comes at a place uniform among those of the
  side where Q arrives, with a rule from the prior given the rows there, one side of which must hold rows of Q alone;
  a leaf takes these, and what was at the place the others.
- Q empties several leaves: nothing happens.

The way back passes the same values. After a shed it empties the new leaf and no other, as all others hold rows that
were there before; after an absorb or a shift it empties none. So absorb undoes shed, and with I internal nodes before
the move and n nodes on the side where Q arrives,

    log ratio of shed  = log posterior ratio of v's subtree, but for the priors of its rule and of the new one
                         + log 2 n I / (I + 1) + log (mass of the new cell / mass of the old one),
    log ratio of shift = the same without the second term.

The prior of v's rule and the draw of its code leave the ratio of the cells: v keeps its rows. A step costs a pass over
these, and where something is tried what a splice at v costs.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport column_of, mass_between
from bart.kernels.moves cimport begin_info
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.pool cimport pool_make_rows, pool_reserve, pool_set, pool_split
from bart.kernels.rng cimport below
from bart.kernels.splice cimport Splice, try_splice
from bart.kernels.splits cimport draw_code, draw_rule
from bart.kernels.subtrees cimport list_internal, load_path, rule_of, sum_region, try_rule
from bart.kernels.tree cimport NONE, Tree, breadth_first
from bart.kernels.types cimport (MOVE_ABSORB, MOVE_SHED, MOVE_SHIFT, MUTANT, NO_MEMORY, OK, Decision, StepInfo,
                                 value_at)
from bart.kernels.workspace cimport Target, Work, reserve_target, sum_leaves, sum_leaves_and_target

cdef enum:
    MOST = 8                # values that a cut passes at most

# The way of a cut.
cdef struct Way:
    int32_t top             # v
    Decision rule           # its present rule
    bint rises              # rows go from its right child to the left one
    uint32_t last           # the value passed last
    uint32_t low            # the new cell's codes: low <= code < high
    uint32_t high
    double log_cells        # log of the new cell's mass over the old one's
    int32_t leaf            # a leaf that loses all of its rows; NONE
    int32_t n_emptied       # how many do


cdef inline bint is_nearer(uint32_t a, uint32_t b, bint rises) noexcept nogil:
    return a < b if rises else a > b


cdef inline bint passes(const Way* way, uint32_t code) noexcept nogil:
    """Whether the cut passes a value."""
    if way.rises:
        return way.rule.code < code and code <= way.last
    return way.last <= code and code <= way.rule.code


cdef int32_t put_value(uint32_t* found, int32_t n, int32_t most, uint32_t code, bint rises) noexcept nogil:
    """Keep the nearest distinct values, in their order; how many there are now."""
    cdef int32_t k = n, i
    if n == most and not is_nearer(code, found[n - 1], rises):
        return n
    while k > 0 and is_nearer(code, found[k - 1], rises):
        k -= 1
    if k > 0 and found[k - 1] == code:
        return n
    n = min(n + 1, most)
    for i in range(n - 1, k, -1):
        found[i] = found[i - 1]
    found[k] = code
    return n


cdef bint find_cells(Way* way, const NodeSet* rows, int32_t r, Work* work) noexcept nogil:
    """The cells of the old cut and of the new one, r values on; False where no row, or no mass, lies beyond."""
    cdef const void* column = column_of(work.columns, way.rule.dim)
    cdef uint32_t[MOST + 1] ahead
    cdef uint32_t[1] behind
    cdef uint32_t c, low, high
    cdef int32_t n_ahead = 0, n_behind = 0
    cdef int64_t i
    for i in range(rows.n):
        c = value_at(column, work.columns.itemsize, rows.rows[i])
        if (c > way.rule.code) == way.rises:
            n_ahead = put_value(ahead, n_ahead, r + 1, c, way.rises)
        else:
            n_behind = put_value(behind, n_behind, 1, c, not way.rises)
    if n_ahead <= r:
        return False
    way.last = ahead[r - 1]
    low, high = (behind[0], ahead[0]) if way.rises else (ahead[0], behind[0])
    way.low, way.high = (ahead[r - 1], ahead[r]) if way.rises else (ahead[r], ahead[r - 1])
    if mass_between(work.columns, way.rule.dim, way.low, way.high) <= 0:
        return False
    way.log_cells = (log(mass_between(work.columns, way.rule.dim, way.low, way.high))
                     - log(mass_between(work.columns, way.rule.dim, low, high)))
    return True


cdef void find_emptied(Way* way, const NodeSet* rows, Work* work, const Tree* tree) noexcept nogil:
    """The leaves all of whose rows change sides."""
    cdef const void* column = column_of(work.columns, way.rule.dim)
    cdef int32_t* n_gone = work.mapped                      # by leaf number
    cdef int32_t node
    cdef int64_t i
    cdef uint32_t leaf
    for leaf in range(tree.n_leaves):
        n_gone[leaf] = 0
    way.leaf, way.n_emptied = NONE, 0
    for i in range(rows.n):
        if passes(way, value_at(column, work.columns.itemsize, rows.rows[i])):
            leaf = value_at(tree.labels, tree.itemsize, rows.rows[i])
            n_gone[leaf] += 1
            node = tree.leaf_node[leaf]
            if n_gone[leaf] == tree.nodes[node].n:
                way.leaf = node
                way.n_emptied += 1


cdef int draw_way(bint* found, Way* way, Tree* tree, Work* work, bitgen_t* rng) noexcept nogil:
    """Draw a node, a direction, and how far the cut goes; False where there is no such way. The node's rows are then a
    list of the pool's region."""
    cdef int32_t n = list_internal(work.listed, tree, work.order), r = 1
    cdef NodeSet rows
    found[0] = n > 0
    if not found[0]:
        return OK
    way.top = work.listed[below(n, rng)]
    way.rule = rule_of(&tree.nodes[way.top])
    way.rises = below(2, rng) == 1
    while r < MOST and below(2, rng) == 1:
        r += 1
    if (load_path(&work.region, work, tree, way.top) != OK
            or pool_make_rows(&work.pool, work.region, work.columns, work.ops) != OK):
        return NO_MEMORY
    pool_set(&rows, &work.pool, work.region, work.columns)
    found[0] = find_cells(way, &rows, r, work)
    if found[0]:
        find_emptied(way, &rows, work, tree)
    return OK


cdef double log_ways(int32_t n_internal, int32_t n_places) noexcept nogil:
    """log of the draws that undo a shed over those that make it, from a tree of so many internal nodes."""
    return log(2.0 * n_places * (1.0 if MUTANT(41) else n_internal / (n_internal + 1.0)))


cdef int load_place(int32_t* place_in_pool, Work* work, const Tree* tree, const Splice* splice,
                    const double* target) noexcept nogil:
    """Split the pool from the top to the place, the top by its new code, and leave room for the old subtree."""
    cdef int32_t n = tree.nodes[splice.place].depth - tree.nodes[splice.top].depth, k, node = splice.place
    cdef int32_t in_pool = work.region, child, parent
    cdef uint32_t code
    for k in range(n - 1, -1, -1):
        work.order[k] = node
        node = tree.nodes[node].parent
    for k in range(n):
        parent = tree.nodes[work.order[k]].parent
        code = splice.code if k == 0 else tree.nodes[parent].code
        if pool_split(&child, &work.pool, in_pool, tree.nodes[parent].dim, code, target, work.columns, &work.leaf,
                      work.ops) != OK:
            return NO_MEMORY
        in_pool = child + work.order[k] - tree.nodes[parent].left
    place_in_pool[0] = in_pool
    return pool_reserve(&work.pool, tree.n_nodes, 0)


cdef int32_t side_of_arrivals(const Way* way, const Splice* splice, const NodeSet* rows, Work* work) noexcept nogil:
    """The side of the new rule that takes none but rows that change sides; NONE if both take others."""
    cdef const void* upper = column_of(work.columns, way.rule.dim)
    cdef const void* column = column_of(work.columns, splice.rule.dim)
    cdef int64_t i
    cdef bint[2] taken
    taken[0] = taken[1] = False
    for i in range(rows.n):
        if not passes(way, value_at(upper, work.columns.itemsize, rows.rows[i])):
            taken[value_at(column, work.columns.itemsize, rows.rows[i]) > splice.rule.code] = True
    if taken[0] and taken[1]:
        return NONE
    return taken[0]


cdef int shed(Tree* tree, Work* work, StepInfo* info, const double* values, Splice* splice, const Way* way,
              bitgen_t* rng) noexcept nogil:
    """A leaf comes for rows that arrive."""
    cdef int32_t n = breadth_first(tree, tree.nodes[way.top].left + 1 - way.rises, work.order), in_pool
    cdef NodeSet rows                                   # a list, as those of the region
    info.move = MOVE_SHED
    splice.inserts = True
    splice.place = splice.kept = work.order[below(n, rng)]
    sum_region(work, tree, splice.top, work.region)
    if load_place(&in_pool, work, tree, splice, values) != OK:
        return NO_MEMORY
    pool_set(&rows, &work.pool, in_pool, work.columns)
    if not draw_rule(&splice.rule, &rows, work, rng):
        return OK
    info.row_visits = rows.n
    splice.side = side_of_arrivals(way, splice, &rows, work)
    if splice.side == NONE:
        return OK
    return try_splice(tree, work, info, values, splice,
                      log_ways(tree.n_leaves - 1, n + 2 if MUTANT(42) else n) + way.log_cells, rng)


cdef int absorb(Tree* tree, Work* work, StepInfo* info, const double* values, Splice* splice, const Way* way,
                bitgen_t* rng) noexcept nogil:
    """The leaf that loses its rows goes."""
    cdef int32_t n = breadth_first(tree, tree.nodes[way.top].left + way.rises, work.order)
    info.move = MOVE_ABSORB
    splice.inserts = False
    splice.place = tree.nodes[way.leaf].parent
    splice.kept = 2 * tree.nodes[splice.place].left + 1 - way.leaf
    return try_splice(tree, work, info, values, splice, way.log_cells - log_ways(tree.n_leaves - 2, n - 2), rng)


cdef int step_reroute(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Shift, shed or absorb, as the rows that change sides have it."""
    cdef Way way
    cdef Splice splice
    cdef Decision rule
    cdef const double* values
    cdef bint found
    begin_info(info, MOVE_SHIFT)
    if reserve_target(work) != OK or draw_way(&found, &way, tree, work, rng) != OK:
        return NO_MEMORY
    if not found:
        sum_leaves(work, tree, target)
        return OK
    rule = way.rule
    rule.code = splice.code = draw_code(way.low, way.high, work.columns, rule.dim, rng)
    if way.n_emptied > 1:
        sum_leaves(work, tree, target)
        return OK
    if MUTANT(43):
        way.log_cells = 0.0
    splice.top = way.top
    values = sum_leaves_and_target(work, tree, target)
    if way.n_emptied == 1:
        return absorb(tree, work, info, values, &splice, &way, rng)
    if below(2, rng) == 1:
        return shed(tree, work, info, values, &splice, &way, rng)
    return try_rule(tree, work, info, values, way.top, work.region, rule, False, way.log_cells, rng)
