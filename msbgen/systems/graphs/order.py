"""Canonical order of the tasks of a graph, independent of their order and names in a file.

Which of two ready tasks starts first must depend neither on the order of a file nor on names.
Tasks are sorted by depth, then by colours: tasks differ in colour if they differ in kind, in work
or in the tasks that they are connected to.  Of symmetric tasks, one is chosen and marked, which
changes the colours of its neighbours, until all tasks have a place (individualisation and
refinement, as for canonical forms of graphs; McKay, 1981; without backtracking).
"""

from functools import lru_cache
from hashlib import blake2b

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.systems.graphs.dataset import edges_of, kinds_of, topological_order

Indices = NDArray[np.int64]


# Number of graphs whose order is cached.
_CACHED = 512


def canonical_order(graph: xr.Dataset) -> Indices:
    """Numbers of the tasks of a valid graph in canonical order, which is topological, (n,)."""
    names = graph["task"].values.astype(str).tolist()
    work, depth = graph["work"].values.tolist(), graph["depth"].values.tolist()
    edges = edges_of(graph)
    order = _order(*map(tuple, (names, kinds_of(graph), work, depth)), edges.tobytes())
    return np.array(order, dtype=np.int64)


def successors_of(n: int, pairs: Indices) -> tuple[Indices, Indices]:
    """Where the successors of each of n tasks begin, (n + 1,), and all of them, (n_edges,)."""
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return np.searchsorted(pairs[:, 0], np.arange(n + 1)), np.ascontiguousarray(pairs[:, 1])


@lru_cache(_CACHED)
def _order(
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    work: tuple[float, ...],
    depths: tuple[int, ...],
    edges: bytes,
) -> tuple[int, ...]:
    n, pairs = len(names), np.frombuffer(edges, dtype=np.int64).reshape(-1, 2)
    before: list[list[int]] = [[] for _ in range(n)]
    after: list[list[int]] = [[] for _ in range(n)]
    for source, target in pairs.tolist():
        before[target].append(source)
        after[source].append(target)
    neighbours = [(tuple(sorted(b)), tuple(sorted(a))) for b, a in zip(before, after)]
    walk = topological_order(n, pairs).tolist()
    marks = [f"{kind} {size!r}" for kind, size in zip(kinds, work)]
    colours = _colours(marks, walk, before, after)
    levels: list[list[int]] = [[] for _ in range(max(depths) + 1)]
    for i, depth in enumerate(depths):
        levels[depth].append(i)
    order: list[int] = []
    for level in levels:
        left = level
        while left:
            # invariant: tasks in `order` differ in colour, or are interchangeable
            left = sorted(left, key=lambda i: (colours[i], names[i]))
            alike = [i for i in left if colours[i] == colours[left[0]]]
            if len({neighbours[i] for i in alike}) > 1:
                # symmetric, but with other neighbours: a mark on one changes the colours around it,
                # which distinguishes the rest
                alike = alike[:1]
                marks[alike[0]] += f" {len(order)}"
                colours = _colours(marks, walk, before, after)
            order += alike
            left = [i for i in left if i not in alike]
    return tuple(order)


def _colours(
    marks: list[str], walk: list[int], before: list[list[int]], after: list[list[int]]
) -> list[bytes]:
    """Colours of the tasks, equal for symmetric ones.

    Marks are passed down and up the edges until the number of colours stops growing (colour
    refinement).
    """
    colours = [mark.encode() for mark in marks]
    n_colours = 0
    while len(set(colours)) > n_colours:
        n_colours = len(set(colours))
        above, below = [b""] * len(walk), [b""] * len(walk)
        for i in walk:
            above[i] = _digest(colours[i], sorted(above[j] for j in before[i]))
        for i in reversed(walk):
            below[i] = _digest(colours[i], sorted(below[j] for j in after[i]))
        colours = [_digest(a, [b]) for a, b in zip(above, below)]
    return colours


def _digest(first: bytes, others: list[bytes]) -> bytes:
    return blake2b(b"\0".join([first, *others]), digest_size=8).digest()
