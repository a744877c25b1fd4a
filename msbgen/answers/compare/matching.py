"""What two files share: contexts and counters, resources, units and the measure of progress."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.check import validate_profiles
from msbgen.data.durations_only import (
    durations_of,
    has_time_axis,
    with_interval,
    without_interval,
)
from msbgen.data.schema import (
    check_datasets,
    clock_name,
    context_table,
    counter_names,
    duration_array,
    file_of,
    labels_of,
    resource_names,
    same_contexts,
    started_array,
)

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shared:
    """What two datasets share.

    Attributes
    ----------
    counters : tuple of str
        Counters that both have, in the order of the old one.
    old_rows, new_rows : (n,)
        Rows of the contexts that both have, in the order of the old one.
    """

    counters: tuple[str, ...]
    old_rows: Indices
    new_rows: Indices


def comparable(old: xr.Dataset, new: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Both datasets with counts over time, or with durations in one interval where one has none.

    ProfileError: a dataset is not valid.
    """
    check_datasets(old, new)
    if has_time_axis(old) and has_time_axis(new):
        return old, new
    plain = [durations_of(without_interval(dataset)) for dataset in (old, new)]
    for dataset in plain:
        validate_profiles(dataset, source=file_of(dataset), part=True)
    longest = max(float(np.nanmax(duration_array(dataset))) for dataset in plain)
    first, second = (with_interval(dataset, longest) for dataset in plain)
    return first, second


def match_profiles(old: xr.Dataset, new: xr.Dataset) -> Shared:
    """Counters and contexts that two profile datasets share.

    Raises
    ------
    ProfileError
        A dataset is not valid or has no runs; or their resources, their units or their measures of
        progress differ, or the words of their levels.
    """
    _check_profiles(old, new)
    counters = _shared_counters(old, new)
    first = context_table(old)
    second = context_table(new)[:, [resource_names(new).index(n) for n in resource_names(old)]]
    found = same_contexts(first, second)
    return Shared(counters, np.flatnonzero(found >= 0), found[found >= 0])


def is_one_sweep(old: xr.Dataset, new: xr.Dataset) -> bool:
    """Whether both are variants of one sweep whose runs have a start."""
    same = "sweep" in old.attrs and old.attrs["sweep"] == new.attrs.get("sweep")
    return same and all(np.isfinite(started_array(dataset)).any() for dataset in (old, new))


def _check_profiles(*datasets: xr.Dataset) -> None:
    """Raise :class:`ProfileError` where a dataset is not valid, or holds no runs."""
    check_datasets(*datasets)
    for dataset in datasets:
        validate_profiles(dataset, source=file_of(dataset))
        if "run" not in dataset.dims:
            raise ProfileError(
                f"{file_of(dataset)}: has no measured runs (dimension 'run'); compare measured "
                f"files, not generated ones."
            )


def _shared_counters(old: xr.Dataset, new: xr.Dataset) -> tuple[str, ...]:
    """Counters of both datasets, whose resources, units and clocks must be the same."""
    first, second = file_of(old), file_of(new)
    if set(resource_names(old)) != set(resource_names(new)):
        raise ProfileError(
            f"{second}: has the resources {', '.join(resource_names(new))}, {first} has "
            f"{', '.join(resource_names(old))}; measure both versions over the same resources."
        )
    for name in resource_names(old):
        _check_equal_units(name, old, new)
        _check_equal_words(name, old, new)
    if clock_name(old) != clock_name(new):
        raise ProfileError(
            f"{second}: measures progress by '{clock_name(new)}', {first} by '{clock_name(old)}'; "
            f"set the attribute 'progress' of both files to one of them."
        )
    shared = tuple(name for name in counter_names(old) if name in counter_names(new))
    for name in shared:
        _check_equal_units(name, old, new)
    return shared


def _check_equal_words(name: str, old: xr.Dataset, new: xr.Dataset) -> None:
    """Refuse words of levels of which the same number means another in the two datasets."""
    words = [labels_of(dataset[name].attrs) for dataset in (old, new)]
    if bool(words[0]) != bool(words[1]) or any(a != b for a, b in zip(*words)):
        shown = [quoted(", ".join(each)) if each else "numbers" for each in words]
        raise ProfileError(
            f"{file_of(new)}: the levels 1, 2, … of '{name}' are {shown[1]}, in {file_of(old)} "
            f"{shown[0]}; write both in the same order."
        )


def _check_equal_units(name: str, old: xr.Dataset, new: xr.Dataset) -> None:
    units = [str(dataset[name].attrs.get("units", "1")) for dataset in (old, new)]
    if units[0] != units[1]:
        raise ProfileError(
            f"{file_of(new)}: '{name}' is in {units[1]!r}, in {file_of(old)} in {units[0]!r}; "
            f"convert one of them."
        )
