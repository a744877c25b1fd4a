"""Fit a predictor to a dataset of runtimes, and calibrate its bounds."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.arguments import checks_arguments
from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.runtimes.calibration import CALIBRATION, measured_runs
from msbgen.runtimes.dataset import features_of, run_table
from msbgen.runtimes.dataset import validate as validate_runtimes
from msbgen.runtimes.predictor import RuntimePredictor
from msbgen.runtimes.scaling import check_connected
from msbgen.runtimes.splits import Split, split_calibration, units_of


@checks_arguments
def fit(
    dataset: xr.Dataset,
    *,
    preset: str = "default",
    split: Split = "runs",
    subset: NDArray[np.bool_] | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> RuntimePredictor:
    """Predictor fitted to most of the observations and calibrated with the rest.

    Parameters
    ----------
    dataset : xarray.Dataset
        See :mod:`msbgen.runtimes.dataset`.
    preset : {"default", "paper"}
        As for :class:`RuntimePredictor`.
    split : {"rows", "runs", "cells"}
        Exchangeable units, which calibration keeps whole and which bounds refer to.
    subset : ndarray of bool, (n,), or None
        Observations to use; None for all.
    rng : numpy.random.Generator or int
        Draws the calibration runs and the seed of the predictor.
    progress : callable
        Called with (done, total) steps.

    Raises
    ------
    ProfileError
        The dataset does not follow the schema.
    ArgumentError
        `subset` is not one flag an observation; another preset or split.
    MeasurementError
        As :meth:`RuntimePredictor.fit`, with names; too few observations to keep any.
    """
    validate_runtimes(dataset)
    runs, runtime = run_table(dataset), dataset["runtime"].values.astype(float)
    units = units_of(runs, dataset["run"].values, split)
    subset = np.ones(len(runs), dtype=bool) if subset is None else np.asarray(subset)
    if subset.shape != (len(runs),) or subset.dtype != bool:
        raise ArgumentError(
            f"subset holds {subset.dtype} of shape {subset.shape}; ({len(runs)},) of bool is "
            f"wanted."
        )
    _check_observed_alone(dataset, runs[subset])
    # separate streams, so that an equal seed of a caller's own split draws other runs
    split_rng, fit_rng = generator(rng).spawn(2)
    fitted, calibration = split_calibration(runs, units, subset, CALIBRATION, split_rng)
    if not (calibration.any() and fitted.any()):
        raise MeasurementError(
            f"there are {int(subset.sum())} observations, too few to calibrate bounds with some of "
            f"them; several of each workload and platform are wanted, and at a miscoverage of 0.05 "
            f"{measured_runs(0.05)[:-1]}."
        )
    predictor = RuntimePredictor(
        features_of(dataset, "workload"),
        features_of(dataset, "platform"),
        preset=preset,
        random_state=int(fit_rng.integers(2**31)),
    )
    predictor.fit(runs[fitted], runtime[fitted], progress=progress)
    return predictor.calibrate(runs[calibration], runtime[calibration], groups=units[calibration])


def _check_observed_alone(dataset: xr.Dataset, runs: NDArray[np.int64]) -> None:
    """Refuse, by name, workloads and platforms never observed alone, or not connected."""
    alone = runs[(runs[:, 2:] >= 0).sum(axis=1) == 0]
    if not len(alone):
        return  # the predictor refuses this
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
