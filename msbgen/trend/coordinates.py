"""Resources in coordinates of their own, in which the known contexts span one unit.

One of log, reciprocal or linear a resource: the coordinate in which the logarithm of the state is
closest to a line.
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
    """One coordinate a resource, scaled.

    Attributes
    ----------
    names : tuple of str, (m,)
        "log", "reciprocal" or "linear".
    least, span : tuple of float, (m,)
        Least value and range of the known contexts in the coordinate.
    """

    names: tuple[str, ...]
    least: tuple[float, ...]
    span: tuple[float, ...]

    @classmethod
    def of(cls, names: tuple[str, ...], known: Floats) -> Coordinates:
        """Scaled by the known contexts, (n, m)."""
        columns = [_mapped(column, name) for column, name in zip(known.T, names)]
        least = tuple(float(column.min()) for column in columns)
        return cls(names, least, tuple(float(np.ptp(column)) for column in columns))

    def scaled(self, contexts: ArrayLike) -> Floats:
        """Coordinates of (q, m) contexts in which the known ones span [−1/2, 1/2].

        Raises
        ------
        ArgumentError
            Contexts of another shape, or with a level that has no logarithm or reciprocal where
            one is wanted.
        """
        values, m = np.asarray(contexts, dtype=float), len(self.names)
        if values.ndim != 2 or values.shape[1] != m:
            raise ArgumentError(f"contexts has shape {values.shape}; (q, {m}) levels are wanted.")
        least, span, kind = self._arrays
        placed = (values > 0) | (kind == "linear")
        if not placed.all():
            row = int(np.argmin(placed.all(axis=1)))
            raise ArgumentError(
                f"contexts have a level that is not positive at row {row}: "
                f"{values[row].tolist()}; levels like the measured ones are wanted."
            )
        z = np.log(values, where=kind == "log", out=values.copy())
        np.divide(-1.0, values, where=kind == "reciprocal", out=z)
        z -= least
        z /= span
        z -= 0.5
        return np.where(span < np.inf, z, 0.0)  # one level says nothing about the others

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats, NDArray[np.str_]]:
        span = np.array(self.span)
        return np.array(self.least), np.where(span > 0, span, np.inf), np.array(self.names)


def default_names(known: Floats) -> tuple[str, ...]:
    """The logarithm of each resource, but for those with levels of zero or less."""
    return tuple("log" if least > 0 else "linear" for least in known.min(axis=0))


def check_names(coordinates: str | tuple[str, ...], known: Floats) -> tuple[str, ...]:
    """One name a resource of the known contexts (n, m), given one for all or one for each.

    Raises
    ------
    ArgumentError
        Other names, another number of them, or a logarithm or reciprocal of levels that are not
        positive.
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
    """One resource in its coordinate."""
    if name == "log":
        return np.log(values)
    return -1.0 / values if name == "reciprocal" else values
