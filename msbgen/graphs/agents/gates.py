"""A gate before the device: contexts whose intervals promise to keep the limits, and no others.

Gated is by the interval of what is predicted.  An "epistemic" part of a variance, which the paper
gates by as well, is not identified by the likelihood it is learned with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.worlds import State, World
from msbgen.graphs.forecast import Forecast, Forecaster

Bools = NDArray[np.bool_]


class Gate:
    """Says which contexts may be tried.

    Parameters
    ----------
    world : World
    forecaster : Forecaster
    cap : float
        Highest temperature of a run [°C], at most.
    slowness : float
        Most time, at most, as a multiple of what the fastest context takes.

    Raises
    ------
    ArgumentError
        A slowness below 1.
    """

    def __init__(
        self, world: World, forecaster: Forecaster, cap: float, *, slowness: float = np.inf
    ):
        if not slowness >= 1:
            raise ArgumentError(f"slowness is {slowness}; a number from 1 on is wanted.")
        self.world, self.forecaster = world, forecaster
        self.cap, self.slowness = cap, slowness

    def passes(self, state: State, context: int) -> bool:
        """Whether a context keeps the limits; the others are not asked about where none matters."""
        if np.isfinite(self.slowness):
            return bool(self.open(state)[context])
        world = self.world
        graph, alone = world.graphs[state.graph], world.contexts[[context]]
        return bool(self.admits(self.forecaster.forecast(graph, alone, state.temperature))[0])

    def open(self, state: State) -> Bools:
        """Which contexts may be tried, (n,); the coolest alone where none keeps the limits."""
        graph, contexts = self.world.graphs[state.graph], self.world.contexts
        said = self.forecaster.forecast(graph, contexts, state.temperature)
        kept = self.admits(said)
        if not kept.any():
            kept[said.peak_bound.argmin()] = True
        return kept

    def admits(self, said: Forecast) -> Bools:
        """Which runs keep the limits by their bounds, (n,)."""
        fast = said.time_bound <= self.slowness * said.time.min()
        return fast & (said.peak_bound <= self.cap)
