"""What a program does alone, over its progress and over its resources.

A table has, for each of 100 segments of a program's progress: the requests to the last-level
cache, the misses with w ways, and the time with w ways and a bandwidth of b.  All of it is read
from measured or generated profiles whose contexts are a grid of ways and bandwidths at one clock.

Misses by ways also give the *reuse distances*: how many other lines (in units of a way, so many
lines as there are sets) the program uses between two uses of a line.  A line with a distance of x
meets a Poisson number of lines in its set, of mean x, and misses where w or more came between::

    misses(w) = Σ_x reuse(x) · P(Poisson(x) ≥ w)

`reuse` is the maximum-likelihood mixture, by expectation maximisation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc

from msbgen.core.errors import ArgumentError, MeasurementError, is_number, quoted
from msbgen.data.schema import (
    check_datasets,
    context_table,
    count_array,
    counter_names,
    ended_durations,
    file_of,
    resource_names,
    same_level,
    sampling_interval,
)

Floats = NDArray[np.float64]

# Reuse distances, in ways; the last one is that of a line used for the first time.
DISTANCES = np.array(
    [0.01, 0.03, 0.06, 0.1, 0.17, 0.25, 0.35, 0.5, 0.7, 0.9, 1.2, 1.5, 1.8, 2.2, 2.6]
    + [3 + 0.5 * i for i in range(14)]
    + [10.0 + i for i in range(11)]
    + [22.0, 24.0, 26.0, 29.0, 32.0, 36.0, 41.0, 48.0, np.inf]
)
# Steps of the expectation maximisation: further ones fit the noise of the misses.
_STEPS = 400
# A bandwidth above every demand [MB/s]: no regulator at all.
UNREGULATED = 1e5


class Generator(Protocol):
    """A model that generates mean profiles of contexts, as :class:`msbgen.ProfileModel`."""

    @property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        """Labels of the resources by name."""
        ...

    contexts: Any  # known ones, (n_known, n_resources)

    def generate(self, contexts: ArrayLike, *, kind: Any) -> xr.Dataset:
        """Profiles of contexts."""
        ...


@dataclass(frozen=True)
class Columns:
    """Names of the resources and counters of profiles, and the size of a way.

    Attributes
    ----------
    ways, bandwidth, frequency : str
        Resources: ways of the last-level cache [1], memory bandwidth [MB/s], core clock.
        Profiles without the clock were measured at one clock.
    instructions, requests, misses, prefetched : str
        Counters: the work, requests and misses of the last level, and those misses that a
        prefetcher made early.  Profiles may lack the last one.
    way_size : float
        Size of a way [B]: that of the cache over its ways.
    line_size : float
        Bytes that a miss transfers [B].
    """

    ways: str = "cache_ways"
    bandwidth: str = "bandwidth"
    frequency: str = "frequency"
    instructions: str = "instructions"
    requests: str = "cache_requests"
    misses: str = "cache_misses"
    prefetched: str = "prefetched_misses"
    way_size: float = 2.0**20
    line_size: float = 64.0

    def __post_init__(self) -> None:
        for name in ("way_size", "line_size"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < math.inf:
                raise ArgumentError(f"{name} is {quoted(value)}; bytes above 0 are wanted.")


@dataclass(frozen=True, eq=False)
class ProgramTable:
    """What a program does alone; W whole ways from 0 on, and B bandwidths.

    Attributes
    ----------
    task : str
        Name of the program.
    frequency : float
        Core clock, in the unit of the profiles; nan for profiles without a clock.
    bandwidth : ndarray, (B,)
        Bandwidths, ascending [MB/s].
    instructions : ndarray, (n_segments,)
        Instructions of each segment of progress.
    requests : ndarray, (n_segments,)
        Requests to the last-level cache.
    misses, prefetched : ndarray, (n_segments, W + 1)
        Misses with 0 to W ways, and those of them that a prefetcher made early.
    seconds : ndarray, (n_segments, W + 1, B)
        Time of a segment [s].
    reuse : ndarray, (n_segments, n_distances)
        Requests by reuse distance (:data:`DISTANCES`).
    doubt : float
        Standard deviation of the logarithm of a run's duration about the table's [1].
    columns : Columns
        Names in the profiles, and sizes of a way and a line.
    """

    task: str
    frequency: float
    bandwidth: Floats
    instructions: Floats
    requests: Floats
    misses: Floats
    prefetched: Floats
    seconds: Floats
    reuse: Floats
    doubt: float
    columns: Columns

    @property
    def most_ways(self) -> int:
        """Ways of the whole cache."""
        return self.misses.shape[1] - 1

    def duration(self, ways: float, bandwidth: float) -> float:
        """Duration alone [s], with ways and a bandwidth [MB/s]."""
        by_ways = [np.interp(ways, np.arange(self.most_ways + 1), s) for s in self._totals.T]
        order = np.argsort(1 / self.bandwidth)
        at = min(max(1 / bandwidth, 0.0), float(1 / self.bandwidth[0]))
        return float(np.interp(at, (1 / self.bandwidth)[order], np.array(by_ways)[order]))

    @property
    def _totals(self) -> Floats:
        return self.seconds.sum(axis=0)


_COLUMNS = Columns()


def program_table(
    profiles: xr.Dataset | Generator,
    frequency: float | None = None,
    *,
    segments: int = 100,
    doubt: float | None = None,
    columns: Columns = _COLUMNS,
) -> ProgramTable:
    """What a program does alone, over its progress, with any ways and bandwidth.

    Parameters
    ----------
    profiles : xarray.Dataset or model
        Measured or generated profiles in a grid of ways and bandwidths, at one or more clocks; or
        a fitted model, which generates the mean profiles of its known levels at the clock.
    frequency : float, optional
        Clock; default: that of the profiles, where they have one only.
    segments : int
        Segments of equal numbers of instructions.
    doubt : float, optional
        Standard deviation of the logarithm of a duration [1]; default: that between runs of a
        context.
    columns : Columns
        Names in the profiles, and sizes of a way and a line.

    Returns
    -------
    ProgramTable

    Raises
    ------
    ArgumentError
        The clock is not among the profiles', or several are and none is chosen.
    MeasurementError
        A counter or resource is missing, or the contexts are no grid of two or more ways.

    Notes
    -----
    For a grid of 19 ways and 20 bandwidths about 0.2 s.  Between the levels of the ways, misses
    fall as those of the mixture, and times with the misses; with 0 ways, every request misses.
    """
    if not 2 <= segments <= 10_000:
        raise ArgumentError(f"segments is {segments}; a number from 2 to 10,000 is wanted.")
    dataset, frequency = _at_one_clock(profiles, frequency, columns)
    grid = _Grid(dataset, columns)
    whole = np.arange(round(grid.ways[-1]) + 1)
    starts = np.linspace(0, 1, segments + 1)
    events, seconds = grid.by_progress(starts)
    # (segments, ways, bandwidths) of each; counts do not depend on the bandwidth
    instructions = np.maximum(events[:, :, :, 0].mean(axis=(1, 2)), 1e-9)
    requests = events[:, :, :, 1].mean(axis=(1, 2))
    missed = np.minimum(_decreasing(events[:, :, :, 2].mean(axis=2)), requests[:, None])
    early = np.minimum(events[:, :, :, 3].mean(axis=2), missed)
    seconds = np.maximum(seconds, 1e-12)
    reuse = reuse_distances(requests, missed, grid.ways)
    # between levels: misses by the mixture, and times by the misses
    mixed = reuse @ miss_probability(DISTANCES, whole).T
    levels = np.append(0, grid.ways) if grid.ways[0] > 0 else grid.ways
    known = np.concatenate([requests[:, None], missed], axis=1)[:, -len(levels) :]
    place = _places(levels.astype(int), known, mixed)
    misses = _at(known, place)
    # below the fewest ways, with as many of the misses prefetched
    fewest = early[:, :1] / np.maximum(missed[:, :1], 1e-9) * requests[:, None]
    prefetched = _at(np.concatenate([fewest, early], axis=1)[:, -len(levels) :], place)
    prefetched = np.minimum(prefetched, misses)
    times = np.empty((segments, len(whole), len(grid.bandwidth)))
    more = requests - missed[:, 0]
    for b, slope in enumerate(_seconds_per_miss(missed, seconds)):
        # no regulator lets more misses through than its bandwidth
        floor = requests * columns.line_size / (1e6 * grid.bandwidth[b])
        none = np.maximum(seconds[:, 0, b] + slope * more, floor)
        rows = np.concatenate([none[:, None], seconds[:, :, b]], axis=1)[:, -len(levels) :]
        times[:, :, b] = _at(rows, place)
    return ProgramTable(
        str(dataset.attrs.get("task", "program")), frequency, grid.bandwidth, instructions,
        requests, misses, prefetched, times, reuse,
        duration_spread(dataset) if doubt is None else float(doubt), columns,
    )  # fmt: skip


def is_grid(profiles: xr.Dataset, columns: Columns = _COLUMNS) -> bool:
    """Whether the contexts are every combination of their levels, with two ways or more."""
    names = resource_names(profiles)
    contexts = context_table(profiles)
    many = 1
    for name, column in zip(names, contexts.T):
        levels = len(np.unique(column))
        if name == columns.ways and levels < 2:
            return False
        many *= levels
    return len(contexts) == many


def duration_spread(profiles: xr.Dataset) -> float:
    """Standard deviation of the logarithm of durations between runs of a context, 0 for one run."""
    logs = np.log(ended_durations(profiles))
    many = np.isfinite(logs).sum(axis=1) > 1
    return float(np.sqrt(np.nanvar(logs[many], axis=1, ddof=1).mean())) if many.any() else 0.0


def miss_probability(distances: ArrayLike, ways: ArrayLike) -> Floats:
    """P(Poisson(x) ≥ w) of distances x, for ways w; (n_ways, n_distances).

    Ways may be no whole number (the regularised incomplete gamma function).
    """
    x, w = np.asarray(distances, dtype=float), np.asarray(ways, dtype=float)
    found = gammainc(np.maximum(w, 1e-9)[:, None], np.minimum(x, 1e6)[None])
    return np.where(w[:, None] <= 0, 1.0, np.where(np.isinf(x)[None], 1.0, found))


def reuse_distances(requests: Floats, misses: Floats, ways: ArrayLike) -> Floats:
    """Requests by reuse distance, (n, n_distances).

    `requests` (n,) and `misses` (n, n_ways) with ascending `ways`, which fall with the ways.
    """
    below = np.concatenate([np.ones((1, len(DISTANCES))), miss_probability(DISTANCES, ways)])
    kernel = below - np.concatenate([below[1:], np.zeros((1, len(DISTANCES)))])
    seen = np.concatenate([requests[:, None], misses], axis=1)
    seen = np.maximum(seen - np.concatenate([misses, np.zeros((len(seen), 1))], axis=1), 0.0)
    # evenly: no weight is zero
    total = seen.sum(axis=1, keepdims=True)
    weight = np.full((len(seen), len(DISTANCES)), 1 / len(DISTANCES)) * np.maximum(total, 1e-9)
    for _ in range(_STEPS):
        expected = np.maximum(weight @ kernel.T, 1e-12)
        weight = weight * ((seen / expected) @ kernel)
    return weight


def with_bandwidths(table: ProgramTable, bandwidth: Floats) -> ProgramTable:
    """The same table at other bandwidths [MB/s], by interpolation in 1/bandwidth."""
    known, wanted = 1 / table.bandwidth[::-1], 1 / bandwidth
    n, w, _ = table.seconds.shape
    rows = table.seconds[:, :, ::-1].reshape(n * w, -1)
    times = _between(known, rows, np.clip(wanted, known[0], known[-1])).reshape(n, w, -1)
    # beyond the least bandwidth, every further wait is that of the misses
    more = np.maximum(wanted - known[-1], 0.0) * table.columns.line_size / 1e6
    return replace(table, bandwidth=bandwidth, seconds=times + table.misses[:, :, None] * more)


class _Grid:
    """Profiles at one clock as arrays over ways and bandwidths."""

    def __init__(self, profiles: xr.Dataset, columns: Columns):
        self.profiles, self.columns = profiles, columns
        names = resource_names(profiles)
        contexts = context_table(profiles)

        def column(name: str) -> Floats | None:
            return contexts[:, names.index(name)] if name in names else None

        ways, bandwidth = column(columns.ways), column(columns.bandwidth)
        source = file_of(profiles)
        if ways is None:
            raise MeasurementError(
                f"{source}: has no resource {quoted(columns.ways)}; profiles over the ways of the "
                f"cache are wanted (measure with CAT, or name the resource)."
            )
        if bandwidth is None:
            bandwidth = np.full(len(ways), UNREGULATED)
        self.ways, rows = np.unique(ways, return_inverse=True)
        self.bandwidth, places = np.unique(bandwidth, return_inverse=True)
        if len(self.ways) < 2:
            raise MeasurementError(
                f"{source}: has {len(contexts)} context{'s' * (len(contexts) > 1)} at this clock, "
                f"all with {self.ways[0]:g} ways; two or more numbers of ways are wanted: "
                f"measure more, or give a fitted model."
            )
        if np.any(self.ways != np.round(self.ways)):
            raise MeasurementError(f"{source}: has {self.ways[0]:g} ways; whole ways are wanted.")
        self.place = np.full((len(self.ways), len(self.bandwidth)), -1)
        self.place[rows, places] = np.arange(len(contexts))
        if np.any(self.place < 0):
            w, b = np.argwhere(self.place < 0)[0]
            raise MeasurementError(
                f"{source}: lacks {self.ways[w]:g} ways with {self.bandwidth[b]:g} MB/s; every "
                f"combination of its ways and bandwidths is wanted: give a fitted model of it."
            )

    def by_progress(self, starts: Floats) -> tuple[Floats, Floats]:
        """Events and time between shares of the work.

        (n_segments, n_ways, n_bandwidths, 4) and (n_segments, n_ways, n_bandwidths) [s].
        """
        names = [getattr(self.columns, n) for n in ("instructions", "requests", "misses")]
        present = counter_names(self.profiles)
        for name in names:
            if name not in present:
                raise MeasurementError(
                    f"{file_of(self.profiles)}: has no counter {quoted(name)}; measure it, or "
                    f"name the counter of misses that it has."
                )
        if self.columns.prefetched in present:
            names.append(self.columns.prefetched)
        counts = count_array(self.profiles)[..., [present.index(name) for name in names]]
        duration = ended_durations(self.profiles)
        interval = sampling_interval(self.profiles)
        shape = (*self.place.shape, len(starts) - 1)
        events, seconds = np.zeros((*shape, 4)), np.zeros(shape)
        for w, b in np.ndindex(*self.place.shape):
            c = self.place[w, b]
            runs = np.flatnonzero(np.isfinite(duration[c]))
            if not runs.size:
                raise MeasurementError(
                    f"{file_of(self.profiles)}: has no run with {self.ways[w]:g} ways and "
                    f"{self.bandwidth[b]:g} MB/s; measure the context again."
                )
            for run in runs:
                rows, time = _cut(counts[c, run], float(duration[c, run]), interval, starts)
                events[w, b, :, : rows.shape[1]] += rows / len(runs)
                seconds[w, b] += time / len(runs)
        return events.transpose(2, 0, 1, 3), seconds.transpose(2, 0, 1)


def _cut(counts: Floats, duration: float, interval: float, starts: Floats) -> tuple[Floats, Floats]:
    """Events (n_segments, n_counters) and time (n_segments,) of a run, by shares of its work."""
    used = np.isfinite(counts).all(axis=1)
    last = int(np.flatnonzero(used)[-1]) + 1 if used.any() else 0
    sums = np.concatenate([np.zeros((1, counts.shape[1])), np.nancumsum(counts[:last], axis=0)])
    times = np.minimum(interval * np.arange(last + 1), duration)
    times[-1] = duration
    work = sums[:, 0] / max(sums[-1, 0], 1e-9)
    work = np.maximum.accumulate(work) + 1e-12 * np.arange(len(work))
    cut = np.stack([np.interp(starts, work / work[-1], column) for column in (*sums.T, times)])
    return np.diff(cut[:-1], axis=1).T, np.diff(cut[-1])


def _at_one_clock(
    profiles: xr.Dataset | Generator, frequency: float | None, columns: Columns
) -> tuple[xr.Dataset, float]:
    """Profiles at one clock, generated where a model is given, and the clock."""
    if not isinstance(profiles, xr.Dataset):
        return _generated(profiles, frequency, columns)
    check_datasets(profiles)
    names = resource_names(profiles)
    if columns.frequency not in names:
        return profiles, math.nan if frequency is None else float(frequency)
    clocks = profiles[columns.frequency].values.astype(float)
    frequency = _chosen(np.unique(clocks), frequency, file_of(profiles))
    return profiles.isel(context=np.flatnonzero(same_level(clocks, frequency))), frequency


def _generated(
    model: Generator, frequency: float | None, columns: Columns
) -> tuple[xr.Dataset, float]:
    """Mean profiles of a model's grid of ways and bandwidths at a clock."""
    names = list(model.resources)
    known = model.contexts
    source = "the model"
    if columns.ways not in names:
        raise MeasurementError(
            f"{source} has no resource {quoted(columns.ways)}; a model over the ways of the cache "
            f"is wanted."
        )
    levels: list[Sequence[float]] = []
    clock = math.nan if frequency is None else float(frequency)
    for name, column in zip(names, known.T):
        # the known levels: between these, misses follow from the reuse distances
        own = _some(np.unique(column))
        if name == columns.ways:
            own = own[own == np.round(own)]
        elif name == columns.frequency:
            every = np.append(np.asarray(model.resources[name].get("levels", column)), column)
            clock = _chosen(np.unique(every), frequency, source)
            own = np.array([clock])
        elif name != columns.bandwidth:
            raise MeasurementError(
                f"{source} has the resource {quoted(name)}, which no other program shares; a "
                f"model over ways, bandwidth and clock is wanted."
            )
        levels.append(own.tolist())
    grid = np.stack([a.ravel() for a in np.meshgrid(*levels, indexing="ij")], axis=1)
    return model.generate(grid, kind="mean"), clock


def _some(levels: Floats) -> Floats:
    """At most 21 of the levels, with the first and the last one."""
    return levels[np.unique(np.linspace(0, len(levels) - 1, 21).round().astype(int))]


def _chosen(clocks: Floats, frequency: float | None, source: str) -> float:
    """The clock among those known."""
    listed = ", ".join(f"{c:g}" for c in clocks)
    if frequency is None:
        if len(clocks) > 1:
            raise ArgumentError(f"{source} has the clocks {listed}; name one of them.")
        return float(clocks[0])
    near = np.flatnonzero(same_level(clocks, frequency))
    if not near.size:
        raise ArgumentError(
            f"frequency is {quoted(frequency)}; a clock of {source}, one of {listed}, is wanted."
        )
    return float(clocks[near[0]])


def _decreasing(misses: Floats) -> Floats:
    """Rows that fall, as the mean of the largest and the smallest falling bound of each row."""
    upper = np.maximum.accumulate(misses[:, ::-1], axis=1)[:, ::-1]
    lower = np.minimum.accumulate(misses, axis=1)
    return 0.5 * (upper + lower)


def _between(known: ArrayLike, rows: Floats, wanted: Floats) -> Floats:
    """Linear interpolation of each row, (n, n_known), at other places, (n, n_wanted)."""
    known = np.asarray(known, dtype=float)
    if len(known) == 1:
        return np.repeat(rows, len(wanted), axis=1)
    right = np.clip(np.searchsorted(known, wanted), 1, len(known) - 1)
    share = (wanted - known[right - 1]) / (known[right] - known[right - 1])
    return rows[:, right - 1] * (1 - share) + rows[:, right] * share


def _places(levels: NDArray[np.int64], known: Floats, mixed: Floats) -> Floats:
    """Place of each number of ways among the levels, (n, n_whole), by the misses of the mixture.

    Between two levels, misses fall as those of the mixture do, which are (n, n_whole).
    """
    places = np.empty(mixed.shape)
    for k, (low, high) in enumerate(itertools.pairwise(levels)):
        whole = np.arange(low, high + 1)
        fall = mixed[:, low] - mixed[:, high]
        share = (mixed[:, low, None] - mixed[:, whole]) / np.maximum(fall, 1e-12)[:, None]
        even = (whole - low) / (high - low)
        flat = fall <= 1e-6 * np.maximum(known[:, k], 1e-9)
        places[:, whole] = k + np.clip(np.where(flat[:, None], even, share), 0, 1)
    return places


def _at(rows: Floats, places: Floats) -> Floats:
    """Linear interpolation of each row, (n, n_levels), at places counted in levels."""
    left = np.clip(places.astype(int), 0, rows.shape[1] - 2)
    share = places - left
    first = np.take_along_axis(rows, left, axis=1)
    return first * (1 - share) + np.take_along_axis(rows, left + 1, axis=1) * share


def _seconds_per_miss(misses: Floats, seconds: Floats) -> Floats:
    """Time that a further miss takes, for each bandwidth: from the differences between ways."""
    fewer = -np.diff(misses, axis=1)
    slower = -np.diff(seconds, axis=1)
    total = np.maximum(np.sum(fewer**2), 1e-30)
    return np.maximum(np.einsum("sw,swb->b", fewer, slower) / total, 0.0)
