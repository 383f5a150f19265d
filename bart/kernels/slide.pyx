"""Slide: the cut of a rule drawn anew among its neighbours, leaf values as they are."""

from libc.math cimport INFINITY, exp, isnan, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport (Columns, count_surely_valid, gap_at, log_stop_at, place_of_gap, predicate_of,
                                   rows_upto)
from bart.kernels.moves cimport accept
from bart.kernels.nodeset cimport MAX_PREDICATES, NodeSet, add_rule, node_can_split, prefer_rows
from bart.kernels.rng cimport below, bitgen_of, uniform
from bart.kernels.rowops cimport LANES
from bart.kernels.splits cimport log_rule
from bart.kernels.state cimport TreeState, check_status
from bart.kernels.subtrees cimport list_internal
from bart.kernels.tree cimport NONE, Node, Tree, breadth_first, is_leaf, is_prunable
from bart.kernels.types cimport ABOVE, AT_MOST, MUTANT, put_at, value_at
from bart.kernels.workspace cimport Work, reserve_leaves

cdef enum:
    MOST_GAPS = 64          # of a window
    MANY = 1000             # rows that a window of more than two gaps holds at most, about

# A node whose cut slides, and what does not change while it does.
cdef struct Slid:
    Tree* tree
    Work* work
    int32_t node
    bint prunable
    double* r               # (n_rows,): the residual of all trees
    const double* weights   # of the rows; NULL: all 1
    double half_precision   # t / (2 sigma2)
    int32_t least_gaps      # of a window
    int64_t least_rows
    uint32_t* listed        # (n_rows + LANES,): scratch for the rows of a node
    const uint32_t* rows    # (n_rows,): ascending by code of the node's column


cdef inline int32_t reached(const Tree* tree, int32_t node, const Columns* columns, int64_t row) noexcept nogil:
    """The leaf where a row ends that enters a subtree."""
    cdef const Node* p = &tree.nodes[node]
    while p.left != NONE:
        node = p.left + (value_at(columns.codes, columns.itemsize, p.dim * columns.n_rows + row) > p.code)
        p = &tree.nodes[node]
    return node


cdef int32_t first_leaf(const Tree* tree, int32_t node) noexcept nogil:
    """Mutant 79: where no row is asked."""
    while tree.nodes[node].left != NONE:
        node = tree.nodes[node].left
    return node


cdef void mark_sides(Slid* s) noexcept nogil:
    """work.mapped[leaf number] = the node's child above that leaf, NONE if it is elsewhere."""
    cdef Tree* tree = s.tree
    cdef int32_t child, n, i
    for i in range(tree.n_leaves):
        s.work.mapped[i] = NONE
    for child in range(tree.nodes[s.node].left, tree.nodes[s.node].left + 2):
        n = breadth_first(tree, child, s.work.order)
        for i in range(n):
            if is_leaf(tree, s.work.order[i]):
                s.work.mapped[tree.nodes[s.work.order[i]].leaf] = child


cdef double sum_change(int64_t* n_crossing, const Slid* s, const uint32_t* rows, int64_t n, int32_t source,
                       int32_t to) noexcept nogil:
    """Sum of w (r_new^2 - r^2) over those of n rows that are below one child, if they went to the other."""
    cdef const Tree* tree = s.tree
    cdef const Columns* columns = s.work.columns
    cdef const int32_t* side = s.work.mapped
    cdef const double* r = s.r
    cdef int64_t i, row, found = 0
    cdef uint32_t label
    cdef int32_t leaf
    cdef double delta, total = 0.0, change
    for i in range(n):
        row = rows[i]
        label = value_at(tree.labels, tree.itemsize, row)
        if side[label] == source:
            leaf = first_leaf(tree, to) if MUTANT(79) else reached(tree, to, columns, row)
            delta = tree.nodes[tree.leaf_node[label]].value - tree.nodes[leaf].value
            change = delta * (2.0 * r[row] + delta)
            total += change if s.weights == NULL else s.weights[row] * change
            found += 1
    n_crossing[0] = found
    return total


cdef double sum_change_of_leaves(int64_t* n_crossing, const Slid* s, const uint32_t* rows, int64_t n, int32_t source,
                                 int32_t to) noexcept nogil:
    """`sum_change` between two leaves, where w (r_new^2 - r^2) = delta (2 w r + w delta) with the same delta for all."""
    cdef const Tree* tree = s.tree
    cdef int64_t i, row, found = 0
    cdef uint32_t leaf = tree.nodes[source].leaf
    cdef double delta = tree.nodes[source].value - tree.nodes[to].value, of_r = 0.0, of_w = 0.0, held
    cdef const uint8_t* labels = <const uint8_t*>tree.labels
    cdef const double* r = s.r
    if tree.itemsize == 1 and s.weights == NULL:
        for i in range(n):
            row = rows[i]
            found += labels[row] == leaf
            of_r += r[row] * <double>(labels[row] == leaf)
        of_w = found
    else:
        for i in range(n):
            row = rows[i]
            if value_at(tree.labels, tree.itemsize, row) == leaf:
                held = 1.0 if s.weights == NULL else s.weights[row]
                found += 1
                of_r += held * r[row]
                of_w += held
    n_crossing[0] = found
    return delta * (2.0 * of_r + delta * of_w)


cdef double cross(int64_t* n_crossing, const Slid* s, int32_t gap, int32_t source, int32_t to) noexcept nogil:
    """Change of the log-likelihood as the rows between two neighbouring gaps, `gap` the lower one, change sides."""
    cdef int32_t dim = s.tree.nodes[s.node].dim
    cdef int64_t start = rows_upto(s.work.columns, dim, gap), n = rows_upto(s.work.columns, dim, gap + 1) - start
    cdef const uint32_t* rows = s.rows + start
    if s.prunable:
        return -s.half_precision * sum_change_of_leaves(n_crossing, s, rows, n, source, to)
    return -s.half_precision * sum_change(n_crossing, s, rows, n, source, to)


cdef int32_t draw_gap(const Slid* s, int32_t old, bitgen_t* rng) noexcept nogil:
    """A gap by its full conditional (but for what hangs below) within a window of neighbours of the old one.

    A window of w gaps holds the old one at a uniform place, so that it has probability 1 / w given any of its members.
    Gaps of the column without mass do not count. A gap with all rows of the node on one side has weight 0.
    """
    cdef const Columns* columns = s.work.columns
    cdef const Node* p = &s.tree.nodes[s.node]
    cdef const double* mass = columns.mass[p.dim]
    cdef uint32_t code
    cdef int32_t n_gaps = columns.n_gaps[p.dim], width, first, low = old, high = old, gap, last, drawn
    cdef double[MOST_GAPS] weight
    cdef double change, top = 0.0, total = 0.0, all_mass, share, at
    cdef int64_t left, n_crossing
    width = <int32_t>min(<int64_t>MOST_GAPS, max(<int64_t>s.least_gaps, s.least_rows * n_gaps // columns.n_rows))
    width = <int32_t>min(<int64_t>width, max(<int64_t>2, <int64_t>MANY * n_gaps // columns.n_rows))
    first = old - (0 if MUTANT(74) else <int32_t>below(width, rng))
    last = min(first + width, n_gaps) - 1
    first = max(first, 0)
    weight[old - first] = 0.0
    change, left = 0.0, s.tree.nodes[p.left + 1].n
    while high < last:
        change += cross(&n_crossing, s, high, p.left + 1, p.left)
        left -= n_crossing
        if left == 0:
            break
        high += 1
        weight[high - first] = change
        top = max(top, change)
    change, left = 0.0, s.tree.nodes[p.left].n
    while low > first:
        change += cross(&n_crossing, s, low - 1, p.left, p.left + 1)
        left -= n_crossing
        if left == 0:
            break
        low -= 1
        weight[low - first] = change
        top = max(top, change)
    all_mass = mass[gap_at(columns, p.dim, high) + 1] - mass[gap_at(columns, p.dim, low)]   # masses may be subnormal
    for gap in range(low, high + 1):
        code = gap_at(columns, p.dim, gap)
        share = 1.0 if MUTANT(76) else (mass[code + 1] - mass[code]) / all_mass
        weight[gap - first] = exp(weight[gap - first] - top) * share
        total += weight[gap - first]
    at = uniform(rng) * total
    drawn = old                                 # stays where rounding leaves nothing else
    for gap in range(low, high + 1):
        if weight[gap - first] > 0:
            drawn = gap
            at -= weight[gap - first]
            if at < 0:
                break
    return drawn


cdef void count_crossing(const Slid* s, const uint32_t* rows, int64_t n, int32_t source, int32_t to,
                         int64_t by) noexcept nogil:
    """Take rows from the counts of all nodes they leave and add them to those they enter (by = 1), or the reverse."""
    cdef Tree* tree = s.tree
    cdef int64_t i
    cdef uint32_t label
    cdef int32_t node
    for i in range(n):
        label = value_at(tree.labels, tree.itemsize, rows[i])
        if s.work.mapped[label] != source:
            continue
        node = tree.leaf_node[label]
        while node != s.node:
            tree.nodes[node].n -= by
            node = tree.nodes[node].parent
        node = reached(tree, to, s.work.columns, rows[i])
        while node != s.node:
            tree.nodes[node].n += by
            node = tree.nodes[node].parent


cdef NodeSet rows_of(const Tree* tree, int32_t node, const Slid* s) noexcept nogil:
    """A node's rows as its path says, whatever the labels; listed where many columns may have to be asked of few."""
    cdef const Columns* columns = s.work.columns
    cdef NodeSet rows
    cdef int32_t parent = tree.nodes[node].parent
    rows.rows = NULL
    rows.n = tree.nodes[node].n
    rows.n_where = 0
    while parent != NONE:
        add_rule(&rows, predicate_of(columns, tree.nodes[parent].dim, tree.nodes[parent].code,
                                     AT_MOST if node == tree.nodes[parent].left else ABOVE))
        node, parent = parent, tree.nodes[parent].parent
    if (prefer_rows(rows.n, rows.n_where, columns.n_rows)
            and count_surely_valid(columns, rows.n) + 1 < columns.n_candidates):
        s.work.ops.select(s.listed, rows.where, rows.n_where, columns.n_rows)
        rows.rows, rows.n_where = s.listed, 0
    return rows


cdef double log_prior_below(double* term, const Slid* s, bint known) noexcept nogil:
    """log prior of what hangs below the node under the rules and counts now in the tree; -inf where it has none, as
    with an empty leaf.

    term[node]: of an internal node log_rule, of a leaf can_split; where they are known, they are the tree's own, and
    are kept with it if they had to be found.
    """
    cdef Tree* tree = s.tree
    cdef const Columns* columns = s.work.columns
    cdef int32_t n = breadth_first(tree, s.node, s.work.order), i, node
    cdef Node* p
    cdef NodeSet rows
    cdef double total = 0.0
    for i in range(1, n):
        if tree.nodes[s.work.order[i]].n == 0:
            return -INFINITY
    for i in range(1, n):
        node = s.work.order[i]
        p = &tree.nodes[node]
        term[node] = p.log_rule if p.left != NONE else p.can_split
        if not known or (isnan(p.log_rule) if p.left != NONE else p.can_split < 0):
            rows = rows_of(tree, node, s)
            term[node] = (log_rule(&rows, p.dim, p.code, s.work) if p.left != NONE
                          else node_can_split(&rows, columns, s.work.ops))
            if known:
                keep_term(p, term[node])
            elif term[node] == -INFINITY:
                return -INFINITY
        total += term[node] if p.left != NONE else log_stop_at(columns, p.depth, term[node] > 0)
    return total


cdef void keep_term(Node* p, double term) noexcept nogil:
    if p.left != NONE:
        p.log_rule = term
    else:
        p.can_split = term > 0


cdef void move_rows(const Slid* s, const uint32_t* rows, int64_t n, int32_t source, int32_t to) noexcept nogil:
    """Labels and residual of the rows that change sides."""
    cdef Tree* tree = s.tree
    cdef int64_t i, row
    cdef uint32_t label
    cdef const Node* leaf
    for i in range(n):
        row = rows[i]
        label = value_at(tree.labels, tree.itemsize, row)
        if s.work.mapped[label] != source:
            continue
        leaf = &tree.nodes[reached(tree, to, s.work.columns, row)]
        if not MUTANT(77):
            s.r[row] += tree.nodes[tree.leaf_node[label]].value - leaf.value
        put_at(tree.labels, tree.itemsize, row, leaf.leaf)


cdef void slide_node(Slid* s, bitgen_t* rng) noexcept nogil:
    """A new cut for one node, given all leaf values: `draw_gap`, then accepted with

        ratio of the priors of what hangs below: U(dim) U(code | dim) of rules, 1 - p_s of leaves.

    The rule's own prior changes by the mass of its gap alone, as the node's rows stay.
    """
    cdef const Columns* columns = s.work.columns
    cdef Node* p = &s.tree.nodes[s.node]
    cdef uint32_t code = p.code
    cdef int32_t old = place_of_gap(columns, p.dim, code), gap, source, to, i, n
    cdef double* term = s.work.lanes
    cdef double before, after
    cdef const uint32_t* rows
    cdef int64_t n_between
    s.rows = columns.sorted_rows + <int64_t>p.dim * columns.n_rows
    s.prunable = is_prunable(s.tree, s.node)
    mark_sides(s)
    gap = draw_gap(s, old, rng)
    if gap == old:
        return
    rows = s.rows + rows_upto(columns, p.dim, min(gap, old))
    n_between = rows_upto(columns, p.dim, max(gap, old)) - rows_upto(columns, p.dim, min(gap, old))
    source = p.left + (gap > old)
    to = 2 * p.left + 1 - source
    before = log_prior_below(term, s, True)
    p.code = gap_at(columns, p.dim, gap)
    count_crossing(s, rows, n_between, source, to, 1)
    after = log_prior_below(term, s, False)
    if accept(0.0 if MUTANT(75) and after > -INFINITY else after - before, rng):
        move_rows(s, rows, n_between, source, to)
        n = breadth_first(s.tree, s.node, s.work.order)
        for i in range(1, n):
            keep_term(&s.tree.nodes[s.work.order[i]], term[s.work.order[i]])
        p.log_rule += log_mass(columns, p.dim, p.code) - log_mass(columns, p.dim, code)     # unknown, it stays so
    else:
        count_crossing(s, rows, n_between, source, to, -1)
        p.code = code


cdef double log_mass(const Columns* columns, int32_t dim, uint32_t code) noexcept nogil:
    return log(columns.mass[dim][code + 1] - columns.mass[dim][code])


cdef bint is_deep(const Tree* tree, int32_t node, int32_t* order) noexcept nogil:
    """Whether a path to a node of the subtree is too long for a NodeSet; no slide changes that."""
    cdef int32_t n = breadth_first(tree, node, order)
    return tree.nodes[order[n - 1]].depth > MAX_PREDICATES      # breadth first the deepest comes last


cdef void slide_tree(Slid* s, bitgen_t* rng) noexcept nogil:
    """Each rule of a tree in turn, breadth first."""
    cdef int32_t n = list_internal(s.work.listed, s.tree, s.work.order), i
    for i in range(n):
        s.node = s.work.listed[i]
        if not is_deep(s.tree, s.node, s.work.order):
            slide_node(s, rng)


def slide_cuts(states, double[::1] residual, double sigma2, rng, int n_gaps, int n_rows):
    """Slide the cut of every rule of all trees over the same rows, tree after tree; see bart.Slide.

    Parameters
    ----------
    states : list of TreeState
        Of one Workspace; changed in place, leaf values apart.
    residual : (N,) float64
        y minus all trees; changed in place.
    sigma2 : float
        Noise variance over temperature.
    rng : numpy.random.Generator
    n_gaps, n_rows : int
        Gaps in a window; more where so many hold fewer rows than n_rows, about.
    """
    cdef bitgen_t* bits = bitgen_of(rng)
    cdef int32_t n_trees = len(states), j
    cdef TreeState state = states[0]
    cdef Slid s
    cdef Tree** trees = <Tree**>malloc(n_trees * sizeof(Tree*))
    s.listed = <uint32_t*>malloc((residual.shape[0] + LANES) * sizeof(uint32_t))
    try:
        if trees == NULL or s.listed == NULL:
            raise MemoryError("no memory to slide cuts")
        state.domain.make_order()
        s.work = &state.workspace.w
        s.r, s.half_precision = &residual[0], 0.5 / sigma2
        s.least_gaps, s.least_rows = n_gaps, n_rows
        s.weights = NULL if MUTANT(78) else s.work.weights
        for j in range(n_trees):
            trees[j] = &(<TreeState>states[j]).t
            check_status(reserve_leaves(s.work, trees[j].n_leaves + 1))
        with nogil:
            for j in range(n_trees):
                s.tree = trees[j]
                slide_tree(&s, bits)
    finally:
        free(trees)
        free(s.listed)
