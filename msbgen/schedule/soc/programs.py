"""A task graph as the simulated SoC takes it: arrays, the tasks in an order of their own.

Who is first of two tasks that are ready together must depend neither on the order of a file nor
on names.  Tasks are put in order by depth, then by colours that tell apart what differs in kind, in
work or in what they are joined to.  Of symmetric tasks one is chosen and marked, which tells apart
those that are joined to it, until all have a place (individualisation and refinement, as of
canonical forms of graphs; McKay, 1981, without backtracking).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data.graphs.schema import edges_of, kinds_of, topological_order

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
        order = _own_order(graph, pairs, names)
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


def _own_order(graph: xr.Dataset, pairs: Indices, kinds: list[str]) -> Indices:
    n = len(kinds)
    names = graph["task"].values.astype(str).tolist()
    before: list[list[int]] = [[] for _ in range(n)]
    after: list[list[int]] = [[] for _ in range(n)]
    for source, target in pairs.tolist():
        before[target].append(source)
        after[source].append(target)
    twins = [(tuple(sorted(b)), tuple(sorted(a))) for b, a in zip(before, after)]
    walk = topological_order(n, pairs).tolist()
    marks = [f"{kind} {size!r}" for kind, size in zip(kinds, graph["work"].values.tolist())]
    colours = _colours(marks, walk, before, after)
    levels: list[list[int]] = [[] for _ in range(int(graph["depth"].values.max()) + 1)]
    for i, depth in enumerate(graph["depth"].values.tolist()):
        levels[depth].append(i)
    order: list[int] = []
    for level in levels:
        left = level
        while left:
            # invariant: tasks in `order` are told apart, by their colours or as good as equal
            left = sorted(left, key=lambda i: (colours[i], names[i]))
            alike = [i for i in left if colours[i] == colours[left[0]]]
            if len({twins[i] for i in alike}) > 1:
                # symmetric, but joined to others: the choice of one tells those apart
                alike = alike[:1]
                marks[alike[0]] += f" {len(order)}"
                colours = _colours(marks, walk, before, after)
            order += alike
            left = [i for i in left if i not in alike]
    return np.array(order, dtype=np.int64)


def _colours(
    marks: list[str], walk: list[int], before: list[list[int]], after: list[list[int]]
) -> list[bytes]:
    """What each task is together with all that it is joined to, equal for symmetric tasks.

    Marks run down and up the edges until no more tasks are told apart (colour refinement).
    """
    colours = [mark.encode() for mark in marks]
    told_apart = 0
    while len(set(colours)) > told_apart:
        told_apart = len(set(colours))
        above, below = [b""] * len(walk), [b""] * len(walk)
        for i in walk:
            above[i] = _digest(colours[i], sorted(above[j] for j in before[i]))
        for i in reversed(walk):
            below[i] = _digest(colours[i], sorted(below[j] for j in after[i]))
        colours = [_digest(a, [b]) for a, b in zip(above, below)]
    return colours


def _digest(own: bytes, others: list[bytes]) -> bytes:
    return blake2b(b"\0".join([own, *others]), digest_size=8).digest()
