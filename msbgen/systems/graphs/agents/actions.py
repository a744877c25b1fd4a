"""Actions of agents: the number of a context, or an option for every core.

With one agent for every core, each chooses whether its core is on and at which clock.  A cluster
has one clock: the highest that its cores choose, as in Linux.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.worlds import World

Indices = NDArray[np.int64]


class Actions(Protocol):
    """Branches; an action is one option of each."""

    # Number of options of each.
    branches: tuple[int, ...]
    # One action for each context, (contexts, branches).
    every: Indices

    def context(self, action: ArrayLike) -> int:
        """Number of the context of an action, (branches,)."""
        ...


class OneAgent:
    """Actions of one agent: the number of a context."""

    def __init__(self, world: World):
        self.branches = (len(world.contexts),)
        self.every = np.arange(len(world.contexts))[:, None]

    def context(self, action: ArrayLike) -> int:
        """Number of the context of an action."""
        return int(np.asarray(action).reshape(-1)[0])


class AgentPerCore:
    """Actions of one agent for every core: off, or one of the clocks of its cluster.

    The attribute `names` has the cores by cluster and number, as ``denver_0``.  ArgumentError: the
    contexts of the world lack a combination of cores and of some clocks of each cluster.
    """

    def __init__(self, world: World):
        clusters, table = world.device.clusters, world.contexts
        self._clocks = [
            np.unique(table[table[:, 2 * i] > 0, 2 * i + 1]) for i in range(len(clusters))
        ]
        self._cluster = np.repeat(np.arange(len(clusters)), [c.cores for c in clusters])
        self.names = tuple(f"{c.name}_{i}" for c in clusters for i in range(c.cores))
        self.branches = tuple(len(self._clocks[c]) + 1 for c in self._cluster)
        self._number = {self._key(row): i for i, row in reversed(list(enumerate(table)))}
        wanted = int(np.prod([len(k) * c.cores + 1 for k, c in zip(self._clocks, clusters)])) - 1
        if len(self._number) != wanted:
            raise ArgumentError(
                f"contexts are {len(self._number)} of the {wanted} combinations of cores and "
                f"clocks; all are wanted for one agent per core."
            )
        self.every = np.array([self._action(row) for row in table])

    def _action(self, row: NDArray[np.float64]) -> list[int]:
        """One action of a context: the first cores of each cluster are on, at its clock."""
        action: list[int] = []
        for i, clocks in enumerate(self._clocks):
            cores = int((self._cluster == i).sum())
            on, level = int(row[2 * i]), int(np.searchsorted(clocks, row[2 * i + 1])) + 1
            action += [level] * on + [0] * (cores - on)
        return action

    def _key(self, row: NDArray[np.float64]) -> tuple[float, ...]:
        """Cores and clocks of the clusters that have cores."""
        n = len(self._clocks)
        cores, clocks = row[0 : 2 * n : 2], row[1 : 2 * n : 2]
        return tuple(x for k, f in zip(cores, clocks) for x in (float(k), float(f) if k else 0.0))

    def context(self, action: ArrayLike) -> int:
        """Number of the context of an action; if all cores are off, the first one runs slowly."""
        options = np.array(action, dtype=np.int64)
        if not options.any():
            options[0] = 1
        row = []
        for i, clocks in enumerate(self._clocks):
            of_cluster = options[self._cluster == i]
            on = int((of_cluster > 0).sum())
            row += [float(on), float(clocks[of_cluster.max() - 1]) if on else 0.0]
        return self._number[tuple(row)]
