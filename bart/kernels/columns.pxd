"""The training columns as codes, with the tree prior over their gaps."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from bart.kernels.types cimport Predicate

cdef enum:
    N_EXTREME = 64      # rows kept at each end of a column, to find a large node's range without a pass
    N_DEPTHS = 256      # depths tabulated; deeper ones are computed
    N_CELLS = 1024      # cells of equal mass in the index of a column's gaps

cdef double LEAST_WEIGHT    # sums of weights below are formed from their logarithms

cdef struct Columns:
    int64_t n_rows
    int32_t n_dims
    int32_t itemsize            # bytes a code
    const char* codes           # (n_dims, n_rows), C order
    const double* const* mass   # (n_dims,): cumulated prior mass at each distinct value of a column
    const uint32_t* cells       # (n_dims, N_CELLS + 1): last code of a column with at most k / N_CELLS of its mass
    const uint32_t* last_code   # (n_dims,): number of distinct values - 1
    const int32_t* candidates   # ascending: columns with positive weight and positive total mass
    int32_t n_candidates
    const int32_t* by_ties      # the candidates again, ascending by most_tied
    const int64_t* most_tied    # (n_dims,): most rows of a column with no gap of positive mass between them
    const double* weight        # (n_dims,) relative weights; NULL where all are equal
    const double* log_weight    # their logarithms, where they vanish as doubles too
    bint random_weights         # the weights belong to the state of a chain
    double total_weight         # of the candidates
    const uint32_t* lowest      # (n_dims, n_extreme): rows of the smallest codes, ascending by code
    const uint32_t* highest     # (n_dims, n_extreme): rows of the largest codes, descending by code
    int32_t n_extreme
    bint every_gap              # any two distinct values have mass between them
    double alpha
    double beta
    const double* p_split       # (N_DEPTHS,): alpha (1 + d)^-beta
    const double* log_split     # its logarithm
    const double* log_stop      # log(1 - p_split)
    # Cells: consecutive gaps of a column, each with a gap that stands for it; fixed per data set (see Domain.cells)
    int32_t n_bins              # most bins of a column, one more than its cells
    const uint8_t* bins         # (n_rows, n_dims): cells whose representative gap lies below a row's code; NULL until
                                # Domain.make_bins
    const int32_t* n_cells      # (n_dims,)
    const uint32_t* cell_first  # (n_dims, n_bins): first gap of each cell, and the number of gaps behind the last
    const uint32_t* cell_rep    # (n_dims, n_bins): its representative
    const double* cell_mass     # (n_dims, n_bins): its prior mass
    # The rows in the order of each column; NULL until Domain.make_order
    const uint32_t* sorted_rows         # (n_dims, n_rows): ascending by code
    const int32_t* n_gaps               # (n_dims,): gaps with mass
    const uint32_t* const* gap_code     # (n_dims,): code below each of them; NULL where every gap has mass
    const uint32_t* const* n_upto       # (n_dims,): rows whose codes are at most that; NULL where no rows tie and every
                                        # gap has mass

cdef const void* column_of(const Columns* columns, int32_t dim) noexcept nogil
cdef Predicate predicate_of(const Columns* columns, int32_t dim, uint32_t code, int32_t relation) noexcept nogil
cdef uint32_t code_at(const Columns* columns, int32_t dim, int64_t row) noexcept nogil
cdef double mass_between(const Columns* columns, int32_t dim, uint32_t low, uint32_t high) noexcept nogil
cdef double sum_weights(double* scale, const Columns* columns, const int32_t* dims, int32_t n) noexcept nogil
cdef double weight_in(const Columns* columns, int32_t dim, double scale) noexcept nogil
cdef bint is_candidate(const Columns* columns, int32_t dim) noexcept nogil
cdef bint surely_valid(const Columns* columns, int32_t dim, int64_t n) noexcept nogil
cdef int32_t count_surely_valid(const Columns* columns, int64_t n) noexcept nogil
cdef int32_t cell_of(const Columns* columns, int32_t dim, uint32_t code) noexcept nogil
cdef int32_t place_of_gap(const Columns* columns, int32_t dim, uint32_t code) noexcept nogil
cdef double p_split_at(const Columns* columns, int32_t depth) noexcept nogil
cdef double log_split_at(const Columns* columns, int32_t depth) noexcept nogil
cdef double log_stop_at(const Columns* columns, int32_t depth, bint can_split) noexcept nogil

cdef inline uint32_t gap_at(const Columns* columns, int32_t dim, int32_t place) noexcept nogil:
    """Code below one of a column's gaps with mass, by its place among them."""
    return place if columns.gap_code[dim] == NULL else columns.gap_code[dim][place]

cdef inline int64_t rows_upto(const Columns* columns, int32_t dim, int32_t place) noexcept nogil:
    """Rows below one of a column's gaps with mass."""
    return place + 1 if columns.n_upto[dim] == NULL else columns.n_upto[dim][place]

cdef class Domain:
    cdef Columns c
    cdef readonly object codes          # bart.data.RankCodes
    cdef readonly object prior          # bart.priors.TreePrior
    cdef object _keep                   # arrays behind the pointers of c
    cdef object _bins
    cdef object _order
    cdef object _weights                # with random weights: weight, log_weight
    cdef Domain _shared                 # with random weights: the Domain that it is a copy of
