"""What a profile dataset is: validate, read, write.

A profile dataset (``msbgen-profile/1``) is a plain :class:`xarray.Dataset`:

========================  ======================  ==================================================
name                      dims                    meaning
========================  ======================  ==================================================
``time`` (coordinate)     time                    end of each sampling interval [s], equally spaced,
                                                  the first one interval after the start
one coordinate a          context                 what the core was given; ``role="resource"``,
resource                                          ``units``, ``long_name``, ``levels`` (every value
                                                  that the platform can set)
one variable a counter    context[, run], time    events in the interval that ends at ``time`` [1];
                                                  ``role="counter"``; NaN once the run has ended
``duration``              context[, run]          execution time of the run [s]
========================  ======================  ==================================================

``run`` is a repetition; generated samples name the dimension ``sample``; maximum-likelihood
and mean profiles have neither.  A missing run is NaN throughout.  Names of resources and
counters are free: every function of the package asks the dataset for them.
"""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.files import (
    ProfileError,
    append_netcdf,
    load_netcdf,
    replace_file,
    save_netcdf,
    start_netcdf,
)

SCHEMA = "msbgen-profile/1"
REPLICATES = ("run", "sample")
# Columns that a plan has beside the resources.
PLAN_COLUMNS = ("runs", "seconds", "cumulative_seconds", "expected_error")

_log = logging.getLogger("msbgen")

# Counts are stored as float32: events that hit each other's rounding are not an error.
_ROUNDING = 1e-3
_TIME_JITTER = 1e-6
# Counts of one counter whose masks and copies are made at a time, and counts of one stored chunk.
_CHECKED_AT_ONCE = 2**20
_CHUNK = 2**18
# What generated files hold beside their counters.
_RESERVED = ("duration", "extrapolated")


@dataclass(frozen=True)
class Findings:
    """What :func:`inspect_profiles` found, one sentence each, with its place and remedy."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


# --------------------------------------------------------------------------- what it holds


def resource_names(dataset: xr.Dataset) -> list[str]:
    """Names of the resources, in the order of the dataset's coordinates."""
    return [str(n) for n, c in dataset.coords.items() if c.attrs.get("role") == "resource"]


def counter_names(dataset: xr.Dataset) -> list[str]:
    """Names of the counters, in the order of the dataset's variables."""
    return [str(n) for n, v in dataset.data_vars.items() if v.attrs.get("role") == "counter"]


def replicate_dim(dataset: xr.Dataset) -> str | None:
    """Return ``"run"``, ``"sample"`` or, for one profile a context, None."""
    return next((d for d in REPLICATES if d in dataset.dims), None)


def context_table(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Contexts of the dataset, (n_contexts, n_resources), each column in its resource's unit."""
    columns = [np.asarray(dataset[name].values, dtype=float) for name in resource_names(dataset)]
    return np.stack(columns, axis=1)


def all_contexts(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Every context of the platform: the product of all ``levels``, (n_contexts, n_resources).

    Raises
    ------
    ProfileError
        A resource does not list its levels.
    """
    levels = []
    for name in resource_names(dataset):
        if "levels" not in dataset[name].attrs:
            raise ProfileError(
                f"Resource '{name}' has no attribute 'levels', so 'all contexts' is not known: "
                f"list the contexts wanted, or give it the levels that the platform can set."
            )
        levels.append(np.unique(np.asarray(dataset[name].attrs["levels"], dtype=float)))
    return np.array(list(product(*levels)), dtype=float)


def count_array(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Counts of every counter, (n_contexts, n_runs, n_times, n_counters), NaN after the end.

    A dataset without a replicate dimension counts as one run a context.
    """
    dim = replicate_dim(dataset)
    order = ("context", dim, "time") if dim else ("context", "time")
    arrays = [dataset[name].transpose(*order).values for name in counter_names(dataset)]
    counts = np.stack(arrays, axis=-1).astype(float)
    return counts if dim else counts[:, None]


def duration_array(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Execution times [s], (n_contexts, n_runs), NaN where a run is missing."""
    dim = replicate_dim(dataset)
    duration = dataset["duration"].transpose("context", *([dim] if dim else [])).values
    return np.asarray(duration, dtype=float).reshape(dataset.sizes["context"], -1)


def mean_duration(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Mean execution time of each context [s], (n_contexts,), NaN where there is no run."""
    duration = duration_array(dataset)
    present = np.isfinite(duration)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(duration).sum(axis=1) / present.sum(axis=1)


def sampling_interval(dataset: xr.Dataset) -> float:
    """Sampling interval [s]."""
    time = np.asarray(dataset["time"].values, dtype=float)
    return float(dataset.attrs.get("interval", time[0]))


def describe_context(dataset: xr.Dataset, index: int) -> str:
    """Return a context in words: ``context 3 (cache_ways=2, bandwidth=70 MB s-1)``."""
    parts = []
    for name in resource_names(dataset):
        units = str(dataset[name].attrs.get("units", ""))
        suffix = "" if units in ("", "1") else f" {units}"
        parts.append(f"{name}={float(dataset[name].values[index]):g}{suffix}")
    return f"context {index} ({', '.join(parts)})"


def describe_profiles(dataset: xr.Dataset) -> str:
    """What a valid dataset holds, in a few lines for a person."""
    dim = replicate_dim(dataset)
    duration = duration_array(dataset)
    runs = np.isfinite(duration).sum(axis=1)
    lines = [
        f"task      {dataset.attrs.get('task', '(not named)')}",
        f"contexts  {dataset.sizes['context']}, "
        + (f"{_span(runs)} {dim}s each" if dim else "one profile each"),
        f"duration  {_span(duration[np.isfinite(duration)])} s, "
        f"sampled every {sampling_interval(dataset):g} s",
    ]
    for name in resource_names(dataset):
        values = np.unique(dataset[name].values)
        levels = dataset[name].attrs.get("levels")
        of = f" of {np.size(levels)} levels" if levels is not None else ""
        units = dataset[name].attrs["units"]
        lines.append(f"resource  {name} [{units}]: {_span(values)}, {len(values)} values{of}")
    for name in counter_names(dataset):
        total = dataset[name].sum("time", dtype=float).transpose("context", ...).values
        total = total.reshape(duration.shape)[np.isfinite(duration)]
        lines.append(f"counter   {name}: {_span(total)} events a run")
    return "\n".join(lines)


def _span(values: NDArray[Any]) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def resource_attrs(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Attributes of every resource by name, as :func:`make_profiles` takes them."""
    return {name: dict(dataset[name].attrs) for name in resource_names(dataset)}


def counter_attrs(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Attributes of every counter by name, as :func:`make_profiles` takes them."""
    return {name: dict(dataset[name].attrs) for name in counter_names(dataset)}


def make_profiles(
    counts: ArrayLike,
    duration: ArrayLike,
    contexts: ArrayLike,
    *,
    interval: float,
    resources: Mapping[str, Mapping[str, Any]],
    counters: Mapping[str, Mapping[str, Any]],
    replicate: str = "run",
    attrs: Mapping[str, Any] | None = None,
    extrapolated: ArrayLike | None = None,
) -> xr.Dataset:
    """Put labels on arrays: the one place where a profile dataset is built.

    Parameters
    ----------
    counts : array_like, (n_contexts[, n_runs], n_times, n_counters)
        Events per interval, NaN once a run has ended [1].
    duration : array_like, (n_contexts[, n_runs])
        Execution times [s].
    contexts : array_like, (n_contexts, n_resources)
        One row a context, in the order of `resources`.
    interval : float
        Sampling interval [s].
    resources, counters : mapping of str to attributes
        Names, with at least ``units`` for resources; the roles are added.
    replicate : {"run", "sample"}
        What the second dimension of `counts` is called, where it has one.
    attrs : mapping
        Global attributes beyond ``schema`` and ``interval``.
    extrapolated : array_like of bool, (n_contexts,)
        Which contexts lie outside the hull of the measured ones, for generated profiles.

    Returns
    -------
    xarray.Dataset
        Not validated: see :func:`validate_profiles`.
    """
    counts = np.asarray(counts)
    table = np.asarray(contexts, dtype=float)
    if counts.shape[-1] != len(counters) or table.ndim != 2 or table.shape[1] != len(resources):
        raise ValueError(
            f"counts have {counts.shape[-1]} counters for {len(counters)} names, contexts "
            f"{table.shape[-1]} resources for {len(resources)}; one name each is wanted."
        )
    dims = ("context", replicate, "time") if counts.ndim == 4 else ("context", "time")
    time_attrs = {"units": "s", "long_name": "end of the sampling interval"}
    coords: dict[str, Any] = {
        name: ("context", table[:, i], {**given, "role": "resource"})
        for i, (name, given) in enumerate(resources.items())
    }
    coords["time"] = ("time", interval * np.arange(1, counts.shape[-2] + 1), time_attrs)
    variables: dict[str, Any] = {
        name: (
            dims,
            counts[..., i].astype(np.float32),
            {"units": "1", **given, "role": "counter"},
        )
        for i, (name, given) in enumerate(counters.items())
    }
    variables["duration"] = (
        dims[:-1],
        np.asarray(duration, dtype=float),
        {"units": "s", "long_name": "execution time"},
    )
    if extrapolated is not None:
        label = {"long_name": "context lies outside the hull of the measured ones", "units": "1"}
        variables["extrapolated"] = "context", np.asarray(extrapolated, dtype=np.int8), label
    header = {"schema": SCHEMA, "interval": float(interval)}
    return xr.Dataset(variables, coords=coords, attrs={**header, **(attrs or {})})


def join_profiles(blocks: Sequence[xr.Dataset]) -> xr.Dataset:
    """Blocks of contexts of one kind as one dataset, as long as the longest of them."""
    if len(blocks) == 1:
        return blocks[0]
    longest = max(blocks, key=lambda block: block.sizes["time"])
    stops = np.cumsum([block.sizes["context"] for block in blocks])
    variables = {}
    for name, model in longest.variables.items():
        if "context" not in model.dims:
            variables[name] = model
            continue
        shape = [stops[-1] if dim == "context" else n for dim, n in zip(model.dims, model.shape)]
        filler = np.nan if model.dtype.kind == "f" else 0
        values = np.full(shape, filler, dtype=model.dtype)
        for stop, block in zip(stops, blocks):
            part = block[name].transpose(*model.dims).values
            start = {"context": stop - block.sizes["context"]}
            at = [start.get(str(dim), 0) for dim in model.dims]
            values[tuple(slice(i, i + n) for i, n in zip(at, part.shape))] = part
        variables[name] = model.dims, values, model.attrs
    coords = {name: variables.pop(name) for name in longest.coords}
    return xr.Dataset(variables, coords=coords, attrs=blocks[0].attrs)


# --------------------------------------------------------------------------- validation


def validate_profiles(
    dataset: xr.Dataset, *, source: str = "dataset", part: bool = False
) -> xr.Dataset:
    """Return the dataset if it obeys the contract; warnings go to the ``msbgen`` logger.

    Parameters
    ----------
    dataset : xarray.Dataset
    source : str
        What the sentences call it: usually the name of its file.
    part : bool
        Some contexts of a file that was validated whole: a counter may be zero in all of them,
        and warnings were given.

    Raises
    ------
    ProfileError
        With one sentence for every problem.
    """
    findings = inspect_profiles(dataset, source=source, part=part)
    for sentence in findings.warnings:
        _log.warning("%s", sentence)
    if findings.errors:
        raise ProfileError(*findings.errors)
    return dataset


def inspect_profiles(
    dataset: xr.Dataset, *, source: str = "dataset", part: bool = False
) -> Findings:
    """Find every problem of a profile dataset without raising.

    The layout is checked first; values are only looked at where the layout holds.  What only a
    measurement can get wrong is not asked of a generated dataset (attribute ``kind``), nor of
    a part of one.
    """
    whole = not part and "kind" not in dataset.attrs
    errors = [f"{source}: {text}" for text in _layout_errors(dataset)]
    if errors:
        return Findings(errors)
    problems, doubts = list(_value_errors(dataset)), []
    if whole:
        problems += _measurement_errors(dataset)
        doubts = [*_layout_warnings(dataset), *_measurement_warnings(dataset)]
    return Findings([f"{source}: {p}" for p in problems], [f"{source}: {d}" for d in doubts])


def _layout_errors(ds: xr.Dataset) -> Iterator[str]:
    schema = ds.attrs.get("schema")
    if schema != SCHEMA:
        yield f"attribute 'schema' is {schema!r}; a profile file says '{SCHEMA}'."
    if str(schema).startswith("msbgen-trace/"):
        yield "it is a trace: replay it first (msbgen platform replay)."
        return
    for dim in ("context", "time"):
        if dim not in ds.dims:
            near = [str(d) for d in ds.dims if str(d).lower().startswith(dim[:3])]
            hint = (
                f"rename '{near[0]}'" if near else f"its dimensions are {sorted(map(str, ds.dims))}"
            )
            yield f"dimension '{dim}' is missing; {hint}."
    for dim in ("context", "time", *REPLICATES):
        if ds.sizes.get(dim) == 0:
            yield f"dimension '{dim}' is empty: there is nothing to learn from."
    if all(d in ds.dims for d in REPLICATES):
        yield "has both dimensions 'run' and 'sample'; measured runs or generated samples."
    yield from _time_errors(ds)
    yield from _resource_errors(ds)
    yield from _counter_layout_errors(ds)
    if "duration" not in ds:
        yield "variable 'duration' is missing: give the execution time of every run in seconds."
    else:
        yield from _dims_errors(ds, "duration", with_time=False)
        if ds["duration"].attrs.get("units") != "s":
            got = ds["duration"].attrs.get("units")
            yield f"variable 'duration' has units {got!r}; seconds are wanted, units 's'."


def _dims_errors(ds: xr.Dataset, name: str, *, with_time: bool) -> Iterator[str]:
    dim = replicate_dim(ds)
    wanted = {"context", *([dim] if dim else []), *(["time"] if with_time else [])}
    got = {str(d) for d in ds[name].dims}
    other = got - wanted
    if got != wanted and len(other) == 1 and dim is None and wanted < got:
        yield f"variable '{name}' has a dimension '{other.pop()}'; rename repetitions to 'run'."
    elif got != wanted:
        yield f"variable '{name}' has dimensions {sorted(got)}; {sorted(wanted)} are wanted."
    elif not np.issubdtype(ds[name].dtype, np.number):
        yield f"variable '{name}' holds {ds[name].dtype}, not numbers."


def _time_errors(ds: xr.Dataset) -> Iterator[str]:
    if "time" not in ds.coords:
        yield "coordinate 'time' is missing: give the end of each sampling interval in seconds."
        return
    coord = ds["time"]
    if coord.attrs.get("units") != "s":
        got = coord.attrs.get("units")
        yield f"coordinate 'time' has units {got!r}; seconds since the start are wanted, units 's'."
    if coord.dims != ("time",) or not np.issubdtype(coord.dtype, np.number) or coord.size == 0:
        yield f"coordinate 'time' must hold numbers along dimension 'time', got {coord.dtype}."
        return
    time = coord.values.astype(float)
    steps = np.diff(time)
    said = ds.attrs.get("interval", time[0])
    if not isinstance(said, (int, float, np.number)) or not np.isfinite(said):
        got = np.asarray(said).tolist()
        yield f"attribute 'interval' is {got!r}; a number of seconds is wanted."
        return
    if not np.all(np.isfinite(time)):
        yield f"coordinate 'time' is not finite at row {int(np.argmin(np.isfinite(time)))}."
    elif np.any(steps <= 0):
        row = int(np.argmax(steps <= 0)) + 1
        yield f"coordinate 'time' does not increase at row {row} ({time[row]:g} s): sort the rows."
    else:
        interval = float(said)
        wanted = interval * np.arange(1, time.size + 1)
        off = np.abs(time - wanted) > _TIME_JITTER * max(wanted[-1], interval)
        if interval <= 0 or np.any(off):
            row = int(np.argmax(off))
            yield (
                f"coordinate 'time' is {time[row]:g} s at row {row}, where an interval of "
                f"{interval:g} s wants {wanted[row]:g} s: resample the counts onto equally spaced "
                f"intervals that start one interval after 0, and say so in attribute 'interval'."
            )


def _resource_errors(ds: xr.Dataset) -> Iterator[str]:
    misplaced = [str(n) for n, v in ds.data_vars.items() if v.attrs.get("role") == "resource"]
    for name in misplaced:
        yield f"resource '{name}' is a data variable: make it a coordinate of 'context'."
    names = resource_names(ds)
    if not names and not misplaced:
        yield (
            "no resource found: give each resource a coordinate along 'context' with attribute "
            "role='resource' (cache ways, memory bandwidth, clock, ...)."
        )
    for name in names:
        coord = ds[name]
        if coord.dims != ("context",):
            yield f"resource '{name}' has dimensions {list(coord.dims)}; ['context'] is wanted."
            continue
        if not str(coord.attrs.get("units", "")).strip():
            yield f"resource '{name}' has no units: add them ('1' for a plain number)."
        if not np.issubdtype(coord.dtype, np.number):
            yield f"resource '{name}' holds {coord.dtype}, not numbers."
            continue
        values = coord.values.astype(float)
        if not np.all(np.isfinite(values)):
            row = int(np.argmin(np.isfinite(values)))
            yield f"resource '{name}' is {values[row]} at context {row}; give its value."
        levels = np.atleast_1d(coord.attrs.get("levels", values))
        if not np.issubdtype(levels.dtype, np.number) or not np.all(np.isfinite(levels)):
            yield f"resource '{name}' has levels {levels.tolist()}; finite numbers are wanted."
        elif levels.size == 0:
            yield f"resource '{name}' has an empty list of levels; list them or drop it."


def _counter_layout_errors(ds: xr.Dataset) -> Iterator[str]:
    names = counter_names(ds)
    if not names:
        yield (
            "no counter found: give each counter variable the attribute role='counter' "
            "(instructions, cache misses, ...)."
        )
    clock = ds.attrs.get("progress", "time")
    if clock not in ("time", *names):
        yield f"attribute 'progress' is {clock!r}; 'time' or {', '.join(names)} is wanted."
    for name in names:
        if name in _RESERVED:
            yield f"counter '{name}' is called as a variable of msbgen's own is; rename it."
        yield from _dims_errors(ds, name, with_time=True)
        if ds[name].attrs.get("units") != "1":
            got = ds[name].attrs.get("units")
            yield (
                f"counter '{name}' has units {got!r}; events per interval are wanted, units '1' "
                f"(multiply rates by the interval)."
            )


def _value_errors(ds: xr.Dataset) -> Iterator[str]:
    table = context_table(ds)
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    for i, j in enumerate(first[inverse.ravel()]):
        if i != j:
            yield (
                f"{describe_context(ds, i)} is listed again after context {j}: put its runs along "
                f"'run' of one context, or give the resource that tells them apart its role."
            )
            break
    breaches = _Breaches(ds)
    for rows in _context_blocks(ds):
        _check_values(ds.isel(context=rows), breaches.of(rows.start))
    yield from breaches.sentences()


def _check_values(ds: xr.Dataset, found: Callable[[str, Any], None]) -> None:
    """Report what is wrong with a few contexts; PLACE in a sentence stands for where it is."""
    dim = replicate_dim(ds)
    names = counter_names(ds)
    order = ("context", dim, "time") if dim else ("context", "time")
    duration = duration_array(ds)
    present = np.isfinite(duration)
    largest = float(np.finfo(np.float32).max)
    lengths = []
    for name in names:
        counts = ds[name].transpose(*order).values.reshape(*duration.shape, ds.sizes["time"])
        high, low = np.fmax.reduce(counts, axis=None), np.fmin.reduce(counts, axis=None)
        if high > largest or low < -largest:
            found(
                f"counter '{name}' is infinite, or more than the file's float32 can hold, "
                f"PLACE: measure that run again or drop it.",
                np.abs(counts) > largest,
            )
        if low < 0:
            found(
                f"counter '{name}' is negative PLACE: a wrapped or reset counter; "
                f"measure that run again or drop it.",
                counts < 0,
            )
        alive = ~np.isnan(counts)
        lengths.append(_run_lengths(alive))
        inside = np.arange(counts.shape[2]) < lengths[-1][..., None]
        found(
            f"counter '{name}' is NaN inside a run PLACE: NaN only marks the end; "
            f"fill in what was not counted or drop the run.",
            inside & ~alive,
        )
    length = np.stack(lengths, axis=-1)  # (context, run, counter)
    longest = length.max(axis=-1)
    found(
        "counters end at different times PLACE: cut them to one length.",
        (length != length[..., :1]).any(axis=-1),
    )
    found(
        "a run of zero length PLACE: it has a duration but no counts; drop it.",
        present & (longest == 0),
    )
    found(
        "'duration' is missing PLACE although the run has counts: add it.",
        ~present & (longest > 0),
    )
    found(
        "'duration' is not positive PLACE: correct it or drop the run.",
        np.nan_to_num(duration, nan=1.0) <= 0,
    )
    wanted = np.ceil(np.nan_to_num(duration) / sampling_interval(ds) * (1 - 1e-9))
    off = longest - wanted
    if dim is None:  # a mean profile goes on until its longest run ends
        off = np.minimum(off, 0)
    found(
        "'duration' and counts disagree by more than one interval PLACE: counts must go on until "
        "the run ends and be NaN after it (floats, as integers have no NaN).",
        present & (longest > 0) & (np.abs(off) > 1),
    )
    found("no run at all PLACE: drop the context.", ~present.any(axis=1))


def _context_blocks(ds: xr.Dataset) -> Iterator[slice]:
    """Slices of contexts of at most so many counts that their copies fit into the caches."""
    n = ds.sizes["context"]
    step = max(_CHECKED_AT_ONCE // (ds.sizes["time"] * ds.sizes.get(replicate_dim(ds), 1)), 1)
    return (slice(first, min(first + step, n)) for first in range(0, n, step))


def _measurement_errors(ds: xr.Dataset) -> Iterator[str]:
    for name in counter_names(ds):
        extremes = [f.reduce(ds[name].values, axis=None) for f in (np.fmin, np.fmax)]
        if not np.any(np.nan_to_num(extremes) != 0):
            yield f"counter '{name}' is zero everywhere: the event was never counted; drop it."


def _layout_warnings(ds: xr.Dataset) -> Iterator[str]:
    """What looks like a resource or a counter but does not say so."""
    for name, coord in ds.coords.items():
        if coord.dims == ("context",) and "role" not in coord.attrs:
            yield f"coordinate '{name}' has no role: it is not used; role='resource' would be."
    for name, variable in ds.data_vars.items():
        if {"context", "time"} <= set(variable.dims) and "role" not in variable.attrs:
            yield f"variable '{name}' has no role: it is not used; role='counter' would be."


def _measurement_warnings(ds: xr.Dataset) -> Iterator[str]:
    if np.nanmax(duration_array(ds)) < 2 * sampling_interval(ds):
        yield "no run has two whole sampling intervals: sample more often to see phases."
    breaches = _Breaches(ds)
    for name in resource_names(ds):
        values = ds[name].values.astype(float)
        levels = np.atleast_1d(np.asarray(ds[name].attrs.get("levels", values), dtype=float))
        breaches.of(0)(
            f"resource '{name}' is none of the platform's 'levels' PLACE: correct the value or "
            f"add the level.",
            ~np.isclose(values[:, None], levels[None, :], rtol=1e-6).any(axis=1),
        )
    for rows in _context_blocks(ds):
        part = ds.isel(context=rows)
        for parts, whole in _subset_pairs(counter_names(ds)):
            more, most = (part[n].transpose("context", ..., "time").values for n in (parts, whole))
            bad = more > most * (1 + _ROUNDING) + 1
            breaches.of(rows.start)(
                f"counter '{parts}' is above '{whole}' PLACE: check what the two events count.",
                bad if bad.ndim == 3 else bad[:, None],
            )
    yield from breaches.sentences()


def _subset_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of counters of which one counts a part of the other: misses and requests."""
    for name in names:
        stem, _, kind = name.rpartition("_")
        if kind == "misses":
            for whole in ("requests", "accesses", "references", "loads"):
                if f"{stem}_{whole}" in names:
                    yield name, f"{stem}_{whole}"


def _run_lengths(alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Index after the last count of each run: (..., time) -> (...)."""
    last = alive.shape[-1] - np.argmax(alive[..., ::-1], axis=-1)
    return np.where(alive.any(axis=-1), last, 0)


class _Breaches:
    """Sentences about masks over (context[, run[, time]]), one a kind, met block after block."""

    def __init__(self, ds: xr.Dataset):
        self._ds = ds
        self._met: dict[str, tuple[str, int]] = {}

    def of(self, first: int) -> Callable[[str, Any], None]:
        """Take the sentences of a block that begins at context `first`."""

        def found(sentence: str, mask: Any) -> None:
            if not mask.any():
                return
            place, n = self._met.get(sentence, ("", 0))
            place = place or self._place(first, mask)
            self._met[sentence] = place, n + int(np.count_nonzero(mask))

        return found

    def sentences(self) -> Iterator[str]:
        for sentence, (place, n) in self._met.items():
            more = f" and {n - 1} more place{'s' * (n > 2)}" if n > 1 else ""
            yield sentence.replace("PLACE", place + more)

    def _place(self, first: int, mask: NDArray[np.bool_]) -> str:
        index = np.unravel_index(int(np.argmax(mask)), mask.shape)
        text = f"in {describe_context(self._ds, first + int(index[0]))}"
        dim = replicate_dim(self._ds)
        if dim and len(index) > 1:
            text += f", {dim} {index[1]}"
        if len(index) > 2:
            text += f", row {index[2]} ({float(self._ds['time'].values[index[2]]):g} s)"
        return text


# --------------------------------------------------------------------------- files


def inherited_attrs(dataset: xr.Dataset) -> dict[str, Any]:
    """Global attributes that what is made from a dataset keeps."""
    return {name: v for name, v in dataset.attrs.items() if name in ("task", "platform")}


def checked_contexts(contexts: ArrayLike, resources: Sequence[str]) -> NDArray[np.float64]:
    """Contexts as an array (n_contexts, n_resources) of finite numbers, at least one.

    Raises
    ------
    ValueError
        Another shape, or a value that is not finite.
    """
    table = np.asarray(contexts, dtype=float)
    if table.ndim != 2 or table.shape[1] != len(resources) or len(table) == 0:
        raise ValueError(
            f"contexts have shape {table.shape}; rows × {len(resources)} columns "
            f"({', '.join(resources)}) are wanted."
        )
    if not np.all(np.isfinite(table)):
        row = int(np.argmin(np.isfinite(table).all(axis=1)))
        raise ValueError(f"contexts are not finite at row {row}: {table[row].tolist()}.")
    return table


def read_profiles(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a profile file; everything is loaded.

    Raises
    ------
    ProfileError
        The file cannot be read whole, or what it holds breaks the contract.
    """
    dataset = load_netcdf(path)
    return validate_profiles(dataset, source=Path(path).name)


def read_contexts(path: str | os.PathLike[str], resources: Sequence[str]) -> NDArray[np.float64]:
    """Read contexts from a CSV file whose header names the resources, in any order.

    The columns of a plan may stand beside them.

    Returns
    -------
    ndarray, (n_contexts, n_resources)
        Columns in the order of `resources`.

    Raises
    ------
    ProfileError
        As :func:`read_planned_contexts`.
    """
    return read_planned_contexts(path, resources)[0]


def read_planned_contexts(
    path: str | os.PathLike[str], resources: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read contexts and their numbers of runs from a CSV file, such as a plan.

    Returns
    -------
    contexts : ndarray, (n_contexts, n_resources)
        Columns in the order of `resources`.
    runs : ndarray of int, (n_contexts,)
        0 throughout where the file has no column ``runs``.

    Raises
    ------
    ProfileError
        No such file, another header, a row that is not numbers, no rows.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        numbered = enumerate(csv.reader(lines), start=1)
        rows = [(number, row) for number, row in numbered if any(map(str.strip, row))]
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file; 'all' stands for every context.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(f"{path}: cannot be read as a table ({error}).") from None
    number, header = rows[0] if rows else (1, [])
    header = [cell.strip() for cell in header]
    beside = [name for name in PLAN_COLUMNS if name in header and name not in resources]
    if sorted(header) != sorted([*resources, *beside]):
        raise ProfileError(
            f"{path.name}: row {number} is '{','.join(header)}'; a header with the resources "
            f"'{','.join(resources)}' is wanted."
        )
    table: dict[tuple[float, ...], int] = {}
    runs: list[float] = []
    for number, row in rows[1:]:
        try:
            values = dict(zip(header, [float(cell) for cell in row], strict=True))
        except ValueError:
            values = {}
        if not values or not np.all(np.isfinite(list(values.values()))):
            raise ProfileError(
                f"{path.name}: row {number} is '{','.join(row)}'; {len(header)} finite numbers "
                f"are wanted."
            )
        context = tuple(values[name] for name in resources)
        if context in table:
            raise ProfileError(
                f"{path.name}: row {number} repeats the context of row {table[context]}; drop one."
            )
        table[context] = number
        runs.append(values["runs"] if "runs" in beside else 0.0)
        if "runs" in beside and (runs[-1] < 1 or runs[-1] != int(runs[-1])):
            raise ProfileError(
                f"{path.name}: row {number} asks for {runs[-1]:g} runs; a whole number ≥ 1 is "
                f"wanted."
            )
    if not table:
        raise ProfileError(f"{path.name}: no contexts below the header.")
    return np.array(list(table)), np.array(runs, dtype=np.int64)


def write_profiles(
    dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write a profile file, whole or not at all.

    Raises
    ------
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    validate_profiles(dataset, source=Path(path).name)
    encoding = {name: _packed() for name in counter_names(dataset)}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def write_blocks(
    blocks: Iterable[xr.Dataset], path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write blocks of contexts one after another into one profile file, whole or not at all.

    One block at a time is held in memory, however many there are.

    Parameters
    ----------
    blocks : iterable of xarray.Dataset
        Profile datasets with one layout and one set of attributes, of other contexts each.  A
        block is as long as it needs to be, the file as long as its longest block.
    path : str or path
    overwrite : bool

    Raises
    ------
    ProfileError
        No block, a block that breaks the contract, one of another layout than the first, or a
        context that a block before had; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    name, done = Path(path).name, 0
    known: set[tuple[float, ...]] = set()
    layout = xr.Dataset()
    with replace_file(path, overwrite=overwrite) as partial:
        for block in blocks:
            source = f"{name}, from context {done}"
            validate_profiles(block, source=source, part=True)
            contexts = list(map(tuple, context_table(block).tolist()))
            again = [context for context in contexts if context in known]
            if again:
                raise ProfileError(f"{source}: {again[0]} is listed again; write it once.")
            known.update(contexts)
            own = block.isel(context=slice(0), time=slice(0))
            if done == 0:
                layout = own
                start_netcdf(block, partial, ("context", "time"), _growing(block))
            elif not own.identical(layout):
                raise ProfileError(f"{source}: names or attributes are not those of the first.")
            else:
                append_netcdf(block, partial, "context")
            done += len(contexts)
        if done == 0:
            raise ProfileError(f"{name}: there are no profiles to write.")


def _packed() -> dict[str, Any]:
    return {"zlib": True, "complevel": 4, "shuffle": True, "dtype": "float32"}


def _growing(ds: xr.Dataset) -> dict[str, dict[str, Any]]:
    """How variables that grow are stored: in chunks of about _CHUNK values, last dims first."""
    encoding: dict[str, dict[str, Any]] = {n: _packed() for n in counter_names(ds)}
    for name, variable in ds.variables.items():
        chunks, left = [], _CHUNK
        for size in reversed(variable.shape):
            chunks.append(min(max(size, 1), left))
            left = max(left // chunks[-1], 1)
        if len(chunks) == 1:
            chunks = [max(chunks[0], 512)]
        encoding.setdefault(str(name), {})["chunksizes"] = tuple(reversed(chunks))
    return encoding
