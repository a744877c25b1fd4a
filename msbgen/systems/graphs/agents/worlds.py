"""Episodes: graphs that run one after another on a simulated device, which stays warm in between.

A step is a graph.  A policy observes the graph, the temperature and the number of graphs left, and
chooses a context.  The simulator runs the graph, and its cost is

    cost = t / t₀ + ½ e / e₀ + 10 · max(0, T − 45)²

with its time t and energy e, t₀ and e₀ those in the device's largest context at ambient
temperature without noise, and T the temperature at the end [°C].  The reward of an agent is −cost
(GraphPerf-RT, L.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError
from msbgen.core.records import NotNegative, check_fields
from msbgen.systems.graphs.dataset import edges_of, longest_paths, topological_order
from msbgen.systems.graphs.devices import Device, check_contexts, device_contexts
from msbgen.systems.graphs.simulator import Program, SimulatedRuns, Simulator

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# The numbers of an observation, scaled to about -1 to 1.
OBSERVED = (
    "headroom below the soft limit, of the span from ambient",
    "graphs left, of an episode",
    "logarithm of the reference time, of ten",
    "logarithm of the reference power, of ten",
    "logarithm of the work on a longest path's work, of five",
    "logarithm of the tasks, of ten",
    "share of the largest task in the work",
)


@dataclass(frozen=True)
class Cost:
    """Weights of the cost of a run."""

    # Weights of the ratios to the reference [1], and of the squared excess [K-2].
    time: NotNegative = 1.0
    energy: NotNegative = 0.5
    heat: NotNegative = 10.0
    # Temperature above which heat has a cost [°C].
    soft: float = 45.0

    def __post_init__(self) -> None:
        check_fields(self)

    def of(
        self, time: ArrayLike, energy: ArrayLike, temperature: ArrayLike, reference: ArrayLike
    ) -> Floats:
        """Cost of runs of a graph with the reference (t₀, e₀); arrays broadcast."""
        t0, e0 = np.asarray(reference, dtype=float)
        excess = np.maximum(np.asarray(temperature, dtype=float) - self.soft, 0.0)
        times, energies = np.asarray(time, dtype=float) / t0, np.asarray(energy, dtype=float) / e0
        return self.time * times + self.energy * energies + self.heat * excess**2


@dataclass(frozen=True, eq=False)
class State:
    """State of an episode."""

    # Number of the graph that runs next.
    graph: int
    # Current [°C].
    temperature: float
    # Number of graphs left, including this one.
    left: int


@dataclass(frozen=True, eq=False)
class Step:
    """Result of a graph."""

    # [s], [J]
    time: float
    energy: float
    # Highest and last temperature [°C].
    peak: float
    last: float
    # Time with clocks stepped down [s].
    throttled: float
    cost: float


class Policy(Protocol):
    """Chooses contexts: a search, a rule, a trained agent."""

    order: str

    def act(self, state: State) -> int:
        """Number of the context for the next graph."""
        ...


class World:
    """A simulated device, graphs from which episodes are drawn, and contexts to choose between.

    Contexts (n, n_columns) are those of :func:`plain_contexts` by default.  An episode has `length`
    graphs and starts in the range `start` [°C], by default from ambient to the soft limit.
    ArgumentError: no graph, no length, descending temperatures, or contexts that the device does
    not have.  ProfileError: a kind of tasks without profile.
    """

    def __init__(
        self,
        simulator: Simulator,
        graphs: Sequence[xr.Dataset],
        *,
        contexts: ArrayLike | None = None,
        cost: Cost = Cost(),
        length: int = 20,
        start: tuple[float, float] | None = None,
    ):
        if not graphs:
            raise ArgumentError("graphs are none; one or more are wanted.")
        check_count(length, "length")
        device = simulator.device
        low, high = (device.ambient, cost.soft) if start is None else start
        if not -100 < low <= high < 300:
            raise ArgumentError(f"start is {low:g} to {high:g} °C; ascending ones are wanted.")
        self.simulator, self.graphs, self.cost = simulator, tuple(graphs), cost
        self.length, self.start = length, (float(low), float(high))
        self.contexts = (
            plain_contexts(device) if contexts is None else check_contexts(device, contexts)
        )
        self.programs = tuple(simulator.program(graph) for graph in graphs)
        self.reference = np.stack([self._reference(program) for program in self.programs])
        self._shapes = np.stack([_shape(g, r) for g, r in zip(self.graphs, self.reference)])

    @property
    def device(self) -> Device:
        """The simulated device."""
        return self.simulator.device

    def _reference(self, program: Program) -> Floats:
        outcome = self.simulator.run(program, self.device.largest, noise=False)
        return np.array([outcome.makespan[0, 0], outcome.energy[0, 0]])

    def draw(self, rng: np.random.Generator | int = 0) -> tuple[Indices, float]:
        """Graphs of an episode, (length,), and its first temperature [°C]."""
        rng = generator(rng)
        return rng.integers(len(self.graphs), size=self.length), float(rng.uniform(*self.start))

    def observe(self, state: State) -> Floats:
        """Observation of a state, (7,): :data:`OBSERVED`."""
        ambient, soft = self.device.ambient, self.cost.soft
        headroom = (soft - state.temperature) / (soft - ambient)
        return np.array([headroom, state.left / self.length, *self._shapes[state.graph]])

    def step(
        self, state: State, context: int, rng: np.random.Generator | int = 0, order: str = "arrival"
    ) -> Step:
        """Run a graph in a context.

        Raises
        ------
        ArgumentError
            No such context.
        """
        if not 0 <= context < len(self.contexts):
            raise ArgumentError(
                f"context is {context}; a number from 0 to {len(self.contexts) - 1} is wanted."
            )
        outcome = self.simulator.run(
            self.programs[state.graph], self.contexts[context],
            order=order, temperature=state.temperature, rng=rng,
        )  # fmt: skip
        measured = {name: float(values[0, 0]) for name, values in vars(outcome).items()}
        cost = float(self.costs(state.graph, outcome)[0])
        return Step(time=measured.pop("makespan"), **measured, cost=cost)

    def costs(self, graph: int, outcome: SimulatedRuns) -> Floats:
        """Costs of runs of a graph, one for each context, (n,)."""
        time, energy, last = (x[:, 0] for x in (outcome.makespan, outcome.energy, outcome.last))
        return self.cost.of(time, energy, last, self.reference[graph])


@dataclass(frozen=True, eq=False)
class Record:
    """Results of episodes, (episodes, length) each.

    Attributes
    ----------
    time, energy, peak, last, throttled, cost : ndarray
        As of :class:`Step`.
    """

    graph: Indices
    context: Indices
    time: Floats
    energy: Floats
    peak: Floats
    last: Floats
    throttled: Floats
    cost: Floats

    def violated(self, limit: float) -> float:
        """Share of the graphs during which the temperature exceeded a limit [°C]."""
        return float((self.peak > limit).mean())


def play_episodes(world: World, policy: Policy, episodes: int, seed: int = 0) -> Record:
    """Run a policy in episodes; with one seed, all policies get the same graphs and noise."""
    check_count(episodes, "episodes")
    rows = []
    for episode in range(episodes):
        graphs, temperature = world.draw(np.random.default_rng([seed, episode]))
        for i, graph in enumerate(graphs.tolist()):
            state = State(graph, temperature, world.length - i)
            context = policy.act(state)
            noise = np.random.default_rng([seed, episode, i])
            step = world.step(state, context, noise, policy.order)
            temperature = step.last
            rows.append((graph, context, *vars(step).values()))
    columns = np.array(rows).T.reshape(-1, episodes, world.length)
    return Record(columns[0].astype(np.int64), columns[1].astype(np.int64), *columns[2:])


def check_count(value: int, name: str) -> None:
    """Raise :class:`ArgumentError` unless a value is a whole number ≥ 1."""
    if value < 1 or value != int(value):
        raise ArgumentError(f"{name} is {value}; a whole number ≥ 1 is wanted.")


def plain_contexts(device: Device, clocks: int = 6) -> Floats:
    """Contexts (n, n_columns) with every number of cores, and all of cache and memory.

    Each cluster has so many `clocks`, evenly spread; without cores it has its lowest clock.

    >>> from msbgen.systems.graphs.devices import shipped_device
    >>> len(plain_contexts(shipped_device("tx2")))
    324
    """
    table = device_contexts(
        device, clocks=clocks, paired=False,
        cache_ways=device.cache_ways[-1], bandwidth=device.bandwidth[-1],
    )  # fmt: skip
    for i, cluster in enumerate(device.clusters):
        table[table[:, 2 * i] == 0, 2 * i + 1] = cluster.clocks[0]
    return np.unique(table, axis=0)


def _shape(graph: xr.Dataset, reference: Floats) -> Floats:
    """Features of a graph in an observation, (5,)."""
    work, pairs = graph["work"].values.astype(float), edges_of(graph)
    longest = work + longest_paths(topological_order(len(work), pairs), pairs, work)
    seconds, joules = reference
    return np.array(
        [
            np.log(seconds) / 10,
            np.log(joules / seconds) / 10,
            np.log(work.sum() / longest.max()) / 5,
            np.log(len(work)) / 10,
            work.max() / work.sum(),
        ]
    )
