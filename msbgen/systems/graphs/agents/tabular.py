"""Tabular Q-learning (Watkins, 1989): a value for each action in each discrete state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.records import Count, ShareOrNone, Within, check_fields
from msbgen.systems.graphs.agents.replay import Transitions

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Edges of the bins of some numbers of an observation (:data:`.worlds.OBSERVED`).
BINS: Mapping[int, Sequence[float]] = {
    0: (0.0, 0.02, 0.06, 0.15, 0.4),
    2: (-0.2, -0.1),
    4: (0.2, 0.35),
}


@dataclass(eq=False)
class TabularQ:
    """An agent with a table of values."""

    actions: Count
    # Bin edges, by the index of the number in an observation.
    bins: Mapping[int, Sequence[float]] = field(default_factory=lambda: BINS)
    # γ
    discount: ShareOrNone = 0.9
    # Least step size towards a target; on the n-th visit it is 1/n if that is larger.
    rate: Annotated[float, Within(0, 1, above=True)] = 0.1
    table: Floats = field(init=False)
    visits: Indices = field(init=False)

    def __post_init__(self) -> None:
        check_fields(self)
        states = int(np.prod([len(edges) + 1 for edges in self.bins.values()]))
        self.table = np.zeros((states, self.actions))
        self.visits = np.zeros((states, self.actions), dtype=np.int64)

    @property
    def branches(self) -> tuple[int, ...]:
        """One branch, of all actions."""
        return (self.actions,)

    def states(self, observation: ArrayLike) -> Indices:
        """Rows of the table for observations (n, d), (n,)."""
        table = np.atleast_2d(np.asarray(observation, dtype=float))
        row = np.zeros(len(table), dtype=np.int64)
        for column, edges in self.bins.items():
            place = np.searchsorted(np.asarray(edges), table[:, column], side="right")
            row = row * (len(edges) + 1) + place
        return row

    def values(self, rows: Indices) -> Floats:
        """Values of the actions in some states, (n, actions); -inf where one was never tried.

        A state without any tried action has the mean values of the other states.
        """
        tried = self.visits[rows] > 0
        values = np.where(tried, self.table[rows], -np.inf)
        blank = ~tried.any(axis=1)
        if blank.any() and self.visits.any():
            count = (self.visits > 0).sum(axis=0)
            with np.errstate(invalid="ignore"):
                mean = self.table.sum(axis=0) / count
            values[blank] = np.where(count > 0, mean, -np.inf)
        return values

    def best(self, observation: ArrayLike) -> Indices:
        """The best tried action, (1,)."""
        return np.array([int(self.values(self.states(observation))[0].argmax())])

    def advantages(self, observation: ArrayLike) -> list[Floats]:
        """Values of the actions, (n, actions), as the only branch."""
        return [self.values(self.states(observation))]

    def learn(self, batch: Transitions) -> float:
        """Update the values of a batch one by one; returns the mean distance to the targets."""
        now, then = self.states(batch.observation), self.states(batch.following)
        distance = 0.0
        steps = zip(now, batch.action[:, 0], batch.reward, then, batch.done)
        for s, a, r, t, done in steps:
            future = 0.0 if done else float(self.values(t[None])[0].max())
            target = float(r) + self.discount * (future if future > -np.inf else 0.0)
            self.visits[s, a] += 1
            step = max(self.rate, 1.0 / self.visits[s, a])
            distance += abs(target - self.table[s, a])
            self.table[s, a] += step * (target - self.table[s, a])
        return float(distance / len(now))
