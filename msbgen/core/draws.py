"""Generators, numbers and arrays from arguments of public functions, which may be anything."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, quoted

_LARGEST_SEED = 2**128


def generator(rng: np.random.Generator | int) -> np.random.Generator:
    """The generator itself, or a new one from a seed; errors as :func:`seed_of`."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_of(rng))


def seed_of(rng: np.random.Generator | int) -> int:
    """The seed as a whole number; ArgumentError for anything else, or out of range."""
    try:
        seed = operator.index(rng)  # type: ignore[arg-type]
    except TypeError:
        seed = -1
    if 0 <= seed < _LARGEST_SEED:
        return seed
    shown = "too large" if seed > 0 else quoted(rng)
    raise ArgumentError(
        f"rng is {shown}; a generator or a whole number from 0 to below 2¹²⁸ is wanted."
    )


def numbers_of(values: ArrayLike, name: str, columns: Iterable[str] = ()) -> NDArray[np.float64]:
    """Values of the argument `name` as an array of floating-point numbers.

    Errors as :func:`real_array`.
    """
    return real_array(values, name, columns).astype(np.float64, copy=False)


def real_array(values: ArrayLike, name: str, columns: Iterable[str] = ()) -> NDArray[Any]:
    """Values of the argument `name` as an array of whole or floating-point numbers.

    `columns` are the names of its columns, or of the elements of one row, for tables, series and
    arrays that have names.

    Raises
    ------
    ArgumentError
        Masked values, texts, booleans and complex numbers, rows of several lengths; one of the
        columns in another place, or rows in the place of columns.
    """
    columns, several = list(columns), name.endswith("s")
    verb = "are" if several else "is"
    rows = f" in rows of {', '.join(columns)}, all of one length," if columns and several else ""
    wanted = f"numbers{rows}"
    if np.ma.is_masked(values):
        raise ArgumentError(f"{name} {verb} masked in part; {wanted} are wanted.")
    _check_order(values, name, columns)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or not hasattr(values, "dtype"):
            # numpy makes numbers of texts, and of booleans beside numbers
            each = np.asarray(values, dtype=object).ravel().tolist()
            if values is None or any(
                isinstance(one, (str, bytes, bool, np.bool_, complex)) for one in each
            ):
                raise TypeError
        return array if array.dtype.kind in "iuf" else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} {verb} {quoted(values)}; {wanted} are wanted.") from None


def flags_of(values: ArrayLike, name: str, columns: Iterable[str] = ()) -> NDArray[np.bool_]:
    """Values of the argument `name` as an array of truth values; `columns` as :func:`real_array`.

    Raises
    ------
    ArgumentError
        Masked values, others than True and False; names as for :func:`real_array`.
    """
    if np.ma.is_masked(values):
        raise ArgumentError(f"{name} are masked in part; True or False is wanted everywhere.")
    _check_order(values, name, list(columns))
    array = np.asarray(values, dtype=object)
    if not all(isinstance(one, (bool, np.bool_)) for one in array.ravel().tolist()):
        raise ArgumentError(f"{name} are {quoted(values)}; True or False is wanted everywhere.")
    return array.astype(np.bool_)


def names_of_columns(values: object) -> list[str]:
    """Names of the columns of a table such as those of pandas; empty where it has none."""
    return _texts(getattr(values, "columns", ()))


def _texts(labels: Any) -> list[str]:
    """Labels as a list if all are texts; else, and where these are no labels, an empty list."""
    try:
        names: list[Any] = list(labels)
    except TypeError:  # such as the method index of a list
        return []
    return names if all(isinstance(name, str) for name in names) else []


def _names_along(values: Any) -> list[list[str]]:
    """Names along each dimension of a table or series of pandas, or an array of xarray."""
    if hasattr(values, "coords"):
        return [_texts(getattr(values.coords.get(dim), "values", ())) for dim in values.sizes]
    rows = [_texts(getattr(values, "index", ()))]
    return [*rows, names_of_columns(values)] if hasattr(values, "columns") else rows


def _check_order(values: object, name: str, columns: Sequence[str]) -> None:
    """Refuse names by which one of the columns stands in another place, or is a row."""
    if not columns:
        return
    *rows, given = _names_along(values) or [[]]
    wanted = f"{', '.join(columns)}, in this order, are wanted"
    if any(one in columns and columns[i : i + 1] != [one] for i, one in enumerate(given)):
        raise ArgumentError(f"columns of {name} are {', '.join(given)}; {wanted}.")
    if list(given) == list(columns):
        return
    last_dimension = tuple(getattr(values, "sizes", ()))[1:]
    if any(set(columns) & set(row) for row in rows) or last_dimension == (name.removesuffix("s"),):
        raise ArgumentError(f"{name} are transposed; rows of {wanted}.")
