"""Residuals that are jointly Gaussian: their covariance where some are missing, and conditioning.

What the residuals that were measured (of a run on some machines, of a program at some clocks) say
of the others:
``E[r_m | r_S] = Σ_mS Σ_SS⁻¹ r_S``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError

Floats = NDArray[np.float64]

# Share of the variances that is added to them: two machines of a kind are almost one.
_RIDGE = 1e-6
# The most steps of expectation and maximisation, and the relative change that ends them.
_STEPS, _TOLERANCE = 200, 1e-6


def residual_covariance(residual: Floats, weight: Floats) -> Floats:
    """Covariance about 0 of residuals, the most likely one where some are missing, (m, m).

    Expectation and maximisation (Dempster, Laird and Rubin 1977); without missing ones the first
    step is the answer.

    Parameters
    ----------
    residual : ndarray, (n, m)
        NaN where missing.
    weight : ndarray, (n,)
        What each row counts.

    Raises
    ------
    MeasurementError
        A column without a residual.
    """
    known = np.isfinite(residual)
    if not known.any(axis=0).all():
        raise MeasurementError("a column has no residual; more runs are wanted there.")
    filled = np.where(known, residual, 0.0)
    share = weight / weight.sum()
    shares = share[:, None] * known
    found = np.diag((shares * filled**2).sum(axis=0) / shares.sum(axis=0)) + _floor(filled)
    patterns, which = np.unique(known, axis=0, return_inverse=True)
    which = which.reshape(-1)
    for _ in range(_STEPS):
        total = np.zeros_like(found)
        for p, there in enumerate(patterns):
            rows = which == p
            gain = conditional_gain(found, there)
            full = filled[rows][:, there] @ gain.T
            total += (full * share[rows, None]).T @ full
            total += share[rows].sum() * (found - gain @ found[there])
        total = (total + total.T) / 2.0 + _floor(filled)
        done = np.abs(total - found).max() <= _TOLERANCE * np.abs(total).max()
        found = total
        if done or known.all():
            break
    return found


def conditional_gain(covariance: Floats, given: NDArray[np.bool_]) -> Floats:
    """Matrix from the residuals given to the expectation of all, (m, n_given)."""
    inner = covariance[np.ix_(given, given)]
    return np.linalg.solve(inner, covariance[given]).T.astype(float)


def _floor(filled: Floats) -> Floats:
    """A little of the variances on the diagonal, so that all can be inverted."""
    size = (filled**2).mean(axis=0).max()
    return _RIDGE * max(float(size), 1e-12) * np.eye(filled.shape[1])
