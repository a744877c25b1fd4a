"""Curves of programs over the contexts without the noise of their measurements.

The logarithm of a time or a power of program i in context c is

    y_i(c) = level_i + m(c) + d_i(c) + ε,    ε ~ N(0, σ²).

The common curve m and the deviations d_i are Gaussian processes over the logarithms of the
resources, with Matérn kernels of smoothness 3/2, as curves may have kinks.  Maximum likelihood
chooses variances and lengths.  The noise σ² is the part of deviations that neighbouring contexts
do not share.  The noise of the mean curve follows from it, so common kinks are kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.systems.kernels.choice.prior import centred

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Lengths of the kernels as shares of a resource's range, to choose from.
_LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
# Variances to choose from: of deviations over that of the noise, of the common curve over its own.
_RATIOS = np.geomspace(1e-2, 1e6, 33)
_SCALES = np.geomspace(1e-3, 1e3, 25)
# In fewer contexts a kink looks like noise.  With more, decompositions take seconds.
FEWEST_CONTEXTS, _MOST_CONTEXTS = 16, 400
# Least variance of a noise that matters, and share of a variance that makes a matrix invertible.
_LEAST, _RIDGE = 1e-12, 1e-14


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Curves without noise (p, n), NaN where not measured, and the variance of their noise."""

    curves: Floats
    noise: float


def smooth_curves(rows: Floats, weight: Floats, places: Floats) -> Smoothed:
    """Curves of programs without noise.

    Parameters
    ----------
    rows : ndarray, (p, n)
        Logarithms, NaN where not measured.  Every context has one at least.
    weight : ndarray, (p,)
    places : ndarray, (n, m)
        Logarithms of the resources of the contexts.

    Returns
    -------
    Smoothed
        The rows themselves, with noise 0, if two programs do not have :data:`FEWEST_CONTEXTS`.
    """
    known = np.isfinite(rows)
    enough = known.sum(axis=1) >= FEWEST_CONTEXTS
    if enough.sum() < 2 or rows.shape[1] > _MOST_CONTEXTS:
        return Smoothed(rows, 0.0)
    level, mean = centred(rows, weight)
    several = float(((weight / weight.sum()) ** 2).sum())
    # the mean is of the same programs: deviations from it are smaller than those from m
    off = (rows - level[:, None] - mean) / np.sqrt(1.0 - several)
    kernels = [_matern(places, length) for length in _LENGTHS]
    patterns = list(_patterns(known & enough[:, None]))
    noise, ratio, kernel = _noise(off, patterns, kernels)
    if noise < _LEAST:
        return Smoothed(rows, 0.0)
    common = _common_curve(mean, several * noise, kernels)
    curves = rows.copy()
    for programs, contexts in patterns:
        at = np.ix_(programs, contexts)
        gain = _gain(ratio * noise * kernel[np.ix_(contexts, contexts)], noise)
        curves[at] = common[contexts] + (rows[at] - common[contexts]) @ gain.T
    return Smoothed(curves, noise)


def _noise(
    off: Floats, patterns: Sequence[tuple[Indices, Indices]], kernels: Sequence[Floats]
) -> tuple[float, float, Floats]:
    """Variance of the noise, of deviations as a multiple of it, and kernel of the deviations."""
    best = (np.inf, 0.0, 0.0, kernels[0])
    for kernel in kernels:
        parts = [_rotated(kernel[np.ix_(j, j)], off[np.ix_(i, j)]) for i, j in patterns]
        values = np.concatenate([np.tile(value, len(rows)) for value, rows in parts])
        squares = np.concatenate([(rows**2).ravel() for _, rows in parts])
        for ratio in _RATIOS:
            variance = 1.0 + ratio * values
            noise = max(float((squares / variance).mean()), np.finfo(float).tiny)
            deviance = len(values) * np.log(noise) + np.log(variance).sum()
            if deviance < best[0]:
                best = (float(deviance), noise, float(ratio), kernel)
    return best[1:]


def _common_curve(mean: Floats, noise: float, kernels: Sequence[Floats]) -> Floats:
    """The mean curve (n,) without a noise of known variance."""
    best, curve = np.inf, mean
    size = max(float(np.var(mean)), np.finfo(float).tiny)
    for kernel in kernels:
        values, (turned,) = _rotated(kernel, mean[None])
        for scale in _SCALES:
            variance = noise + scale * size * values
            deviance = float((turned**2 / variance + np.log(variance)).sum())
            if deviance < best:
                best, curve = deviance, _gain(scale * size * kernel, noise) @ mean
    return curve


def _patterns(known: Bools) -> Iterator[tuple[Indices, Indices]]:
    """Programs that were measured in the same contexts, and these contexts."""
    patterns, which = np.unique(known, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern.any():
            yield np.flatnonzero(which.reshape(-1) == number), np.flatnonzero(pattern)


def _rotated(kernel: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Variances of independent contrasts of curves with a kernel, and the contrasts of rows."""
    contrasts = _contrasts(len(kernel))
    values, vectors = np.linalg.eigh(contrasts.T @ kernel @ contrasts)
    return np.maximum(values, 0.0), rows @ contrasts @ vectors


def _gain(kernel: Floats, noise: float) -> Floats:
    """Matrix that turns curves with any level into those without noise, (n, n)."""
    contrasts = _contrasts(len(kernel))
    total = contrasts.T @ kernel @ contrasts
    total += (noise + _RIDGE * np.trace(total)) * np.eye(len(total))
    return np.eye(len(kernel)) - noise * contrasts @ np.linalg.solve(total, contrasts.T)


def _contrasts(n: int) -> Floats:
    """Orthonormal basis of all curves with mean 0, (n, n − 1)."""
    spanning = np.eye(n)
    spanning[:, 0] = 1.0
    return np.linalg.qr(spanning)[0][:, 1:]


def _matern(places: Floats, length: float) -> Floats:
    """Matérn kernel with a length in shares of the ranges of the places, (n, n)."""
    span = np.ptp(places, axis=0)
    scaled = places[:, span > 0] / (length * span[span > 0])
    distance = np.sqrt(3.0 * ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=2))
    return (1.0 + distance) * np.exp(-distance)
