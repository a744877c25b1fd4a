"""Kernels of the metrics: dynamic time warping, and distances between clouds."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile at the first call; cache on disk where that is possible."""
    # contraction (fused multiply-add) is the one flag of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


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
