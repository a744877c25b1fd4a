"""Resource contexts as points: grids, distances, kernel weights and convex hulls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

# Rows that the kernels of linear algebra libraries take at a time, or a multiple of these.
_TILE = 8
# The most contexts that are treated exactly, at a cost that grows with their third power.
MOST_EXACT = 400
# The most contexts of a sparse row of weights.
_NEAREST = 128
# Points whose distances to all others are in memory at a time.
_BLOCK = 256


def grid_contexts(levels: Mapping[str, Sequence[float]], counts: Sequence[int]) -> Floats:
    """Contexts of a grid with a given number of levels of each resource, (n_contexts, n_resources).

    The levels are evenly spread from the lowest to the highest; one level is the highest.
    ArgumentError: another number of counts than of resources, or one out of range.

    Examples
    --------
    >>> grid_contexts({"ways": [2, 4, 6, 8, 10], "clock": [1.5, 1.0]}, [3, 1])
    array([[ 2. ,  1.5],
           [ 6. ,  1.5],
           [10. ,  1.5]])
    """
    if len(counts) != len(levels):
        raise ArgumentError(
            f"grid is {'x'.join(map(str, counts))}; a number of levels for each of "
            f"{', '.join(levels)} is wanted."
        )
    chosen = []
    for (name, given), n in zip(levels.items(), counts):
        values = np.unique(np.asarray(given, dtype=float))
        if not 1 <= n <= len(values):
            raise ArgumentError(
                f"grid is {n} levels of {name}, which has {len(values)}; a number from 1 to "
                f"{len(values)} is wanted."
            )
        at = [round(i * (len(values) - 1) / max(n - 1, 1)) for i in range(n)]
        chosen.append(values[at] if n > 1 else values[-1:])
    return combinations_of(chosen)


def combinations_of(levels: Sequence[ArrayLike]) -> Floats:
    """All combinations of the levels of m resources, (n_contexts, m); the last changes fastest."""
    columns = np.meshgrid(*(np.asarray(each, dtype=float) for each in levels), indexing="ij")
    return np.stack(columns, axis=-1).reshape(-1, len(levels))


@dataclass(frozen=True, eq=False)
class LevelGrid:
    """Contexts (n, m) by their places among all combinations of their levels.

    Combinations are numbered as :func:`combinations_of` lists them.
    """

    levels: tuple[Floats, ...]  # distinct levels of each resource, ascending
    place: NDArray[np.int64]  # which of them each context has, (n, m)

    @classmethod
    def of(cls, contexts: Floats) -> LevelGrid:
        """The grid of contexts, (n, m)."""
        parts = [np.unique(column, return_inverse=True) for column in contexts.T]
        place = np.stack([part[1].reshape(-1) for part in parts], axis=1)
        return cls(tuple(part[0] for part in parts), place.astype(np.int64))

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels."""
        return tuple(len(each) for each in self.levels)

    @property
    def size(self) -> int:
        """Number of combinations."""
        return math.prod(self.shape)

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each context's combination, (n,)."""
        at = np.ravel_multi_index(tuple(self.place.T), self.shape)
        return np.asarray(at, dtype=np.int64)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row that has each combination, -1 where none has, (size,)."""
        rows = np.full(self.size, -1, dtype=np.int64)
        rows[self.numbers] = np.arange(len(self.place))
        return rows

    @property
    def is_full(self) -> bool:
        """Whether every combination is one context."""
        return len(self.place) == self.size and bool((self.rows >= 0).all())

    @property
    def missing(self) -> Floats:
        """The combinations that are no context, (k, m)."""
        at = np.unravel_index(np.flatnonzero(self.rows < 0), self.shape)
        return np.stack([each[i] for each, i in zip(self.levels, at)], axis=1)


def grid_counts(text: str) -> tuple[int, ...]:
    """Numbers of levels as the text of a grid gives them: ``"5x5x3"`` is (5, 5, 3)."""
    counts = text.split("x")
    if not all(n.isascii() and n.isdigit() and len(n) < 10 for n in counts):
        raise ArgumentError(
            f"grid is {quoted(text)}; a number of levels for each resource, as 5x5x3, is wanted."
        )
    return tuple(map(int, counts))


def to_unit_range(known: Floats, contexts: Floats) -> Floats:
    """Contexts with each resource's known range moved to [0, 1]; a constant resource becomes 0."""
    low, high = known.min(axis=0), known.max(axis=0)
    varies = high > low
    return np.where(varies, (contexts - low) / np.where(varies, high - low, 1.0), 0.0)


def scott_bandwidth(known: Floats) -> Floats:
    """Scott's rule over the distinct known contexts, one bandwidth per resource, (n_resources,).

    h_i = σ_i·n^(−1/(m+4)) with n distinct contexts that vary in m resources; 1 where a
    resource does not vary, so that dividing by it is harmless.
    """
    distinct = np.unique(known, axis=0)
    sigma = distinct.std(axis=0)
    varies = sigma > 0
    return np.where(varies, sigma * len(distinct) ** (-1.0 / (varies.sum() + 4)), 1.0)


def in_tiles(rows: Floats) -> Floats:
    """Rows (n, …) with the last one repeated until their number is a multiple of eight.

    Linear algebra libraries sum in another order for rows outside whole tiles.  Within whole tiles
    the result of a row is the same, to the bit, for any other rows.
    """
    lacking = -len(rows) % _TILE
    return np.concatenate([rows, np.repeat(rows[-1:], lacking, axis=0)]) if lacking else rows


def squared_distances(a: Floats, b: Floats) -> Floats:
    """Squared Euclidean distances, (len(a), len(b))."""
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)


def nearest_distances(points: Floats) -> Floats:
    """Euclidean distance of each point (n, m) to the nearest other one, (n,); 0 for a single one.

    Other than by a tree of scipy, whose import takes longer than this for 1,000 points.
    """
    if len(points) == 1:
        return np.zeros(1)
    blocks = np.array_split(points, -(-len(points) // _BLOCK))
    nearest = [np.partition(squared_distances(b, points), 1, axis=1)[:, 1] for b in blocks]
    return np.sqrt(np.concatenate(nearest))


def gaussian_log_weights(known: Floats, query: Floats) -> Floats:
    """Log of the Gaussian kernel between contexts in bandwidths, 0 for the nearest known one.

    (n_known, m), (n_query, m) -> (n_query, n_known); safe to exponentiate however far the
    contexts are.
    """
    exponent = -0.5 * squared_distances(query, known)
    return exponent - exponent.max(axis=1, keepdims=True)


def are_many(contexts: Floats) -> bool:
    """Whether contexts (n, m) are too many to be treated exactly."""
    return len(contexts) > MOST_EXACT


def near_weights(known: Floats, query: Floats, *, others: bool = False) -> csr_array:
    """Weights of the Gaussian kernel to the nearest known contexts alone, sparse (q, n_known).

    Contexts (n_known, m), (q, m) are in bandwidths.  The nearest has weight 1, and only the 128
    nearest have any.  With `others`, the query are the known contexts, and none weighs itself.
    """
    # imported here, as few fits need them
    from scipy.sparse import csr_array
    from scipy.spatial import KDTree

    size = min(_NEAREST + int(others), len(known))
    found = KDTree(known).query(query, k=size)
    distance, index = (np.reshape(one, (len(query), size)) for one in found)
    weight = np.exp(-0.5 * (distance**2 - distance[:, int(others)][:, None] ** 2))
    if others:
        weight[index == np.arange(len(query))[:, None]] = 0.0
    starts = np.arange(len(query) + 1) * size
    return csr_array((weight.ravel(), index.ravel(), starts), shape=(len(query), len(known)))


def inner_levels(contexts: Floats) -> list[tuple[int, NDArray[np.intp]]]:
    """Levels to leave out together, to test the prediction of levels between measured ones.

    On a grid, the neighbours of a single left-out context have its levels.  A level that is left
    out as a whole must be predicted from the levels around it.  The result has the column and the
    rows of each level but the lowest and the highest.  It leaves out resources with fewer than
    three levels, or with fewer than two contexts a level on average.

    Examples
    --------
    >>> clock = np.array([[1.0], [1.0], [1.5], [1.5], [2.0], [2.0]])
    >>> [(resource, rows.tolist()) for resource, rows in inner_levels(clock)]
    [(0, [2, 3])]
    """
    inner = []
    for resource, column in enumerate(contexts.T):
        levels = np.unique(column)
        if 3 <= len(levels) <= len(contexts) // 2:
            inner += [(resource, np.flatnonzero(column == level)) for level in levels[1:-1]]
    return inner


def representative_contexts(contexts: Floats, count: int) -> NDArray[np.intp]:
    """Rows of about `count` of the contexts (n, m), in rising order: random ones, and the extremes.

    They depend on the contexts alone, not on their order.  They include a lowest and a highest
    level of each resource.
    """
    drawn = random_order(contexts)[:count]
    order = np.lexsort(contexts.T[::-1])
    ordered = contexts[order]
    return np.unique([*drawn, *order[ordered.argmin(axis=0)], *order[ordered.argmax(axis=0)]])


def random_order(contexts: Floats) -> NDArray[np.intp]:
    """Rows of the contexts (n, m) in a random order, the same however the contexts are sorted."""
    order = np.lexsort(contexts.T[::-1])
    return order[np.random.default_rng(0).permutation(len(order))]


@dataclass(frozen=True, eq=False)
class Hull:
    """Convex hull of known contexts, (n, m)."""

    known: Floats
    slack: Floats  # (m,), by which rounding may move a context beyond the known range
    # (n_facets, m + 1): outward normals and offsets in units of the known ranges; empty for a box
    facets: Floats

    @classmethod
    def of(cls, known: Floats) -> Hull:
        """Hull of known contexts, (n, m); they may lie in a plane, on a line or in one place."""
        slack = 1e-9 * np.maximum(np.abs(known.min(axis=0)), np.abs(known.max(axis=0)))
        unit = to_unit_range(known, known)
        corners = np.array(np.meshgrid(*zip(unit.min(axis=0), unit.max(axis=0))))
        corners = corners.reshape(known.shape[1], -1).T
        box = squared_distances(corners, unit).min(axis=1).max() <= 1e-18
        return cls(known, slack, np.empty((0, known.shape[1] + 1)) if box else _facets(unit))

    def outside(self, query: Floats) -> NDArray[np.bool_]:
        """Which contexts are not a convex combination of the known ones, (n_query,)."""
        low, high = self.known.min(axis=0) - self.slack, self.known.max(axis=0) + self.slack
        outside = ((query < low) | (query > high)).any(axis=1)
        if len(self.facets):
            unit = to_unit_range(self.known, query)
            beyond = unit @ self.facets[:, :-1].T + self.facets[:, -1]
            outside |= beyond.max(axis=1) > 1e-6
        return outside


def _facets(points: Floats) -> Floats:
    """Facets of the convex hull of points (n, m), flat ones bounded on both sides."""
    from scipy.spatial import ConvexHull  # imported here, as most designs do not need it

    centre = points.mean(axis=0)
    _, size, axes = np.linalg.svd(points - centre)
    rank = int((size > 1e-9).sum())
    within, across = axes[:rank], axes[rank:]
    inner = (points - centre) @ within.T
    if rank > 1:
        facets = ConvexHull(inner).equations
    else:  # Qhull needs at least two dimensions
        facets = np.array([[1.0, -inner.max()], [-1.0, inner.min()]][: 2 * rank])
    normals = np.vstack([facets[:, :rank] @ within, across, -across])
    offsets = np.append(facets[:, rank:], np.zeros(2 * len(across)))
    return np.column_stack([normals, offsets - normals @ centre])
