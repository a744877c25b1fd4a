"""Boosted regression trees: several numbers of a row from its features.

One booster of xgboost for each output, squared loss, trained beside each other in threads; each
takes one thread, so that equal calls give equal bits on any number of cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import check_positive, check_whole
from msbgen.core.machine import available_cores
from msbgen.learn.extras import load_library

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BoostingSettings:
    """How boosters are grown; the names are xgboost's.

    Attributes
    ----------
    rounds : int
        Trees of each booster.
    depth : int
    rate : float
        What each tree adds of what it says.
    subsample, columns : float
        Shares of rows and of features that a tree sees.
    least : float
        Rows of a leaf, at least.
    bins : int
        Values that a feature may be split at: with few rows, most of the time goes into these.
    objective : str
        ``reg:squarederror``, or ``reg:absoluteerror`` as in the paper.
    """

    rounds: int = 300
    depth: int = 6
    rate: float = 0.08
    subsample: float = 0.7
    columns: float = 0.8
    least: float = 3.0
    bins: int = 64
    objective: str = "reg:squarederror"

    def __post_init__(self) -> None:
        check_whole(self, "rounds", "depth")
        check_whole(self, "bins", least=2)
        check_positive(self, "rate", "subsample", "columns", "least")


@dataclass(frozen=True, eq=False)
class Boosting:
    """Boosters that were trained.

    Attributes
    ----------
    models : tuple of bytes
        Of each output, in xgboost's own format (UBJSON).
    """

    models: tuple[bytes, ...]

    def predict(self, features: Floats) -> Floats:
        """Outputs of every row, (n, n_outputs)."""
        rows = np.ascontiguousarray(features, dtype=np.float32)
        return np.stack([b.inplace_predict(rows) for b in self._boosters], axis=1).astype(float)

    def importances(self, n_features: int) -> Floats:
        """Mean gain of the splits at each feature, the mean over outputs, summing to 1."""
        gains = np.zeros(n_features)
        for booster in self._boosters:
            own = np.zeros(n_features)
            for name, gain in booster.get_score(importance_type="gain").items():
                own[int(name[1:])] = gain
            gains += own / max(own.sum(), np.finfo(float).tiny) / len(self._boosters)
        return gains

    @cached_property
    def _boosters(self) -> list[Any]:
        xgboost = load_library("xgboost")
        boosters = []
        for model in self.models:
            booster = xgboost.Booster({"nthread": 1})
            booster.load_model(bytearray(model))
            boosters.append(booster)
        return boosters


def fit_boosting(
    features: Floats, outputs: Floats, settings: BoostingSettings, seed: int
) -> Boosting:
    """Train a booster for each output.

    Parameters
    ----------
    features : ndarray, (n, d)
    outputs : ndarray, (n, n_outputs)
        A row that is NaN in an output is not learned from for it.
    settings : BoostingSettings
    seed : int

    Raises
    ------
    ArgumentError
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
        return bytes(xgboost.train(parameters, table, settings.rounds).save_raw("ubj"))

    columns: Sequence[Floats] = list(outputs.T)
    with ThreadPoolExecutor(min(available_cores(), len(columns))) as pool:
        return Boosting(tuple(pool.map(train, columns)))
