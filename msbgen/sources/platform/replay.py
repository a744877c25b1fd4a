"""Replay of a trace in any context of the virtual platform.

The problem: find the counters and the execution time of a recorded program with w ways of the
last-level cache, B MB/s of memory bandwidth and a core clock of f GHz.  Interval i of the trace has
h hits and m misses of the last level, each split into demand and prefetched, and takes

    length_i = g·n_i·core_cycles_i / f + c_h·h_i + a·c_m·m_i + fixed_time_i

where g is the run's speed, n a slow fluctuation and a the run's relative memory latency.  The
regulator grants B·period / line_size misses per period; after these it stops the core for the rest
of the period.  Timer interrupts and preemptions stop the core, too.  Counters are read every
`interval` and at the end.  Only core cycles scale with the clock.

Details of the model, all of which agree with the ground truth that it was checked against:

- g, n and a are normal with mean 1.  n is a stationary AR(1) process with one step per 200,000
  instructions; an interval has the mean over its steps (at least one).  Hits have no noise, because
  the last-level cache serves them.
- Events are spread evenly over the length of their interval, stops excluded.
- One page colouring is drawn per run, uniformly among those of the trace.
- The regulator's phase is uniform in its period.  Unused misses expire at the end of a period.  The
  core stops at the instant of the last granted miss, also within an interval.
- Timer interrupts are equidistant with a random phase.  Preemptions are a Poisson process with
  exponential lengths.  Stops may overlap.
- Time zero is the sampler's start.  The program starts 0 to 0.8 ms later; this delay is part of the
  execution time.  A run of length D has ceil(D / interval) readings, the last one at D.  All others
  have Gaussian jitter.
- Counts are whole numbers: cumulative hits and misses are rounded down at each reading.

Not modelled: TLB, DRAM banks, write-back traffic, co-runners, variation with the input (every run
replays one trace).  Timing is calibrated to no machine.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import seed_of
from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress, available_cores, physical_memory
from msbgen.core.records import Count, Within, checks_arguments
from msbgen.data.build import make_profiles
from msbgen.data.sharing import UNREGULATED
from msbgen.sources.platform._kernels import correlated_noise, replay_run
from msbgen.sources.platform.config import RESOURCES, PlatformConfig, exact_contexts
from msbgen.sources.platform.trace import validate_trace

RESOURCE_LABELS = {
    "cache_ways": {"units": "1", "long_name": "last-level cache ways given"},
    "bandwidth": {"units": "MB s-1", "long_name": "memory bandwidth budget"},
    "frequency": {"units": "GHz", "long_name": "core clock frequency"},
}
COUNTER_LABELS = {
    "instructions": {"units": "1", "long_name": "instructions retired"},
    "cache_requests": {"units": "1", "long_name": "last-level cache requests"},
    "cache_misses": {"units": "1", "long_name": "last-level cache misses"},
}
# Random streams of a run; draws of unknown number have a stream of their own.
_RUN, _READINGS, _PREEMPTIONS = range(3)
_FIRST_CAPACITY = 256
_LONGEST_INTERVAL = 3600.0  # [s]
_LONGEST_RUN = 1e9  # steps of the replay's loop: about ten seconds
_PLATFORM = PlatformConfig()


@dataclass(frozen=True)
class _Program:
    """A trace prepared for replay: arrays per interval, and cached tables."""

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
        # two threads may compute the same table; both results are equal, and one is kept
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


@checks_arguments
def replay_trace(
    trace: xr.Dataset,
    contexts: ArrayLike,
    runs: ArrayLike = 10,
    interval: Annotated[float, Within(0, _LONGEST_INTERVAL, "s", above=True)] = 0.01,
    rng: np.random.Generator | int = 0,
    config: PlatformConfig = _PLATFORM,
    *,
    threads: Count | None = None,
    progress: OnProgress | None = None,
) -> xr.Dataset:
    """Profiles of a recorded program in contexts of the virtual platform.

    Trace, context, run number and seed determine a run.  Other contexts, their order, the number
    of runs and the number of threads do not change it.

    Parameters
    ----------
    trace : xarray.Dataset
        Result of :func:`~msbgen.sources.platform.read_trace`.
    contexts : array_like, (n_contexts, 3)
        Cache ways [1], bandwidth [MB/s] and clock [GHz], each among the levels of `config`;
        see :func:`platform_contexts`.
    runs : int or array_like of int, (n_contexts,)
        Runs of each context; missing runs are NaN.
    interval : float
        Sampling interval [s].
    rng : numpy.random.Generator or int
        Seed; a generator draws a new seed at each call.
    config : PlatformConfig
        Constants of the platform.
    threads : int, optional
        Number of threads; default: the number of cores that this process may use.
    progress : callable, optional
        Called with (done, total) contexts in the calling thread.

    Returns
    -------
    xarray.Dataset
        A profile dataset with counters ``instructions``, ``cache_requests``, ``cache_misses``.

    Raises
    ------
    TraceError
        The dataset is no trace.
    ArgumentError
        The platform or the trace lacks a context, an argument is out of range, a run would take
        too long, or the result would not fit into memory.

    Notes
    -----
    Time: about 1 ms for a program of 1 s.  Memory: twice the result, which has 12 B per reading and
    the readings of the longest run for every run.
    """
    validate_trace(trace)
    table = exact_contexts(contexts, config)
    n_ways = trace.sizes["depth"] - 1
    if table[:, 0].max() > n_ways:
        raise ArgumentError(
            f"cache_ways is {table[:, 0].max():g}; at most the {n_ways} of the trace are wanted."
        )
    repeats = _checked_runs(runs, len(table))
    seed = _seed(rng)
    program = _prepare(trace, config)
    _check_size(program, table, repeats, interval, config)
    duration = np.full((len(table), repeats.max()), np.nan)
    readings: list[list[NDArray[np.float32]]] = [[] for _ in table]

    def one_context(c: int) -> None:
        for r in range(repeats[c]):
            duration[c, r], counts = _one_run(program, table[c], r, seed, interval, config)
            readings[c].append(counts)

    pool = ThreadPoolExecutor(threads if threads is not None else available_cores())
    try:
        futures = [pool.submit(one_context, c) for c in range(len(table))]
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            if progress:
                progress(done, len(table))
    finally:
        # an interrupt or a failure ends the work after the contexts under way
        pool.shutdown(cancel_futures=True)
    return _assemble(trace, table, readings, duration, interval, seed, config)


def _checked_runs(runs: ArrayLike, n_contexts: int) -> NDArray[np.int64]:
    """Number of runs of each context, (n_contexts,)."""
    repeats = np.asarray(runs)
    if repeats.shape not in ((), (n_contexts,)):
        raise ArgumentError(
            f"runs have shape {repeats.shape}; a number, or one for each of the {n_contexts} "
            f"contexts, is wanted."
        )
    good = repeats.dtype.kind in "iuf" and np.all((repeats >= 1) & (repeats < 2**31))
    if not good or np.any(repeats != np.floor(repeats)):
        raise ArgumentError(f"runs is {runs}; a whole number ≥ 1 (and below 2³¹) is wanted.")
    return np.broadcast_to(repeats.astype(np.int64), n_contexts)


def _seed(rng: np.random.Generator | int) -> int:
    """The seed of all runs as a number."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    return seed_of(rng)


def _check_size(
    program: _Program,
    table: NDArray[np.float64],
    repeats: NDArray[np.int64],
    interval: float,
    config: PlatformConfig,
) -> None:
    """Raise :class:`ArgumentError` for runs that take too long and results larger than memory."""
    # demand and prefetched requests up to each depth, (2, n_depths), of one colouring
    requests = program.histogram[0].sum(axis=2, dtype=np.int64).cumsum(axis=1).astype(float)
    hits = requests[:, table[:, 0].astype(int) - 1]  # (2, n_contexts)
    misses = requests[:, -1:] - hits
    bandwidth, frequency = table[:, 1] * 1e6, table[:, 2] * 1e9
    # an upper bound up to noise: the core waits for the regulator at every line
    duration = (
        program.cycles.sum() / frequency
        + program.fixed.sum()
        + 1e-9 * (np.array(config.hit_time) @ hits + np.array(config.miss_time) @ misses)
        + misses.sum(axis=0) * config.line_size / bandwidth
        + config.start_offset
    )
    readings = 1 + duration / interval
    rates = 1 / config.regulator_period + config.tick_rate + config.preemption_rate
    steps = float(program.steps.sum()) + readings + duration * rates
    if steps.max() > _LONGEST_RUN:
        raise ArgumentError(
            f"a run is about {duration[steps.argmax()]:.3g} s long, sampled every {interval:g} s: "
            f"{steps.max():.3g} steps to play; at most {_LONGEST_RUN:.0e} are wanted, by a longer "
            f"interval or a shorter program."
        )
    # 12 B per reading, twice, and a thread's arrays for the longest run
    size = 24.0 * len(table) * float(repeats.max()) * readings.max() + 256.0 * readings.max()
    if size > 0.5 * (memory := physical_memory()):
        raise ArgumentError(
            f"the result of {repeats.sum()} runs is about {size / 1e9:.3g} GB where this machine "
            f"has {memory / 1e9:.3g} GB of memory; fewer runs or contexts, or a longer interval, "
            f"is wanted."
        )


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
    """Random generator determined by key and stream number only (Salmon et al., 2011)."""
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
        # a longer stream begins with the shorter one: a larger capacity does not change the run
        readings = np.zeros((capacity, 4))
        jitter = config.reading_jitter * _stream(key, _READINGS).standard_normal(capacity)
        readings[:, 0] = interval * np.arange(1, capacity + 1) + jitter
        readings[:, 0] = np.maximum.accumulate(np.maximum(readings[:, 0], 0.0))
        preemptions = draw_preemptions(_stream(key, _PREEMPTIONS), capacity * interval, config)
        end, n = replay_run(
            *(lengths, events, regulator, ticks, preemptions),
            *(offset * config.start_offset, interval, readings),
        )
        if n > 0:
            return end, readings[:n, 1:].astype(np.float32)
        capacity *= 4


def draw_preemptions(
    drawn: np.random.Generator, horizon: float, config: PlatformConfig
) -> NDArray[np.float64]:
    """Arrival and length of preemptions [s], (m, 2), with high probability beyond `horizon`."""
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
    """Dataset from runs of different lengths; the lists of readings are emptied to save memory."""
    n_times = max(len(counts) for runs in readings for counts in runs)
    # counters first, so that each of them is contiguous
    joint = np.full((3, *duration.shape, n_times), np.nan, dtype=np.float32)
    for c, runs in enumerate(readings):
        for r, counts in enumerate(runs):
            joint[:, c, r, : len(counts)] = counts.T
        runs.clear()
    unlimited = set(table[table[:, 1] >= UNREGULATED, 1].tolist())
    bandwidths = sorted({*config.bandwidths, *unlimited})
    levels = (config.cache_ways, bandwidths, config.frequencies)
    return make_profiles(
        np.moveaxis(joint, 0, -1),
        duration,
        table,
        interval=interval,
        resources={
            name: {**RESOURCE_LABELS[name], "levels": list(values)}
            for name, values in zip(RESOURCES, levels)
        },
        counters=COUNTER_LABELS,
        attrs={
            "task": str(trace.attrs.get("program", "unknown program")),
            "platform": f"virtual platform; {trace.attrs.get('platform', 'unknown caches')}",
            "source": "trace of the real program replayed through the virtual platform",
            "seed": str(seed),
        },
    )
