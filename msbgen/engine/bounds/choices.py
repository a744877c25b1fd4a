"""Left-out predictions for bounds on contexts that are chosen by their bounds.

A choice prefers contexts whose bounds are too low.  Those lie where a working set begins to fit the
cache between two measured levels.  The predictions of
:func:`msbgen.engine.bounds.left_out.leave_out` do not show it: the trend's parameters were fitted
with the levels that are then left out, and place a step where it was measured.  Here these levels
are left out of the fit of the parameters, too.

Between the last levels there is no measurement to leave out.  There bounds do not rely on time that
falls faster than in proportion to a resource (:func:`careful_log_time`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import SHARE, Stored
from msbgen.core.contexts import are_many
from msbgen.engine.bounds.left_out import AMOUNTS, LeftOut, in_segments, left_out_prediction
from msbgen.engine.generate.distribution import ProfileDistribution

Floats = NDArray[np.float64]
Level = tuple[int, NDArray[np.int64]]  # a resource, and the rows that were left out with its level

# Up to so many contexts, each level is left out alone; beyond, with levels of other resources.
_MOST_ALONE = 40
# Contexts that remain beside levels left out together, as a share of all.
_LEAST_KEPT = 0.25
# Contexts that are predicted at a time.
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class RefittedLevels:
    """What replaces left-out predictions in bounds on chosen contexts."""

    # (rows, segments, k): predictions of fits of the trend without the level of the row
    predicted: Annotated[Floats, Stored(("row", "segment", "quantity"), AMOUNTS)]
    weight: Annotated[Floats, Stored(("row",), SHARE)]  # (rows,): sums to 1

    @classmethod
    def fit(cls, left_out: LeftOut, distribution: ProfileDistribution) -> RefittedLevels:
        """Predictions of a distribution with new fits of the trend without each inner level.

        Levels of several resources are left out by one fit.  A row of a context with two of these
        levels loses its weight.  Rows that were left out alone are as before.  Of many contexts,
        levels are close, and all rows are as before.
        """
        contexts = distribution.contexts
        if are_many(contexts) or not left_out.n_contexts or not left_out.levels:
            return cls(left_out.predicted, left_out.weight)
        means, predicted = distribution.known_states(), left_out.predicted.copy()
        weight = np.where(left_out.alone, left_out.weight, 0.0)
        for levels in _together(left_out):
            lacks = np.array([left_out.lacks[rows[0]] for _, rows in levels])  # (levels, n_known)
            group = np.flatnonzero(lacks.any(axis=0))
            amounts = in_segments(
                left_out_prediction(distribution, means, group, anew=True), left_out.segments
            )
            once = lacks.sum(axis=0) == 1
            for _, rows in levels:
                some = rows[once[left_out.context[rows]]]
                predicted[some] = amounts[np.searchsorted(group, left_out.context[some])]
                weight[some] = left_out.weight[some]
        return cls(predicted, weight / weight.sum())

    def replaced(self, left_out: LeftOut) -> LeftOut:
        """The left-out predictions with these and their weights."""
        return replace(left_out, predicted=self.predicted, weight=self.weight)


def _together(left_out: LeftOut) -> Iterator[list[Level]]:
    """Levels that one fit leaves out: of each resource at most one."""
    if left_out.lacks.shape[1] <= _MOST_ALONE:
        yield from ([level] for level in left_out.levels)
        return
    waiting = list(left_out.levels)
    while waiting:
        taken: list[Level] = []
        lacks = np.zeros(left_out.lacks.shape[1], dtype=bool)
        for level in list(waiting):
            more = lacks | left_out.lacks[level[1][0]]
            fresh = all(level[0] != resource for resource, _ in taken)
            if not taken or (fresh and (~more).mean() >= _LEAST_KEPT):
                taken.append(level)
                waiting = [other for other in waiting if other is not level]
                lacks = more
        yield taken


def careful_log_time(left_out: LeftOut, contexts: Floats, log_time: Floats) -> Floats:
    """Log of the execution time [s], (q,), that falls between levels no faster than a + b / level.

    `log_time` (q,) is the predicted one.

    The logarithm of a + b / level is concave in 1 / level: it is above the straight line between
    two levels.  A prediction below that line needs a sudden change, such as a working set that
    begins to fit the cache, at a place that no measurement shows.  There the line is returned.
    """
    slowest, columns = log_time.copy(), (contexts.T, left_out.trend.contexts.T)
    gaps, ends = [], [contexts]
    for r, (new, column, levels) in enumerate(zip(left_out.query(contexts).new.T, *columns)):
        levels = np.unique(levels)
        rows = np.flatnonzero(new & (column > levels[0]) & (column < levels[-1]))
        if len(rows) and levels[0] > 0:
            above = np.searchsorted(levels, column[rows])
            places = 1 / np.stack([column[rows], levels[above - 1], levels[above]])
            gaps.append((rows, *places))
            for end in (levels[above - 1], levels[above]):
                ends.append(contexts[rows])
                ends[-1][:, r] = end
    times = iter(_log_times(left_out, ends, log_time))
    for rows, place, below, above in gaps:
        before, after = next(times), next(times)
        line = after + (before - after) * (place - above) / (below - above)
        slowest[rows] = np.maximum(slowest[rows], np.where(before > after, line, -np.inf))
    return slowest


def _log_times(left_out: LeftOut, parts: list[Floats], log_time: Floats) -> Iterator[Floats]:
    """Log of the predicted time [s] of the parts after the first, whose `log_time` is known."""
    distinct, place = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    place, times = place.ravel(), np.full(len(distinct), np.nan)
    times[place[: len(log_time)]] = log_time
    missing = np.flatnonzero(np.isnan(times))
    for rows in np.array_split(missing, -(-len(missing) // _BLOCK)) if len(missing) else ():
        times[rows] = left_out.query(distinct[rows]).log_time
    ends = np.cumsum([len(part) for part in parts])
    yield from np.split(times[place], ends[:-1])[1:]
