"""Profile datasets: their names and arrays, and functions that read them.

A profile dataset (``msbgen-profile/1``) is a plain :class:`xarray.Dataset`:

========================  ======================  ==================================================
name                      dims                    meaning
========================  ======================  ==================================================
``time`` (coordinate)     time                    end of each sampling interval [s], equally spaced,
                                                  the first one interval after the start
one coordinate per        context                 setting of the resource; ``role="resource"``,
resource                                          ``units``, ``long_name``, ``levels`` (every value
                                                  that the platform can set)
one variable per counter  context[, run], time    events in the interval that ends at ``time`` [1],
                                                  or its energy [J];
                                                  ``role="counter"``; NaN once the run has ended
``duration``              context[, run]          execution time of the run [s]
``complete``, if some     context, run            1 where the run went on to its end, 0 where it was
runs were cut                                     cut: its counts until then, and ``duration`` until
                                                  then, are valid
========================  ======================  ==================================================

A file may hold durations without a time axis, alone or beside totals of each run, (context, run)
with ``role="counter"``, such as an ``energy`` [J] (:mod:`msbgen.data.durations_only`).

``run`` is a repetition; generated samples name the dimension ``sample``; maximum-likelihood
and mean profiles have neither.  A missing run is NaN throughout; a counter that was not measured in
a run is NaN throughout that run, in which the progress counter is always measured.  Samples lost
inside a run are NaN there.  The counter's attribute ``gaps`` is ``"carried"`` where the next count
holds the missed events, else ``"lost"``.  Names of resources and counters are free, except those in
:data:`RESERVED`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.contexts import combinations_of, to_unit_range
from msbgen.core.draws import numbers_of
from msbgen.core.errors import ArgumentError, ProfileError, quoted

SCHEMA = "msbgen-profile/1"
REPLICATES = ("run", "sample")
# Counters of the CPU time of a run, which depends on what else the machine does.
CPU_TIMES = ("task_clock", "cpu_clock")
# Units of counters: events, or the joules of a meter.
COUNT_UNITS, ENERGY_UNITS = "1", "J"
# Columns that a plan, and a table of bounds, have beside the resources.
PLAN_COLUMNS = ("runs", "seconds", "cumulative_seconds", "expected_error")
BOUND_COLUMNS = ("duration_bound", "extrapolated", "beyond")
# Further columns of a plan with groups of counters, and of bounds with energy.
GROUPS_COLUMN, ENERGY_BOUND = "counters", "energy_bound"
# Further column of a plan: 1 for contexts whose old runs must be replaced.
AGAIN_COLUMN = "again"
# Smallest relative change that a plan for comparing finds [1].
DETECTABLE_COLUMN = "detectable"
# Generated contexts between levels that may hide a sudden change of a count.
CLIFF = "cliff"
# Which runs were complete.
COMPLETE = "complete"
# Attribute of a dataset whose runs are all trusted: no fault of them is looked for.
KEEP_ALL = "keep_all"
# When each run began [s], to detect a machine's drift.
STARTED = "started"
# Reserved names, of the package's dimensions, variables and columns.
RESERVED = frozenset(
    {
        "context",
        "time",
        *REPLICATES,
        "duration",
        COMPLETE,
        STARTED,
        CLIFF,
        "method",
        "metric",
        "score",
    }
    | {*PLAN_COLUMNS, AGAIN_COLUMN, DETECTABLE_COLUMN, GROUPS_COLUMN, *BOUND_COLUMNS, ENERGY_BOUND}
)
# Values of a resource that differ by less than this share are one level: text, float32 and sums
# of steps round decimal fractions by this much.
SAME_LEVEL = 1e-6
# Values larger or smaller than every level by this factor are in another unit than the levels.
_OTHER_UNIT = 100.0
# Contexts this many measured ranges away are in another unit, too.
_FAR = 1e3
# Upper limit of all contexts of a platform; a larger table would take gigabytes.
_MOST_CONTEXTS = 10_000_000

# A mean profile ends where less than this share of its runs continues.
NEGLIGIBLE = 0.01


def resource_names(dataset: xr.Dataset) -> list[str]:
    """Names of the resources, in the order of the dataset's coordinates."""
    return [str(name) for name in dataset.coords if role(dataset.variables[name]) == "resource"]


def counter_names(dataset: xr.Dataset) -> list[str]:
    """Names of the counters, in the order of the dataset's variables."""
    # not by items(): to make one DataArray takes a time that grows with the number of all
    return [str(name) for name in dataset.data_vars if role(dataset.variables[name]) == "counter"]


def role(variable: xr.DataArray | xr.Variable) -> str:
    """The attribute ``role`` of a variable: ``"resource"``, ``"counter"``, or empty."""
    role = variable.attrs.get("role")
    return role if isinstance(role, str) else ""


def same_level(values: ArrayLike, others: ArrayLike) -> NDArray[np.bool_]:
    """Whether values of a resource are one level with others, with numpy's broadcasting."""
    values, others = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    largest = np.maximum(np.abs(values), np.abs(others))
    with np.errstate(invalid="ignore"):  # infinity is no level, and near none
        return (np.abs(values - others) <= SAME_LEVEL * largest) & np.isfinite(largest)


def one_spelling(table: ArrayLike) -> NDArray[np.float64]:
    """Levels, (n, n_resources), in which those of one level are equal: they get the shortest text.

    Programs write a level in several ways.  Equal levels are one context wherever a dataset enters.

    Examples
    --------
    >>> one_spelling([[1.3000000000000003], [1.3], [2.0]]).ravel().tolist()
    [1.3, 1.3, 2.0]
    """
    table = np.array(table, dtype=float)
    for column in table.T:
        values, inverse = np.unique(column, return_inverse=True)
        begins = np.flatnonzero(np.append(True, ~same_level(values[1:], values[:-1])))
        ends = np.append(begins[1:], len(values))
        for begin, end in zip(begins[ends - begins > 1], ends[ends - begins > 1]):
            values[begin:end] = min(values[begin:end].tolist(), key=lambda level: len(repr(level)))
        column[:] = values[inverse.ravel()]
    return table


def same_contexts(table: ArrayLike, others: ArrayLike) -> NDArray[np.intp]:
    """The first row of `others` that is the same context as each row of a table; -1 without one.

    Both are levels, (n, n_resources).

    Examples
    --------
    >>> same_contexts([[1.3, 2.0], [1.3, 4.0]], [[1.5, 2.0], [1.3000000000000003, 2.0]]).tolist()
    [1, -1]
    """
    table, others = np.asarray(table, dtype=float), np.asarray(others, dtype=float)
    every = one_spelling(np.concatenate([table, others]))
    code = np.unique(every, axis=0, return_inverse=True)[1].ravel()
    row = np.full(len(every), -1)
    row[code[len(table) :][::-1]] = np.arange(len(others))[::-1]
    return row[code[: len(table)]]


def replicate_dim(dataset: xr.Dataset) -> str | None:
    """Return ``"run"``, ``"sample"`` or, for one profile per context, None."""
    return next((d for d in REPLICATES if d in dataset.dims), None)


def counter_dims(dataset: xr.Dataset) -> list[str]:
    """Dimensions of the counters: context, run or sample and time where there are such."""
    dim = replicate_dim(dataset)
    time = ["time"] if "time" in dataset.dims else []
    return ["context", *([dim] if dim else []), *time]


def labels_of(attrs: Mapping[str, Any]) -> tuple[str, ...]:
    """Words of the levels 1, 2, … of a resource with these attributes; empty without words."""
    return tuple(map(str, np.atleast_1d(attrs.get("labels", ()))))


def level_text(value: float, labels: Sequence[str] = ()) -> str:
    """A level as text: its word, or a number without rounding error (1.2 for 1.2000000000000002).

    Examples
    --------
    >>> level_text(1e6), level_text(2.0, ["fast", "slow"])
    ('1000000', 'slow')
    """
    if labels and value in range(1, len(labels) + 1):
        return labels[int(value) - 1]
    return f"{value:.15g}"


def context_table(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Contexts of the dataset, (n_contexts, n_resources), each column in its resource's unit."""
    check_datasets(dataset)
    names = resource_names(dataset)
    columns = [np.asarray(dataset.variables[name].values, dtype=float) for name in names]
    if not columns:
        raise ProfileError(f"{file_of(dataset)}: no resource found: give them role='resource'.")
    return np.stack(columns, axis=1)


def check_datasets(*profiles: object) -> None:
    """Raise ArgumentError for an argument that is no dataset, such as the name of a file."""
    for value in profiles:
        if not isinstance(value, xr.Dataset):
            raise ArgumentError(
                f"the profiles are {quoted(value)}; a dataset is wanted: "
                f"msbgen.read_profiles(path) reads a file."
            )


def all_contexts(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Every context of the platform: the product of all ``levels``, (n_contexts, n_resources).

    Raises
    ------
    ProfileError
        A resource does not list its levels, or they make more contexts than memory could hold.
    """
    check_datasets(dataset)
    levels = []
    if not resource_names(dataset):
        raise ProfileError("no resource found, so no contexts: give them role='resource'.")
    for name in resource_names(dataset):
        if "levels" not in dataset[name].attrs:
            raise ProfileError(
                f"Resource '{name}' has no attribute 'levels', so 'all contexts' is not known: "
                f"list the contexts wanted, or give it the levels that the platform can set."
            )
        levels.append(np.unique(np.asarray(dataset[name].attrs["levels"], dtype=float)))
    many = math.prod(map(len, levels))
    if many > _MOST_CONTEXTS:
        raise ProfileError(
            f"The levels of {', '.join(resource_names(dataset))} make {many:.3g} contexts, more "
            f"than {_MOST_CONTEXTS:.0e}: list the contexts wanted."
        )
    return combinations_of(levels)


def duration_array(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Execution times [s], (n_contexts, n_runs), NaN where a run is missing."""
    # not of the DataArray, whose coordinates would be transposed, too
    dim = replicate_dim(dataset)
    dims = ["context", dim] if dim else ["context"]
    duration = dataset.variables["duration"].transpose(*dims).values
    return np.asarray(duration, dtype=float).reshape(dataset.sizes["context"], -1)


def trusting(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with the attribute by which all of its runs are trusted."""
    trusted = dataset.assign_attrs({KEEP_ALL: 1})
    trusted.encoding = dict(dataset.encoding)  # messages name the file
    return trusted


def sampling_interval(dataset: xr.Dataset) -> float:
    """Sampling interval [s]; ProfileError without a time axis."""
    _check_time(dataset)
    time = np.asarray(dataset.variables["time"].values, dtype=float)
    return float(dataset.attrs.get("interval", time[0]))


def _check_time(dataset: xr.Dataset) -> None:
    if "time" not in dataset.variables:
        raise ProfileError(
            f"{file_of(dataset)}: holds durations without a course in time; counters over time "
            f"are wanted: record them by 'msbgen measure', or read recordings by 'msbgen import'."
        )


def file_of(dataset: xr.Dataset) -> str:
    """Name of a dataset in messages: its file, if it was read from one, or its task.

    The encoding ``label`` replaces it where two files have one name.
    """
    check_datasets(dataset)
    if label := dataset.encoding.get("label"):
        return str(label)
    source = dataset.encoding.get("source")
    return Path(source).name if source else str(dataset.attrs.get("task", "dataset"))


def describe_levels(resources: Mapping[str, Mapping[str, Any]], values: Iterable[float]) -> str:
    """A level of each resource in words: ``cache_ways=2, bandwidth=70 MB s-1``."""
    parts = []
    for (name, attrs), value in zip(resources.items(), values):
        units, labels = str(attrs.get("units", "")), labels_of(attrs)
        text = level_text(value, labels) if labels else f"{value:g}"
        parts.append(f"{name}={text}" + ("" if units in ("", "1") else f" {units}"))
    return ", ".join(parts)


def span(values: NDArray[Any]) -> str:
    """The smallest and the largest value in words."""
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def resource_attrs(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Attributes of every resource by name, as :func:`make_profiles` takes them."""
    return {name: dict(dataset[name].attrs) for name in resource_names(dataset)}


def checked_contexts(
    contexts: ArrayLike, resources: Collection[str], name: str = "contexts"
) -> NDArray[np.float64]:
    """Argument `name` as an array (n_contexts, n_resources) of finite numbers, at least one row."""
    table = numbers_of(contexts, name, resources)
    if table.ndim != 2 or table.shape[1] != len(resources) or len(table) == 0:
        least = "one row or more" if table.size == 0 else "rows"
        raise ArgumentError(
            f"{name} have shape {table.shape}; {least} × {len(resources)} columns "
            f"({', '.join(resources)}) are wanted."
        )
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        index = int(np.argmin(finite))
        raise ArgumentError(
            f"{name.removesuffix('s')} {index} is {table[index].tolist()}; finite numbers are "
            f"wanted."
        )
    return table


def near_contexts(
    contexts: ArrayLike,
    known: NDArray[np.float64],
    resources: Mapping[str, Mapping[str, Any]],
) -> NDArray[np.float64]:
    """Contexts (n_contexts, n_resources) that may be predicted from the `known` ones.

    `resources`, the result of :func:`resource_attrs`, is in the order of the columns.
    ArgumentError for another shape, levels that are no finite numbers, not positive where all known
    ones are, or so far from the known ones that they must be in another unit.
    """
    table = checked_contexts(contexts, resources)
    for column, (name, attrs), measured in zip(table.T, resources.items(), known.T):
        words = labels_of(attrs)
        if words and not (held := np.isin(column, measured)).all():
            row = int(np.argmin(held))
            raise ArgumentError(
                f"context {row} has {name}={level_text(column[row], words)}, a word without "
                f"runs in the measurements; measure it, or leave out its contexts."
            )
        low = np.flatnonzero((column <= 0) & (measured.min() > 0))
        if low.size:
            raise ArgumentError(
                f"resource '{name}' is {column[low[0]]:g} in context {low[0]}; a positive number, "
                f"as measured, is wanted."
            )
        for sentence in other_unit(name, column, attrs):
            raise ArgumentError(sentence)
    away = np.abs(to_unit_range(known, table)).max(axis=1)
    if np.any(away > _FAR):
        row = int(np.argmax(away))
        raise ArgumentError(
            f"context {row}, {table[row].tolist()}, is more than {_FAR:g} measured ranges away; "
            f"one in the units of the measured ones is wanted."
        )
    return table


def beyond_levels(
    contexts: NDArray[np.float64], resources: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """A sentence for each resource that has contexts (n, m) beyond what the platform can set.

    These are below or above all ``levels`` of its attributes (:func:`resource_attrs`).
    """
    for column, (name, attrs) in zip(contexts.T, resources.items()):
        levels = np.atleast_1d(np.asarray(attrs.get("levels", ()), dtype=float))
        if levels.size == 0:
            continue
        near = same_level(column, levels.min()) | same_level(column, levels.max())
        beyond = ((column < levels.min()) | (column > levels.max())) & ~near
        if beyond.any():
            first = int(np.argmax(beyond))
            more = int(beyond.sum()) - 1
            yield (
                f"resource '{name}' is {column[first]:g} in context {first}"
                + (f" and beyond its levels in {more} more" if more else "")
                + f"; the platform can set {span(levels)}, by the levels of the file: drop what it "
                f"cannot, or correct these levels."
            )


def other_unit(name: str, values: NDArray[np.float64], attrs: Mapping[str, Any]) -> Iterator[str]:
    """One sentence if a resource has a value that is plainly in another unit.

    Hertz among gigahertz: far below or far above every level, and not zero.
    """
    levels = np.atleast_1d(np.asarray(attrs.get("levels", ()), dtype=float))
    sizes, own = np.abs(values), np.abs(levels[levels != 0])
    if own.size == 0:
        return
    bad = (sizes > _OTHER_UNIT * own.max()) | ((sizes < own.min() / _OTHER_UNIT) & (sizes > 0))
    if bad.any():
        index = int(np.argmax(bad))
        middle = 0.5 * (np.log10(own.max()) + np.log10(own.min()))
        factor = 10.0 ** float(np.clip(np.round(np.log10(sizes[index]) - middle), -300, 300))
        yield (
            f"resource '{name}' is {values[index]:g} in context {index}, about {factor:g} times "
            f"its levels ({span(levels)}); values and levels in one unit are wanted."
        )
