"""Contexts of a platform as a dense grid: all combinations of the resources' levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.contexts import LevelGrid, combinations_of
from msbgen.core.errors import ProfileError
from msbgen.core.records import Within
from msbgen.data.profiles import Profiles
from msbgen.data.schema import same_level

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# No machine has more cores that share a cache.
Cores = Annotated[int, Within(1, 4096)]
# Dynamic power of a core that waits for memory, as a share of that of a core that computes.
STALLED_ACTIVITY = 0.5


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number: no text, no bool, no array."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool)
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"


@dataclass(frozen=True)
class Resource:
    """One resource of a platform.

    Attributes
    ----------
    name, units, long_name : str
    levels : tuple of float
        Levels that a core can have, ascending [units].
    """

    name: str
    units: str
    long_name: str
    levels: tuple[float, ...]

    @classmethod
    def of(cls, name: str, values: ArrayLike, attrs: Mapping[str, Any]) -> Resource:
        """The resource of a column of contexts, whose values are its levels."""
        levels = np.unique(np.asarray(values, dtype=float)).tolist()
        label = str(attrs.get("long_name", name))
        return cls(name, str(attrs.get("units", "1")), label, tuple(levels))


@dataclass(frozen=True)
class Grid:
    """Every combination of the resources' levels, the last resource changing fastest."""

    resources: tuple[Resource, ...]

    @classmethod
    def of(cls, profiles: Profiles) -> Grid:
        """Grid of the contexts of profiles.

        :class:`ProfileError` where a combination of the levels is missing.
        """
        columns = zip(profiles.resources.items(), profiles.contexts.T)
        grid = cls(tuple(Resource.of(name, column, attrs) for (name, attrs), column in columns))
        missing = LevelGrid.of(profiles.contexts).missing
        if len(missing):
            raise ProfileError(
                f"{profiles.source}: {len(missing)} of {len(grid.contexts)} contexts are "
                f"missing, first {grid.describe(missing[0])}; profiles of every context are "
                f"wanted: generate them with --contexts all."
            )
        return grid

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the resources."""
        return tuple(resource.name for resource in self.resources)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels."""
        return tuple(len(resource.levels) for resource in self.resources)

    @cached_property
    def contexts(self) -> Floats:
        """All contexts, (n_contexts, n_resources)."""
        return combinations_of([resource.levels for resource in self.resources])

    def resource(self, name: str) -> Resource:
        """The resource of a name."""
        return self.resources[self.names.index(name)]

    def rows(self, profiles: Profiles) -> Indices:
        """Row of the profiles that holds each context of the grid, (n_contexts,)."""
        return LevelGrid.of(profiles.contexts).rows

    @property
    def clock(self) -> str | None:
        """Name of the resource in hertz, the core's clock; None without one."""
        return next((r.name for r in self.resources if r.units.endswith("Hz")), None)

    def describe(self, context: Sequence[float]) -> str:
        """Text for a context: ``cache_ways=2, bandwidth=70 MB s-1``."""
        parts = []
        for resource, level in zip(self.resources, context):
            units = "" if resource.units in ("", "1") else f" {resource.units}"
            parts.append(f"{resource.name}={level:g}{units}")
        return ", ".join(parts)

    def check_same(self, other: Grid, here: str, there: str) -> None:
        """Raise :class:`ProfileError` where another grid has other resources, units or levels."""
        if self.names != other.names:
            raise ProfileError(
                f"{there}: its resources are {', '.join(other.names)}, those of {here} "
                f"{', '.join(self.names)}; one platform is wanted."
            )
        for one, two in zip(self.resources, other.resources):
            if one.units != two.units:
                raise ProfileError(
                    f"{there}: '{one.name}' is in {two.units!r}, in {here} in {one.units!r}; "
                    f"one unit is wanted."
                )
            many = len(one.levels)
            if many != len(two.levels) or not np.all(same_level(one.levels, two.levels)):
                raise ProfileError(
                    f"{there}: '{one.name}' has {len(two.levels)} levels from {two.levels[0]:g} to "
                    f"{two.levels[-1]:g}, in {here} {many} from {one.levels[0]:g} to "
                    f"{one.levels[-1]:g}; make both of the same contexts (--contexts all)."
                )
