"""Fit a predictor to a dataset of runtimes, and calibrate its bounds.

Cells (a workload on a platform) are left out in turn, a fifth at a time, and predicted by fits to
the others.  Their errors calibrate the bounds of a last fit to all cells (cross-conformal
prediction, Vovk 2015): its predictions know more cells, so that bounds are slightly wide.  In a
large table an eighth of the cells is enough: it is left out of the only fit (split conformal
prediction).
"""

from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.conformal import group_folds
from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.records import checks_arguments
from msbgen.systems.runtimes.calibration import join_pools
from msbgen.systems.runtimes.dataset import features_of, run_table
from msbgen.systems.runtimes.dataset import validate as validate_runtimes
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.scaling import check_connected
from msbgen.systems.runtimes.splits import cells_of, removable

# Folds of the cells of a small table, each left out of a fit, and of a large one, one left out.
_FOLDS, _FOLDS_OF_LARGE = 5, 8
# Left-out cells that are enough: they support a miscoverage of 1 %.
_ENOUGH = 99


@checks_arguments
def fit(
    dataset: xr.Dataset,
    *,
    preset: Literal["default", "paper"] = "default",
    subset: NDArray[np.bool_] | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> RuntimePredictor:
    """Predictor fitted to the observations, with bounds calibrated by left-out cells.

    Repeats of a cell stay together and count once.  A table of 792 cells or more is fitted once,
    without an eighth of them; a smaller one is fitted six times.

    Parameters
    ----------
    dataset : xarray.Dataset
        See :mod:`msbgen.runtimes.dataset`.
    preset : {"default", "paper"}
        As for :class:`RuntimePredictor`.
    subset : ndarray of bool, (n,), or None
        Observations to use; None for all.
    rng : numpy.random.Generator or int
        Draws the cells that are left out together and the seed of the predictor.
    progress : callable
        Called with (done, total) steps.

    Returns
    -------
    RuntimePredictor
        Without bounds, if no cell can be left out.

    Raises
    ------
    ProfileError
        The dataset does not follow the schema.
    ArgumentError
        `subset` is not one flag an observation; another preset.
    MeasurementError
        As :meth:`RuntimePredictor.fit`, with names; no observation.
    """
    validate_runtimes(dataset)
    runs, runtime = run_table(dataset), dataset["runtime"].values.astype(float)
    subset = np.ones(len(runs), dtype=bool) if subset is None else np.asarray(subset)
    if subset.shape != (len(runs),) or subset.dtype != bool:
        raise ArgumentError(
            f"subset holds {subset.dtype} of shape {subset.shape}; ({len(runs)},) of bool is "
            f"wanted."
        )
    if not subset.any():
        raise MeasurementError(
            "there are no observations to fit; some of each workload and platform are wanted."
        )
    runs, runtime = runs[subset], runtime[subset]
    _check_observed_alone(dataset, runs)
    # separate streams, so that an equal seed of a caller's own split draws other cells
    fold_rng, fit_rng = generator(rng).spawn(2)
    seed = int(fit_rng.integers(2**31))
    cell = cells_of(runs)
    n_cells = len(np.unique(cell))
    enough = n_cells >= _FOLDS_OF_LARGE * _ENOUGH
    n_folds = _FOLDS_OF_LARGE if enough else min(_FOLDS, n_cells)
    fold = group_folds(cell, n_folds, fold_rng) if n_folds > 1 else np.zeros(len(runs), np.int64)
    parts = [held for k in range(n_folds) if (held := removable(runs, fold == k)).any()]
    parts = parts[:1] if enough else parts
    n_fits = len(parts) + (not enough)

    def fitted(kept: NDArray[np.bool_], k: int) -> RuntimePredictor:
        """The fit to some of the observations, the k-th of all fits."""

        def step(done: int, total: int) -> None:
            if progress:
                progress(k * total + done, n_fits * total)

        features = (features_of(dataset, of) for of in ("workload", "platform"))
        predictor = RuntimePredictor(*features, preset=preset, random_state=seed)
        return predictor.fit(runs[kept], runtime[kept], progress=step)

    found = [
        fitted(~held, k).calibrate(runs[held], runtime[held], groups=cell[held])
        for k, held in enumerate(parts)
    ]
    if enough:
        predictor = found[0]
    else:
        predictor = fitted(np.ones(len(runs), dtype=bool), len(parts))
        predictor.pools_ = join_pools([one.pools_ for one in found])
    workloads, platforms = dataset["workload"].values, dataset["platform"].values
    predictor.names_ = tuple(map(str, workloads)), tuple(map(str, platforms))
    return predictor


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
