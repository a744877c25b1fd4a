"""What a program does alone, over its progress and over its resources.

A table has, for each of 150 segments of a program's progress: the requests to the last-level
cache, the misses with w ways, and the time with w ways and a bandwidth of b.  Requests, time, and
the changes of their ratio are spread evenly over the segments: a short phase may have most of the
misses.  Times are those of the contexts at one clock, requests and misses those at all clocks.  A
combination of ways and bandwidth that was not measured is interpolated; only the fewest and the
most ways are wanted with the highest bandwidth.

Between two bandwidths, what a time exceeds the larger one of the unlimited time and the time of the
transfers is interpolated.

Misses by ways also give the *reuse distances*: how many other lines (in units of a way, so many
lines as there are sets) the program uses between two uses of a line.  A line with a distance of x
meets a Poisson number of lines in its set, of mean x, and misses where w or more came between::

    misses(w) = Σ_x reuse(x) · P(Poisson(x) ≥ w)

`reuse` is the maximum-likelihood mixture, by expectation maximisation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc

from msbgen.core.records import NotNegative, Within, checks_arguments
from msbgen.data.profiles import Profiles
from msbgen.data.sharing import UNREGULATED
from msbgen.systems.beside.alone import AloneProfiles, Generator, grid_parts
from msbgen.systems.beside.columns import Columns
from msbgen.systems.beside.sampled import EDGES, even_edges, uncounted

Floats = NDArray[np.float64]

# Reuse distances, in ways; the last one is that of a line used for the first time.
DISTANCES = np.array(
    [0.01, 0.03, 0.06, 0.1, 0.17, 0.25, 0.35, 0.5, 0.7, 0.9, 1.2, 1.5, 1.8, 2.2, 2.6]
    + [3 + 0.5 * i for i in range(14)]
    + [10.0 + i for i in range(11)]
    + [22.0, 24.0, 26.0, 29.0, 32.0, 36.0, 41.0, 48.0, np.inf]
)
# Steps of the expectation maximisation: further ones fit the noise of the misses.
_STEPS = 2000
# Bandwidths between the lowest and the highest limited one of a table.
_BANDWIDTHS = 14


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
    progress : ndarray, (n_segments + 1,)
        Shares of the work between which segments lie, from 0 to 1.
    instructions : ndarray, (n_segments,)
        Instructions of each segment.
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
    progress: Floats
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


@checks_arguments
def program_table(
    profiles: xr.Dataset | Generator,
    frequency: float | None = None,
    *,
    segments: Annotated[int, Within(2, 10_000)] = 150,
    doubt: NotNegative | None = None,
    columns: Columns = _COLUMNS,
) -> ProgramTable:
    """What a program does alone, over its progress, with any ways and bandwidth.

    Parameters
    ----------
    profiles : xarray.Dataset or model
        Measured or generated profiles over ways and bandwidths, at one or more clocks, with the
        fewest and most ways at the highest bandwidth; or a fitted model: profiles of its known
        contexts are those measured, and where these two are missing, others are generated.
    frequency : float, optional
        Clock; default: the only one that was measured.  A model also has those of its levels; a
        warning is logged for one beyond those measured.
    segments : int
        Segments, over which requests, time, and the changes of their ratio are spread evenly.
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
        A counter, a resource, or one of these contexts is missing; or a run lacks a counter, as
        with groups of counters: fit a model of these.

    Notes
    -----
    For a model of 125 contexts 0.1 s.  Between the levels of the ways, misses fall as those of the
    mixture, and times with the misses; with 0 ways, every request misses.
    """
    parts, frequency = grid_parts(profiles, frequency, columns)
    alone = AloneProfiles(parts, frequency, columns)
    transfers = columns.line_size / (1e6 * alone.bandwidth)
    counted = alone.events()
    time = alone.times(counted, transfers)
    known_time = time[np.isfinite(time[:, :, 0])].mean(axis=0)
    progress = even_edges(counted[:, :, 1].mean(axis=0), known_time, segments)
    # (n_segments, ways, 4) and (n_segments, ways, bandwidths)
    events = np.diff(_at_shares(counted.transpose(0, 2, 1), progress)).transpose(2, 0, 1)
    seconds = np.diff(_at_shares(time, progress)).transpose(2, 0, 1)
    instructions = np.maximum(events[:, :, 0].mean(axis=1), 1e-9)
    requests = events[:, :, 1].mean(axis=1)
    missed = np.minimum(_decreasing(events[:, :, 2]), requests[:, None])
    early = np.minimum(events[:, :, 3], missed)
    seconds[:, :, -1] = _between_measured(seconds[:, :, -1], missed)
    seconds = np.maximum(_completed(seconds, missed * transfers[:, None, None]), 1e-12)
    reuse = reuse_distances(requests, missed, alone.ways)
    # between levels: misses by the mixture, and times by the misses
    whole = np.arange(round(alone.ways[-1]) + 1)
    mixed = reuse @ miss_probability(DISTANCES, whole).T
    levels = np.append(0, alone.ways) if alone.ways[0] > 0 else alone.ways
    known = np.concatenate([requests[:, None], missed], axis=1)[:, -len(levels) :]
    place = _places(levels.astype(int), known, mixed)
    misses = _at(known, place)
    # below the fewest ways, with as many of the misses prefetched
    fewest = early[:, :1] / np.maximum(missed[:, :1], 1e-9) * requests[:, None]
    prefetched = _at(np.concatenate([fewest, early], axis=1)[:, -len(levels) :], place)
    prefetched = np.minimum(prefetched, misses)
    # with no ways, each further miss takes as long as those between the ways
    slope = _seconds_per_miss(missed, seconds[:, :, -1])
    unlimited = seconds[:, :1, -1] + slope * (requests - missed[:, 0])[:, None]
    unlimited = np.concatenate([unlimited, seconds[:, :, -1]], axis=1)[:, -len(levels) :]
    unlimited_at = _at(unlimited, place)
    times = np.empty((segments, len(whole), len(alone.bandwidth)))
    for b, transfer in enumerate(transfers):
        rest = seconds[:, :, b] - np.maximum(seconds[:, :, -1], missed * transfer)
        rest = np.concatenate([rest[:, :1], rest], axis=1)[:, -len(levels) :]
        times[:, :, b] = np.maximum(unlimited_at, misses * transfer) + _at(rest, place)
    table = ProgramTable(
        alone.task, frequency, alone.bandwidth, progress, instructions, requests, misses,
        np.minimum(prefetched, misses), np.maximum(times, 1e-12), reuse,
        duration_spread(parts[0]) if doubt is None else float(doubt), columns,
    )  # fmt: skip
    return with_bandwidths(table, denser_bandwidths(alone.bandwidth))


def is_grid(profiles: Profiles, columns: Columns = _COLUMNS) -> bool:
    """Whether the contexts are every combination of their levels, with two ways or more.

    And whether every run that has ended holds every counter, as :func:`program_table` needs.
    """
    many = 1
    for name, column in zip(profiles.resources, profiles.contexts.T):
        levels = len(np.unique(column))
        if name == columns.ways and levels < 2:
            return False
        many *= levels
    return len(profiles.contexts) == many and not any(uncounted(profiles, columns))


def duration_spread(profiles: Profiles) -> float:
    """Standard deviation of the logarithm of durations between runs of a context, 0 for one run."""
    logs = np.log(profiles.ended)
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
    """The same table at other bandwidths [MB/s].

    A time is the larger one of the unlimited time (that at the highest bandwidth) and the time of
    the transfers, and a rest, which is interpolated in 1/bandwidth.
    """
    per_miss = table.columns.line_size / 1e6
    unlimited = table.seconds[:, :, -1:]

    def limited(levels: Floats) -> Floats:
        return np.maximum(unlimited, table.misses[:, :, None] * per_miss / levels)

    known, wanted = 1 / table.bandwidth[::-1], 1 / bandwidth
    rest = (table.seconds - limited(table.bandwidth))[:, :, ::-1]
    n, w, _ = rest.shape
    between = _between(known, rest.reshape(n * w, -1), np.clip(wanted, known[0], known[-1]))
    times = np.maximum(limited(bandwidth) + between.reshape(n, w, -1), 1e-12)
    return replace(table, bandwidth=bandwidth, seconds=times)


def denser_bandwidths(levels: Floats) -> Floats:
    """Bandwidths [MB/s], with others between those below the highest, and beyond."""
    limited = levels[:-1] if levels[-1] >= UNREGULATED else levels
    if not limited.size:
        return levels
    between = np.geomspace(limited[0], limited[-1], _BANDWIDTHS)
    beyond = limited[-1] * 1.5 ** np.arange(1, 6)
    found = np.unique(np.concatenate([levels, between, beyond[beyond < levels[-1]]]))
    return found[np.append(True, np.diff(found) > 1e-9 * found[1:])]


def _between_measured(seconds: Floats, misses: Floats) -> Floats:
    """Unlimited times (n, n_ways) with those that are NaN, interpolated over the misses.

    Those with the fewest and the most ways are known.
    """
    found = seconds.copy()
    measured = np.flatnonzero(np.isfinite(seconds[0]))
    for low, high in itertools.pairwise(measured.tolist()):
        fall = np.maximum(misses[:, low] - misses[:, high], 1e-9)
        for k in range(low + 1, high):
            share = np.clip((misses[:, low] - misses[:, k]) / fall, 0, 1)
            found[:, k] = seconds[:, low] * (1 - share) + seconds[:, high] * share
    return found


def _completed(seconds: Floats, transfer: Floats) -> Floats:
    """Times of segments, (n, n_ways, n_bandwidths), with those that are NaN.

    What a time exceeds the larger one of the unlimited time (n, n_ways) and the time of the
    `transfer` (n_bandwidths, n, n_ways) is interpolated between the ways that were measured.
    """
    floor = np.maximum(seconds[:, :, -1:], transfer.transpose(1, 2, 0))
    rest = seconds - floor
    for b in range(seconds.shape[2]):
        measured = np.flatnonzero(np.isfinite(rest[0, :, b]))
        places = np.interp(np.arange(rest.shape[1]), measured, np.arange(len(measured)))
        rest[:, :, b] = _between(np.arange(len(measured)), rest[:, measured, b], places)
    return floor + rest


def _at_shares(cumulative: Floats, shares: Floats) -> Floats:
    """Interpolation along the last axis, over EDGES, at shares of the work."""
    rows = cumulative.reshape(-1, cumulative.shape[-1])
    return _between(EDGES, rows, shares).reshape(*cumulative.shape[:-1], len(shares))


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


def _seconds_per_miss(misses: Floats, seconds: Floats) -> float:
    """Time that a further miss takes, from the differences between ways, (n, n_ways) each."""
    fewer, slower = -np.diff(misses, axis=1), -np.diff(seconds, axis=1)
    return max(float(np.sum(fewer * slower)) / max(float(np.sum(fewer**2)), 1e-30), 0.0)
