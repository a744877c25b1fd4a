"""Extremely randomised trees (Geurts, Ernst and Wehenkel 2006), each grown without some groups.

Each tree is grown on all rows of a random share of the groups (programs). The mean over the trees
that left a group out is an out-of-sample prediction of it, so one forest gives predictions and
unbiased residuals. scikit-learn grows the trees; they are kept as arrays.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import Stored
from msbgen.core.machine import available_cores
from msbgen.core.records import Count, Positive, check_fields
from msbgen.systems.learn.extras import load_library
from msbgen.systems.learn.trees import Nodes, no_nodes

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Values below this in size: their squares and sums are finite.
_MOST = 1e6


@dataclass(frozen=True)
class TreesSettings:
    """How randomised trees are grown.

    Attributes
    ----------
    trees : int
    columns : float
        Share of the features that each split is chosen from.
    leaf : int
        Least number of rows of a leaf.
    groups : float
        Share of the groups that each tree is grown on.
    """

    trees: Count = 200
    columns: Positive = 0.8
    leaf: Count = 1
    groups: Positive = 0.9

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Trees:
    """A forest as arrays."""

    nodes: Nodes
    # (n_nodes, n_outputs), means of the rows that reach a node
    value: Annotated[NDArray[np.float32], Stored(("node", "output"), (-_MOST, _MOST), "f4")]

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean over the trees, and their deviation from it, (n, n_outputs) each."""
        rows, count = self.nodes.rows(features), len(self.nodes.root)
        total = np.zeros((len(rows), self.value.shape[1]))
        squares = np.zeros_like(total)
        for root in self.nodes.root:
            predicted = self.value[self.nodes.leaves(rows, root)].astype(float)
            total += predicted
            squares += predicted**2
        mean = total / count
        return mean, np.sqrt(np.maximum(squares / count - mean**2, 0.0))

    def predict_without(self, features: Floats, seen: NDArray[np.bool_]) -> Floats:
        """Mean over the trees that a row was left out of, (n, n_outputs); NaN where none is.

        `seen` (n_trees, n) holds which rows each tree was grown on.
        """
        rows = self.nodes.rows(features)
        total = np.zeros((len(rows), self.value.shape[1]))
        for root, grown_on in zip(self.nodes.root, seen):
            total[~grown_on] += self.value[self.nodes.leaves(rows[~grown_on], root)]
        with np.errstate(invalid="ignore"):
            return total / (~seen).sum(axis=0)[:, None]


def no_trees(n_outputs: int = 1) -> Trees:
    """A forest of no trees."""
    return Trees(no_nodes(), np.empty((0, n_outputs), dtype=np.float32))


def fit_trees(
    features: Floats, outputs: Floats, group: Indices, settings: TreesSettings, seed: int
) -> tuple[Trees, NDArray[np.bool_]]:
    """A forest, each tree grown on a share of the groups, and which rows each tree was grown on.

    `features` are (n, d), `outputs` (n, n_outputs), `group` (n,) is counted from 0; the rows of the
    trees are (n_trees, n).  :class:`ArgumentError` where scikit-learn is not installed.
    """
    sklearn_tree = load_library("sklearn.tree")
    rng = np.random.default_rng([2, seed])
    n_groups = int(group.max()) + 1
    # each tree leaves one group out at least, unless the share is 1
    most = n_groups if settings.groups >= 1 else max(n_groups - 1, 1)
    taken = min(max(1, round(settings.groups * n_groups)), most)
    chosen = np.zeros((settings.trees, n_groups), dtype=bool)
    for row in chosen:
        row[rng.permutation(n_groups)[:taken]] = True
    seen, seeds = chosen[:, group], rng.integers(2**31, size=settings.trees)
    rows = np.ascontiguousarray(features, dtype=np.float32)

    def grow(t: int):
        tree = sklearn_tree.ExtraTreeRegressor(
            max_features=settings.columns,
            min_samples_leaf=settings.leaf,
            random_state=int(seeds[t]),
        )
        return tree.fit(rows[seen[t]], outputs[seen[t]]).tree_

    with ThreadPoolExecutor(available_cores()) as pool:
        grown = list(pool.map(grow, range(settings.trees)))
    return _joined(grown, outputs.shape[1], rows.shape[1]), seen


def _joined(grown: Sequence, n_outputs: int, n_features: int) -> Trees:
    """The trees of scikit-learn as one set of arrays."""
    root = np.cumsum([0, *(tree.node_count for tree in grown[:-1])])
    parts: dict[str, list[NDArray]] = {name: [] for name in ("left", "right")}
    for tree, first in zip(grown, root):
        node = np.arange(tree.node_count)
        for name, below in (("left", tree.children_left), ("right", tree.children_right)):
            parts[name].append(np.where(below < 0, node, below) + first)
    feature = np.concatenate([np.maximum(t.feature, 0) for t in grown]).astype(np.int32)
    nodes = Nodes(
        feature=feature,
        threshold=np.concatenate([_rounded_down(t.threshold) for t in grown]),
        left=np.concatenate(parts["left"]).astype(np.int32),
        right=np.concatenate(parts["right"]).astype(np.int32),
        missing_left=np.zeros(len(feature), dtype=np.uint8),
        root=root.astype(np.int32),
        n_features=n_features,
    )
    value = np.concatenate([t.value.reshape(-1, n_outputs) for t in grown])
    return Trees(nodes, value.astype(np.float32))


def _rounded_down(threshold: Floats) -> NDArray[np.float32]:
    """Thresholds in single precision that part single-precision numbers as the given ones do."""
    single = threshold.astype(np.float32)
    down = np.nextafter(single, np.float32(-np.inf))
    return np.where(single > threshold, down, single)
