"""The runs of two versions of a program, matched by context and by counter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError, ProfileError, quoted
from msbgen.data.check import validate_profiles
from msbgen.data.schema import (
    check_datasets,
    clock_name,
    complete_array,
    context_table,
    count_array,
    counter_names,
    describe_context,
    duration_array,
    file_of,
    resource_names,
    same_level,
    sampling_interval,
    started_array,
)
from msbgen.faults.findings import (
    BadContext,
    ExchangedContexts,
    Fault,
    Findings,
    MachineDrift,
    SlowContext,
    StretchedRun,
    WrongCount,
)
from msbgen.generate.faults import known_faults, without_faults
from msbgen.generate.progress import to_progress
from msbgen.generate.runs import usable_runs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]


# The most intervals of one version that are joined to compare it with another's interval.
_MOST_INTERVALS = 4


@dataclass(frozen=True, eq=False)
class VersionRuns:
    """Runs of one version in the shared contexts.

    Attributes
    ----------
    counts : (n, runs, times, k)
        Events per sampling interval of the shared counters.
    duration : (n, runs)
        Execution times [s]; NaN for runs that are missing, faulty or cut.
    interval : float
        Sampling interval [s].
    total : (n, runs, k)
        Events of whole runs.
    stretched : int
        Number of runs that were left out because a part of them was slowed down.
    """

    counts: Floats
    duration: Floats
    interval: float
    total: Floats
    stretched: int

    def amounts(self, knots: Floats, clock: int) -> Floats:
        """Amounts between knots of progress of every quantity but the clock, (n, runs, bins, k)."""
        used = np.isfinite(self.duration)
        counts = np.where(used[..., None, None], self.counts, np.nan)
        runs = to_progress(counts, self.duration, self.interval, knots=knots, clock=clock)
        return np.where(usable_runs(runs.total, clock)[..., None, None], runs.state, np.nan)

    def sampled_every(self, interval: float) -> VersionRuns:
        """The same runs, as a longer sampling interval [s] shows them.

        Work that both versions share is spread out alike only in equal intervals.
        """
        if np.isclose(interval, self.interval):
            return self
        used = np.isfinite(self.duration)
        n_times = int(np.ceil(self.duration[used].max(initial=interval) / interval - 1e-9))
        counts = np.full((*self.duration.shape, n_times, self.counts.shape[3]), np.nan)
        for place in zip(*np.nonzero(used)):
            whole, own = self.duration[place], self.counts[place]
            ends = np.minimum(interval * np.arange(1, n_times + 1), whole)
            ends = ends[: int(np.ceil(whole / interval - 1e-9))]
            for k, column in enumerate(own.T):
                held = np.isfinite(column)
                if held.any():
                    n = int(np.flatnonzero(held)[-1]) + 1
                    edges = np.append(self.interval * np.arange(n), whole)
                    parts = np.diff(np.interp(ends, edges, _sums(column[:n])), prepend=0.0)
                    lost = np.diff(np.interp(ends, edges, _sums(~held[:n])), prepend=0.0)
                    counts[*place, : len(ends), k] = np.where(lost > 0, np.nan, parts)
        return replace(self, counts=counts, interval=interval)


def _common_interval(first: float, second: float) -> float:
    """Least common multiple of both intervals; the longer one where that is much longer."""
    short, long = sorted((first, second))
    for times in range(1, _MOST_INTERVALS + 1):
        parts = times * long / short
        if np.isclose(parts, round(parts), rtol=1e-6):
            return times * long
    return long


def _sums(parts: Floats | Bools) -> Floats:
    """Sums of the first 0 to n of n parts, where missing ones are 0."""
    return np.append(0.0, np.cumsum(np.nan_to_num(parts.astype(float))))


@dataclass(frozen=True, eq=False)
class Pair:
    """Two versions of a program in the contexts that both were measured in.

    Attributes
    ----------
    contexts : (n, m)
        Shared contexts that neither version's faults exclude.
    rows : (n,)
        Their rows in the old dataset.
    old, new : VersionRuns
        Their runs.
    counters : tuple of str
        Counters that both versions have.
    clock : int
        The measure of progress: 0 for time, 1 + k for counter k.
    are_paired : bool
        Whether runs of both versions with one number were measured one right after the other.
    notes : tuple of str
        What limits the comparison, a sentence each.
    """

    contexts: Floats
    rows: Indices
    old: VersionRuns
    new: VersionRuns
    counters: tuple[str, ...]
    clock: int
    are_paired: bool
    notes: tuple[str, ...]

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the amounts: time, and every counter but the clock."""
        names = ("time", *self.counters)
        return (*names[: self.clock], *names[self.clock + 1 :])


def check_profiles(*datasets: xr.Dataset) -> None:
    """Raise :class:`ProfileError` where a dataset is not valid, or holds no runs."""
    check_datasets(*datasets)
    for dataset in datasets:
        validate_profiles(dataset, source=file_of(dataset))
        if "run" not in dataset.dims:
            raise ProfileError(
                f"{file_of(dataset)}: has no measured runs (dimension 'run'); compare measured "
                f"files, not generated ones."
            )


def check_comparable(old: xr.Dataset, new: xr.Dataset) -> tuple[str, ...]:
    """Shared counters of two valid profile datasets that can be compared.

    Raises
    ------
    ProfileError
        The resources, the units or the measure of progress differ.
    """
    first, second = file_of(old), file_of(new)
    if set(resource_names(old)) != set(resource_names(new)):
        raise ProfileError(
            f"{second}: has the resources {', '.join(resource_names(new))}, {first} has "
            f"{', '.join(resource_names(old))}; measure both versions over the same resources."
        )
    for name in resource_names(old):
        _check_equal_units(name, old, new)
    if clock_name(old) != clock_name(new):
        raise ProfileError(
            f"{second}: measures progress by '{clock_name(new)}', {first} by '{clock_name(old)}'; "
            f"set the attribute 'progress' of both files to one of them."
        )
    shared = tuple(name for name in counter_names(old) if name in counter_names(new))
    if clock_name(old) not in ("time", *shared):
        raise ProfileError(
            f"{second}: lacks the counter '{clock_name(old)}' that measures progress in {first}: "
            f"measure it in both versions."
        )
    for name in shared:
        _check_equal_units(name, old, new)
    return shared


def _check_equal_units(name: str, old: xr.Dataset, new: xr.Dataset) -> None:
    units = [str(dataset[name].attrs.get("units", "1")) for dataset in (old, new)]
    if units[0] != units[1]:
        raise ProfileError(
            f"{file_of(new)}: '{name}' is in {units[1]!r}, in {file_of(old)} in {units[0]!r}; "
            f"convert one of them."
        )


def shared_rows(old: xr.Dataset, new: xr.Dataset) -> tuple[Indices, Indices]:
    """Rows of the contexts that both datasets have, in the order of the old one."""
    first = context_table(old)
    second = context_table(new)[:, [resource_names(new).index(n) for n in resource_names(old)]]
    same = np.asarray(same_level(first[:, None], second[None]).all(axis=2))
    rows = np.flatnonzero(same.any(axis=1))
    return rows, same[rows].argmax(axis=1)


def pair_profiles(old: xr.Dataset, new: xr.Dataset) -> Pair:
    """Match the runs of two valid datasets by context and counter; faults are left out of both.

    Raises
    ------
    ProfileError
        See :func:`check_comparable`.
    MeasurementError
        No context is shared, or faults leave none.
    """
    counters = check_comparable(old, new)
    rows = shared_rows(old, new)
    if not len(rows[0]):
        raise MeasurementError(
            f"{file_of(old)} and {file_of(new)} share no context: measure both versions in the "
            f"same contexts."
        )
    findings = known_faults(old), known_faults(new)
    versions = [
        _version(dataset, found, own, counters)
        for dataset, found, own in zip((old, new), findings, rows)
    ]
    common = _common_interval(*(version.interval for version in versions))
    versions = [version.sampled_every(common) for version in versions]
    notes = _fault_notes(old, *findings, is_new=False)
    notes += _fault_notes(new, *findings[::-1], is_new=True)
    notes += _difference_notes(old, new, rows, counters, findings)
    are_paired = _is_one_sweep(old, new)
    if are_paired:
        n_before = [int(np.isfinite(v.duration).sum()) for v in versions]
        started = [started_array(dataset)[own] for dataset, own in zip((old, new), rows)]
        partners = _partners(versions, started)
        alone = sum(n_before) - sum(int(np.isfinite(v.duration).sum()) for v in partners)
        are_paired = alone <= sum(n_before) / 2
        versions = partners if are_paired else versions
        if not are_paired:
            notes.append(
                "the runs of both files are of one sweep, but did not start in turn: they are "
                "compared without pairs, and a drift of the machine looks like the change."
            )
        elif alone:
            notes.append(
                f"left out, without a usable run of the other version and their context right "
                f"before or after them: {_counted(alone, 'run')}."
            )
    kept = np.all([np.isfinite(v.duration).any(axis=1) for v in versions], axis=0)
    if not kept.any():
        raise MeasurementError(
            f"no context of {file_of(old)} and {file_of(new)} has complete runs without faults in "
            f"both: measure them again."
        )
    if not kept.all():
        left_out = ", ".join(describe_context(old, int(i)) for i in rows[0][~kept])
        notes.append(
            f"shared contexts without usable runs in both versions are left out: {left_out}."
        )
    clock = clock_name(old)
    return Pair(
        context_table(old)[rows[0][kept]],
        rows[0][kept],
        _rows_of(versions[0], kept),
        _rows_of(versions[1], kept),
        counters,
        0 if clock == "time" else 1 + counters.index(clock),
        are_paired,
        tuple(notes),
    )


def _version(
    dataset: xr.Dataset, found: Findings, rows: Indices, counters: tuple[str, ...]
) -> VersionRuns:
    clean = without_faults(dataset, found) if found else dataset
    names = counter_names(clean)
    counts = count_array(clean)[rows][..., [names.index(name) for name in counters]]
    ended = complete_array(dataset)[rows]
    duration = np.where(ended, duration_array(clean)[rows], np.nan)
    held = np.isfinite(counts).any(axis=2)
    total = np.where(held & np.isfinite(duration)[..., None], np.nansum(counts, axis=2), np.nan)
    stretched = sum(isinstance(f, StretchedRun) and f.contexts[0] in rows for f in found)
    return VersionRuns(counts, duration, sampling_interval(dataset), total, stretched)


def _is_one_sweep(old: xr.Dataset, new: xr.Dataset) -> bool:
    """Whether both are variants of one sweep whose runs have a start."""
    same = "sweep" in old.attrs and old.attrs["sweep"] == new.attrs.get("sweep")
    return same and all(np.isfinite(started_array(dataset)).any() for dataset in (old, new))


def _partners(versions: list[VersionRuns], started: list[Floats]) -> list[VersionRuns]:
    """Runs of both versions in columns of partners: neighbours in time, of one context.

    `started` is the start of each run (n, runs) [s].  Runs without a partner are missing.
    """
    held = [np.isfinite(v.duration) & np.isfinite(s) for v, s in zip(versions, started)]
    sides, rows, runs, times = [], [], [], []
    for side, (mask, begin) in enumerate(zip(held, started)):
        row, run = np.nonzero(mask)
        sides.append(np.full(len(row), side))
        rows.append(row)
        runs.append(run)
        times.append(begin[mask])
    order = np.argsort(np.concatenate(times), kind="stable")
    side, row, run = (np.concatenate(part)[order] for part in (sides, rows, runs))
    columns: list[list[tuple[int, int]]] = [[] for _ in held[0]]
    k = 0
    while k + 1 < len(order):
        if row[k] == row[k + 1] and side[k] != side[k + 1]:
            first, second = (k, k + 1) if side[k] == 0 else (k + 1, k)
            columns[row[k]].append((int(run[first]), int(run[second])))
            k += 1
        k += 1
    n_columns = max(map(len, columns), default=0)
    index = np.full((2, len(columns), n_columns), -1)
    for c, found in enumerate(columns):
        index[:, c, : len(found)] = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return [_with_runs(version, own) for version, own in zip(versions, index)]


def _with_runs(version: VersionRuns, runs: Indices) -> VersionRuns:
    """Runs (n, columns) of each context; −1 for a missing one."""
    rows = np.arange(len(runs))[:, None]
    missing = runs < 0
    counts, duration, total = (
        part[rows, runs].copy() for part in (version.counts, version.duration, version.total)
    )
    for part in (counts, duration, total):
        part[missing] = np.nan
    return VersionRuns(counts, duration, version.interval, total, version.stretched)


def _rows_of(version: VersionRuns, kept: Bools) -> VersionRuns:
    return VersionRuns(
        version.counts[kept],
        version.duration[kept],
        version.interval,
        version.total[kept],
        version.stretched,
    )


def _fault_notes(
    dataset: xr.Dataset, found: Findings, other: Findings, *, is_new: bool
) -> list[str]:
    """What is done about the faults of a version, a sentence for each kind of them."""
    name, out = file_of(dataset), []

    def places(kinds: tuple[type[Fault], ...]) -> list[int]:
        return sorted({i for f in found if isinstance(f, kinds) for i in f.contexts})

    contexts = (SlowContext, BadContext, ExchangedContexts)
    if whole := places(contexts):
        listed = ", ".join(describe_context(dataset, i) for i in whole)
        out.append(
            f"{name}: the times of {listed} do not fit those of the others, and are left out of "
            f"both: measure them again."
        )
        if is_new and not any(isinstance(f, contexts) for f in other):
            out.append(
                f"{name}: only the new version has contexts that do not fit the others, which the "
                f"change itself may cause: measure them again in both versions, and compare their "
                f"times."
            )
    if slowed := [f for f in found if isinstance(f, StretchedRun)]:
        where = _counted(len(places((StretchedRun,))), "context")
        out.append(
            f"{name}: slowed down in a part of the work, and left out: "
            f"{_counted(len(slowed), 'run')} of {where}."
        )
    if wrong := [f for f in found if isinstance(f, WrongCount)]:
        where = _counted(len(places((WrongCount,))), "context")
        out.append(
            f"{name}: read wrongly, and replaced by the mean of the neighbours: "
            f"{_counted(len(wrong), 'count')} of {where}."
        )
    return out


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _difference_notes(
    old: xr.Dataset,
    new: xr.Dataset,
    rows: tuple[Indices, Indices],
    counters: tuple[str, ...],
    findings: tuple[Findings, Findings],
) -> Iterator[str]:
    """What else differs between the files, and what that means for the answer."""
    first, second = file_of(old), file_of(new)
    tasks = [str(dataset.attrs.get("task", "")) for dataset in (old, new)]
    if tasks[0] != tasks[1]:
        yield f"the files name different tasks, {quoted(tasks[0])} and {quoted(tasks[1])}."
    platforms = [str(dataset.attrs.get("platform", "")) for dataset in (old, new)]
    if platforms[0] != platforms[1]:
        yield (
            f"the files name different platforms, {quoted(platforms[0])} and "
            f"{quoted(platforms[1])}: the machine may make the difference."
        )
    if _are_equal(old, new):
        yield "both files hold the same runs, to the last digit: one may be a copy of the other."
    for dataset, other, own in ((old, new, rows[0]), (new, old, rows[1])):
        n_cut = int(
            (~complete_array(dataset)[own] & np.isfinite(duration_array(dataset)[own])).sum()
        )
        if n_cut:
            yield f"{file_of(dataset)}: cut, and not compared: {_counted(n_cut, 'run')}."
        alone = [name for name in counter_names(dataset) if name not in counters]
        if alone:
            yield f"{', '.join(alone)}: only in {file_of(dataset)}, and not compared."
        missing = dataset.sizes["context"] - len(rows[0])
        if missing:
            yield (
                f"{file_of(dataset)}: not in {file_of(other)}, and not compared: "
                f"{_counted(missing, 'context')}."
            )
    intervals = sampling_interval(old), sampling_interval(new)
    if not np.isclose(*intervals):
        yield (
            f"the sampling intervals are {intervals[0]:g} s and {intervals[1]:g} s; the work is "
            f"compared in intervals of {_common_interval(*intervals):g} s."
        )
    started = started_array(old)[rows[0]], started_array(new)[rows[1]]
    if _is_one_sweep(old, new):
        return  # a drift affects partners alike
    for dataset, found in zip((old, new), findings):
        if any(isinstance(f, MachineDrift) for f in found):
            yield (
                f"{file_of(dataset)}: the machine drifted while it was measured, and times are "
                f"compared as measured: measure both versions as variants of one sweep."
            )
    if any(np.isnan(times).all() for times in started):
        yield (
            "the files do not say when each run started, so that a drift of the machine cannot be "
            "separated from the change: measure both versions as variants of one sweep."
        )
    elif np.nanmax(started[0]) < np.nanmin(started[1]) or np.nanmax(started[1]) < np.nanmin(
        started[0]
    ):
        yield (
            f"{first} and {second} were measured one after the other, so that a drift of the "
            f"machine cannot be separated from the change: measure them as variants of one sweep."
        )


def _are_equal(old: xr.Dataset, new: xr.Dataset) -> bool:
    """Whether the measured times and counts of both are the same."""
    pairs = [(duration_array(old), duration_array(new)), (count_array(old), count_array(new))]
    return all(np.array_equal(first, second, equal_nan=True) for first, second in pairs)
