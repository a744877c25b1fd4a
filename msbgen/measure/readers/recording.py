"""One run as a tool recorded it: events counted between stamps that are not equally spaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError

Floats = NDArray[np.float64]

# What a cell says: a number, that the task did not run, that there is no such event.
COUNTED, NOT_COUNTED, NOT_SUPPORTED = 0, 1, 2

# Counters are 64 bits wide: what is above half of that went below zero.
_WRAPPED = 2.0**63
# No time in nanoseconds is as long, nor the name of an event.
_MOST, _LONGEST_NAME = 1e18, 500
# Tool events whose intervals perf never counts.
_NEVER = ("user_time", "system_time")
# CSV rounds CPU times to this [ns]; they are those of the run-time field, but for what passes
# between the two being read [ns].
_PRINTED_TO, _READ_APART = 10_000.0, 500.0
# The shares of time on the two kinds of cores of a hybrid CPU, each printed to 0.01 %.
_SHARES_OF_ONE = 1.01
# Below this share of its time an event was not counted all the time.
_WHOLE = 0.995
# Bins this much longer than the interval are late.
LATE = 1.5


@dataclass(frozen=True)
class Recording:
    """Events of one run between the stamps that a tool printed.

    Attributes
    ----------
    source : str
        The file, as sentences name it.
    events : tuple of str
        Names as the tool wrote them.
    units : tuple of str
        Unit of each event: empty for plain events; CPU times are in ``ns``.
    times : ndarray, (n_bins,)
        End of each bin since the start [s], increasing, as printed: no bin is as long as asked.
    counts : ndarray, (n_bins, n_events)
        Events counted since the stamp before.
    running : ndarray, (n_bins, n_events)
        Time for which the event was counted [ns].
    enabled : ndarray, (n_bins, n_events)
        Time for which it could have been counted [ns]: all that the task ran.  Where it was counted
        for less, counters were shared (multiplexing) and the counts are estimates.
    warnings : tuple of str
        What is to be known of the numbers, a sentence each.
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
        return self.counts.sum(axis=0)

    @property
    def bins(self) -> Floats:
        """Length of each bin [s], (n_bins,)."""
        return np.diff(self.times, prepend=0.0)

    @property
    def interval(self) -> float:
        """The interval that was asked for, as the stamps tell it [s], rounded down to two digits.

        Bins are never shorter than what was asked for, but for the last, which the end cuts.
        """
        bins = self.bins
        shortest = float(bins[:-1].min() if bins.size > 1 else bins[0])
        unit = 10.0 ** (np.floor(np.log10(shortest)) - 1)
        return float(round(np.floor(shortest / unit + 1e-9) * unit, 12))

    @property
    def counted_share(self) -> Floats:
        """Share of its time in the run for which each event was counted, (n_events,)."""
        return _share(self.running.sum(axis=0), self.enabled.sum(axis=0))

    def late_bins(self, interval: float) -> Floats:
        """Bins that took more than 1.5 times the interval: their starts and ends [s], (n, 2)."""
        late = self.bins > LATE * interval
        return np.stack([(self.times - self.bins)[late], self.times[late]], axis=1)

    def last_activity(self) -> float:
        """Stamp of the last bin in which anything was counted [s]: the program ended before it."""
        busy = np.flatnonzero((self.counts > 0).any(axis=1))
        return float(self.times[busy[-1]] if busy.size else self.times[-1])

    def select(self, events: Sequence[str]) -> Recording:
        """The recording of these events alone.

        Raises
        ------
        ProfileError
            An event that was not recorded.
        """
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
    """Rows of a recording, one a stamp, event and place, as a reader finds them.

    Attributes
    ----------
    source : str
    lines : ndarray of int, (n,)
        Line of the file.
    times : ndarray, (n,)
        Stamp [s].
    places : sequence of str, (n,)
        CPU, core, socket, thread or group that the row is of; empty for the whole task.
    events, units : sequence of str, (n,)
    values : ndarray, (n,)
        In the units; 0 where nothing was counted.
    states : ndarray of int, (n,)
        COUNTED, NOT_COUNTED or NOT_SUPPORTED.
    running : ndarray, (n,)
        Time for which the event was counted [ns].
    share : ndarray, (n,)
        Share of its time for which it was counted [1].
    summary : mapping of str to float
        Totals that the tool printed itself, by event, in the units; empty where it did not.
    warnings : tuple of str
        What is to be known of all that this tool measures, a sentence each.
    """

    source: str
    lines: NDArray[np.int64]
    times: Floats
    places: Sequence[str]
    events: Sequence[str]
    units: Sequence[str]
    values: Floats
    states: NDArray[np.int8]
    running: Floats
    share: Floats
    summary: dict[str, float]
    warnings: tuple[str, ...] = ()


def assemble(rows: Rows, events: Sequence[str] = (), places: Sequence[str] = ()) -> Recording:
    """Put the rows of a recording together: a bin a stamp, an event a column.

    Rows of several CPUs, cores or threads are added, and so are rows of one event: perf prints two
    for a probe at two addresses.  The two kinds of cores of a hybrid CPU make one event
    (Linux, ``tools/perf/Documentation/intel-hybrid.txt``: each count is scaled up as if the task
    had always been on that kind, so that their mean by shares of time is the task's count).

    Parameters
    ----------
    rows : Rows
    events, places : sequence of str
        What to take of the rows; all of them where it is empty.

    Raises
    ------
    ProfileError
        An event that is not supported, never counted in intervals, below zero or wrapped; stamps
        that do not increase; a bin that lacks an event.
    """
    _refuse_odd(rows)
    rows = _chosen(_chosen(rows, events, "event"), places, "place")
    _refuse_bad_values(rows)
    stamps, stamp = _stamps(rows)
    names, event = _codes(rows.events)
    units = [_unit_of(rows, event, i) for i in range(len(names))]
    values = _in_nanoseconds(rows)
    warnings = list(rows.warnings)
    _refuse_incomplete(rows, stamps, stamp, names, event)
    warnings += _doubled(rows, stamp, names, event)

    def summed(weights: Floats) -> Floats:
        size = len(stamps) * len(names)
        cells = np.bincount(stamp * len(names) + event, weights=weights, minlength=size)
        return np.asarray(cells, dtype=float).reshape(len(stamps), len(names))

    counts, running = summed(values), summed(rows.running)
    # what counted nothing although its task ran: other events had the counters
    told = rows.share > 0
    enabled = summed(np.where(told, rows.running / np.where(told, rows.share, 1.0), 0.0))
    longest = enabled.max(axis=1, keepdims=True)
    untold = summed((~told).astype(float)) > 0
    absent = untold & (running == 0) & (longest > 0)
    enabled = np.maximum(np.where(untold, longest, enabled), running)
    found = Recording(rows.source, tuple(names), tuple(units), stamps, counts, running, enabled, ())
    found, absent, said = _join_hybrid(found, absent, places=any(rows.places))
    counts = _fill(found, absent)
    warnings += [*_summary_differs(rows, names, event, values), *said, *_shared(found, absent)]
    places = sorted(set(rows.places) - {""})
    if len(places) > 1:
        listed = ", ".join(places[:4]) + (", …" if len(places) > 4 else "")
        warnings.append(f"{rows.source}: counts of {len(places)} places ({listed}) were added.")
    return Recording(
        found.source, found.events, found.units, found.times, counts, found.running,
        found.enabled, tuple(warnings),
    )  # fmt: skip


def _share(running: Floats, enabled: Floats) -> Floats:
    """Share of the time; all of none."""
    return np.where(enabled > 0, running / np.where(enabled > 0, enabled, 1.0), 1.0)


def _chosen(rows: Rows, wanted: Sequence[str], what: str) -> Rows:
    """The rows of the events or the places to take."""
    if not len(rows.times):
        raise ProfileError(f"{rows.source}: there are no counts in it; measure again.")
    if not wanted:
        return rows
    there = rows.events if what == "event" else rows.places
    for name in wanted:
        if name not in there:
            known = ", ".join(dict.fromkeys(filter(None, there))) or "none"
            raise ProfileError(f"{rows.source}: there is no {what} '{name}'; it has {known}.")
    names = frozenset(wanted)
    kept = [i for i, name in enumerate(there) if name in names]
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


def _refuse_odd(rows: Rows) -> None:
    """Refuse what no tool writes, whatever is taken of it."""
    for name in {*rows.events, *rows.places}:
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            raise ProfileError(
                f"{rows.source}: {name[:_LONGEST_NAME]!r} is no name of an event or a CPU; measure "
                f"again."
            )
    odd = np.flatnonzero(~(rows.running < _MOST) | (rows.share > 1) | ~(rows.times < _MOST))
    if odd.size:
        raise ProfileError(
            f"{rows.source}: line {rows.lines[odd[0]]} holds a time, or a share of it, that "
            f"cannot be; measure again."
        )


def _refuse_bad_values(rows: Rows) -> None:
    unsupported = np.flatnonzero(rows.states == NOT_SUPPORTED)
    if unsupported.size:
        names = list(dict.fromkeys(rows.events[i] for i in unsupported.tolist()))
        raise ProfileError(
            f"{rows.source}: line {rows.lines[unsupported[0]]}: event "
            f"{', '.join(repr(name) for name in names)} is not supported on this machine; measure "
            f"without it, or take the others only."
        )
    for name in _NEVER:
        if name in rows.events:
            raise ProfileError(
                f"{rows.source}: event '{name}' is never counted in intervals; measure task-clock "
                f"in its place, or take the others only."
            )
    if (rows.states == NOT_COUNTED).all():
        raise ProfileError(
            f"{rows.source}: nothing was counted at all; see that the command can be run, and "
            f"measure again."
        )
    bad = np.flatnonzero((rows.values < 0) | ~(rows.values < _WRAPPED))
    if bad.size:
        i = int(bad[0])
        raise ProfileError(
            f"{rows.source}: line {rows.lines[i]}: event '{rows.events[i]}' is "
            f"{rows.values[i]:.6g}: a counter that wrapped or was reset; measure again."
        )


def _stamps(rows: Rows) -> tuple[Floats, NDArray[np.int64]]:
    """Distinct stamps in their order, and the stamp of each row."""
    new = np.flatnonzero(np.diff(rows.times, prepend=-1.0))
    stamps = rows.times[new]
    back = np.flatnonzero(np.diff(stamps, prepend=0.0) <= 0)
    if back.size:
        i = int(back[0])
        raise ProfileError(
            f"{rows.source}: line {rows.lines[new[i]]}: time {stamps[i]:.9f} s does not increase; "
            f"one recording a file is wanted."
        )
    stamp = np.zeros(len(rows.times), dtype=np.int64)
    stamp[new[1:]] = 1
    return stamps, np.cumsum(stamp)


def _codes(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct names in their order, and the index of each."""
    order: dict[str, int] = {}
    codes = [order.setdefault(name, len(order)) for name in names]
    return list(order), np.array(codes, dtype=np.int64)


def _unit_of(rows: Rows, event: NDArray[np.int64], index: int) -> str:
    found = {rows.units[i] for i in np.flatnonzero(event == index).tolist()}
    if len(found) > 1:
        raise ProfileError(
            f"{rows.source}: event '{rows.events[int(np.argmax(event == index))]}' is in units "
            f"{', '.join(repr(u) for u in sorted(found))}; one unit is wanted: measure again."
        )
    unit = found.pop()
    return "ns" if unit == "msec" else unit


def _in_nanoseconds(rows: Rows) -> Floats:
    """Values, CPU times in nanoseconds: CSV rounds them to 0.01 ms, the run-time field does not."""
    milliseconds = np.array([unit == "msec" for unit in rows.units])
    printed = rows.values * 1e6
    rounded = np.abs(printed - _PRINTED_TO * np.round(printed / _PRINTED_TO)) < 1
    near = np.abs(printed - rows.running) <= _PRINTED_TO / 2 + _READ_APART
    exact = np.where(rounded & near, rows.running, np.round(printed))
    return np.where(milliseconds, exact, rows.values)


def _refuse_incomplete(
    rows: Rows,
    stamps: Floats,
    stamp: NDArray[np.int64],
    names: list[str],
    event: NDArray[np.int64],
) -> None:
    """Every bin has every event; of several places perf leaves out those with nothing to count."""
    if any(rows.places):
        return
    many = np.zeros((len(stamps), len(names)), dtype=np.int64)
    np.add.at(many, (stamp, event), 1)
    bad = np.argwhere(many != np.median(many, axis=0))
    if bad.size:
        i, j = bad[0]
        where = "the recording ends within a bin" if i == len(stamps) - 1 else "rows are missing"
        raise ProfileError(
            f"{rows.source}: event '{names[j]}' has {many[i, j]} rows at {stamps[i]:.9f} s and "
            f"{int(np.median(many[:, j]))} elsewhere: {where}; measure again."
        )


def _doubled(
    rows: Rows, stamp: NDArray[np.int64], names: list[str], event: NDArray[np.int64]
) -> list[str]:
    """Say which events stand several times in a bin; refuse those that are one counter twice."""
    keys = list(zip(stamp.tolist(), event.tolist(), rows.places))
    if len(set(keys)) == len(keys):
        return []
    said = []
    for j, name in enumerate(names):
        own = np.flatnonzero(event == j)
        several: dict[tuple[int, int, str], list[float]] = {}
        for i in own.tolist():
            several.setdefault(keys[i], []).append(float(rows.values[i]))
        many = max(map(len, several.values()))
        if many == 1:
            continue
        equal = all(len(set(values)) == 1 and len(values) == many for values in several.values())
        if equal and rows.values[own].any():
            raise ProfileError(
                f"{rows.source}: event '{name}' stands {many} times in every bin with equal "
                f"counts: it was asked for twice; measure it once."
            )
        said.append(
            f"{rows.source}: the {many} rows of event '{name}' in a bin were added, as of a probe "
            f"at several addresses."
        )
    return said


def _fill(found: Recording, absent: NDArray[np.bool_]) -> Floats:
    """Estimate what was not counted while other events had the counters.

    The rate per time enabled is interpolated between the bins in which the event was counted.
    """
    filled, at = found.counts.copy(), np.arange(len(found.times), dtype=float)
    for j in np.flatnonzero(absent.any(axis=0)).tolist():
        gone, enabled = absent[:, j], found.enabled[:, j]
        known = ~gone & (enabled > 0)
        if not known.any():
            raise ProfileError(
                f"{found.source}: event '{found.events[j]}' was never counted, as other events had "
                f"the counters; measure fewer events at once."
            )
        rate = found.counts[known, j] / enabled[known]
        filled[gone, j] = np.interp(at[gone], at[known], rate) * enabled[gone]
    return filled


def _join_hybrid(
    found: Recording, absent: NDArray[np.bool_], *, places: bool
) -> tuple[Recording, NDArray[np.bool_], list[str]]:
    """Make one event of what a hybrid CPU counts on each of its two kinds of cores."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(found.events):
        groups.setdefault(_without_core_kind(name), []).append(i)
    if all(len(members) == 1 for members in groups.values()):
        return found, absent, []
    names, units, columns, said = [], [], [], []
    for members in groups.values():
        counts, running, enabled = (
            getattr(found, field)[:, members] for field in ("counts", "running", "enabled")
        )
        time = enabled.max(axis=1)
        part = running / np.where(time > 0, time, 1.0)[:, None]
        whole = part.sum(axis=1)
        if not places and (whole <= _SHARES_OF_ONE).all():  # each is scaled to all of a task's time
            scaled = (counts * part).sum(axis=1) / np.where(whole > 0, whole, 1.0)
            total = np.where(whole > 0, scaled, counts.sum(axis=1))
            missing = absent[:, members].all(axis=1)
        else:
            total, time = counts.sum(axis=1), enabled.sum(axis=1)
            missing = absent[:, members].any(axis=1)
        columns.append((total, np.minimum(running.sum(axis=1), time), time, missing))
        names.append("+".join(found.events[i] for i in members))
        units.append(found.units[members[0]])
        if len(members) > 1:
            said.append(f"{found.source}: {names[-1]} was taken as one event of a hybrid CPU.")
    counts, running, enabled, missing = (np.stack(column, axis=1) for column in zip(*columns))
    joined = Recording(
        found.source, tuple(names), tuple(units), found.times, counts, running, enabled, ()
    )
    return joined, missing, said


def _without_core_kind(name: str) -> str:
    for kind in ("cpu_core/", "cpu_atom/"):
        if name.startswith(kind):
            return f"hybrid {name.removeprefix(kind)}"
    return name


def _summary_differs(
    rows: Rows, names: list[str], event: NDArray[np.int64], values: Floats
) -> list[str]:
    """Where the tool's own totals are not those of the bins."""
    said = []
    totals = np.bincount(event, weights=values, minlength=len(names))
    for name, printed in rows.summary.items():
        j = names.index(name) if name in names else -1
        if j < 0:
            continue
        unit = rows.units[int(np.argmax(event == j))]
        wanted = printed * 1e6 if unit == "msec" else printed
        slack = 1e-6 * wanted + (_PRINTED_TO if unit == "msec" else 0.5)
        if abs(totals[j] - wanted) > slack and (rows.share[event == j] > _WHOLE).all():
            said.append(
                f"{rows.source}: event '{name}' adds up to {totals[j]:.9g} in the bins and to "
                f"{wanted:.9g} in the tool's own summary; the bins were taken."
            )
    return said


def _shared(found: Recording, absent: NDArray[np.bool_]) -> list[str]:
    """Which events were counted for a part of their time only."""
    part = found.counted_share
    some = [j for j in range(len(part)) if part[j] < _WHOLE]
    if not some:
        return []
    named = ", ".join(found.events[j] for j in some[:4]) + (", …" if len(some) > 4 else "")
    filled = int(absent.sum(axis=0).max())
    inside = f" (in up to {filled} of {len(absent)} bins not at all)" if filled else ""
    return [
        f"{found.source}: {named} had a counter for {part[some].min():.0%} of the time or more"
        f"{inside}: counts are estimates; measure fewer events at once."
    ]
