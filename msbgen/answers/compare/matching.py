"""What two files share: contexts and counters, resources, units and the measure of progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.check import checked_profiles
from msbgen.data.durations_only import (
    durations_of,
    has_time_axis,
    with_interval,
    without_interval,
)
from msbgen.data.profiles import Profiles
from msbgen.data.schema import check_datasets, file_of, labels_of, same_contexts

Indices = NDArray[np.int64]
_Attrs = tuple[Mapping[str, Any], Mapping[str, Any]]  # of a name in both versions


@dataclass(frozen=True, eq=False)
class Shared:
    """What two versions share.

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


def versions_of(old: xr.Dataset, new: xr.Dataset) -> tuple[Profiles, Profiles]:
    """Records of two versions, with durations in one interval where one has no time axis.

    ProfileError where one is not valid, or holds no runs.
    """
    check_datasets(old, new)
    if not (has_time_axis(old) and has_time_axis(new)):
        old, new = (durations_of(without_interval(dataset)) for dataset in (old, new))
        first, second = (checked_profiles(d, source=file_of(d), part=True) for d in (old, new))
        longest = float(np.nanmax([np.nanmax(first.duration), np.nanmax(second.duration)]))
        old, new = with_interval(old, longest), with_interval(new, longest)
    return _version_of(old), _version_of(new)


def _version_of(dataset: xr.Dataset) -> Profiles:
    """The record of one version; ProfileError where it is not valid, or holds no runs."""
    profiles = checked_profiles(dataset, source=file_of(dataset))
    if profiles.replicate != "run":
        raise ProfileError(
            f"{profiles.source}: has no measured runs (dimension 'run'); compare measured files, "
            f"not generated ones."
        )
    return profiles


def match_profiles(old: Profiles, new: Profiles) -> Shared:
    """Counters and contexts that two versions share.

    ProfileError where their resources, units or measures of progress differ, or the words of their
    levels.
    """
    counters = _shared_counters(old, new)
    names = list(new.resources)
    second = new.contexts[:, [names.index(name) for name in old.resources]]
    found = same_contexts(old.contexts, second)
    return Shared(counters, np.flatnonzero(found >= 0), found[found >= 0])


def is_one_sweep(old: Profiles, new: Profiles) -> bool:
    """Whether both are variants of one sweep whose runs have a start."""
    same = "sweep" in old.attrs and old.attrs["sweep"] == new.attrs.get("sweep")
    return same and all(np.isfinite(version.started).any() for version in (old, new))


def _shared_counters(old: Profiles, new: Profiles) -> tuple[str, ...]:
    """Counters of both versions, whose resources, units and clocks must be the same."""
    if set(old.resources) != set(new.resources):
        raise ProfileError(
            f"{new.source}: has the resources {', '.join(new.resources)}, {old.source} has "
            f"{', '.join(old.resources)}; measure both versions over the same resources."
        )
    for name in old.resources:
        attrs = old.resources[name], new.resources[name]
        _check_equal_units(name, old, new, attrs)
        _check_equal_words(name, old, new, attrs)
    if old.clock_name != new.clock_name:
        raise ProfileError(
            f"{new.source}: measures progress by '{new.clock_name}', {old.source} by "
            f"'{old.clock_name}'; set the attribute 'progress' of both files to one of them."
        )
    shared = tuple(name for name in old.counters if name in new.counters)
    for name in shared:
        _check_equal_units(name, old, new, (old.counters[name], new.counters[name]))
    return shared


def _check_equal_words(name: str, old: Profiles, new: Profiles, attrs: _Attrs) -> None:
    """Refuse words of levels of which the same number means another in the two versions."""
    words = [labels_of(each) for each in attrs]
    if bool(words[0]) != bool(words[1]) or any(a != b for a, b in zip(*words)):
        shown = [quoted(", ".join(each)) if each else "numbers" for each in words]
        raise ProfileError(
            f"{new.source}: the levels 1, 2, … of '{name}' are {shown[1]}, in {old.source} "
            f"{shown[0]}; write both in the same order."
        )


def _check_equal_units(name: str, old: Profiles, new: Profiles, attrs: _Attrs) -> None:
    units = [str(each.get("units", "1")) for each in attrs]
    if units[0] != units[1]:
        raise ProfileError(
            f"{new.source}: '{name}' is in {units[1]!r}, in {old.source} in {units[0]!r}; "
            f"convert one of them."
        )
