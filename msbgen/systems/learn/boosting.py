"""Boosted regression trees: several outputs of a row from its features.

xgboost grows the trees of each output, in threads beside each other. Each output takes one thread,
so that equal calls give equal bits on any number of cores. Fitted trees are kept as arrays:
predictions and model files need no xgboost.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import Stored
from msbgen.core.machine import available_cores
from msbgen.core.records import Count, Positive, Within, check_fields
from msbgen.systems.learn.extras import load_library
from msbgen.systems.learn.trees import Nodes

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Where xgboost's JSON format holds the trees.
_BOOSTER = "gradient_booster"
# Leaf values below this in size: sums of thousands of them are finite.
_MOST = 1e6


@dataclass(frozen=True)
class BoostingSettings:
    """How boosted trees are grown.

    Attributes
    ----------
    rounds : int
        Trees of each output.
    depth : int
        Levels of splits.
    rate : float
        Share of a tree's fitted values that is added to the prediction.
    subsample, columns : float
        Shares of rows and of features that a tree is grown on.
    least : float
        Least number of rows of a leaf.
    bins : int
        Thresholds tried of each feature. With few rows they take most of the time.
    objective : str
        ``reg:squarederror``, or ``reg:absoluteerror`` as in the paper.
    """

    rounds: Count = 300
    depth: Count = 6
    rate: Positive = 0.08
    subsample: Positive = 0.7
    columns: Positive = 0.8
    least: Positive = 3.0
    bins: Annotated[int, Within(2)] = 64
    objective: str = "reg:squarederror"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Boosting:
    """Boosted trees of several outputs, as arrays."""

    nodes: Nodes  # of all outputs' trees
    # (n_nodes,), of a leaf: what it adds to the prediction
    value: Annotated[Singles, Stored(("node",), (-_MOST, _MOST), "f4")]
    # (n_nodes,), of a split: how much it lowered the loss
    gain: Annotated[Singles, Stored(("node",), dtype="f4")]
    # (n_trees,), output that each tree belongs to
    output: Annotated[NDArray[np.int32], Stored(("tree",), dtype="i4", below="output")]
    # (n_outputs,), prediction before the first tree
    start: Annotated[Singles, Stored(("output",), (-_MOST, _MOST), "f4")]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored trees."""
        if not (np.diff(self.nodes.root) > 0).all():
            yield "nodes.root", "of another order", "an ascending one"

    def predict(self, features: Floats) -> Floats:
        """Outputs of every row, (n, n_outputs), equal to those of xgboost to the bit."""
        rows = self.nodes.rows(features)
        outputs = np.repeat(self.start[:, None], len(rows), axis=1)
        for total, roots in zip(outputs, self._roots):
            self.nodes.add_values(rows, self.value, roots, total)
        return outputs.T.astype(float)

    def importances(self, n_features: int) -> Floats:
        """Mean gain of the splits at each feature, the mean over outputs, summing to 1."""
        split = np.flatnonzero(self.nodes.left != np.arange(len(self.value)))
        tree = np.searchsorted(self.nodes.root, split, side="right") - 1
        gains = np.zeros(n_features)
        for k in range(len(self.start)):
            some = split[self.output[tree] == k]
            feature = self.nodes.feature[some]
            count = np.bincount(feature, minlength=n_features)
            total = np.bincount(feature, self.gain[some], n_features) / np.maximum(count, 1)
            gains += total / max(total.sum(), np.finfo(float).tiny) / len(self.start)
        return gains

    @cached_property
    def _roots(self) -> list[NDArray[np.int32]]:
        """Roots of the trees of each output."""
        return [self.nodes.root[self.output == k] for k in range(len(self.start))]


def fit_boosting(
    features: Floats, outputs: Floats, settings: BoostingSettings, seed: int
) -> Boosting:
    """Boosted trees of each output (n, n_outputs) from features (n, d).

    A row whose output is NaN is left out of the fit of that output.  :class:`ArgumentError` where
    xgboost is not installed.
    """
    xgboost = load_library("xgboost")
    rows = np.ascontiguousarray(features, dtype=np.float32)
    parameters = {
        "tree_method": "hist",
        "objective": settings.objective,
        "max_depth": settings.depth,
        "eta": settings.rate,
        "subsample": settings.subsample,
        "colsample_bytree": settings.columns,
        "min_child_weight": settings.least,
        "max_bin": settings.bins,
        "nthread": 1,
        "seed": seed % 2**31,
    }

    def train(wanted: Floats) -> bytes:
        known = np.isfinite(wanted)
        table = xgboost.QuantileDMatrix(
            rows[known], wanted[known], max_bin=settings.bins, nthread=1
        )
        return bytes(xgboost.train(parameters, table, settings.rounds).save_raw("json"))

    columns: Sequence[Floats] = list(outputs.T)
    with ThreadPoolExecutor(min(available_cores(), len(columns))) as pool:
        models = list(pool.map(train, columns))
    return _joined(models, rows.shape[1])


def _joined(models: Sequence[bytes], n_features: int) -> Boosting:
    """Boosters in xgboost's JSON format, one of each output, as one set of arrays."""
    learners = [json.loads(model)["learner"] for model in models]
    trees = [(k, t) for k, one in enumerate(learners) for t in one[_BOOSTER]["model"]["trees"]]
    starts = [one["learner_model_param"]["base_score"].strip("[]") for one in learners]

    def column(name: str, dtype: type) -> NDArray[Any]:
        return np.concatenate([np.array(tree[name], dtype=dtype) for _, tree in trees])

    sizes = [len(tree["left_children"]) for _, tree in trees]
    root = np.cumsum([0, *sizes[:-1]])
    first, at = np.repeat(root, sizes), np.arange(sum(sizes))
    left, right = (column(f"{side}_children", np.int64) for side in ("left", "right"))
    leaf = left < 0
    # of a split the threshold, of a leaf its value
    condition = column("split_conditions", np.float32)
    # x < t is x <= the greatest single number below t
    below = np.nextafter(condition, np.float32(-np.inf))
    nodes = Nodes(
        feature=np.where(leaf, 0, column("split_indices", np.int64)).astype(np.int32),
        threshold=np.where(leaf, np.float32(0), below),
        left=np.where(leaf, at, left + first).astype(np.int32),
        right=np.where(leaf, at, right + first).astype(np.int32),
        missing_left=np.where(leaf, 0, column("default_left", np.int64)).astype(np.uint8),
        root=root.astype(np.int32),
        n_features=n_features,
    )
    return Boosting(
        nodes,
        value=np.where(leaf, condition, np.float32(0)),
        gain=np.where(leaf, np.float32(0), column("loss_changes", np.float32)),
        output=np.array([k for k, _ in trees], dtype=np.int32),
        start=np.array(starts, dtype=np.float64).astype(np.float32),
    )
