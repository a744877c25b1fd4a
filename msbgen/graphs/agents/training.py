"""Agents learn: from the device, and with Dyna from what a forecaster imagines besides.

After each step on the device a model-based agent imagines ζ more: the forecaster is asked about a
graph at a temperature that was met, in contexts that the agent, or chance, proposes (Dyna; Sutton,
1991).  What happened and what was imagined are remembered apart, and learned from in turn.  A gate
keeps both from contexts that may exceed its limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, check_positive, check_whole
from msbgen.core.machine import OnProgress
from msbgen.graphs.agents.actions import Actions
from msbgen.graphs.agents.gates import Gate
from msbgen.graphs.agents.replay import Replay, Transitions
from msbgen.graphs.agents.search import reference_of
from msbgen.graphs.agents.worlds import OBSERVED, State, World
from msbgen.graphs.forecast import Forecaster

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Imagined transitions for one more step of learning.
_A_STEP = 10
# Steps on the device after which is imagined, of one graph at once: a forecast is as dear of
# twenty contexts as of one.
_A_DREAM = 5


class Agent(Protocol):
    """What learns, and says what it thinks best."""

    branches: tuple[int, ...]

    def best(self, observation: NDArray[np.float64]) -> Indices:
        """The best option of each branch, (branches,)."""
        ...

    def advantages(self, observation: NDArray[np.float64]) -> list[Floats]:
        """What options of each branch are worth in states (n, d), (n, options) each."""
        ...

    def learn(self, batch: Transitions) -> float:
        """Make a step."""
        ...


@dataclass(frozen=True)
class TrainingSettings:
    """How agents are trained.

    Attributes
    ----------
    episodes : int
    imagined : int
        ζ: transitions imagined for each one on the device.
    explore : (float, float)
        Chance of a random option at first and in the end.
    decline : float
        Share of the episodes over which the chance falls.
    batch : int
        Transitions of a step of learning.
    every : int
        Steps on the device for a step of learning.
    memory : int
        Transitions that are kept of each source.
    most : float
        Costs count up to this: what lies above is as bad.
    """

    episodes: int = 200
    imagined: int = 0
    explore: tuple[float, float] = (1.0, 0.05)
    decline: float = 0.5
    batch: int = 64
    every: int = 1
    memory: int = 20_000
    most: float = 20.0

    def __post_init__(self) -> None:
        check_whole(self, "episodes", "batch", "every", "memory")
        check_whole(self, "imagined", least=0)
        check_positive(self, "most", "decline")
        if not all(0 <= chance <= 1 for chance in self.explore):
            raise ArgumentError(f"explore is {self.explore}; two numbers from 0 to 1 are wanted.")

    def chance(self, episode: int) -> float:
        """Chance of a random option in an episode."""
        gone = min(episode / (self.decline * self.episodes), 1.0)
        return self.explore[0] + gone * (self.explore[1] - self.explore[0])


@dataclass(frozen=True, eq=False)
class Training:
    """How training went.

    Attributes
    ----------
    cost : ndarray, (episodes,)
        Mean over the graphs of each episode.
    above : ndarray, (episodes,)
        Share of the graphs during which the temperature exceeded the soft limit.
    imagined : int
        Transitions that were imagined and admitted.
    refused : int
        Those that the gate kept out.
    """

    cost: Floats
    above: Floats
    imagined: int
    refused: int


def train(
    world: World,
    agent: Agent,
    actions: Actions,
    settings: TrainingSettings = TrainingSettings(),
    *,
    model: Forecaster | None = None,
    gate: Gate | None = None,
    seed: int = 0,
    progress: OnProgress | None = None,
) -> Training:
    """Train an agent in episodes of a world.

    Parameters
    ----------
    world : World
    agent : Agent
        Is changed.
    actions : Actions
        What its options mean.
    settings : TrainingSettings
    model : Forecaster or None
        Imagines; wanted where `settings.imagined` is not 0.
    gate : Gate or None
        What the agent tries, and what is imagined, passes it.
    seed : int
    progress : callable
        Called with (done, total) episodes.

    Raises
    ------
    ArgumentError
        Something is to be imagined, and there is no model.
    """
    if settings.imagined and model is None:
        raise ArgumentError(
            f"imagined is {settings.imagined} and there is no model; a forecaster is wanted."
        )
    # chances of their own: what is imagined changes nothing of what is met
    choices, draws, dreams = (np.random.default_rng([seed, i]) for i in range(3))
    shape = settings.memory, len(OBSERVED), len(agent.branches)
    real, unreal = Replay(*shape), Replay(*shape)
    dreamer = Imagination(world, model, actions, settings, gate) if model is not None else None
    cost, above = np.zeros((2, settings.episodes))
    done, debt = 0, 0
    for episode in range(settings.episodes):
        chance = settings.chance(episode)
        graphs, temperature = world.draw(np.random.default_rng([seed, 3, episode]))
        state = State(int(graphs[0]), temperature, world.length)
        for i in range(world.length):
            observation = world.observe(state)
            action = explore(agent.branches, agent.best(observation), chance, choices)
            context = actions.context(action)
            if gate is not None:
                action, context = through(gate, state, agent, actions, action, context)
            step = world.step(state, context, np.random.default_rng([seed, 4, episode, i]))
            last = i == world.length - 1
            upcoming = graphs[0 if last else i + 1]
            following = State(int(upcoming), step.last, state.left - 1)
            reward = -min(step.cost, settings.most)
            real.add(observation, action, reward, world.observe(following), last)
            cost[episode] += step.cost / world.length
            above[episode] += (step.peak > world.cost.soft) / world.length
            done += 1
            if done % settings.every == 0 and real.size >= settings.batch:
                agent.learn(real.sample(settings.batch, draws))
            if dreamer is not None and settings.imagined and done % _A_DREAM == 0:
                dreamer.dream(unreal, agent, state, chance, dreams)
                debt += settings.imagined * _A_DREAM
                while debt >= _A_STEP * settings.every and unreal.size >= settings.batch:
                    debt -= _A_STEP * settings.every
                    agent.learn(unreal.sample(settings.batch, dreams))
            state = following
        if progress is not None:
            progress(episode + 1, settings.episodes)
    admitted, refused = (dreamer.admitted, dreamer.refused) if dreamer is not None else (0, 0)
    return Training(cost, above, admitted, refused)


def explore(
    branches: tuple[int, ...], best: Indices, chance: float, rng: np.random.Generator
) -> Indices:
    """The best options, or by chance each branch's own random one, (branches,)."""
    random = rng.integers(branches)
    return np.where(rng.random(len(best)) < chance, random, best)


def through(
    gate: Gate, state: State, agent: Agent, actions: Actions, action: Indices, context: int
) -> tuple[Indices, int]:
    """The action, or the best one that the gate lets through.

    Of several branches, contexts are tried in the order of what their options are worth together.
    """
    if gate.passes(state, context):
        return action, context
    admitted = gate.open(state)
    if admitted[context]:  # the coolest, where none keeps the limits
        return action, context
    ranked = options_of(actions, agent, gate.world.observe(state))
    return next((a, c) for a, c in zip(ranked, map(actions.context, ranked)) if admitted[c])


def options_of(actions: Actions, agent: Agent, observation: Floats) -> Indices:
    """Joint actions (contexts, branches), one for every context, the most valuable first."""
    parts = [part[0] for part in agent.advantages(observation[None])]
    meant = actions.every
    worth = np.sum([part[meant[:, i]] for i, part in enumerate(parts)], axis=0)
    return meant[np.argsort(-worth, kind="stable")]


class Imagination:
    """Imagines transitions."""

    def __init__(
        self, world: World, model: Forecaster, actions: Actions, settings: TrainingSettings,
        gate: Gate | None,
    ):  # fmt: skip
        self.world, self.model, self.actions = world, model, actions
        self.settings, self.gate = settings, gate
        self.admitted, self.refused = 0, 0
        self._references: dict[int, Floats] = {}

    def dream(
        self, memory: Replay, agent: Agent, met: State, chance: float, rng: np.random.Generator
    ) -> None:
        """Ask about one graph at a temperature that was met, in 5 ζ contexts."""
        world = self.world
        graph = int(rng.integers(len(world.graphs)))
        state = State(graph, met.temperature, met.left)
        observation = world.observe(state)
        # half by chance at least: where the agent would not go, there is nothing to learn by going
        chances = np.where(np.arange(self.settings.imagined * _A_DREAM) % 2 == 0, 1.0, chance)
        best = agent.best(observation)
        said = [explore(agent.branches, best, c, rng) for c in chances]
        contexts = world.contexts[[self.actions.context(action) for action in said]]
        forecast = self.model.forecast(world.graphs[graph], contexts, met.temperature)
        kept = np.ones(len(said), dtype=bool) if self.gate is None else self.gate.admits(forecast)
        self.admitted, self.refused = self.admitted + kept.sum(), self.refused + (~kept).sum()
        costs = self._costs(graph, forecast.time, forecast.energy, forecast.temperature)
        for i in np.flatnonzero(kept):
            upcoming = int(rng.integers(len(world.graphs)))
            following = State(upcoming, float(forecast.temperature[i]), met.left - 1)
            reward = -min(float(costs[i]), self.settings.most)
            memory.add(observation, said[i], reward, world.observe(following), met.left == 1)

    def _costs(
        self, graph: int, time: ArrayLike, energy: ArrayLike, temperature: ArrayLike
    ) -> Floats:
        if graph not in self._references:
            own = self.world.graphs[graph]
            self._references[graph] = reference_of(self.model, self.world.device, own)
        return self.world.cost.of(time, energy, temperature, self._references[graph])


class LearnedPolicy:
    """The policy of an agent that has learned.

    Parameters
    ----------
    world : World
        Its own, or another one with the same contexts.
    agent : Agent
    actions : Actions
    gate : Gate or None
    """

    order = "arrival"

    def __init__(self, world: World, agent: Agent, actions: Actions, gate: Gate | None = None):
        self.world, self.agent, self.actions, self.gate = world, agent, actions, gate

    def act(self, state: State) -> int:
        """Return the context that the agent thinks best, of those that the gate admits."""
        action = self.agent.best(self.world.observe(state))
        context = self.actions.context(action)
        if self.gate is not None:
            context = through(self.gate, state, self.agent, self.actions, action, context)[1]
        return context
