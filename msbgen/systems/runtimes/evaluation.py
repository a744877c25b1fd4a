"""Scores of a predictor of runtimes on observations that were held out."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.draws import generator
from msbgen.core.errors import MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, Share, checks_arguments
from msbgen.systems.runtimes.dataset import run_table
from msbgen.systems.runtimes.dataset import validate as validate_runtimes
from msbgen.systems.runtimes.fitting import fit
from msbgen.systems.runtimes.splits import cells_of, removable

Floats = NDArray[np.float64]

# Rates at which bounds are scored.
RATES = (0.1, 0.05, 0.02, 0.01)


@checks_arguments
def evaluate(
    dataset: xr.Dataset,
    *,
    train: Share = 0.5,
    replicates: Count = 5,
    preset: Literal["default", "paper"] = "default",
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Scores on held-out cells, one row for each replicate and number of neighbours.

    Parameters
    ----------
    dataset, preset, rng
        As for :func:`msbgen.runtimes.fitting.fit`.
    train : float
        Share of the cells to train with, at least; those that connect workloads and platforms
        are among them.
    replicates : int
        Number of random splits.
    progress : callable
        Called with (done, total) steps of all replicates.

    Returns
    -------
    list of dict
        Each row has ``replicate``, ``neighbours``, ``observations``, ``error`` (mean relative
        error) and ``tenfold`` (predictions off by a factor of ten).  For every rate α of
        :data:`RATES` it has ``coverage_α`` and ``margin_α`` (mean of bound / measured − 1, where
        positive), if the calibration of every replicate supports the rate for every number of
        neighbours.

    Raises
    ------
    ArgumentError
        `train` is not in (0, 1); `replicates` is below 1; or as `fit`.
    ProfileError, MeasurementError
        As `fit`; no observation can be held out.
    """
    validate_runtimes(dataset)
    runs, runtime = run_table(dataset), dataset["runtime"].values.astype(float)
    cell = cells_of(runs)
    rows: list[dict[str, Any]] = []
    for r, stream in enumerate(generator(rng).spawn(replicates)):

        def step(done: int, total: int, r: int = r) -> None:
            if progress:
                progress(r * total + done, replicates * total)

        test = removable(runs, (stream.random(cell.max() + 1) >= train)[cell])
        if not test.any():
            raise MeasurementError(
                f"of {len(runs)} observations none can be held out; several of each workload and "
                f"platform, or another share to train with, are wanted."
            )
        predictor = fit(dataset, preset=preset, subset=~test, rng=stream, progress=step)
        neighbours = (runs[test, 2:] >= 0).sum(axis=1)
        bounded = bool(np.isin(neighbours, list(predictor.pools_)).all())
        least = predictor.supported_rate(runs[test], min(RATES)) if bounded else 1.0
        rates = [rate for rate in RATES if rate >= least]
        bounds = {rate: predictor.predict_bound(runs[test], rate) for rate in rates}
        scores = score_predictions(runtime[test], neighbours, predictor.predict(runs[test]), bounds)
        rows += [{"replicate": r, **row} for row in scores]
    # every row of a table has the same columns: the rates that all replicates support
    common = set.intersection(*(set(row) for row in rows))
    return [{name: value for name, value in row.items() if name in common} for row in rows]


def score_predictions(
    runtime: Floats,
    neighbours: NDArray[np.int64],
    predicted: Floats,
    bounds: Mapping[float, Floats],
) -> list[dict[str, Any]]:
    """Errors of predictions, coverage and margins of bounds [s], for each number of neighbours.

    Rows are those of :func:`evaluate` without their replicate.
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
