"""A graph on a device, ready to be asked: what a fitted predictor says of many contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.graphs.boards import Arrays, Board, Indices, PreparedGraph
from msbgen.graphs.predictor.factors import Factors, estimate
from msbgen.graphs.predictor.features import Shape, columns, plain_features, scheduled_features
from msbgen.graphs.predictor.intervals import GraphCalibration, check_families
from msbgen.graphs.predictor.residual import Residual

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FittedDevice:
    """A device that runs were seen of.

    Attributes
    ----------
    board : Board
    factors : Factors
    trust : float
        Share of the residual that counts on it.
    scores : ndarray, (n, 2)
        Of runs of it, in units of the widths of intervals; none where it was fitted with others.
    """

    board: Board
    factors: Factors
    trust: float
    scores: Floats

    @cached_property
    def arrays(self) -> Arrays:
        """The board's arrays, with its factors."""
        return self.factors.applied(self.board)


@dataclass(frozen=True, eq=False)
class GraphOnDevice:
    """A graph on a device, ready to be asked about many contexts.

    Attributes
    ----------
    graph : PreparedGraph
    fitted : FittedDevice
        What is known of the device.
    name : str
        Of the graph.
    ranked : bool
        Whether tasks start by what hangs on them.
    residual : sequence of Residual
        One, or none without.
    calibration : sequence of GraphCalibration
        One once calibrated, none before.
    has_runs : bool
        Whether any run is of the device.
    """

    graph: PreparedGraph
    fitted: FittedDevice
    name: str
    ranked: bool
    residual: Sequence[Residual]
    calibration: Sequence[GraphCalibration]
    has_runs: bool

    def rows(self, contexts: ArrayLike) -> Indices:
        """Contexts as the schedule takes them: numbers of levels, checked."""
        return self.fitted.board.rows(contexts)

    def scheduled(self, rows: Indices, temperature: ArrayLike | None = None) -> Floats:
        """What the schedule alone says, (m, 5); see :func:`.factors.estimate`."""
        start = self._start(rows, temperature)
        return estimate(self.graph, self.fitted.arrays, rows, start, ranked=self.ranked)

    def predict(
        self, rows: Indices, temperature: ArrayLike | None = None, planned: Floats | None = None
    ) -> Floats:
        """Time [s] and energy [J], (m, 2); `planned` is what is :meth:`scheduled`, where known."""
        said = self.scheduled(rows, temperature) if planned is None else planned
        if not any(residual.weight.any() for residual in self.residual):
            return said[:, :2]
        features = self._features(rows, temperature, said)
        return said[:, :2] * np.exp(self.fitted.trust * correction(self.residual, features))

    def interval(
        self,
        rows: Indices,
        miscoverage: float = 0.05,
        temperature: ArrayLike | None = None,
        planned: Floats | None = None,
    ) -> tuple[Floats, Floats, Floats]:
        """Prediction, lower and upper end of time [s] and energy [J], (m, 2) each."""
        name = self.fitted.board.device.name
        check_interval(name, miscoverage, self.residual, self.calibration, has_runs=self.has_runs)
        said = self.scheduled(rows, temperature) if planned is None else planned
        features = self._features(rows, temperature, said)
        middle = said[:, :2] * np.exp(self.fitted.trust * correction(self.residual, features))
        known = self.fitted.scores
        spread = np.exp(self.calibration[0].half_width(features, miscoverage, known))
        return middle, middle / spread, middle * spread

    def _start(self, rows: Indices, temperature: ArrayLike | None) -> Floats:
        start = self.fitted.board.device.ambient if temperature is None else temperature
        return np.full(len(rows), start, dtype=float)

    def _features(self, rows: Indices, temperature: ArrayLike | None, said: Floats) -> Floats:
        said = np.column_stack([np.log(said[:, :2]), said[:, 2:]])
        plain = plain_features(self._shape, rows, self._start(rows, temperature))
        return scheduled_features(plain, columns(self.fitted.board.kinds), said)

    @cached_property
    def _shape(self) -> Shape:
        return Shape(self.graph, self.fitted.board)


def correction(residual: Sequence[Residual], features: Floats) -> Floats:
    """What a residual, if there is one, adds to the logarithms, (m, 2)."""
    return residual[0](features) if residual else np.zeros((len(features), 2))


def check_interval(
    name: str,
    miscoverage: float,
    residual: Sequence[Residual],
    calibration: Sequence[GraphCalibration],
    *,
    has_runs: bool,
) -> None:
    """Refuse intervals that a device of this name, or such a rate, cannot have.

    Raises
    ------
    ArgumentError
        Without a residual; not calibrated; no rate.
    MeasurementError
        A device without runs; a rate that needs more families.
    """
    if not has_runs:
        raise MeasurementError(
            f"no run is of the device '{name}', so that nobody knows how far its sheet is off; "
            f"fifty runs are wanted for an interval (adapt, or fit with them)."
        )
    if not residual:
        raise ArgumentError(
            "the model is a schedule alone, which left no family out to learn intervals from; fit "
            "one with the residual (without --schedule-only)."
        )
    if not calibration:
        raise ArgumentError("the predictor is not calibrated; call calibrate first.")
    check_families(miscoverage, calibration[0].family)
