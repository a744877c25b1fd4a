"""Runs of task graphs in a table, the splits of the study, and answers about held-out runs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from graphs_data import Study
from numpy.typing import NDArray

from msbgen.core.conformal import group_folds
from msbgen.systems.graphs.boards import Board
from msbgen.systems.graphs.devices import Device
from msbgen.systems.graphs.predictor.features import GraphShape, plain_features
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.runs import run_contexts

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PARTS = 8
HELD_CONTEXTS = 0.25
NEW_RUNS = 50
MISCOVERAGE = 0.05


@dataclass(frozen=True)
class Table:
    """All runs of a seed, for every method: logarithms (n, 2), features (n, d), names (n,)."""

    log: Floats
    plain: Floats
    graph: NDArray[np.str_]
    family: NDArray[np.str_]
    device: NDArray[np.str_]


def table_of(data: Study, predictor: GraphPredictor) -> Table:
    parts = []
    for name, runs in data.runs.items():
        board = Board(data.devices[name], predictor.kinds_)
        plain = np.empty((runs.sizes["run"], 0))
        for graph, own, rows, start in prepared_graphs(data, predictor, runs, data.devices[name]):
            found = plain_features(GraphShape(graph.graph, board), rows, start)
            if not plain.size:
                plain = np.empty((runs.sizes["run"], found.shape[1]))
            plain[own] = found
        parts.append(plain)
    whole = {
        name: np.concatenate([r[name].values for r in data.runs.values()])
        for name in ("graph", "family", "makespan", "energy")
    }
    device = np.repeat(list(data.runs), [r.sizes["run"] for r in data.runs.values()])
    log = np.log(np.stack([whole["makespan"], whole["energy"]], axis=1))
    names = (whole[name].astype(str) for name in ("graph", "family"))
    return Table(log, np.concatenate(parts), *names, device.astype(str))


def prepared_graphs(
    data: Study, predictor: GraphPredictor, runs: xr.Dataset, device: Device
) -> Iterator[tuple[Any, NDArray[np.int64], NDArray[np.int64], Floats]]:
    """Prepared graphs, with the numbers, rows and temperatures of their runs."""
    contexts = run_contexts(runs, device)
    start = runs["start_temperature"].values
    for name in np.unique(runs["graph"].values):
        own = np.flatnonzero(runs["graph"].values == name)
        question = predictor.prepare(data.graphs[str(name)], device)
        yield question, own, question.rows(contexts[own]), start[own]


def splits(table: Table, seed: int) -> dict[str, Flags]:
    """Held-out runs of each split, (n,) each; a device, then that without some of its runs."""
    rng = np.random.default_rng([7, seed])
    found = {"contexts": rng.random(len(table.log)) < HELD_CONTEXTS}
    part = group_folds(np.asarray(table.family), PARTS, rng, unit="families")
    for k in range(PARTS):
        found[f"families {k}"] = part == k
    for name in np.unique(table.device):
        found[f"platform {name}"] = held_out = table.device == name
        some = np.random.default_rng([8, seed]).permutation(np.flatnonzero(held_out))[:NEW_RUNS]
        found[f"after {name}"] = held_out & ~np.isin(np.arange(len(held_out)), some)
    return found


def shown_runs(data: Study, shown: Flags) -> list[xr.Dataset]:
    """Runs to learn from, of each device that has any."""
    found, first = [], 0
    for runs in data.runs.values():
        own = np.flatnonzero(shown[first : first + runs.sizes["run"]])
        first += runs.sizes["run"]
        if len(own):
            found.append(runs.isel(run=own))
    return found


def fitted(data: Study, shown: Flags, seed: int, **given: Any) -> GraphPredictor:
    predictor = GraphPredictor(random_state=seed, **given)
    sheets = list(data.devices.values())
    return predictor.fit(
        shown_runs(data, shown), devices=sheets, graphs=data.graphs, profiles=data.profiles
    )


def answers(
    data: Study, predictor: GraphPredictor, held_out: Flags, answer: Callable[..., Floats]
) -> Floats:
    """Predictions for the held-out runs, (n_held, ...).

    ``answer`` gives them, (m, ...), from a prepared graph, and rows and temperatures of some runs.
    """
    parts, first = [], 0
    for name, runs in data.runs.items():
        own = np.flatnonzero(held_out[first : first + runs.sizes["run"]])
        first += runs.sizes["run"]
        if len(own):
            some, device = runs.isel(run=own), data.devices[name]
            answered = [
                (at, answer(question, rows, start))
                for question, at, rows, start in prepared_graphs(data, predictor, some, device)
            ]
            order = np.argsort(np.concatenate([at for at, _ in answered]))
            parts.append(np.concatenate([found for _, found in answered])[order])
    return np.concatenate(parts)


def scheduled(question: Any, rows: NDArray[np.int64], start: Floats) -> Floats:
    """Logarithms by the schedule alone, (m, 2)."""
    return np.log(question.scheduled(rows, start)[:, :2])


def whole_table(data: Study, seed: int) -> Table:
    every = np.ones(sum(r.sizes["run"] for r in data.runs.values()), dtype=bool)
    return table_of(data, fitted(data, every, seed, residual=False))
