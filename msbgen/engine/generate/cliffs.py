"""Cliffs: counts that may change suddenly, at an unknown place between two measured levels.

A working set begins to fit a cache at some number of ways.  If that lies between two measured
levels, a count changes far more across this gap than across those beside it, and no data show
where.  Profiles generated in the gap may then be wrong by a large share of the change, although
errors of left-out contexts are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.data.schema import same_level

Floats = NDArray[np.float64]

# A change across a gap is suspicious if it exceeds those across the gaps beside so many times.
STEEPER = 2.0
# Least change of a total that is suspicious, as a logarithm: a fifth.
_LEAST_CHANGE = 0.2
# Combinations of the levels of the other resources at which changes are predicted.
_MOST_OTHERS = 8
# Of more levels, gaps are small.
_MOST_LEVELS = 32


@dataclass(frozen=True)
class Cliff:
    """A gap between two measured levels of a resource in which a count may change suddenly."""

    resource: int
    quantity: int
    lower: float  # the levels at the ends of the gap
    upper: float
    ratio: float  # of the larger total of the count at these levels over the smaller one

    def contains(self, contexts: Floats) -> NDArray[np.bool_]:
        """Whether each context (q, n_resources) has a level inside the gap."""
        level = contexts[:, self.resource]
        inside = (level > self.lower) & (level < self.upper)
        ends = same_level(level, self.lower) | same_level(level, self.upper)
        return np.asarray(inside & ~ends)


def find_cliffs(
    contexts: Floats, predict: Callable[[Floats], Floats], resources: Sequence[int]
) -> tuple[Cliff, ...]:
    """Gaps between levels of some resources of known contexts (n, m) that may hide a cliff.

    `predict` returns positive totals of each quantity at contexts (q, m), (q, k); the first is
    time, whose changes are gradual.  A gap is found where a total changes by a fifth or more, and
    by more than twice of its changes across the gaps beside.  This must hold for half of the levels
    of the other resources.  Beyond the ends nothing changes.
    """
    found = []
    for r in resources:
        levels = np.unique(contexts[:, r])
        levels = levels[np.append(True, ~same_level(levels[1:], levels[:-1]))]
        if not 3 <= len(levels) <= _MOST_LEVELS:
            continue
        others = np.unique(np.delete(contexts, r, axis=1), axis=0)
        others = others[np.linspace(0, len(others) - 1, min(len(others), _MOST_OTHERS)).astype(int)]
        at = np.concatenate([np.insert(others, r, level, axis=1) for level in levels])
        totals = np.log(predict(at)).reshape(len(levels), len(others), -1)
        change = np.abs(np.diff(totals, axis=0))
        beyond = np.pad(change, ((1, 1), (0, 0), (0, 0)))
        beside = np.maximum(beyond[:-2], beyond[2:])
        steep = (change > STEEPER * beside) & (change > _LEAST_CHANGE)
        share, middle = steep.mean(axis=1), np.median(change, axis=1)
        for gap, quantity in np.argwhere(share[:, 1:] >= 0.5):
            lower, upper = float(levels[gap]), float(levels[gap + 1])
            ratio = float(np.exp(middle[gap, quantity + 1]))
            found.append(Cliff(int(r), int(quantity) + 1, lower, upper, ratio))
    return tuple(found)
