"""Recorded runs in their contexts, as one profile dataset."""

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
from msbgen.data.groups import clock_among
from msbgen.data.schema import RESERVED, STARTED, make_profiles
from msbgen.measure.readers.recording import Recording
from msbgen.measure.readers.resample import interval_count, resample

# What may be noted of each run beside its counts; `msbgen check` looks at them.
RUN_METADATA: dict[str, dict[str, str]] = {
    "cpu_time": {"units": "s", "long_name": "CPU time of the run, as the system accounted it"},
    "load": {"units": "1", "long_name": "tasks that wanted to run meanwhile, beside the measured"},
    "steal": {"units": "1", "long_name": "share of CPU time that other machines took meanwhile"},
    STARTED: {"units": "s", "long_name": "when the run began, since 1970"},
}
# What perf puts behind events where it may not count the kernel, too: instructions:u.
_MODIFIERS = re.compile(r":[ukhGHIpPSDeWb]+$")
# Share of its time for which a counter counted, from which on it is not said.
_WHOLE = 0.995
# A recording that ends this many intervals before its run has lost counts.
_LOST = 10.0
# Stamps lie up to so much behind what they count, on a busy machine [s].
_BEHIND = 0.1
# Share of the machine's memory that the arrays of a dataset may take, and how many of them there
# are at once: of all profiles (4 bytes a count), and of the run that is resampled (8 bytes).
_MEMORY = 0.5
_COPIES = 4.0


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Attributes
    ----------
    context : mapping of str to float
        What was asked for of each resource.
    recording : Recording
    duration : float
        How long the run took [s].
    achieved : mapping of str to float
        What was had of each resource, where that is known; in the resource's unit.
    notes : mapping of str to float
        Of the names in :data:`RUN_METADATA`.
    complete : bool
        Whether it went on to its end; `duration` is until it was cut otherwise.
    """

    context: Mapping[str, float]
    recording: Recording
    duration: float
    achieved: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)
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
    """Put recorded runs together: contexts in the order of their values, runs as they come.

    Runs may hold different events, each group of them in runs of its own; the clock is in all.

    Beside the profiles the dataset holds, over (context, run): ``longest_bin`` [s] and
    ``late_share`` [1], the share of a run that lies in bins of more than 1.5 intervals; what was
    achieved of each resource, ``RESOURCE_achieved``; what was noted of the runs; for counters that
    shared hardware, ``COUNTER_counted_share`` [1].  Each counter's attribute ``event`` is its name
    as the tool wrote it.

    Parameters
    ----------
    runs : sequence of Run
    resources : mapping of str to attributes
        At least ``units`` for each; the order is that of the dataset's columns.
    interval : float, optional
        Sampling interval [s]; without it, what the recordings were asked for.
    clock : str, optional
        Counter, or event, that tells the progress of a run; without it ``instructions`` where they
        were counted, else CPU time, else time.
    attrs : mapping
        Global attributes, as ``task`` and ``platform``.
    progress : callback

    Returns
    -------
    dataset : xarray.Dataset
        Not validated.
    warnings : list of str
        What is to be known of it, a sentence each.

    Raises
    ------
    ProfileError
        No runs, a clock that was not counted, or not in every run, no events at all.
    ArgumentError
        A context that lacks a resource.
    """
    if not runs:
        raise ProfileError("there are no runs; one or more are wanted.")
    events = tuple(dict.fromkeys(event for run in runs for event in run.recording.events))
    units = _units(runs, resources)
    step = interval if interval is not None else _asked_interval(runs)
    contexts, places, n_runs = _places(runs, list(resources))
    longest = max(interval_count(run.duration, step) for run in runs)
    shape = len(contexts), n_runs, longest, len(events)
    room = 4.0 * np.prod(shape, dtype=float) + 8.0 * longest * (len(events) + 1)
    if _COPIES * room > _MEMORY * physical_memory():
        raise ProfileError(
            f"the profiles of {len(contexts)} contexts, {n_runs} runs and {longest} intervals of "
            f"{step:g} s do not fit into memory; a longer interval is wanted."
        )
    counts = np.full(shape, np.nan, dtype=np.float32)
    for done, (run, place) in enumerate(zip(runs, places)):
        own = [j for j, event in enumerate(events) if event in run.recording.events]
        rows = resample(run.recording.select([events[j] for j in own]), step, run.duration)
        counts[place][: len(rows), own] = rows
        if progress is not None:
            progress(done + 1, len(runs))
    names = counter_names_of(events, [*resources, *RUN_METADATA])
    counted = [j for j in range(len(events)) if np.fmax.reduce(counts[..., j], axis=None) > 0]
    warnings = [
        f"event '{name}' is zero in every run; it was left out."
        for j, name in enumerate(events)
        if j not in counted
    ]
    if not counted:
        raise ProfileError("no event was ever counted; measure others.")
    labels = {names[j]: _label(events[j], units[events[j]]) for j in counted}
    chosen = progress_counter_of(clock, {names[j]: events[j] for j in counted})
    if chosen != "time":
        _refuse_without_clock(runs, events[names.index(chosen)])

    def spread(values: Sequence[float]) -> NDArray[np.float64]:
        table = np.full(shape[:2], np.nan)
        for place, value in zip(places, values):
            table[place] = value
        return table

    dataset = make_profiles(
        counts[..., counted],
        spread([run.duration for run in runs]),
        contexts,
        interval=step,
        resources=resources,
        counters=labels,
        attrs={**(attrs or {}), "progress": chosen},
        complete=None
        if all(run.complete for run in runs)
        else np.nan_to_num(spread([float(run.complete) for run in runs]), nan=1.0),
    )
    extra = dict(_notes(runs, resources, events, names, counted, step))
    for name, (values, label) in extra.items():
        dataset[name] = ("context", "run"), spread(values), label
    return dataset, [*warnings, *_doubts(runs, step)]


def counter_names_of(events: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Names for the counters of events: letters, digits and underscores, each once.

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


def _asked_interval(runs: Sequence[Run]) -> float:
    """The longest interval that a recording was asked for; the end cuts the last bin."""
    told = [run.recording.interval for run in runs if len(run.recording.times) > 1]
    return max(told or [run.recording.interval for run in runs])


def _label(event: str, unit: str) -> dict[str, str]:
    label = {"event": event, "long_name": f"{event} [{unit}]" if unit else event}
    return {**label, "event_units": unit} if unit else label


def progress_counter_of(wanted: str | None, events: Mapping[str, str]) -> str:
    """The counter that tells the progress of a run, or time.

    Parameters
    ----------
    wanted : str or None
        Counter, or event; the usual one, where it is not given.
    events : mapping of str to str
        The event of each counter.

    Raises
    ------
    ProfileError
        It is not counted.
    """
    if wanted is not None:
        for name, event in events.items():
            plain = _MODIFIERS.sub("", event)
            if wanted in (name, event, plain, *counter_names_of([plain])):
                return name
        if wanted == "time":
            return wanted
        raise ProfileError(
            f"clock '{wanted}' was not counted; {', '.join(events)} or time is wanted."
        )
    return clock_among(list(events)) or "time"


def _units(runs: Sequence[Run], resources: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The unit of every event, in which it is in all runs; contexts have every resource."""
    found: dict[str, tuple[str, str]] = {}
    for run in runs:
        source = run.recording.source
        for name, unit in zip(run.recording.events, run.recording.units):
            first, other = found.setdefault(name, (unit, source))
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
    return {name: unit for name, (unit, _) in found.items()}


def _refuse_without_clock(runs: Sequence[Run], event: str) -> None:
    has = next(run for run in runs if event in run.recording.events).recording
    for run in runs:
        if event not in run.recording.events:
            raise ProfileError(
                f"{run.recording.source}: event '{event}' is missing, which {has.source} has: it "
                f"is the clock of progress, and wanted in every run, or another clock that is."
            )


def _places(
    runs: Sequence[Run], resources: list[str]
) -> tuple[NDArray[np.float64], list[tuple[int, int]], int]:
    """Contexts (n_contexts, n_resources), context and run of each recording, most runs of one."""
    keys = [tuple(float(run.context[name]) for name in resources) for run in runs]
    order = {key: i for i, key in enumerate(sorted(set(keys)))}
    many = [0] * len(order)
    places = []
    for key in keys:
        places.append((order[key], many[order[key]]))
        many[order[key]] += 1
    return np.array(list(order)), places, max(many)


def _notes(
    runs: Sequence[Run],
    resources: Mapping[str, Mapping[str, Any]],
    events: tuple[str, ...],
    names: Sequence[str],
    counted: Sequence[int],
    interval: float,
) -> dict[str, tuple[list[float], dict[str, str]]]:
    """What is kept of each run beside its counts: values and attributes by name."""
    nan = float("nan")
    bins = [run.recording.bins for run in runs]
    late = [run.recording.late_bins(interval) for run in runs]
    found: dict[str, tuple[list[float], dict[str, str]]] = {
        "longest_bin": (
            [float(b.max()) for b in bins],
            {"units": "s", "long_name": "longest time between two stamps of the recording"},
        ),
        "late_share": (
            [float((g[:, 1] - g[:, 0]).sum() / r.recording.times[-1]) for g, r in zip(late, runs)],
            {"units": "1", "long_name": "share of the run in bins of more than 1.5 intervals"},
        ),
    }
    for name, given in resources.items():
        if any(name in run.achieved for run in runs):
            label = {"units": str(given["units"]), "long_name": f"{name} that the run had"}
            found[f"{name}_achieved"] = [float(r.achieved.get(name, nan)) for r in runs], label
    for name, label in RUN_METADATA.items():
        if any(name in run.notes for run in runs):
            found[name] = [float(run.notes.get(name, nan)) for run in runs], label
    parts = np.full((len(runs), len(events)), np.nan)
    for row, run in zip(parts, runs):
        shares = dict(zip(run.recording.events, run.recording.counted_share))
        row[:] = [shares.get(event, nan) for event in events]
    for j in counted:
        if (parts[:, j] < _WHOLE).any():
            label = {"units": "1", "long_name": f"share of its time that {names[j]} was counted"}
            found[f"{names[j]}_counted_share"] = parts[:, j].tolist(), label
    return found


def _doubts(runs: Sequence[Run], interval: float) -> list[str]:
    """What the recordings say of all runs together."""
    said = []
    medians = [float(np.median(run.recording.bins)) for run in runs]
    if np.median(medians) > 1.5 * interval:
        said.append(
            f"half of the bins are {np.median(medians):.2g} s or longer, an interval is "
            f"{interval:g} s: nothing shorter is seen; an interval of that length, or a quieter "
            f"machine, is wanted."
        )
    for run in runs:
        ends = run.recording.last_activity()
        late = float((run.recording.times - run.recording.bins)[run.recording.times == ends][0])
        if late - run.duration > max(_LOST * interval, _BEHIND):
            said.append(
                f"{run.recording.source}: goes on counting {late - run.duration:.3g} s after its "
                f"run's duration of {run.duration:.3g} s: all that was put at its end; see that "
                f"the duration is the run's own, in its unit."
            )
        early = run.duration - run.recording.times[-1]
        if early > _LOST * interval:
            said.append(
                f"{run.recording.source}: ends {early:.3g} s before its run does; measure it again."
            )
    return said
