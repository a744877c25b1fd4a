"""Time and cache misses of a run of each kind of task in any context, interpolated from profiles.

Core cycles take time in proportion to 1/f, and waiting for regulated memory in proportion to 1/B.
Times and misses are therefore linear between levels in the number of ways, in 1/B and in 1/f.
Beyond the levels of the clock they are extrapolated linearly in 1/f.  Beyond those of cache and
memory they are constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE, Stored
from msbgen.core.contexts import LevelGrid
from msbgen.core.errors import ProfileError
from msbgen.data.check import checked_profiles

Floats = NDArray[np.float64]

# Resources of profiles that a device allocates, and their units in device sheets.
RESOURCES = {"cache_ways": "1", "bandwidth": "MB s-1", "frequency": "GHz"}
MISSES = "cache_misses"
# Relative distance from the nearest level up to which a value counts as that level.
_NEAR = 1e-6
# Extrapolated values are at least this share of the smallest one in the table.
_SHORTEST = 0.01
# Share of the cycles that pass during a run which are at least the core's.
_LEAST_CYCLES = 1e-3


@dataclass(frozen=True, eq=False)
class Kind:
    """Times and misses of one kind on a grid of levels.

    The three ascending levels are of ways, bandwidth [MB/s] and clock [GHz].  `seconds` and
    `misses` of a whole run are (n_ways, n_bandwidths, n_clocks); misses are 0 where profiles do not
    count them.
    """

    name: str
    levels: tuple[
        Annotated[Floats, Stored(("ways",), POSITIVE, ascending=True)],
        Annotated[Floats, Stored(("bandwidth",), POSITIVE, ascending=True)],
        Annotated[Floats, Stored(("clock",), POSITIVE, ascending=True)],
    ]
    seconds: Annotated[Floats, Stored(("ways", "bandwidth", "clock"), POSITIVE)]
    misses: Annotated[Floats, Stored(("ways", "bandwidth", "clock"), NOT_NEGATIVE)]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored kind."""
        if not self.seconds.size:
            yield "seconds", "empty", "one level or more of each"

    def at(self, ways: ArrayLike, bandwidth: ArrayLike, clock: ArrayLike) -> tuple[Floats, Floats]:
        """Seconds and misses of a whole run in contexts; arrays broadcast."""
        axes = np.broadcast_arrays(*(np.asarray(a, float) for a in (ways, bandwidth, clock)))
        shape = axes[0].shape
        places = [
            _place(levels, axis.ravel(), inverse=number > 0, beyond=number == 2)
            for number, (levels, axis) in enumerate(zip(self.levels, axes))
        ]
        values = []
        for table in (self.seconds, self.misses):
            total = np.zeros(axes[0].size)
            for corner in range(8):
                index, weight = [], np.ones(axes[0].size)
                for axis, (lower, upper, share) in enumerate(places):
                    high = corner >> axis & 1
                    index.append(upper if high else lower)
                    weight = weight * (share if high else 1.0 - share)
                total += weight * table[tuple(index)]
            values.append(np.maximum(total, _SHORTEST * table.min()).reshape(shape))
        return values[0], values[1]

    def outside(self, ways: ArrayLike, bandwidth: ArrayLike, clock: ArrayLike) -> NDArray[np.bool_]:
        """Whether contexts lie beyond the levels; arrays broadcast."""
        axes = np.broadcast_arrays(*(np.asarray(a, float) for a in (ways, bandwidth, clock)))
        out = np.zeros(axes[0].shape, dtype=bool)
        for levels, axis in zip(self.levels, axes):
            out |= (axis < levels[0] * (1 - _NEAR)) | (axis > levels[-1] * (1 + _NEAR))
        return out

    @property
    def cycles(self) -> float:
        """Core cycles of a whole run [1e9]: the slope of its time in 1/f with all of the memory.

        Positive, as models take its logarithm: at least a thousandth of the cycles that pass.
        """
        clock = self.levels[2]
        if len(clock) == 1:
            return float(self.seconds[-1, -1, 0] * clock[0])
        slope = np.polyfit(1.0 / clock, self.seconds[-1, -1], 1)[0]
        passed = (self.seconds[-1, -1] * clock).min()
        return float(np.clip(slope, _LEAST_CYCLES * passed, passed))


def read_kinds(profiles: Mapping[str, xr.Dataset]) -> tuple[Kind, ...]:
    """Kinds from their profile datasets, sorted by name.

    Each dataset, measured or generated, has every context of a grid of `cache_ways`, `bandwidth`
    [MB/s] and `frequency` [GHz].  :class:`ProfileError`: a dataset that breaks the schema, lacks a
    resource or has it in another unit, lacks contexts of its grid; no dataset.
    """
    if not profiles:
        raise ProfileError("no kind has profiles; those of one kind at least are wanted.")
    return tuple(_read_kind(name, profiles[name]) for name in sorted(profiles))


def _read_kind(name: str, dataset: xr.Dataset) -> Kind:
    where = f"profiles of '{name}'"
    profiles = checked_profiles(dataset, source=where, part=True)
    resources = list(profiles.resources)
    for resource, units in RESOURCES.items():
        if resource not in resources:
            raise ProfileError(
                f"{where}: resource '{resource}' is missing; profiles over "
                f"{', '.join(RESOURCES)} are wanted, and theirs are over {', '.join(resources)}."
            )
        got = profiles.resources[resource].get("units")
        if got != units:
            raise ProfileError(f"{where}: '{resource}' has units {got!r}; '{units}' is wanted.")
    if len(resources) > len(RESOURCES):
        more = [r for r in resources if r not in RESOURCES]
        raise ProfileError(
            f"{where}: no device sheet has '{more[0]}'; profiles without it are wanted."
        )
    table = profiles.contexts[:, [resources.index(r) for r in RESOURCES]]
    grid = LevelGrid.of(table)
    levels = (grid.levels[0], grid.levels[1], grid.levels[2])
    shape = (len(levels[0]), len(levels[1]), len(levels[2]))
    if len(grid.missing):
        context = ", ".join(f"{r}={v:g}" for r, v in zip(RESOURCES, grid.missing[0]))
        raise ProfileError(
            f"{where}: context {context} is missing; every context of a grid is wanted: generate "
            f"them (msbgen generate --contexts all)."
        )
    seconds, misses = np.empty(shape), np.zeros(shape)
    durations = profiles.duration
    seconds.ravel()[grid.numbers] = np.nanmean(durations, axis=1)
    if MISSES in profiles.counters:
        total = np.nansum(profiles.samples[list(profiles.counters).index(MISSES)], axis=2)
        misses.ravel()[grid.numbers] = np.nanmean(
            np.where(np.isfinite(durations), total, np.nan), axis=1
        )
    return Kind(name, levels, seconds, misses)


def _place(
    levels: Floats, values: Floats, *, inverse: bool, beyond: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Indices of the levels below and above each value, and its position between them."""
    if len(levels) == 1:
        none = np.zeros(len(values), dtype=np.int64)
        return none, none, np.zeros(len(values))
    if not beyond:
        values = np.clip(values, levels[0], levels[-1])
    upper = np.clip(np.searchsorted(levels, values), 1, len(levels) - 1)
    low, high = levels[upper - 1], levels[upper]
    if inverse:
        share = (1.0 / values - 1.0 / low) / (1.0 / high - 1.0 / low)
    else:
        share = (values - low) / (high - low)
    return upper - 1, upper, share
