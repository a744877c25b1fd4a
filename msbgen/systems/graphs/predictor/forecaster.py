"""Forecasts of time, energy and temperature of graphs on one device, by a fitted predictor.

The temperature at the end is the schedule's, corrected for the difference between the predicted
power and the schedule's.  Its bound adds the excess of the energy's bound, all of it as heat.  The
peak is above the end by as much as in the schedule.
"""

from __future__ import annotations

from operator import is_not

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.systems.graphs.dataset import kinds_of
from msbgen.systems.graphs.devices import Device
from msbgen.systems.graphs.forecast import Forecast
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.predictor.prepared import GraphOnDevice

Floats = NDArray[np.float64]


class GraphForecaster:
    """Forecasts of graphs on a device; a graph is prepared once while it does not change.

    The predictor is fitted, and calibrated where bounds are wanted.  `miscoverage` is the share of
    runs outside the intervals.  With None, bounds are the predictions themselves, and forecasts
    take half the time.  If the predictor has no intervals of that rate for the device,
    :class:`ArgumentError` or :class:`MeasurementError` is raised.
    """

    def __init__(self, predictor: GraphPredictor, device: Device, miscoverage: float | None = 0.05):
        if miscoverage is not None:
            predictor.check_interval(device, miscoverage)
        self.predictor, self.device, self.miscoverage = predictor, device, miscoverage
        # keyed by content, so that a graph that is changed in place is prepared again
        self._prepared: dict[tuple[object, ...], GraphOnDevice] = {}
        self._fitted: tuple[object, ...] = ()
        self._rows: tuple[Floats, NDArray[np.int64]] | None = None

    def forecast(self, graph: xr.Dataset, contexts: ArrayLike, temperature: ArrayLike) -> Forecast:
        """Forecast of a graph in contexts; see :class:`msbgen.graphs.forecast.Forecaster`."""
        prepared = self._prepare(graph)
        table = np.asarray(contexts, dtype=float)
        if self._rows is None or not np.array_equal(self._rows[0], table):
            self._rows = table.copy(), prepared.rows(table)
        rows = self._rows[1]
        planned = prepared.scheduled(rows, temperature)
        end, peak = planned[:, 2], planned[:, 4]
        if self.miscoverage is None:
            middle = upper = prepared.predict(rows, temperature, planned)
        else:
            middle, _, upper = prepared.interval(rows, self.miscoverage, temperature, planned)
        time, energy = middle.T
        # kelvins at the end for one watt more during the run
        kelvins = self.device.resistance * -np.expm1(-time / self.device.time_constant)
        last = end + kelvins * (energy / time - planned[:, 1] / planned[:, 0])
        bound = last + kelvins * (upper[:, 1] - energy) / time
        return Forecast(time, energy, last, upper[:, 0], upper[:, 1], bound, bound + (peak - end))

    def _prepare(self, graph: xr.Dataset) -> GraphOnDevice:
        """The prepared graph, from the cache unless the graph or the predictor changed."""
        predictor = self.predictor
        device = predictor.devices_.get(self.device.name)
        fitted = device, predictor.residual_, predictor.calibration_
        if len(self._fitted) != len(fitted) or any(map(is_not, self._fitted, fitted)):
            self._prepared, self._fitted = {}, fitted
        arrays = (graph.variables[name].values.tobytes() for name in ("work", "source", "target"))
        content = (*kinds_of(graph), *arrays)
        if content not in self._prepared:
            self._prepared[content] = predictor.prepare(graph, self.device)
        return self._prepared[content]
