"""Threads that share the rows of one sweep; the results are the same bits for any number of them."""

import threading

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from bart.kernels.nodeset cimport MAX_PREDICATES
from bart.kernels.rowops cimport BLOCK, LANES, RowOps, rowops
from bart.kernels.types cimport Predicate

cdef extern from "team.h" nogil:
    bint BART_HAS_TEAMS
    uint64_t word_read(uint64_t* word)
    void word_write(uint64_t* word, uint64_t value)
    uint64_t word_add(uint64_t* word, uint64_t by)
    bint word_swap(uint64_t* word, uint64_t expected, uint64_t value)
    void pause_briefly()
    void let_others_run()
    void* team_of_thread()
    void set_team_of_thread(void* team)

cdef enum:
    SPINS = 4000            # looks at a word before another thread is let onto the processor

cdef RowOps TABLE


# ------------------------------------------------------------------------------------------------- giving out the work

cdef bint work_on_piece(TeamState* team) noexcept nogil:
    """Claim the next piece and do it; False where none is left.

    A piece is claimed by the word that also says of which round it is, and a round cannot end before its claimed
    pieces have, so that the job read after the claim is the round's.
    """
    cdef uint64_t ticket = word_read(&team.ticket)
    cdef int64_t piece = ticket & 0xFFFFF, n_pieces = (ticket >> 20) & 0xFFFFF, last
    if piece >= n_pieces:
        return False
    if not word_swap(&team.ticket, ticket, ticket + 1):
        return True                                     # someone else took it
    last = (piece + 1) * PIECE * BLOCK
    team.job.run(&team.job, piece * PIECE * BLOCK, last if last < team.n_rows else team.n_rows)
    word_add(&team.n_done, 1)
    return True


cdef void serve(TeamState* team) noexcept nogil:
    """What a worker does until the team closes."""
    cdef int64_t idle = 0
    while not word_read(&team.closing):
        if work_on_piece(team):
            idle = 0
            continue
        idle += 1
        if idle < SPINS:
            pause_briefly()
        else:
            let_others_run()


cdef void run_job(TeamState* team) noexcept nogil:
    """All pieces of team.job; the caller works too, and waits only for pieces that others have begun."""
    cdef uint64_t n_pieces = (team.n_rows + PIECE * BLOCK - 1) // (PIECE * BLOCK), idle = 0
    word_write(&team.n_done, 0)
    word_write(&team.ticket, ((word_read(&team.ticket) >> 40) + 1) << 40 | n_pieces << 20)
    while work_on_piece(team):
        pass
    while word_read(&team.n_done) < n_pieces:
        idle += 1
        if idle < SPINS:
            pause_briefly()
        else:
            let_others_run()


cdef TeamState* begin_job(void (*run)(const Job* job, int64_t first, int64_t last) noexcept nogil) noexcept nogil:
    """The team of this thread, its job empty but for what is the same for all."""
    cdef TeamState* team = <TeamState*>team_of_thread()
    memset(&team.job, 0, sizeof(Job))
    team.job.run = run
    team.job.ops = rowops()
    team.job.counts = team.counts
    team.job.sums = team.sums
    team.job.low = team.low
    team.job.high = team.high
    return team


cdef int64_t add_counts(const TeamState* team, int32_t k, int32_t stride) noexcept nogil:
    cdef int64_t b, n = 0
    for b in range((team.n_rows + BLOCK - 1) // BLOCK):
        n += team.counts[b * stride + k]
    return n


cdef double add_sums(const TeamState* team, int32_t k, int32_t stride) noexcept nogil:
    """In block order, as one thread adds them."""
    cdef int64_t b
    cdef double s = 0.0
    for b in range((team.n_rows + BLOCK - 1) // BLOCK):
        s += team.sums[b * stride + k]
    return s


cdef inline const Predicate* at_row(Predicate* shifted, const Job* job, int64_t row) noexcept nogil:
    """The predicates of a job with their columns moved on to a row."""
    cdef int32_t k
    memcpy(shifted, job.where, job.n_where * sizeof(Predicate))
    for k in range(job.n_where):
        shifted[k].column = <const char*>shifted[k].column + row * shifted[k].itemsize
    return shifted


cdef inline int64_t block_end(int64_t start, int64_t last) noexcept nogil:
    return start + BLOCK if start + BLOCK < last else last


# --------------------------------------------------------------------------------------------------- loops with sums

cdef void masked_sum_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    cdef Predicate[MAX_PREDICATES] where
    cdef const double* r = NULL
    cdef int64_t start, b
    for b in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
        start = b * BLOCK
        if job.r != NULL:
            r = job.r + start
        job.ops.masked_sum(&job.counts[b], &job.sums[b], at_row(where, job, start), job.n_where, r,
                           block_end(start, last) - start)


cdef void masked_sum(int64_t* n, double* s, const Predicate* where, int32_t n_where, const double* r,
                     int64_t n_rows) noexcept nogil:
    cdef TeamState* team = begin_job(masked_sum_piece)
    team.job.where, team.job.n_where, team.job.r = where, n_where, r
    run_job(team)
    n[0] = add_counts(team, 0, 1)
    s[0] = 0.0 if r == NULL else add_sums(team, 0, 1)


cdef void masked_sums_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    cdef Predicate[MOST_SUMS] where
    cdef int64_t start, b, at
    for b in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
        start, at = b * BLOCK, b * job.n_where
        job.ops.masked_sums(&job.counts[at], &job.sums[at], at_row(where, job, start), job.n_where, job.r + start,
                            block_end(start, last) - start)


cdef void masked_sums(int64_t* n, double* s, const Predicate* where, int32_t n_sets, const double* r,
                      int64_t n_rows) noexcept nogil:
    cdef TeamState* team
    cdef int32_t k
    if n_sets > MOST_SUMS:
        rowops().masked_sums(n, s, where, n_sets, r, n_rows)
        return
    team = begin_job(masked_sums_piece)
    team.job.where, team.job.n_where, team.job.r = where, n_sets, r
    run_job(team)
    for k in range(n_sets):
        n[k] = add_counts(team, k, n_sets)
        s[k] = add_sums(team, k, n_sets)


cdef void leaf_sums_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    """Sums by leaf, and that of the rule's rows after them."""
    cdef double[MOST_SUMS * LANES] acc
    cdef Predicate[1] rule
    cdef const Predicate* given = NULL
    cdef const char* labels
    cdef double* sums
    cdef int64_t start, b
    for b in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
        start = b * BLOCK
        labels = <const char*>job.labels + start * job.itemsize
        sums = &job.sums[b * job.n_sums]
        if job.n_where > 0:
            given = at_row(rule, job, start)
        job.ops.leaf_sums(sums, acc, labels, job.itemsize, job.n_leaves, job.r + start, block_end(start, last) - start,
                          job.leaf, given, &job.counts[b],
                          &sums[job.n_leaves])


cdef void leaf_sums(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                    const double* r, int64_t n_rows, int32_t leaf, const Predicate* rule, int64_t* n_in,
                    double* s_in) noexcept nogil:
    cdef TeamState* team
    cdef int32_t l
    if n_leaves >= MOST_SUMS:
        rowops().leaf_sums(s, acc, labels, itemsize, n_leaves, r, n_rows, leaf, rule, n_in, s_in)
        return
    team = begin_job(leaf_sums_piece)
    team.job.labels, team.job.itemsize, team.job.n_leaves = <void*>labels, itemsize, n_leaves
    team.job.r, team.job.leaf, team.job.n_sums = r, leaf, n_leaves + 1
    team.job.where, team.job.n_where = rule, 0 if rule == NULL else 1
    run_job(team)
    for l in range(n_leaves):
        s[l] = add_sums(team, l, n_leaves + 1)
    if rule != NULL:
        n_in[0] = add_counts(team, 0, 1)
        s_in[0] = add_sums(team, n_leaves, n_leaves + 1)


cdef void leaf_sums_and_add_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    cdef double[MOST_SUMS * LANES] acc
    cdef int64_t start, b
    for b in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
        start = b * BLOCK
        job.ops.leaf_sums_and_add(&job.sums[b * job.n_sums], acc, job.out + start, job.value,
                                  <const char*>job.labels + start * job.itemsize, job.itemsize, job.n_leaves,
                                  job.r + start, block_end(start, last) - start)


cdef void leaf_sums_and_add(double* s, double* acc, double* out, const double* value, const void* labels,
                            int32_t itemsize, int32_t n_leaves, const double* r, int64_t n_rows) noexcept nogil:
    cdef TeamState* team
    cdef int32_t l
    if n_leaves > MOST_SUMS:
        rowops().leaf_sums_and_add(s, acc, out, value, labels, itemsize, n_leaves, r, n_rows)
        return
    team = begin_job(leaf_sums_and_add_piece)
    team.job.labels, team.job.itemsize, team.job.n_leaves, team.job.n_sums = <void*>labels, itemsize, n_leaves, n_leaves
    team.job.out, team.job.value, team.job.r = out, value, r
    run_job(team)
    for l in range(n_leaves):
        s[l] = add_sums(team, l, n_leaves)


cdef void sum_squares_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    cdef int64_t b
    for b in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
        job.sums[b] = job.ops.sum_squares(job.r + b * BLOCK, block_end(b * BLOCK, last) - b * BLOCK)


cdef double sum_squares(const double* r, int64_t n_rows) noexcept nogil:
    cdef TeamState* team = begin_job(sum_squares_piece)
    team.job.r = r
    run_job(team)
    return add_sums(team, 0, 1)


cdef void sum_products_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    cdef int64_t b
    for b in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
        job.sums[b] = job.ops.sum_products(job.r + b * BLOCK, job.value + b * BLOCK,
                                           block_end(b * BLOCK, last) - b * BLOCK)


cdef double sum_products(const double* a, const double* b, int64_t n_rows) noexcept nogil:
    cdef TeamState* team = begin_job(sum_products_piece)
    team.job.r, team.job.value = a, b
    run_job(team)
    return add_sums(team, 0, 1)


# ------------------------------------------------------------------------------------------------ loops without sums

cdef void multiply_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    job.ops.multiply(job.out + first, job.r + first, job.value + first, last - first)


cdef void multiply(double* out, const double* a, const double* b, int64_t n_rows) noexcept nogil:
    cdef TeamState* team = begin_job(multiply_piece)
    team.job.out, team.job.r, team.job.value = out, a, b
    run_job(team)


cdef void add_leaf_values_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    job.ops.add_leaf_values(job.out + first, job.r + first, job.value, job.n_leaves,
                            <const char*>job.labels + first * job.itemsize, job.itemsize, last - first)


cdef void add_leaf_values(double* out, const double* r, const double* value, int32_t n_values, const void* labels,
                          int32_t itemsize, int64_t n_rows) noexcept nogil:
    cdef TeamState* team = begin_job(add_leaf_values_piece)
    team.job.out, team.job.r, team.job.value, team.job.n_leaves = out, r, value, n_values
    team.job.labels, team.job.itemsize = <void*>labels, itemsize
    run_job(team)


cdef void relabel_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    cdef Predicate[MAX_PREDICATES] where
    job.ops.relabel(<char*>job.labels + first * job.itemsize, job.itemsize, job.label, at_row(where, job, first),
                    job.n_where, last - first)


cdef void relabel(void* labels, int32_t itemsize, uint32_t label, const Predicate* where, int32_t n_where,
                  int64_t n_rows) noexcept nogil:
    cdef TeamState* team = begin_job(relabel_piece)
    team.job.labels, team.job.itemsize, team.job.label = labels, itemsize, label
    team.job.where, team.job.n_where = where, n_where
    run_job(team)


cdef void masked_range_piece(const Job* job, int64_t first, int64_t last) noexcept nogil:
    cdef Predicate[MAX_PREDICATES] where
    cdef int64_t piece = first // (PIECE * BLOCK)
    job.ops.masked_range(&job.low[piece], &job.high[piece], <const char*>job.column + first * job.itemsize,
                         job.itemsize, at_row(where, job, first), job.n_where, last - first)


cdef void masked_range(uint32_t* low, uint32_t* high, const void* column, int32_t itemsize, const Predicate* where,
                       int32_t n_where, int64_t n_rows) noexcept nogil:
    cdef TeamState* team = begin_job(masked_range_piece)
    cdef int64_t piece
    team.job.column, team.job.itemsize, team.job.where, team.job.n_where = column, itemsize, where, n_where
    run_job(team)
    low[0], high[0] = team.low[0], team.high[0]
    for piece in range(1, (n_rows + PIECE * BLOCK - 1) // (PIECE * BLOCK)):
        low[0] = min(low[0], team.low[piece])
        high[0] = max(high[0], team.high[piece])


TABLE = rowops()[0]                                     # loops over lists of rows stay with one thread
TABLE.masked_sum = masked_sum
TABLE.masked_sums = masked_sums
TABLE.leaf_sums = leaf_sums
TABLE.leaf_sums_and_add = leaf_sums_and_add
TABLE.add_leaf_values = add_leaf_values
TABLE.relabel = relabel
TABLE.masked_range = masked_range
TABLE.sum_squares = sum_squares
TABLE.sum_products = sum_products
TABLE.multiply = multiply


cdef const RowOps* team_rowops() noexcept nogil:
    """The loops over rows by the team of the calling thread; the n_rows that they are given must be the team's."""
    return &TABLE


cdef class Team:
    """The calling thread and n_threads - 1 workers, for the time of a `with` block.

    Parameters
    ----------
    n_threads : int
    n_rows : int
    """

    def __cinit__(self, int n_threads, int64_t n_rows):
        cdef int64_t n_blocks = (n_rows + BLOCK - 1) // BLOCK
        memset(&self.t, 0, sizeof(TeamState))
        if not BART_HAS_TEAMS:
            n_threads = 1
        n_threads = min(n_threads, (n_blocks + PIECE - 1) // PIECE)     # one that gets no piece only waits
        self.t.n_rows = n_rows
        self.t.counts = <int64_t*>malloc(n_blocks * MOST_SUMS * sizeof(int64_t))
        self.t.sums = <double*>malloc(n_blocks * MOST_SUMS * sizeof(double))
        self.t.low = <uint32_t*>malloc(n_blocks * sizeof(uint32_t))
        self.t.high = <uint32_t*>malloc(n_blocks * sizeof(uint32_t))
        if self.t.counts == NULL or self.t.sums == NULL or self.t.low == NULL or self.t.high == NULL:
            raise MemoryError("no memory for a team of threads")
        self.threads = [threading.Thread(target=self.serve, daemon=True) for _ in range(n_threads - 1)]

    def __dealloc__(self):
        free(self.t.counts)
        free(self.t.sums)
        free(self.t.low)
        free(self.t.high)

    def serve(self):
        """A worker's life."""
        with nogil:
            serve(&self.t)

    def __enter__(self):
        try:
            for thread in self.threads:
                thread.start()
        except RuntimeError:                            # no more threads to be had: those started will do
            pass
        except BaseException:                           # an interrupt, say: `with` would not call __exit__
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        word_write(&self.t.closing, 1)
        for thread in self.threads:
            if thread.is_alive():
                thread.join()

    cdef void enter(self) noexcept nogil:
        """Make this the team of the calling thread."""
        self.outer = team_of_thread()
        set_team_of_thread(&self.t)

    cdef void leave(self) noexcept nogil:
        set_team_of_thread(self.outer)
