"""A graph on a device, prepared for predictions in many contexts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import NOT_NEGATIVE, SHARE, Stored, finite_predictions
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.graphs.boards import Arrays, Board, Indices, PreparedGraph
from msbgen.systems.graphs.devices import Device, start_temperatures
from msbgen.systems.graphs.predictor.factors import OTHERS, Factors, estimate
from msbgen.systems.graphs.predictor.features import (
    GraphShape,
    columns,
    plain_features,
    scheduled_features,
)
from msbgen.systems.graphs.predictor.intervals import GraphCalibration, check_families
from msbgen.systems.graphs.predictor.residual import Residual
from msbgen.systems.learn.parameters import Predictor

Floats = NDArray[np.float64]


class BaseGraphPredictor(Predictor):
    """Predictions of fitted predictors, by the graph that they prepare on a device."""

    def prepare(self, graph: xr.Dataset, device: Device) -> Any:
        """The graph on the device, for predictions in many contexts."""
        raise NotImplementedError

    def predict(
        self,
        graph: xr.Dataset,
        device: Device,
        contexts: ArrayLike,
        *,
        temperature: ArrayLike | None = None,
    ) -> Floats:
        """Time [s] and energy [J] of a graph in contexts, (m, 2).

        The graph is of ``msbgen-graph/1``, contexts (m, n_columns) have the columns
        ``device.columns``, and `temperature`, () or (m,), is that at the start [°C], by default
        ambient.  A device without runs is predicted by its sheet.

        Raises
        ------
        ArgumentError, ProfileError
            As of `prepare`; a row that is no context of the device.
        MeasurementError
            A prediction that is not finite.
        """
        prepared = self.prepare(graph, device)
        return prepared.predict(prepared.rows(contexts), temperature)

    def predict_interval(
        self,
        graph: xr.Dataset,
        device: Device,
        contexts: ArrayLike,
        miscoverage: float = 0.05,
        *,
        temperature: ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Lower and upper ends of intervals of time [s] and energy [J], (m, 2) each.

        Those of GraphPredictor cover a run of a graph of a new family with a probability of about
        1 − `miscoverage`, on average over families.  Those of NetworkPredictor are Student-t
        intervals, widened to cover held-back runs.  Of runs of new families they cover 93 %, of
        energies on a new device 33 %, where 95 % is nominal.

        Raises
        ------
        ArgumentError, ProfileError
            As :meth:`predict`; not calibrated; of a network, another rate than it was trained for.
        MeasurementError
            A device without runs; a rate that needs more families; an end that is not finite.
        """
        prepared = self.prepare(graph, device)
        return prepared.interval(prepared.rows(contexts), miscoverage, temperature)[1:]

    def extrapolated(
        self, graph: xr.Dataset, device: Device, contexts: ArrayLike
    ) -> NDArray[np.bool_]:
        """Whether tasks may run outside the levels of their profiles, (m,)."""
        prepared = self.prepare(graph, device)
        return prepared.outside(prepared.rows(contexts))


def finite_interval(middle: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Predictions and the ends of their intervals, checked to be finite."""
    finite_predictions(middle, "time or energy")
    return middle, low, finite_predictions(high, "the upper end of time or energy")


@dataclass(frozen=True, eq=False)
class FittedDevice:
    """A device and what was fitted to its runs.

    `residual_share` is the share of the residual that is added on this device.  `scores`, (n, 2),
    are conformal scores of its runs; none where the device was fitted together with others.
    """

    board: Board
    factors: Factors
    residual_share: Annotated[float, Stored((), SHARE)]
    scores: Annotated[Floats, Stored(("run", 2), NOT_NEGATIVE)]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored device."""
        wanted = len(self.board.device.clusters) + len(OTHERS)
        if len(self.factors.values) != wanted:
            yield "factors.values", f"of {len(self.factors.values)}", str(wanted)

    @cached_property
    def arrays(self) -> Arrays:
        """The device's arrays, with the factors."""
        return self.factors.applied(self.board)


@dataclass(frozen=True, eq=False)
class GraphOnDevice:
    """A graph on a device, for predictions in many contexts.

    Ranked tasks start by their ranks (HEFT).  There is one residual, or none; one calibration once
    calibrated, none before.  `has_runs`: the predictor was fitted to runs of the device.
    """

    graph: PreparedGraph
    fitted: FittedDevice
    ranked: bool
    residual: Sequence[Residual]
    calibration: Sequence[GraphCalibration]
    has_runs: bool

    def rows(self, contexts: ArrayLike) -> Indices:
        """Contexts as indices of levels, checked."""
        return self.fitted.board.rows(contexts)

    def outside(self, rows: Indices) -> NDArray[np.bool_]:
        """Whether tasks may run outside the levels of their profiles, (m,)."""
        return self.fitted.board.outside(self.graph, rows)

    def scheduled(self, rows: Indices, temperature: ArrayLike | None = None) -> Floats:
        """Estimates of the schedule alone, (m, 5); see :func:`.factors.estimate`."""
        start = self._start(rows, temperature)
        return estimate(self.graph, self.fitted.arrays, rows, start, ranked=self.ranked)

    def predict(
        self, rows: Indices, temperature: ArrayLike | None = None, planned: Floats | None = None
    ) -> Floats:
        """Time [s] and energy [J], (m, 2); `planned` is the result of :meth:`scheduled`."""
        schedule = self.scheduled(rows, temperature) if planned is None else planned
        if not any(residual.weight.any() for residual in self.residual):
            return finite_predictions(schedule[:, :2], "time or energy")
        predicted = self._corrected(schedule, self._features(rows, temperature, schedule))
        return finite_predictions(predicted, "time or energy")

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
        schedule = self.scheduled(rows, temperature) if planned is None else planned
        features = self._features(rows, temperature, schedule)
        middle = self._corrected(schedule, features)
        half = self.calibration[0].half_width(features, miscoverage, self.fitted.scores)
        with np.errstate(over="ignore", invalid="ignore"):  # of an edited model: refused below
            low, high = middle / np.exp(half), middle * np.exp(half)
        return finite_interval(middle, low, high)

    def _corrected(self, schedule: Floats, features: Floats) -> Floats:
        share = self.fitted.residual_share
        return schedule[:, :2] * np.exp(share * correction(self.residual, features))

    def _start(self, rows: Indices, temperature: ArrayLike | None) -> Floats:
        return start_temperatures(self.fitted.board.device, temperature, len(rows))

    def _features(self, rows: Indices, temperature: ArrayLike | None, schedule: Floats) -> Floats:
        estimates = np.column_stack([np.log(schedule[:, :2]), schedule[:, 2:]])
        plain = plain_features(self._shape, rows, self._start(rows, temperature))
        return scheduled_features(plain, columns(self.fitted.board.kinds), estimates)

    @cached_property
    def _shape(self) -> GraphShape:
        return GraphShape(self.graph, self.fitted.board)


def correction(residual: Sequence[Residual], features: Floats) -> Floats:
    """Residual of the logarithms, (m, 2); zero without one."""
    return residual[0](features) if residual else np.zeros((len(features), 2))


def check_interval(
    name: str,
    miscoverage: float,
    residual: Sequence[Residual],
    calibration: Sequence[GraphCalibration],
    *,
    has_runs: bool,
) -> None:
    """Check that intervals exist for the device of this name and for the rate.

    :class:`ArgumentError`: without a residual; not calibrated; not a rate.
    :class:`MeasurementError`: a device without runs; a rate that needs more families.
    """
    if not has_runs:
        raise MeasurementError(
            f"no run is of the device '{name}', and the error of its sheet is unknown; fifty runs "
            f"are wanted for an interval (adapt, or fit with them)."
        )
    if not residual:
        raise ArgumentError(
            "the model is a schedule alone, fitted without held-out families, and has no "
            "intervals; fit one with the residual (without --schedule-only)."
        )
    if not calibration:
        raise ArgumentError("the predictor is not calibrated; call calibrate first.")
    check_families(miscoverage, calibration[0].family)
