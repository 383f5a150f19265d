"""Scratch of one chain: allocated once, grown geometrically, reused by every step."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from bart.kernels.columns cimport Columns, Domain
from bart.kernels.pool cimport Pool
from bart.kernels.rowops cimport CutLeaf, RowOps
from bart.kernels.suffstat cimport LeafParams
from bart.kernels.tree cimport Node, Tree
from bart.kernels.types cimport Decision

# What a step conditions on, besides the tree.
cdef struct Target:
    const double* base      # (n_rows,)
    const double* weighted  # base times the rows' weights, set by `weigh_target`; base itself where they have none
    bint is_residual        # base is y minus ALL trees: the target is base + this tree's leaf values

cdef struct Particle:
    int32_t* queue          # eligible nodes E, pool numbers in FIFO order; [begin, end) are waiting. Bookkeeping
                            # "authors" marks an entry by the bit STAGED
    int32_t begin
    int32_t end
    int32_t capacity
    int32_t last_split      # newest split of its chain in the pool; NONE for a stump
    Decision decision       # of this stage
    int32_t popped          # entry of this stage; NONE if its queue was empty

# One column of a node, looked at: the node's range, its histogram, and the weights of the cells within the range.
cdef struct Look:
    bint has_range
    bint valid              # the column has a valid split in the node
    bint has_sums
    bint has_weights
    uint32_t low            # extreme codes of the node's rows
    uint32_t high
    int32_t first           # first cell that meets the range
    int32_t n_cells         # cells that do
    double mass             # prior mass of the range
    double total            # sum of the cells' weights, mass L(l) L(r) / L(eta), times exp(-top)
    double top

# The columns looked at in one step; look k has its histogram and weights at k * n_bins.
cdef struct Looks:
    int32_t n_nodes         # rows of `table` in use
    int32_t node_capacity
    int32_t* table          # (node_capacity, n_dims): look of a node and column, or NONE
    int32_t n
    int32_t capacity
    Look* look
    int64_t* sums           # (capacity, n_bins), packed as RowOps.histogram has them
    int64_t* weight_sums    # (capacity, n_bins), the same of the rows' weights; NULL where they have none
    double* weight          # (capacity, n_bins)
    double scale            # the target's integer is its product with scale
    double weight_scale     # the same of the weights
    double most             # the largest such integer
    int32_t shift           # a row counts as 1 << shift

# A leaf below a rule that is weighed anew: the pool node of its rows if the rule sent all of them to its side.
cdef struct Claim:
    int32_t node
    bint above

cdef struct Work:
    const RowOps* ops
    const Columns* columns
    LeafParams leaf
    double* log_term        # (n_rows + 1,): the table of `leaf`
    double* target          # (n_rows,), made on first use
    const double* weights   # (n_rows,): the noise variance of row i is sigma2 / weights[i]; NULL: all 1
    double most_weight      # the largest
    double* weighted        # (n_rows,): weights times residual or target; NULL where there are no weights
    Pool pool
    int32_t leaf_capacity   # of the arrays by leaf number and by node
    double* leaf_sum        # (leaf_capacity,): sum of weight times target by leaf number
    double* leaf_weight     # (leaf_capacity,): sum of the rows' weights by leaf number
    double* old_value       # leaf values that the residual still holds, by label
    double* delta
    double* lanes           # (8 leaf_capacity,)
    double* log_count       # (leaf_capacity,): logarithms of 0, 1, 2, ...
    uint32_t* renumber      # label -> leaf number after the step
    int32_t* order          # (2 leaf_capacity,): nodes breadth first
    int32_t* listed         # (2 leaf_capacity,): scratch lists of nodes
    int32_t* mapped         # (2 leaf_capacity,): pool number by node
    Node* kept_nodes        # (n_kept,): the tree before the update, see keep_nodes
    int32_t n_kept
    int32_t kept_capacity
    bint renumber_pending   # labels still carry the numbers from before the step
    bint has_target         # the target of this step was written to `target`
    int32_t* dims           # (n_dims,): candidates of a rule
    Looks looks
    int32_t* subset         # (n_dims,): columns weighed at the node in hand
    int32_t* shared_subset  # (n_dims,): those of the region's root, shared by all particles
    int32_t n_shared
    int32_t* missing        # (n_dims,): columns to be counted
    double* share           # (n_dims,): weight of each column of the subset
    bint equal_shares       # the subset was drawn by weight: its columns have equal shares
    int32_t region          # pool number of the root of the (sub)tree that is redrawn
    int64_t visits          # rows of nodes weighed, times columns
    Claim* claims           # (claim_capacity,)
    CutLeaf* cut_leaves     # (claim_capacity,)
    int32_t claim_capacity
    double sweep_top        # bound that is ample for targets in this sweep; 0: look
    int32_t n_particles     # slots allocated, in each of the two generations
    Particle* particles
    Particle* offspring
    double* log_weight      # (n_particles,)
    double* weight          # (n_particles,): normalised
    int32_t* ancestor       # (n_particles,)
    int32_t* spare          # (n_particles,)
    int cancel              # set from another thread: give up at the next tree or stage

cdef void set_leaf_params(Work* work, double sigma2, double leaf_mean, double leaf_var) noexcept nogil
cdef int reserve_leaves(Work* work, int32_t n_leaves) noexcept nogil
cdef int reserve_particles(Work* work, int32_t n_particles) noexcept nogil
cdef int reserve_queue(Particle* particle, int32_t n) noexcept nogil
cdef const double* sum_leaves_and_target(Work* work, const Tree* tree, const Target* target) noexcept nogil
cdef int reserve_target(Work* work) noexcept nogil
cdef void weigh_target(Work* work, Target* target) noexcept nogil
cdef void begin_step(Work* work, const Tree* tree, const Target* target) noexcept nogil
cdef void sum_weights(Work* work, const Tree* tree) noexcept nogil
cdef void add_old_values(Work* work, const Tree* tree) noexcept nogil
cdef void sum_leaves(Work* work, const Tree* tree, const Target* target) noexcept nogil
cdef void settle_labels(Tree* tree, Work* work) noexcept nogil
cdef void pass_on(Tree* tree, Work* work, Target* target) noexcept nogil
cdef void label_rows(Tree* tree, const Columns* columns) noexcept nogil
cdef int keep_nodes(Work* work, const Tree* tree) noexcept nogil
cdef void restore_nodes(Tree* tree, Work* work) noexcept nogil

cdef class Workspace:
    cdef Work w
    cdef readonly Domain domain
    cdef object kept_weights
