"""Every numba kernel of the package, with its constants, in this one file.

numba's on-disk cache notices an edit of the file that holds a kernel, but not of a file that
holds a callee or a constant: one file keeps cached machine code and source in step.  Kernels
are serial and release the GIL; callers run them from threads over independent work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def _kernel(function: Kernel) -> Kernel:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available": a read-only install without a cache folder
        return njit(**options)(function)


# ------------------------------------------------------------------ dynamic time warping


@_kernel
def dtw(a, b):
    """Cost of the cheapest warping path between (n, d) and (m, d), Euclidean steps."""
    n, d = a.shape
    m = b.shape[0]
    above = np.full(m + 1, np.inf)
    row = np.empty(m + 1)
    above[0] = 0.0
    for i in range(n):
        # invariant: above[j] is the cheapest path that ends at (i - 1, j - 1)
        row[0] = np.inf
        a_i = a[i]
        for j in range(m):
            b_j = b[j]
            squared = 0.0
            for k in range(d):
                step = a_i[k] - b_j[k]
                squared += step * step
            row[j + 1] = np.sqrt(squared) + min(above[j + 1], row[j], above[j])
        above, row = row, above
    return above[m]


# ------------------------------------------------------------------ distances between clouds


@_kernel
def mean_distance(x, wx, y, wy):
    """Weighted mean of the Euclidean distance between (n, d) and (m, d), in O(d) memory."""
    total = 0.0
    for i in range(x.shape[0]):
        x_i = x[i]
        row = 0.0
        for j in range(y.shape[0]):
            y_j = y[j]
            squared = 0.0
            for k in range(x.shape[1]):
                step = x_i[k] - y_j[k]
                squared += step * step
            row += wy[j] * np.sqrt(squared)
        total += wx[i] * row
    return total


# ------------------------------------------------------------------ conditioning on a context


@_kernel
def aggregate_coupling(
    x, y, f, g, epsilon, x_label, y_label, x_value, y_value, mass, moments, peak
):
    """Sum a coupling exp((f + g − |x − y|²)/ε) over the blocks of equal labels, on the fly.

    Fills, for every pair (a, b) of labels, over r with x_label a and s with y_label b:
    mass[a, b] = Σ Γ[r, s]; moments[0, :, a, b] = Σ Γ x_value[r], moments[1, :, a, b] =
    Σ Γ y_value[s]; peak[0, a, b] = max log Γ and peak[1], peak[2] the r and s where it is
    reached, the first in row order (−1 where the block holds no mass).
    """
    n, d = x.shape
    m = y.shape[0]
    k = x_value.shape[1]
    mass[:] = 0.0
    moments[:] = 0.0
    peak[0] = -np.inf
    peak[1:] = -1.0
    n_labels = mass.shape[0]
    row_mass = np.empty(n_labels)
    row_moment = np.empty((k, n_labels))
    for r in range(n):
        if f[r] == -np.inf:
            continue
        # invariant: row_* hold row r's share by label of the column, without the factor x_value
        row_mass[:] = 0.0
        row_moment[:] = 0.0
        a = x_label[r]
        x_r = x[r]
        for s in range(m):
            cost = 0.0
            y_s = y[s]
            for c in range(d):
                step = x_r[c] - y_s[c]
                cost += step * step
            log_gamma = (f[r] + g[s] - cost) / epsilon
            b = y_label[s]
            if log_gamma > peak[0, a, b]:
                peak[0, a, b] = log_gamma
                peak[1, a, b] = r
                peak[2, a, b] = s
            gamma = np.exp(log_gamma)
            row_mass[b] += gamma
            for c in range(k):
                row_moment[c, b] += gamma * y_value[s, c]
        for b in range(n_labels):
            mass[a, b] += row_mass[b]
            for c in range(k):
                moments[0, c, a, b] += row_mass[b] * x_value[r, c]
                moments[1, c, a, b] += row_moment[c, b]


@_kernel
def conditional_modes(peak, lam, known, query, mode):
    """Heaviest displacement atom at each query: argmax over (r, s) of log Γ + log κ.

    mode[q] = (r, s).  Rows of the table of contexts are visited by their upper bound, which
    leaves out the non-positive term −(1 − λ)|q − b|²/2, and the search stops when no row that
    is left can win.  Ties go to the row and column met first by that order.
    """
    n_known, m = known.shape
    tilted = np.empty((n_known, n_known))
    best_in_row = np.full(n_known, -np.inf)
    for a in range(n_known):
        for b in range(n_known):
            squared = 0.0
            for i in range(m):
                step = known[a, i] - known[b, i]
                squared += step * step
            tilted[a, b] = peak[0, a, b] + 0.5 * lam * (1.0 - lam) * squared
            best_in_row[a] = max(best_in_row[a], tilted[a, b])
    distance = np.empty(n_known)
    bound = np.empty(n_known)
    for q in range(query.shape[0]):
        for a in range(n_known):
            squared = 0.0
            for i in range(m):
                step = query[q, i] - known[a, i]
                squared += step * step
            distance[a] = 0.5 * squared
            bound[a] = best_in_row[a] - lam * distance[a]
        best = -np.inf
        best_a = 0
        best_b = 0
        for _ in range(n_known):
            # invariant: no unvisited row has a bound above that of row a
            a = np.argmax(bound)
            if bound[a] <= best:
                break
            bound[a] = -np.inf
            for b in range(n_known):
                value = tilted[a, b] - lam * distance[a] - (1.0 - lam) * distance[b]
                if value > best:
                    best, best_a, best_b = value, a, b
        mode[q, 0] = peak[1, best_a, best_b]
        mode[q, 1] = peak[2, best_a, best_b]


@_kernel
def conditional_samples(coupling, blocks, weighted, mass, left, right, uniform, draw):
    """Draw displacement atoms (r, s) of each query's conditional cloud by inverse transform.

    coupling = (x, y, f, g, ε); blocks = (first points of each context at the start and at the
    end of the segment).  Pair (a, b) of contexts has weight left[q, a]·weighted[a, b]·right[q, b]
    at query q and holds mass[a, b] of the coupling; uniform (n_query, n_draws, 3) is in [0, 1).
    """
    x, y, f, g, epsilon = coupling
    x_first, y_first = blocks
    n_known = mass.shape[0]
    d = x.shape[1]
    row = np.empty(n_known)
    for q in range(left.shape[0]):
        for a in range(n_known):
            inner = 0.0
            for b in range(n_known):
                inner += weighted[a, b] * right[q, b]
            row[a] = left[q, a] * inner
        total = row.sum()
        for i in range(uniform.shape[1]):
            left_over = uniform[q, i, 0] * total
            a = 0
            # invariant: left_over is what remains of the drawn mass after rows before a
            while a < n_known - 1 and left_over >= row[a]:
                left_over -= row[a]
                a += 1
            inner = 0.0
            for b in range(n_known):
                inner += weighted[a, b] * right[q, b]
            left_over = uniform[q, i, 1] * inner
            b = 0
            while b < n_known - 1:
                part = weighted[a, b] * right[q, b]
                if left_over < part:
                    break
                left_over -= part
                b += 1
            left_over = uniform[q, i, 2] * mass[a, b]
            last_r = -1
            last_s = -1
            drawn = False
            for r in range(x_first[a], x_first[a + 1]):
                for s in range(y_first[b], y_first[b + 1]):
                    cost = 0.0
                    for c in range(d):
                        step = x[r, c] - y[s, c]
                        cost += step * step
                    gamma = np.exp((f[r] + g[s] - cost) / epsilon)
                    if gamma > 0.0:
                        last_r, last_s = r, s
                    left_over -= gamma
                    if left_over < 0.0:
                        drawn = True
                        break
                if drawn:
                    break
            # rounding can leave a sliver of mass: the last atom that has any takes it
            draw[q, i, 0] = last_r
            draw[q, i, 1] = last_s
