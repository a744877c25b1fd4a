"""What programs that run side by side share: caches, memory bandwidth, clocks and starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from msbgen.core.errors import ArgumentError, is_number, quoted

CHANNELS = ("regulator", "queue")
AFTERWARDS = ("idle", "loop")
# What a placement of programs, or a partition, minimises.
OBJECTIVES = ("makespan", "slowdown", "deadlines")
# A bandwidth above every demand [MB/s]: no regulator at all.
UNREGULATED = 1e5


@dataclass(frozen=True)
class Sharing:
    """Which resources programs share, and how.

    A program has a cache partition, of which it may be the only user, and a pool of bandwidth.

    Attributes
    ----------
    ways : tuple of float
        Ways of each cache partition [1].
    cache : tuple of int, (n_programs,)
        Partition of each program, counted from 0.
    bandwidth : tuple of float
        Bandwidth of each pool [MB/s]; inf for no limit.
    memory : tuple of int, (n_programs,)
        Pool of each program, counted from 0.
    frequency : tuple of float, (n_programs,)
        Core clock of each program, in the unit of its profiles.
    starts : tuple of float, (n_programs,)
        Start of each program [s].
    channel : {"regulator", "queue"}
        How a pool is shared: a regulator grants misses per period to the programs as they come, or
        a memory channel serves misses one after another.
    afterwards : {"idle", "loop"}
        What a program does once it has ended, until all have.
    """

    ways: tuple[float, ...]
    cache: tuple[int, ...]
    bandwidth: tuple[float, ...]
    memory: tuple[int, ...]
    frequency: tuple[float, ...]
    starts: tuple[float, ...]
    channel: str = "regulator"
    afterwards: str = "idle"

    def __post_init__(self) -> None:
        for name in ("ways", "bandwidth", "frequency"):
            for value in getattr(self, name):
                good = is_number(value) and value > 0
                if not good or (name != "bandwidth" and math.isinf(value)):
                    raise ArgumentError(f"{name} has {quoted(value)}; numbers above 0 are wanted.")
        for value in self.starts:
            if not is_number(value) or not 0 <= value < math.inf:
                raise ArgumentError(f"starts have {quoted(value)}; seconds from 0 on are wanted.")
        for name, groups in (("cache", self.ways), ("memory", self.bandwidth)):
            for value in getattr(self, name):
                if value not in range(len(groups)):
                    raise ArgumentError(
                        f"{name} has {quoted(value)}; the number of a group, from 0 to "
                        f"{len(groups) - 1}, is wanted."
                    )
        for name in ("memory", "frequency", "starts"):
            if len(getattr(self, name)) != len(self.cache):
                raise ArgumentError(
                    f"{name} has {len(getattr(self, name))} entries; one for each of the "
                    f"{len(self.cache)} programs is wanted."
                )
        for name, known in (("channel", CHANNELS), ("afterwards", AFTERWARDS)):
            if getattr(self, name) not in known:
                raise ArgumentError(
                    f"{name} is {quoted(getattr(self, name))}; one of {', '.join(known)} is wanted."
                )

    @property
    def size(self) -> int:
        """Number of programs."""
        return len(self.cache)

    def only(self, programs: Sequence[int]) -> Sharing:
        """The same machine with some of its programs."""
        kept: dict[str, Any] = {
            name: tuple(getattr(self, name)[i] for i in programs)
            for name in ("cache", "memory", "frequency", "starts")
        }
        return replace(self, **kept)


def shared_by_all(
    programs: int,
    *,
    ways: float,
    bandwidth: float = math.inf,
    frequency: float | Sequence[float] = 1.0,
    starts: float | Sequence[float] = 0.0,
    channel: str = "regulator",
    afterwards: str = "idle",
) -> Sharing:
    """One cache and one pool of bandwidth that all programs share.

    A single `frequency` or start is that of all programs.

    Examples
    --------
    >>> shared_by_all(2, ways=20, bandwidth=560).cache
    (0, 0)
    """
    every = (0,) * programs
    return Sharing(
        ways=(ways,),
        cache=every,
        bandwidth=(bandwidth,),
        memory=every,
        frequency=_for_each(frequency, programs),
        starts=_for_each(starts, programs),
        channel=channel,
        afterwards=afterwards,
    )


def _for_each(value: float | Sequence[float], programs: int) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,) * programs
