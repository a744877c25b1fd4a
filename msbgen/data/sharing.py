"""What programs that run side by side share: caches, memory bandwidth, clocks and starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

from msbgen.core.errors import ArgumentError, quoted
from msbgen.core.records import Limit, Within, check_fields

Channel = Literal["regulator", "queue"]
Afterwards = Literal["idle", "loop"]
# What a placement of programs, or a partition, minimises.
Objective = Literal["makespan", "slowdown", "deadlines"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
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

    ways: Annotated[tuple[float, ...], Within(0, above=True)]
    cache: tuple[int, ...]
    bandwidth: tuple[Limit, ...]
    memory: tuple[int, ...]
    frequency: Annotated[tuple[float, ...], Within(0, above=True)]
    starts: Annotated[tuple[float, ...], Within(0, unit="s")]
    channel: Channel = "regulator"
    afterwards: Afterwards = "idle"

    def __post_init__(self) -> None:
        check_fields(self)
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
    channel: Channel = "regulator",
    afterwards: Afterwards = "idle",
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
