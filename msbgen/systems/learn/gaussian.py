"""Jointly Gaussian residuals: their covariance with missing values, and conditional means.

The residuals r_S measured, of a run on some machines for example, give the expected values of the
others: ``E[r_m | r_S] = Σ_mS Σ_SS⁻¹ r_S``.
"""

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError

Floats = NDArray[np.float64]

# Ridge relative to the variances: residuals of two like machines are almost collinear.
_RIDGE = 1e-6
# Most steps of expectation maximisation, and the relative change at which they stop.
_STEPS, _TOLERANCE = 200, 1e-6


def is_covariance(matrix: Floats) -> bool:
    """Whether matrices (…, m, m) are symmetric and positive definite, so that one can solve."""
    values = np.linalg.eigvalsh(matrix)
    symmetric = (matrix == matrix.swapaxes(-1, -2)).all()
    return bool(symmetric and (values[..., 0] > 1e-14 * values[..., -1]).all())


def residual_covariance(residual: Floats, weight: Floats) -> Floats:
    """Maximum likelihood covariance about 0 of residuals (n, m) with missing values, (m, m).

    By expectation maximisation (Dempster, Laird and Rubin 1977); without missing values the first
    step is exact.  `weight` (n,) is of the rows.  :class:`MeasurementError` for a column without a
    residual.
    """
    known = np.isfinite(residual)
    if not known.any(axis=0).all():
        raise MeasurementError("a column has no residual; more runs are wanted there.")
    filled = np.where(known, residual, 0.0)
    share = weight / weight.sum()
    shares = share[:, None] * known
    covariance = np.diag((shares * filled**2).sum(axis=0) / shares.sum(axis=0)) + _floor(filled)
    patterns, which = np.unique(known, axis=0, return_inverse=True)
    which = which.reshape(-1)
    for _ in range(_STEPS):
        total = np.zeros_like(covariance)
        for p, known_columns in enumerate(patterns):
            rows = which == p
            gain = conditional_gain(covariance, known_columns)
            full = filled[rows][:, known_columns] @ gain.T
            total += (full * share[rows, None]).T @ full
            total += share[rows].sum() * (covariance - gain @ covariance[known_columns])
        total = (total + total.T) / 2.0 + _floor(filled)
        converged = np.abs(total - covariance).max() <= _TOLERANCE * np.abs(total).max()
        covariance = total
        if converged or known.all():
            break
    return covariance


def conditional_gain(covariance: Floats, given: NDArray[np.bool_]) -> Floats:
    """Matrix from the given residuals to the expected values of all, (m, n_given)."""
    measured = covariance[np.ix_(given, given)]
    return np.linalg.solve(measured, covariance[given]).T.astype(float)


def _floor(filled: Floats) -> Floats:
    """Ridge on the diagonal, which makes the covariance invertible."""
    size = (filled**2).mean(axis=0).max()
    return _RIDGE * max(float(size), 1e-12) * np.eye(filled.shape[1])
