"""Kernels of the trend: positive definite systems, and time under a cap.

Loops run over slices from zero.  Where a loop starts elsewhere the compiler cannot exclude negative
indices, and makes no vector code.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached

# Rows that are eliminated together: each other row is loaded once for all of them.
_PANEL = 4
# Logarithm of the least free time over the time, and the resolution of that logarithm, which is far
# below the error of sampling.
_LOWEST, _RESOLUTION = -6.0, 6.0 / 2**24
# Newton's method from above is monotone; most elements need five steps.
_MOST_STEPS = 60


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is the part of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


@_kernel
def unthrottled(time, least, width, free):
    """The free time (n,) that gives `time` = E max(free, least X), X log-normal of mean 1.

    `width` is the standard deviation of log X.  By Newton's method from above, which never
    overshoots because time is convex in the free time.
    """
    for i in range(time.size):
        u = time[i]
        floor = math.exp(_LOWEST) * u
        for _ in range(_MOST_STEPS):
            d = (np.log(max(least[i], 1e-300)) - np.log(u)) / width
            slope = 0.5 * math.erfc((d - 0.5 * width) * math.sqrt(0.5))
            seen = u * slope + 0.5 * least[i] * math.erfc(-(d + 0.5 * width) * math.sqrt(0.5))
            step = (seen - time[i]) / max(slope, 1e-300)
            if not step > 1e-13 * u or u <= floor:
                break
            u = max(u - step, floor)
        steps = math.floor((np.log(u / time[i]) - _LOWEST) / _RESOLUTION)
        steps = min(max(steps, 0), 2**24 - 1)
        free[i] = time[i] * math.exp(_LOWEST + (steps + 0.5) * _RESOLUTION)


@_kernel
def eliminate(rows, width):
    """[A | B | I] -> [U | U⁻ᵀB | U⁻ᵀ] in place, A = UᵀU; False where A is not positive definite.

    rows (n, ·), of which A and B are the first `width` columns; B and I may be missing.  Only the
    upper triangle of A is read.  The kernel is serial, because the threads of a library take a
    hundred times longer at this size on a busy machine.
    """
    n = rows.shape[0]
    for start in range(0, n, _PANEL):
        # invariant: rows from start on hold the Schur complement, those before are done
        stop = min(start + _PANEL, n)
        end = min(width + stop, rows.shape[1])  # U⁻ᵀ is lower triangular
        for a in range(start, stop):
            pivot = rows[a, a]
            if not pivot > 0.0:
                return False
            top = rows[a, a:end]
            inverse = 1.0 / np.sqrt(pivot)
            for j in range(top.size):
                top[j] *= inverse
            for i in range(a + 1, stop):
                row, other = rows[i, i:end], rows[a, i:end]
                factor = other[0]
                for j in range(row.size):
                    row[j] -= factor * other[j]
        if stop == n:
            break
        for i in range(stop, n):
            row = rows[i, i:end]
            r0, r1 = rows[start, i:end], rows[start + 1, i:end]
            r2, r3 = rows[start + 2, i:end], rows[start + 3, i:end]
            f0, f1, f2, f3 = r0[0], r1[0], r2[0], r3[0]
            for j in range(row.size):
                row[j] -= f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j]
    return True


@_kernel
def left_out(inverse, coefficients, index, ends, errors):
    """Known minus predicted values where groups g are left out: (K⁻¹_gg)⁻¹ (K⁻¹y)_g.

    inverse is K⁻¹ (n, n), coefficients K⁻¹y (n, c), and errors (rows, c).  index (rows,) holds the
    members of the groups, one group after the other; ends (groups,) is the end of each.
    """
    c = errors.shape[1]
    start = 0
    for end in ends:
        size = end - start
        group = index[start:end]
        rows = np.empty((size, size + c))
        for i in range(size):
            for j in range(size):
                rows[i, j] = inverse[group[i], group[j]]
            for j in range(c):
                rows[i, size + j] = coefficients[group[i], j]
        if not eliminate(rows, size + c):
            return False
        for i in range(size - 1, -1, -1):
            # invariant: errors holds the solution in the rows after i
            x, right = errors[start + i], rows[i, size:]
            for j in range(c):
                x[j] = right[j]
            for k in range(i + 1, size):
                factor, other = rows[i, k], errors[start + k]
                for j in range(c):
                    x[j] -= factor * other[j]
            for j in range(c):
                x[j] /= rows[i, i]
        start = end
    return True


@_kernel
def window_times(context, begin, end, times, out):
    """Time of windows (w,), from the times[c, j] of bin j of context c."""
    for i in range(begin.size):
        row = times[context[i]]
        total = 0.0
        for j in range(int(begin[i]), min(math.ceil(end[i]), row.size)):
            total += row[j] * (min(end[i], j + 1.0) - max(begin[i], float(j)))
        out[i] = total


@_kernel
def window_sums(context, begin, end, values, out):
    """Add to out (n, bins) the values of windows (w,) times their overlaps with the bins."""
    for i in range(begin.size):
        row = out[context[i]]
        for j in range(int(begin[i]), min(math.ceil(end[i]), row.size)):
            row[j] += values[i] * (min(end[i], j + 1.0) - max(begin[i], float(j)))


@_kernel
def window_products(context, begin, end, weight, out):
    """Add to out[c, o, j] the weighted overlaps of windows with bin j times those with j + o."""
    most, bins = out.shape[1:]
    overlap = np.empty(most)
    for i in range(begin.size):
        first = int(begin[i])
        last = min(math.ceil(end[i]), bins)
        for j in range(first, last):
            overlap[j - first] = min(end[i], j + 1.0) - max(begin[i], float(j))
        for o in range(last - first):
            row = out[context[i], o, first : last - o]
            for a in range(row.size):
                row[a] += weight[i] * overlap[a] * overlap[a + o]


@_kernel
def add_normal(products, jacobian, out):
    """Add Σ_c products[c, o, j] · jacobian[a, c, j] · jacobian[b, c, j + o] to out[o, a, b, j].

    products (n, most, bins), jacobian (P, n, bins), out (most, P, P, bins); b ≥ a where o is 0.
    """
    n, most, bins = products.shape
    p = jacobian.shape[0]
    scaled = np.empty(bins)
    for c in range(n):
        for o in range(min(most, bins)):
            for a in range(p):
                product, own = products[c, o], jacobian[a, c]
                for j in range(bins):
                    scaled[j] = product[j] * own[j]
                for b in range(a if o == 0 else 0, p):
                    row, other = out[o, a, b, : bins - o], jacobian[b, c, o:]
                    for j in range(row.size):
                        row[j] += scaled[j] * other[j]


@_kernel
def solve_banded(lower, right):
    """Solve a banded positive definite system in place; False where it is not positive definite.

    lower[j, d] is the element (j + d, j) of the matrix (n, n), `right` (n,) becomes the solution.
    By Cholesky's factorisation, O(n · width²), in one thread: a library starts several for blocks
    that are far too small for them.
    """
    n, width = lower.shape
    for j in range(n):
        column = lower[j, : min(width, n - j)]
        if not column[0] > 0.0:
            return False
        root = math.sqrt(column[0])
        for d in range(column.size):
            column[d] /= root
        for i in range(1, column.size):
            factor = column[i]
            if factor != 0.0:
                row, own = lower[j + i, : column.size - i], column[i:]
                for k in range(row.size):
                    row[k] -= factor * own[k]
    for j in range(n):
        column = lower[j, : min(width, n - j)]
        right[j] /= column[0]
        rest, factors = right[j + 1 : j + column.size], column[1:]
        for d in range(rest.size):
            rest[d] -= factors[d] * right[j]
    for j in range(n - 1, -1, -1):
        column = lower[j, : min(width, n - j)]
        rest, factors = right[j + 1 : j + column.size], column[1:]
        total = 0.0
        for d in range(rest.size):
            total += factors[d] * rest[d]
        right[j] = (right[j] - total) / column[0]
    return True
