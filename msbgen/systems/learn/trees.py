"""Decision trees as arrays: what boosted and randomised trees share, and their checks on load."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import SHARE, Stored
from msbgen.core.errors import ArgumentError

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]


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


def no_nodes() -> Nodes:
    """Nodes of no tree."""
    none = np.empty(0, dtype=np.int32)
    return Nodes(none, none.astype(np.float32), none, none, none.astype(np.uint8), none, 0)
