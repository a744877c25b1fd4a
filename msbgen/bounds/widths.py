"""How widely runs scatter around their prediction at a context, learned from left-out contexts.

A conformal bound is a prediction plus a quantile of scores times a width.  Any width gives a valid
bound, one that is wide where errors are large gives a tight bound.  Here it is, of the logarithm,

    width(β)² = noise(β) + error alone(β) + Σ_r growth_r(β) · step_r(β)²

All are means over the known contexts, near ones counting most: the variance of the runs (a
geometric mean: where a cache is too small it may be a thousand times as large), the mean square
error of contexts that were left out alone, and what more those were off by that were left out with
their level of resource r, per squared step that these took.  A context at a level that was measured
has step 0: it pays nothing for gaps elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.bounds.heldout import HeldOut, Places

Floats = NDArray[np.float64]

# Least width: scores are divided by it.
NARROW = 1e-9
# Share of the mean over parts in the mean square of each part's errors.
_SHRINKAGE = 0.3
# What the mean over all known contexts counts beside those nearby, in contexts.
_ALL = 1.0
# Least variance of a context's runs over the mean of all: equal runs are a chance.
_LEAST_NOISE = 0.01


@dataclass(frozen=True, eq=False)
class Widths:
    """Widths of what is measured in a run in one or more parts, as segments of progress.

    A band that holds for all parts of a run is as wide as its worst part wants, in units of the
    part's width: a part where the known contexts happened to agree would widen all others, so each
    mean square is drawn towards the mean over parts.

    Attributes
    ----------
    held : HeldOut
    error : ndarray, (pairs, parts)
        Log of measured over predicted amounts.
    holds : ndarray of bool, (pairs,)
        Runs in which it was measured; others say nothing.
    placed : bool
        Whether it depends on how counts were placed within sampling intervals.  The error of a
        total grows with the gap to the measured levels: that is a step then.  Where intervals end
        in the program, all runs of a level share, however near it is to others: any new level is
        one step then, and one more of its kind than the few that were seen.
    """

    held: HeldOut
    error: Floats
    holds: NDArray[np.bool_]
    placed: bool

    def at(self, places: Places) -> Floats:
        """Widths at contexts, (q, parts)."""
        square = self._noise(places.near) + self._alone(places.near)
        steps = self._steps(places)
        for r, (excess, step, count) in self._levels.items():
            more = np.maximum(self._mean_near(places.near, excess, count), 0.0)
            growth = more / np.maximum(self._mean_near(places.near, step, count), NARROW**2)
            square += steps[:, [r]] * growth
        return np.sqrt(square + _SHRINKAGE * square.mean(axis=1, keepdims=True)) + NARROW

    @cached_property
    def scores(self) -> Floats:
        """How many widths each left-out run lies above its prediction, (pairs, parts)."""
        return self.error / self.at(self.held.rows)[self.held.row]

    def _noise(self, near: Floats) -> Floats:
        """Variance of runs about the mean of their context, (q, parts); 0 where none is known."""
        variance, repeated = self._variance
        if not repeated.any():
            return np.zeros((len(near), self.error.shape[1]))
        least = np.maximum(_LEAST_NOISE * variance[repeated].mean(axis=0), NARROW**2)
        log = np.log(np.maximum(variance, least))
        return np.exp(self._mean_near(near, log, repeated.astype(float)))

    def _alone(self, near: Floats) -> Floats:
        """Mean square error of the contexts that were left out alone, (q, parts)."""
        held, n_known = self.held, len(self.held.n_runs)
        rows = held.alone & (self._runs > 0)
        count = np.bincount(held.context[rows], minlength=n_known).astype(float)
        square = _sums(held.context[rows], self._beside_noise[rows], n_known)
        return self._mean_near(near, square / np.maximum(count, 1.0)[:, None], count)

    def _mean_near(self, near: Floats, values: Floats, weight: Floats) -> Floats:
        """Mean of known contexts' values (n_known, parts) around each context, (q, parts).

        The error of a total is the neighbourhood's: the nearest counts for one context, however
        far it is.  That of placing counts is the level's, and far ones fade into the mean of all.
        """
        near = near * (weight > 0)
        if not self.placed:
            top = near.max(axis=1, keepdims=True)
            near = near / np.where(top > 0, top, 1.0)
        near = near * weight
        mean = weight @ values / weight.sum()
        return (near @ values + _ALL * mean) / (near.sum(axis=1, keepdims=True) + _ALL)

    def _steps(self, places: Places) -> Floats:
        """Squared step to each resource's level, (q, n_resources)."""
        return places.new.astype(float) if self.placed else places.gap**2

    @cached_property
    def _levels(self) -> dict[int, tuple[Floats, Floats, Floats]]:
        """What more than alone those were off by that were left out with their level of a resource.

        By resource: squared errors (n_known, parts), squared steps (n_known, 1), and which known
        contexts were at such levels (n_known,).
        """
        held, n_known = self.held, len(self.held.n_runs)
        steps, excess = self._steps(held.rows), self._beside_noise - self._alone(held.rows.near)
        found = {}
        for r in sorted({resource for resource, _ in held.levels}):
            levels = [rows for resource, rows in held.levels if resource == r]
            rows = np.concatenate(levels)
            rows = rows[self._runs[rows] > 0]
            if rows.size == 0:
                continue
            context, more = held.context[rows], 1.0 + self.placed / len(levels)
            found[r] = (
                more * _sums(context, excess[rows], n_known),
                _sums(context, steps[rows][:, [r]], n_known),
                np.bincount(context, minlength=n_known).astype(float),
            )
        return found

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        """Runs that hold it of each left-out prediction, (rows,)."""
        return np.bincount(self.held.row[self.holds], minlength=len(self.held.context))

    @cached_property
    def _mean(self) -> Floats:
        """Mean error of each left-out prediction over the runs, (rows, parts)."""
        total = _sums(self.held.row[self.holds], self.error[self.holds], len(self._runs))
        return total / np.maximum(self._runs, 1)[:, None]

    @cached_property
    def _beside_noise(self) -> Floats:
        """Squared mean error without what the noise of the runs adds to it, (rows, parts)."""
        noise = self._noise(self.held.rows.near) / np.maximum(self._runs, 1)[:, None]
        return np.maximum(self._mean**2 - noise, 0.0)

    @cached_property
    def _variance(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Variance of the runs of each known context (n_known, parts), and who has several."""
        held, n_known = self.held, len(self.held.n_runs)
        mine = held.alone[held.row] & self.holds
        row = held.row[mine]
        square = _sums(held.context[row], (self.error[mine] - self._mean[row]) ** 2, n_known)
        more = np.where(held.alone, np.maximum(self._runs - 1, 0), 0)
        free = np.bincount(held.context, more, minlength=n_known)
        return square / np.maximum(free, 1)[:, None], free > 0


def _sums(place: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Sums of the rows of values in each place from 0 to count − 1."""
    total = np.zeros((count, values.shape[1]))
    np.add.at(total, place, values)
    return total
