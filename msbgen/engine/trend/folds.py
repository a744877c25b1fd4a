"""Held-out predictions: the contexts that are left out together, and their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import inner_levels

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Folds:
    """Groups of contexts, each predicted from all contexts outside it.

    The weights sum to 1 where there is any row.  Half of them is on the contexts alone and half on
    the levels, equally.
    """

    singles: int  # contexts 0 to singles − 1 are left out alone, in the first rows
    members: Indices  # (rows − singles,): contexts of the levels, one level after the other
    ends: Indices  # (levels,): end of each level in `members`
    resources: tuple[int, ...]  # (levels,): the resource of each level
    weight: Floats  # (rows,)

    @classmethod
    def of(cls, contexts: Floats) -> Folds:
        """Folds of each of the contexts (n, m) alone, and each inner level of a resource."""
        return cls._of(len(contexts), inner_levels(contexts))

    @classmethod
    def alone(cls, n: int) -> Folds:
        """Folds of each of n contexts alone."""
        return cls._of(n, [])

    @classmethod
    def of_levels(cls, levels: list[tuple[int, NDArray[np.intp]]]) -> Folds:
        """Folds of groups of contexts alone, each with the resource whose levels they have."""
        return cls._of(0, levels)

    @classmethod
    def _of(cls, singles: int, levels: list[tuple[int, NDArray[np.intp]]]) -> Folds:
        sizes = [len(rows) for _, rows in levels]
        parts = [np.full(singles, 1.0 / max(singles, 1))]
        parts += [np.full(size, 1.0 / (len(sizes) * size)) for size in sizes]
        weight = np.concatenate(parts)
        return cls(
            singles,
            np.concatenate([np.empty(0, dtype=np.int64), *(rows for _, rows in levels)]),
            np.cumsum(sizes, dtype=np.int64),
            tuple(resource for resource, _ in levels),
            weight / max(weight.sum(), 1e-300),
        )

    @property
    def index(self) -> Indices:
        """The context of each row, (rows,)."""
        return np.concatenate([np.arange(self.singles), self.members])

    @property
    def groups(self) -> list[slice]:
        """The slices of `members` of each level."""
        starts = [0, *self.ends[:-1].tolist()]
        return [slice(start, end) for start, end in zip(starts, self.ends.tolist())]

    @property
    def rows(self) -> list[slice]:
        """The rows of the contexts that are left out together, one slice for each fold."""
        alone = [slice(i, i + 1) for i in range(self.singles)]
        levels = [slice(self.singles + g.start, self.singles + g.stop) for g in self.groups]
        return alone + levels

    def splits(self, n: int) -> Iterator[tuple[slice, Indices, Indices]]:
        """The rows of each fold, its contexts, and those of all n that are not in it."""
        for rows in self.rows:
            left = self.index[rows]
            yield rows, left, np.setdiff1d(np.arange(n), left)

    def of_resource(self, resource: int, *, singles: bool) -> tuple[Folds, Indices]:
        """Folds of the levels of one resource, and their rows in these folds.

        With `singles`, and where the resource has no inner level, also of each context alone.
        """
        groups = [g for g, r in zip(self.groups, self.resources) if r == resource]
        n = self.singles if singles or not groups else 0
        folds = Folds._of(n, [(resource, self.members[g]) for g in groups])
        rows = [np.arange(n), *(self.singles + np.arange(g.start, g.stop) for g in groups)]
        return folds, np.concatenate(rows)
