"""Scores of predictions of relative performance on left-out runs.

The error is the paper's: the mean absolute error of a run's times relative to the source, over all
machines including the source.  Same order is the share of rows whose machines are predicted in
their true order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.systems.machines.dataset import machines_of, runtimes_of
from msbgen.systems.machines.predictor import RelativePredictor, cross_predict
from msbgen.systems.machines.splits import Split, held_rows

Floats = NDArray[np.float64]

# Measures in a row of scores.
MEASURES = ("error", "error_elsewhere", "same_order", "factor", "best_found", "time_lost")


def complete_runs(runs: xr.Dataset) -> xr.Dataset:
    """The runs on every machine, whose true order is known; none is a MeasurementError."""
    whole = np.isfinite(runtimes_of(runs)).all(axis=1)
    if not whole.any():
        raise MeasurementError("no run ran on every machine; some are wanted: leave machines out.")
    return runs.isel(run=np.flatnonzero(whole))


def scores(predicted: Floats, truth: Floats, source: int) -> dict[str, float]:
    """Scores of times predicted from one machine, the `source`.

    `predicted` and `truth` are (n, n_machines) [s]; on the source both are the time measured.
    ``error`` is the mean |t̂_m/t_s − t_m/t_s| over all machines, ``error_elsewhere`` over the
    others; ``same_order`` a share of rows; ``factor`` exp of the mean |log t̂_m/t_m| elsewhere;
    ``best_found`` the share of rows whose fastest machine is named; ``time_lost`` the mean of
    t_named/t_fastest − 1.
    """
    base = truth[:, [source]]
    others = np.arange(truth.shape[1]) != source
    error = np.abs(predicted - truth) / base
    named, fastest = predicted.argmin(axis=1), truth.argmin(axis=1)
    rows = np.arange(len(truth))
    order = np.argsort(predicted, axis=1, kind="stable") == np.argsort(truth, axis=1, kind="stable")
    return {
        "error": float(error.mean()),
        "error_elsewhere": float(error[:, others].mean()),
        "same_order": float(order.all(axis=1).mean()),
        "factor": float(np.exp(np.abs(np.log(predicted / truth))[:, others].mean())),
        "best_found": float((named == fastest).mean()),
        "time_lost": float((truth[rows, named] / truth[rows, fastest]).mean() - 1.0),
    }


def score_rows(predicted: Floats, truth: Floats, machines: Sequence[str]) -> list[dict[str, Any]]:
    """A row of :func:`scores` for each source, and the mean over them, ``source`` "all".

    `predicted` is (n, n_sources, n_machines) [s], `truth` (n, n_machines) [s].
    """
    each = [scores(predicted[:, s], truth, s) for s in range(len(machines))]
    rows: list[dict[str, Any]] = [
        {"source": name, "rows": len(truth), **one} for name, one in zip(machines, each)
    ]
    mean = {measure: float(np.mean([one[measure] for one in each])) for measure in MEASURES}
    return [*rows, {"source": "all", "rows": len(truth) * len(machines), **mean}]


def constant_times(known: Floats, truth: Floats, *, each_source: bool) -> Floats:
    """Times from constant relative times [s], (n, n_sources, n_machines): a baseline.

    `known` and `truth` (·, n_machines) are times of the training runs and of the runs to predict.
    With `each_source`, the constant is the median relative time for each source.  Otherwise it is
    the mean over all sources, as in the paper, in which even the ratio of the source to itself is
    not 1.
    """
    ratio = known[:, None, :] / known[:, :, None]
    if each_source:
        constant = np.median(ratio, axis=0)
    else:
        constant = np.broadcast_to(ratio.mean(axis=(0, 1)), ratio.shape[1:])
    return truth[:, :, None] * constant


def evaluate(
    runs: xr.Dataset,
    *,
    split: Split = "programs",
    folds: int = 10,
    predictor: RelativePredictor | None = None,
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Scores of a predictor and of constant ratios on left-out runs.

    Only runs on every machine are used.

    Parameters
    ----------
    runs : xarray.Dataset
        ``msbgen-relative/1``.
    split : {"programs", "runs", "scales", "rows"}
        Unit that is left out as a whole.  By rows, which is leaky, the run's rows of other
        machines are known.
    predictor : RelativePredictor or None
        Its parameters are used; None for the defaults.
    progress : callable
        Called with (done, total) folds.

    Returns
    -------
    list of dict
        A row for each method (default, median per source, mean) and source, the mean over the
        sources last: ``method``, ``split``, ``source``, ``rows`` and :data:`MEASURES`.

    Raises
    ------
    ArgumentError, MeasurementError
        As :func:`msbgen.machines.predictor.cross_predict`; no run on every machine.
    """
    runs, predictor = complete_runs(runs), predictor or RelativePredictor()
    predicted = cross_predict(runs, predictor, split=split, folds=folds, progress=progress)
    truth, machines = runtimes_of(runs), machines_of(runs)
    left_out = np.isfinite(predicted).all(axis=(1, 2))
    constants = [np.full_like(predicted, np.nan) for _ in range(2)]
    for held in held_rows(runs, split, folds, predictor.random_state):
        known = truth[~held.all(axis=1)]
        for each_source, times in enumerate(constants):
            constant = constant_times(known, truth, each_source=bool(each_source))
            times[held] = constant[held]
    methods = {"default": predicted, "median per source": constants[1], "mean": constants[0]}
    return [
        {"method": method, "split": split, **row}
        for method, times in methods.items()
        for row in score_rows(times[left_out], truth[left_out], machines)
    ]
