"""A gate: it admits the contexts whose upper bounds keep the limits.

The bounds are those of prediction intervals.  The paper also uses an "epistemic" part of the
variance, which the likelihood does not identify (:mod:`msbgen.graphs.predictor.evidential`).
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.records import Within, checks_arguments
from msbgen.systems.graphs.agents.worlds import State, World
from msbgen.systems.graphs.forecast import Forecast, Forecaster

Bools = NDArray[np.bool_]


class Gate:
    """Admits contexts whose upper bounds of temperature and time keep the limits.

    `cap` limits the highest temperature of a run [°C].  `slowness` limits the time, as a multiple
    of the time of the fastest context.  ArgumentError: a slowness below 1.
    """

    @checks_arguments
    def __init__(
        self,
        world: World,
        forecaster: Forecaster,
        cap: float,
        *,
        slowness: Annotated[float, Within(1, infinite=True)] = np.inf,
    ):
        self.world, self.forecaster = world, forecaster
        self.cap, self.slowness = cap, slowness

    def passes(self, state: State, context: int) -> bool:
        """Whether a context keeps the limits; other contexts are forecast only if they matter."""
        if np.isfinite(self.slowness):
            return bool(self.allowed(state)[context])
        world = self.world
        graph, alone = world.graphs[state.graph], world.contexts[[context]]
        return bool(self.admits(self.forecaster.forecast(graph, alone, state.temperature))[0])

    def allowed(self, state: State) -> Bools:
        """Whether each context may be tried, (n,); only the coolest if none keeps the limits."""
        graph, contexts = self.world.graphs[state.graph], self.world.contexts
        forecast = self.forecaster.forecast(graph, contexts, state.temperature)
        allowed = self.admits(forecast)
        if not allowed.any():
            allowed[forecast.peak_bound.argmin()] = True
        return allowed

    def admits(self, forecast: Forecast) -> Bools:
        """Whether the bounds of each run keep the limits, (n,)."""
        fast = forecast.time_bound <= self.slowness * forecast.time.min()
        return fast & (forecast.peak_bound <= self.cap)
