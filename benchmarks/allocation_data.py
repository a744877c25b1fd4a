"""Data of the allocation study: phase tables of every method, and true runs.

All of it is computed once and kept in a folder: replays of all 4,560 contexts of the programs, and
profiles generated from 125 known contexts.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import xarray as xr
from tables import PROFILES, TASKS

import msbgen
from msbgen import platform
from msbgen.answers.evaluate.baselines import BASELINES
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table
from msbgen.systems.phases.grid import Grid
from msbgen.systems.phases.phases import phase_table, read_phases, write_phases
from msbgen.systems.realtime.tasksets import reference_wcet
from msbgen.systems.realtime.truth import Truth

# Seeds of the replays: of empirical tables, of true runs, and of the known profiles of programs
# whose profiles do not ship.
TABLE_SEED, TRUTH_SEED, KNOWN_SEED = 11, 12, 13
# Seeds of generated runs: for the choice of clocks and margins, and for forecasts.
CHOICE_SEED, FORECAST_SEED = 21, 22
RUNS = 10
# Sampling interval of true runs, finer than that of profiles [s].
FINE = 0.005
# Interval of generated profiles, about that of the fitted distribution [s].
GENERATED = 0.0025


def phase_tables(work: Path, name: str, tasks: Sequence[str]) -> dict[str, xr.Dataset]:
    """Phase tables of a method by task."""
    return {task: read_phases(work / f"{task}-{name.replace(' ', '-')}.nc") for task in tasks}


def truth(work: Path, name: str, tasks: Sequence[str]) -> Truth:
    return Truth.join([load_truth(work / f"{task}-{name}.npz") for task in tasks])


def wcets(tasks: Sequence[str]) -> dict[str, float]:
    """Longest observed execution times in the largest context, which is measured."""
    return {task: reference_wcet(measured(task)) for task in tasks}


def measured(task: str) -> xr.Dataset:
    """Known profiles of a program: those that ship, or a replay in the same contexts."""
    if task in TASKS:
        return msbgen.read_profiles(PROFILES / f"{task}.nc")
    known = context_table(msbgen.read_profiles(PROFILES / f"{TASKS[0]}.nc"))
    trace = platform.read_trace(PROFILES / "traces" / f"{task}.nc")
    return platform.replay_trace(trace, known, RUNS, rng=KNOWN_SEED)


def load_truth(path: Path) -> Truth:
    with np.load(path) as held:
        grid = Grid.of(Profiles.of(platform_grid()))
        return Truth((str(held["task"]),), grid, held["seconds"], held["power"])


def save_truth(truth: Truth, path: Path) -> None:
    np.savez(path, task=truth.profiles[0], seconds=truth.seconds, power=truth.power)


def platform_grid() -> xr.Dataset:
    """The virtual platform's resources, in every context."""
    one = msbgen.read_profiles(PROFILES / f"{TASKS[0]}.nc")
    columns = platform.platform_contexts("all").T
    attrs = {name: one[name].attrs for name in platform.RESOURCES}
    coords = {n: ("context", c, attrs[n]) for n, c in zip(platform.RESOURCES, columns)}
    return xr.Dataset(coords=coords)


def prepare(work: Path, tasks: Sequence[str]) -> None:
    """Compute what is missing in the folder."""
    work.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        _prepare_task(work, task)


def _prepare_task(work: Path, task: str) -> None:
    every = platform.platform_contexts("all")

    def wanted(*names: str) -> bool:
        paths = [work / f"{task}-{name.replace(' ', '-')}" for name in names]
        return not all(any(p.with_suffix(s).exists() for s in (".nc", ".npz")) for p in paths)

    def table(name: str, profiles: xr.Dataset) -> None:
        path = work / f"{task}-{name.replace(' ', '-')}.nc"
        write_phases(phase_table(profiles), path, overwrite=True)

    @contextmanager
    def step(label: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        print(f"{task}: {label}, {time.perf_counter() - started:.1f} s", flush=True)

    trace = platform.read_trace(PROFILES / "traces" / f"{task}.nc")
    if wanted("empirical", "first half", "second half"):
        with step("empirical tables"):
            runs = platform.replay_trace(trace, every, RUNS, rng=TABLE_SEED)
            table("empirical", runs)
            table("first half", runs.isel(run=slice(0, RUNS // 2)))
            table("second half", runs.isel(run=slice(RUNS // 2, None)))
    if wanted("truth"):
        with step("truth"):
            runs = platform.replay_trace(trace, every, RUNS, interval=FINE, rng=TRUTH_SEED)
            save_truth(Truth.of({task: runs}), work / f"{task}-truth.npz")
    known = measured(task)
    if wanted("default", "choice", "forecast"):
        with step("default"):
            path = work / f"{task}-model.nc"
            if not path.exists():
                msbgen.fit_profiles(known).save(path)
            model = msbgen.ProfileModel.load(path)
            table("default", model.generate(every, kind="mean", times=GENERATED))
            for name, seed in (("choice", CHOICE_SEED), ("forecast", FORECAST_SEED)):
                runs = model.generate(every, kind="sample", n_samples=RUNS, times=FINE, rng=seed)
                save_truth(Truth.of({task: runs}), work / f"{task}-{name}.npz")
    if wanted("paper"):
        with step("paper preset"):
            model = msbgen.fit_profiles(known, msbgen.PAPER)
            table("paper", model.generate(every, kind="mean"))
    for name, baseline in (("nearest", "nearest_context"), ("bracketing", "bracketing")):
        if wanted(name):
            with step(name):
                table(name, BASELINES[baseline](known, every))
