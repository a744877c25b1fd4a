"""A fitted predictor as who chooses contexts takes it: what is thought of a graph on one device.

The temperature at the end is that of the schedule, moved by what the power predicted differs from
the schedule's; at most, by what the energy may be above what is expected, all of it as heat.  On
its way there it is above its end by as much as in the schedule.
"""

from __future__ import annotations

from operator import is_not

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.graphs.dataset import kinds_of
from msbgen.graphs.devices import Device
from msbgen.graphs.forecast import Forecast
from msbgen.graphs.predictor.predictor import GraphPredictor
from msbgen.graphs.predictor.prepared import GraphOnDevice

Floats = NDArray[np.float64]


class GraphForecaster:
    """Forecasts of graphs on a device, each prepared once, as long as it and the predictor stay.

    Parameters
    ----------
    predictor : GraphPredictor
        Fitted, and calibrated where bounds are wanted.
    device : Device
    miscoverage : float or None
        Share of runs outside the intervals; None for no bounds but what is expected, in half the
        time.

    Raises
    ------
    ArgumentError, MeasurementError
        Bounds that the predictor does not have.
    """

    def __init__(self, predictor: GraphPredictor, device: Device, miscoverage: float | None = 0.05):
        if miscoverage is not None:
            predictor.check_interval(device, miscoverage)
        self.predictor, self.device, self.miscoverage = predictor, device, miscoverage
        # by what graphs hold, so that one that is changed in place is prepared anew
        self._asked: dict[tuple[object, ...], GraphOnDevice] = {}
        self._learned: tuple[object, ...] = ()
        self._rows: tuple[Floats, NDArray[np.int64]] | None = None

    def forecast(self, graph: xr.Dataset, contexts: ArrayLike, temperature: ArrayLike) -> Forecast:
        """What is thought of a graph; see :class:`msbgen.graphs.forecast.Forecaster`."""
        question = self._question(graph)
        table = np.asarray(contexts, dtype=float)
        if self._rows is None or not np.array_equal(self._rows[0], table):
            self._rows = table.copy(), question.rows(table)
        rows = self._rows[1]
        planned = question.scheduled(rows, temperature)
        ended, peak = planned[:, 2], planned[:, 4]
        if self.miscoverage is None:
            middle = upper = question.predict(rows, temperature, planned)
        else:
            middle, _, upper = question.interval(rows, self.miscoverage, temperature, planned)
        time, energy = middle.T
        # kelvins that a watt more, from start to end, comes to
        warms = self.device.resistance * -np.expm1(-time / self.device.time_constant)
        last = ended + warms * (energy / time - planned[:, 1] / planned[:, 0])
        most = last + warms * (upper[:, 1] - energy) / time
        return Forecast(time, energy, last, upper[:, 0], upper[:, 1], most, most + (peak - ended))

    def _question(self, graph: xr.Dataset) -> GraphOnDevice:
        """What was prepared of the graph, if neither it nor the predictor was changed since."""
        predictor = self.predictor
        known = predictor.devices_.get(self.device.name)
        learned = known, predictor.residual_, predictor.calibration_
        if len(self._learned) != len(learned) or any(map(is_not, self._learned, learned)):
            self._asked, self._learned = {}, learned
        arrays = (graph.variables[name].values.tobytes() for name in ("work", "source", "target"))
        content = (*kinds_of(graph), *arrays)
        if content not in self._asked:
            self._asked[content] = predictor.prepare(graph, self.device)
        return self._asked[content]
