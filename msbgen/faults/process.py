"""A Gaussian process over the contexts that faults hardly move, noisier where neighbours depart.

Each quantity of a context, a logarithm, is a smooth process (`msbgen.trend.covariance`) and noise.
Length scales, amplitude and noise are those under which each context is best predicted by all
others, in the likelihood of Student's t: a few contexts that nothing predicts do not choose them.

A corner or a cliff is where neighbours depart together, a fault where one departs alone.  So the
noise of a context is raised by what its neighbours depart beyond what is expected of them, the
largest of their departures and its own left aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from msbgen.faults.explained import EVEN, median
from msbgen.trend.covariance import Pairs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

_LENGTHS = np.array([0.25, 0.4, 0.6, 1.0, 1.6, 2.5, 4.0, 8.0])
_NUGGETS = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0])
# Where the search starts: 1.6, 1e-3; a length is 1.6 but for a factor of e either way.
_FIRST_LENGTH, _FIRST_NUGGET = 4, 2
# Degrees of freedom of Student's t; sweeps of a search; steps that find an amplitude.
_FREEDOM, _SWEEPS, _STEPS = 4.0, 3, 10
# Contexts that the search looks at: its cost rises with their third power.
_MOST = 200
# Neighbours nearby; share of the largest departures among neighbours that is left aside.
_NEAR, _TRIMMED = 8, 0.2
# A variance that leaves a context no say, over that of the smooth part.
SILENT = 1e6


@dataclass(frozen=True, eq=False)
class Process:
    """Covariance of one quantity over the contexts.

    Attributes
    ----------
    smooth : ndarray, (n, n)
        Of the smooth part.
    noise : ndarray, (n,)
        Variance of what a context departs from it.
    """

    smooth: Floats
    noise: Floats

    def precision(self) -> Floats:
        """Inverse covariance, (n, n)."""
        inverse = np.linalg.inv(self.smooth + np.diag(self.noise))
        return np.asarray(inverse, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """What stands beside each context.

    Attributes
    ----------
    z : ndarray, (n, m)
        Scaled coordinates.
    pairs : Pairs
        Of all contexts.
    groups : list of ndarray of int, (n, size)
        Others that may depart together with a context: the nearest, and those at its level of each
        resource.
    """

    z: Floats
    pairs: Pairs
    groups: list[Indices]

    @classmethod
    def of(cls, z: Floats) -> Neighbourhoods:
        """Of contexts (n, m) in scaled coordinates."""
        distance = np.sqrt(((z[:, None] - z[None]) ** 2).sum(axis=2))
        np.fill_diagonal(distance, np.inf)
        groups = [np.argsort(distance, axis=1, kind="stable")[:, : min(_NEAR, len(z) - 1)]]
        for column in z.T:
            if np.ptp(column) == 0:
                continue
            apart = np.abs(column[:, None] - column[None])
            np.fill_diagonal(apart, np.inf)
            size = int(np.median((apart < 1e-6).sum(axis=1)))
            size = min(max(size, _NEAR), len(z) - 1)
            order = np.argsort(apart + 1e-6 * distance, axis=1, kind="stable")
            groups.append(order[:, :size])
        return cls(z, Pairs(z, z), groups)

    def shared(self, variance: Floats) -> Floats:
        """Variances (n, k) that few runs told, at least what is usual around each context.

        Two runs that happen to be alike tell of no noise where all others around differ.
        """
        usual = [_trimmed_mean(variance[group]) for group in self.groups]
        return np.maximum(variance, np.max(usual, axis=0))


def fit_process(around: Neighbourhoods, values: Floats, scale: Floats, skipped: Bools) -> Process:
    """The process that predicts contexts best from one another.

    Parameters
    ----------
    around : Neighbourhoods
    values : ndarray, (n,)
        Logarithms, about zero.
    scale : ndarray, (n,)
        Variance of the noise of each context over the usual one.
    skipped : ndarray of bool, (n,)
        Contexts that are not looked at.
    """
    kept = np.flatnonzero(~skipped)
    if len(kept) > _MOST:
        kept = kept[:: -(-len(kept) // _MOST)]
    few, own, mine = np.ix_(kept, kept), values[kept], scale[kept]
    seen: dict[tuple[int, ...], tuple[float, float]] = {}
    m = around.z.shape[1]

    def at(place: tuple[int, ...]) -> tuple[float, float]:
        """Log likelihood of the grids' point, and the amplitude there."""
        if place not in seen:
            lengths = _LENGTHS[list(place[:-1])]
            covariance = around.pairs.covariance(lengths)[few]
            covariance[np.diag_indices(len(kept))] += _NUGGETS[place[-1]] * mine
            inverse = np.linalg.inv(covariance)
            variance = 1.0 / np.diag(inverse)
            square = (inverse @ own * variance) ** 2
            ratio = square / variance
            amplitude = median(ratio) / 0.455
            for _ in range(_STEPS):
                z = ratio / max(amplitude, 1e-14)
                amplitude *= float(((_FREEDOM + 1) * z / (_FREEDOM + z)).sum()) / len(z)
            amplitude = max(amplitude, 1e-14)
            total = amplitude * variance + EVEN**2 * mine
            fit = np.log(total) + (_FREEDOM + 1) * np.log1p(square / total / _FREEDOM)
            unusual = np.log(lengths / _LENGTHS[_FIRST_LENGTH]) ** 2
            seen[place] = -0.5 * float(fit.sum() + unusual.sum()), amplitude
        return seen[place]

    best = (_FIRST_LENGTH,) * m + (_FIRST_NUGGET,)
    for _ in range(_SWEEPS):
        before = best
        for axis, by in ((axis, by) for axis in range(m + 1) for by in (1, -1)):
            end = len(_LENGTHS) if axis < m else len(_NUGGETS)
            while 0 <= best[axis] + by < end:
                tried = (*best[:axis], best[axis] + by, *best[axis + 1 :])
                if at(tried)[0] <= at(best)[0] + 1e-3:
                    break
                best = tried
        if best == before:
            break
    amplitude = at(best)[1]
    smooth = amplitude * around.pairs.covariance(_LENGTHS[list(best[:-1])])
    return Process(smooth, (amplitude * _NUGGETS[best[-1]] + EVEN**2) * scale)


def raise_noise(
    process: Process, around: Neighbourhoods, values: Floats, skipped: Bools
) -> Process:
    """The same, noisier where the neighbours of a context depart; `skipped` ones do not count.

    O(n²) beside the inverse: the departure of each neighbour when both are left out.
    """
    free = np.where(skipped, SILENT * process.smooth.diagonal(), 0.0)
    inverse = np.linalg.inv(process.smooth + np.diag(process.noise + free))
    pulled, diagonal = inverse @ values, np.diag(inverse)
    # row i: the others' residuals and variances, each left out together with i
    left = np.maximum(diagonal[None] - inverse**2 / diagonal[:, None], 1e-9 * diagonal[None])
    variance = 1.0 / left
    residual = (pulled[None] - inverse * (pulled / diagonal)[:, None]) * variance
    square = np.where(skipped[None], np.nan, residual**2 * left)
    added = np.zeros(len(values))
    for group in around.groups:
        own = np.take_along_axis(square, group, axis=1)
        order = np.argsort(own, axis=1, kind="stable")  # the skipped ones last
        own = np.take_along_axis(own, order, axis=1)
        spread = np.take_along_axis(np.take_along_axis(variance, group, axis=1), order, axis=1)
        there = np.isfinite(own).sum(axis=1)
        kept = there - np.maximum(1, np.ceil(_TRIMMED * there)).astype(int)
        inner = np.arange(own.shape[1]) < kept[:, None]
        usual = np.array([_mean_of_smallest(int(n), int(k)) for n, k in zip(there, kept)])
        excess = np.where(inner, own * spread, 0.0).sum(axis=1) / usual
        excess -= np.where(inner, spread, 0.0).sum(axis=1)
        added = np.maximum(added, np.where(kept > 0, excess / np.maximum(kept, 1), 0.0))
    return Process(process.smooth, process.noise + added)


def _trimmed_mean(values: Floats) -> Floats:
    """Mean of the second axis (n, size, k) without its largest."""
    size = values.shape[1]
    kept = size - max(1, int(np.ceil(_TRIMMED * size)))
    return np.sort(values, axis=1)[:, :kept].sum(axis=1) / max(kept, 1)


@cache
def _mean_of_smallest(n: int, kept: int) -> float:
    """Expected mean of the `kept` smallest among n squares of standard normal numbers."""
    if kept < 1:
        return 1.0
    squares = np.sort(np.random.default_rng(0).standard_normal((4000, n)) ** 2, axis=1)
    return float(squares[:, :kept].mean())
