"""Replay of programs that share a last-level cache and memory bandwidth.

Every request of every program is played, in the order of time, through one set-associative cache
with least-recently-used replacement.  Programs have private address spaces.  Times are those of
:mod:`msbgen.platform.replay`; only the resources are shared:

- **Cache.** A partition has all sets and some of the ways.  A line of one program displaces the
  line that was not used for longest, of any program.
- **Regulator.** A pool has a number of misses per period.  Once they are used up, by any program,
  each program of the pool waits at its next miss until the period ends.
- **Queue.** A channel serves one miss after another, in the order of arrival.  A demand miss waits
  until the channel is free; a prefetched one was requested ahead of time and waits that much less.
- **Restarts.** A program that starts again has other pages; lines of its earlier run stay in the
  cache until they are displaced.

The requests of an interval are spread evenly over its time without memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.draws import seed_of
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, Seconds, checks_arguments
from msbgen.data.build import make_profiles
from msbgen.data.sharing import Sharing
from msbgen.sources.platform._kernels import correlated_noise, replay_shared
from msbgen.sources.platform.caches import CACHE_SETS
from msbgen.sources.platform.config import PlatformConfig
from msbgen.sources.platform.replay import COUNTER_LABELS, RESOURCE_LABELS, draw_preemptions
from msbgen.sources.platform.stream import LINES_PER_PAGE, validate_stream

# Time by which a prefetcher is ahead of the core [s]: about four lines at 1,400 MB/s.
_LOOKAHEAD = 200e-9
# Page colourings of a program's restarts; further restarts take them in turns.
_COLOURINGS = 4
_FIRST_CAPACITY = 256
# The most sampling intervals of a run.
_MOST_READINGS = 1 << 20
# The most timer ticks and preemptions of a run.
_MOST_TICKS = 1e8
_MOST_PROGRAMS = 16
_PLATFORM = PlatformConfig()
_PREFETCHED = {"units": "1", "long_name": "prefetched last-level cache misses"}
_HELD = {"units": "1", "long_name": "lines in the last-level cache over its sets"}


@checks_arguments
def replay_beside(
    streams: Sequence[xr.Dataset],
    sharing: Sharing,
    runs: Count = 10,
    interval: Seconds = 0.01,
    rng: np.random.Generator | int = 0,
    config: PlatformConfig = _PLATFORM,
    *,
    progress: OnProgress | None = None,
) -> list[xr.Dataset]:
    """Profiles of programs that ran side by side.

    Parameters
    ----------
    streams : sequence of xarray.Dataset
        Streams of 1 to 16 programs (:func:`~msbgen.sources.platform.read_stream`).
    sharing : Sharing
        What they share; clocks are in GHz, partitions have whole ways.
    runs : int
        Number of times that all of them run together.
    interval : float
        Sampling interval [s].
    rng : numpy.random.Generator or int
        Seed of the noise and of the page colours.
    config : PlatformConfig
        Constants of the platform; its levels have no effect.
    progress : callable, optional
        Called with (done, total) runs.

    Returns
    -------
    list of xarray.Dataset
        A profile dataset for each program, with one context: the ways of its partition, the
        bandwidth of its pool and its clock.  Durations count from the program's own start, and
        contain its first run only.  ``held_ways`` (context, run, time) are the lines that it had
        in the cache, over the number of sets.

    Raises
    ------
    StreamError
        A dataset is no stream.
    ArgumentError
        An argument is out of range.

    Notes
    -----
    About 0.1 s per million requests.
    """
    if not 1 <= len(streams) <= _MOST_PROGRAMS or len(streams) != sharing.size:
        raise ArgumentError(
            f"{len(streams)} streams are given for {sharing.size} programs; one each, up to "
            f"{_MOST_PROGRAMS}, is wanted."
        )
    for n, stream in enumerate(streams):
        validate_stream(stream, source=str(stream.encoding.get("source", f"stream {n}")))
    if any(w != int(w) for w in sharing.ways):
        raise ArgumentError(f"ways are {sharing.ways}; whole ways are wanted.")
    seed = int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else seed_of(rng)
    programs = _Programs(streams)
    played = []
    for run in range(runs):
        label = f"{seed} {run} {sharing}".encode()
        key = int.from_bytes(blake2b(label, digest_size=16).digest(), "little")
        drawn = np.random.Generator(np.random.Philox(key=key))
        played.append(_one_run(programs, sharing, drawn, interval, config))
        if progress:
            progress(run + 1, runs)
    return [
        _profiles(stream, sharing, n, [one[n] for one in played], interval, seed)
        for n, stream in enumerate(streams)
    ]


class _Programs:
    """Arrays of several streams, one after another."""

    def __init__(self, streams: Sequence[xr.Dataset]):
        sizes = [
            (
                stream.sizes["request"],
                stream.sizes["interval"],
                int(stream["line"].values.max()) // LINES_PER_PAGE + 1,
            )
            for stream in streams
        ]
        self.first = np.concatenate([np.zeros((1, 3)), np.cumsum(sizes, axis=0)]).astype(np.int64)

        def joined(name: str, dtype: Any) -> NDArray[Any]:
            return np.concatenate([s[name].values.astype(dtype) for s in streams])

        self.line, self.prefetched = joined("line", np.uint32), joined("prefetched", np.uint8)
        self.cycles, self.fixed = joined("core_cycles", float), 1e-9 * joined("fixed_time", float)
        self.events = np.stack([joined("instructions", float), joined("requests", float)], axis=1)


def _one_run(
    programs: _Programs,
    sharing: Sharing,
    drawn: np.random.Generator,
    interval: float,
    config: PlatformConfig,
) -> list[tuple[float, NDArray[np.float64]]]:
    """Duration [s] and counts (n_times, 6) of each program."""
    n, first = sharing.size, programs.first
    colours = CACHE_SETS // LINES_PER_PAGE
    colour = drawn.integers(colours, size=(_COLOURINGS, first[-1, 2]), dtype=np.uint16)
    steps = programs.fixed.copy()
    costs = np.empty((n, 4))
    times = (*config.hit_time, *config.miss_time)
    for i in range(n):
        rows = slice(first[i, 1], first[i + 1, 1])
        speed, memory = 1 + drawn.standard_normal(2) * [config.speed_noise, config.memory_noise]
        core = programs.cycles[rows] * speed / (1e9 * sharing.frequency[i])
        if config.phase_noise > 0:
            core *= 1 + _fluctuation(programs.events[rows, 0], drawn, config)
        steps[rows] += core
        costs[i] = 1e-9 * np.array(times) * [1, 1, memory, memory]
    phases = drawn.uniform(size=(n, 2)) if config.random_phases else np.zeros((n, 2))
    begin = np.array(sharing.starts) + config.start_offset * drawn.uniform(size=n)
    pools = np.array(
        [
            [
                *(_grant(sharing, b, config), config.regulator_period),
                *((drawn.uniform() if config.random_phases else 0.0) * config.regulator_period,),
                config.line_size / (1e6 * b) if sharing.channel == "queue" else 0.0,
                _LOOKAHEAD,
            ]
            for b in sharing.bandwidth
        ]
    )
    pools[:, 2] -= config.regulator_period  # the first period has begun before the first miss
    ticks = np.full((n, 3), np.finfo(float).max)  # none; an infinite period times 0 is no number
    if config.tick_rate > 0:
        ticks[:, 0] = 1 / config.tick_rate
        ticks[:, 1] = (1 - phases[:, 1]) / config.tick_rate
        ticks[:, 2] = config.tick_time
    places = np.array(
        [
            (cache, pool, sharing.afterwards == "loop")
            for cache, pool in zip(sharing.cache, sharing.memory)
        ],
        dtype=np.int64,
    )
    ways = np.array(sharing.ways, dtype=np.int64)
    state = drawn.bit_generator.state
    # a lower bound, without a single request
    alone = np.add.reduceat(steps, first[:-1, 1])
    least = float(max(np.array(sharing.starts) + alone))
    rates = config.tick_rate + config.preemption_rate
    if least > min(_MOST_READINGS * interval, _MOST_TICKS / max(rates, 1e-9)):
        raise _too_long(least, interval)
    capacity = _FIRST_CAPACITY
    while capacity < least / interval:
        capacity *= 4
    while True:
        drawn.bit_generator.state = state
        horizon = max(sharing.starts) + capacity * interval
        stops = [draw_preemptions(drawn, horizon, config) for _ in range(n)]
        longest = max(map(len, stops))
        preemptions = np.full((n, longest, 2), np.inf)
        for i, table in enumerate(stops):
            preemptions[i, : len(table)] = table
        readings = np.zeros((n, capacity, 7))
        jitter = config.reading_jitter * drawn.standard_normal((n, capacity))
        readings[:, :, 0] = np.maximum.accumulate(
            np.array(sharing.starts)[:, None] + interval * np.arange(1, capacity + 1) + jitter,
            axis=1,
        )
        stacks = np.full((len(ways), CACHE_SETS, ways.max()), -1, dtype=np.int64)
        ends = np.empty(n)
        many = replay_shared(
            (programs.line, programs.prefetched, colour),
            (first, steps, programs.events, costs, begin, places),
            pools,
            (stacks, ways),
            (ticks, preemptions),
            readings,
            ends,
        )
        if many[0] >= 0:
            break
        capacity *= 4
        if capacity > _MOST_READINGS:
            raise _too_long(capacity // 4 * interval, interval)
    results = []
    for i in range(n):
        duration = float(ends[i] - sharing.starts[i])
        size = max(1, math.ceil(duration / interval))
        counts = readings[i, :size, 1:].copy()
        # with jitter, the last reading may come early or late: rows from it on have the totals
        counts[min(many[i], size) - 1 :] = readings[i, many[i] - 1, 1:]
        results.append((duration, counts))
    return results


def _too_long(seconds: float, interval: float) -> MeasurementError:
    """The error for programs that take more time than can be played."""
    return MeasurementError(
        f"the programs take more than {seconds:.3g} s, or {seconds / interval:,.0f} sampling "
        f"intervals: check core_cycles and fixed_time of the streams, or take a longer interval."
    )


def _grant(sharing: Sharing, bandwidth: float, config: PlatformConfig) -> float:
    """Misses per period of the regulator of a pool."""
    if sharing.channel != "regulator":
        return math.inf
    return bandwidth * 1e6 / config.line_size * config.regulator_period


def _fluctuation(
    instructions: NDArray[np.float64], drawn: np.random.Generator, config: PlatformConfig
) -> NDArray[np.float64]:
    """Noise of a run's speed in each interval, constant over the steps of the process."""
    step = np.floor(np.cumsum(instructions) / config.phase_step).astype(np.int64)
    noise = np.empty(int(step[-1]) + 1)
    draws = drawn.standard_normal(len(noise))
    one_each = np.ones(len(noise), dtype=np.int64)
    correlated_noise(draws, one_each, config.phase_noise, config.phase_correlation, noise)
    return noise[step]


def _profiles(
    stream: xr.Dataset,
    sharing: Sharing,
    program: int,
    played: list[tuple[float, NDArray[np.float64]]],
    interval: float,
    seed: int,
) -> xr.Dataset:
    """Profile dataset of one program, with a run for each time that it was played."""
    longest = max(len(counts) for _, counts in played)
    table = np.full((1, len(played), longest, 4), np.nan)
    held = np.full((1, len(played), longest), np.nan, dtype=np.float32)
    for r, (_, counts) in enumerate(played):
        whole = np.floor(counts)
        rows = np.diff(whole[:, :5], axis=0, prepend=0)
        misses = rows[:, 3] + rows[:, 4]
        requests = rows[:, 1] + rows[:, 2] + misses
        table[0, r, : len(rows)] = np.stack([rows[:, 0], requests, misses, rows[:, 4]], axis=1)
        held[0, r, : len(rows)] = counts[:, 5] / CACHE_SETS
    context = [
        sharing.ways[sharing.cache[program]],
        sharing.bandwidth[sharing.memory[program]],
        sharing.frequency[program],
    ]
    profiles = make_profiles(
        table,
        [[duration for duration, _ in played]],
        [[value if math.isfinite(value) else 1e6 for value in context]],
        interval=interval,
        resources=RESOURCE_LABELS,
        counters={**COUNTER_LABELS, "prefetched_misses": _PREFETCHED},
        attrs={
            "task": str(stream.attrs.get("program", "unknown program")),
            "platform": f"virtual platform; {stream.attrs.get('platform', 'unknown caches')}",
            "source": f"stream of the real program replayed beside {sharing.size - 1} others",
            "seed": str(seed),
        },
    )
    return profiles.assign(held_ways=(("context", "run", "time"), held, _HELD))
