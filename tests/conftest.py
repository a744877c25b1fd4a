"""Small profile datasets that every test file may ask for."""

import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

# files that others can write are refused as journals, whatever the umask of a developer
os.umask(0o022)
# a worker a core: teams of threads inside the linear algebra would fight over the cores
for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# where bytecode is not kept, each process that tests start would compile a hundred modules
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# the peer of some tests would import these, for seconds, and is given arrays of numpy only
for library in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
    os.environ.setdefault(f"POT_BACKEND_DISABLE_{library}", "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import xarray as xr  # noqa: E402
from hypothesis import settings  # noqa: E402

from browsing import browser  # noqa: E402
from msbgen.core.machine import available_cores, load_library  # noqa: E402
from msbgen.data.build import make_profiles  # noqa: E402
from msbgen.engine.generate.fit import DEFAULT  # noqa: E402
from msbgen.output.report import figures  # noqa: E402
from msbgen.sources.platform.trace import make_trace  # noqa: E402

# the first example of a test may compile kernels, and derandomised runs repeat
settings.register_profile("msbgen", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("msbgen")


def pytest_configure() -> None:
    """Jobs in the background of a shell ignore what some tests send themselves and others."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite runs on all cores that this process may use, a part of it in this process.

    More than four workers would do little but compile the same kernels side by side.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return min(available_cores(), 4) if whole else 0


# Contexts of a task that were measured, and two that were not.
MEASURED = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])
UNSEEN = np.array([(6.0, 1.5), (4.0, 1.5)])
RESOURCES = {
    "cache_ways": {"units": "1", "long_name": "cache ways", "levels": [2.0, 4.0, 6.0, 8.0]},
    "frequency": {"units": "GHz", "long_name": "core clock", "levels": [1.0, 1.5, 2.0]},
}
COUNTERS = {
    "instructions": {"long_name": "instructions retired"},
    "cache_requests": {"long_name": "cache requests"},
    "cache_misses": {"long_name": "cache misses"},
}


def synthetic_task(
    contexts: np.ndarray, n_runs: int = 3, interval: float = 0.01, seed: int = 7
) -> xr.Dataset:
    """A task of two phases whose miss rate falls with the ways and whose speed with the clock.

    Phase 1 computes, phase 2 misses; every run varies by about one per cent.
    """
    rng = np.random.default_rng(seed)
    work = np.array([1.0e8, 0.8e8])  # instructions per phase
    requests_per_instruction = np.array([0.002, 0.02])
    n_times = 0
    runs: list[list[np.ndarray]] = []
    durations = np.empty((len(contexts), n_runs))
    for c, (ways, frequency) in enumerate(contexts):
        runs.append([])
        miss_ratio = 0.8 / ways
        for r in range(n_runs):
            noise = 1 + 0.01 * rng.standard_normal(2)
            seconds = work * noise * (1 / frequency + 100 * requests_per_instruction * miss_ratio)
            seconds *= 1e-9
            edges = np.concatenate([[0.0], np.cumsum(seconds)])
            durations[c, r] = edges[-1]
            ends = np.append(np.arange(interval, edges[-1], interval), edges[-1])
            cumulative = np.interp(ends, edges, np.concatenate([[0.0], np.cumsum(work)]))
            requests = np.interp(
                ends, edges, np.concatenate([[0.0], np.cumsum(work * requests_per_instruction)])
            )
            counts = np.diff(
                np.stack([cumulative, requests, requests * miss_ratio], axis=1), axis=0, prepend=0
            )
            runs[-1].append(counts)
            n_times = max(n_times, len(counts))
    counts = np.full((len(contexts), n_runs, n_times, 3), np.nan)
    for c, several in enumerate(runs):
        for r, one in enumerate(several):
            counts[c, r, : len(one)] = one
    return make_profiles(
        counts,
        durations,
        contexts,
        interval=interval,
        resources=RESOURCES,
        counters=COUNTERS,
        attrs={"task": "synthetic"},
    )


def cliff_task() -> xr.Dataset:
    """A working set of its own: misses fall to a tenth between two and six of five levels."""
    ways, clocks = (2.0, 6.0, 8.0, 10.0, 12.0), (1.0, 1.4, 2.0)
    contexts = np.array([(w, f) for w in ways for f in clocks])
    task = synthetic_task(contexts)
    fits = np.where(contexts[:, 0] > 4, 0.1, 1.0)
    task["cache_misses"] *= fits[:, None, None]  # in place, which keeps its units
    return task


def small_trace(n: int = 300, seed: int = 3) -> xr.Dataset:
    """A program of a few hundred milliseconds whose phases differ in misses."""
    rng = np.random.default_rng(seed)
    instructions = np.full(n, 400_000)
    busy = np.sin(np.arange(n) / 20) > 0
    first = rng.poisson(np.where(busy, 900, 40), (21, 2, n)).transpose(0, 2, 1)
    histogram = np.stack([first, np.roll(first, 1, axis=0)], axis=2)
    return make_trace(
        instructions, 0.7 * instructions, 100.0 * busy, histogram, attrs={"program": "small"}
    )


@pytest.fixture
def measured() -> xr.Dataset:
    """Six contexts (ways 2, 4, 8 × clock 1, 2 GHz), three runs each."""
    return synthetic_task(MEASURED)


@pytest.fixture
def truth() -> xr.Dataset:
    """Two contexts that `measured` lacks."""
    return synthetic_task(UNSEEN, n_runs=4)


@pytest.fixture(scope="module")
def coarse():
    """Fits of 50 bins of progress, for tests of what is done with a model: a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(DEFAULT), "bins", 50)
        yield


@pytest.fixture(scope="module")
def short_training():
    """Predictors of runtimes and of machines train for a few steps, for tests of their use."""
    from machines import QUICK
    from msbgen.systems.machines import predictor as relative
    from msbgen.systems.runtimes.predictor import RuntimePredictor

    settings = RuntimePredictor._settings

    def fewer_steps(predictor):
        towers = settings(predictor)
        return replace(towers, steps=min(towers.steps, 60))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RuntimePredictor, "_settings", fewer_steps)
        patch.setattr(relative, "KrigingSettings", lambda: QUICK["kriging"])
        patch.setattr(relative, "TreesSettings", lambda: QUICK["trees"])
        yield


@pytest.fixture
def panels_without_layout(monkeypatch):
    """Panels of reports are drawn, but neither laid out nor written as SVG, which takes longer."""

    def panel(name, draw):
        draw(load_library("matplotlib.figure", "report", "reports").Figure().subplots())
        return "<svg></svg>"

    monkeypatch.setattr(figures, "_panel", panel)


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests of a process."""
    with browser() as started:
        yield started


@pytest.fixture
def open_folder():
    """A folder in which every user can make files, as in /tmp."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o1777)
        yield Path(name)
