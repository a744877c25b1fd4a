"""How an agent says a context: as one number, or with a say of each core.

One agent names a context.  With an agent a core, each says whether its core is on and at which
clock; a cluster has one clock, which is the highest that its cores ask for, as in Linux.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.worlds import World

Indices = NDArray[np.int64]


class Actions(Protocol):
    """Branches of which an agent names one option each.

    Attributes
    ----------
    branches : tuple of int
        Options of each.
    every : ndarray of int, (contexts, branches)
        One action for each context that can be said.
    """

    branches: tuple[int, ...]
    every: Indices

    def context(self, action: ArrayLike) -> int:
        """Number of the context that an action, (branches,), means."""
        ...


class OneAgent:
    """An agent that names a context.

    Parameters
    ----------
    world : World
    """

    def __init__(self, world: World):
        self.branches = (len(world.contexts),)
        self.every = np.arange(len(world.contexts))[:, None]

    def context(self, action: ArrayLike) -> int:
        """Return the context that was named."""
        return int(np.asarray(action).reshape(-1)[0])


class AgentPerCore:
    """Agents of which each says what its core does: off, or one of the cluster's clocks.

    Parameters
    ----------
    world : World
        Its contexts are every combination of cores and of some clocks of each cluster.

    Attributes
    ----------
    names : tuple of str
        Of the cores: cluster and number, as ``denver_0``.

    Raises
    ------
    ArgumentError
        A combination that is no context of the world.
    """

    def __init__(self, world: World):
        clusters, table = world.device.clusters, world.contexts
        self._clocks = [
            np.unique(table[table[:, 2 * i] > 0, 2 * i + 1]) for i in range(len(clusters))
        ]
        self._cluster = np.repeat(np.arange(len(clusters)), [c.cores for c in clusters])
        self.names = tuple(f"{c.name}_{i}" for c in clusters for i in range(c.cores))
        self.branches = tuple(len(self._clocks[c]) + 1 for c in self._cluster)
        known = {self._key(row): i for i, row in reversed(list(enumerate(table)))}
        self._number = known
        wanted = int(np.prod([len(k) * c.cores + 1 for k, c in zip(self._clocks, clusters)])) - 1
        if len(known) != wanted:
            raise ArgumentError(
                f"contexts are {len(known)} of the {wanted} combinations of cores and clocks; all "
                f"are wanted where each core has its say."
            )
        self.every = np.array([self._say(row) for row in table])

    def _say(self, row: NDArray[np.float64]) -> list[int]:
        """One action that means a context: the first cores of each cluster at its clock."""
        said: list[int] = []
        for i, clocks in enumerate(self._clocks):
            own = int((self._cluster == i).sum())
            on, level = int(row[2 * i]), int(np.searchsorted(clocks, row[2 * i + 1])) + 1
            said += [level] * on + [0] * (own - on)
        return said

    def _key(self, row: NDArray[np.float64]) -> tuple[float, ...]:
        """Cores and clocks of the clusters that have cores."""
        n = len(self._clocks)
        cores, clocks = row[0 : 2 * n : 2], row[1 : 2 * n : 2]
        return tuple(x for k, f in zip(cores, clocks) for x in (float(k), float(f) if k else 0.0))

    def context(self, action: ArrayLike) -> int:
        """The context that the cores' says make; where all are off, the first one runs slowly."""
        said = np.array(action, dtype=np.int64)
        if not said.any():
            said[0] = 1
        row = []
        for i, clocks in enumerate(self._clocks):
            own = said[self._cluster == i]
            on = int((own > 0).sum())
            row += [float(on), float(clocks[own.max() - 1]) if on else 0.0]
        return self._number[tuple(row)]
