"""Policies without a forecast: fixed clocks, a thermal governor, HEFT."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.records import Fraction, Within, checks_arguments
from msbgen.systems.graphs.agents.worlds import State, World

Floats = NDArray[np.float64]


class Rule:
    """All cores at a fixed share of their clocks.

    The share is 0 for the lowest clocks and 1 for the highest, linear between.  `order`, "arrival"
    or "heft", says which ready task starts first.  ArgumentError: a share outside 0 to 1.
    """

    @checks_arguments
    def __init__(self, world: World, share: Fraction = 1.0, *, order: str = "arrival"):
        self.world, self.share, self.order = world, share, order

    def act(self, state: State) -> int:
        """Number of the context with all cores and the clocks closest to the share."""
        return nearest_context(self.world, self.share)


class ThermalGovernor(Rule):
    """All cores; clocks fall linearly as the temperature approaches the soft limit.

    Parameters
    ----------
    width : float
        Kelvins below the soft limit over which clocks fall from the highest to the lowest.
    """

    @checks_arguments
    def __init__(
        self, world: World, width: Annotated[float, Within(0, unit="K", above=True)] = 3.0
    ):
        super().__init__(world)
        self.width = width

    def act(self, state: State) -> int:
        """Number of the context with all cores at the clocks for the temperature."""
        room = (self.world.cost.soft - state.temperature) / self.width
        return nearest_context(self.world, float(np.clip(room, 0.0, 1.0)))


def all_fast(world: World) -> Rule:
    """Policy with all cores at their highest clocks."""
    return Rule(world)


def powersave(world: World) -> Rule:
    """Policy with all cores at their lowest clocks."""
    return Rule(world, 0.0)


def heft(world: World) -> Rule:
    """As :func:`all_fast`, tasks in HEFT's order (Topcuoglu et al., 2002)."""
    return Rule(world, order="heft")


def nearest_context(world: World, share: float) -> int:
    """Number of the context with the most cores and the clocks closest to a share."""
    device, table = world.device, world.contexts
    cores, off = np.zeros(len(table)), np.zeros(len(table))
    for i, cluster in enumerate(device.clusters):
        span = cluster.clocks[-1] - cluster.clocks[0]
        cores += table[:, 2 * i]
        off += np.abs(table[:, 2 * i + 1] - cluster.clocks[0] - share * span)
    most = np.flatnonzero(cores == cores.max())
    return int(most[off[most].argmin()])
