"""Originals and checks of :mod:`mutate` for task graphs, device sheets and tables of runs."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr
from mutate_machines import DoubtError

import msbgen
from msbgen.graphs import simulator as simulators
from msbgen.graphs.dataset import describe as describe_graph

GRAPHS = ("graph.nc", "graph.json", "graph.dot", "graph.csv", "workflow.json")
RUNS = ("graph-runs.nc", "graph-runs.csv")
SHEET = "sheet.toml"


def make_originals(folder: Path) -> None:
    """Write a graph as each sort of file, a workflow, a sheet, and runs on it."""
    drawn = msbgen.graphs.family_graph("genome", 3)
    n = drawn.sizes["task"]
    edges = np.stack([drawn["source"].values, drawn["target"].values], axis=1)
    graph = msbgen.graphs.make(
        ["work"] * n, drawn["work"].values, edges, names=drawn["task"].values.tolist(),
        types=drawn["type"].values.tolist(), time=drawn["work"].values, loops=np.ones(n),
        edge_bytes=np.arange(len(edges)), name="genome", family="genome",
    )  # fmt: skip
    for name in GRAPHS[:3]:
        msbgen.graphs.write(graph, folder / name)
    (folder / "graph.csv").write_text(
        "task,parents,kind,time [s]\na,,work,0.1\nb,a,work,0.3\nc,a b,work,0.2\n"
    )
    (folder / "workflow.json").write_text(json.dumps(workflow()))
    shutil.copy(msbgen.shipped_file("devices/tx2.toml"), folder / SHEET)
    runs = simulators.label_runs(graph, simulator(), device().largest, runs=4)
    for name in RUNS:
        msbgen.graphs.write_runs(runs, folder / name)


def workflow() -> dict[str, object]:
    """Four tasks in WfFormat 1.5."""
    waits = {"s": [], "a": ["s"], "b": ["s"], "j": ["a", "b"]}
    tasks = [
        {
            "name": name, "id": name, "parents": parents, "inputFiles": parents,
            "children": [other for other, of in waits.items() if name in of],
            "outputFiles": [name],
        }
        for name, parents in waits.items()
    ]  # fmt: skip
    ran = [
        {"id": name, "runtimeInSeconds": 0.5 + k, "command": {"program": "/bin/work"}}
        for k, name in enumerate(waits)
    ]
    files = [{"id": name, "sizeInBytes": 10} for name in waits]
    both = {"specification": {"tasks": tasks, "files": files}, "execution": {"tasks": ran}}
    return {"name": "small", "schemaVersion": "1.5", "workflow": both}


@cache
def device() -> msbgen.graphs.Device:
    return msbgen.graphs.shipped_device("tx2")


@cache
def table() -> xr.Dataset:
    """Phase table of a task that computes, then misses."""
    ways, flow, clock = [1.0, 4.0, 16.0], [100.0, 500.0, 5000.0], [0.2, 1.0, 2.5]
    w, b, f = np.meshgrid(ways, flow, clock, indexing="ij")
    pace = np.stack([0.5 / f + 0 * w, 0.3 / f + 0.5 / w + 20 / b])
    dims = ("phase", "cache_ways", "bandwidth", "frequency")
    units = {"cache_ways": "1", "bandwidth": "MB s-1", "frequency": "GHz"}
    coords = {
        name: (name, np.array(levels), {"units": units[name], "role": "resource"})
        for name, levels in zip(dims[1:], (ways, flow, clock))
    }
    return xr.Dataset(
        {"speed": (dims, 1 / pace), "cache_misses": (dims, 1e6 / pace)},
        {**coords, "end": ("phase", [0.4, 1.0])},
        {"schema": "msbgen-phases/1", "work": 1.0, "progress": "time"},
    )


@cache
def simulator() -> simulators.Simulator:
    return simulators.Simulator(device(), {"work": table()})


def play(path: Path) -> None:
    """Read a graph, describe it, simulate it, write it and read it back."""
    graph = msbgen.graphs.read(path)
    describe_graph(graph)
    back = path.with_name("back.dot")
    msbgen.graphs.write(graph, back, overwrite=True)
    if not msbgen.graphs.read(back).drop_attrs().equals(graph.drop_attrs()):
        raise DoubtError("what was written is not what is read back")
    _doubt(simulator().run(graph, device().largest))


def try_sheet(path: Path) -> None:
    """Read a data sheet and simulate a graph with all its cores, and with its slowest."""
    sheet = msbgen.graphs.read_device(path)
    own = simulators.Simulator(sheet, {"work": table()})
    graph = msbgen.graphs.make(["work"] * 3, [0.1, 0.2, 0.1], [(0, 1), (0, 2)])
    for context in (sheet.largest, msbgen.graphs.device_contexts(sheet, clocks=2)[0]):
        _doubt(own.run(graph, context))


def read_runs(path: Path) -> None:
    """Read runs of the device."""
    runs = msbgen.graphs.read_runs(path, device())
    if not ((runs["makespan"] > 0) & (runs["energy"] > 0)).all():
        raise DoubtError("a makespan or an energy is not positive")


def _doubt(outcome: simulators.SimulatedRuns) -> None:
    for name in ("makespan", "energy", "peak", "last", "throttled"):
        values = getattr(outcome, name)
        if not np.isfinite(values).all() or (name in ("makespan", "energy") and values.min() <= 0):
            raise DoubtError(f"{name} is {values.ravel()[0]}")
