"""Coverage of bounds in cells never measured, of small random tables with repeats.

Each table is additive in the logarithm, with a deviation of each cell and the noise of a run. Ten
cells are hidden, and new runs of them are drawn.
"""

from typing import Any

import numpy as np
from tables import markdown, mean_rows

import msbgen
from msbgen.core.conformal import share_interval
from msbgen.systems.runtimes.dataset import run_table
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.splits import cells_of, removable

# Workloads, platforms and repeats of a cell.
SHAPES = ((12, 5, 3), (20, 5, 6))
TABLES, HIDDEN, NEW_RUNS, MISCOVERAGE = 13, 10, 200, 0.1
# Deviations of the logarithm: of workloads, platforms, cells, and runs of a cell.
WORKLOAD, PLATFORM, CELL, NOISE = 1.0, 0.7, 0.15, 0.05
# Share of the runs that calibrates where single runs are the units.
CALIBRATION = 0.12


def made(n_workloads: int, n_platforms: int, repeats: int, seed: int) -> tuple[Any, Any, Any]:
    """Measured runtimes, hidden cells (h, 2) and new runs of these (h, NEW_RUNS) [s]."""
    rng, shape = np.random.default_rng([1304, seed]), (n_workloads, n_platforms)
    log = WORKLOAD * rng.normal(size=(n_workloads, 1)) + PLATFORM * rng.normal(size=n_platforms)
    log = log + CELL * rng.normal(size=shape)
    cells = np.argwhere(np.ones(shape))
    drawn = rng.permutation(len(cells))
    hidden = next(
        held
        for k in range(len(cells))
        if (held := removable(cells, np.isin(np.arange(len(cells)), np.roll(drawn, k)[:HIDDEN])))
        .sum() == HIDDEN
    )  # fmt: skip
    runs, asked = np.repeat(cells[~hidden], repeats, axis=0), cells[hidden]
    workload, platform = runs.T
    seconds = np.exp(log[workload, platform] + NOISE * rng.normal(size=len(runs)))
    new = np.exp(log[tuple(asked.T)][:, None] + NOISE * rng.normal(size=(HIDDEN, NEW_RUNS)))
    names = ([f"{letter}{k}" for k in range(n)] for letter, n in zip("wp", shape))
    workloads, platforms = names
    beside = np.empty((len(runs), 0))
    dataset = msbgen.runtimes.make(
        seconds, workload, platform, beside, np.arange(len(runs)),
        workloads=workloads, platforms=platforms,
    )  # fmt: skip
    return dataset, asked, new


def by_single_runs(dataset: Any, seed: int) -> RuntimePredictor:
    """Predictor calibrated with single runs, of cells that other runs show."""
    runs, seconds = run_table(dataset), dataset["runtime"].values
    held = np.random.default_rng([1305, seed]).random(len(runs)) < CALIBRATION
    held &= ~np.isin(cells_of(runs), np.setdiff1d(cells_of(runs), cells_of(runs[~held])))
    predictor = RuntimePredictor(random_state=seed).fit(runs[~held], seconds[~held])
    return predictor.calibrate(runs[held], seconds[held])


def measure() -> list[dict[str, Any]]:
    """Coverage, margin and error in hidden cells: a row for each table and calibration."""
    rows = []
    for k in range(TABLES):
        shape = SHAPES[k % len(SHAPES)]
        dataset, asked, new = made(*shape, seed=k)
        for units, fit in (
            ("cells", lambda data, seed: msbgen.runtimes.fit(data, rng=seed)),
            ("single runs", by_single_runs),
        ):
            predictor = fit(dataset, k)
            rate = predictor.supported_rate(asked, MISCOVERAGE)
            bound, expected = predictor.predict_bound(asked, rate), predictor.predict(asked)
            middle = np.median(new, axis=1)
            rows.append(
                {
                    "units": units, "shape": list(shape), "table": k, "rate": rate,
                    "cells_within": int((new[:, 0] <= bound).sum()),
                    "coverage": float((new <= bound[:, None]).mean()),
                    "margin": float(np.maximum(bound / middle - 1.0, 0.0).mean()),
                    "error": float(np.abs(expected / middle - 1.0).mean()),
                }
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The table of the page."""
    shown = []
    for units in dict.fromkeys(row["units"] for row in rows):
        for shape in (*map(list, SHAPES), None):
            some = [row for row in rows if row["units"] == units and shape in (None, row["shape"])]
            mean = mean_rows([{k: row[k] for k in ("coverage", "margin", "error")} for row in some])
            within, asked = sum(row["cells_within"] for row in some), HIDDEN * len(some)
            low, high = share_interval(within, asked)
            words = "all" if shape is None else f"{shape[0]} × {shape[1]}, {shape[2]} repeats"
            shown.append(
                [
                    units, words, f"{within} of {asked}", f"{100 * low:.0f} to {100 * high:.0f} %",
                    *(f"{100 * mean[k]:.1f} %" for k in ("coverage", "margin", "error")),
                ]
            )  # fmt: skip
    header = ["calibrated with", "table", "runs within", "interval", "coverage", "margin", "error"]
    return markdown(header, shown)
