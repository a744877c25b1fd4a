"""Left-out predictions for bounds on contexts that are chosen by their bounds.

A choice prefers contexts whose bounds are too low.  Those lie where a working set begins to fit the
cache between two measured levels.  The predictions of :func:`msbgen.bounds.heldout.leave_out` do
not show it: the trend's parameters were fitted with the levels that are then left out, and place a
step where it was measured.  Here these levels are left out of the fit of the parameters, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msbgen.bounds.heldout import HeldOut, in_segments, left_out_prediction
from msbgen.core.contexts import are_many
from msbgen.generate.distribution import ProfileDistribution

Level = tuple[int, NDArray[np.int64]]  # a resource, and the rows that were left out with its level

# Up to so many contexts, each level is left out alone; beyond, with levels of other resources.
_MOST_ALONE = 40
# Contexts that remain beside levels left out together, as a share of all.
_LEAST_KEPT = 0.25


def refit_levels(held: HeldOut, distribution: ProfileDistribution) -> HeldOut:
    """Predictions of a distribution with new fits of the trend without each inner level.

    Levels of several resources are left out by one fit.  A row of a context with two of these
    levels loses its weight.  Rows that were left out alone are as before.  Of many contexts, levels
    are close, and all rows are as before.
    """
    contexts = distribution.contexts
    if are_many(contexts) or not held.levels:
        return held
    means, predicted = distribution.known_states(), held.predicted.copy()
    weight = np.where(held.alone, held.weight, 0.0)
    for levels in _together(held):
        lacks = np.array([held.left_out[rows[0]] for _, rows in levels])  # (levels, n_known)
        group = np.flatnonzero(lacks.any(axis=0))
        amounts = in_segments(
            left_out_prediction(distribution, means, group, anew=True), held.segments
        )
        once = lacks.sum(axis=0) == 1
        for _, rows in levels:
            some = rows[once[held.context[rows]]]
            predicted[some] = amounts[np.searchsorted(group, held.context[some])]
            weight[some] = held.weight[some]
    return replace(held, predicted=predicted, weight=weight / weight.sum())


def _together(held: HeldOut) -> Iterator[list[Level]]:
    """Levels that one fit leaves out: of each resource at most one."""
    if held.left_out.shape[1] <= _MOST_ALONE:
        yield from ([level] for level in held.levels)
        return
    waiting = list(held.levels)
    while waiting:
        taken: list[Level] = []
        lacks = np.zeros(held.left_out.shape[1], dtype=bool)
        for level in list(waiting):
            more = lacks | held.left_out[level[1][0]]
            fresh = all(level[0] != resource for resource, _ in taken)
            if not taken or (fresh and (~more).mean() >= _LEAST_KEPT):
                taken.append(level)
                waiting = [other for other in waiting if other is not level]
                lacks = more
        yield taken
