"""Replay of a trace in any context of the virtual platform.

The problem: what would the counters and the execution time of a recorded program have been with
w ways of the last-level cache, B MB/s of memory bandwidth and a core clock of f GHz?  Interval i
of the trace takes, with h hits and m misses of the last level (each split into demand and
prefetched),

    length_i = g·n_i·core_cycles_i / f + c_h·h_i + a·c_m·m_i + fixed_time_i

where g is the run's speed, n a slow fluctuation and a the run's memory latency.  The regulator
grants B·period / line misses a period and stops the core for the rest of the period when they
are spent; timer interrupts and preemptions stop it as well.  Counters are read every `interval`
and at the end.  Only core cycles scale with the clock.

How the details are settled (all agree with the ground truth that the model was checked on):

- g, n and a are normal with mean 1; n is a stationary AR(1) with one step per 200,000
  instructions, and an interval takes the mean over its steps (at least one).  The noise of
  memory is that of misses; hits are served by the last-level cache and have none.
- Events are spread evenly over the length of their interval, stops excluded.
- One page colouring is drawn per run, uniformly among those of the trace.
- The regulator's phase is uniform in its period; a grant is not carried over; the core stops at
  the instant when the last granted miss is made, also in the middle of an interval.
- Timer interrupts are equidistant with a random phase; preemptions are a Poisson process with
  exponential lengths.  What falls into a stop overlaps with it.
- Time zero is the sampler's start: the program starts 0 to 0.8 ms later, which belongs to the
  execution time.  A run of length D has ceil(D / interval) readings, the last one at D; every
  other reading is displaced by Gaussian jitter.
- Counts are whole: cumulated hits and misses are rounded down at each reading.

Not modelled: TLB, DRAM banks, write-back traffic, co-runners, input-dependent variability
(every run replays one trace).  Timing is calibrated to no machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import product
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.data.schema import make_profiles
from msbgen.data.tables import read_contexts
from msbgen.machine import available_cores, physical_memory
from msbgen.platform._kernels import correlated_noise, replay_run
from msbgen.platform.trace import validate_trace

RESOURCES = ("cache_ways", "bandwidth", "frequency")

_RESOURCE_LABELS = {
    "cache_ways": {"units": "1", "long_name": "last-level cache ways given"},
    "bandwidth": {"units": "MB s-1", "long_name": "memory bandwidth budget"},
    "frequency": {"units": "GHz", "long_name": "core clock frequency"},
}
_COUNTER_LABELS = {
    "instructions": {"units": "1", "long_name": "instructions retired"},
    "cache_requests": {"units": "1", "long_name": "last-level cache requests"},
    "cache_misses": {"units": "1", "long_name": "last-level cache misses"},
}
# Streams of random numbers of a run; those of unknown length have one for themselves.
_RUN, _READINGS, _PREEMPTIONS = range(3)
_FIRST_CAPACITY = 256
_LONGEST_INTERVAL = 3600.0  # [s]


@dataclass(frozen=True)
class PlatformConfig:
    """Constants of the virtual platform; the cache geometry is fixed by the trace.

    Attributes
    ----------
    cache_ways : tuple of float
        Ways that can be given [1].
    bandwidths : tuple of float
        Bandwidth budgets that can be given [MB/s].
    frequencies : tuple of float
        Core clocks that can be set [GHz].
    hit_time : tuple of float, (2,)
        Cost of a last-level hit, demand and prefetched [ns].
    miss_time : tuple of float, (2,)
        Cost of a last-level miss, demand and prefetched [ns].
    line_size : float
        Bytes that a miss moves [B].
    regulator_period : float
        Period of the bandwidth regulator [s].
    speed_noise : float
        Standard deviation of a run's core speed [1].
    memory_noise : float
        Standard deviation of a run's cost of a miss [1].
    phase_noise : float
        Standard deviation of the fluctuation inside a run [1].
    phase_correlation : float
        Its correlation from one step to the next [1].
    phase_step : float
        Length of its steps [instructions].
    tick_rate : float
        Timer interrupts [1/s]; 0 for none.
    tick_time : float
        Cost of a timer interrupt [s].
    preemption_rate : float
        Preemptions [1/s]; 0 for none.
    preemption_time : float
        Mean length of a preemption [s].
    start_offset : float
        Largest time between the sampler's start and the program's [s].
    reading_jitter : float
        Standard deviation of the instants at which counters are read [s].
    random_phases : bool
        Whether regulator and timer start at a random point of their periods, or at the first.
    """

    cache_ways: tuple[float, ...] = tuple(float(w) for w in range(2, 21))
    bandwidths: tuple[float, ...] = tuple(70.0 * p for p in range(1, 21))
    frequencies: tuple[float, ...] = tuple(round(1.2 + 0.1 * i, 1) for i in range(12))
    hit_time: tuple[float, float] = (14.0, 3.5)
    miss_time: tuple[float, float] = (55.0, 9.0)
    line_size: float = 64.0
    regulator_period: float = 1e-3
    speed_noise: float = 0.008
    memory_noise: float = 0.02
    phase_noise: float = 0.015
    phase_correlation: float = 0.9
    phase_step: float = 200_000.0
    tick_rate: float = 250.0
    tick_time: float = 3e-6
    preemption_rate: float = 0.5
    preemption_time: float = 0.4e-3
    start_offset: float = 0.8e-3
    reading_jitter: float = 30e-6
    random_phases: bool = True

    def __post_init__(self) -> None:
        for name in ("cache_ways", "bandwidths", "frequencies"):
            levels = np.asarray(getattr(self, name), dtype=float)
            if levels.ndim != 1 or levels.size == 0 or not np.all(levels > 0):
                raise ValueError(f"{name}: got {levels}, want a list of levels above 0")
        if any(w != int(w) for w in self.cache_ways):
            raise ValueError(f"cache_ways: got {self.cache_ways}, want whole ways")
        for name in ("hit_time", "miss_time"):
            costs = getattr(self, name)
            if len(costs) != 2 or not all(math.isfinite(c) and c >= 0 for c in costs):
                raise ValueError(f"{name}: got {costs}, want two times >= 0 [ns]")
        for name in ("line_size", "regulator_period", "phase_step"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name}: got {getattr(self, name)}, want a number above 0")
        for name in (
            *("speed_noise", "memory_noise", "phase_noise", "tick_rate", "tick_time"),
            *("preemption_rate", "preemption_time", "start_offset", "reading_jitter"),
        ):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name}: got {getattr(self, name)}, want a number >= 0")
        if max(self.speed_noise, self.memory_noise, self.phase_noise) > 0.1:
            raise ValueError("noise above 10 % would give intervals of negative length")
        if not 0 <= self.phase_correlation < 1:
            raise ValueError(
                f"phase_correlation: got {self.phase_correlation}, want a number in [0, 1)"
            )

    @property
    def levels(self) -> dict[str, tuple[float, ...]]:
        """Levels of each resource by name."""
        return dict(zip(RESOURCES, (self.cache_ways, self.bandwidths, self.frequencies)))

    def without_noise(self) -> PlatformConfig:
        """Return the platform on which only the page colouring differs from run to run."""
        return replace(
            self,
            speed_noise=0.0,
            memory_noise=0.0,
            phase_noise=0.0,
            tick_rate=0.0,
            preemption_rate=0.0,
            start_offset=0.0,
            reading_jitter=0.0,
            random_phases=False,
        )


@dataclass(frozen=True)
class _Program:
    """A trace as the replay needs it: arrays per interval, and per colouring and ways."""

    identity: bytes
    cycles: NDArray[np.float64]  # (n,)
    fixed: NDArray[np.float64]  # (n,) [s]
    steps: NDArray[np.int64]  # (n,) of the AR(1)
    histogram: NDArray[np.uint32]  # (n_colourings, 2, n_depths, n)
    instructions: NDArray[np.float64]  # (n,)
    tables: dict[tuple[int, int], tuple[NDArray[np.float64], ...]] = field(default_factory=dict)

    def table(
        self, ways: int, colouring: int, config: PlatformConfig
    ) -> tuple[NDArray[np.float64], ...]:
        """Events (n, 3), cost of hits (n,) and of misses (n,) [s] for given ways and colouring."""
        # Two threads may compute the same table; both get the same, and one of them is kept.
        key = (ways, colouring)
        if key not in self.tables:
            hits = self.histogram[colouring, :, :ways].sum(axis=1, dtype=np.int64)
            misses = self.histogram[colouring, :, ways:].sum(axis=1, dtype=np.int64)
            events = np.stack([self.instructions, hits.sum(axis=0), misses.sum(axis=0)], axis=1)
            self.tables[key] = (
                np.ascontiguousarray(events, dtype=float),
                1e-9 * np.array(config.hit_time) @ hits,
                1e-9 * np.array(config.miss_time) @ misses,
            )
        return self.tables[key]


def replay(
    trace: xr.Dataset,
    contexts: ArrayLike,
    runs: ArrayLike = 10,
    interval: float = 0.01,
    rng: int | np.random.Generator = 0,
    config: PlatformConfig = PlatformConfig(),
    *,
    threads: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> xr.Dataset:
    """Profiles of a recorded program in the contexts given, as a measurement would return them.

    A run is determined by the trace, its context, its number and the seed: other contexts, their
    order, the number of runs and of threads do not change it.

    Parameters
    ----------
    trace : xarray.Dataset
        As :func:`~msbgen.platform.read_trace` returns it.
    contexts : array_like, (n_contexts, 3)
        Cache ways [1], bandwidth [MB/s] and clock [GHz], each among the levels of `config`;
        see :func:`platform_contexts`.
    runs : int or array_like of int, (n_contexts,)
        Runs of each context; where one has fewer than another, the rest is missing (NaN).
    interval : float
        Sampling interval [s].
    rng : int or numpy.random.Generator
        The seed; a generator gives one, so that the same generator gives other runs next time.
    config : PlatformConfig
        Constants of the platform.
    threads : int
        Threads that replay; 0 for one a core.
    progress : callable
        Called as ``progress(done, total)`` with numbers of contexts, in the calling thread.

    Returns
    -------
    xarray.Dataset
        A profile dataset with counters ``instructions``, ``cache_requests``, ``cache_misses``.

    Raises
    ------
    ValueError
        A context that the platform or the trace does not have, or an argument out of range.

    Notes
    -----
    About 1 ms for a program of 1 s.  Memory: twice the result, which has 12 B a reading.
    """
    validate_trace(trace)
    table = _context_rows(contexts, config)
    n_ways = trace.sizes["depth"] - 1
    if table[:, 0].max() > n_ways:
        raise ValueError(
            f"contexts: got {table[:, 0].max():g} ways, want at most the {n_ways} of the trace"
        )
    repeats = np.asarray(runs)
    if repeats.shape not in ((), (len(table),)):
        raise ValueError(f"runs: got shape {repeats.shape}, want a number or ({len(table)},)")
    if not np.all(repeats == repeats.astype(np.int64)) or repeats.min() < 1:
        raise ValueError(f"runs: got {repeats.min()}, want at least 1 whole run")
    repeats = np.broadcast_to(repeats.astype(np.int64), len(table))
    if not 0 < interval <= _LONGEST_INTERVAL:
        raise ValueError(f"interval: got {interval}, want a time above 0, up to an hour [s]")
    if threads < 0:
        raise ValueError(f"threads: got {threads}, want 0 (one a core) or more")
    seed = int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else int(rng)
    program = _prepare(trace, config)
    # no run is shorter than its cycles; 12 B a reading, held twice
    readings_each = 1 + program.cycles.sum() / (table[:, 2] * 1e9) / interval
    size = 24.0 * float(repeats @ readings_each)
    if size > 0.5 * (memory := physical_memory()):
        raise ValueError(
            f"runs: {repeats.sum()} of them would take {size / 1e9:.3g} GB or more, this machine "
            f"has {memory / 1e9:.3g} GB of memory; want fewer runs, contexts, or a longer interval"
        )
    duration = np.full((len(table), repeats.max()), np.nan)
    readings: list[list[NDArray[np.float32]]] = [[] for _ in table]

    def one_context(c: int) -> None:
        for r in range(repeats[c]):
            duration[c, r], counts = _one_run(program, table[c], r, seed, interval, config)
            readings[c].append(counts)

    pool = ThreadPoolExecutor(threads or available_cores())
    try:
        futures = [pool.submit(one_context, c) for c in range(len(table))]
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            progress(done, len(table))
    finally:
        # an interrupt or a failure ends the work after the contexts under way
        pool.shutdown(cancel_futures=True)
    return _assemble(trace, table, readings, duration, interval, seed, config)


def _context_rows(contexts: ArrayLike, config: PlatformConfig) -> NDArray[np.float64]:
    """Contexts as exact levels of the platform, (n, 3)."""
    table = np.array(contexts, dtype=float)
    if table.ndim != 2 or table.shape[1] != 3 or len(table) == 0:
        raise ValueError(f"contexts: got shape {table.shape}, want (n, 3): {', '.join(RESOURCES)}")
    for i, levels in enumerate((config.cache_ways, config.bandwidths, config.frequencies)):
        # the level itself, so that 1.7000000000000002 and 1.7 are the same run
        nearest = np.abs(table[:, i, None] - np.array(levels)).argmin(axis=1)
        exact = np.array(levels)[nearest]
        off = ~np.isclose(table[:, i], exact, rtol=1e-6, atol=0)
        if off.any():
            raise ValueError(
                f"contexts: got {RESOURCES[i]} {table[off, i][0]:g}, want one of "
                f"{', '.join(f'{v:g}' for v in levels)}"
            )
        table[:, i] = exact
    rows, counts = np.unique(table, axis=0, return_counts=True)
    if counts.max() > 1:
        ways, bandwidth, frequency = rows[counts.argmax()]
        raise ValueError(
            f"contexts: got {ways:g} ways, {bandwidth:g} MB/s, {frequency:g} GHz "
            f"{counts.max()} times, want each context once"
        )
    return table


def _prepare(trace: xr.Dataset, config: PlatformConfig) -> _Program:
    instructions, cycles, fixed = (
        np.ascontiguousarray(trace[name].values, dtype=float)
        for name in ("instructions", "core_cycles", "fixed_time")
    )
    histogram = np.ascontiguousarray(
        trace["distance_histogram"].transpose("colouring", "stream", "depth", "interval").values,
        dtype=np.uint32,
    )
    digest = blake2b(digest_size=16)
    for array in (instructions, cycles, fixed, histogram):
        digest.update(array.tobytes())
    steps = np.maximum(1, np.rint(instructions / config.phase_step)).astype(np.int64)
    return _Program(digest.digest(), cycles, 1e-9 * fixed, steps, histogram, instructions)


def _stream(key: int, number: int) -> np.random.Generator:
    """Return random numbers that nothing but their key and number decides (Salmon et al., 2011)."""
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, number]))


def _one_run(
    program: _Program,
    context: NDArray[np.float64],
    run: int,
    seed: int,
    interval: float,
    config: PlatformConfig,
) -> tuple[float, NDArray[np.float32]]:
    """Execution time [s] and counts (n_times, 3) of one run."""
    label = f"{seed} {run} {context.tolist()}".encode()
    key = int.from_bytes(blake2b(program.identity + label, digest_size=16).digest(), "little")
    drawn = _stream(key, _RUN)
    colouring = int(drawn.integers(program.histogram.shape[0]))
    speed, memory = 1 + np.array([config.speed_noise, config.memory_noise]) * (
        drawn.standard_normal(2)
    )
    regulator_phase, tick_phase, offset = drawn.uniform(size=3)
    ways, bandwidth, frequency = int(context[0]), context[1], context[2]
    events, hit_time, miss_time = program.table(ways, colouring, config)
    core_time = program.cycles * (speed / (frequency * 1e9))
    if config.phase_noise > 0:
        noise = np.empty(len(core_time))
        draws = drawn.standard_normal(int(program.steps.sum()))
        correlated_noise(draws, program.steps, config.phase_noise, config.phase_correlation, noise)
        core_time *= 1 + noise
    lengths = core_time + hit_time + memory * miss_time + program.fixed
    if not config.random_phases:
        regulator_phase, tick_phase = 0.0, 0.0
    period = config.regulator_period
    grant = bandwidth * 1e6 / config.line_size * period
    regulator = np.array([period, (1 - regulator_phase) * period, grant])
    tick_period = 1 / config.tick_rate if config.tick_rate > 0 else np.inf
    first_tick = (1 - tick_phase) * tick_period if config.tick_rate > 0 else np.inf
    ticks = np.array([tick_period, first_tick, config.tick_time])
    capacity = _FIRST_CAPACITY
    while True:
        # Longer streams begin as shorter ones do: giving more does not change the run.
        readings = np.zeros((capacity, 4))
        jitter = config.reading_jitter * _stream(key, _READINGS).standard_normal(capacity)
        readings[:, 0] = interval * np.arange(1, capacity + 1) + jitter
        readings[:, 0] = np.maximum.accumulate(np.maximum(readings[:, 0], 0.0))
        preemptions = _preemptions(_stream(key, _PREEMPTIONS), capacity * interval, config)
        end, n = replay_run(
            *(lengths, events, regulator, ticks, preemptions),
            *(offset * config.start_offset, interval, readings),
        )
        if n > 0:
            return end, readings[:n, 1:].astype(np.float32)
        capacity *= 4


def _preemptions(
    drawn: np.random.Generator, horizon: float, config: PlatformConfig
) -> NDArray[np.float64]:
    """Arrival and length of preemptions [s], (m, 2): about those up to `horizon` or more."""
    if config.preemption_rate == 0:
        return np.array([[np.inf, 0.0]])
    expected = config.preemption_rate * horizon
    table = drawn.standard_exponential((16 + int(expected + 4 * math.sqrt(expected)), 2))
    arrivals = np.cumsum(table[:, 0]) / config.preemption_rate
    return np.stack([arrivals, table[:, 1] * config.preemption_time], axis=1)


def _assemble(
    trace: xr.Dataset,
    table: NDArray[np.float64],
    readings: list[list[NDArray[np.float32]]],
    duration: NDArray[np.float64],
    interval: float,
    seed: int,
    config: PlatformConfig,
) -> xr.Dataset:
    """One dataset out of ragged runs, which are given up on the way."""
    n_times = max(len(counts) for runs in readings for counts in runs)
    # counters first, so that each of them is contiguous
    joint = np.full((3, *duration.shape, n_times), np.nan, dtype=np.float32)
    for c, runs in enumerate(readings):
        for r, counts in enumerate(runs):
            joint[:, c, r, : len(counts)] = counts.T
        runs.clear()
    levels = (config.cache_ways, config.bandwidths, config.frequencies)
    return make_profiles(
        np.moveaxis(joint, 0, -1),
        duration,
        table,
        interval=interval,
        resources={
            name: {**_RESOURCE_LABELS[name], "levels": list(values)}
            for name, values in zip(RESOURCES, levels)
        },
        counters=_COUNTER_LABELS,
        attrs={
            "task": str(trace.attrs.get("program", "unknown program")),
            "platform": f"virtual platform; {trace.attrs.get('platform', 'unknown caches')}",
            "source": "trace of the real program replayed through the virtual platform",
            "seed": str(seed),
        },
    )


def platform_contexts(
    selection: str,
    config: PlatformConfig = PlatformConfig(),
) -> NDArray[np.float64]:
    """Contexts of the platform by description.

    Parameters
    ----------
    selection : str
        ``"all"``: the product of all levels.  ``"grid:5x5x5"``: as many levels of ways, bandwidth
        and clock, evenly spread from the lowest to the highest.  Otherwise the path of a CSV file
        with columns ``cache_ways``, ``bandwidth`` [MB/s] and ``frequency`` [GHz].
    config : PlatformConfig

    Returns
    -------
    ndarray, (n_contexts, 3)

    Raises
    ------
    ValueError
        The description is not understood, or names a level that the platform does not have.
    ProfileError
        The CSV file cannot be read as contexts.
    """
    levels = [sorted(v) for v in (config.cache_ways, config.bandwidths, config.frequencies)]
    if selection == "all":
        return np.array(list(product(*levels)))
    if selection.startswith("grid:"):
        counts = selection.removeprefix("grid:").split("x")
        if len(counts) != 3 or not all(n.isdigit() and int(n) >= 1 for n in counts):
            raise ValueError(f"contexts: got '{selection}', want three numbers: grid:5x5x5")
        for n, values, name in zip(map(int, counts), levels, RESOURCES):
            if n > len(values):
                raise ValueError(f"contexts: got {n} levels of {name}, which has {len(values)}")
        return np.array(list(product(*(_spread(v, int(n)) for v, n in zip(levels, counts)))))
    path = Path(selection)
    if not path.is_file():
        raise ValueError(
            f"contexts: got '{selection}', want 'all', 'grid:5x5x5' or the path of a CSV file"
        )
    return _context_rows(read_contexts(path, RESOURCES), config)


def _spread(values: list[float], n: int) -> list[float]:
    """`n` of the values, evenly spread with both ends; the highest where one is wanted."""
    if n == 1:
        return values[-1:]
    return [values[round(i * (len(values) - 1) / (n - 1))] for i in range(n)]
