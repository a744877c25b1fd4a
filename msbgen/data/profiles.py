"""Profiles as arrays and names: made once from a valid dataset, and handed down in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import MeasurementError, printable
from msbgen.core.words import number_of
from msbgen.data import schema
from msbgen.data.durations_only import WHOLE_RUN, with_interval
from msbgen.data.gaps import CARRIED, LOST, fill_gaps, interval_counts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Global attributes that datasets derived from profiles keep.
_INHERITED = ("task", "platform", "progress")


@dataclass(frozen=True, eq=False)
class Profiles:
    """Runs of a task: n contexts of m resources, r runs each, t intervals, k counters.

    Profiles without a dimension ``run`` or ``sample`` have one run per context.  Without counters t
    is 0.  The arrays are shared with the dataset, and by all that read the record: copy them before
    a change.

    Attributes
    ----------
    source : str
        Name in messages: the file, or the task.
    attrs : dict
        Global attributes.
    resources, counters : dict of str to dict
        Attributes of each resource and counter, in the order of the columns.
    contexts : (n, m)
        Levels, each column in its resource's unit.
    samples : tuple of k arrays, (n, r, t)
        Events per interval of each counter as in the file: NaN in gaps, after the end of a run or
        its cut, and throughout where the counter was not measured.
    duration : (n, r)
        Execution time [s], until the cut of a run that was cut; NaN where a run is missing.
    complete : (n, r)
        Runs that were not cut.
    started : (n, r)
        When runs began [s], since a time that all share; NaN where it is not known.
    interval : float
        Sampling interval [s].
    replicate : {"run", "sample", ""}
        What repetitions are; empty for one profile per context.
    run_details : dict of str to (n, r)
        Other numbers that a file has for each run, such as ``load``.
    """

    source: str
    attrs: dict[str, Any]
    resources: dict[str, dict[str, Any]]
    counters: dict[str, dict[str, Any]]
    contexts: Floats
    samples: tuple[NDArray[Any], ...]
    duration: Floats
    complete: Bools
    started: Floats
    interval: float
    replicate: str
    run_details: dict[str, Floats]

    @classmethod
    def of(cls, dataset: xr.Dataset, interval: float | None = None) -> Profiles:
        """The record of a dataset whose layout is valid; its values may be wrong.

        Durations without a time axis get one event per run, in intervals of a length [s]
        (:mod:`msbgen.data.durations_only`).
        """
        schema.check_datasets(dataset)
        dataset = with_interval(dataset, interval)
        names, replicate = schema.counter_names(dataset), schema.replicate_dim(dataset) or ""
        duration = schema.duration_array(dataset)
        dims = schema.counter_dims(dataset)
        samples = (dataset.variables[name].transpose(*dims).values for name in names)
        resources = schema.resource_attrs(dataset)
        used = {*resources, *names, "duration", schema.COMPLETE, schema.STARTED}
        others = {str(n): v for n, v in dataset.variables.items() if n not in used}
        return cls(
            source=schema.file_of(dataset),
            attrs=dict(dataset.attrs),
            resources=resources,
            counters={name: dict(dataset.variables[name].attrs) for name in names},
            contexts=schema.context_table(dataset),
            samples=tuple(each.reshape(*duration.shape, -1) for each in samples),
            duration=duration,
            complete=_of_runs(dataset, schema.COMPLETE, 1.0) != 0,
            started=_of_runs(dataset, schema.STARTED, np.nan),
            interval=schema.sampling_interval(dataset),
            replicate=replicate,
            run_details={
                name: variable.transpose("context", replicate).values.astype(float)
                for name, variable in others.items()
                if set(variable.dims) == {"context", replicate} and variable.dtype.kind in "iuf"
            },
        )

    def of_contexts(self, rows: ArrayLike | slice) -> Profiles:
        """The profiles of some contexts: indices, a mask or a slice."""
        rows = rows if isinstance(rows, slice) else np.asarray(rows)
        names = ("contexts", "duration", "complete", "started")
        parts: dict[str, Any] = {name: getattr(self, name)[rows] for name in names}
        samples = tuple(each[rows] for each in self.samples)
        details = {name: values[rows] for name, values in self.run_details.items()}
        return replace(self, **parts, samples=samples, run_details=details)

    def of_counters(self, names: Sequence[str]) -> Profiles:
        """The profiles with some of their counters."""
        every = dict(zip(self.counters, self.samples))
        samples = tuple(every[name] for name in names)
        counters = {name: self.counters[name] for name in names}
        return replace(self, samples=samples, counters=counters)

    def filled(self) -> Profiles:
        """The profiles with gaps filled, as in `counts`."""
        return replace(self.with_counts(self.counts), counters=self.counter_attrs)

    def with_counts(self, counts: Floats) -> Profiles:
        """The profiles with other counts, (n, r, t, k)."""
        return replace(self, samples=tuple(np.moveaxis(counts, 3, 0)))

    def of_runs(self, kept: Bools) -> Profiles:
        """The profiles with all but some runs (n, r) missing."""
        samples = tuple(np.where(kept[..., None], each, np.nan) for each in self.samples)
        return replace(self, samples=samples, duration=np.where(kept, self.duration, np.nan))

    @property
    def task(self) -> str:
        """Name of the task; empty where there is none."""
        return str(self.attrs.get("task", ""))

    @property
    def is_timed(self) -> bool:
        """Whether counters were measured over time; else durations, and totals of runs."""
        return self.attrs.get("progress") != WHOLE_RUN

    def check_timed(self, what: str) -> None:
        """Raise MeasurementError where `what` needs a course in time, and durations have none."""
        if not self.is_timed:
            raise MeasurementError(
                f"{self.source}: holds durations without a course in time, which {what} "
                f"want{'' if what.endswith('s') else 's'}; record counters over time "
                f"('msbgen measure' or 'msbgen import')."
            )

    @property
    def is_generated(self) -> bool:
        """Whether the profiles were generated, not measured."""
        return "kind" in self.attrs

    @property
    def keeps_all(self) -> bool:
        """Whether all runs are trusted: no fault of them is looked for."""
        return bool(self.attrs.get(schema.KEEP_ALL))

    @property
    def inherited_attrs(self) -> dict[str, Any]:
        """Global attributes that datasets derived from these profiles keep."""
        return {name: value for name, value in self.attrs.items() if name in _INHERITED}

    @property
    def counter_attrs(self) -> dict[str, dict[str, Any]]:
        """Attributes of each counter for datasets made from `counts`, which have no gaps."""
        return {
            name: {key: value for key, value in attrs.items() if key != "gaps"}
            for name, attrs in self.counters.items()
        }

    @property
    def clock_name(self) -> str:
        """Counter that measures the progress of a run, or ``time``: the file's or the default."""
        default = "instructions" if "instructions" in self.counters else "time"
        return str(self.attrs.get("progress", default))

    @property
    def clock(self) -> int:
        """Quantity that measures the progress of a run: 0 for wall time, 1 + k for counter k."""
        name = self.clock_name
        return 0 if name == "time" else 1 + list(self.counters).index(name)

    @property
    def energy_counters(self) -> list[str]:
        """Names of the counters in joules."""
        joules = schema.ENERGY_UNITS
        return [name for name, attrs in self.counters.items() if attrs.get("units") == joules]

    @cached_property
    def counts(self) -> Floats:
        """Events per interval with gaps filled (:mod:`msbgen.data.gaps`), (n, r, t, k)."""
        counts = np.empty((*self.duration.shape, self.n_times, len(self.samples)))
        for k in range(len(self.samples)):
            counts[..., k] = self.counts_of(k)
        return counts

    def counts_of(self, k: int) -> NDArray[Any]:
        """Events per interval of a counter with gaps filled, (n, r, t), in the file's precision."""
        kind = list(self.counters.values())[k].get("gaps")
        if kind is None:
            return self.samples[k]
        return fill_gaps(self.samples[k], self.duration, self.interval, carried=kind == CARRIED)

    @property
    def n_times(self) -> int:
        """Sampling intervals of the counters, t."""
        return self.samples[0].shape[2] if self.samples else 0

    @cached_property
    def held(self) -> Bools:
        """Counters that each run holds, (n, r, k)."""
        held = np.empty((*self.duration.shape, len(self.samples)), dtype=bool)
        for k, each in enumerate(self.samples):
            held[..., k] = ~np.isnan(np.fmax.reduce(each, axis=2))
        return held

    @cached_property
    def n_intervals(self) -> NDArray[np.int64]:
        """Intervals that each run fills or begins, 0 for missing runs, (n, r)."""
        return interval_counts(self.duration, self.interval)

    def missing_samples(self, kinds: Collection[str] = (CARRIED, LOST)) -> Bools:
        """Samples in gaps of some kinds, which are filled in `counts`, (n, r, t, k)."""
        missing = np.zeros((*self.duration.shape, self.n_times, len(self.samples)), dtype=bool)
        inside = np.arange(self.n_times) < self.n_intervals[..., None]
        for k, (each, attrs) in enumerate(zip(self.samples, self.counters.values())):
            if attrs.get("gaps") in kinds:
                missing[..., k] = np.isnan(each) & inside & self.held[..., k, None]
        return missing

    @cached_property
    def ended(self) -> Floats:
        """Execution times of the complete runs [s], NaN for the others, (n, r)."""
        return np.where(self.complete, self.duration, np.nan)

    @cached_property
    def mean_duration(self) -> Floats:
        """Mean execution time of each context [s], NaN where no run was complete, (n,)."""
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(self.ended).sum(axis=1) / np.isfinite(self.ended).sum(axis=1)

    @cached_property
    def totals(self) -> Floats:
        """Events of each run, NaN where a counter was not held until the run's end, (n, r, k)."""
        known = self.held & np.isfinite(self.ended)[..., None]
        return np.where(known, np.nansum(self.counts, axis=2), np.nan)

    def describe_context(self, index: int) -> str:
        """A context in words: ``context 3 (cache_ways=2, bandwidth=70 MB s-1)``."""
        return f"context {index} ({self.describe_levels(self.contexts[index].tolist())})"

    def describe_levels(self, values: Iterable[float]) -> str:
        """A level of each resource in words: ``cache_ways=2, bandwidth=70 MB s-1``."""
        return schema.describe_levels(self.resources, values)

    def describe(self) -> str:
        """A summary in a few lines."""
        runs, ended = np.isfinite(self.duration).sum(axis=1), np.isfinite(self.ended)
        each = "one profile"
        if self.replicate:
            each = f"{schema.span(runs)} {self.replicate}{'s' if runs.max() > 1 else ''}"
        lines = [
            f"task      {self.attrs.get('task', '(not named)')}",
            f"contexts  {len(self.contexts)}, {each} each",
            f"duration  {schema.span(self.ended[ended])} s"
            + (f", sampled every {self.interval:g} s" if self.is_timed else ""),
        ]
        for (name, attrs), column in zip(self.resources.items(), self.contexts.T):
            values, labels = np.unique(column), schema.labels_of(attrs)
            of = f" of {np.size(attrs['levels'])} levels" if "levels" in attrs else ""
            which = schema.span(values)
            if labels:
                which = ", ".join(schema.level_text(value, labels) for value in values)
            what = f"resource  {name} [{attrs['units']}]"
            lines.append(f"{what}: {which}, {number_of(len(values), 'value')}{of}")
        kind = "counter" if self.is_timed else "total  "
        for k, (name, attrs) in enumerate(self.counters.items()):
            if name == WHOLE_RUN:
                continue
            total = np.nansum(self.samples[k], axis=2, dtype=float)[self.held[..., k] & ended]
            energy = attrs.get("units") == schema.ENERGY_UNITS
            what = schema.ENERGY_UNITS if energy else attrs.get("event_units", "events")
            lines.append(f"{kind}   {name}: {schema.span(total)} {what} a run")
        return "\n".join(map(printable, lines))


def _of_runs(dataset: xr.Dataset, name: str, otherwise: float) -> Floats:
    """Numbers of each run, (n, r); all `otherwise` where the dataset has no such variable."""
    shape, dims = schema.duration_array(dataset).shape, dataset.variables["duration"].dims
    held = dataset.variables.get(name)
    if held is None or set(held.dims) != set(dims) or held.dtype.kind not in "biuf":
        return np.full(shape, otherwise)
    first = ["context", *(dim for dim in dims if dim != "context")]
    return held.transpose(*first).values.astype(float).reshape(shape)
