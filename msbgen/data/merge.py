"""Joining of two batches of runs of one program, measured in the same way."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.schema import (
    COMPLETE,
    context_table,
    counter_names,
    labels_of,
    one_spelling,
    resource_names,
    same_contexts,
    same_level,
    sampling_interval,
)


def check_batch(
    first: xr.Dataset, resources: Mapping[str, Mapping[str, Any]], interval: float, source: str
) -> None:
    """Raise :class:`ProfileError` where new runs cannot be joined with those of a dataset.

    `resources` (attributes by name) and `interval` [s] are those of the new runs; messages call the
    dataset `source`.
    """
    names = resource_names(first)
    if set(names) != set(resources):
        raise ProfileError(
            f"{source}: has contexts of {', '.join(names)}; {', '.join(resources)} are wanted."
        )
    for name, new in resources.items():
        for key in ("units", "mechanism", "labels"):
            old, own = (attrs.get(key) for attrs in (first[name].attrs, new))
            if key == "labels":
                old, own = (", ".join(labels_of(attrs)) for attrs in (first[name].attrs, new))
            if old != own:
                raise ProfileError(
                    f"{source}: the {key} of '{name}' is '{old}', here it is '{own}'; one for "
                    f"all runs is wanted: write another file."
                )
    if "run" not in first.dims:
        raise ProfileError(f"{source}: holds no runs, but what was made of them; name runs.")
    for name, variable in first.data_vars.items():
        if not {"context", "run"} <= set(variable.dims) <= {"context", "run", "time"}:
            raise ProfileError(
                f"{source}: the variable {quoted(name)} has the dimensions "
                f"({', '.join(map(str, variable.dims))}), not those of runs; drop it."
            )
    if not same_level(sampling_interval(first), interval):
        raise ProfileError(
            f"{source}: is sampled every {sampling_interval(first):g} s, here it is {interval:g}; "
            f"one interval is wanted."
        )


def without_replaced(
    first: xr.Dataset, second: xr.Dataset, resources: Sequence[str], again: NDArray[np.float64]
) -> xr.Dataset:
    """The first dataset without the contexts `again` (n, n_resources) that the second holds, too.

    The columns of `again` are in the order of `resources`, which both datasets have.
    """
    old, new = (np.column_stack([part[n].values for n in resources]) for part in (first, second))
    gone = [same_contexts(old, table) >= 0 for table in (again, new)]
    return first.isel(context=np.flatnonzero(~np.all(gone, axis=0)))


def join_batches(first: xr.Dataset, second: xr.Dataset, source: str) -> xr.Dataset:
    """Runs of both, those of the first before those of the second where a context is in both.

    Both have equal resources, units, mechanisms and intervals: see :func:`check_batch`.  Messages
    call the first one `source`.  ProfileError: they count other events.
    """
    odd = sorted(set(counter_names(first)) ^ set(counter_names(second)))
    if odd:
        where = "there" if odd[0] in counter_names(first) else "in the new runs"
        raise ProfileError(
            f"{source}: '{odd[0]}' is counted {where} only; the same events are wanted."
        )
    if first.sizes["context"] == 0:  # all of it was measured again
        return second
    parts = [first, second]
    names = resource_names(second)
    tables = [
        context_table(part)[:, [resource_names(part).index(name) for name in names]]
        for part in parts
    ]
    contexts, rows = _union(tables)
    runs = [int(p["duration"].notnull().sum("run").max()) for p in parts]
    own = [p["duration"].transpose("context", "run").notnull().values for p in parts]
    taken = np.zeros(len(contexts), dtype=int)
    slots = []  # (context, run) of the whole for each run of each part
    for row, there in zip(rows, own):
        place = [(int(row[c]), int(taken[row[c]] + k)) for c, k in _ordinals(there)]
        slots.append(place)
        for c, many in zip(row, there.sum(axis=1)):
            taken[c] += many
    shape = {
        "context": len(contexts),
        "run": max(int(taken.max()), 1, *runs),
        "time": max(p.sizes["time"] for p in parts),
    }
    longest = max(parts, key=lambda part: part.sizes["time"])
    variables = {
        str(name): _joined(str(name), parts, own, slots, shape)
        for name in dict.fromkeys([*second.data_vars, *first.data_vars])
    }
    coords: dict[str, Any] = {"time": longest["time"].variable}
    for i, name in enumerate(names):
        attrs = dict(second[name].attrs)
        levels = [np.atleast_1d(p[name].attrs.get("levels", p[name].values)) for p in parts]
        attrs["levels"] = np.unique(one_spelling(np.concatenate(levels)[:, None])).tolist()
        coords[name] = "context", contexts[:, i], attrs
    return xr.Dataset(variables, coords=coords, attrs=second.attrs)


def share_a_run(first: xr.Dataset, second: xr.Dataset) -> bool:
    """Whether both datasets hold a run of the same context, duration and counts.

    Both have equal resources and events, with runs.  Runs of one dataset are not compared with each
    other: simulated runs, whose durations are multiples of a step, often have equal durations.
    """
    names = resource_names(second)
    table = context_table(first)[:, [resource_names(first).index(name) for name in names]]
    rows = same_contexts(context_table(second), table)
    for c in np.flatnonzero(rows >= 0):
        old, new = (part.isel(context=i) for part, i in ((first, rows[c]), (second, c)))
        ends = old["duration"].values[:, None] == new["duration"].values
        if any(_same_counts(old.isel(run=i), new.isel(run=k)) for i, k in np.argwhere(ends)):
            return True
    return False


def _same_counts(old: xr.Dataset, new: xr.Dataset) -> bool:
    """Whether two runs of equal duration count the same, as files keep it."""
    pairs = ((old[name].values, new[name].values) for name in counter_names(new))
    return all(_counted(a) == _counted(b) for a, b in pairs)


def _counted(values: NDArray[np.floating[Any]]) -> list[float]:
    return values[np.isfinite(values)].astype(np.float32).tolist()


def _union(tables: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
    """The sorted contexts of several tables, and the row of each table's contexts in them."""
    every = one_spelling(np.concatenate(tables))
    contexts, row = np.unique(every, axis=0, return_inverse=True)
    return contexts, np.split(row.ravel(), np.cumsum([len(table) for table in tables])[:-1])


def _ordinals(there: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Context and ordinal of each present run, row by row."""
    return [(c, k) for c, row in enumerate(there) for k in range(int(row.sum()))]


def _joined(
    name: str,
    parts: list[xr.Dataset],
    own: list[NDArray[np.bool_]],
    slots: list[list[tuple[int, int]]],
    shape: Mapping[str, int],
) -> tuple[tuple[str, ...], NDArray[Any], dict[str, Any]]:
    model = next(part[name] for part in parts[::-1] if name in part)
    dims = tuple(d for d in ("context", "run", "time") if d in model.dims)
    # runs of a part without this variable were complete; integers have no NaN
    empty, dtype = (1, model.dtype) if name == COMPLETE else (np.nan, model.dtype)
    if np.isnan(empty) and dtype.kind in "iub":
        dtype = np.dtype(np.float64)
    whole = np.full([shape[d] for d in dims], empty, dtype=dtype)
    for part, there, places in zip(parts, own, slots):
        if name in part and places:
            values = part[name].transpose(*dims).values[there]
            at = tuple(np.array(places).T)
            if "time" in dims:
                whole[(*at, slice(values.shape[1]))] = values
            else:
                whole[at] = values
    return dims, whole, dict(model.attrs)
