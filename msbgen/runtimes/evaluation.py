"""Fit a predictor to a dataset of runtimes, and score it on observations that were held back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.runtimes.dataset import features_of, run_table
from msbgen.runtimes.dataset import validate as validate_runtimes
from msbgen.runtimes.predictor import RuntimePredictor
from msbgen.runtimes.scaling import check_connected
from msbgen.runtimes.splits import Split, hold_back, set_aside, units_of

Floats = NDArray[np.float64]

# Share of the known observations that is kept from the fit, to calibrate bounds with.
CALIBRATION = 0.12
# Rates at which bounds are scored.
RATES = (0.1, 0.05, 0.02, 0.01)


def fit_runtimes(
    dataset: xr.Dataset,
    *,
    preset: str = "default",
    split: Split = "runs",
    known: NDArray[np.bool_] | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> RuntimePredictor:
    """Fit to most of the observations, and calibrate with the rest.

    Parameters
    ----------
    dataset : xarray.Dataset
        See :mod:`msbgen.runtimes.dataset`.
    preset : {"default", "paper"}
        As for :class:`RuntimePredictor`.
    split : {"rows", "runs", "cells"}
        What is exchangeable: the unit that is held back, and that bounds speak of.
    known : ndarray of bool, (n,), or None
        Observations to learn from; None for all.
    rng : numpy.random.Generator or int
        Where the choice of calibration runs and the towers' first parameters come from.
    progress : callable
        Called with (done, total) steps.

    Raises
    ------
    ProfileError
        The dataset breaks the contract.
    ArgumentError
        `known` is no flag an observation; another preset or split.
    MeasurementError
        As :meth:`RuntimePredictor.fit`, with names; too few observations to hold any back.
    """
    validate_runtimes(dataset)
    runs, runtime = run_table(dataset), dataset["runtime"].values.astype(float)
    units = units_of(runs, dataset["run"].values, split)
    known = np.ones(len(runs), dtype=bool) if known is None else np.asarray(known)
    if known.shape != (len(runs),) or known.dtype != bool:
        raise ArgumentError(
            f"known holds {known.dtype} of shape {known.shape}; ({len(runs)},) of bool is wanted."
        )
    _check_placed(dataset, runs[known])
    # streams of their own: a caller's split from an equal seed must not be drawn again
    parting, training = np.random.default_rng(rng).spawn(2)
    kept, held = set_aside(runs, units, known, CALIBRATION, parting)
    if not (held.any() and kept.any()):
        raise MeasurementError(
            f"there are {int(known.sum())} observations, too few to hold some back for bounds; "
            f"more are wanted."
        )
    predictor = RuntimePredictor(
        features_of(dataset, "workload"),
        features_of(dataset, "platform"),
        preset=preset,
        random_state=int(training.integers(2**31)),
    )
    predictor.fit(runs[kept], runtime[kept], progress=progress)
    return predictor.calibrate(runs[held], runtime[held], groups=units[held])


def _check_placed(dataset: xr.Dataset, runs: NDArray[np.int64]) -> None:
    """Refuse, by name, what has no length or speed: never alone, or sharing nothing."""
    alone = runs[(runs[:, 2:] >= 0).sum(axis=1) == 0]
    if not len(alone):
        return  # the predictor has a sentence for it
    names = {dim: dataset[dim].values for dim in ("workload", "platform")}
    for column, (dim, name) in enumerate(names.items()):
        never = np.setdiff1d(runs[:, column], alone[:, column])
        if len(never):
            raise MeasurementError(
                f"{dim} '{name[never[0]]}' was never observed alone; a run of it without "
                f"neighbours is wanted."
            )
    shape = dataset.sizes["workload"], dataset.sizes["platform"]
    check_connected(alone[:, 0], alone[:, 1], shape, list(names["platform"]))


def _placed(runs: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Those known whose workload and platform are known alone, too, (n,)."""
    alone = runs[known & ((runs[:, 2:] >= 0).sum(axis=1) == 0)]
    return known & np.isin(runs[:, 0], alone[:, 0]) & np.isin(runs[:, 1], alone[:, 1])


def evaluate_runtimes(
    dataset: xr.Dataset,
    *,
    train: float = 0.5,
    replicates: int = 5,
    preset: str = "default",
    split: Split = "rows",
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Score a predictor on what it has not seen, again and again.

    Parameters
    ----------
    dataset, preset, split, rng
        As for :func:`fit_runtimes`.
    train : float
        Share of the units that is known, calibration included.
    replicates : int
        Random choices of what is known.
    progress : callable
        Called with (done, total) steps of all replicates.

    Returns
    -------
    list of dict
        A row for each replicate and number of neighbours: ``replicate``, ``neighbours``,
        ``observations``, ``error`` (mean relative error), ``tenfold`` (predictions off by a
        factor of ten), and ``coverage_α``, ``margin_α`` (mean of bound / measured − 1, where
        positive) for every rate α of :data:`RATES` that the calibration of every replicate
        supports, for every number of neighbours.

    Raises
    ------
    ArgumentError
        `train` is no share, `replicates` no number from 1 on, or as :func:`fit_runtimes`.
    ProfileError, MeasurementError
        As :func:`fit_runtimes`; nothing that could be predicted was held back.
    """
    if replicates < 1:
        raise ArgumentError(f"replicates is {replicates}; at least one is wanted.")
    validate_runtimes(dataset)
    runs, runtime = run_table(dataset), dataset["runtime"].values.astype(float)
    units = units_of(runs, dataset["run"].values, split)
    rows: list[dict[str, Any]] = []
    for r, stream in enumerate(np.random.default_rng(rng).spawn(replicates)):

        def step(done: int, total: int, r: int = r) -> None:
            if progress:
                progress(r * total + done, replicates * total)

        known = hold_back(units, train, stream)
        predictor = fit_runtimes(
            dataset, preset=preset, split=split, known=_placed(runs, known), rng=stream,
            progress=step,
        )  # fmt: skip
        asked = np.flatnonzero(~known)
        asked = asked[predictor.answers(runs[asked])] if len(asked) else asked
        if not len(asked):
            raise MeasurementError(
                f"of {len(runs)} observations none that could be predicted was held back; more "
                f"observations, or a smaller share to train with, are wanted."
            )
        degree = (runs[asked, 2:] >= 0).sum(axis=1)
        bounded = bool(np.isin(degree, list(predictor.pools_)).all())
        rates = [rate for rate in RATES if bounded and predictor.supports(rate)]
        scores = score_answers(
            runtime[asked],
            degree,
            predictor.predict(runs[asked]),
            {rate: predictor.predict_bound(runs[asked], rate) for rate in rates},
        )
        rows += [{"replicate": r, **row} for row in scores]
    # a table has the same columns in every row: rates that all replicates support
    common = set.intersection(*(set(row) for row in rows))
    return [{name: value for name, value in row.items() if name in common} for row in rows]


def score_answers(
    runtime: Floats,
    neighbours: NDArray[np.int64],
    predicted: Floats,
    bounds: Mapping[float, Floats],
) -> list[dict[str, Any]]:
    """Errors of predictions, coverage and margins of bounds, for each number of neighbours.

    Parameters
    ----------
    runtime, predicted : ndarray, (n,)
        [s]
    neighbours : ndarray of int, (n,)
    bounds : mapping of rate to ndarray, (n,)
        [s]

    Returns
    -------
    list of dict
        Rows of :func:`evaluate_runtimes` but for their replicate.
    """
    ratio, rows = predicted / runtime, []
    for count in np.unique(neighbours):
        here = neighbours == count
        row: dict[str, Any] = {
            "neighbours": int(count),
            "observations": int(here.sum()),
            "error": float(np.abs(ratio[here] - 1.0).mean()),
            "tenfold": int((np.abs(np.log10(ratio[here])) > 1.0).sum()),
        }
        for rate, bound in bounds.items():
            over = bound[here] / runtime[here] - 1.0
            row[f"coverage_{rate:g}"] = float((over >= 0).mean())
            row[f"margin_{rate:g}"] = float(np.maximum(over, 0.0).mean())
        rows.append(row)
    return rows
