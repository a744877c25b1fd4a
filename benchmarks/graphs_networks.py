"""Networks in the study of task graphs: the paper's, its peers, and the paper's without parts.

All learn from the same runs for as many epochs (:data:`graphs_peers.BUDGET`) on one core. They are
scored on a split of contexts, an eighth of the families and a platform of each draw.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import graphs_peers as peers
import numpy as np
import torch
from graphs_data import Study
from graphs_splits import MISCOVERAGE, PARTS, Table, answers, fitted, scheduled, splits, whole_table
from numpy.typing import NDArray

from msbgen.systems.graphs.boards import Board
from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.predictor.encoder import GraphEncoder
from msbgen.systems.graphs.predictor.network import Batch, NetworkSettings
from msbgen.systems.graphs.predictor.training import NetworkTraining, TrainedNetwork, fit_network

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# One run in so many chooses the best epoch and the widening, and is not learned from.
SCORED = 6


class Scenes:
    """Runs as networks see them, by their numbers in the table."""

    def __init__(self, data: Study):
        self.data, kinds = data, read_kinds(data.profiles)
        self.boards = {name: Board(sheet, kinds) for name, sheet in data.devices.items()}
        self.where = [(n, i) for n, r in data.runs.items() for i in range(r.sizes["run"])]
        self.scenes: dict[tuple[str, str], GraphEncoder] = {}

    def __call__(self, rows: Indices, *, telemetry: bool = True) -> list[Batch]:
        found = []
        for name, i in (self.where[row] for row in rows):
            runs, board = self.data.runs[name], self.boards[name]
            key = name, str(runs["graph"].values[i])
            if key not in self.scenes:
                self.scenes[key] = GraphEncoder(self.data.graphs[key[1]], board)
            context = [runs[column].values[i] for column in board.device.columns]
            start = float(runs["start_temperature"].values[i])
            row = board.rows([context])[0]
            found.append(self.scenes[key].batch(row, start, telemetry=telemetry))
        return found


class Trial:
    """A split: the runs that networks learn from, and the held-out ones."""

    def __init__(
        self,
        scenes: Scenes,
        table: Table,
        seed: int,
        name: str,
        budget: peers.Budget = peers.BUDGET,
    ):
        self.scenes, self.table, self.seed, self.name = scenes, table, seed, name
        self.budget, self.held_out = budget, splits(table, seed)[name]
        shown = np.random.default_rng([10, seed]).permutation(np.flatnonzero(~self.held_out))
        self.own = shown[: budget.runs]
        self.scored = np.arange(len(self.own)) % SCORED == 0
        self.stages = NetworkTraining(epochs=budget.epochs, evidential_epochs=budget.evidential)
        self.squares = NetworkTraining(
            epochs=budget.epochs + budget.evidential, evidential_epochs=0
        )

    @cached_property
    def shown(self) -> list[Batch]:
        """Runs to learn from."""
        return self.scenes(self.own)

    @cached_property
    def left(self) -> list[Batch]:
        """Held-out runs."""
        return self.scenes(np.flatnonzero(self.held_out))

    @cached_property
    def base(self) -> Floats:
        """Predictions of the fitted schedule for all runs, (n, 2)."""
        data = self.scenes.data
        plain = fitted(data, ~self.held_out, self.seed, residual=False)
        return answers(data, plain, np.ones(len(self.held_out), dtype=bool), scheduled)

    def train(
        self, target: Floats, inputs: Sequence[Batch] | None = None, **given: Any
    ) -> TrainedNetwork:
        """A network that learned a target of the shown runs."""
        given = {"training": self.stages, "seed": self.seed, **given}
        shown = self.shown if inputs is None else inputs
        return fit_network(shown, target[self.own], self.scored, miscoverage=MISCOVERAGE, **given)

    def predictions(self) -> dict[str, NDArray]:
        """Logarithms of time and energy of held-out runs, by method."""
        log, left = self.table.log, self.left
        ours, found = self.train(log), {}
        found["network"] = ours.predict(left).gamma
        found["network low"], found["network high"] = ours.interval(left)
        on_top = self.train(log - self.base)
        found["network on schedule"] = self.base[self.held_out] + on_top.predict(left).gamma
        plain_edges = NetworkSettings(typed_edges=False)
        convolved = {"training": self.squares, "layer": peers.convolve, "settings": plain_edges}
        found["GCN"] = self.train(log, **convolved).predict(left).gamma
        first = self.transformer(self.seed)
        draws = [first.predict_dropped(left, k) for k in range(self.budget.draws)]
        found["HGT"] = first.predict(left).gamma
        found["HGT, MC dropout"] = np.mean(draws, axis=0)
        return self._named(found)

    def transformer(self, seed: int) -> TrainedNetwork:
        """A heterogeneous graph transformer."""
        given = {"layer": peers.transform, "start": peers.transformer_start}
        return self.train(self.table.log, training=self.squares, seed=seed, **given)

    def ensemble(self) -> Floats:
        """The mean of several transformers on held-out runs, (n_held, 2)."""
        seeds = range(self.seed, self.seed + self.budget.members)
        return np.mean([self.transformer(k).predict(self.left).gamma for k in seeds], axis=0)

    def ablated(self) -> dict[str, NDArray]:
        """Predictions of the network without parts of it."""
        log, left, found = self.table.log, self.left, {}
        variants: dict[str, dict[str, Any]] = {
            "edges of one type": {"settings": NetworkSettings(typed_edges=False)},
            "without memories": {"settings": NetworkSettings(memories=False)},
            "squared errors alone": {"training": self.squares},
        }
        for variant, given in variants.items():
            found[variant] = self.train(log, **given).predict(left).gamma
        blind = self.train(log, self.scenes(self.own, telemetry=False))
        unseen = self.scenes(np.flatnonzero(self.held_out), telemetry=False)
        found["without telemetry"] = blind.predict(unseen).gamma
        return self._named(found)

    def _named(self, found: dict[str, NDArray]) -> dict[str, NDArray]:
        return {f"{self.name}|{method}": predictions for method, predictions in found.items()}


def eighth(seed: int) -> str:
    """The split of families for the networks of a draw."""
    return f"families {seed % PARTS}"


def compared(data: Study, seed: int) -> dict[str, NDArray]:
    """Predictions of networks for held-out runs in three splits."""
    torch.set_num_threads(1)
    table, scenes = whole_table(data, seed), Scenes(data)
    device = list(data.devices)[seed % len(data.devices)]
    found = {}
    for name in (eighth(seed), "contexts", f"platform {device}"):
        found |= Trial(scenes, table, seed, name).predictions()
        print(f"seed {seed}: networks, {name}", flush=True)
    return found


def once(data: Study, seed: int, budget: peers.Budget = peers.BUDGET) -> Trial:
    """The trial on an eighth of the families, for what is tried on one draw only."""
    torch.set_num_threads(1)
    return Trial(Scenes(data), whole_table(data, seed), seed, eighth(seed), budget)


def ablated(data: Study, seed: int) -> dict[str, NDArray]:
    """The network without parts of it."""
    return once(data, seed).ablated()


def together(data: Study, seed: int) -> dict[str, NDArray]:
    """Several transformers together."""
    trial = once(data, seed)
    return {f"{trial.name}|{peers.ENSEMBLE}": trial.ensemble()}


def longer(data: Study, seed: int) -> dict[str, NDArray]:
    """The network with more training."""
    trial = once(data, seed, peers.LONGER)
    predictions = trial.train(trial.table.log).predict(trial.left).gamma
    return {f"{trial.name}|{peers.TRAINED_LONGER}": predictions}
