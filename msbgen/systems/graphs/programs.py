"""A task graph as arrays of the simulator, in a canonical order of the tasks.

Of two tasks that become ready together, the first in
:func:`~msbgen.systems.graphs.order.canonical_order` starts first.  That order depends neither on
the order of the tasks in a file nor on their names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.systems.graphs.dataset import edges_of, kinds_of
from msbgen.systems.graphs.order import canonical_order, successors_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Program:
    """Tasks and edges of a graph as arrays.

    `order`, (n,), has the number in the graph of each task; all other arrays are in this
    topological order.  `kinds` are sorted.  Of each task, (n,): the number of its kind, its work in
    runs of the kind, the number of its predecessors.  Successors of task i are
    ``after[first_after[i] : first_after[i + 1]]``.
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
        """Arrays of a valid graph."""
        pairs, names = edges_of(graph), kinds_of(graph)
        order = canonical_order(graph)
        pairs = np.argsort(order)[pairs]
        kinds = tuple(sorted(set(names)))
        n = len(order)
        return cls(
            order,
            kinds,
            np.array([kinds.index(names[i]) for i in order], dtype=np.int64),
            graph["work"].values.astype(float)[order],
            np.bincount(pairs[:, 1], minlength=n),
            *successors_of(n, pairs),
        )
