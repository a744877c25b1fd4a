"""A quick look at many contexts: those that deviate from their neighbours.

The search for faults (:mod:`msbgen.engine.faults.search`) takes O(n³) for n contexts.  Of thousands
of contexts nearly all agree with those around them.  A linear function of the nearest contexts
predicts each, in O(n), and the search is needed only where a context deviates from it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.faults.regression import LEAST_SPREAD, median
from msbgen.engine.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Neighbours of a context, per resource and one more.
_NEIGHBOURS = 6
# Ridge of the linear functions, as the contexts around may lie in a plane.
_RIDGE = 1e-3
# Rounds of predicting without what deviated in the last one, by more than so many deviations.
_ROUNDS, _LARGE = 3, 4.0
# Standard deviation of a normal variable over its median absolute deviation.
_NORMAL = 1.4826


class Neighbours:
    """The nearest other contexts of each of many contexts (n, m), in ranks of their levels."""

    index: Indices  # (n, size), the nearest first

    def __init__(self, contexts: Floats) -> None:
        from scipy.spatial import KDTree  # imported here, as few files hold many contexts

        ranks = [np.unique(column, return_inverse=True)[1] for column in contexts.T]
        places = np.column_stack([rank / max(rank.max(), 1) for rank in ranks])
        size = min(_NEIGHBOURS * (contexts.shape[1] + 1), len(contexts) - 1)
        _, found = KDTree(places).query(places, k=size + 1)
        self.index = np.asarray(found)[:, 1:]
        z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
        steps = z[self.index] - z[:, None]
        steps /= np.maximum(np.abs(steps).max(axis=1, keepdims=True), 1e-12)
        self._terms = np.concatenate([np.ones((*self.index.shape, 1)), steps], axis=2)

    def deviations(self, values: Floats) -> tuple[Floats, Floats]:
        """Values (n, q) less their prediction by the nearest contexts, and usual deviations.

        The usual one is that of all contexts, or of those around where it is larger: neighbours
        that deviate together are a property of the task.
        """
        near, weight = values[self.index], np.ones(len(values))
        ridge = _RIDGE * self.index.shape[1] * np.eye(self._terms.shape[2])
        ridge[0, 0] = 1e-12
        deviation = usual = np.ones(values.shape)
        for _ in range(_ROUNDS):
            weighted = np.swapaxes(self._terms * weight[self.index][..., None], 1, 2)
            line = np.linalg.solve(weighted @ self._terms + ridge, weighted @ near)
            deviation = values - line[:, 0]
            size = np.abs(deviation)
            around = median(np.moveaxis(size[self.index], 1, 2))
            usual = _NORMAL * np.maximum(median(size.T), around) + LEAST_SPREAD
            weight = 1.0 / (1.0 + ((size / usual).max(axis=1) / _LARGE) ** 4)
        return deviation, usual


def partners_together(misfit: Floats) -> Indices:
    """An order of contexts (n,) in which two that may be exchanged are neighbours.

    `misfit` (n, n) is that of the measurements of a context (columns) at the levels of another
    (rows).  The two that fit best when exchanged come first; contexts without a partner come last.
    """
    alone = np.diag(misfit)
    left = (misfit + misfit.T) / np.maximum(alone[:, None] + alone, 1e-300)
    left[np.tril_indices(len(left))] = np.inf
    order, free = list[int](), np.ones(len(left), dtype=bool)
    for pair in np.argsort(left, axis=None, kind="stable").tolist():
        i, j = divmod(pair, len(left))
        if left[i, j] >= 1.0:
            break
        if free[i] and free[j]:
            order += [i, j]
            free[[i, j]] = False
    return np.array([*order, *np.flatnonzero(free)], dtype=np.int64)
