"""Scores of predictions on kernels that were held out."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress
from msbgen.systems.kernels.dataset import configurations_of, has_power, powers_of, runtimes_of
from msbgen.systems.kernels.predictor.kernel_predictor import (
    KernelPredictor,
    cross_predict,
    kernel_folds,
)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Columns of scores: mean relative error, and shares of errors below 5 to 20 %.
MEASURES = ("error", "within_5", "within_10", "within_15", "within_20")


def scores(predicted: Floats, truth: Floats) -> dict[str, float]:
    """Mean relative error, and the shares of errors below 5, 10, 15 and 20 %.

    Source: Tables 4 and 5 of the paper.
    """
    error = np.abs(predicted / truth - 1.0)
    shares = {f"within_{p}": float((error < p / 100).mean()) for p in (5, 10, 15, 20)}
    return {"error": float(error.mean()), **shares}


def evaluate(
    runs: xr.Dataset,
    *,
    folds: int = 5,
    predictor: KernelPredictor | None = None,
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Score a predictor and a baseline on left-out kernels, both on the same folds.

    The baseline, "mean curve", is the geometric mean over other kernels of the kind in the same
    configuration.

    Parameters
    ----------
    runs : xarray.Dataset
        ``msbgen-kernels/1``.
    folds : int
        Number of folds; each leaves out whole kernels.
    predictor : KernelPredictor or None
        Its parameters are used; None for the defaults.
    progress : callable
        Called with (done, total) folds.

    Returns
    -------
    list of dict
        A row for each method (default, mean curve), kind and quantity (runtime, power where it was
        measured): ``method``, ``kind``, ``quantity``, ``rows`` and :data:`MEASURES`.

    Raises
    ------
    ArgumentError, MeasurementError
        As :func:`msbgen.kernels.predictor.kernel_predictor.cross_predict`; no kind can be scored.
    """
    predictor = predictor or KernelPredictor()
    by_predictor = cross_predict(runs, predictor, folds=folds, progress=progress)
    truths = {"runtime": runtimes_of(runs)}
    if has_power(runs):
        truths["power"] = powers_of(runs)
    fold = kernel_folds(runs, folds, predictor.random_state)
    curves = {name: _mean_curve(runs, truth, fold) for name, truth in truths.items()}
    methods = {"default": dict(zip(truths, by_predictor)), "mean curve": curves}
    words = runs["kind"].values.astype(str)
    rows: list[dict[str, Any]] = []
    for method, predictions in methods.items():
        for kind in [*dict.fromkeys(words.tolist()), "all"]:
            of_kind = (words == kind) | (kind == "all")
            for name, truth in truths.items():
                predicted = predictions[name]
                scored = of_kind & np.isfinite(by_predictor[0])
                scored &= np.isfinite(truth) & np.isfinite(predicted)
                if scored.any():
                    row = {"method": method, "kind": kind, "quantity": name}
                    row["rows"] = int(scored.sum())
                    rows.append({**row, **scores(predicted[scored], truth[scored])})
    if not rows:
        raise ArgumentError("no kind has enough measurements to be scored; measure more kernels.")
    return rows


def _mean_curve(runs: xr.Dataset, truth: Floats, fold: Indices) -> Floats:
    """Geometric mean over other kernels of the kind in the same configuration, (n,)."""
    words = runs["kind"].values.astype(str)
    kind = np.unique(words, return_inverse=True)[1].reshape(-1)
    at = np.stack([kind, configurations_of(runs)[1]], axis=1)
    cell = np.unique(at, axis=0, return_inverse=True)[1].reshape(-1)
    log, predicted = np.log(truth), np.full(len(truth), np.nan)
    for k in np.unique(fold):
        train, test = (fold != k) & np.isfinite(log), fold == k
        n = int(cell.max()) + 1
        total = np.bincount(cell[train], log[train], n)
        with np.errstate(invalid="ignore"):
            mean = total / np.bincount(cell[train], minlength=n)
        predicted[test] = np.exp(mean[cell[test]])
    return predicted
