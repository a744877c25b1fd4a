"""Events and time over the progress of a program, from sampled profiles.

Samples are some milliseconds apart, and phases may be shorter.  Events depend on neither the
bandwidth nor the clock, so that those with w ways are means over all contexts with w ways; the
slowest ones, which have most samples, weigh most.  A time is known at the samples of its own
context only.  Between two samples it passes in proportion to an expected time, which instructions,
hits and misses give, and not evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from msbgen.core.errors import MeasurementError, quoted
from msbgen.data.profiles import Profiles
from msbgen.systems.beside.columns import Columns

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Equal steps of the work, between which events and times are interpolated: 5 for each of the 150
# segments of a table, or more.
STEPS = 800
EDGES = np.linspace(0, 1, STEPS + 1)
# Parts of the segments by requests, by time, by changes of their ratio, and by work; settled with
# the constants of the law (benchmarks/beside.md).  Work has a part so that no segment is endless.
_EVEN = (0.25, 0.25, 0.49, 0.01)
# Requests in so short a time differ from none [s]: a regulator's period.
_PERIOD = 1e-3
# The most runs, the slowest ones, of which events with a number of ways are means: further ones
# cost time, and lower the noise of a mean hardly.
_MOST_RUNS = 300


@dataclass(frozen=True, eq=False)
class SampledRun:
    """A run at its n samples: shares of the work, events (n, 4) and time [s] since the start."""

    work: Floats
    events: Floats
    time: Floats


class Samples:
    """Runs of the contexts of profiles, by context.

    Events are instructions, requests, misses and prefetched misses (0 where they are not counted).
    """

    def __init__(self, profiles: Profiles, columns: Columns):
        for name in columns.counters[:3]:
            if name not in profiles.counters:
                remedy = " (--misses)" if name == columns.misses else ""
                raise MeasurementError(
                    f"{profiles.source}: has no counter {quoted(name)}; measure it, or name the "
                    f"counter that it has instead{remedy}."
                )
        for c, r, name in uncounted(profiles, columns):
            raise MeasurementError(
                f"{profiles.source}: run {r} of {profiles.describe_context(c)} does not hold "
                f"{quoted(name)}; runs with every counter are wanted: give a fitted model of it."
            )
        names = [name for name in columns.counters if name in profiles.counters]
        self.profiles = profiles.of_counters(names)

    def column(self, name: str, otherwise: float) -> Floats:
        """Levels of a resource, (n_contexts,), or a constant where there is none of that name."""
        columns = dict(zip(self.profiles.resources, self.profiles.contexts.T))
        return columns.get(name, np.full(len(self.profiles.contexts), otherwise))

    def run(self, context: int, run: int) -> SampledRun:
        """A run that has ended."""
        counts, duration = self.profiles.counts[context, run], self.profiles.ended[context, run]
        used = np.isfinite(counts).all(axis=1)
        last = int(np.flatnonzero(used)[-1]) + 1 if used.any() else 0
        events = np.zeros((last + 1, 4))
        events[1:, : counts.shape[1]] = np.nancumsum(counts[:last], axis=0)
        time = np.minimum(self.profiles.interval * np.arange(last + 1), duration)
        time[-1] = duration
        work = np.maximum.accumulate(events[:, 0] / max(events[-1, 0], 1e-9))
        work += 1e-12 * np.arange(len(work))
        return SampledRun(work / work[-1], events, time)

    def events(self, contexts: Indices) -> Floats:
        """Mean events up to each of :data:`EDGES`, (STEPS + 1, 4), over some contexts' runs."""
        ended = self.profiles.ended[contexts]
        rows, runs = np.nonzero(np.isfinite(ended))
        lasting = ended[rows, runs]
        total, weight = np.zeros((STEPS + 1, 4)), 0.0
        for i in np.argsort(-lasting, kind="stable")[:_MOST_RUNS]:
            run = self.run(int(contexts[rows[i]]), int(runs[i]))
            for k in range(4):
                total[:, k] += lasting[i] * np.interp(EDGES, run.work, run.events[:, k])
            weight += lasting[i]
        return total / weight

    def time(self, context: int, expected: Floats) -> Floats:
        """Mean time up to each of :data:`EDGES` [s], (STEPS + 1,), over a context's runs.

        Between two samples, time passes in proportion to the `expected` time, (STEPS + 1,).
        """
        runs = np.flatnonzero(np.isfinite(self.profiles.ended[context]))
        total = np.zeros(STEPS + 1)
        for r in runs:
            run = self.run(context, int(r))
            total += np.interp(expected, np.interp(run.work, EDGES, expected), run.time)
        return total / len(runs)


def uncounted(profiles: Profiles, columns: Columns) -> Iterator[tuple[int, int, str]]:
    """Contexts, runs and counters of the `columns` that a run lacks, though it has ended."""
    names = list(profiles.counters)
    lacking = np.isfinite(profiles.ended)[..., None] & ~profiles.held
    for c, r, k in np.argwhere(lacking).tolist():
        if names[k] in columns.counters:
            yield c, r, names[k]


def expected_time(events: Floats, costs: Floats, transfer: float) -> Floats:
    """Time up to each edge [s], (STEPS + 1,), of events up to each edge (STEPS + 1, 4).

    A step takes the `costs` of its events (:func:`cost_of_events`), and at least `transfer` [s]
    for each miss.
    """
    step = _costly(np.diff(events, axis=0))
    time = np.maximum(step @ costs, transfer * step[:, 2])
    return np.concatenate([[0.0], np.cumsum(time + 1e-6 * time.mean() + 1e-15)])


def cost_of_events(events: Floats, times: Floats) -> Floats:
    """Seconds of an instruction, a hit and a miss, (3,), least squares without negative ones.

    `events` (n, STEPS + 1, 4) and `times` (n, STEPS + 1) up to each edge, of several numbers of
    ways without a limit of the bandwidth.
    """
    coarse = slice(None, None, STEPS // 50)
    rows = np.concatenate([_costly(np.diff(e[coarse], axis=0)) for e in events])
    scale = np.maximum(rows.max(axis=0), 1e-9)
    found, _ = nnls(rows / scale, np.concatenate([np.diff(t[coarse]) for t in times]))
    return found / scale


def even_edges(requests: Floats, time: Floats, segments: int) -> Floats:
    """Shares of the work, (segments + 1,), between which segments lie.

    `requests` and `time` are up to each of :data:`EDGES`.  Requests, time, and the changes of
    their ratio are spread evenly over the segments: where a quiet phase ends, segments are short.
    """
    rate = np.diff(requests) / np.maximum(np.diff(time), 1e-12)
    busy = np.log1p(_PERIOD * rate)
    changes = np.concatenate([[0.0, 0.0], np.cumsum(np.abs(np.diff(busy)))])
    even = np.zeros(STEPS + 1)
    for cumulative, part in zip((requests, time, changes, EDGES), _EVEN):
        even += part * cumulative / max(cumulative[-1], 1e-12)
    return np.interp(np.linspace(0, 1, segments + 1), even / even[-1], EDGES)


def _costly(events: Floats) -> Floats:
    """Instructions, hits and misses, (n, 3), of events (n, 4)."""
    return np.stack([events[:, 0], events[:, 1] - events[:, 2], events[:, 2]], axis=1)
