"""A task graph as the simulated SoC takes it: arrays, the tasks in an order of their own.

Who is first of two tasks that are ready together depends neither on the order of a file nor on
names: it is the first in :func:`~msbgen.graphs.order.canonical_order`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.graphs.dataset import edges_of, kinds_of
from msbgen.graphs.order import canonical_order

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Program:
    """A graph's tasks and edges.

    Attributes
    ----------
    order : ndarray of int, (n,)
        Number in the graph of each task here; all else is in this order, which is topological.
    kinds : tuple of str
        Kinds there are, sorted.
    kind : ndarray of int, (n,)
        Which of them.
    work : ndarray, (n,)
        Runs of its kind.
    waits : ndarray of int, (n,)
        How many tasks each waits for.
    first_after, after : ndarray of int, (n + 1,) and (m,)
        Task i is waited for by ``after[first_after[i] : first_after[i + 1]]``.
    """

    order: Indices
    kinds: tuple[str, ...]
    kind: Indices
    work: Floats
    waits: Indices
    first_after: Indices
    after: Indices

    @classmethod
    def of(cls, graph: xr.Dataset) -> Program:
        """Take a valid graph apart."""
        pairs, names = edges_of(graph), kinds_of(graph)
        order = canonical_order(graph)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        moved = place[pairs]
        moved = moved[np.lexsort((moved[:, 1], moved[:, 0]))]
        kinds = tuple(sorted(set(names)))
        n = len(order)
        return cls(
            order,
            kinds,
            np.array([kinds.index(names[i]) for i in order], dtype=np.int64),
            graph["work"].values.astype(float)[order],
            np.bincount(moved[:, 1], minlength=n),
            np.concatenate([[0], np.cumsum(np.bincount(moved[:, 0], minlength=n))]),
            np.ascontiguousarray(moved[:, 1]),
        )
