"""Covariances of Gaussian processes, factored once to condition on what was seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.lazy import lazy_module

linalg = lazy_module("scipy.linalg")

Floats = NDArray[np.float64]


def gaussian_kernel(a: Floats, b: Floats) -> Floats:
    """exp(−½ |aᵢ − bⱼ|²) for rows (n, d) and (m, d), (n, m)."""
    return np.exp(-0.5 * squares_between(a, b))


def squares_between(a: Floats, b: Floats) -> Floats:
    """Squared distances of rows (n, d) and (m, d), (n, m), by a product: fast, to rounding of |a|².

    :func:`msbgen.core.contexts.squared_distances` is exact for points that almost coincide.
    """
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * a @ b.T
    return np.maximum(squares, 0.0)


@dataclass(frozen=True, eq=False)
class SeenCovariance:
    """Covariance K = L Lᵀ of n values that are seen, noise included.

    With the covariances C (n, q) of the seen values with q others, these have the means
    `weights(y)ᵀ C` and the variances that `whitened(C)` explains: its column sums of squares.
    """

    lower: Floats  # L, (n, n)

    @classmethod
    def of(cls, covariance: Floats) -> SeenCovariance:
        """Factor a covariance; :class:`numpy.linalg.LinAlgError` where it is not positive."""
        return cls(linalg.cholesky(covariance, lower=True, check_finite=False))

    def whitened(self, rows: Floats) -> Floats:
        """L⁻¹ times values or covariances (n, …)."""
        return linalg.solve_triangular(self.lower, rows, lower=True, check_finite=False)

    def weights(self, values: Floats) -> Floats:
        """K⁻¹ times values or covariances (n, …)."""
        return linalg.cho_solve((self.lower, True), values, check_finite=False)

    @property
    def precision(self) -> Floats:
        """K⁻¹, (n, n)."""
        return self.weights(np.eye(len(self.lower)))

    @property
    def half_log_determinant(self) -> float:
        """½ log |K|."""
        return float(np.log(np.diag(self.lower)).sum())
