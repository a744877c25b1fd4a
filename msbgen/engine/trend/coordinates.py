"""Scaled coordinates of contexts, in which the known contexts span one unit.

Each resource is taken as its logarithm, its reciprocal or its level, whichever makes the logarithm
of the state closest to a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError

Floats = NDArray[np.float64]

COORDINATES = ("log", "reciprocal", "linear")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """One scaled coordinate per resource."""

    names: tuple[str, ...]  # "log", "reciprocal" or "linear"
    least: tuple[float, ...]  # of the known contexts, in the coordinate
    span: tuple[float, ...]  # range of the known contexts, in the coordinate

    @classmethod
    def of(cls, names: tuple[str, ...], known: Floats) -> Coordinates:
        """The coordinates of these names, scaled by the known contexts (n, m)."""
        columns = [_mapped(column, name) for column, name in zip(known.T, names)]
        least = tuple(float(column.min()) for column in columns)
        return cls(names, least, tuple(float(np.ptp(column)) for column in columns))

    def scaled(self, contexts: ArrayLike) -> Floats:
        """Coordinates (q, m) of contexts (q, m) in which the known ones span [−1/2, 1/2].

        ArgumentError for another shape, or a level without a logarithm or reciprocal that needs
        one.
        """
        values, m = np.asarray(contexts, dtype=float), len(self.names)
        if values.ndim != 2 or values.shape[1] != m:
            raise ArgumentError(f"contexts has shape {values.shape}; (q, {m}) levels are wanted.")
        least, span, kind = self._arrays
        valid = (values > 0) | (kind == "linear")
        if not valid.all():
            row = int(np.argmin(valid.all(axis=1)))
            raise ArgumentError(
                f"context {row}, {values[row].tolist()}, has a level that is not positive; levels "
                f"like the measured ones are wanted."
            )
        z = np.log(values, where=kind == "log", out=values.copy())
        np.divide(-1.0, values, where=kind == "reciprocal", out=z)
        z -= least
        z /= span
        z -= 0.5
        return np.where(span < np.inf, z, 0.0)  # a resource with one known level has no scale

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats, NDArray[np.str_]]:
        span = np.array(self.span)
        return np.array(self.least), np.where(span > 0, span, np.inf), np.array(self.names)


def default_names(known: Floats) -> tuple[str, ...]:
    """The names of the default coordinates: logarithms, and levels where one is not positive."""
    return tuple("log" if least > 0 else "linear" for least in known.min(axis=0))


def names_for_all(fitted: Floats, every: Floats) -> str | tuple[str, ...]:
    """Names for a fit to some contexts that predicts `every` one: "auto" where it may choose."""
    names = default_names(every)
    return "auto" if default_names(fitted) == names else names


def check_names(coordinates: str | tuple[str, ...], known: Floats) -> tuple[str, ...]:
    """The coordinate of each resource of the known contexts (n, m), from one for all or one each.

    ArgumentError for an unknown name, another number of names, or levels without that coordinate.
    """
    m = known.shape[1]
    chosen = (coordinates,) * m if isinstance(coordinates, str) else tuple(coordinates)
    if len(chosen) != m or any(name not in COORDINATES for name in chosen):
        raise ArgumentError(
            f"coordinates is {coordinates!r}; 'auto', or {m} of {', '.join(COORDINATES)} is wanted."
        )
    if any(name != "linear" and least <= 0 for name, least in zip(chosen, known.min(axis=0))):
        raise ArgumentError(
            f"coordinates is {coordinates!r}; 'linear' is wanted where levels are zero or less."
        )
    return chosen


def _mapped(values: Floats, name: str) -> Floats:
    """The coordinate of the levels of one resource."""
    if name == "log":
        return np.log(values)
    return -1.0 / values if name == "reciprocal" else values
