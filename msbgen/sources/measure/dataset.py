"""The profile dataset of recorded runs and their contexts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.machine import OnProgress, physical_memory
from msbgen.data.build import make_profiles
from msbgen.data.gaps import LOST
from msbgen.data.groups import clock_among
from msbgen.data.profiles import Profiles
from msbgen.data.quality import doubt_clock
from msbgen.data.schema import ENERGY_UNITS, RESERVED, STARTED, one_spelling
from msbgen.sources.measure.readers.recording import LATE, Recording
from msbgen.sources.measure.readers.resample import interval_count, resample

# Optional variables of each run; `msbgen check` uses them.
RUN_METADATA: dict[str, dict[str, str]] = {
    "cpu_time": {"units": "s", "long_name": "CPU time of the run, as the system accounted it"},
    "load": {"units": "1", "long_name": "other tasks that wanted to run during the run"},
    "steal": {
        "units": "1",
        "long_name": "share of CPU time that other machines took during the run",
    },
    STARTED: {"units": "s", "long_name": "when the run began, since 1970"},
}
# Suffixes of perf's events, such as instructions:u where perf may not count the kernel.
_MODIFIERS = re.compile(r":[ukhGHIpPSDeWb]+$")
# A counter with at least this share of its time counted is regarded as always counted.
_ALWAYS = 0.995
# Units of energy; the second is perf's.
_JOULES = (ENERGY_UNITS, "Joules")
# A recording that ends this many intervals before or after its run gives a warning.
_MISMATCH = 10.0
# Timestamps may be this late on a busy machine [s].
_LATENESS = 0.1
# Share of the machine's memory that a dataset may take, and the number of copies at a time. The
# profiles take 4 bytes a count, the run that is resampled 8 bytes.
_MEMORY_SHARE = 0.5
_COPIES = 4.0


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Attributes
    ----------
    context : mapping of str to float
        Level that was set of each resource.
    recording : Recording
    duration : float
        Execution time [s]; until the run was cut if it is not complete.
    achieved : mapping of str to float
        Achieved level of each resource where it is known, in the resource's unit.
    metadata : mapping of str to float
        Values of the variables in :data:`RUN_METADATA`.
    complete : bool
        Whether the run reached its end.
    """

    context: Mapping[str, float]
    recording: Recording
    duration: float
    achieved: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, float] = field(default_factory=dict)
    complete: bool = True


def profile_dataset(
    runs: Sequence[Run],
    resources: Mapping[str, Mapping[str, Any]],
    *,
    interval: float | None = None,
    clock: str | None = None,
    attrs: Mapping[str, Any] | None = None,
    progress: OnProgress | None = None,
) -> tuple[xr.Dataset, list[str]]:
    """Profile dataset of recorded runs, contexts sorted by their levels, and warnings about it.

    Runs may hold different groups of events, but each holds the progress counter.

    Further variables over (context, run): ``longest_bin`` [s]; ``late_share`` [1], the share of a
    run in bins longer than 1.5 intervals; ``RESOURCE_achieved``; the variables of
    :data:`RUN_METADATA`; and ``COUNTER_counted_share`` [1] for counters that shared hardware.  A
    counter's attribute ``event`` is the tool's name for it.

    Parameters
    ----------
    runs : sequence of Run
    resources : mapping of str to attributes
        At least ``units`` for each, in the order of the dataset's columns.
    interval : float, optional
        Sampling interval [s]; default: the interval of the recordings.
    clock : str, optional
        Counter or event that measures progress; default: ``instructions`` if they were counted,
        else CPU time, else time.  The attribute ``progress`` has it, unless time is the default.
    attrs : mapping
        Global attributes, such as ``task`` and ``platform``.
    progress : callback

    Returns
    -------
    dataset : xarray.Dataset
        Not validated.
    warnings : list of str
        One sentence each.

    Raises
    ------
    ProfileError
        There are no runs or no events, or the progress counter is missing from a run.
    ArgumentError
        A context lacks a resource.
    """
    if not runs:
        raise ProfileError("there are no runs; one or more are wanted.")
    events = tuple(dict.fromkeys(event for run in runs for event in run.recording.events))
    units = _units(runs, resources)
    intervals = _recorded_intervals(runs)
    step = interval if interval is not None else max(intervals)
    contexts, indices, n_runs = _indices(runs, list(resources))
    longest = max(interval_count(run.duration, step) for run in runs)
    shape = len(contexts), n_runs, longest, len(events)
    room = 4.0 * np.prod(shape, dtype=float) + 8.0 * longest * (len(events) + 1)
    if _COPIES * room > _MEMORY_SHARE * physical_memory():
        raise ProfileError(
            f"the profiles of {len(contexts)} contexts, {n_runs} runs and {longest} intervals of "
            f"{step:g} s do not fit into memory; a longer interval is wanted."
        )
    counts = np.full(shape, np.nan, dtype=np.float32)
    for done, (run, index) in enumerate(zip(runs, indices)):
        recorded = [j for j, event in enumerate(events) if event in run.recording.events]
        rows = resample(run.recording.select([events[j] for j in recorded]), step, run.duration)
        counts[index][: len(rows), recorded] = rows
        if progress is not None:
            progress(done + 1, len(runs))
    names = counter_names_of(events, [*resources, *RUN_METADATA])
    counted = [j for j in range(len(events)) if np.fmax.reduce(counts[..., j], axis=None) > 0]
    warnings = [
        f"event '{name}' is zero in every run; it was left out."
        for j, name in enumerate(events)
        if j not in counted
    ]
    warnings += _naming_warnings({name: events[j] for j, name in enumerate(names) if j in counted})
    if interval is None and step > LATE * min(intervals):
        finer = sum(LATE * of_one < step for of_one in intervals)
        warnings.append(
            f"recordings have intervals from {min(intervals):g} to {step:g} s: the {finer} finer "
            f"ones were resampled to {step:g} s; --interval sets another one for all."
        )
    if not counted:
        raise ProfileError("no event was ever counted; measure other events.")
    labels = {names[j]: _label(events[j], units[events[j]]) for j in counted}
    for j in counted:
        if any(_has_gaps(run.recording, events[j]) for run in runs):
            labels[names[j]]["gaps"] = LOST
    chosen = progress_counter_of(clock, {names[j]: events[j] for j in counted})
    if chosen != "time":
        _check_progress_counter(runs, events[names.index(chosen)])

    def by_context(values: Sequence[float]) -> NDArray[np.float64]:
        table = np.full(shape[:2], np.nan)
        for index, value in zip(indices, values):
            table[index] = value
        return table

    dataset = make_profiles(
        counts[..., counted],
        by_context([run.duration for run in runs]),
        contexts,
        interval=step,
        resources=resources,
        counters=labels,
        attrs={
            **(attrs or {}),
            **({} if clock is None and chosen == "time" else {"progress": chosen}),
        },
        complete=None
        if all(run.complete for run in runs)
        else np.nan_to_num(by_context([float(run.complete) for run in runs]), nan=1.0),
    )
    variables = _run_variables(runs, resources, events, names, counted, step)
    for name, (values, label) in variables.items():
        dataset[name] = ("context", "run"), by_context(values), label
    return dataset, [*warnings, *doubt_clock(Profiles.of(dataset)), *_timing_warnings(runs, step)]


def _naming_warnings(events: Mapping[str, str]) -> list[str]:
    """Sentences about counters whose names are not those of their `events`, which are taken."""
    taken = "a resource or a column of msbgen has its name"
    return [
        f"event '{event}' is counter '{name}' in the file, as "
        f"{'names do not begin with a digit' if event[0].isdigit() else taken}."
        for name, event in events.items()
        if name == f"event_{event.lower()}"
    ]


def _has_gaps(recording: Recording, event: str) -> bool:
    """Whether counts of an event are missing from a recording."""
    at = recording.events.index(event) if event in recording.events else None
    return at is not None and bool(np.isnan(recording.counts[:, at]).any())


def counter_names_of(events: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Counter names of events: distinct, of letters, digits and underscores.

    Examples
    --------
    >>> counter_names_of(["LLC-loads", "probe_x:f", "cpu_core/cycles/+cpu_atom/cycles/"])
    ['llc_loads', 'probe_x_f', 'cycles']
    """
    names: list[str] = []
    forbidden = {*RESERVED, *taken}
    for event in events:
        plain = re.sub(r"^cpu_(core|atom)/(.*?)/\+.*$", r"\2", event)
        stem = re.sub(r"[^0-9a-z]+", "_", plain.lower()).strip("_")[:100] or "event"
        stem = f"event_{stem}" if stem[0].isdigit() or stem in forbidden else stem
        name, n = stem, 1
        while name in names or name in forbidden:
            n += 1
            name = f"{stem}_{n}"
        names.append(name)
    return names


def _recorded_intervals(runs: Sequence[Run]) -> list[float]:
    """Sampling intervals of the recordings, without those of a single, cut bin."""
    intervals = [run.recording.interval for run in runs if len(run.recording.times) > 1]
    return intervals or [run.recording.interval for run in runs]


def _label(event: str, unit: str) -> dict[str, str]:
    if unit in _JOULES:
        return {"event": event, "long_name": event, "units": ENERGY_UNITS}
    label = {"event": event, "long_name": f"{event} [{unit}]" if unit else event}
    return {**label, "event_units": unit} if unit else label


def progress_counter_of(wanted: str | None, events: Mapping[str, str]) -> str:
    """Name of the counter that measures the progress of a run, or ``time``.

    `wanted` is a counter or event, None for the default; `events` has the event of each counter.
    ProfileError: the counter was not counted.
    """
    if wanted is not None:
        for name, event in events.items():
            plain = _MODIFIERS.sub("", event)
            if wanted in (name, event, plain, *counter_names_of([plain])):
                return name
        if wanted == "time":
            return wanted
        raise ProfileError(
            f"progress counter '{wanted}' was not counted; {', '.join(events)} or time is wanted."
        )
    return clock_among(list(events)) or "time"


def _units(runs: Sequence[Run], resources: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Unit of every event, which is the same in all runs; checks that contexts are complete."""
    units: dict[str, tuple[str, str]] = {}
    for run in runs:
        source = run.recording.source
        for name, unit in zip(run.recording.events, run.recording.units):
            first, other = units.setdefault(name, (unit, source))
            if unit != first:
                raise ProfileError(
                    f"{source}: event '{name}' is in units '{unit}', in {other} in '{first}'; one "
                    f"unit is wanted."
                )
        if set(run.context) != set(resources):
            raise ArgumentError(
                f"context of {source} has {', '.join(run.context)}; {', '.join(resources)} are "
                f"wanted."
            )
    return {name: unit for name, (unit, _) in units.items()}


def _check_progress_counter(runs: Sequence[Run], event: str) -> None:
    has = next(run for run in runs if event in run.recording.events).recording
    for run in runs:
        if event not in run.recording.events:
            raise ProfileError(
                f"{run.recording.source}: the progress counter '{event}' is missing, which "
                f"{has.source} has; choose one that is in every run."
            )


def _indices(
    runs: Sequence[Run], resources: list[str]
) -> tuple[NDArray[np.float64], list[tuple[int, int]], int]:
    """Contexts (n_contexts, n_resources); (context, run) of each recording; most runs."""
    levels = one_spelling([[float(run.context[name]) for name in resources] for run in runs])
    keys = [tuple(row) for row in levels.tolist()]
    order = {key: i for i, key in enumerate(sorted(set(keys)))}
    n_runs = [0] * len(order)
    indices = []
    for key in keys:
        indices.append((order[key], n_runs[order[key]]))
        n_runs[order[key]] += 1
    return np.array(list(order)), indices, max(n_runs)


def _run_variables(
    runs: Sequence[Run],
    resources: Mapping[str, Mapping[str, Any]],
    events: tuple[str, ...],
    names: Sequence[str],
    counted: Sequence[int],
    interval: float,
) -> dict[str, tuple[list[float], dict[str, str]]]:
    """Values and attributes of the variables over (context, run), by name."""
    nan = float("nan")
    bins = [run.recording.bins for run in runs]
    late = [run.recording.late_bins(interval) for run in runs]
    variables: dict[str, tuple[list[float], dict[str, str]]] = {
        "longest_bin": (
            [float(b.max()) for b in bins],
            {"units": "s", "long_name": "longest time between two stamps of the recording"},
        ),
        "late_share": (
            [float((g[:, 1] - g[:, 0]).sum() / r.recording.times[-1]) for g, r in zip(late, runs)],
            {"units": "1", "long_name": "share of the run in bins of more than 1.5 intervals"},
        ),
    }
    for name, attrs in resources.items():
        if any(name in run.achieved for run in runs):
            label = {"units": str(attrs["units"]), "long_name": f"{name} that the run had"}
            variables[f"{name}_achieved"] = [float(r.achieved.get(name, nan)) for r in runs], label
    for name, label in RUN_METADATA.items():
        if any(name in run.metadata for run in runs):
            variables[name] = [float(run.metadata.get(name, nan)) for run in runs], label
    parts = np.full((len(runs), len(events)), np.nan)
    for row, run in zip(parts, runs):
        shares = dict(zip(run.recording.events, run.recording.counted_share))
        row[:] = [shares.get(event, nan) for event in events]
    for j in counted:
        if (parts[:, j] < _ALWAYS).any():
            label = {"units": "1", "long_name": f"share of its time that {names[j]} was counted"}
            variables[f"{names[j]}_counted_share"] = parts[:, j].tolist(), label
    return variables


def _timing_warnings(runs: Sequence[Run], interval: float) -> list[str]:
    """Warnings about long bins, and about recordings longer or shorter than their runs."""
    warnings = []
    medians = [float(np.median(run.recording.bins)) for run in runs]
    if np.median(medians) > 1.5 * interval:
        warnings.append(
            f"half of the bins are {np.median(medians):.2g} s or longer, an interval is "
            f"{interval:g} s: shorter changes are invisible; a longer interval or a quieter "
            f"machine is wanted."
        )
    for run in runs:
        ends = run.recording.last_activity()
        late = float((run.recording.times - run.recording.bins)[run.recording.times == ends][0])
        if late - run.duration > max(_MISMATCH * interval, _LATENESS):
            warnings.append(
                f"{run.recording.source}: goes on counting {late - run.duration:.3g} s after its "
                f"run's duration of {run.duration:.3g} s; these counts were put at the end; check "
                f"the duration and its unit."
            )
        early = run.duration - run.recording.times[-1]
        if early > _MISMATCH * interval:
            warnings.append(
                f"{run.recording.source}: ends {early:.3g} s before its run; measure it again."
            )
    return warnings
