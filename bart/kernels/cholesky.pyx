"""The Cholesky factor of a dense matrix, and a draw from the normal law that has it as its precision.

LAPACK is about as fast, but its bits depend on the number of threads of the BLAS library and on its make, its threads
wait for each other where processors are few, and the time that they take is not the calling thread's.
"""

import numpy as np

from libc.math cimport sqrt
from libc.stdint cimport int64_t
from bart.kernels.rowops cimport LANES, RowOps, rowops
from bart.kernels.types cimport MUTANT

cdef double SMALLEST = 1e-10    # pivot, as a share of the diagonal, that rounding leaves enough of


cdef bint factor_block(double* a, int64_t stride, int64_t first, int64_t width, int64_t n_rows) noexcept nogil:
    """Columns first..first+width-1 of the factor, of which the columns before them have been eliminated."""
    cdef double[LANES] inverse
    cdef double* row
    cdef const double* above
    cdef int64_t i, j, k
    for i in range(first, n_rows):
        row = a + i * stride + first
        for j in range(min(width, i - first)):
            above = a + (first + j) * stride + first
            for k in range(j):
                row[j] -= row[k] * above[k]
            row[j] *= inverse[j]
        if i < first + width:
            j = i - first
            for k in range(j):
                row[j] -= row[k] * row[k]
            if not row[j] > 0.0:
                return False
            row[j] = sqrt(row[j])
            inverse[j] = 1.0 / row[j]
    return True


cdef bint factor(double* a, int64_t n, int64_t n_rows, int64_t stride, double* diagonal, double* panel,
                 const RowOps* ops) noexcept nogil:
    """L of the first n rows, A = L L' (lower triangle); each further row x becomes x L'^-1. False: not definite.

    The stride is a multiple of LANES; `diagonal` has room for n, `panel` for LANES * n numbers.
    """
    cdef int64_t first, j, k, width
    for j in range(n):
        diagonal[j] = a[j * (stride + 1)]
    for first in range(0, n, 8):                        # LANES
        width = min(<int64_t>LANES, n - first)
        for j in range(LANES):
            for k in range(first):
                panel[LANES * k + j] = a[(first + j) * stride + k] if j < width else 0.0
        ops.eliminate(a + first * stride, stride, n_rows - first, panel, first)
        if not factor_block(a, stride, first, width, n_rows):
            return False
        for j in range(first, first + width):
            if not a[j * (stride + 1)] * a[j * (stride + 1)] > SMALLEST * diagonal[j]:
                return False
    return True


cdef void solve_transposed(double* x, const double* a, int64_t n, int64_t stride) noexcept nogil:
    """x becomes L'^-1 x."""
    cdef int64_t i, k
    for i in range(n - 1, -1, -1):
        x[i] /= a[i * (stride + 1)]
        for k in range(i):
            x[k] -= a[i * stride + k] * x[i]


def normal_draw(const double[:, ::1] precision, const double[::1] b, const double[::1] z):
    """L'^-1 (L^-1 b + z) with L L' = A: for z ~ N(0, I) a draw from N(A^-1 b, A^-1), for z = 0 its mean.

    Parameters
    ----------
    precision : (n, n) float64
        A; its lower triangle is read.
    b, z : (n,) float64

    Returns
    -------
    (n,) float64, or None where rounding leaves A not definite
    """
    cdef int64_t n = b.shape[0], stride = (n + LANES - 1) // LANES * LANES, i, j
    cdef const RowOps* ops = rowops()
    cdef bint definite
    if precision.shape[0] != n or precision.shape[1] != n or z.shape[0] != n:
        raise ValueError(f"precision, b and z must have shapes (n, n), (n,) and (n,), got "
                         f"{(precision.shape[0], precision.shape[1])}, {(n,)} and {(z.shape[0],)}")
    drawn = np.empty(n)
    if n == 0:
        return drawn
    cdef double[:, ::1] a = np.zeros((n + 1, stride))
    cdef double[::1] scratch = np.empty((LANES + 1) * n)
    cdef double[::1] x = drawn
    with nogil:
        for i in range(n):
            for j in range(i + 1):
                a[i, j] = precision[i, j]
            a[n, i] = b[i]
        definite = factor(&a[0, 0], n, n + 1, stride, &scratch[0], &scratch[n], ops)
        if definite:
            for i in range(n):
                x[i] = a[n, i] + (z[i] / a[i, i] if MUTANT(62) else z[i])
            solve_transposed(&x[0], &a[0, 0], n, stride)
    return drawn if definite else None
