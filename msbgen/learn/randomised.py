"""Extremely randomised trees that leave whole groups out: predictions, honest and for later.

Each tree sees a random share of the groups (programs), all their rows, and splits at random
thresholds (Geurts, Ernst and Wehenkel 2006).  The mean over the trees that did not see a group is
what the forest says of a program that it has never seen: residuals for their covariance, from one
forest.  Trees are grown by scikit-learn and kept as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import check_positive, check_whole
from msbgen.core.machine import available_cores
from msbgen.learn.extras import load_library

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class TreesSettings:
    """How randomised trees are grown.

    Attributes
    ----------
    trees : int
    columns : float
        Share of the features that a split is chosen among.
    leaf : int
        Rows of a leaf, at least.
    groups : float
        Share of the groups that a tree sees.
    """

    trees: int = 200
    columns: float = 0.8
    leaf: int = 1
    groups: float = 0.9

    def __post_init__(self) -> None:
        check_whole(self, "trees", "leaf")
        check_positive(self, "columns", "groups")


@dataclass(frozen=True, eq=False)
class Trees:
    """A forest as arrays: the nodes of all trees, one after another.

    Attributes
    ----------
    feature : ndarray of int32, (n_nodes,)
        Whose value decides at a node; of a leaf, what it likes.
    threshold : ndarray of float32, (n_nodes,)
        Up to it left, above it right.
    left, right : ndarray of int32, (n_nodes,)
        Nodes below; a leaf is below itself.
    value : ndarray of float32, (n_nodes, n_outputs)
    root : ndarray of int32, (n_trees,)
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float32]
    root: NDArray[np.int32]

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean over the trees, and their deviation from it, (n, n_outputs) each."""
        total = np.zeros((len(features), self.value.shape[1]))
        squares = np.zeros_like(total)
        for root in self.root:
            said = self.value[self._leaves(features, root)].astype(float)
            total += said
            squares += said**2
        mean = total / len(self.root)
        return mean, np.sqrt(np.maximum(squares / len(self.root) - mean**2, 0.0))

    def predict_without(self, features: Floats, seen: NDArray[np.bool_]) -> Floats:
        """Mean over the trees that did not see a row, (n, n_outputs); NaN where all did.

        Parameters
        ----------
        features : ndarray, (n, d)
        seen : ndarray of bool, (n_trees, n)
        """
        total = np.zeros((len(features), self.value.shape[1]))
        for root, own in zip(self.root, seen):
            total[~own] += self.value[self._leaves(features[~own], root)]
        with np.errstate(invalid="ignore"):
            return total / (~seen).sum(axis=0)[:, None]

    def _leaves(self, features: Floats, root: int) -> Indices:
        """The leaf of one tree that each row falls into, (n,)."""
        rows = np.asarray(features, dtype=np.float32)
        at = np.full(len(rows), root, dtype=np.int64)
        going = np.arange(len(rows))
        while len(going):
            node = at[going]
            low = rows[going, self.feature[node]] <= self.threshold[node]
            below = np.where(low, self.left[node], self.right[node])
            at[going] = below
            going = going[below != node]
        return at


def fit_trees(
    features: Floats, outputs: Floats, group: Indices, settings: TreesSettings, seed: int
) -> tuple[Trees, NDArray[np.bool_]]:
    """Grow a forest, each tree on a share of the groups.

    Parameters
    ----------
    features : ndarray, (n, d)
    outputs : ndarray, (n, n_outputs)
    group : ndarray of int, (n,)
        Counted from 0.
    settings : TreesSettings
    seed : int

    Returns
    -------
    trees : Trees
    seen : ndarray of bool, (n_trees, n)
        Which rows each tree was grown on.

    Raises
    ------
    ArgumentError
        scikit-learn is not installed.
    """
    sklearn_tree = load_library("sklearn.tree")
    rng = np.random.default_rng([2, seed])
    n_groups = int(group.max()) + 1
    # of few groups, too, some are left out of each tree
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
    return _joined(grown, outputs.shape[1]), seen


def _joined(grown: Sequence, n_outputs: int) -> Trees:
    """The trees of scikit-learn as one set of arrays."""
    root = np.cumsum([0, *(tree.node_count for tree in grown[:-1])])
    parts: dict[str, list[NDArray]] = {name: [] for name in ("left", "right")}
    for tree, first in zip(grown, root):
        own = np.arange(tree.node_count)
        for name, below in (("left", tree.children_left), ("right", tree.children_right)):
            parts[name].append(np.where(below < 0, own, below) + first)
    return Trees(
        feature=np.concatenate([np.maximum(t.feature, 0) for t in grown]).astype(np.int32),
        threshold=np.concatenate([_rounded_down(t.threshold) for t in grown]),
        left=np.concatenate(parts["left"]).astype(np.int32),
        right=np.concatenate(parts["right"]).astype(np.int32),
        value=np.concatenate([t.value.reshape(-1, n_outputs) for t in grown]).astype(np.float32),
        root=root.astype(np.int32),
    )


def _rounded_down(threshold: Floats) -> NDArray[np.float32]:
    """Thresholds in single precision; single numbers up to the old one are up to the new one."""
    single = threshold.astype(np.float32)
    down = np.nextafter(single, np.float32(-np.inf))
    return np.where(single > threshold, down, single)
