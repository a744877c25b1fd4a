"""The network of the GraphPerf-RT paper as a predictor of graphs, trained on measured runs.

Prefer :class:`~msbgen.systems.graphs.predictor.predictor.GraphPredictor`: on families of graphs
that were held out its error of log time is .04, that of the network .24 after 20 s of training and
.15 after nine times as much (``benchmarks/README.md``, *Task graphs*).  This class is for
comparison.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import finite_predictions
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.records import Seed, Share, Within, checks_arguments
from msbgen.data.store import load_netcdf
from msbgen.systems.graphs.boards import Board, Indices
from msbgen.systems.graphs.devices import Device, start_temperatures
from msbgen.systems.graphs.kinds import Kind, read_kinds
from msbgen.systems.graphs.predictor.checked_runs import arrays_of_runs, devices_of_runs
from msbgen.systems.graphs.predictor.encoder import GraphEncoder
from msbgen.systems.graphs.predictor.network import Batch, NetworkSettings
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.predictor.prepared import BaseGraphPredictor, finite_interval
from msbgen.systems.graphs.predictor.training import NetworkTraining, TrainedNetwork, fit_network

Floats = NDArray[np.float64]

# One run in so many chooses the epoch and widens the intervals, and is not trained on.
_HELD_BACK = 6


class NetworkPredictor(BaseGraphPredictor):
    """Predicts time and energy of graphs with the network of the GraphPerf-RT paper.

    ``fit → predict, predict_interval``, with the arguments of
    :class:`~msbgen.systems.graphs.predictor.predictor.GraphPredictor`.  Needs the extra
    ``[graph]``.

    Parameters
    ----------
    runs : int
        Most runs that are trained on; more are drawn at random.  400 take about a minute.
    miscoverage : float
        Share of runs outside the intervals; the only rate that :meth:`predict_interval` has.

    Attributes
    ----------
    devices_ : dict of str to Device
    """

    schema = "msbgen-graph-network/2"
    of = "networks of graphs"

    kinds_: tuple[Kind, ...]
    devices_: dict[str, Device]
    network_: TrainedNetwork

    @checks_arguments
    def __init__(
        self,
        *,
        network: NetworkSettings | None = None,
        training: NetworkTraining | None = None,
        runs: Annotated[int, Within(2)] = 400,
        miscoverage: Share = 0.05,
        random_state: Seed = 0,
    ) -> None:
        self.network = network
        self.training = training
        self.runs = runs
        self.miscoverage = miscoverage
        self.random_state = random_state

    def fit(
        self,
        runs: Sequence[xr.Dataset],
        *,
        devices: Sequence[Device],
        graphs: Mapping[str, xr.Dataset],
        profiles: Mapping[str, xr.Dataset],
        progress: OnProgress | None = None,
    ) -> Self:
        """Train on runs of graphs on devices; arguments as of :meth:`.GraphPredictor.fit`.

        Raises
        ------
        ArgumentError
            Parameters out of range; no runs; the extra ``[graph]`` is not installed.
        ProfileError
            Datasets that break their schemas; a graph or a sheet that is missing.
        MeasurementError
            Fewer than two runs.
        """
        sheets = devices_of_runs(runs, devices)
        self.kinds_ = read_kinds(profiles)
        encoded: list[tuple[GraphEncoder, Indices, float]] = []
        log = []
        for dataset, device in zip(runs, sheets):
            board = Board(device, self.kinds_)
            names, (number, rows, start, outputs) = arrays_of_runs(
                dataset, board, graphs, "arrival"
            )
            encoders = [GraphEncoder(graphs[name], board) for name in names]
            encoded += [(encoders[g], row, float(t)) for g, row, t in zip(number, rows, start)]
            log.append(outputs)
        if len(encoded) < 2:
            raise MeasurementError("there is one run; two or more are wanted to train a network.")
        outputs = np.concatenate(log)
        some = np.random.default_rng([10, self.random_state]).permutation(len(encoded))[: self.runs]
        batches = [encoder.batch(row, t) for encoder, row, t in (encoded[i] for i in some)]
        self.network_ = fit_network(
            batches, outputs[some], np.arange(len(some)) % _HELD_BACK == 0, settings=self.network,
            training=self.training, miscoverage=self.miscoverage, seed=self.random_state,
            progress=progress,
        )  # fmt: skip
        self.devices_ = {device.name: device for device in sheets}
        return self

    def prepare(self, graph: xr.Dataset, device: Device) -> GraphOnNetwork:
        """The graph on the device, for predictions in many contexts.

        Raises
        ------
        ArgumentError
            Not fitted.
        ProfileError
            A kind of tasks without profile.
        """
        self.check_fitted()
        return GraphOnNetwork(GraphEncoder(graph, Board(device, self.kinds_)), self.network_)

    def check_interval(self, device: Device, miscoverage: float) -> None:
        """Raise the errors of :meth:`predict_interval` for the device and the rate."""
        self.check_fitted()
        _check_rate(self.network_, miscoverage)


def load_predictor(path: str | os.PathLike[str]) -> GraphPredictor | NetworkPredictor:
    """Read a model of either kind, by the schema that the file names; ProfileError for others."""
    schema = load_netcdf(path).attrs.get("schema")
    return (NetworkPredictor if schema == NetworkPredictor.schema else GraphPredictor).load(path)


@dataclass(frozen=True, eq=False)
class GraphOnNetwork:
    """A graph on a device, for predictions of the network in many contexts."""

    encoder: GraphEncoder
    network: TrainedNetwork

    def rows(self, contexts: ArrayLike) -> Indices:
        """Contexts as indices of levels, checked."""
        return self.encoder.board.rows(contexts)

    def outside(self, rows: Indices) -> NDArray[np.bool_]:
        """Whether tasks may run outside the levels of their profiles, (m,)."""
        return self.encoder.board.outside(self.encoder.graph, rows)

    def predict(self, rows: Indices, temperature: ArrayLike | None = None) -> Floats:
        """Time [s] and energy [J], (m, 2)."""
        with np.errstate(over="ignore"):  # what is infinite is refused
            predicted = np.exp(self.network.predict(self._batches(rows, temperature)).gamma)
        return finite_predictions(predicted, "time or energy")

    def interval(
        self, rows: Indices, miscoverage: float = 0.05, temperature: ArrayLike | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Prediction, lower and upper end of time [s] and energy [J], (m, 2) each."""
        _check_rate(self.network, miscoverage)
        batches = self._batches(rows, temperature)
        low, high = self.network.interval(batches)
        with np.errstate(over="ignore"):
            middle = np.exp(self.network.predict(batches).gamma)
            return finite_interval(middle, np.exp(low), np.exp(high))

    def _batches(self, rows: Indices, temperature: ArrayLike | None) -> list[Batch]:
        starts = start_temperatures(self.encoder.board.device, temperature, len(rows))
        return [self.encoder.batch(row, float(t)) for row, t in zip(rows, starts)]


def _check_rate(network: TrainedNetwork, miscoverage: float) -> None:
    if miscoverage != network.rate:
        raise ArgumentError(
            f"miscoverage is {miscoverage:g}; {network.rate:g} is wanted, the rate for which the "
            f"network's intervals were widened (NetworkPredictor(miscoverage=...))."
        )
