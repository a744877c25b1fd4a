"""Decision trees as arrays: what boosted and randomised trees share, and their checks on load."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import SHARE, ModelArray, Stored, StoredArrays
from msbgen.core.errors import ArgumentError

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

# More columns than any predictor has.
_MOST_FEATURES = 1_000_000
_NODES = (
    ModelArray("feature", ("node",), "i4", high="feature"),
    ModelArray("threshold", ("node",), "f4"),
    ModelArray("left", ("node",), "i4", high="node"),
    ModelArray("right", ("node",), "i4", high="node"),
    ModelArray("missing_left", ("node",), "u1", high=1),
    ModelArray("root", ("tree",), "i4", high="node"),
)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, one tree after another."""

    # (n_nodes,), the feature that a node compares; 0 of a leaf
    feature: Annotated[NDArray[np.int32], Stored(("node",), dtype="i4")]
    # (n_nodes,), a row goes left where its feature is at most this
    threshold: Annotated[Singles, Stored(("node",), dtype="f4")]
    # (n_nodes,), children, which come after their parent; a leaf is its own child
    left: Annotated[NDArray[np.int32], Stored(("node",), dtype="i4", below="node")]
    right: Annotated[NDArray[np.int32], Stored(("node",), dtype="i4", below="node")]
    # (n_nodes,), 1 where a row whose feature is NaN goes left
    missing_left: Annotated[NDArray[np.uint8], Stored(("node",), SHARE, "u1")]
    # (n_trees,)
    root: Annotated[NDArray[np.int32], Stored(("tree",), dtype="i4", below="node")]
    n_features: int  # columns that rows must have

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored nodes: walks that leave them, or do not end."""
        if len(self.root) and not self.feature.max(initial=0) < self.n_features:
            yield "feature", self.feature.max(), f"less than {self.n_features}"
        at = np.arange(len(self.left))
        ends = (self.left >= at) & (self.right >= at) & ((self.left == at) == (self.right == at))
        if not ends.all():
            yield "left", "one that leads back", "one of children after their parents"

    def leaves(self, rows: Singles, root: int) -> Indices:
        """Leaf of one tree that each of the :meth:`rows` falls into, (n,)."""
        from msbgen.systems.learn._kernels import find_leaves

        return find_leaves(rows, self._walked, root)

    def add_values(
        self, rows: Singles, value: Singles, roots: NDArray[np.int32], total: Singles
    ) -> None:
        """Add to `total` (n,) the values (n_nodes,) of leaves of some trees, in their order."""
        from msbgen.systems.learn._kernels import add_leaf_values

        add_leaf_values(rows, self._walked, value, roots, total)

    def rows(self, features: Floats) -> Singles:
        """Features in single precision, (n, n_features); ArgumentError for other columns than in
        the fit.
        """
        rows = np.ascontiguousarray(features, dtype=np.float32)
        if rows.ndim != 2 or (len(self.root) and rows.shape[1] != self.n_features):
            raise ArgumentError(
                f"features have shape {rows.shape}; {self.n_features} columns, as in the fit, are "
                f"wanted."
            )
        return rows

    @cached_property
    def _walked(self) -> tuple[NDArray[Any], ...]:
        return self.feature, self.threshold, self.left, self.right, self.missing_left

    def arrays(self, prefix: str) -> dict[str, Any]:
        """What a model file holds of the nodes, the names beginning with `prefix`."""
        names = [entry.name for entry in _NODES]
        return {f"{prefix}{name}": getattr(self, name) for name in (*names, "n_features")}


def no_nodes() -> Nodes:
    """Nodes of no tree."""
    none = np.empty(0, dtype=np.int32)
    return Nodes(none, none.astype(np.float32), none, none, none.astype(np.uint8), none, 0)


def stored_nodes(
    stored: StoredArrays, values: Sequence[ModelArray], **sizes: int
) -> tuple[Nodes, dict[str, NDArray[Any]]]:
    """Nodes and their values from a model file, so that each walk stays inside them and ends.

    `stored` has what :meth:`Nodes.arrays` gave, without the prefix, and `values`, which are else
    there of each ``node`` or ``tree``.  `sizes` are those that are known: ``feature``, the columns
    of rows, and those of `values`.

    Raises
    ------
    ProfileError
        Arrays are missing, have another shape or type, or make no trees.
    """
    n = int(stored.indices("n_features", (), below=_MOST_FEATURES))
    taken = stored.take((*_NODES, *values), **{**sizes, "feature": n})
    wanted = sizes.get("feature", n)
    stored.want(n == wanted or not len(taken["root"]), stored.named("n_features"), n, str(wanted))
    left, right = taken["left"], taken["right"]
    at = np.arange(len(left))
    leaf = left == at
    ends = bool((left >= at).all() and (right >= at).all() and (leaf == (right == at)).all())
    stored.want(
        ends, f"a tree of {stored.named('left')}", "one that leads back",
        "one whose children come after their parents",
    )  # fmt: skip
    names = [entry.name for entry in _NODES]
    nodes = Nodes(**{name: taken.pop(name) for name in names}, n_features=n)
    return nodes, taken
