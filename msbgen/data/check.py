"""Checks that a dataset obeys :mod:`msbgen.data.schema`: one sentence for every violation."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted
from msbgen.data import partial
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    COMPLETE,
    COUNT_UNITS,
    ENERGY_UNITS,
    KEEP_ALL,
    REPLICATES,
    RESERVED,
    SCHEMA,
    STARTED,
    check_datasets,
    counter_names,
    labels_of,
    level_text,
    one_spelling,
    other_unit,
    replicate_dim,
    resource_names,
    role,
    same_level,
)
from msbgen.data.violations import Violations

_log = logging.getLogger("msbgen")

_TIME_JITTER = 1e-6
# Counts of one counter whose masks and copies are made at a time.
_CHECKED_AT_ONCE = 2**20
# A shorter sampling interval [s] is a mistake of units.
_SHORTEST_INTERVAL = 1e-9
# Bytes of a name that netCDF can hold.
_LONGEST_NAME = 256
# Largest level of a resource, in any unit: squares of it are finite.
MOST_LEVEL = 1e100
# Latest start of a run, since any moment [s]: 30,000 years.
_LATEST = 1e12


@dataclass(frozen=True)
class CheckReport:
    """Errors and warnings of :func:`inspect_profiles`, one sentence each, with place and remedy."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


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
    checked_profiles(dataset, source=source, part=part)
    return dataset


def checked_profiles(
    dataset: xr.Dataset, *, source: str = "dataset", part: bool = False
) -> Profiles:
    """The record of a dataset; arguments, warnings and errors as :func:`validate_profiles`."""
    findings, profiles = _inspected(dataset, source, part=part)
    for sentence in findings.warnings:
        _log.warning("%s", sentence)
    if findings.errors or profiles is None:
        raise ProfileError(*findings.errors)
    return profiles


def inspect_profiles(
    dataset: xr.Dataset, *, source: str = "dataset", part: bool = False
) -> CheckReport:
    """Find every problem of a profile dataset without raising.

    The layout is checked first; values are checked only where the layout holds.  Checks for errors
    of measurement are left out for generated datasets and for parts; warnings
    about values are left out where values are wrong.
    """
    return _inspected(dataset, source, part=part)[0]


def _inspected(
    dataset: xr.Dataset, source: str, *, part: bool
) -> tuple[CheckReport, Profiles | None]:
    """Problems of a dataset, and its record where the layout holds."""
    check_datasets(dataset)
    wrong = list(_name_errors(dataset)) or list(_layout_errors(dataset))
    if wrong:
        return CheckReport([f"{source}: {text}" for text in wrong]), None
    profiles = Profiles.of(dataset)
    problems, doubts = list(_value_errors(profiles)), []
    if not part and not profiles.is_generated:
        doubts = [*_layout_warnings(dataset)]
        if not problems:  # what is refused anyway may be too large to add up
            doubts += _start_warnings(dataset)
            doubts += _measurement_warnings(profiles, says_complete=COMPLETE in dataset)
        problems += _measurement_errors(profiles)
    report = CheckReport([f"{source}: {p}" for p in problems], [f"{source}: {d}" for d in doubts])
    return report, profiles


def _name_errors(ds: xr.Dataset) -> Iterator[str]:
    """Sentences about names that no file, table or terminal could show."""
    for name in dict.fromkeys([*ds.dims, *ds.variables]):
        if not isinstance(name, str):
            yield f"the name {_shown(name)} is no text; rename it."
        elif not name.isprintable() or name != name.strip() or "/" in name or not name:
            yield f"the name {_shown(name)} has characters that netCDF does not take; rename it."
        elif len(name.encode()) > _LONGEST_NAME:
            yield f"the name {_shown(name)} is longer than {_LONGEST_NAME} bytes; rename it."


def _layout_errors(ds: xr.Dataset) -> Iterator[str]:
    schema = ds.attrs.get("schema")
    if not _is(schema, SCHEMA):
        yield f"attribute 'schema' is {_shown(schema)}; a profile file says '{SCHEMA}'."
    if isinstance(schema, str) and schema.startswith("msbgen-trace/"):
        yield "it is a trace: replay it first (msbgen platform replay)."
        return
    if isinstance(schema, str) and schema.startswith("msbgen-model/"):
        yield "it is a saved model: give the profiles that it was fitted to, or generate some."
        return
    kind = schema.partition("/")[0] if isinstance(schema, str) else ""
    if kind.startswith("msbgen-") and kind != SCHEMA.partition("/")[0]:
        return  # another kind of file, without the variables of profiles
    for dim in ("context", "time"):
        if dim not in ds.dims:
            near = [str(d) for d in ds.dims if str(d).lower().startswith(dim[:3])]
            hint = (
                f"rename '{near[0]}'" if near else f"its dimensions are {sorted(map(str, ds.dims))}"
            )
            if dim == "context" or _is_timed(ds):
                yield f"dimension '{dim}' is missing; {hint}."
    for dim in ("context", "time", *REPLICATES):
        if ds.sizes.get(dim) == 0:
            yield f"dimension '{dim}' is empty: there is nothing to learn from."
    if all(d in ds.dims for d in REPLICATES):
        yield "has both dimensions 'run' and 'sample'; measured runs or generated samples."
    if _is_timed(ds):
        yield from _time_errors(ds)
    yield from _resource_errors(ds)
    yield from _counter_layout_errors(ds)
    if "duration" not in ds:
        yield "variable 'duration' is missing: give the execution time of every run in seconds."
    else:
        yield from _dims_errors(ds, "duration", with_time=False)
        got = ds["duration"].attrs.get("units")
        if not _is(got, "s"):
            yield f"variable 'duration' has units {_shown(got)}; seconds are wanted, units 's'."
    yield from partial.complete_errors(ds)
    for name in ("task", "sweep", "variant"):
        if not isinstance(ds.attrs.get(name, ""), str):
            yield f"attribute '{name}' is {_shown(ds.attrs[name])}; a text is wanted."
    keep = ds.attrs.get(KEEP_ALL, 0)
    if not isinstance(keep, (int, float, np.number)) or keep not in (0, 1):
        yield f"attribute '{KEEP_ALL}' is {_shown(keep)}; 1, to trust every run, or 0 is wanted."


def _is_timed(ds: xr.Dataset) -> bool:
    """Whether a dataset has more dimensions than durations, or totals of runs, have."""
    return "time" in ds.variables or bool({*ds.dims} - {"context", *REPLICATES})


def _is(attribute: Any, text: str) -> bool:
    """Whether an attribute, which may be of any type, is this text."""
    return isinstance(attribute, str) and attribute == text


def _shown(attribute: Any) -> str:
    """An attribute of any type and size in a few characters."""
    plain = attribute.tolist() if isinstance(attribute, (np.ndarray, np.generic)) else attribute
    return quoted(plain)


def _is_numeric(values: Any) -> bool:
    """Whether an array holds real numbers: no texts, objects, dates, complex numbers."""
    return values.dtype.kind in "iuf"


def _dims_errors(ds: xr.Dataset, name: str, *, with_time: bool) -> Iterator[str]:
    dim = replicate_dim(ds)
    wanted = {"context", *([dim] if dim else []), *(["time"] if with_time else [])}
    variable = ds.variables[name]
    got = {str(d) for d in variable.dims}
    other = got - wanted
    if got != wanted and len(other) == 1 and dim is None and wanted < got:
        yield f"variable '{name}' has a dimension '{other.pop()}'; rename repetitions to 'run'."
    elif got != wanted:
        yield f"variable '{name}' has dimensions {sorted(got)}; {sorted(wanted)} are wanted."
    elif not _is_numeric(variable):
        yield f"variable '{name}' holds {variable.dtype}; real numbers are wanted."


def _time_errors(ds: xr.Dataset) -> Iterator[str]:
    if "time" not in ds.coords:
        yield "coordinate 'time' is missing: give the end of each sampling interval in seconds."
        return
    coord = ds["time"]
    got = coord.attrs.get("units")
    if not _is(got, "s"):
        yield (
            f"coordinate 'time' has units {_shown(got)}; seconds since the start are wanted, "
            f"units 's'."
        )
    if coord.dims != ("time",) or not _is_numeric(coord) or coord.size == 0:
        yield (
            f"coordinate 'time' holds {coord.dtype} along {list(coord.dims)}; real numbers along "
            f"['time'] are wanted."
        )
        return
    time = coord.values.astype(float)
    with np.errstate(invalid="ignore"):  # values that are not finite are reported below
        steps = np.diff(time)
    stated = ds.attrs.get("interval", time[0])
    if not isinstance(stated, (int, float, np.integer, np.floating)) or not np.isfinite(stated):
        yield f"attribute 'interval' is {_shown(stated)}; a number of seconds is wanted."
        return
    if not np.all(np.isfinite(time)):
        i = int(np.argmin(np.isfinite(time)))
        yield f"coordinate 'time' is {time[i]} in interval {i}; the end of the interval is wanted."
    elif np.any(steps <= 0):
        i = int(np.argmax(steps <= 0)) + 1
        yield f"coordinate 'time' does not increase at interval {i} ({time[i]:g} s): sort them."
    elif 0 < stated < _SHORTEST_INTERVAL:
        yield f"attribute 'interval' is {stated:g} s; {_SHORTEST_INTERVAL:g} s or longer is wanted."
    else:
        interval = float(stated)
        wanted = interval * np.arange(1, time.size + 1)
        off = np.abs(time - wanted) > _TIME_JITTER * max(wanted[-1], interval)
        if interval <= 0 or np.any(off):
            i = int(np.argmax(off))
            yield (
                f"coordinate 'time' is {time[i]:g} s in interval {i}, where an interval of "
                f"{interval:g} s wants {wanted[i]:g} s: resample the counts onto equally spaced "
                f"intervals that start one interval after 0, and say so in attribute 'interval'."
            )


def _resource_errors(ds: xr.Dataset) -> Iterator[str]:
    names = resource_names(ds)
    yield from _role_errors(
        "resource", names, {name: ds.variables[name] for name in ds.data_vars},
        "a data variable: make it a coordinate of 'context'",
        "give each resource a coordinate along 'context' with attribute role='resource' (cache "
        "ways, memory bandwidth, clock, ...)",
    )  # fmt: skip
    for name in names:
        coord = ds.variables[name]
        if coord.dims != ("context",):
            yield f"resource '{name}' has dimensions {list(coord.dims)}; ['context'] is wanted."
            continue
        yield from _label_errors("resource", name, coord)
        units = coord.attrs.get("units", "")
        if not isinstance(units, str):
            yield f"resource '{name}' has units {_shown(units)}; a text is wanted, '1' for none."
        elif not units.strip():
            yield f"resource '{name}' has no units: add them ('1' for a plain number)."
        if not _is_numeric(coord):
            yield f"resource '{name}' holds {coord.dtype}; real numbers are wanted."
            continue
        values = coord.values.astype(float)
        if not np.all(np.isfinite(values)):
            i = int(np.argmin(np.isfinite(values)))
            yield f"resource '{name}' is {values[i]} in context {i}; its value is wanted."
        elif np.abs(values).max(initial=0.0) > MOST_LEVEL:
            i = int(np.argmax(np.abs(values)))
            yield (
                f"resource '{name}' is {values[i]:g} in context {i}; at most {MOST_LEVEL:g} is "
                f"wanted: another unit."
            )
        yield from _level_errors(name, values, coord.attrs)


def _level_errors(name: str, values: NDArray[np.float64], attrs: dict[str, Any]) -> Iterator[str]:
    if "levels" not in attrs:
        return
    try:
        levels = np.atleast_1d(np.asarray(attrs["levels"]))
    except ValueError:  # lists of several lengths
        levels = np.array([None])
    if levels.size == 0:
        yield f"resource '{name}' has an empty list of levels; list them or drop it."
    elif not _is_numeric(levels) or levels.ndim > 1 or not np.all(np.isfinite(levels)):
        yield f"resource '{name}' has levels {_shown(attrs['levels'])}; finite numbers are wanted."
    elif np.abs(levels).max() > MOST_LEVEL:
        yield (
            f"resource '{name}' has levels up to {np.abs(levels).max():g}; at most {MOST_LEVEL:g} "
            f"is wanted: another unit."
        )
    elif "labels" in attrs:
        codes = np.arange(1, len(labels_of(attrs)) + 1)
        if not np.isin(np.append(values, levels), codes).all():
            yield (
                f"resource '{name}' has {len(codes)} labels, and levels {_shown(levels.tolist())}; "
                f"levels 1 to {len(codes)}, one per label, are wanted."
            )
        elif len(set(labels_of(attrs))) < len(codes):
            yield f"resource '{name}' has a label twice; distinct ones are wanted."
        elif wrong := [label for label in labels_of(attrs) if not _is_word(label)]:
            yield (
                f"resource '{name}' has the label {_shown(wrong[0])}; printable words other than "
                f"'nan' and 'inf' are wanted."
            )
    else:
        yield from other_unit(name, values, attrs)


def _role_errors(
    what: str, names: list[str], others: Mapping[Any, xr.Variable], misplaced: str, remedy: str
) -> Iterator[str]:
    """Sentences about a role at variables of the other kind, or at none."""
    wrong = [str(name) for name, data in others.items() if role(data) == what]
    for name in wrong:
        yield f"{what} '{name}' is {misplaced}."
    if not names and not wrong:
        yield f"no {what} found: {remedy}."


def _is_word(label: str) -> bool:
    """Whether a label can be shown, and is no missing or endless number in a table."""
    try:
        return math.isfinite(float(label))
    except ValueError:
        return bool(label) and label.isprintable()


def _label_errors(what: str, name: str, variable: xr.Variable) -> Iterator[str]:
    """Sentences about errors that resources and counters have in common."""
    if name in RESERVED:
        yield f"{what} '{name}' is called as something of msbgen's own is; rename it."
    label = variable.attrs.get("long_name", "")
    if not isinstance(label, str):
        yield f"{what} '{name}' has long_name {_shown(label)}; a text is wanted."


def _counter_layout_errors(ds: xr.Dataset) -> Iterator[str]:
    names, timed = counter_names(ds), _is_timed(ds)
    found = names if timed else ["none is wanted"]
    yield from _role_errors(
        "counter", found, {name: ds.variables[name] for name in ds.coords},
        "a coordinate: make it a data variable (reset_coords does)",
        "give each counter variable the attribute role='counter' (instructions, cache misses, ...)",
    )  # fmt: skip
    clock = ds.attrs.get("progress", "time")
    if not any(_is(clock, name) for name in ("time", *names)):
        yield f"attribute 'progress' is {_shown(clock)}; 'time' or {', '.join(names)} is wanted."
    for name in names:
        yield from _label_errors("counter", name, ds.variables[name])
        yield from _dims_errors(ds, name, with_time=timed)
        got = ds.variables[name].attrs.get("units")
        if not any(_is(got, units) for units in (COUNT_UNITS, ENERGY_UNITS)):
            yield (
                f"counter '{name}' has units {_shown(got)}; events per interval are wanted, "
                f"units '1', or energy, 'J' (multiply rates and power by the interval)."
            )


def _value_errors(profiles: Profiles) -> Iterator[str]:
    table = one_spelling(profiles.contexts)
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    for i, j in enumerate(first[inverse.ravel()]):
        if i != j:
            yield (
                f"{profiles.describe_context(i)} is listed again after context {j}: put its runs "
                f"along 'run' of one context, or give the resource that tells them apart its role."
            )
            break
    violations = Violations(profiles)
    n, runs = profiles.duration.shape
    step = max(_CHECKED_AT_ONCE // (runs * profiles.n_times), 1)
    for begin in range(0, n, step):
        _check_values(profiles.of_contexts(slice(begin, begin + step)), violations.of(begin))
    yield from violations.sentences()
    yield from partial.clock_errors(profiles)


def _check_values(profiles: Profiles, found: Callable[[str, Any], None]) -> None:
    """Sentences about the values of a few contexts; PLACE stands for the place."""
    duration, interval = profiles.duration, profiles.interval
    present = np.isfinite(duration)
    largest = float(np.finfo(np.float32).max)
    whole = np.minimum(profiles.n_intervals, profiles.n_times)
    lengths = []
    for counts, (name, attrs) in zip(profiles.samples, profiles.counters.items()):
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
        length = _run_lengths(alive)
        if "gaps" in attrs:  # the last sample may be a lost one
            length = np.where(length > 0, np.maximum(length, whole), 0)
        else:
            found(
                f"counter '{name}' is NaN inside a run PLACE: fill in what was not counted, or "
                f"say in its attribute 'gaps' whether the next count holds it ('carried') or it "
                f"is 'lost'.",
                (np.arange(counts.shape[2]) < length[..., None]) & ~alive,
            )
        lengths.append(length)
    length = np.stack(lengths, axis=-1)  # (context, run, counter)
    longest = length.max(axis=-1)
    found(
        "counters end at different times PLACE: cut them to one length.",
        ((length != longest[..., None]) & (length > 0)).any(axis=-1),
    )
    found(
        "a run of zero length PLACE: it has a duration but no counts; drop it.",
        present & (longest == 0),
    )
    found(
        "'duration' is missing PLACE although the run has counts: add it.",
        np.isnan(duration) & (longest > 0),
    )
    found("'duration' is infinite PLACE: correct it or drop the run.", np.isposinf(duration))
    found(
        "'duration' is not positive PLACE: correct it or drop the run.",
        np.nan_to_num(duration, nan=1.0) <= 0,
    )
    with np.errstate(over="ignore"):
        wanted = np.ceil(np.nan_to_num(duration) / interval * (1 - 1e-9))
    off = longest - wanted
    if not profiles.replicate:  # a mean profile goes on until its longest run ends
        off = np.minimum(off, 0)
    found(
        "'duration' and counts disagree by more than one interval PLACE: counts must go on until "
        "the run ends and be NaN after it (floats, as integers have no NaN).",
        present & (longest > 0) & (np.abs(off) > 1),
    )
    found("no run at all PLACE: drop the context.", ~present.any(axis=1))


def _measurement_errors(profiles: Profiles) -> Iterator[str]:
    yield from partial.measured_errors(profiles)
    for name, counts in zip(profiles.counters, profiles.samples):
        extremes = [f.reduce(counts, axis=None) for f in (np.fmin, np.fmax)]
        with np.errstate(over="ignore", under="ignore"):
            stored = np.nan_to_num(extremes).astype(np.float32)  # as files hold it
        if not np.any(stored != 0) and np.isfinite(extremes).all():
            yield f"counter '{name}' is zero everywhere: the event was never counted; drop it."


def _layout_warnings(ds: xr.Dataset) -> Iterator[str]:
    """Sentences about variables that look like a resource or counter but have no role."""
    for name, variable in ds.variables.items():
        if "role" in variable.attrs:
            if role(variable) not in ("resource", "counter"):
                got = _shown(variable.attrs["role"])
                yield f"'{name}' has role {got}: it is not used; 'resource' or 'counter' would be."
        elif name in ds.coords and variable.dims == ("context",) and name != "context":
            yield f"coordinate '{name}' has no role: it is not used; role='resource' would be."
        elif {"context", "time"} <= set(variable.dims):
            yield f"variable '{name}' has no role: it is not used; role='counter' would be."


def _start_warnings(ds: xr.Dataset) -> Iterator[str]:
    """Sentences about invalid starts of runs: a fit then runs without detecting drift."""
    if STARTED not in ds:
        return
    wanted = ["context", str(replicate_dim(ds) or "run")]
    if {str(d) for d in ds[STARTED].dims} != set(wanted) or not _is_numeric(ds[STARTED]):
        yield (
            f"variable '{STARTED}' holds {ds[STARTED].dtype} along "
            f"{list(map(str, ds[STARTED].dims))}; seconds, real numbers along {wanted}, are "
            f"wanted: no drift of the machine is looked for."
        )
    elif (np.abs(ds[STARTED].values) > _LATEST).any():
        yield (
            f"variable '{STARTED}' is {np.nanmax(np.abs(ds[STARTED].values)):g} in a run; seconds "
            f"since 1970, or since any other moment, are wanted: no drift of the machine is looked "
            f"for."
        )


def _measurement_warnings(profiles: Profiles, *, says_complete: bool) -> Iterator[str]:
    """Sentences about values; `says_complete`: the file says which runs were cut."""
    longest = np.fmax.reduce(profiles.duration, axis=None)
    if profiles.is_timed and longest < 2 * profiles.interval:
        yield "no run has two whole sampling intervals: sample more often to see phases."
    if not says_complete:
        yield from partial.cut_warnings(profiles)
    yield from partial.gap_warnings(profiles)
    violations = Violations(profiles)
    for name, joules in zip(profiles.counters, profiles.samples):
        if name in profiles.energy_counters:
            violations.of(0)(
                f"'{name}' is 0 J PLACE: every run needs energy; measure it again or drop it.",
                np.fmax.reduce(joules, axis=-1) == 0,
            )
    for (name, attrs), values in zip(profiles.resources.items(), profiles.contexts.T):
        levels = np.unique(np.asarray(attrs.get("levels", values), dtype=float))
        after = np.searchsorted(levels, values)
        near = levels[np.clip([after - 1, after], 0, levels.size - 1)]
        violations.of(0)(
            f"resource '{name}' is none of the platform's 'levels' PLACE: correct the value or "
            f"add the level.",
            ~same_level(values, near).any(axis=0),
        )
        if np.ptp(values) == 0 and (several := levels.size) > 1:
            level = level_text(values[0], labels_of(attrs))
            level += f" {attrs['units']}" if attrs["units"] != "1" else ""
            yield (
                f"resource '{name}' was measured at {level} only, one of {several} levels: "
                f"every other value of it is beyond what was measured."
            )
    yield from violations.sentences()


def _run_lengths(alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Index after the last count of each run: (..., time) -> (...)."""
    last = alive.shape[-1] - np.argmax(alive[..., ::-1], axis=-1)
    return np.where(alive.any(axis=-1), last, 0)
