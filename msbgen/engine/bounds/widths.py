"""Widths: the expected size of a prediction's error, learned from left-out contexts.

A conformal bound is a prediction plus a quantile of scores times a width.  Any width gives a valid
bound; a width that is large where errors are large gives a tight one.  In logarithms, it is

    width(β)² = noise(β) + error alone(β) + Σ_r excess_r(β) · step_r(β)

The parts are means over the known contexts, with the largest weights for near ones.

- noise: the variance of the runs, as a geometric mean, since it may be a thousand times larger
  where a cache is too small;
- error alone: the mean square error of contexts that were left out alone;
- excess_r: the additional square error of contexts that were left out with their level of
  resource r;
- step_r: the squared gap to the measured levels over that of the left-out levels.  It is 0 at a
  measured level.

The gap of a left-out level is twice that around a new one, so most steps are far below 1.

:class:`BandWidths` are those of the parts of a run, such as segments of progress.  Their errors
have a part that does not depend on the gap.  Sampling intervals of all runs of a level end at the
same places of the program; the amounts on both sides of such places are uncertain at any new level.
With the share c_r of this part, step_r = c_r + (1 − c_r) · squared gap over that left out.  For a
resource with a gap that may hide a cliff (:mod:`msbgen.engine.generate.cliffs`), step_r = 1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.bounds.growth import Growth
from msbgen.engine.bounds.left_out import Features, LeftOut, RowFeatures
from msbgen.engine.trend.durations import Durations

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Least width, since scores are divided by the width.
LEAST_WIDTH = 1e-9
# Share of the mean over parts in the mean square of each part's errors: of contexts that were left
# out alone, and of the few left-out levels.
_SHRINKAGE, _LEVEL_SHRINKAGE = 0.1, 0.3
# Weight of the mean over all known contexts beside those nearby, in contexts.
_ALL = 1.0
# Factors on the mean error of left-out levels that are tried to fit their growth with the gap.
_FACTORS = np.geomspace(0.05, 3.0, 40)
_TINY = 1e-18
# Least variance of a context's runs over the mean of all: equal runs are equal by chance.
_LEAST_NOISE = 0.01


@dataclass(frozen=True, eq=False)
class Widths:
    """Widths of an error of whole runs, such as that of the execution time."""

    left_out: LeftOut
    error: Floats  # (pairs, parts): log of measured over predicted amounts
    measured: NDArray[np.bool_]  # (pairs,): runs in which the quantity was measured

    def at(self, features: Features) -> Floats:
        """Widths at contexts, (q, parts)."""
        near = features.near
        added = np.zeros((len(near), self.error.shape[1]))
        for r, levels in self._levels.items():
            added += np.where(features.new[:, [r]], self._added(features, r, levels), 0.0)
        return np.sqrt(self._total(self._noise(near) + self._alone(near), added)) + LEAST_WIDTH

    def _added(self, features: Features, resource: int, levels: "_Levels") -> Floats:
        """Additional square error at a new level of a resource, (q, parts)."""
        excess = self._mean_near(features.near, levels.every_excess, levels.count)
        return np.maximum(excess, 0.0) * self._step(features, resource, levels)

    def _step(self, features: Features, resource: int, levels: "_Levels") -> Floats:
        """Squared gap of the resource's level over that of the left-out levels, (q, 1)."""
        left_out = self._mean_near(features.near, levels.gap, levels.count)
        return features.gap[:, [resource]] ** 2 / np.maximum(left_out, LEAST_WIDTH**2)

    def _total(self, alone: Floats, added: Floats) -> Floats:
        """Squared width, (q, parts), of the part at known levels and that which new levels add."""
        return alone + added

    @cached_property
    def scores(self) -> Floats:
        """Errors of the left-out runs in widths, (pairs, parts)."""
        return self.error / self.at(self.left_out.left_out_rows)[self.left_out.row]

    def _noise(self, near: Floats) -> Floats:
        """Variance of runs from the mean of their context, (q, parts); 0 without repeated runs."""
        variance, repeated = self._variance
        if not repeated.any():
            return np.zeros((len(near), self.error.shape[1]))
        least = np.maximum(_LEAST_NOISE * variance[repeated].mean(axis=0), LEAST_WIDTH**2)
        log = np.log(np.maximum(variance, least))
        return np.exp(self._mean_near(near, log, repeated.astype(float)))

    def _alone(self, near: Floats) -> Floats:
        """Mean square error of the contexts that were left out alone, (q, parts)."""
        left_out, n_known = self.left_out, len(self.left_out.n_runs)
        rows = left_out.alone & (self._runs > 0)
        count = np.bincount(left_out.context[rows], minlength=n_known).astype(float)
        square = _sums(left_out.context[rows], self._beside_noise[rows], n_known)
        mean = square / np.maximum(count, 1.0)[:, None]
        return self._mean_near(near, mean, count * self._prevalence)

    @property
    def _prevalence(self) -> Floats:
        """Number of new contexts that each known context stands for, (n_known,), relative."""
        return np.ones(len(self.left_out.n_runs))

    def _mean_near(self, near: Floats, values: Floats, weight: Floats) -> Floats:
        """Mean of known contexts' values (n_known, parts) around each context, (q, parts).

        Errors are similar in a neighbourhood: the nearest context has weight one, however far it
        is.
        """
        near = near * (weight > 0)
        top = near.max(axis=1, keepdims=True)
        return self._mean(near / np.where(top > 0, top, 1.0), values, weight)

    @staticmethod
    def _mean(near: Floats, values: Floats, weight: Floats) -> Floats:
        """Mean of values with weights near · weight, and with a little of the mean of all."""
        near = near * weight
        mean = weight @ values / weight.sum()
        return (near @ values + _ALL * mean) / (near.sum(axis=1, keepdims=True) + _ALL)

    @cached_property
    def _levels(self) -> dict[int, "_Levels"]:
        """Left-out levels by resource."""
        left_out, n_known = self.left_out, len(self.left_out.n_runs)
        if not left_out.levels:
            return {}
        gap = left_out.left_out_rows.gap**2
        excess = self._beside_noise - self._alone(left_out.left_out_rows.near)
        found = {}
        for r in sorted({resource for resource, _ in left_out.levels}):
            levels = [
                rows[self._runs[rows] > 0] for resource, rows in left_out.levels if resource == r
            ]
            levels = [rows for rows in levels if rows.size]
            if not levels:
                continue
            every = np.concatenate(levels)
            found[r] = _Levels(
                [_sums(left_out.context[rows], excess[rows], n_known) for rows in levels],
                [
                    np.bincount(left_out.context[rows], minlength=n_known).astype(float)
                    for rows in levels
                ],
                _sums(left_out.context[every], gap[every][:, [r]], n_known),
                self._constant(r, levels, excess, gap[:, r]),
            )
        return found

    def _constant(self, resource: int, levels: list[Indices], excess: Floats, gap: Floats) -> float:
        """Share of the additional errors that do not depend on the gap."""
        return 0.0

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        """Number of runs of each left-out prediction that measured the quantity, (rows,)."""
        left_out = self.left_out
        return np.bincount(left_out.row[self.measured], minlength=len(left_out.context))

    @cached_property
    def _mean_error(self) -> Floats:
        return self._left_out_mean(self.error)

    def _left_out_mean(self, error: Floats) -> Floats:
        """Mean error (pairs, parts) of each left-out prediction over the runs, (rows, parts)."""
        rows = self.left_out.row[self.measured]
        total = _sums(rows, error[self.measured], len(self._runs))
        return total / np.maximum(self._runs, 1)[:, None]

    @cached_property
    def _beside_noise(self) -> Floats:
        """Squared mean error minus the variance of the mean of noisy runs, (rows, parts)."""
        noise = self._noise(self.left_out.left_out_rows.near)
        noise = noise / np.maximum(self._runs, 1)[:, None]
        return np.maximum(self._mean_error**2 - noise, 0.0)

    @cached_property
    def _variance(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Variance of the runs of each known context (n_known, parts), and those with several."""
        left_out, n_known = self.left_out, len(self.left_out.n_runs)
        pairs = left_out.alone[left_out.row] & self.measured
        row = left_out.row[pairs]
        square = _sums(
            left_out.context[row], (self.error[pairs] - self._mean_error[row]) ** 2, n_known
        )
        more = np.where(left_out.alone, np.maximum(self._runs - 1, 0), 0)
        freedom = np.bincount(left_out.context, more, minlength=n_known)
        return square / np.maximum(freedom, 1)[:, None], freedom > 0


@dataclass(frozen=True, eq=False)
class DurationWidths:
    """Widths of durations that no counter explains.

    They are the deviations of :mod:`msbgen.engine.trend.durations`.
    A context left out at an end of its range is extrapolated.  The deviation is larger there, so
    that such errors do not widen the bounds between the levels.
    """

    left_out: LeftOut
    durations: Durations
    error: Floats  # (pairs, 1): log of measured over predicted durations

    def at(self, features: Features) -> Floats:
        """Widths at contexts, (q, 1)."""
        if isinstance(features, RowFeatures):
            return self._left_out[:, None]
        return self.durations.deviation(features.contexts)[:, None] + LEAST_WIDTH

    @cached_property
    def scores(self) -> Floats:
        """Errors of the left-out runs in widths, (pairs, 1)."""
        return self.error / self._left_out[self.left_out.row][:, None]

    @cached_property
    def _left_out(self) -> Floats:
        """Widths of the left-out predictions, (rows,)."""
        left_out, durations = self.left_out, self.durations
        out = durations.left_out_deviation[left_out.context] + LEAST_WIDTH
        for rows in left_out.groups:
            left = left_out.lacks[rows[0]]
            if left.sum() > 1:
                kept = np.flatnonzero(~left)
                others = durations.refit(kept, durations.departure[kept])
                out[rows] = (
                    others.deviation(durations.contexts[left_out.context[rows]]) + LEAST_WIDTH
                )
        return out


@dataclass(frozen=True, eq=False)
class BandWidths(Widths):
    """Widths of the amounts of a quantity in each part of a run, such as segments of progress.

    A band over all parts of a run uses the largest score of any part.  A part in which the known
    contexts happened to agree has a small width, hence large scores, and would widen the band of
    all parts.  Each mean square is therefore shrunk towards the mean over parts: that of left-out
    levels more, since they are few.

    For the same reason, the error of a new level that does not grow with the gap is the mean of
    theirs where it is counted as one more.  That which grows may be far larger at one level than at
    the others, and is the largest of theirs.  A known context at an end of a resource's range
    stands for half as many new contexts as one between: left out alone, it is extrapolated.
    """

    # (pairs, parts): log of measured over predicted amounts of each part with its neighbours
    smooth: Floats
    growth: dict[int, Growth]  # by resource, where neighbouring levels could be left out together
    # resources of which the count may change at an unknown place between two levels: the error of a
    # left-out level says nothing on smaller gaps
    cliffs: frozenset[int] = frozenset()

    @property
    def _prevalence(self) -> Floats:
        return self.left_out.prevalence

    def _mean_near(self, near: Floats, values: Floats, weight: Floats) -> Floats:
        """See :class:`Widths`; contexts that are far from all others get the mean of all."""
        return self._mean(near * (weight > 0), values, weight)

    def _total(self, alone: Floats, added: Floats) -> Floats:
        return _shrunk(alone, _SHRINKAGE) + _shrunk(added, _LEVEL_SHRINKAGE)

    def _added(self, features: Features, resource: int, levels: "_Levels") -> Floats:
        near, each = features.near, zip(levels.excess, levels.counts)
        mean = self._mean_near(near, levels.every_excess, levels.count)
        mean = np.maximum((1.0 + 1.0 / len(levels.counts)) * mean, 0.0)
        largest = np.maximum(
            np.max([self._mean_near(near, own, count) for own, count in each], axis=0), mean
        )
        if resource in self.cliffs:
            return largest
        step, constant = self._step(features, resource, levels), levels.constant
        return constant * mean + (1.0 - constant) * largest * step

    def _constant(self, resource: int, levels: list[Indices], excess: Floats, gap: Floats) -> float:
        """Share of the additional errors that do not depend on the gap.

        Errors at the ends of sampling intervals cancel between neighbouring parts.  The share is
        therefore at most that of the errors that cancel over three parts.  Below, it is found by
        the growth of the errors of left-out levels with their gaps.  A large share is preferred,
        since three levels tell little: it may fit worse by as much as it is larger.  It is at most
        that which neighbouring levels show that are left out together.
        """
        if len(levels) == 1:
            return 1.0
        every, square = np.concatenate(levels), self._beside_noise
        smooth = np.minimum(self._left_out_mean(self.smooth)[every] ** 2, square[every])
        shares = np.linspace(0.0, 1.0 - smooth.sum() / max(square[every].sum(), _TINY), 41)
        more = np.maximum([excess[rows].mean() for rows in levels], 0.0)
        alone = np.array([square[rows].mean() for rows in levels]) - more
        steps = np.array([gap[rows].mean() for rows in levels])
        steps = shares[:, None] + (1.0 - shares[:, None]) * steps / max(steps.mean(), _TINY)
        alone, total = max(alone.mean(), _TINY), np.maximum(more + alone, _TINY)
        fitted = _FACTORS[:, None, None] * more.mean() * steps + alone
        misfit = (np.log(fitted / total) ** 2).sum(axis=2).min(axis=0)
        share = float(shares[np.argmin(misfit - shares)])
        return min(share, self.growth[resource].constant) if resource in self.growth else share


@dataclass(frozen=True, eq=False)
class _Levels:
    """Left-out levels of a resource, by known context."""

    excess: list[Floats]  # of each level: square errors beyond those alone, (n_known, parts)
    counts: list[Floats]  # of each level: number of left-out predictions, (n_known,)
    gap: Floats  # (n_known, 1): sum of the squared gaps
    constant: float  # share of the errors that do not depend on the gap

    @cached_property
    def count(self) -> Floats:
        """Number of left-out predictions of each known context, (n_known,)."""
        return np.sum(self.counts, axis=0)

    @cached_property
    def every_excess(self) -> Floats:
        """Sum over the levels, (n_known, parts)."""
        return np.sum(self.excess, axis=0)


def _shrunk(square: Floats, share: float) -> Floats:
    """Mean squares (q, parts), each with a share of their mean over the parts."""
    return square + share * square.mean(axis=1, keepdims=True)


def _sums(index: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Sums of the rows of values with each index from 0 to count − 1."""
    total = np.zeros((count, values.shape[1]))
    np.add.at(total, index, values)
    return total
