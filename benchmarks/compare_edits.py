"""Versions of a program for the study of comparisons: edits of its trace, and measurements of both.

The edits and designs are listed in ``benchmarks/compare.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import xarray as xr
from faults_study import Run, _like, _runs_of, _together, spoil
from numpy.typing import NDArray
from tables import PROFILES

from msbgen.core.contexts import grid_contexts
from msbgen.data.profiles import Profiles
from msbgen.data.schema import STARTED, duration_array, sampling_interval
from msbgen.sources.platform import PlatformConfig
from msbgen.sources.platform.replay import replay_trace
from msbgen.sources.platform.trace import make_trace, read_trace

Floats = NDArray[np.float64]

# The programs on which the method was settled, and those that only the study used.
SETTLED = ("bzip2", "gzip", "python", "sqlite")
SCORED = ("bc", "cg", "ffmpeg", "gcc", "openssl", "sort", "zstd")
SIZES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
# Levels of each resource, and runs of a context.
DESIGNS = {"9 x 2": ((3, 1, 3), 2), "27 x 3": ((3, 3, 3), 3), "125 x 1": ((5, 5, 5), 1)}
MAIN = "27 x 3"
_PLATFORM = PlatformConfig()
LEVELS = {
    "cache_ways": _PLATFORM.cache_ways,
    "bandwidth": _PLATFORM.bandwidths,
    "frequency": _PLATFORM.frequencies,
}
# Begin and end of each edit's work; inserted and removed work has a place.
PLACES = {
    "cycles": (0.4, 0.5),
    "inserted": (0.5, 0.5),
    "removed": (0.3, 0.3),
    "misses": (0.6, 0.8),
    "working set": (0.6, 0.8),
    "high clock": (0.4, 0.5),
    "one run in ten": (0.0, 1.0),
}
GAPS = ("inserted", "removed")
FAULTS = {"clean": "", "slow": "a", "stretched": "b", "exchanged": "c", "absurd": "e", "drift": "d"}

# The working set moves from one to another number of ways.
_WAYS = (4, 8)
_DRIFT = 0.02
# Parts of a sampling interval in which runs are replayed that a drift stretches.
_FINE = 10
# Runs with each page colouring for the true ratio, and their seed.
_MANY, _TRUE = 40, 30_000_000


@cache
def original(program: str) -> xr.Dataset:
    """The recorded trace of a program."""
    return read_trace(PROFILES / "traces" / f"{program}.nc")


def edited(trace: xr.Dataset, edit: str, size: float, place: float | None = None) -> xr.Dataset:
    """The trace with one change, at its place or another; inserted work is that from .1 on."""
    arrays = [
        trace[name].values.astype(float) for name in ("instructions", "core_cycles", "fixed_time")
    ]
    depths = trace["distance_histogram"].transpose("depth", "interval", "colouring", "stream")
    histogram = depths.values.astype(float)
    done = np.cumsum(arrays[0]) / arrays[0].sum()
    begin, end = PLACES[edit] if place is None else (place, place)
    inside = (done > begin) & (done <= end)
    everywhere = np.arange(len(done))
    kept = everywhere
    if edit in ("cycles", "high clock"):
        arrays[1][inside] *= 1 + size
    elif edit == "misses":  # of those that every allocation misses
        more = np.minimum(_share(size, histogram[-1, inside]), histogram[0, inside])
        histogram[-1, inside] += more
        histogram[0, inside] -= more
    elif edit == "working set":
        few, many = _WAYS
        moved = np.stack([_share(size, hits[inside]) for hits in histogram[1:few]])
        histogram[1:few, inside] -= moved
        histogram[many - 1, inside] += moved.sum(axis=0)
    elif edit == "inserted":
        copied = everywhere[(done > 0.1) & (done <= 0.1 + size)]
        kept = np.insert(everywhere, int(np.searchsorted(done, begin)), copied)
    elif edit == "removed":
        kept = everywhere[(done <= begin) | (done > begin + size)]
    arrays = [part[kept] for part in arrays]
    attrs = {name: str(value) for name, value in trace.attrs.items()}
    instructions, cycles, fixed = arrays
    return make_trace(instructions, cycles, fixed, histogram[:, kept], attrs=attrs)


def _share(size: float, counts: Floats) -> Floats:
    """A share of counts (n, ...) in whole numbers, rounded so that sums over n keep the share."""
    reached = np.floor(size * np.cumsum(counts, axis=0))
    return np.minimum(np.diff(reached, axis=0, prepend=0), counts)


@dataclass(frozen=True)
class Case:
    """One change of a program, and how both versions are measured."""

    program: str
    edit: str = ""
    size: float = 0.0
    design: str = MAIN
    fault: str = "clean"

    @property
    def name(self) -> str:
        """Name of the file that keeps the result."""
        parts = (self.program, self.edit or "none", f"{self.size:g}", self.design, self.fault)
        return "-".join(parts).replace(" ", "")

    @property
    def contexts(self) -> Floats:
        """Contexts of the design."""
        return grid_contexts(LEVELS, DESIGNS[self.design][0])

    def replays(
        self, seed: int, runs: int = 0, interval: float = 0.01
    ) -> tuple[xr.Dataset, xr.Dataset]:
        """Measured profiles of both versions, without faults."""
        runs = runs or DESIGNS[self.design][1]
        trace = original(self.program)
        changed = edited(trace, self.edit, self.size) if self.edit else trace
        old, new = (
            replay_trace(t, self.contexts, runs, interval, 2 * seed + v, threads=1)
            for v, t in enumerate((trace, changed))
        )
        rng = np.random.default_rng([seed, 2])
        if self.edit == "high clock":
            seeded = 2 * seed + 1
            same = replay_trace(trace, self.contexts, runs, interval, seeded, threads=1)
            clock = self.contexts[:, 2]
            rows = (clock < clock.max())[:, None]
            new = _chosen(same, new, np.broadcast_to(rows, (len(clock), runs)))
        elif self.edit == "one run in ten":
            # a third of the run takes so much longer that the run takes `size` longer
            table = _runs_of(Profiles.of(new).counts, duration_array(new))
            for row, hit in zip(table, rng.random((len(table), runs)) < 0.1):
                for r in np.flatnonzero(hit):
                    begin = rng.uniform(0, 2 / 3)
                    row[r] = row[r].slowed(interval, 1 + 3 * self.size, begin, begin + 1 / 3)
            new = _like(new, _together(table), table)
        return old, new

    def measured(self, seed: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Measured profiles of both versions, with faults."""
        kind = FAULTS[self.fault]
        if kind == "d":
            return self._drifting(seed)
        old, new = self.replays(seed)
        if not kind:
            return old, new
        rng = np.random.default_rng([seed, 3])
        return spoil(old, kind, rng)[0], spoil(new, kind, rng)[0]

    def _drifting(self, seed: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Both versions, interleaved on a machine that slows down."""
        contexts, runs = self.contexts, DESIGNS[self.design][1]
        rng = np.random.default_rng([seed, 3])
        # as in `msbgen measure`: a run of either version, in random order, in each place of a
        # random order of contexts and runs
        places = rng.permutation(len(contexts) * runs).reshape(len(contexts), runs)
        second = rng.integers(2, size=places.shape)
        began = np.stack([2 * places + second, 2 * places + 1 - second], axis=1).astype(float)
        out = []
        for version, like in enumerate(self.replays(seed)):
            interval = sampling_interval(like)
            fine = replay_trace(
                original(self.program), contexts, runs, interval / _FINE, 2 * seed + version,
                threads=1,
            )  # fmt: skip
            table = _runs_of(Profiles.of(fine).counts, duration_array(fine))
            for row, places_of in zip(table, began[:, version]):
                for r, place in enumerate(places_of):
                    factor = 1 + _DRIFT * (place / (began.size - 1) - 0.5)
                    row[r] = _slower(row[r], interval, factor)
            profiles = _like(like, _together(table), table)
            profiles[STARTED] = ("context", "run"), began[:, version], {"units": "s"}
            out.append(profiles.assign_attrs(sweep="drifting"))
        return out[0], out[1]


def _slower(fine: Run, interval: float, factor: float) -> Run:
    """A run on a slower machine, sampled at an interval, from its counts in finer intervals."""
    # a slower machine does less in an interval: it is the same run in its own time
    edges = np.append(np.arange(len(fine.counts)) * (interval / _FINE), fine.duration)
    reached = np.concatenate([np.zeros((1, fine.counts.shape[1])), np.cumsum(fine.counts, axis=0)])
    step = interval / factor
    ends = np.minimum(step * np.arange(np.ceil(fine.duration / step - 1e-9) + 1), fine.duration)
    counts = np.column_stack([np.interp(ends, edges, column) for column in reached.T])
    return Run(np.diff(counts, axis=0), factor * fine.duration)


def _chosen(first: xr.Dataset, second: xr.Dataset, mask: NDArray[np.bool_]) -> xr.Dataset:
    """Runs of the first dataset where the mask holds, else of the second."""
    tables = [_runs_of(Profiles.of(d).counts, duration_array(d)) for d in (first, second)]
    table = [
        [a if is_first else b for a, b, is_first in zip(*rows)]
        for rows in zip(*tables, mask.tolist())
    ]
    return _like(second, _together(table), table)


def true_ratio(case: Case) -> float:
    """Ratio of the mean execution times of many runs, as many with each page colouring."""
    versions = (case.program, "", 0.0), (case.program, case.edit, case.size)
    old, new = (np.log(_mean_times(*version, case.design)) for version in versions)
    change = new - old
    if case.edit == "high clock":
        change[case.contexts[:, 2] < case.contexts[:, 2].max()] = 0.0
    return float(np.exp(change.mean()))


@lru_cache(maxsize=32)
def _mean_times(program: str, edit: str, size: float, design: str) -> Floats:
    """Mean execution time of many runs in each context of a design, (n,)."""
    trace, contexts = original(program), Case(program, design=design).contexts
    if edit:
        trace = edited(trace, edit, size)
    colourings = [
        replay_trace(trace.isel(colouring=[k]), contexts, _MANY, 1.0, _TRUE + k, threads=1)
        for k in range(trace.sizes["colouring"])
    ]
    return np.mean([duration_array(d).mean(axis=1) for d in colourings], axis=0)


def size_of(program: str, ratio: float) -> float:
    """Share of more cycles in a tenth of the work that makes a program longer by a share."""
    size = 0.1
    for _ in range(2):  # the time is nearly linear in the cycles
        size *= ratio / (true_ratio(Case(program, "cycles", size)) - 1)
    return size
