"""Profiles of one program at one clock, over ways and bandwidths, measured or of a model.

Of a model, the known contexts are taken as measured; others are generated only where the fewest or
the most ways were not measured with the highest bandwidth.
"""

from __future__ import annotations

import itertools
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.words import number_of
from msbgen.data.profiles import Profiles
from msbgen.data.schema import same_level
from msbgen.data.sharing import UNREGULATED
from msbgen.systems.beside.columns import Columns
from msbgen.systems.beside.sampled import EDGES, Samples, cost_of_events, expected_time

_log = logging.getLogger("msbgen")

Floats = NDArray[np.float64]

# Known contexts of a model with one number of ways, of which a table is made.
_MOST_CONTEXTS = 40
# Ways of a cache.
_MOST_WAYS = 1024.0


class Generator(Protocol):
    """A fitted model, as :class:`msbgen.ProfileModel`."""

    @property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        """Labels of the resources by name."""
        ...

    contexts: Any  # known ones, (n_known, n_resources)

    def generate(self, contexts: ArrayLike, *, kind: Any) -> xr.Dataset:
        """Profiles of contexts."""
        ...

    def known_profiles(self, rows: ArrayLike | None = None) -> xr.Dataset:
        """Mean measured profiles of known contexts."""
        ...


class AloneProfiles:
    """Profiles at one clock, over ways and bandwidths, and all from which events are taken."""

    def __init__(self, parts: Sequence[Profiles], frequency: float, columns: Columns):
        first = parts[0]
        self.task = first.task or "program"
        self.parts = [Samples(part, columns) for part in parts]
        if columns.ways not in first.resources:
            raise MeasurementError(
                f"{first.source}: has no resource {quoted(columns.ways)}; profiles over the ways "
                f"of the cache are wanted (measure with CAT, or name the resource)."
            )
        self._ways = [samples.column(columns.ways, np.nan) for samples in self.parts]
        # part, context, ways and bandwidth of those at the clock
        rows: list[tuple[int, int, float, float]] = []
        for p, samples in enumerate(self.parts):
            bandwidth = samples.column(columns.bandwidth, UNREGULATED).tolist()
            at_clock = same_level(samples.column(columns.frequency, frequency), frequency)
            for c in np.flatnonzero(at_clock | math.isnan(frequency)).tolist():
                rows.append((p, c, float(self._ways[p][c]), bandwidth[c]))
        self.ways = np.unique([row[2] for row in rows])
        self.bandwidth = np.unique([row[3] for row in rows])
        if len(self.ways) < 2:
            raise MeasurementError(
                f"{first.source}: has {number_of(len(rows), 'context')} at this clock, "
                f"all with {self.ways[0]:g} ways; two or more numbers of ways are wanted: "
                f"measure more, or give a fitted model."
            )
        if np.any(self.ways != np.round(self.ways)):
            raise MeasurementError(f"{first.source}: has {self.ways[0]:g} ways; whole ways are "
                                   f"wanted.")  # fmt: skip
        self._place = {(ways, bandwidth): (p, c) for p, c, ways, bandwidth in reversed(rows)}
        for ways in self.ways[[0, -1]]:
            if (ways, self.bandwidth[-1]) not in self._place:
                raise MeasurementError(
                    f"{first.source}: lacks {ways:g} ways with {self.bandwidth[-1]:g} MB/s; the "
                    f"fewest and the most ways are wanted with the highest bandwidth: give a "
                    f"fitted model of it."
                )
        for (ways, bandwidth), (p, c) in self._place.items():
            if not np.isfinite(parts[p].ended[c]).any():
                raise MeasurementError(
                    f"{first.source}: has no run with {ways:g} ways and {bandwidth:g} MB/s; "
                    f"measure the context again."
                )

    def events(self) -> Floats:
        """Events up to each share of the work, (n_ways, STEPS + 1, 4)."""
        return np.stack([self._events_of(ways) for ways in self.ways])

    def _events_of(self, ways: float) -> Floats:
        for samples, column in zip(self.parts, self._ways):
            contexts = np.flatnonzero(column == ways)
            if np.isfinite(samples.profiles.ended[contexts]).any():
                return samples.events(contexts)
        raise AssertionError("every number of ways has a run")

    def times(self, events: Floats, transfers: Floats) -> Floats:
        """Time up to each share of the work [s], (n_ways, n_bandwidths, STEPS + 1).

        NaN where a combination was not measured.
        """
        highest = np.stack([self._time(w, self.bandwidth[-1], EDGES) for w in self.ways])
        measured = np.isfinite(highest[:, 0])
        costs = cost_of_events(events[measured], highest[measured])
        found = [
            [
                self._time(ways, bandwidth, expected_time(counted, costs, transfer))
                for bandwidth, transfer in zip(self.bandwidth, transfers)
            ]
            for ways, counted in zip(self.ways, events)
        ]
        return np.array(found)

    def _time(self, ways: float, bandwidth: float, expected: Floats) -> Floats:
        if (ways, bandwidth) not in self._place:
            return np.full(len(EDGES), np.nan)
        part, context = self._place[ways, bandwidth]
        return self.parts[part].time(context, expected)


def grid_parts(
    profiles: xr.Dataset | Generator, frequency: float | None, columns: Columns
) -> tuple[list[Profiles], float]:
    """Profiles, and of a model those of its grid that were not measured; and the clock."""
    if isinstance(profiles, xr.Dataset):
        record = Profiles.of(profiles)
        names = list(record.resources)
        _check_resources(names, record.contexts, record.source, columns)
        if columns.frequency not in names:
            return [record], _taken(frequency, record.source, columns)
        clocks = np.unique(record.contexts[:, names.index(columns.frequency)])
        return [record], _chosen(clocks, frequency, record.source)
    names = list(profiles.resources)
    contexts = profiles.contexts
    source, measured = "the model", np.empty(0)
    if columns.ways not in names:
        raise MeasurementError(
            f"{source} has no resource {quoted(columns.ways)}; a model over the ways of the cache "
            f"is wanted."
        )
    _check_resources(names, contexts, source, columns)
    levels: list[Sequence[float]] = []
    clock = math.nan
    if columns.frequency not in names:
        clock = _taken(frequency, source, columns)
    for name, column in zip(names, contexts.T):
        # the known levels: between these, misses follow from the reuse distances
        kept = _some(np.unique(column))
        if name == columns.ways:
            kept = kept[kept == np.round(kept)]
        elif name == columns.frequency:
            every = np.append(np.asarray(profiles.resources[name].get("levels", column)), column)
            measured = np.unique(column)
            clock = _chosen(measured if frequency is None else np.unique(every), frequency, source)
            kept = np.array([clock])
        levels.append(kept.tolist())
    rows = _rows_on(contexts, names, levels, columns)
    known = {tuple(row) for row in contexts[rows].tolist()}
    missing = [row for row in itertools.product(*levels) if row not in known]
    parts = [Profiles.of(profiles.known_profiles(rows))]
    if measured.size and not _is_within(clock, measured):
        _log.warning(
            "%s: was measured at %s only; its times at the clock %g are beyond what was measured.",
            parts[0].task or source, _span(measured), clock,
        )  # fmt: skip
    if any(_is_extreme(row, names, levels, columns) for row in missing):
        parts.append(Profiles.of(profiles.generate(missing, kind="mean")))
    return parts, clock


def _is_extreme(
    row: Sequence[float], names: Sequence[str], levels: Sequence[Sequence[float]], columns: Columns
) -> bool:
    """Whether a context of a grid has the fewest or most ways, and the highest bandwidth."""
    ways, n = levels[names.index(columns.ways)], names.index(columns.ways)
    highest = columns.bandwidth not in names or (
        row[names.index(columns.bandwidth)] == levels[names.index(columns.bandwidth)][-1]
    )
    return highest and row[n] in (ways[0], ways[-1])


def _rows_on(
    contexts: Floats, names: Sequence[str], levels: Sequence[Sequence[float]], columns: Columns
) -> NDArray[np.int64]:
    """Rows of known contexts with a grid's ways and bandwidths, at most 40 of each ways.

    Those at the grid's clock come first, then those with the lowest bandwidth.
    """
    on = np.ones(len(contexts), dtype=bool)
    other = np.zeros(len(contexts), dtype=bool)
    bandwidth = np.zeros(len(contexts))
    for name, column, kept in zip(names, contexts.T, levels):
        if name == columns.frequency:
            other = column != kept[0]
        else:
            on &= np.isin(column, kept)
        bandwidth = column if name == columns.bandwidth else bandwidth
    order = np.lexsort((bandwidth, other))
    order = order[on[order]]
    ways = contexts[order, names.index(columns.ways)]
    return np.sort(np.concatenate([order[ways == w][:_MOST_CONTEXTS] for w in np.unique(ways)]))


def _some(levels: Floats) -> Floats:
    """At most 21 of the levels, with the first and the last one."""
    return levels[np.unique(np.linspace(0, len(levels) - 1, 21).round().astype(int))]


def _check_resources(names: Sequence[str], contexts: Floats, source: str, columns: Columns) -> None:
    """Refuse levels that no cache, memory or core has, and resources that the law does not know."""
    ranges = {
        columns.ways: (0.0, _MOST_WAYS, f"from 0 to {_MOST_WAYS:g}"),
        columns.bandwidth: (sys.float_info.min, math.inf, "above 0"),
        columns.frequency: (sys.float_info.min, math.inf, "above 0"),
    }
    for name, column in zip(names, contexts.T):
        least, most, wanted = ranges.get(name, (-math.inf, math.inf, ""))
        wrong = column[(column < least) | (column > most)]
        if wrong.size:
            raise MeasurementError(
                f"{source}: has a level of {wrong[0]:g} of the resource {quoted(name)}; levels "
                f"{wanted} are wanted: correct it, or measure the context again."
            )
        several = len(np.unique(column)) > 1
        if several and name not in (columns.ways, columns.bandwidth, columns.frequency):
            raise MeasurementError(
                f"{source}: has several levels of the resource {quoted(name)}, which no other "
                f"program shares; profiles over ways, bandwidth and clock are wanted: keep one "
                f"level of it."
            )


def _is_within(clock: float, measured: Floats) -> bool:
    """Whether a clock is one of those measured, or between them."""
    inside = measured[0] < clock < measured[-1]
    return inside or bool(same_level(measured, clock).any())


def _span(measured: Floats) -> str:
    """The clocks measured, as text."""
    if len(measured) == 1:
        return f"the clock {measured[0]:g}"
    return f"clocks from {measured[0]:g} to {measured[-1]:g}"


def _taken(frequency: float | None, source: str, columns: Columns) -> float:
    """The clock of profiles that name none."""
    if frequency is None:
        return math.nan
    _log.warning(
        "%s: has no resource '%s'; its times are taken as those at the clock %g.",
        source, columns.frequency, frequency,
    )  # fmt: skip
    return float(frequency)


def _chosen(clocks: Floats, frequency: float | None, source: str) -> float:
    """The clock among those known."""
    listed = ", ".join(f"{c:g}" for c in clocks)
    if frequency is None:
        if len(clocks) > 1:
            raise ArgumentError(f"{source} has the clocks {listed}; name one of them (--clock).")
        return float(clocks[0])
    near = np.flatnonzero(same_level(clocks, frequency))
    if not near.size:
        raise ArgumentError(
            f"frequency is {quoted(frequency)}; a clock of {source}, one of {listed}, is wanted "
            f"(--clock)."
        )
    return float(clocks[near[0]])
