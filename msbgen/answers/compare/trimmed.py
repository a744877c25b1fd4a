"""Trimmed means of runs, and the errors of their differences.

From five runs on, a fifth of them is trimmed on either side, and Winsorized variances take the
place of the runs' variances (Yuen, Biometrika 61, 1974): rare slow runs do not decide.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Share of the runs that is trimmed on either side.
_TRIMMED = 0.2


def trimmed_mean(values: Floats) -> Floats:
    """Mean of each row's middle values, (..., runs) -> (...); missing ones are NaN."""
    n, trimmed = _counts(values)
    if trimmed.any():
        values = np.where(_kept(values, n, trimmed), np.sort(values, axis=-1), np.nan)
    return _sum(values) / (n - 2 * trimmed)


def _sum(values: Floats) -> Floats:
    """Sums of rows (..., runs) without missing values; numpy's own takes twice as long for all."""
    total = values.sum(axis=-1)
    return np.nansum(values, axis=-1) if np.isnan(total).any() else total


def kept_runs(n: Indices) -> Indices:
    """Number of n values that are not trimmed."""
    return n - 2 * _trimmed(n)


def _trimmed(n: Indices) -> Indices:
    """Number of n values that are trimmed on either side."""
    return (_TRIMMED * n + 1e-9).astype(np.int64)


def _counts(values: Floats) -> tuple[Indices, Indices]:
    """Number of values in each row, (..., runs) -> (...), and of those trimmed on either side."""
    n = np.isfinite(values).sum(axis=-1)
    return n, _trimmed(n)


def _kept(values: Floats, n: Indices, trimmed: Indices) -> Bools:
    """Which values of sorted rows are not trimmed, (..., runs)."""
    place = np.arange(values.shape[-1])
    return (place >= trimmed[..., None]) & (place < (n - trimmed)[..., None])


def squared_errors(values: Floats) -> tuple[Floats, Floats]:
    """Squared standard errors of trimmed means of rows (..., runs), and degrees of freedom."""
    n, trimmed = _counts(values)
    if trimmed.any():
        ordered = np.sort(values, axis=-1)
        low = np.take_along_axis(ordered, trimmed[..., None], axis=-1)
        high = np.take_along_axis(ordered, (n - 1 - trimmed)[..., None], axis=-1)
        values = np.clip(ordered, low, high)
    mean = _sum(values) / n
    square = _sum((values - mean[..., None]) ** 2)
    held = n - 2.0 * trimmed
    return square / np.maximum(held * (held - 1.0), 1.0), held - 1.0


def difference_errors(squares: Floats, free: Floats) -> tuple[Floats, Floats]:
    """Squared errors of differences from those of both parts (2, ...), and degrees of freedom."""
    total = squares.sum(axis=0)
    known = np.maximum((squares**2 / np.maximum(free, 1.0)).sum(axis=0), 1e-300)
    freedom = np.where(total > 0, total**2 / known, free.sum(axis=0))
    return total, np.where((free > 0).all(axis=0), freedom, 0.0)
