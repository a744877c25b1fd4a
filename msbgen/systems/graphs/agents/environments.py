"""Worlds as environments of Gymnasium and of PettingZoo (parallel).

A step is a graph, an action is a context, and the reward is minus the cost.  In PettingZoo, every
core is an agent; all have the same observation and the same reward.  Both libraries come with the
extra ``[graph]`` and are imported when an environment is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import load_library
from msbgen.systems.graphs.agents.actions import AgentPerCore
from msbgen.systems.graphs.agents.worlds import OBSERVED, State, World

if TYPE_CHECKING:
    import gymnasium
    from pettingzoo import ParallelEnv

# Observations are clipped to this range; only extreme temperatures leave it.
_LEAST, _MOST = -10.0, 10.0
_PURPOSE = "environments"


class Episode:
    """Successive episodes of a world; both environments use it."""

    def __init__(self, world: World):
        self.world = world
        self._rng = np.random.default_rng()
        self._graphs = np.zeros(world.length, dtype=np.int64)
        self._state: State | None = None

    def begin(self, seed: int | None) -> NDArray[np.float32]:
        """Draw an episode, from a seed if given; returns the first observation."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._graphs, temperature = self.world.draw(self._rng)
        self._state = State(int(self._graphs[0]), temperature, self.world.length)
        return self.observation()

    def play(self, context: int) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Run the next graph; returns observation, reward, end of the episode, and measurements."""
        if self._state is None or self._state.left == 0:
            raise RuntimeError("the episode is over; call reset first")
        state = self._state
        step = self.world.step(state, context, self._rng)
        place = min(self.world.length - state.left + 1, self.world.length - 1)
        self._state = State(int(self._graphs[place]), step.last, state.left - 1)
        figures = {name: value for name, value in vars(step).items() if name != "cost"}
        return self.observation(), -step.cost, state.left == 1, {"context": context, **figures}

    def observation(self) -> NDArray[np.float32]:
        """Observation of the current state."""
        assert self._state is not None
        return np.clip(self.world.observe(self._state), _LEAST, _MOST).astype(np.float32)


class _Single:
    """Gymnasium's interface of an episode."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    render_mode = None

    def __init__(self, world: World, spaces: Any):
        self._episode = Episode(world)
        self.action_space = spaces.Discrete(len(world.contexts))
        self.observation_space = spaces.Box(_LEAST, _MOST, (len(OBSERVED),), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)  # type: ignore[misc]
        return self._episode.begin(seed), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Run the next graph in a context."""
        seen, reward, done, figures = self._episode.play(int(action))
        return seen, reward, done, False, figures


class _Cores:
    """PettingZoo's interface of an episode."""

    metadata: dict[str, Any] = {"name": "msbgen_cores_v0", "render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, world: World, spaces: Any):
        self._episode, self._actions = Episode(world), AgentPerCore(world)
        self.possible_agents = list(self._actions.names)
        self.agents: list[str] = []
        self._action_spaces = {
            name: spaces.Discrete(n) for name, n in zip(self._actions.names, self._actions.branches)
        }
        box = spaces.Box(_LEAST, _MOST, (len(OBSERVED),), np.float32)
        self._observation_spaces = dict.fromkeys(self._actions.names, box)

    def observation_space(self, agent: str) -> Any:
        """Observations of an agent."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Actions of an agent: off, or a clock."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, dict[str, Any]]]:
        """Begin an episode."""
        self.agents = list(self.possible_agents)
        seen = self._episode.begin(seed)
        return {name: seen for name in self.agents}, {name: {} for name in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Run the next graph in the context of the cores' actions."""
        chosen = [int(actions[name]) for name in self.agents]
        seen, reward, done, figures = self._episode.play(self._actions.context(chosen))
        names = self.agents
        if done:
            self.agents = []
        return tuple(dict.fromkeys(names, value) for value in (seen, reward, done, False, figures))


def gymnasium_environment(world: World) -> gymnasium.Env[Any, Any]:
    """Gymnasium environment of a world; its actions are the numbers of contexts.

    Raises
    ------
    ArgumentError
        Gymnasium is not installed.
    """
    library = load_library("gymnasium", "graph", _PURPOSE)
    made = type("GraphContexts", (_Single, library.Env), {})
    return made(world, library.spaces)


def pettingzoo_environment(world: World) -> ParallelEnv[str, Any, Any]:
    """Parallel PettingZoo environment of a world, with an agent for every core.

    Raises
    ------
    ArgumentError
        PettingZoo or Gymnasium are not installed; contexts lack a combination of cores and clocks.
    """
    library = load_library("pettingzoo", "graph", _PURPOSE)
    spaces = load_library("gymnasium", "graph", _PURPOSE).spaces
    made = type("CoreClocks", (_Cores, library.ParallelEnv), {})
    return made(world, spaces)
