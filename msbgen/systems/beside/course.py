"""How programs run that share a cache and memory bandwidth, from tables of each alone.

The law, in steps of at most 1 ms:

- **Footprint.** In a window of time that ends now, a program used some lines.  This footprint D
  grows as ``dD/dt`` = the rate at which the program alone misses with D ways, as every such miss
  is a line that the window did not have (higher-order theory of locality, Xiang et al., 2013).
  All programs of a cache are followed over the same windows.
- **Misses.** A line with a reuse distance of x ways was last used at the begin of the window in
  which its program's footprint is x.  Since then the others used the lines of their footprints
  over that window, D.  The line was displaced if W or more lines came into its set: with
  probability P(Poisson(x + D) ≥ W).
- **Time.** The table has the time of a segment with so many misses.
- **Bandwidth.** A regulator lets all programs run until the misses of a period are used up.  Each
  program then runs on to its next cluster of misses, and waits for the next period.  What a program
  is left is the pool less what the others are granted; the table has the time with that bandwidth.
  A channel that serves misses one after another adds a wait to each miss.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.draws import generator
from msbgen.core.errors import (
    ArgumentError,
    MeasurementError,
)
from msbgen.core.lazy import lazy_module
from msbgen.core.machine import OnProgress
from msbgen.core.records import (
    NotNegative,
    Positive,
    Seconds,
    Share,
    Within,
    check_fields,
    checks_arguments,
)
from msbgen.data.build import make_profiles
from msbgen.data.sharing import UNREGULATED, Sharing
from msbgen.systems.beside._kernels import PER_WAY, play_programs
from msbgen.systems.beside.columns import Columns
from msbgen.systems.beside.table import (
    DISTANCES,
    ProgramTable,
    denser_bandwidths,
    miss_probability,
    with_bandwidths,
)

special = lazy_module("scipy.special")

_log = logging.getLogger("msbgen")

Floats = NDArray[np.float64]

# Lines of overflow tables end at this multiple of the whole cache: fuller sets all overflow.
_FAR = 4.0
_MOST_PROGRAMS, _MOST_READINGS, _FIRST_READINGS = 16, 1 << 22, 512


@dataclass(frozen=True)
class LawSettings:
    """Constants of the law.

    Attributes
    ----------
    step : float
        Longest step [s].
    regulator_period : float
        Period in which a regulator grants misses [s].
    cluster : float
        Misses that come together, so that a program waits for a regulator once for all of them.
    lookahead : float
        Time by which a prefetcher is ahead of the core [s].
    doubt : float
        Standard deviation of the logarithm of predicted slowdowns about true ones, over that
        logarithm: a program that hardly slows down is predicted well [1].
    table_doubt : float
        Standard deviation of the logarithm of a table's durations about mean ones [1].
    """

    step: Seconds = 1e-3
    regulator_period: Seconds = 1e-3
    cluster: Positive = 20.0
    lookahead: NotNegative = 200e-9
    doubt: NotNegative = 0.055
    table_doubt: NotNegative = 0.004

    def __post_init__(self) -> None:
        check_fields(self)


_LAW = LawSettings()


@dataclass(frozen=True, eq=False)
class Course:
    """How programs ran side by side; n programs, from the instant 0 on.

    Attributes
    ----------
    tasks : tuple of str
        Names.
    durations, alone : ndarray, (n,)
        Durations of the first runs from their starts [s], side by side and with all resources of
        their groups for themselves.
    interval : float
        Length of the intervals [s]; the last one ends with the last program.
    counts : ndarray, (n, n_intervals, 4)
        Instructions, requests, misses and prefetched misses of the first run in each interval.
    ways : ndarray, (n, n_intervals)
        Lines in the cache, in ways, at the end of each interval.
    bandwidth : ndarray, (n, n_intervals)
        Traffic of the misses of the first run [MB/s].
    segment_seconds, segment_alone : ndarray, (n, n_segments)
        Time of each segment of progress [s], side by side and alone.
    progress : ndarray, (n, n_segments + 1)
        Shares of each program's work between which the segments lie.
    sharing : Sharing
        What they shared.
    columns : tuple of Columns
        Names of each program's resources and counters.
    """

    tasks: tuple[str, ...]
    durations: Floats
    alone: Floats
    interval: float
    counts: Floats
    ways: Floats
    bandwidth: Floats
    segment_seconds: Floats
    segment_alone: Floats
    progress: Floats
    sharing: Sharing
    columns: tuple[Columns, ...]

    @property
    def times(self) -> Floats:
        """Ends of the intervals [s], (n_intervals,)."""
        return _ends_of_intervals(
            self.interval, self.ways.shape[1], self.durations + np.array(self.sharing.starts)
        )

    @property
    def slowdown(self) -> Floats:
        """Durations over those alone, (n,)."""
        return self.durations / self.alone

    @property
    def slowdown_by_progress(self) -> Floats:
        """Time of each segment over that alone, (n, n_segments)."""
        return self.segment_seconds / self.segment_alone


def play(
    tables: Sequence[ProgramTable],
    sharing: Sharing,
    *,
    interval: float = 0.01,
    law: LawSettings = _LAW,
) -> Course:
    """The course of programs that run side by side.

    Parameters
    ----------
    tables : sequence of ProgramTable
        What each of 1 to 16 programs does alone, at its clock.
    sharing : Sharing
        Caches [ways], pools of bandwidth [MB/s], clocks and starts [s].
    interval : float
        Length of the intervals of the result [s].
    law : LawSettings
        Constants.

    Returns
    -------
    Course

    Raises
    ------
    ArgumentError
        Tables and sharing do not fit: another number, another clock, more ways than the cache.
    MeasurementError
        The tables are of different caches or numbers of segments, or the programs do not end.

    Notes
    -----
    5 to 10 ms for two programs of a second.  A program with itself suffers alike in both roles.

    Sources: footprints, Xiang, Ding, Luo and Bao, HOTL: a higher order theory of locality, ASPLOS
    2013; shared reuse, Chandra, Guo, Kim and Solihin, HPCA 2005.
    """
    _check(tables, sharing, interval)
    together = _played(tables, sharing, interval, law)
    alone = [_played_alone(tables, sharing, i, law) for i in range(len(tables))]
    warn_beyond(tables, sharing)
    counts, ways, seconds, ends = together
    lasting = np.diff(_ends_of_intervals(interval, ways.shape[1], ends), prepend=0.0)
    traffic = counts[:, :, 2] * tables[0].columns.line_size / _no_instant(lasting) / 1e6
    return Course(
        tuple(table.task for table in tables), ends - np.array(sharing.starts),
        np.concatenate([one[3] for one in alone]), interval, counts, ways, traffic, seconds,
        np.concatenate([one[2] for one in alone]), np.stack([t.progress for t in tables]), sharing,
        tuple(table.columns for table in tables),
    )  # fmt: skip


def play_durations(
    tables: Sequence[ProgramTable], sharing: Sharing, *, law: LawSettings = _LAW
) -> Floats:
    """Durations of the first runs [s], (n,), of :func:`play`, and nothing else."""
    _check(tables, sharing, 1.0)
    return _played(tables, sharing, math.inf, law)[3] - np.array(sharing.starts)


def course_profiles(course: Course) -> list[xr.Dataset]:
    """A profile dataset of each program: counters per interval, and the ways that it held.

    Each has one context: the ways and the bandwidth of its groups, and its clock.  Beside the
    counters of the tables, ``held_ways`` and ``used_bandwidth`` (context, time) have the ways and
    the traffic [MB/s] over time, and ``slowdown`` (segment,) the time of each segment over that
    alone; ``progress`` (segment,) has the share of the work at its end.
    """
    made = []
    for i, columns in enumerate(course.columns):
        start, size = course.sharing.starts[i], course.durations[i] / course.interval
        ends = start + course.interval * np.arange(1, max(1, math.ceil(size - 1e-9)) + 1)
        known = np.append(0.0, course.times)
        sums = np.concatenate([np.zeros((1, 4)), np.cumsum(course.counts[i], axis=0)])
        # the program's intervals begin at its start
        counts = np.stack([np.diff(np.interp(ends, known, c), prepend=0.0) for c in sums.T], axis=1)
        held = np.interp(ends, known[1:], course.ways[i])
        lasting = np.diff(np.minimum(ends, start + course.durations[i]), prepend=start)
        traffic = counts[:, 2] * columns.line_size / _no_instant(lasting) / 1e6
        names = {
            columns.instructions: "instructions retired",
            columns.requests: "last-level cache requests",
            columns.misses: "last-level cache misses",
            columns.prefetched: "prefetched last-level cache misses",
        }
        # prefetched misses are those of tables that tell them apart
        counted = counts.sum(axis=0) > 0
        names = {name: text for (name, text), some in zip(names.items(), counted) if some}
        sharing = course.sharing
        bandwidth = sharing.bandwidth[sharing.memory[i]]
        context = [
            sharing.ways[sharing.cache[i]],
            bandwidth if math.isfinite(bandwidth) else UNREGULATED,
            sharing.frequency[i],
        ]
        profiles = make_profiles(
            counts[None][..., counted], course.durations[i : i + 1], [context],
            interval=course.interval,
            resources={
                columns.ways: _labels("1", "ways of the shared cache"),
                columns.bandwidth: _labels("MB s-1", "shared memory bandwidth"),
                columns.frequency: _labels("GHz", "core clock frequency"),
            },
            counters={n: _labels("1", text) for n, text in names.items()},
            attrs={
                "task": course.tasks[i],
                "source": f"predicted beside {len(course.tasks) - 1} others",
            },
        )  # fmt: skip
        made.append(
            profiles.assign(
                held_ways=(("context", "time"), held[None],
                           _labels("1", "lines in the cache, in ways")),
                used_bandwidth=(("context", "time"), traffic[None],
                                _labels("MB s-1", "traffic of the misses")),
                slowdown=(("segment",), course.slowdown_by_progress[i],
                          _labels("1", "time over that alone, by progress")),
                progress=(("segment",), course.progress[i, 1:],
                          _labels("1", "share of the work at the segment's end")),
            )
        )  # fmt: skip
    return made


def course_dataset(course: Course, bounds: Floats) -> xr.Dataset:
    """All of a course, with its bounds (n, 2), as one dataset.

    Dims program, time (ends of the intervals [s]), segment, and bound.  Segments end at shares
    ``progress`` of a program's work.
    """
    series = ("program", "time")
    events = {
        "instructions": "instructions retired",
        "cache_requests": "last-level cache requests",
        "cache_misses": "last-level cache misses",
        "prefetched_misses": "prefetched last-level cache misses",
    }
    segments = ("program", "segment")
    data = {
        name: (series, course.counts[:, :, k], _labels("1", text))
        for k, (name, text) in enumerate(events.items())
    } | {
        "held_ways": (series, course.ways, _labels("1", "lines in the cache, in ways")),
        "used_bandwidth": (series, course.bandwidth, _labels("MB s-1", "traffic of the misses")),
        "slowdown": (segments, course.slowdown_by_progress,
                     _labels("1", "time over that alone, by progress")),
        "progress": (segments, course.progress[:, 1:],
                     _labels("1", "share of the work at the segment's end")),
        "duration": (("program",), course.durations, _labels("s", "duration beside the others")),
        "duration_alone": (("program",), course.alone, _labels("s", "duration alone")),
        "duration_bounds": (("program", "bound"), bounds,
                            _labels("s", "lower and upper bounds of the duration")),
    }  # fmt: skip
    times = ("time", course.times, _labels("s", "end of the interval"))
    return xr.Dataset(
        data,
        coords={"program": list(course.tasks), "time": times},
        attrs={"schema": "msbgen-beside/1", "interval": course.interval},
    )


@checks_arguments
def duration_bounds(
    tables: Sequence[ProgramTable],
    sharing: Sharing,
    level: Share = 0.95,
    *,
    draws: Annotated[int, Within(2, 10_000)] = 40,
    rng: np.random.Generator | int = 0,
    law: LawSettings = _LAW,
    progress: OnProgress | None = None,
) -> Floats:
    """Lower and upper bounds of each duration [s], (n, 2), that hold with probability `level`.

    Each draw plays the programs at other speeds: each one's times are multiplied by a factor with
    the deviation of its table's `doubt`.  Its slowdown is then raised to a power of mean 1 and
    deviation ``law.doubt``, and multiplied by a factor with the deviation ``law.table_doubt``.
    Bounds are normal quantiles of the logarithms over `draws`.  Copies of one program with one
    start and one group have the same bounds, of the draws of all of them.  `progress` is called
    with (done, total) draws.
    """
    _check(tables, sharing, 1.0)
    drawn = generator(rng)
    n = len(tables)
    slowdown = np.log(play_durations(tables, sharing, law=law) / _alone(tables, sharing, law))
    spread = np.hypot(law.doubt * slowdown, law.table_doubt)
    found = np.empty((draws, n))
    for d in range(draws):
        factors = np.exp([t.doubt * z for t, z in zip(tables, drawn.standard_normal(n))])
        faster = [replace(t, seconds=t.seconds * f) for t, f in zip(tables, factors)]
        ends = _played(faster, sharing, math.inf, law)[3] - np.array(sharing.starts)
        found[d] = np.log(ends) + spread * drawn.standard_normal(n)
        if progress:
            progress(d + 1, draws)
    copies: dict[tuple[object, ...], list[int]] = {}
    for i, table in enumerate(tables):
        place = sharing.cache[i], sharing.memory[i], sharing.starts[i]
        copies.setdefault((id(table), *place), []).append(i)
    middle, deviation = np.empty(n), np.empty(n)
    for alike in copies.values():
        middle[alike] = found[:, alike].mean()
        deviation[alike] = found[:, alike].std(ddof=1)
    quantiles = special.ndtri([(1 - level) / 2, (1 + level) / 2])
    return np.exp(middle[:, None] + quantiles * deviation[:, None])


def _check(tables: Sequence[ProgramTable], sharing: Sharing, interval: float) -> None:
    if not 1 <= len(tables) <= _MOST_PROGRAMS or len(tables) != sharing.size:
        raise ArgumentError(
            f"{len(tables)} tables are given for {sharing.size} programs; one each, up to "
            f"{_MOST_PROGRAMS}, is wanted."
        )
    if not 0 < interval < math.inf:
        raise ArgumentError(f"interval is {interval} s; more than 0 s is wanted.")
    first = tables[0]
    for table, clock in zip(tables, sharing.frequency):
        if not math.isnan(table.frequency) and abs(table.frequency / clock - 1) > 1e-6:
            raise ArgumentError(
                f"{table.task}: its table is at a clock of {table.frequency:g}, and the sharing "
                f"has {clock:g}; equal clocks are wanted: make the table at {clock:g}."
            )
        sizes = [(t.most_ways, t.columns.way_size, t.columns.line_size) for t in (first, table)]
        if sizes[0] != sizes[1]:
            raise MeasurementError(
                f"{table.task}: was measured with a cache of {sizes[1][0]} ways of "
                f"{sizes[1][1] / 1024:g} KiB, and {first.task} with {sizes[0][0]} of "
                f"{sizes[0][1] / 1024:g} KiB; programs of one machine are wanted."
            )
        if len(table.requests) != len(first.requests):
            raise MeasurementError(
                f"{table.task}: has {len(table.requests)} segments, and {first.task} "
                f"{len(first.requests)}; equal numbers are wanted."
            )
    if max(sharing.ways) > first.most_ways:
        raise ArgumentError(
            f"ways are {max(sharing.ways):g}; at most the {first.most_ways} of the tables are "
            f"wanted."
        )


def warn_beyond(tables: Sequence[ProgramTable], sharing: Sharing) -> None:
    """Warn once for each program of a bandwidth beyond those at which it was measured."""
    warned = set()
    for table, pool in zip(tables, sharing.memory):
        highest, wanted = float(table.bandwidth[-1]), sharing.bandwidth[pool]
        if highest < min(wanted, UNREGULATED) and table.task not in warned:
            warned.add(table.task)
            text = "no limit" if wanted >= UNREGULATED else f"{wanted:g} MB/s"
            _log.warning(
                "%s: was measured with up to %g MB/s, and %s is wanted: its times there are taken "
                "as those with %g MB/s; measure it without a limit (1000000 MB/s).",
                table.task, highest, text, highest,
            )  # fmt: skip


def _labels(units: str, text: str) -> dict[str, str]:
    """Attributes of a variable."""
    return {"units": units, "long_name": text}


def _ends_of_intervals(interval: float, many: int, ends: Floats) -> Floats:
    """Ends of the intervals [s], (many,), of programs that end at the instants `ends` (n,)."""
    times: Floats = interval * np.arange(1.0, many + 1)
    times[-1] = ends.max()
    return times


def _no_instant(lasting: Floats) -> Floats:
    """Lengths of intervals [s], at least the shortest step."""
    return np.maximum(lasting, 1e-9)


@lru_cache(maxsize=64)
def _overflow(ways: tuple[float, ...], most_ways: int) -> Floats:
    """Probability that sets overflow, over lines [1 / PER_WAY ways], (n_caches, n_lines)."""
    lines = np.arange(int(PER_WAY * _FAR * most_ways) + 2) / PER_WAY
    return miss_probability(lines, ways)


def _alone(tables: Sequence[ProgramTable], sharing: Sharing, law: LawSettings) -> Floats:
    """Durations with all resources of their groups for themselves [s], (n,)."""
    return np.concatenate([_played_alone(tables, sharing, i, law)[3] for i in range(len(tables))])


def _played_alone(
    tables: Sequence[ProgramTable], sharing: Sharing, i: int, law: LawSettings
) -> tuple[Floats, Floats, Floats, Floats]:
    """:func:`_played` of one program without the others, from the instant 0 on."""
    return _played([tables[i]], replace(sharing.only([i]), starts=(0.0,)), math.inf, law)


def _played(
    tables: Sequence[ProgramTable], sharing: Sharing, interval: float, law: LawSettings
) -> tuple[Floats, Floats, Floats, Floats]:
    """Counts (n, t, 4), ways (n, t), time of segments (n, s) and instants of ends (n,)."""
    columns = tables[0].columns
    levels = tables[0].bandwidth
    if any(not np.array_equal(levels, t.bandwidth) for t in tables):
        # between the lowest levels of two programs, too: times bend where bandwidth begins to limit
        levels = denser_bandwidths(np.unique(np.concatenate([t.bandwidth for t in tables])))
        tables = [with_bandwidths(t, levels) for t in tables]
    n = len(tables)
    whole = np.arange(tables[0].most_ways + 1)
    mixed = miss_probability(DISTANCES, whole).T
    programs = (
        *(np.stack([getattr(t, name) for t in tables]) for name in
          ("instructions", "requests", "misses", "prefetched")),
        np.ascontiguousarray(np.stack([t.seconds for t in tables])[..., ::-1]),
        np.stack([t.reuse for t in tables]),
        np.stack([t.reuse @ mixed for t in tables]),
    )  # fmt: skip
    per_miss = columns.line_size / 1e6
    resources = (
        np.array(sharing.ways, dtype=float),
        _overflow(tuple(sharing.ways), tables[0].most_ways),
        np.array([0.0 if b >= UNREGULATED else per_miss / b for b in sharing.bandwidth]),
        np.ascontiguousarray(per_miss / levels[::-1]),
    )
    _check_length(tables, sharing, resources[2], min(law.step, interval))
    queue = 1.0 if sharing.channel == "queue" else 0.0
    sets = columns.way_size / columns.line_size
    segment_time, ends = np.zeros((n, len(tables[0].requests))), np.empty(n)
    capacity = 1 if math.isinf(interval) else _FIRST_READINGS
    while True:
        readings = np.zeros((n, capacity, 5))
        segment_time[:] = 0.0
        many = play_programs(
            programs,
            (
                np.array(sharing.cache), np.array(sharing.memory), np.array(sharing.starts),
                sharing.afterwards == "loop",
            ),
            resources,
            (DISTANCES, sets, law.step, law.regulator_period, law.cluster, queue, law.lookahead),
            interval, readings, segment_time, ends,
        )  # fmt: skip
        if many >= 0:
            break
        if capacity >= _MOST_READINGS:
            raise _too_long(interval)
        capacity = min(8 * capacity, _MOST_READINGS)
    sums = readings[:, :many, :4]
    return np.diff(sums, axis=1, prepend=0), readings[:, :many, 4], segment_time, ends


def _check_length(
    tables: Sequence[ProgramTable], sharing: Sharing, slowness: Floats, interval: float
) -> None:
    """Refuse before any work what transfers or starts alone make too long.

    `slowness` are the seconds of a miss in each pool of bandwidth, which serves all its programs.
    """
    seconds = np.zeros(len(slowness))
    for table, pool in zip(tables, sharing.memory):
        seconds[pool] += slowness[pool] * table.misses[:, -1].sum()
    if max(*seconds, *sharing.starts) > _MOST_READINGS * interval:
        raise _too_long(interval)


def _too_long(interval: float) -> MeasurementError:
    return MeasurementError(
        f"the programs take more than {_MOST_READINGS} intervals of {interval:g} s; more "
        f"bandwidth, earlier starts or a longer interval are wanted."
    )
