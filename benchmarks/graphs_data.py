"""Data of the study of task graphs: profiles of kinds, graphs of families, runs on three devices.

The truth is simulated (`msbgen.graphs.simulator`) at the rates of replayed traces, with noise a run
and a task. True devices differ from their data sheets: by a tenth in speeds and powers, by a half
in dispatches. Predictors see the sheets, runs of graphs, and profiles *generated* from 125 measured
contexts of three runs.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import msbgen
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.engine.generate.fit import fit_profiles
from msbgen.sources.platform.config import PlatformConfig
from msbgen.sources.platform.replay import replay_trace
from msbgen.sources.platform.trace import read_trace
from msbgen.systems.graphs.devices import Device, device_contexts, shipped_device
from msbgen.systems.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.systems.graphs.runs import join_runs as join_graph_runs
from msbgen.systems.graphs.simulator import Simulator, label_runs
from msbgen.systems.phases.phases import phase_table

DEVICES = ("tx2", "orin-nx", "rubik-pi")
KINDS = (
    *("bc", "bzip2", "cg", "ffmpeg", "gcc", "gzip", "openssl", "python", "sort", "sqlite"),
    "zstd",
)
# Levels of cache ways, bandwidth and clock times speed on the devices.
FINE = (
    (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 20.0),
    (130.0, 175.0, 262.0, 350.0, 525.0, 1050.0, 2100.0, 8400.0),
    (0.16, 0.25, 0.4, 0.7, 1.2, 2.0, 3.1),
)
COARSE = (
    (2.0, 4.0, 8.0, 12.0, 20.0),
    (130.0, 350.0, 1050.0, 2800.0, 8400.0),
    (0.16, 0.35, 0.8, 1.6, 3.1),
)
INTERVAL = 0.02  # [s]
MEASURED_RUNS = 3
# Contexts of each graph on each device.
CONTEXTS = 12
# Standard deviations of the logarithms of the differences to the data sheets.
SPEEDS, POWERS, DISPATCHES = 0.1, 0.1, 0.5
# Standard deviations of the logarithms of all times of a run, and of each task.
RUN_NOISE, TASK_NOISE = 0.02, 0.06

Floats = NDArray[np.float64]


def grid(levels: tuple[tuple[float, ...], ...]) -> Floats:
    return np.stack(np.meshgrid(*levels, indexing="ij"), axis=-1).reshape(-1, len(levels))


def kind_data(kind: str, folder: Path) -> None:
    """Compute the true phase table and the generated profiles of one kind, once."""
    truth, generated = folder / f"{kind}-truth.nc", folder / f"{kind}.nc"
    if truth.exists() and generated.exists():
        return
    trace = read_trace(msbgen.shipped_file(f"traces/{kind}.nc"))
    both = tuple(tuple(sorted({*a, *b})) for a, b in zip(FINE, COARSE))
    platform = PlatformConfig(cache_ways=both[0], bandwidths=both[1], frequencies=both[2])
    seed = KINDS.index(kind)
    exact = replay_trace(trace, grid(FINE), 2, INTERVAL, seed, platform.without_noise(), threads=1)
    save_netcdf(phase_table(exact, resolution=0.05), truth, overwrite=True)
    measured = replay_trace(
        trace, grid(COARSE), MEASURED_RUNS, INTERVAL, 100 + seed, platform, threads=1
    )
    profiles = fit_profiles(measured).generate(grid(FINE))
    save_netcdf(profiles, generated, overwrite=True)


def all_kinds(
    folder: Path, processes: int = 2
) -> tuple[dict[str, xr.Dataset], dict[str, xr.Dataset]]:
    """True phase tables and generated profiles by kind, computed where they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(kind_data, KINDS, [folder] * len(KINDS)))
    truth = {kind: load_netcdf(folder / f"{kind}-truth.nc") for kind in KINDS}
    return truth, {kind: load_netcdf(folder / f"{kind}.nc") for kind in KINDS}


@dataclass(frozen=True)
class Study:
    """Data of one seed: what predictors may see, and the truth.

    Devices are by their data sheets, profiles are generated, and the truth is the true phase tables
    by kind. Runs and simulators are by device.
    """

    devices: dict[str, Device]
    graphs: dict[str, xr.Dataset]
    profiles: dict[str, xr.Dataset]
    runs: dict[str, xr.Dataset]
    simulators: dict[str, Simulator]
    truth: dict[str, xr.Dataset]


def all_graphs() -> dict[str, xr.Dataset]:
    """Three sizes of every family, by name."""
    found = {}
    for family, shape in sorted(FAMILIES.items()):
        sizes = shape.sizes
        for size in sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]}):
            graph = family_graph(family, size, rng=size)
            name = f"{family}-{size}"
            found[name] = graph.assign_attrs(name=name)
    return found


def true_device(sheet: Device, seed: int) -> Device:
    """A true device, drawn about its data sheet."""
    rng = np.random.default_rng([seed, *map(ord, sheet.name)])

    def off(deviation: float) -> float:
        return float(np.exp(deviation * rng.normal()))

    def moved(part: Any, **deviations: float) -> dict[str, float]:
        return {name: getattr(part, name) * off(by) for name, by in deviations.items()}

    powers = dict.fromkeys(("power", "on_power", "idle_power"), POWERS)
    clusters = tuple(
        replace(cluster, **moved(cluster, speed=SPEEDS, dispatch=DISPATCHES, **powers))
        for cluster in sheet.clusters
    )
    whole = moved(sheet, base_power=POWERS, miss_energy=POWERS)
    return replace(sheet, clusters=clusters, run_noise=RUN_NOISE, task_noise=TASK_NOISE, **whole)


def study(folder: Path, seed: int = 0) -> Study:
    """The data of a seed."""
    truth, profiles = all_kinds(folder)
    devices = {name: shipped_device(name) for name in DEVICES}
    simulators = {
        name: Simulator(true_device(sheet, seed), truth) for name, sheet in devices.items()
    }
    graphs = all_graphs()
    runs = {
        name: draw_runs(simulators[name], graphs, CONTEXTS, np.random.default_rng([seed, i]))
        for i, name in enumerate(DEVICES)
    }
    return Study(devices, graphs, profiles, runs, simulators, truth)


def draw_runs(
    simulator: Simulator, graphs: dict[str, xr.Dataset], n: int, rng: np.random.Generator
) -> xr.Dataset:
    """One run of each graph in each of `n` random contexts, from random temperatures."""
    device = simulator.device
    contexts = device_contexts(device)
    parts = []
    for graph in graphs.values():
        own = contexts[rng.choice(len(contexts), n, replace=False)]
        start = rng.uniform(device.ambient, device.cap - 2.0, n)
        parts.append(label_runs(graph, simulator, own, temperature=start, rng=rng))
    return join_graph_runs(parts)
