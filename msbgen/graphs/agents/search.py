"""Search: ask a forecaster about every context, take the one that costs least.

*Plain* search believes what is expected.  *Cautious* search ranks by what a run seldom exceeds,
as a cost's lower end is optimistic, and keeps deadlines, powers and temperatures with it.  Both may
value the heat that a run leaves behind: what the rest of the episode costs from there, the fixed
point of a dynamic programme over graphs that were seen before (:class:`FutureCost`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.choice import (
    NO_LIMITS,
    Choice,
    Limits,
    Objective,
    Outlook,
    choose,
    costs_by,
)
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.graphs.agents.worlds import Cost, State, World
from msbgen.graphs.devices import Device
from msbgen.graphs.forecast import Forecast, Forecaster

Floats = NDArray[np.float64]


def outlook_of(forecast: Forecast) -> Outlook:
    """A forecast as the choice between contexts takes it.

    Power at most is energy at most over the time expected: both are wrong together, and the
    energy alone is what heats.
    """
    return Outlook(
        forecast.time,
        forecast.energy,
        forecast.time_bound,
        forecast.energy_bound,
        forecast.energy_bound / forecast.time,
        np.ones(len(forecast.time)),
    )


def choose_context(
    forecast: Forecast,
    *,
    objective: Objective | Callable[[Outlook], Floats] = "energy",
    limits: Limits = NO_LIMITS,
    cap: float | None = None,
    name: Callable[[int], str] = "context {}".format,
) -> Choice:
    """Choose the context of a graph that costs least within the limits, by their bounds.

    Parameters
    ----------
    forecast : Forecast
    objective, limits, name
        As :func:`msbgen.kernels.choice.choose`.
    cap : float or None
        Highest temperature of a run [°C], kept by the bound.

    Raises
    ------
    ArgumentError
        Another objective.
    MeasurementError
        No context keeps the cap, or none of those the limits; the message names the one that comes
        closest.
    """
    heat = forecast.peak_bound
    kept = np.arange(len(heat)) if cap is None else np.flatnonzero(heat <= cap)
    if not len(kept):
        at = int(heat.argmin())
        raise MeasurementError(
            f"cap is {cap:g} °C, which no context keeps; {heat[at]:.4g} °C or more is wanted, what "
            f"the coolest ({name(at)}) reaches at most."
        )
    whole = outlook_of(forecast)
    part = Outlook(*(values[kept] for values in vars(whole).values()))
    if callable(objective):
        objective = _given(costs_by(objective, whole)[kept])
    found = choose(part, objective=objective, limits=limits, name=lambda i: name(int(kept[i])))
    at = int(kept[found.context])
    return Choice(at, found.time, found.time_bound, found.energy, found.energy_bound)


def _given(costs: Floats) -> Callable[[Outlook], Floats]:
    return lambda _: costs


@dataclass(frozen=True, eq=False)
class FutureCost:
    """What the rest of an episode costs, by the temperature and the graphs that are left.

    Attributes
    ----------
    temperatures : ndarray, (k,)
        Ascending [°C].
    values : ndarray, (length + 1, k)
        Of so many graphs left; of none, nothing.
    """

    temperatures: Floats
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

        Parameters
        ----------
        forecaster : Forecaster
        device : Device
        graphs : sequence of xarray.Dataset
            Seen before, like those that will come.
        contexts : ndarray, (n, n_columns)
        cost : Cost
        length : int
        temperatures : array_like, (k,)
            Where values are kept, linear between; from ambient to 4 K above the soft limit, finer
            around it, where not given.

        Raises
        ------
        ArgumentError
            No graph, or temperatures that do not ascend.
        """
        if temperatures is None:
            # values bend where the limit is a graph or two away: there the grid is finer
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
        now, then = [], []
        for graph in graphs:
            said = forecaster.forecast(graph, every, start)
            reference = reference_of(forecaster, device, graph)
            paid = cost.of(said.time, said.energy, said.temperature, reference)
            now.append(paid.reshape(len(grid), -1))
            then.append(said.temperature.reshape(len(grid), -1))
        paid, left = np.array(now), np.array(then)
        values = np.zeros((length + 1, len(grid)))
        for k in range(length):
            values[k + 1] = (paid + np.interp(left, grid, values[k])).min(axis=2).mean(axis=0)
        return cls(grid, values)

    def of(self, temperature: ArrayLike, left: int) -> Floats:
        """What so many graphs will cost from a temperature on; beyond the grid as at its end."""
        row = self.values[left]
        heat = np.asarray(temperature, dtype=float)
        slope = (row[-1] - row[-2]) / (self.temperatures[-1] - self.temperatures[-2])
        beyond = np.maximum(heat - self.temperatures[-1], 0.0)
        return np.interp(heat, self.temperatures, row) + slope * beyond


def reference_of(forecaster: Forecaster, device: Device, graph: xr.Dataset) -> Floats:
    """Time and energy in the largest context, cool: what costs are ratios to, as forecast, (2,)."""
    said = forecaster.forecast(graph, device.largest[None], device.ambient)
    return np.array([said.time[0], said.energy[0]])


class Search:
    """A policy that asks a forecaster about every context.

    Parameters
    ----------
    world : World
        Whose graphs, contexts and costs are meant; what its device does is not asked.
    forecaster : Forecaster
    cautious : bool
        Whether bounds are ranked and kept, or what is expected.
    heat : FutureCost or None
        What heat that is left behind costs; nothing where not given.
    cap : float or None
        Highest temperature of a cautious run, at the end of another [°C]; where no context keeps
        it, the coolest is taken.
    """

    order = "arrival"

    def __init__(
        self,
        world: World,
        forecaster: Forecaster,
        *,
        cautious: bool = False,
        heat: FutureCost | None = None,
        cap: float | None = None,
    ):
        self.world, self.forecaster = world, forecaster
        self.cautious, self.heat, self.cap = cautious, heat, cap
        self._references: dict[int, Floats] = {}

    def act(self, state: State) -> int:
        """Return the context that costs least."""
        said = self.forecast(state)
        heat = said.peak_bound if self.cautious else said.temperature
        if self.cap is not None and not (heat <= self.cap).any():
            return int(heat.argmin())
        costs = self.costs(state, said)
        if self.cap is not None:
            costs = np.where(heat <= self.cap, costs, np.inf)
        return int(costs.argmin())

    def forecast(self, state: State) -> Forecast:
        """What is thought of the contexts."""
        graph = self.world.graphs[state.graph]
        return self.forecaster.forecast(graph, self.world.contexts, state.temperature)

    def costs(self, state: State, said: Forecast) -> Floats:
        """What each context is thought to cost, (n,), with what it leaves to the rest."""
        if state.graph not in self._references:
            graph, device = self.world.graphs[state.graph], self.world.device
            self._references[state.graph] = reference_of(self.forecaster, device, graph)
        reference = self._references[state.graph]
        if self.cautious:
            thought = said.time_bound, said.energy_bound, said.temperature_bound
        else:
            thought = said.time, said.energy, said.temperature
        costs = self.world.cost.of(*thought, reference)
        if self.heat is not None:
            costs = costs + self.heat.of(thought[2], state.left - 1)
        return costs


class Oracle:
    """The simulator as a forecaster, without noise: who asks it is an oracle.

    Parameters
    ----------
    world : World
    """

    def __init__(self, world: World):
        self._world = world
        self._programs = {id(g): p for g, p in zip(world.graphs, world.programs)}

    def forecast(self, graph: xr.Dataset, contexts: Floats, temperature: ArrayLike) -> Forecast:
        """What will happen, but for noise."""
        simulator = self._world.simulator
        program = self._programs.get(id(graph)) or simulator.program(graph)
        outcome = simulator.run(program, contexts, temperature=temperature, noise=False)
        return Forecast.certain(
            *(x[:, 0] for x in (outcome.makespan, outcome.energy, outcome.last, outcome.peak))
        )
