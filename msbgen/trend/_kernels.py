"""Kernels of the trend: positive definite systems, and time under a cap."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is a freedom of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available": a read-only install without a cache folder
        return njit(**options)(function)


@_kernel
def throttled(free, least, width, time, share):
    """E max(free, least X), X log-normal of mean 1 and log deviation `width`, elementwise (n,).

    share: the derivative of its logarithm to that of `free`.
    """
    for i in range(free.size):
        d = (np.log(max(least[i], 1e-300)) - np.log(max(free[i], 1e-300))) / width
        part = 0.5 * free[i] * math.erfc((d - 0.5 * width) * math.sqrt(0.5))
        time[i] = part + 0.5 * least[i] * math.erfc(-(d + 0.5 * width) * math.sqrt(0.5))
        share[i] = part / max(time[i], 1e-300)


@_kernel
def invert_positive(matrix, inverse):
    """Inverse of a positive definite matrix by Cholesky, serially; False where it is not one."""
    n = matrix.shape[0]
    lower = np.zeros((n, n))
    for i in range(n):
        # invariant: rows before i hold the factor L of matrix = L Lᵀ
        row = lower[i]
        for j in range(i):
            other = lower[j]
            inner = matrix[i, j]
            for k in range(j):
                inner -= row[k] * other[k]
            row[j] = inner / other[j]
        pivot = matrix[i, i]
        for k in range(i):
            pivot -= row[k] * row[k]
        if not pivot > 0.0:
            return False
        row[i] = np.sqrt(pivot)
    # rows of W = L⁻¹, each from those before it; then matrix⁻¹ = Wᵀ W
    w = np.zeros((n, n))
    for i in range(n):
        w_i = w[i]
        w_i[i] = 1.0
        for j in range(i):
            factor = lower[i, j]
            w_j = w[j]
            for k in range(j + 1):
                w_i[k] -= factor * w_j[k]
        scale = 1.0 / lower[i, i]
        for k in range(i + 1):
            w_i[k] *= scale
    inverse[:] = 0.0
    for i in range(n):
        w_i = w[i]
        for j in range(i + 1):
            out = inverse[j]
            factor = w_i[j]
            for k in range(i + 1):
                out[k] += factor * w_i[k]
    return True


@_kernel
def solve_positive(matrix, x):
    """Solve matrix @ x = x in place by Cholesky; False where the matrix is not positive definite.

    Reads and overwrites the upper triangle, serially: on a busy machine the threads of a library
    cost a hundredfold at this size.
    """
    n = x.size
    for k in range(n):
        # invariant: rows before k hold the factor U of UᵀU, the others the Schur complement
        pivot = matrix[k, k]
        if not pivot > 0.0:
            return False
        top = matrix[k]
        inverse = 1.0 / np.sqrt(pivot)
        for j in range(k, n):
            top[j] *= inverse
        for i in range(k + 1, n):
            row = matrix[i]
            factor = top[i]
            for j in range(i, n):
                row[j] -= factor * top[j]
    for k in range(n):
        row = matrix[k]
        x[k] /= row[k]
        for j in range(k + 1, n):
            x[j] -= row[j] * x[k]
    for k in range(n - 1, -1, -1):
        row = matrix[k]
        inner = 0.0
        for j in range(k + 1, n):
            inner += row[j] * x[j]
        x[k] = (x[k] - inner) / row[k]
    return True
