"""Tabular Q-learning (Watkins, 1989): a value for each action in each of a few states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.replay import Transitions

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Numbers of an observation (:data:`.worlds.OBSERVED`) that tell states apart, and where.
BINS: Mapping[int, Sequence[float]] = {
    0: (0.0, 0.02, 0.06, 0.15, 0.4),
    2: (-0.2, -0.1),
    4: (0.2, 0.35),
}


@dataclass(eq=False)
class TabularQ:
    """An agent with a table.

    Parameters
    ----------
    actions : int
    bins : mapping of int to sequence of float
        Edges by the number of an observation that is looked at.
    discount : float
        γ.
    rate : float
        Share of the way to a target that a value goes, at least: 1/n on its n-th visit before.
    """

    actions: int
    bins: Mapping[int, Sequence[float]] = field(default_factory=lambda: BINS)
    discount: float = 0.9
    rate: float = 0.1
    table: Floats = field(init=False)
    visits: Indices = field(init=False)

    def __post_init__(self) -> None:
        if not (0 <= self.discount < 1 and 0 < self.rate <= 1 and self.actions > 0):
            raise ArgumentError(
                f"actions are {self.actions}, discount {self.discount}, rate {self.rate}; actions "
                f"and numbers from 0 to 1 are wanted."
            )
        states = int(np.prod([len(edges) + 1 for edges in self.bins.values()]))
        self.table = np.zeros((states, self.actions))
        self.visits = np.zeros((states, self.actions), dtype=np.int64)

    @property
    def branches(self) -> tuple[int, ...]:
        """One, of all actions."""
        return (self.actions,)

    def states(self, observation: ArrayLike) -> Indices:
        """Rows of the table that observations (n, d) mean, (n,)."""
        table = np.atleast_2d(np.asarray(observation, dtype=float))
        row = np.zeros(len(table), dtype=np.int64)
        for column, edges in self.bins.items():
            place = np.searchsorted(np.asarray(edges), table[:, column], side="right")
            row = row * (len(edges) + 1) + place
        return row

    def values(self, rows: Indices) -> Floats:
        """Values of the actions in some states, (n, actions); -inf where one was never tried.

        A state where nothing was tried is thought to be like the mean of the others.
        """
        tried = self.visits[rows] > 0
        found = np.where(tried, self.table[rows], -np.inf)
        blank = ~tried.any(axis=1)
        if blank.any() and self.visits.any():
            count = (self.visits > 0).sum(axis=0)
            with np.errstate(invalid="ignore"):
                mean = self.table.sum(axis=0) / count
            found[blank] = np.where(count > 0, mean, -np.inf)
        return found

    def best(self, observation: ArrayLike) -> Indices:
        """The best action of those that were tried, (1,)."""
        return np.array([int(self.values(self.states(observation))[0].argmax())])

    def advantages(self, observation: ArrayLike) -> list[Floats]:
        """Values of the actions, (n, actions), as the only branch."""
        return [self.values(self.states(observation))]

    def learn(self, batch: Transitions) -> float:
        """Move the values of a batch, one after another; returns the mean distance to targets."""
        now, then = self.states(batch.observation), self.states(batch.following)
        off = 0.0
        steps = zip(now, batch.action[:, 0], batch.reward, then, batch.done)
        for s, a, r, t, done in steps:
            later = 0.0 if done else float(self.values(t[None])[0].max())
            target = float(r) + self.discount * (later if later > -np.inf else 0.0)
            self.visits[s, a] += 1
            step = max(self.rate, 1.0 / self.visits[s, a])
            off += abs(target - self.table[s, a])
            self.table[s, a] += step * (target - self.table[s, a])
        return float(off / len(now))
