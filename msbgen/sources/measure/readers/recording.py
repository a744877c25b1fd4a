"""One recorded run: events counted between timestamps that are not equally spaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted

Floats = NDArray[np.float64]

# State of a cell: a number, the task did not run, the event is not supported.
COUNTED, NOT_COUNTED, NOT_SUPPORTED = 0, 1, 2

# Counters have 64 bits; larger values are negative differences.
_WRAPPED = 2.0**63
# Times [ns] are smaller, and names of events shorter.
_LARGEST, _LONGEST_NAME = 1e18, 500
# Tool events that perf never counts in intervals.
_NEVER_COUNTED = ("user_time", "system_time")
# CSV rounds CPU times to the first [ns].  The run-time field has the same time, up to the second
# [ns], which passes between the readings of both.
_ROUNDED_TO, _READ_APART = 10_000.0, 500.0
# Largest sum of the shares of time on the two kinds of cores of a hybrid CPU, with rounding.
_LARGEST_SHARE_SUM = 1.01
# An event with at least this share of its time counted is regarded as always counted.
_ALWAYS = 0.995
# Bins that are longer than this number of intervals are late.
LATE = 1.5


@dataclass(frozen=True)
class Recording:
    """Events of one run between the timestamps that a tool printed.

    Attributes
    ----------
    source : str
        Name of the file in messages.
    events : tuple of str
        Names that the tool wrote.
    units : tuple of str
        Unit of each event: empty for plain events; CPU times are in ``ns``.
    times : ndarray, (n_bins,)
        End of each bin since the start [s], increasing, as printed.
    counts : ndarray, (n_bins, n_events)
        Events counted since the previous timestamp; NaN where they are missing.
    running : ndarray, (n_bins, n_events)
        Time for which the event was counted [ns].
    enabled : ndarray, (n_bins, n_events)
        Time for which the task ran, so that the event could have been counted [ns].  If `running`
        is smaller, events shared a counter (multiplexing), and the counts are estimates.
    warnings : tuple of str
        One sentence each.
    """

    source: str
    events: tuple[str, ...]
    units: tuple[str, ...]
    times: Floats
    counts: Floats
    running: Floats
    enabled: Floats
    warnings: tuple[str, ...]

    @property
    def totals(self) -> Floats:
        """Events of the whole run, (n_events,)."""
        return np.nansum(self.counts, axis=0)

    @property
    def bins(self) -> Floats:
        """Length of each bin [s], (n_bins,)."""
        return np.diff(self.times, prepend=0.0)

    @property
    def interval(self) -> float:
        """The tool's sampling interval [s], estimated from the timestamps to two digits.

        Bins are never shorter than the interval, except for the last, which the end cuts.
        """
        bins = self.bins
        shortest = float(bins[:-1].min() if bins.size > 1 else bins[0])
        unit = 10.0 ** (np.floor(np.log10(shortest)) - 1)
        return float(round(np.floor(shortest / unit + 1e-9) * unit, 12))

    @property
    def counted_share(self) -> Floats:
        """Share of the run for which each event was counted, (n_events,)."""
        return _share(self.running.sum(axis=0), self.enabled.sum(axis=0))

    def late_bins(self, interval: float) -> Floats:
        """Starts and ends of bins longer than 1.5 intervals [s], (n, 2)."""
        late = self.bins > LATE * interval
        return np.stack([(self.times - self.bins)[late], self.times[late]], axis=1)

    def last_activity(self) -> float:
        """Timestamp of the last bin with a count [s]; the program ended before it."""
        busy = np.flatnonzero((self.counts > 0).any(axis=1))
        return float(self.times[busy[-1]] if busy.size else self.times[-1])

    def select(self, events: Sequence[str]) -> Recording:
        """The recording with these events only; ProfileError if one was not recorded."""
        for event in events:
            if event not in self.events:
                raise ProfileError(
                    f"{self.source}: there is no event '{event}'; it has {', '.join(self.events)}."
                )
        at = [self.events.index(event) for event in events]
        return Recording(
            self.source, tuple(events), tuple(self.units[i] for i in at), self.times,
            self.counts[:, at], self.running[:, at], self.enabled[:, at], self.warnings,
        )  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Rows of a recording, one per timestamp, event and place; each array and sequence (n,)."""

    source: str
    lines: NDArray[np.int64]  # number in the file
    times: Floats  # timestamp [s]
    places: Sequence[str]  # CPU, core, socket, thread or group; empty for the whole task
    events: Sequence[str]
    units: Sequence[str]
    values: Floats  # counts in the units; 0 if nothing was counted, NaN if the count is missing
    states: NDArray[np.int8]  # COUNTED, NOT_COUNTED or NOT_SUPPORTED
    running: Floats  # time for which the event was counted [ns]
    share: Floats  # share of its time for which the event was counted [1]
    summary: dict[str, float]  # totals that the tool printed, by event, in the units
    warnings: tuple[str, ...] = ()  # about everything that the tool measures


def assemble(rows: Rows, events: Sequence[str] = (), places: Sequence[str] = ()) -> Recording:
    """Recording from rows, with a bin per timestamp and a column per event; empty names mean all.

    Rows of several CPUs, cores or threads are added.  So are several rows of one event: perf prints
    two for a probe at two addresses.  The events of the two kinds of cores of a hybrid CPU become
    one.  perf scales each count as if the task had always been on that kind, so the task's count is
    their mean weighted by time (Linux, ``tools/perf/Documentation/intel-hybrid.txt``).

    ProfileError: an event is not supported, never counted in intervals, negative or wrapped;
    timestamps do not increase; or a bin lacks an event.
    """
    _check_ranges(rows)
    rows = _select(_select(rows, events, "event"), places, "place")
    _check_values(rows)
    stamps, stamp = _stamps(rows)
    names, event = _codes(rows.events)
    units = [_unit_of(rows, event, i) for i in range(len(names))]
    values = _in_nanoseconds(rows)
    warnings = list(rows.warnings)
    _check_completeness(rows, stamps, stamp, names, event)
    warnings += _repeated_events(rows, stamp, names, event)

    def summed(weights: Floats) -> Floats:
        size = len(stamps) * len(names)
        cells = np.bincount(stamp * len(names) + event, weights=weights, minlength=size)
        return np.asarray(cells, dtype=float).reshape(len(stamps), len(names))

    counts, running = summed(values), summed(rows.running)
    # an event without a count while its task ran had no counter, because other events used them
    has_share = rows.share > 0
    enabled = rows.running / np.where(has_share, rows.share, 1.0)
    enabled = summed(np.where(has_share, enabled, 0.0))
    longest = enabled.max(axis=1, keepdims=True)
    lacks_share = summed((~has_share).astype(float)) > 0
    absent = lacks_share & (running == 0) & (longest > 0)
    enabled = np.maximum(np.where(lacks_share, longest, enabled), running)
    recording = Recording(
        rows.source, tuple(names), tuple(units), stamps, counts, running, enabled, ()
    )
    recording, absent, joined = _join_hybrid(recording, absent, places=any(rows.places))
    counts = _fill(recording, absent)
    warnings += _summary_differs(rows, names, event, values)
    warnings += [*joined, *_shared_counters(recording, absent)]
    places = _added_places(rows)
    if places:
        listed = ", ".join(places[:4]) + (", …" if len(places) > 4 else "")
        warnings.append(f"{rows.source}: counts of {len(places)} places ({listed}) were added.")
    return replace(recording, counts=counts, warnings=tuple(warnings))


def _added_places(rows: Rows) -> list[str]:
    """Places of the events that were counted at several; none if each was counted at one."""
    pairs = {pair for pair in zip(rows.events, rows.places) if pair[1]}
    events = Counter(event for event, _ in pairs)
    return sorted({place for event, place in pairs if events[event] > 1})


def _share(running: Floats, enabled: Floats) -> Floats:
    """Share of the time; 1 if there is no time."""
    return np.where(enabled > 0, running / np.where(enabled > 0, enabled, 1.0), 1.0)


def _select(rows: Rows, wanted: Sequence[str], what: str) -> Rows:
    """The rows of these events or places; all rows if none are given."""
    if not len(rows.times):
        raise ProfileError(f"{rows.source}: there are no counts in it; measure again.")
    if not wanted:
        return rows
    available = rows.events if what == "event" else rows.places
    for name in wanted:
        if name not in available:
            listed = ", ".join(dict.fromkeys(filter(None, available))) or "none"
            raise ProfileError(f"{rows.source}: there is no {what} '{name}'; it has {listed}.")
    names = frozenset(wanted)
    kept = [i for i, name in enumerate(available) if name in names]
    return Rows(
        rows.source,
        rows.lines[kept],
        rows.times[kept],
        [rows.places[i] for i in kept],
        [rows.events[i] for i in kept],
        [rows.units[i] for i in kept],
        rows.values[kept],
        rows.states[kept],
        rows.running[kept],
        rows.share[kept],
        {n: v for n, v in rows.summary.items() if n in names} if what == "event" else {},
        rows.warnings,
    )


def _check_ranges(rows: Rows) -> None:
    """Raise :class:`ProfileError` for names, times or shares that no tool writes."""
    for name in {*rows.events, *rows.places}:
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            raise ProfileError(
                f"{rows.source}: {quoted(name)} is no name of an event or a CPU; measure again."
            )
    bad = np.flatnonzero(~(rows.running < _LARGEST) | (rows.share > 1) | ~(rows.times < _LARGEST))
    if bad.size:
        raise ProfileError(
            f"{rows.source}: line {rows.lines[bad[0]]} has an invalid time or share of "
            f"time; measure again."
        )


def _check_values(rows: Rows) -> None:
    unsupported = np.flatnonzero(rows.states == NOT_SUPPORTED)
    if unsupported.size:
        names = list(dict.fromkeys(rows.events[i] for i in unsupported.tolist()))
        raise ProfileError(
            f"{rows.source}: line {rows.lines[unsupported[0]]}: event "
            f"{', '.join(repr(name) for name in names)} is not supported on this machine; measure "
            f"without it, or read only the others (--events)."
        )
    for name in _NEVER_COUNTED:
        if name in rows.events:
            raise ProfileError(
                f"{rows.source}: event '{name}' is never counted in intervals; measure "
                f"task-clock instead, or read only the others (--events)."
            )
    if (rows.states == NOT_COUNTED).all():
        raise ProfileError(
            f"{rows.source}: nothing was counted; check that the command can be run, and "
            f"measure again."
        )
    bad = np.flatnonzero((rows.values < 0) | (rows.values >= _WRAPPED))
    if bad.size:
        i = int(bad[0])
        raise ProfileError(
            f"{rows.source}: line {rows.lines[i]}: event '{rows.events[i]}' is "
            f"{rows.values[i]:.6g}: a counter that wrapped or was reset; measure again."
        )


def _stamps(rows: Rows) -> tuple[Floats, NDArray[np.int64]]:
    """Distinct timestamps in order, and the index of each row's timestamp."""
    new = np.flatnonzero(np.diff(rows.times, prepend=-np.inf))
    stamps = rows.times[new]
    backwards = np.flatnonzero(np.diff(stamps, prepend=0.0) <= 0)
    if backwards.size:
        i = int(backwards[0])
        raise ProfileError(
            f"{rows.source}: line {rows.lines[new[i]]}: time {stamps[i]:.9f} s does not increase; "
            f"one recording a file is wanted."
        )
    stamp = np.zeros(len(rows.times), dtype=np.int64)
    stamp[new[1:]] = 1
    return stamps, np.cumsum(stamp)


def _codes(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct names in order, and the index of each row's name."""
    order: dict[str, int] = {}
    codes = [order.setdefault(name, len(order)) for name in names]
    return list(order), np.array(codes, dtype=np.int64)


def _unit_of(rows: Rows, event: NDArray[np.int64], index: int) -> str:
    units = {rows.units[i] for i in np.flatnonzero(event == index).tolist()}
    if len(units) > 1:
        raise ProfileError(
            f"{rows.source}: event '{rows.events[int(np.argmax(event == index))]}' is in units "
            f"{', '.join(repr(u) for u in sorted(units))}; one unit is wanted: measure again."
        )
    unit = units.pop()
    return "ns" if unit == "msec" else unit


def _in_nanoseconds(rows: Rows) -> Floats:
    """Values with CPU times [ns], from the run-time field if CSV has rounded them to 0.01 ms."""
    milliseconds = np.array([unit == "msec" for unit in rows.units])
    printed = rows.values * 1e6
    rounded = np.abs(printed - _ROUNDED_TO * np.round(printed / _ROUNDED_TO)) < 1
    near = np.abs(printed - rows.running) <= _ROUNDED_TO / 2 + _READ_APART
    exact = np.where(rounded & near, rows.running, np.round(printed))
    return np.where(milliseconds, exact, rows.values)


def _check_completeness(
    rows: Rows, stamps: Floats, stamp: NDArray[np.int64], names: list[str], event: NDArray[np.int64]
) -> None:
    """Raise if a bin lacks an event; with several places, perf omits those without a count."""
    if any(rows.places):
        return
    n_rows = np.zeros((len(stamps), len(names)), dtype=np.int64)
    np.add.at(n_rows, (stamp, event), 1)
    bad = np.argwhere(n_rows != np.median(n_rows, axis=0))
    if bad.size:
        i, j = bad[0]
        usual = int(np.median(n_rows[:, j]))
        if n_rows[i, j] > usual:
            line = rows.lines[np.flatnonzero((stamp == i) & (event == j))[-1]]
            remedy = f"line {line} repeats one; drop it"
        elif i == len(stamps) - 1:
            remedy = "the recording ends within a bin; measure again"
        else:
            remedy = "rows are missing; measure again"
        raise ProfileError(
            f"{rows.source}: event '{names[j]}' has {n_rows[i, j]} rows at {stamps[i]:.9f} s and "
            f"{usual} elsewhere: {remedy}."
        )


def _repeated_events(
    rows: Rows, stamp: NDArray[np.int64], names: list[str], event: NDArray[np.int64]
) -> list[str]:
    """Warnings for events with several rows per bin; raise if an event was listed twice."""
    keys = list(zip(stamp.tolist(), event.tolist(), rows.places))
    if len(set(keys)) == len(keys):
        return []
    warnings = []
    for j, name in enumerate(names):
        rows_of_event = np.flatnonzero(event == j)
        several: dict[tuple[int, int, str], list[float]] = {}
        for i in rows_of_event.tolist():
            several.setdefault(keys[i], []).append(float(rows.values[i]))
        n_rows = max(map(len, several.values()))
        if n_rows == 1:
            continue
        equal = all(len(set(values)) == 1 and len(values) == n_rows for values in several.values())
        if equal and rows.values[rows_of_event].any():
            raise ProfileError(
                f"{rows.source}: event '{name}' has {n_rows} rows with equal counts in every "
                f"bin: the command lists it twice; measure it once."
            )
        warnings.append(
            f"{rows.source}: the {n_rows} rows of event '{name}' in a bin were added, as for a "
            f"probe at several addresses."
        )
    return warnings


def _fill(recording: Recording, absent: NDArray[np.bool_]) -> Floats:
    """Counts, with estimates for bins in which other events used the counters.

    The rate per enabled time is interpolated between the bins in which the event was counted.
    """
    filled, index = recording.counts.copy(), np.arange(len(recording.times), dtype=float)
    for j in np.flatnonzero(absent.any(axis=0)).tolist():
        missing, enabled = absent[:, j], recording.enabled[:, j]
        counted = ~missing & (enabled > 0)
        if not counted.any():
            raise ProfileError(
                f"{recording.source}: event '{recording.events[j]}' was never counted, because "
                f"other events used the counters; measure fewer events at once."
            )
        rate = recording.counts[counted, j] / enabled[counted]
        estimate = np.interp(index[missing], index[counted], rate)
        filled[missing, j] = estimate * enabled[missing]
    return filled


def _join_hybrid(
    recording: Recording, absent: NDArray[np.bool_], *, places: bool
) -> tuple[Recording, NDArray[np.bool_], list[str]]:
    """Join the events of the two kinds of cores of a hybrid CPU."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(recording.events):
        groups.setdefault(_without_core_kind(name), []).append(i)
    if all(len(members) == 1 for members in groups.values()):
        return recording, absent, []
    names, units, columns, warnings = [], [], [], []
    for members in groups.values():
        counts, running, enabled = (
            getattr(recording, field)[:, members] for field in ("counts", "running", "enabled")
        )
        time = enabled.max(axis=1)
        part = running / np.where(time > 0, time, 1.0)[:, None]
        whole = part.sum(axis=1)
        if (
            not places and (whole <= _LARGEST_SHARE_SUM).all()
        ):  # each is scaled to the task's whole time
            scaled = (counts * part).sum(axis=1) / np.where(whole > 0, whole, 1.0)
            total = np.where(whole > 0, scaled, counts.sum(axis=1))
            missing = absent[:, members].all(axis=1)
        else:
            total, time = counts.sum(axis=1), enabled.sum(axis=1)
            missing = absent[:, members].any(axis=1)
        columns.append((total, np.minimum(running.sum(axis=1), time), time, missing))
        names.append("+".join(recording.events[i] for i in members))
        units.append(recording.units[members[0]])
        if len(members) > 1:
            warnings.append(
                f"{recording.source}: {names[-1]} was read as one event of a hybrid CPU."
            )
    counts, running, enabled, missing = (np.stack(column, axis=1) for column in zip(*columns))
    joined = Recording(
        recording.source, tuple(names), tuple(units), recording.times, counts, running, enabled, ()
    )
    return joined, missing, warnings


def _without_core_kind(name: str) -> str:
    for kind in ("cpu_core/", "cpu_atom/"):
        if name.startswith(kind):
            return f"hybrid {name.removeprefix(kind)}"
    return name


def _summary_differs(
    rows: Rows, names: list[str], event: NDArray[np.int64], values: Floats
) -> list[str]:
    """Warnings for events whose bins do not add up to the total that the tool printed."""
    warnings = []
    totals = np.bincount(event, weights=values, minlength=len(names))
    for name, printed in rows.summary.items():
        j = names.index(name) if name in names else -1
        if j < 0:
            continue
        unit = rows.units[int(np.argmax(event == j))]
        wanted = printed * 1e6 if unit == "msec" else printed
        slack = 1e-6 * wanted + (_ROUNDED_TO if unit == "msec" else 0.5)
        if abs(totals[j] - wanted) > slack and (rows.share[event == j] > _ALWAYS).all():
            warnings.append(
                f"{rows.source}: event '{name}' adds up to {totals[j]:.9g} in the bins and to "
                f"{wanted:.9g} in the tool's summary; the bins were used."
            )
    return warnings


def _shared_counters(recording: Recording, absent: NDArray[np.bool_]) -> list[str]:
    """A warning with the events that were counted for a part of their time only."""
    share = recording.counted_share
    partial = [j for j in range(len(share)) if share[j] < _ALWAYS]
    if not partial:
        return []
    listed = ", ".join(recording.events[j] for j in partial[:4])
    listed += ", …" if len(partial) > 4 else ""
    filled = int(absent.sum(axis=0).max())
    inside = f" (in up to {filled} of {len(absent)} bins not at all)" if filled else ""
    return [
        f"{recording.source}: {listed} had a counter for {share[partial].min():.0%} of the time or "
        f"more"
        f"{inside}: counts are estimates; measure fewer events at once."
    ]
