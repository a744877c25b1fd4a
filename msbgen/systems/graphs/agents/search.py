"""Search: forecast every context and choose the one of least cost.

*Plain* search uses expected values.  *Cautious* search uses upper bounds for the cost and for the
limits of time, power and temperature.  Both can add the cost of the heat that a run leaves behind:
the future cost of the episode, from a dynamic programme over earlier graphs (:class:`FutureCost`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.choice import Objective, Offers
from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.worlds import Cost, State, World
from msbgen.systems.graphs.devices import Device
from msbgen.systems.graphs.forecast import Forecast, Forecaster

Floats = NDArray[np.float64]


def offers_of(
    forecast: Forecast,
    *,
    objective: Objective | ArrayLike = "energy",
    describe: Callable[[int], str] = "context {}".format,
) -> Offers:
    """The contexts of a forecast as offers, by an objective of :meth:`Offers.of_runs`.

    The bound of the power is the bound of the energy over the expected time: errors of time and
    energy are correlated, and only the energy heats the device.  The bound of the temperature is
    that of the highest one of a run.
    """
    offers = Offers.of_runs(
        forecast.time, forecast.energy, objective=objective, describe=describe,
        bound={
            "time": forecast.time_bound, "energy": forecast.energy_bound,
            "power": forecast.energy_bound / forecast.time, "temperature": forecast.peak_bound,
        },
    )  # fmt: skip
    return replace(offers, expected={**offers.expected, "temperature": forecast.temperature})


@dataclass(frozen=True, eq=False)
class FutureCost:
    """Expected cost of the rest of an episode, by temperature and number of graphs left."""

    # Ascending [°C], (k,).
    temperatures: Floats
    # Row k: with k graphs left, (length + 1, k).
    values: Floats

    @classmethod
    def learn(
        cls,
        forecaster: Forecaster,
        device: Device,
        graphs: Sequence[xr.Dataset],
        contexts: Floats,
        *,
        cost: Cost,
        length: int,
        temperatures: ArrayLike | None = None,
    ) -> FutureCost:
        """Solve V_k(T) = mean over graphs of min over contexts of [cost + V_{k-1}(T')].

        `graphs` are earlier ones, similar to those of the episode; `contexts` are (n, n_columns).
        Values are linear between `temperatures` (k,), by default from ambient to 4 K above the soft
        limit, finer near it.  ArgumentError: no graph, or temperatures that are not ascending.
        """
        if temperatures is None:
            # finer near the limit, where the values bend
            near = cost.soft + np.array([*np.arange(-3.0, 1.01, 0.25), 2.0, 4.0])
            far = np.linspace(device.ambient, near[0], 5)[:-1]
            temperatures = np.concatenate([far[far < near[0]], near])
        grid = np.asarray(temperatures, dtype=float)
        if not graphs or grid.ndim != 1 or len(grid) < 2 or np.any(np.diff(grid) <= 0):
            raise ArgumentError(
                f"temperatures are {temperatures} and graphs {len(graphs)}; ascending ones and one "
                f"graph or more are wanted."
            )
        every, start = np.tile(contexts, (len(grid), 1)), np.repeat(grid, len(contexts))
        run_costs, last_temperatures = [], []
        for graph in graphs:
            forecast = forecaster.forecast(graph, every, start)
            reference = reference_of(forecaster, device, graph)
            of_runs = cost.of(forecast.time, forecast.energy, forecast.temperature, reference)
            run_costs.append(of_runs.reshape(len(grid), -1))
            last_temperatures.append(forecast.temperature.reshape(len(grid), -1))
        now, after = np.array(run_costs), np.array(last_temperatures)
        values = np.zeros((length + 1, len(grid)))
        for k in range(length):
            values[k + 1] = (now + np.interp(after, grid, values[k])).min(axis=2).mean(axis=0)
        return cls(grid, values)

    def of(self, temperature: ArrayLike, left: int) -> Floats:
        """Expected cost of `left` graphs from a temperature on; extrapolated linearly above."""
        row = self.values[left]
        start = np.asarray(temperature, dtype=float)
        slope = (row[-1] - row[-2]) / (self.temperatures[-1] - self.temperatures[-2])
        beyond = np.maximum(start - self.temperatures[-1], 0.0)
        return np.interp(start, self.temperatures, row) + slope * beyond


def reference_of(forecaster: Forecaster, device: Device, graph: xr.Dataset) -> Floats:
    """Forecast time and energy in the largest context from ambient temperature, (2,)."""
    forecast = forecaster.forecast(graph, device.largest[None], device.ambient)
    return np.array([forecast.time[0], forecast.energy[0]])


class Search:
    """A policy that forecasts every context and chooses the one of least cost.

    It uses the graphs, contexts and costs of the world, not its simulator; `cautious` takes upper
    bounds in place of expected values.  `future_cost` adds the cost of the heat that a run leaves
    behind.  `cap` limits the temperature [°C]: the peak's bound in cautious search, else the end.
    If no context keeps it, the coolest is chosen.
    """

    order = "arrival"

    def __init__(
        self,
        world: World,
        forecaster: Forecaster,
        *,
        cautious: bool = False,
        future_cost: FutureCost | None = None,
        cap: float | None = None,
    ):
        self.world, self.forecaster = world, forecaster
        self.cautious, self.future_cost, self.cap = cautious, future_cost, cap
        graphs, device = world.graphs, world.device
        self._reference = cache(lambda graph: reference_of(forecaster, device, graphs[graph]))

    def act(self, state: State) -> int:
        """Number of the context of least cost."""
        forecast = self.forecast(state)
        temperature = forecast.peak_bound if self.cautious else forecast.temperature
        if self.cap is not None and not (temperature <= self.cap).any():
            return int(temperature.argmin())
        costs = self.costs(state, forecast)
        if self.cap is not None:
            costs = np.where(temperature <= self.cap, costs, np.inf)
        return int(costs.argmin())

    def forecast(self, state: State) -> Forecast:
        """Forecast of the next graph in every context."""
        graph = self.world.graphs[state.graph]
        return self.forecaster.forecast(graph, self.world.contexts, state.temperature)

    def costs(self, state: State, forecast: Forecast) -> Floats:
        """Cost of each context, (n,), including the future cost."""
        if self.cautious:
            values = forecast.time_bound, forecast.energy_bound, forecast.temperature_bound
        else:
            values = forecast.time, forecast.energy, forecast.temperature
        costs = self.world.cost.of(*values, self._reference(state.graph))
        if self.future_cost is not None:
            costs = costs + self.future_cost.of(values[2], state.left - 1)
        return costs


class Oracle:
    """The simulator without noise as a forecaster."""

    def __init__(self, world: World):
        self._world = world
        self._programs = {id(g): p for g, p in zip(world.graphs, world.programs)}

    def forecast(self, graph: xr.Dataset, contexts: Floats, temperature: ArrayLike) -> Forecast:
        """Simulated results without noise."""
        simulator = self._world.simulator
        program = self._programs.get(id(graph)) or simulator.program(graph)
        outcome = simulator.run(program, contexts, temperature=temperature, noise=False)
        return Forecast.certain(
            *(x[:, 0] for x in (outcome.makespan, outcome.energy, outcome.last, outcome.peak))
        )
