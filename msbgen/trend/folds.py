"""Held-out predictions to make: contexts that are left out together, and what each counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import inner_levels

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Folds:
    """Groups of contexts, each predicted from all contexts outside it.

    Attributes
    ----------
    singles : int
        The contexts 0 to singles − 1 are left out alone; the first rows.
    members : ndarray of int, (rows − singles,)
        Contexts of the levels, one level after the other.
    ends : ndarray of int, (levels,)
        Where each level ends in `members`.
    resources : tuple of int, (levels,)
        The resource that each of them is a level of.
    weight : ndarray, (rows,)
        Sums to 1 where there is any row: half on the contexts alone, half on the levels, all
        levels alike.
    """

    singles: int
    members: Indices
    ends: Indices
    resources: tuple[int, ...]
    weight: Floats

    @classmethod
    def of(cls, contexts: Floats) -> Folds:
        """Each of the contexts (n, m) alone, and each inner level of a resource as a whole."""
        return cls._of(len(contexts), inner_levels(contexts))

    @classmethod
    def alone(cls, n: int) -> Folds:
        """Each of n contexts alone."""
        return cls._of(n, [])

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
        """Context that each row predicts, (rows,)."""
        return np.concatenate([np.arange(self.singles), self.members])

    @property
    def groups(self) -> list[slice]:
        """The levels, as places in `members`."""
        starts = [0, *self.ends[:-1].tolist()]
        return [slice(start, end) for start, end in zip(starts, self.ends.tolist())]

    def of_resource(self, resource: int, *, singles: bool) -> tuple[Folds, Indices]:
        """The levels of one resource, with the contexts alone or without; rows of self they are.

        Where the resource has no inner level the contexts alone stand in.
        """
        groups = [g for g, r in zip(self.groups, self.resources) if r == resource]
        n = self.singles if singles or not groups else 0
        folds = Folds._of(n, [(resource, self.members[g]) for g in groups])
        rows = [np.arange(n), *(self.singles + np.arange(g.start, g.stop) for g in groups)]
        return folds, np.concatenate(rows)
