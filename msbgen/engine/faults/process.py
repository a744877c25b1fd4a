"""A robust Gaussian process over the contexts, with more noise where neighbours deviate together.

Each quantity of a context, a logarithm, is a smooth process (`msbgen.engine.trend.covariance`) plus
noise. Length scales, amplitude and noise maximise the leave-one-out likelihood of Student's t, so
that a few contexts that no other predicts do not determine them.

Neighbours that deviate together are a property of the task, such as a working set that no longer
fits.  A context that deviates alone is a fault.  So the noise of a context is raised by the
deviations of its neighbours beyond the expected ones.  Its own deviation and the largest of its
neighbours' are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.faults.regression import LEAST_SPREAD, median
from msbgen.engine.trend.covariance import Pairs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

_LENGTHS = np.array([0.25, 0.4, 0.6, 1.0, 1.6, 2.5, 4.0, 8.0])
_NUGGETS = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0])
# Where the search starts: 1.6, 1e-3; the prior of a length is log-normal about 1.6, standard
# deviation 1.
_FIRST_LENGTH, _FIRST_NUGGET = 4, 2
# Degrees of freedom of Student's t; sweeps of a search; steps of fitting an amplitude.
_FREEDOM, _SWEEPS, _STEPS = 4.0, 3, 10
# The most contexts of a search: its cost grows with their third power.
_MOST_CONTEXTS = 200
# Number of nearest neighbours; share of their largest deviations that is left out.
_NEAREST, _TRIMMED = 8, 0.2
# Noise variance, over that of the smooth part, that excludes a context.
EXCLUDED = 1e6


@dataclass(frozen=True, eq=False)
class Process:
    """Covariance of one quantity over the contexts."""

    smooth: Floats  # (n, n): of the smooth part
    noise: Floats  # (n,): variance of the noise of each context

    def precision(self) -> Floats:
        """Inverse covariance, (n, n)."""
        inverse = np.linalg.inv(self.smooth + np.diag(self.noise))
        return np.asarray(inverse, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The contexts near each context."""

    z: Floats  # (n, m): scaled coordinates
    pairs: Pairs  # of all contexts
    # (n, size) each, contexts that may deviate together with a context: the nearest, and for each
    # resource those at its level
    groups: list[Indices]

    @classmethod
    def of(cls, z: Floats) -> Neighbourhoods:
        """The neighbourhoods of contexts (n, m) in scaled coordinates."""
        distance = np.sqrt(((z[:, None] - z[None]) ** 2).sum(axis=2))
        np.fill_diagonal(distance, np.inf)
        groups = [np.argsort(distance, axis=1, kind="stable")[:, : min(_NEAREST, len(z) - 1)]]
        for column in z.T:
            if np.ptp(column) == 0:
                continue
            step = np.abs(column[:, None] - column[None])
            np.fill_diagonal(step, np.inf)
            size = int(np.median((step < 1e-6).sum(axis=1)))
            size = min(max(size, _NEAREST), len(z) - 1)
            order = np.argsort(step + 1e-6 * distance, axis=1, kind="stable")
            groups.append(order[:, :size])
        return cls(z, Pairs(z, z), groups)

    def floored(self, variance: Floats) -> Floats:
        """Variances (n, k) estimated from few runs, raised to the usual one around each context.

        Two runs of a context may agree by chance although all runs around it differ.
        """
        usual = [_trimmed_mean(variance[group]) for group in self.groups]
        return np.maximum(variance, np.max(usual, axis=0))


class ProcessSearch:
    """The processes of quantities of the same contexts, each of the best left-out predictions.

    `scale` (n,) is the noise variance of each context over the usual one; `skipped` (n,) contexts
    are ignored.  The quantities share the inverses, O(n³) each.
    """

    def __init__(self, neighbourhoods: Neighbourhoods, scale: Floats, skipped: Bools) -> None:
        kept = np.flatnonzero(~skipped)
        if len(kept) > _MOST_CONTEXTS:
            kept = kept[:: -(-len(kept) // _MOST_CONTEXTS)]
        self._pairs, self._kept, self._scale = neighbourhoods.pairs, kept, scale
        self._n_resources = neighbourhoods.z.shape[1]
        self._inverses: dict[tuple[int, ...], Floats] = {}

    def fit(self, values: Floats) -> Process:
        """The process of a quantity (n,), centred logarithms."""
        evaluated: dict[tuple[int, ...], tuple[float, float]] = {}

        def at(place: tuple[int, ...]) -> tuple[float, float]:
            if place not in evaluated:
                evaluated[place] = self._evaluate(place, values[self._kept])
            return evaluated[place]

        m = self._n_resources
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
        smooth = amplitude * self._pairs.covariance(_LENGTHS[list(best[:-1])])
        noise = (amplitude * _NUGGETS[best[-1]] + LEAST_SPREAD**2) * self._scale
        return Process(smooth, noise)

    def _evaluate(self, place: tuple[int, ...], values: Floats) -> tuple[float, float]:
        """Log likelihood at a point of the grids, and the amplitude there."""
        inverse, scale = self._inverse(place), self._scale[self._kept]
        variance = 1.0 / np.diag(inverse)
        square = (inverse @ values * variance) ** 2
        ratio = square / variance
        amplitude = float(median(ratio)) / 0.455
        for _ in range(_STEPS):
            weighted = ratio / (_FREEDOM * max(amplitude, 1e-14) + ratio)
            amplitude *= (_FREEDOM + 1) * float(weighted.sum()) / len(ratio)
        amplitude = max(amplitude, 1e-14)
        total = amplitude * variance + LEAST_SPREAD**2 * scale
        fit = np.log(total) + (_FREEDOM + 1) * np.log1p(square / total / _FREEDOM)
        prior = np.log(_LENGTHS[list(place[:-1])] / _LENGTHS[_FIRST_LENGTH]) ** 2
        return -0.5 * float(fit.sum() + prior.sum()), amplitude

    def _inverse(self, place: tuple[int, ...]) -> Floats:
        """Inverse covariance of the contexts kept, of amplitude 1, at a point of the grids."""
        if place not in self._inverses:
            kept = self._kept
            covariance = self._pairs.covariance(_LENGTHS[list(place[:-1])])[np.ix_(kept, kept)]
            covariance[np.diag_indices(len(kept))] += _NUGGETS[place[-1]] * self._scale[kept]
            self._inverses[place] = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        return self._inverses[place]


def raise_noise(
    process: Process, neighbourhoods: Neighbourhoods, values: Floats, skipped: Bools
) -> Process:
    """The process with more noise where the neighbours of a context deviate together.

    Contexts that are `skipped` have no influence.  The deviation of a neighbour is that where both
    are left out: O(n²) beside the inverse.
    """
    free = np.where(skipped, EXCLUDED * process.smooth.diagonal(), 0.0)
    inverse = np.linalg.inv(process.smooth + np.diag(process.noise + free))
    alpha, diagonal = inverse @ values, np.diag(inverse)
    # row i: the others' residuals and variances, each left out together with i
    left = np.maximum(diagonal[None] - inverse**2 / diagonal[:, None], 1e-9 * diagonal[None])
    variance = 1.0 / left
    residual = (alpha[None] - inverse * (alpha / diagonal)[:, None]) * variance
    square = np.where(skipped[None], np.nan, residual**2 * left)
    added = np.zeros(len(values))
    for group in neighbourhoods.groups:
        squares = np.take_along_axis(square, group, axis=1)
        order = np.argsort(squares, axis=1, kind="stable")  # the skipped ones last
        squares = np.take_along_axis(squares, order, axis=1)
        spread = np.take_along_axis(np.take_along_axis(variance, group, axis=1), order, axis=1)
        present = np.isfinite(squares).sum(axis=1)
        kept = present - np.maximum(1, np.ceil(_TRIMMED * present)).astype(int)
        inner = np.arange(squares.shape[1]) < kept[:, None]
        usual = np.array([_mean_of_smallest(int(n), int(k)) for n, k in zip(present, kept)])
        excess = np.where(inner, squares * spread, 0.0).sum(axis=1) / usual
        excess -= np.where(inner, spread, 0.0).sum(axis=1)
        added = np.maximum(added, np.where(kept > 0, excess / np.maximum(kept, 1), 0.0))
    return Process(process.smooth, process.noise + added)


def _trimmed_mean(values: Floats) -> Floats:
    """Mean over the second axis of (n, size, k) without the largest values."""
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
