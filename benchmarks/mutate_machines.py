"""Originals and checks of :mod:`mutate` for relative performance and queues."""

import csv
from pathlib import Path

import numpy as np

from msbgen.learn.boosting import BoostingSettings
from msbgen.learn.randomised import TreesSettings
from msbgen.machines.dataset import make as make_relative
from msbgen.machines.dataset import read as read_relative
from msbgen.machines.dataset import runtimes_of
from msbgen.machines.dataset import write as write_relative
from msbgen.machines.kriging import KrigingSettings
from msbgen.machines.predictor import RelativePredictor
from msbgen.machines.storage import save

MACHINES = ("old", "new", "odd")
# Columns without figures, the load (infinite if jobs come all at once), and the saving (may be
# negative).
_WORDS = ("program", "input", "scale", "configuration", "machine", "load", "kind", "saving")
QUICK = {
    "boosting": BoostingSettings(rounds=3),
    "kriging": KrigingSettings(tuned=20, steps=3),
    "trees": TreesSettings(trees=5),
}


class DoubtError(Exception):
    """An answer that makes no sense."""


def make_originals(folder: Path) -> None:
    """Write runs on three machines, a model of them, and queues."""
    rng = np.random.default_rng(3)
    work, share = np.exp(rng.normal(15, 1, 16)), np.repeat(rng.random(8), 2)
    times = work[:, None] * (np.array([2e-9, 1e-9, 5e-10]) + np.outer(share, [2e-9, 2e-10, 4e-9]))
    program, scale = [f"p{r // 2}" for r in range(16)], ["small", "large"] * 8
    runs = make_relative(
        times, MACHINES, program=program, scale=scale,
        counters={"instructions": work, "loads": share * work}, work="instructions",
    )  # fmt: skip
    write_relative(runs, folder / "runs.nc")
    predictor = RelativePredictor(**QUICK).fit(runs).calibrate(runs, folds=2)
    save(predictor, folder / "model-relative.nc")
    lines = ["program,scale,machine,runtime [ms],instructions [1],loads [1]"]
    for r, m in np.ndindex(16, 3):
        numbers = (1e3 * times[r, m], work[r], share[r] * work[r])
        cells = (program[r], scale[r], MACHINES[m], *(f"{n:.9g}" for n in numbers))
        lines.append(",".join(cells))
    (folder / "runs.csv").write_text("\n".join(lines) + "\n")
    make_queues(folder)


def make_queues(folder: Path) -> None:
    """Write jobs, as a table and as a log, and simulations of them."""
    head = "submission [s],nodes,runtime fast [s],runtime slow [s],estimate fast [s]"
    rows = (f"{k},{1 + k % 3},{2 + k % 5},{9 - k % 4},{3 + k % 4},8\n" for k in range(20))
    (folder / "jobs.csv").write_text(f"{head},estimate slow [s]\n{''.join(rows)}")
    rows = (
        f"{k} {5 * k} -1 {9 + k % 5} {1 + k % 3} -1 -1 {1 + k % 3} 20 -1 1 1 1 1 1 1 -1 -1\n"
        for k in range(1, 21)
    )
    (folder / "log.swf").write_text("; Version: 2.2\n" + "".join(rows))
    (folder / "factors.csv").write_text("application,fast,slow\n*,0.5,2\n")
    for name, jobs in (
        ("sim.toml", 'jobs = "jobs.csv"'),
        ("spoilt-jobs.toml", 'jobs = "spoilt.csv"'),
        ("spoilt-log.toml", 'workload = "spoilt.swf"\nrelative = "factors.csv"'),
    ):
        (folder / name).write_text(
            f'arrivals = ["at once", 0.8]\nplacements = ["aware", "random"]\n{jobs}\n'
            "[machines]\nfast = 3\nslow = 4\n"
        )


def learn(path: Path) -> None:
    """Learn from runs, and predict them from each of their machines."""
    runs = read_relative(path)
    predictor = RelativePredictor(**QUICK).fit(runs)
    for s, source in enumerate(predictor.machines_):
        there = np.isfinite(runtimes_of(runs)[:, s])
        times = predictor.predict(runs.isel(run=np.flatnonzero(there)), source)
        if not (np.isfinite(times) & (times > 0)).all():
            raise DoubtError(f"times from {source} are {times.min()} to {times.max()}")


def doubt_runs(path: Path) -> None:
    """Raise if a runtime is not positive."""
    times = runtimes_of(read_relative(path))
    if not (np.isnan(times) | (np.isfinite(times) & (times > 0))).all():
        raise DoubtError(f"runtimes are {np.nanmin(times)} to {np.nanmax(times)}")


def doubt_table(path: Path) -> None:
    """Raise if a figure of a table is negative or not a number; words are skipped."""
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            for name, cell in row.items():
                if name in _WORDS:
                    continue
                try:
                    figure = float(cell)
                except ValueError:
                    continue
                if not (np.isfinite(figure) and figure >= 0):
                    raise DoubtError(f"{path.name} says {name} is {cell}")
