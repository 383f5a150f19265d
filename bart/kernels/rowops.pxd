"""Every loop over rows, behind one table of functions.

The bodies are compiled once per vector width (rowops_baseline, rowops_avx2) and `rowops()` gives the table chosen at
import. Sums run in blocks of BLOCK rows with LANES partial sums each, combined in block order, so that every
width gives the same bits. Nothing else calls the bodies directly.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from bart.kernels.types cimport Predicate, StoredNode

cdef enum:
    BLOCK = 4096
    LANES = 8
    TREE_ROWS = 512     # most rows of a call of add_tree, a multiple of LANES
    MOST_SELECTED = 127 # nodes of a tree up to which add_tree selects values instead of walking

# One leaf below a rule that is weighed anew: what it would hold if the rule sent all rows to its side.
cdef struct CutLeaf:
    const int64_t* sums     # their histogram
    int64_t rows
    int64_t total           # integer sum of the target
    const int64_t* weights  # histogram of the rows' weights; NULL: they are 1
    int64_t weight          # their integer sum
    bint above              # the side

cdef struct RowOps:
    # n, s = count and sum of r over the rows 0..n_rows-1 that satisfy all predicates; r may be NULL: no sum
    void (*masked_sum)(int64_t* n, double* s, const Predicate* where, int32_t n_where, const double* r,
                       int64_t n_rows) noexcept nogil
    # the same for n_sets > 0 sets of one inequality `<=` each, on columns of one type, sharing reads of r
    void (*masked_sums)(int64_t* n, double* s, const Predicate* where, int32_t n_sets, const double* r,
                        int64_t n_rows) noexcept nogil
    # s[l] = sum of r over the rows with leaf number l; acc: LANES * n_leaves doubles of scratch. Unless rule is NULL,
    # over the same read of r: n_in, s_in = count and sum of r over the rows of one leaf that the rule (AT_MOST) sends
    # left
    void (*leaf_sums)(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                      const double* r, int64_t n_rows, int32_t leaf, const Predicate* rule, int64_t* n_in,
                      double* s_in) noexcept nogil
    # both of: leaf_sums without a rule, and out = r + value[label], over one read of r
    void (*leaf_sums_and_add)(double* s, double* acc, double* out, const double* value, const void* labels,
                              int32_t itemsize, int32_t n_leaves, const double* r, int64_t n_rows) noexcept nogil
    # out = r + value[label]; labels are below n_values
    void (*add_leaf_values)(double* out, const double* r, const double* value, int32_t n_values, const void* labels,
                            int32_t itemsize, int64_t n_rows) noexcept nogil
    # labels of rows satisfying all predicates become `label`
    void (*relabel)(void* labels, int32_t itemsize, uint32_t label, const Predicate* where, int32_t n_where,
                    int64_t n_rows) noexcept nogil
    # rows = ascending list of the rows satisfying all predicates; returns their number. LANES places more are written
    int64_t (*select)(uint32_t* rows, const Predicate* where, int32_t n_where, int64_t n_rows) noexcept nogil
    # low, high = extreme codes of a column over the rows satisfying all predicates; low > high where none does
    void (*masked_range)(uint32_t* low, uint32_t* high, const void* column, int32_t itemsize,
                         const Predicate* where, int32_t n_where, int64_t n_rows) noexcept nogil
    # the same two over a list of rows
    void (*list_range)(uint32_t* low, uint32_t* high, const void* column, int32_t itemsize, const uint32_t* rows,
                       int64_t n) noexcept nogil
    # left, right = the rows on each side of a predicate, in order (each has room for n); s = sum of r over the left
    # ones (r may be NULL: no sum); returns their number
    int64_t (*partition)(uint32_t* left, uint32_t* right, double* s, const uint32_t* rows, int64_t n,
                         const Predicate* where, const double* r) noexcept nogil
    void (*label_list)(void* labels, int32_t itemsize, uint32_t label, const uint32_t* rows,
                       int64_t n) noexcept nogil
    # whether two of the rows differ in a candidate column: of the list, or where rows is NULL, of those of the first
    # BLOCK rows that satisfy all predicates; returns at the first difference
    bint (*differ)(const char* codes, int32_t itemsize, int64_t n_rows, const int32_t* candidates,
                   int32_t n_candidates, const Predicate* where, int32_t n_where, const uint32_t* rows,
                   int64_t n) noexcept nogil
    # out[i] += leaf value that row i reaches in a stored tree; x = X[dim * TREE_ROWS + i], i < TREE_ROWS. Rows up to
    # the next multiple of LANES are read and written too. scratch: TREE_ROWS * (MOST_SELECTED // 2 + 1) doubles
    void (*add_tree)(double* out, const double* X, int32_t n, const StoredNode* tree, int64_t n_nodes,
                     double* scratch) noexcept nogil
    # bits = set of the rows that satisfy one predicate, a bit each in an order of their own; (n_rows + 63) // 64 words,
    # bits past the last row are 0
    void (*leaf_bits)(uint64_t* bits, Predicate where, int64_t n_rows) noexcept nogil
    # bits that are set in both sets
    int64_t (*count_common)(const uint64_t* a, const uint64_t* b, int64_t n_words) noexcept nogil
    # rows[i][n + l] -= sum over k < n of rows[i][k] panel[8 k + l], l < 8, the terms in order; rows lie `stride` apart
    void (*eliminate)(double* rows, int64_t stride, int64_t n_rows, const double* panel, int64_t n) noexcept nogil
    double (*sum_squares)(const double* r, int64_t n_rows) noexcept nogil
    double (*sum_products)(const double* a, const double* b, int64_t n_rows) noexcept nogil
    void (*multiply)(double* out, const double* a, const double* b, int64_t n_rows) noexcept nogil  # out = a b
    # sums[k * n_bins + b] = over the rows (a list, or 0..n-1 where it is NULL) whose bin of column dims[k] is b: `one`
    # a row plus r * scale rounded to an integer, at most `most`, so that a sum holds count and total.
    # bins: (rows, stride)
    void (*histogram)(int64_t* sums, int32_t n_bins, const uint8_t* bins, int32_t stride, const int32_t* dims,
                      int32_t n_dims, const uint32_t* rows, int64_t n, const double* r, double scale,
                      double most, int64_t one) noexcept nogil
    # weight[k] = mass[k] L(l) L(r) / L(eta) exp(-top) for the cut above bin first + k, k < n <= 256, from such sums of
    # a node with `rows` rows and integer total; returns their sum. To rounding: whoever draws by these weights divides
    # by these very weights. Unless of_weights is NULL: such sums of the rows' weights, which count instead of the rows,
    # and their integer total; weight_scale is their scale
    double (*cut_weights)(double* weight, double* top, const int64_t* sums, int32_t first, int32_t n,
                          const double* mass, int64_t rows, int64_t total, double scale, int32_t shift, double sigma2,
                          double leaf_var, double leaf_mean, const int64_t* of_weights, int64_t total_weight,
                          double weight_scale) noexcept nogil
    # weight[k] = mass[k] prod of L(leaf) exp(-top), where the rule is the cut above bin first + k, less where that
    # empties a leaf; returns their sum
    double (*leaf_cut_weights)(double* weight, double* top, const CutLeaf* leaves, int32_t n_leaves, int32_t first,
                               int32_t n, const double* mass, double scale, int32_t shift, double sigma2,
                               double leaf_var, double leaf_mean, double weight_scale) noexcept nogil
    double (*largest)(const double* r, int64_t n_rows) noexcept nogil       # max |r|

cdef RowOps* rowops() noexcept nogil
