"""Which programs to put together, and which partition repairs a bad pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, quoted
from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, checks_arguments
from msbgen.data.sharing import Objective, Sharing, shared_by_all
from msbgen.systems.beside.course import LawSettings, play_durations, warn_beyond
from msbgen.systems.beside.table import ProgramTable

Floats = NDArray[np.float64]

_MOST_PROGRAMS = 16
# Placements that are compared: 105 for 8 programs on 4 sockets, 2.6e6 for 16 on 4.
_MOST_PLACEMENTS = 3_000_000
_LAW = LawSettings()


@dataclass(frozen=True, eq=False)
class Placement:
    """The best placement of programs on sockets, or partition of one socket.

    Attributes
    ----------
    groups : tuple of tuple of int
        Programs of each socket.
    durations, slowdown : ndarray, (n_programs,)
        Predicted durations [s], and these over those alone on a socket.
    makespan : float
        The longest duration [s].
    missed : tuple of int
        Programs that miss their deadlines.
    value : float
        The objective: the makespan [s], the worst slowdown [1], or the worst duration over its
        deadline [1].
    compared : int
        Number of placements that were compared.
    worst : float
        The objective of the worst one of them.
    sharing : Sharing
        What the programs of the first socket share; a partition, for :func:`best_partition`.
    """

    groups: tuple[tuple[int, ...], ...]
    durations: Floats
    slowdown: Floats
    makespan: float
    missed: tuple[int, ...]
    value: float
    compared: int
    worst: float
    sharing: Sharing


@checks_arguments
def choose_placement(
    tables: Sequence[ProgramTable],
    sockets: Count,
    sharing: Sharing,
    *,
    objective: Objective = "makespan",
    deadlines: Sequence[float] | None = None,
    law: LawSettings = _LAW,
    progress: OnProgress | None = None,
) -> Placement:
    """The best placement of programs on equal sockets, exactly.

    Minimise, over all ways to put n programs on `sockets` sockets of at most ⌈n / sockets⌉ each,
    the longest duration, the worst slowdown, or the worst ratio of a duration to its deadline.
    Ties are broken by the sum of the durations.

    Parameters
    ----------
    tables : sequence of ProgramTable
        2 to 16 programs, at one clock.
    sockets : int
        Number of sockets.
    sharing : Sharing
        A socket: one cache, one pool; only its first ways, bandwidth, channel and `afterwards`
        have an effect.
    objective : {"makespan", "slowdown", "deadlines"}
        What is minimised.
    deadlines : sequence of float, (n_programs,)
        Longest durations [s]; inf for none.
    law : LawSettings
        Constants of the law.
    progress : callable, optional
        Called with (done, total) groups of programs played.

    Raises
    ------
    ArgumentError
        An argument is out of range, or there are more than 3 million placements.

    Notes
    -----
    Every group that can meet on a socket is played once, and groups of the same tables together
    once: 28 pairs for 8 programs on 4 sockets,
    whose 105 placements are then compared; about 0.2 s.
    """
    n = len(tables)
    if not 2 <= n <= _MOST_PROGRAMS:
        raise ArgumentError(f"{n} programs are given; 2 to {_MOST_PROGRAMS} are wanted.")
    if sockets >= n and sockets > 1:
        raise ArgumentError(f"sockets is {sockets} for {n} programs; fewer sockets are wanted.")
    limits = _limits(n, objective, deadlines)
    size = math.ceil(n / sockets)
    if _count(n, sockets, size) > _MOST_PLACEMENTS:
        raise ArgumentError(
            f"{n} programs on {sockets} sockets have more than {_MOST_PLACEMENTS:,} placements; "
            f"fewer programs are wanted."
        )
    warn_beyond(tables, _socket(sharing, tables, range(n)))
    alone = _alone(tables, sharing, law)
    sizes = {len(group) for groups in _placements(n, sockets, size) for group in groups}
    wanted = [g for s in sorted(sizes) for g in itertools.combinations(range(n), s)]
    found = _played_groups(tables, wanted, sharing, law, progress)
    costs = {
        group: (
            float(_cost(durations, alone[list(group)], limits[list(group)], objective).max()),
            float(durations.sum()),
        )
        for group, durations in found.items()
    }
    best: tuple[float, float] = (math.inf, math.inf)
    chosen = next(_placements(n, sockets, size))
    worst, compared = 0.0, 0
    for groups in _placements(n, sockets, size):
        value = max(costs[g][0] for g in groups), sum(costs[g][1] for g in groups)
        worst, compared = max(worst, value[0]), compared + 1
        if value < best:
            best, chosen = value, groups
    durations = np.empty(n)
    for group in chosen:
        durations[list(group)] = found[group]
    first = _socket(sharing, tables, chosen[0])
    return _placement(chosen, durations, alone, limits, best[0], compared, worst, first)


def _played_groups(
    tables: Sequence[ProgramTable],
    groups: Sequence[tuple[int, ...]],
    sharing: Sharing,
    law: LawSettings,
    progress: OnProgress | None,
) -> dict[tuple[int, ...], Floats]:
    """Durations of the programs of each group on one socket [s]; equal groups are played once."""
    first: dict[int, int] = {}
    alike = [first.setdefault(id(table), i) for i, table in enumerate(tables)]
    orders = {group: sorted(group, key=alike.__getitem__) for group in groups}
    keys = {group: tuple(alike[i] for i in order) for group, order in orders.items()}
    distinct = dict.fromkeys(keys.values())
    played: dict[tuple[int, ...], Floats] = {}
    for done, key in enumerate(distinct, start=1):
        socket = _socket(sharing, tables, key)
        played[key] = play_durations([tables[i] for i in key], socket, law=law)
        if progress:
            progress(done, len(distinct))
    # sorting is stable, so that each place of an order is that of its program in the group
    return {group: played[keys[group]][[orders[group].index(i) for i in group]] for group in groups}


@checks_arguments
def best_partition(
    tables: Sequence[ProgramTable],
    sharing: Sharing,
    *,
    objective: Objective = "makespan",
    deadlines: Sequence[float] | None = None,
    split_bandwidth: bool = False,
    law: LawSettings = _LAW,
    progress: OnProgress | None = None,
) -> Placement:
    """The partition of a shared cache into whole ways that repairs a bad group best.

    Each program gets one way or more of the first cache; the shared cache is compared, too, and
    is the answer where no partition is better.  With `split_bandwidth`, programs of a partition
    also get a share of the pool, in tenths.  Parameters and errors as :func:`choose_placement`,
    for 2 to 4 programs; of 3 and 4, all but the last get an even number of ways.
    """
    n = len(tables)
    if not 2 <= n <= 4:
        raise ArgumentError(f"{n} programs are given; 2 to 4 are wanted.")
    limits = _limits(n, objective, deadlines)
    alone = _alone(tables, sharing, law)
    everything = _socket(sharing, tables, range(n))
    everything = replace(everything, starts=sharing.starts)
    options = [everything]
    each = tuple(range(n))
    for ways in _parts(int(sharing.ways[0]), n, 1 if n == 2 else 2):
        apart = replace(everything, ways=tuple(map(float, ways)), cache=each)
        options.append(apart)
        if split_bandwidth and math.isfinite(sharing.bandwidth[0]):
            for shares in _parts(10, n, 1):
                pools = tuple(0.1 * s * sharing.bandwidth[0] for s in shares)
                options.append(replace(apart, bandwidth=pools, memory=each))
    best: tuple[float, float] = (math.inf, math.inf)
    chosen, durations, worst = everything, alone, 0.0
    for done, option in enumerate(options, start=1):
        played = play_durations(tables, option, law=law)
        if progress:
            progress(done, len(options))
        value = float(_cost(played, alone, limits, objective).max()), float(played.sum())
        worst = max(worst, value[0])
        if value < best:
            best, chosen, durations = value, option, played
    return _placement((each,), durations, alone, limits, best[0], len(options), worst, chosen)


def _limits(n: int, objective: str, deadlines: Sequence[float] | None) -> Floats:
    """Deadlines [s], inf for none."""
    if deadlines is None:
        if objective == "deadlines":
            raise ArgumentError("deadlines are missing; one for each program is wanted.")
        return np.full(n, math.inf)
    limits = np.asarray(deadlines, dtype=float)
    if limits.shape != (n,) or not np.all(limits > 0):
        raise ArgumentError(f"deadlines are {quoted(deadlines)}; {n} times above 0 s are wanted.")
    return limits


def _cost(durations: Floats, alone: Floats, limits: Floats, objective: str) -> Floats:
    """What is minimised, of each program."""
    if objective == "makespan":
        return durations
    return durations / (alone if objective == "slowdown" else limits)


def _socket(sharing: Sharing, tables: Sequence[ProgramTable], group: Sequence[int]) -> Sharing:
    """A socket with some of the programs, which share all of it."""
    clocks = [tables[i].frequency for i in group]
    return shared_by_all(
        len(group), ways=sharing.ways[0], bandwidth=sharing.bandwidth[0],
        frequency=[1.0 if math.isnan(clock) else clock for clock in clocks],
        channel=sharing.channel, afterwards=sharing.afterwards,
    )  # fmt: skip


def _alone(tables: Sequence[ProgramTable], sharing: Sharing, law: LawSettings) -> Floats:
    each = [play_durations([t], _socket(sharing, [t], [0]), law=law) for t in tables]
    return np.concatenate(each)


def _placement(
    groups: tuple[tuple[int, ...], ...],
    durations: Floats,
    alone: Floats,
    limits: Floats,
    value: float,
    compared: int,
    worst: float,
    sharing: Sharing,
) -> Placement:
    missed = tuple(np.flatnonzero(durations > limits).tolist())
    return Placement(
        groups, durations, durations / alone, float(durations.max()), missed, value, compared,
        worst, sharing,
    )  # fmt: skip


def _placements(n: int, sockets: int, size: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All partitions of n programs into `sockets` groups of at most `size` each, none empty."""

    def extend(left: tuple[int, ...], groups: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        if groups == 1:
            if len(left) <= size:
                yield (left,)
            return
        # the first program leads a group; the others must fit into the groups that are left
        least = max(1, len(left) - (groups - 1) * size)
        most = min(size, len(left) - (groups - 1))
        for many in range(least, most + 1):
            for others in itertools.combinations(left[1:], many - 1):
                rest = tuple(p for p in left[1:] if p not in others)
                for more in extend(rest, groups - 1):
                    yield ((left[0], *others), *more)

    yield from extend(tuple(range(n)), sockets)


def _count(n: int, sockets: int, size: int) -> int:
    """Number of such partitions."""
    if sockets == 1:
        return int(n <= size)
    least, most = max(1, n - (sockets - 1) * size), min(size, n - sockets + 1)
    return sum(
        math.comb(n - 1, many - 1) * _count(n - many, sockets - 1, size)
        for many in range(least, most + 1)
    )


def _parts(total: int, n: int, step: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as n parts of at least 1; all but the last one in steps."""
    if n == 1:
        if total >= 1:
            yield (total,)
        return
    for first in range(step, total - n + 2, step):
        for rest in _parts(total - first, n - 1, step):
            yield (first, *rest)
