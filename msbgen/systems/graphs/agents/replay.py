"""Replay memory: the last transitions, sampled at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.systems.graphs.agents.worlds import check_count

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions of episodes."""

    # Before the step, (n, d).
    observation: Floats
    # (n, branches)
    action: Indices
    # (n,)
    reward: Floats
    # After the step, (n, d).
    following: Floats
    # 1 where the episode ended, (n,).
    done: Floats


class Replay:
    """Memory of the last transitions of one source, the device or a model.

    It holds `capacity` transitions; `observed` and `branches` are sizes of observation and action.
    """

    def __init__(self, capacity: int, observed: int, branches: int = 1):
        check_count(capacity, "capacity")
        self.capacity, self.size, self._next = capacity, 0, 0
        self._stored = Transitions(
            observation=np.empty((capacity, observed), dtype=np.float32),
            action=np.empty((capacity, branches), dtype=np.int64),
            reward=np.empty(capacity, dtype=np.float32),
            following=np.empty((capacity, observed), dtype=np.float32),
            done=np.empty(capacity, dtype=np.float32),
        )

    def add(
        self,
        observation: ArrayLike,
        action: ArrayLike,
        reward: float,
        following: ArrayLike,
        done: bool,
    ) -> None:
        """Add a transition; it replaces the oldest one if the memory is full."""
        at = self._next
        values = observation, action, reward, following, done
        for array, value in zip(vars(self._stored).values(), values):
            array[at] = value
        self._next = (at + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n: int, rng: np.random.Generator) -> Transitions:
        """Sample n transitions uniformly, with replacement."""
        at = rng.integers(self.size, size=n)
        return Transitions(*(array[at] for array in vars(self._stored).values()))
