"""Training of agents on the device, and on imagined transitions (Dyna; Sutton, 1991).

For each step on the device, a model-based agent imagines ζ more.  A forecaster predicts a graph
from a temperature that occurred, in contexts that the agent or chance proposes.  Real and imagined
transitions have separate replay memories.  A gate keeps both within its limits.
"""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, Fraction, Positive, Seed, Within, check_fields
from msbgen.systems.graphs.agents.actions import Actions
from msbgen.systems.graphs.agents.gates import Gate
from msbgen.systems.graphs.agents.replay import Replay, Transitions
from msbgen.systems.graphs.agents.search import reference_of
from msbgen.systems.graphs.agents.worlds import OBSERVED, State, World
from msbgen.systems.graphs.forecast import Forecaster

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class Agent(Protocol):
    """An agent that learns action values."""

    branches: tuple[int, ...]

    def best(self, observation: NDArray[np.float64]) -> Indices:
        """The best option of each branch, (branches,)."""
        ...

    def advantages(self, observation: NDArray[np.float64]) -> list[Floats]:
        """Values of the options of each branch in states (n, d), (n, options) each."""
        ...

    def learn(self, batch: Transitions) -> float:
        """Take a learning step; returns the loss."""
        ...


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training of agents."""

    episodes: Count = 200
    # ζ: imagined transitions for each step on the device.
    imagined: Annotated[int, Within(0)] = 0
    # Probability of a random option at first and in the end.
    explore: tuple[Fraction, Fraction] = (1.0, 0.05)
    # Share of the episodes over which the probability falls.
    decline: Positive = 0.5
    # Transitions of a step of learning.
    batch: Count = 64
    # Steps on the device for each learning step.
    every: Count = 1
    # Transitions in each replay memory.
    memory: Count = 20_000
    # Costs above this count as this.
    most: Positive = 20.0
    # Steps on the device between imagined transitions.  They are of one graph, as a forecast of
    # twenty contexts takes about as long as one of one context.
    imagine_every: Count = 5
    # Imagined transitions for each additional learning step.
    imagined_a_step: Count = 10
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_fields(self)

    def chance(self, episode: int) -> float:
        """Probability of a random option in an episode."""
        progress = min(episode / (self.decline * self.episodes), 1.0)
        return self.explore[0] + progress * (self.explore[1] - self.explore[0])


@dataclass(frozen=True, eq=False)
class Training:
    """Record of a training."""

    # Mean cost over the graphs of each episode, (episodes,).
    cost: Floats
    # Share of the graphs during which the temperature exceeded the soft limit, (episodes,).
    above: Floats
    # Imagined transitions that the gate admitted, and that it refused.
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
    progress: OnProgress | None = None,
) -> Training:
    """Train an agent, which is changed, in episodes of a world.

    `model` predicts imagined transitions, `gate` admits real and imagined actions, and `progress`
    is called with (done, total) episodes.  ArgumentError: `settings.imagined` is not 0, and there
    is no model.
    """
    if settings.imagined and model is None:
        raise ArgumentError(
            f"imagined is {settings.imagined} and there is no model; a forecaster is wanted."
        )
    # separate generators: imagined transitions do not change the episodes on the device
    seed = settings.seed
    choices, draws, imagined = (np.random.default_rng([seed, i]) for i in range(3))
    shape = settings.memory, len(OBSERVED), len(agent.branches)
    real, unreal = Replay(*shape), Replay(*shape)
    imagination = Imagination(world, model, actions, settings, gate) if model is not None else None
    cost, above = np.zeros((2, settings.episodes))
    done, unlearned, a_step = 0, 0, settings.imagined_a_step * settings.every
    for episode in range(settings.episodes):
        chance = settings.chance(episode)
        graphs, temperature = world.draw(np.random.default_rng([seed, 3, episode]))
        state = State(int(graphs[0]), temperature, world.length)
        for i in range(world.length):
            observation = world.observe(state)
            action = explore(agent.branches, agent.best(observation), chance, choices)
            context = actions.context(action)
            if gate is not None:
                action, context = gated_action(gate, state, agent, actions, action, context)
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
            if imagination is not None and settings.imagined and done % settings.imagine_every == 0:
                imagination.imagine(unreal, agent, state, chance, imagined)
                unlearned += settings.imagined * settings.imagine_every
                while unlearned >= a_step and unreal.size >= settings.batch:
                    unlearned -= a_step
                    agent.learn(unreal.sample(settings.batch, imagined))
            state = following
        if progress is not None:
            progress(episode + 1, settings.episodes)
    if imagination is None:
        return Training(cost, above, 0, 0)
    return Training(cost, above, imagination.admitted, imagination.refused)


def explore(
    branches: tuple[int, ...], best: Indices, chance: float, rng: np.random.Generator
) -> Indices:
    """The best option of each branch, or with a probability a random one, (branches,)."""
    random = rng.integers(branches)
    return np.where(rng.random(len(best)) < chance, random, best)


def gated_action(
    gate: Gate, state: State, agent: Agent, actions: Actions, action: Indices, context: int
) -> tuple[Indices, int]:
    """The action and its context, or the best ones that the gate admits.

    Actions are ranked by the sum of the values of their options.
    """
    if gate.passes(state, context):
        return action, context
    admitted = gate.allowed(state)
    if admitted[context]:  # the coolest context, if none keeps the limits
        return action, context
    ranked = ranked_actions(actions, agent, gate.world.observe(state))
    return next((a, c) for a, c in zip(ranked, map(actions.context, ranked)) if admitted[c])


def ranked_actions(actions: Actions, agent: Agent, observation: Floats) -> Indices:
    """One action for each context, (contexts, branches), the most valuable first."""
    parts = [part[0] for part in agent.advantages(observation[None])]
    every = actions.every
    value = np.sum([part[every[:, i]] for i, part in enumerate(parts)], axis=0)
    return every[np.argsort(-value, kind="stable")]


class Imagination:
    """Imagined transitions, predicted by a forecaster."""

    def __init__(
        self, world: World, model: Forecaster, actions: Actions, settings: TrainingSettings,
        gate: Gate | None,
    ):  # fmt: skip
        self.world, self.model, self.actions = world, model, actions
        self.settings, self.gate = settings, gate
        self.admitted, self.refused = 0, 0
        self._reference = cache(
            lambda graph: reference_of(model, world.device, world.graphs[graph])
        )

    def imagine(
        self, memory: Replay, agent: Agent, start: State, chance: float, rng: np.random.Generator
    ) -> None:
        """Add transitions of a random graph from the temperature of a state to the memory."""
        world = self.world
        graph = int(rng.integers(len(world.graphs)))
        state = State(graph, start.temperature, start.left)
        observation = world.observe(state)
        # half of the actions are random, so that contexts that the agent avoids are learned, too
        n = self.settings.imagined * self.settings.imagine_every
        chances = np.where(np.arange(n) % 2 == 0, 1.0, chance)
        best = agent.best(observation)
        actions = [explore(agent.branches, best, c, rng) for c in chances]
        contexts = world.contexts[[self.actions.context(action) for action in actions]]
        forecast = self.model.forecast(world.graphs[graph], contexts, start.temperature)
        kept = (
            np.ones(len(actions), dtype=bool) if self.gate is None else self.gate.admits(forecast)
        )
        self.admitted, self.refused = self.admitted + kept.sum(), self.refused + (~kept).sum()
        expected = forecast.time, forecast.energy, forecast.temperature
        costs = world.cost.of(*expected, self._reference(graph))
        for i in np.flatnonzero(kept):
            upcoming = int(rng.integers(len(world.graphs)))
            following = State(upcoming, float(forecast.temperature[i]), start.left - 1)
            reward = -min(float(costs[i]), self.settings.most)
            memory.add(observation, actions[i], reward, world.observe(following), start.left == 1)


class LearnedPolicy:
    """The policy of a trained agent.

    Parameters
    ----------
    world : World
        That of the training, or another one with the same contexts.
    """

    order = "arrival"

    def __init__(self, world: World, agent: Agent, actions: Actions, gate: Gate | None = None):
        self.world, self.agent, self.actions, self.gate = world, agent, actions, gate

    def act(self, state: State) -> int:
        """Number of the best context of the agent that the gate admits."""
        action = self.agent.best(self.world.observe(state))
        context = self.actions.context(action)
        if self.gate is not None:
            context = gated_action(self.gate, state, self.agent, self.actions, action, context)[1]
        return context
