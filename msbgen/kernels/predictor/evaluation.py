"""Score predictions of kernels on those that were held back."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress
from msbgen.data.schema import resource_names
from msbgen.kernels.dataset import has_power, kernels_of, powers_of, runtimes_of
from msbgen.kernels.predictor.predictor import KernelPredictor, cross_predict

Floats = NDArray[np.float64]

# What a row of scores says, each a number: mean |error|, and shares of errors within 5 to 20 %.
MEASURES = ("error", "within_5", "within_10", "within_15", "within_20")


def scores(said: Floats, truth: Floats) -> dict[str, float]:
    """Mean relative error, and the shares of errors that are smaller than 5, 10, 15 and 20 %.

    Source: Tables 4 and 5 of the paper.
    """
    off = np.abs(said / truth - 1.0)
    found = {"error": float(off.mean())}
    return found | {f"within_{p}": float((off < p / 100).mean()) for p in (5, 10, 15, 20)}


def choice_regret(said: Floats, truth: Floats, groups: NDArray[np.int64]) -> float:
    """Mean over groups of what the choice of the least cost that was said costs above the least.

    Parameters
    ----------
    said, truth : ndarray, (n,)
        Cost of each row, energy say.
    groups : ndarray of int, (n,)
        Rows to choose among; those of one kernel, say.
    """
    found = []
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        chosen = rows[int(np.argmin(said[rows]))]
        found.append(truth[chosen] / truth[rows].min() - 1.0)
    return float(np.mean(found))


def evaluate_kernels(
    runs: xr.Dataset,
    *,
    folds: int = 5,
    predictor: KernelPredictor | None = None,
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Score a predictor beside a + b/r on kernels that it was not shown.

    Parameters
    ----------
    runs : xarray.Dataset
        ``msbgen-kernels/1``.
    folds : int
        Parts in which whole kernels are left out.
    predictor : KernelPredictor or None
        Gives the parameters; None for the default's.
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
        As :func:`msbgen.kernels.predictor.predictor.cross_predict`; nothing that could be scored.
    """
    predictor = predictor or KernelPredictor()
    said = cross_predict(runs, predictor, folds=folds, progress=progress)
    truths = {"runtime": runtimes_of(runs)}
    if has_power(runs):
        truths["power"] = powers_of(runs)
    curves = {name: _mean_curve(runs, truth, folds) for name, truth in truths.items()}
    words = runs["kind"].values.astype(str)
    rows: list[dict[str, Any]] = []
    for method, told in (("default", dict(zip(truths, said))), ("mean curve", curves)):
        for kind in [*dict.fromkeys(words.tolist()), "all"]:
            own = np.isin(words, [kind]) if kind != "all" else np.ones(len(words), dtype=bool)
            for name, truth in truths.items():
                good = own & np.isfinite(said[0]) & np.isfinite(truth) & np.isfinite(told[name])
                if good.any():
                    row = {"method": method, "kind": kind, "quantity": name}
                    rows.append(
                        {**row, "rows": int(good.sum()), **scores(told[name][good], truth[good])}
                    )
    if not rows:
        raise ArgumentError("no kind was left with measurements enough; more kernels are wanted.")
    return rows


def _mean_curve(runs: xr.Dataset, truth: Floats, folds: int) -> Floats:
    """The mean logarithm of other kernels of the kind in the configuration, (n,)."""
    kernel, words = kernels_of(runs).of, runs["kind"].values.astype(str)
    part = np.random.default_rng([7, 0]).permutation(int(kernel.max()) + 1)[kernel] % folds
    table = np.stack([runs[n].values.astype(float) for n in resource_names(runs)], axis=1)
    where = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    cell = np.unique(np.stack([np.unique(words, return_inverse=True)[1].reshape(-1), where]).T,
                     axis=0, return_inverse=True)[1].reshape(-1)  # fmt: skip
    log, found = np.log(truth), np.full(len(truth), np.nan)
    for k in range(folds):
        known, asked = (part != k) & np.isfinite(log), part == k
        n = int(cell.max()) + 1
        total = np.bincount(cell[known], log[known], n)
        with np.errstate(invalid="ignore"):
            mean = total / np.bincount(cell[known], minlength=n)
        found[asked] = np.exp(mean[cell[asked]])
    return found
