"""The one store of fitted models: arrays by name and labels as JSON in netCDF; nothing is pickled.

A digest over arrays and labels detects a file that was changed after it was saved. Systems describe
their arrays in tables (:class:`msbgen.core.arrays.ModelArray`), which are checked on load.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from msbgen.core.arrays import StoredArrays, digest
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.parts import arrays_and_table, part_from, plain
from msbgen.data.schema import file_of
from msbgen.data.store import load_netcdf, save_netcdf

Part = TypeVar("Part")

# Arrays of so many bytes are compressed, by about half; smaller ones would take longer to read.
_LARGE = 2**16


def parameters_of(predictor: Any, fitted: str) -> dict[str, Any]:
    """Parameters of a predictor by name, settings among them as tables.

    ArgumentError: it lacks the attribute `fitted`, so that it was not fitted.
    """
    if not hasattr(predictor, fitted):
        raise ArgumentError("the predictor is not fitted; call fit first.")
    parameters: dict[str, Any] = predictor.get_params()
    for name, value in parameters.items():
        if is_dataclass(value) and not isinstance(value, type):
            parameters[name] = asdict(value)
    return parameters


def check_fitted(predictor: Any, fitted: str) -> None:
    """Raise ArgumentError if a predictor lacks the attribute `fitted`, as it was not fitted."""
    if not hasattr(predictor, fitted):
        raise ArgumentError("the predictor is not fitted; call fit first.")


def save_model(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    labels: Mapping[str, Any],
    *,
    schema: str,
    overwrite: bool = False,
) -> None:
    """Write arrays, or numbers, and labels to netCDF; `overwrite` replaces a file."""
    stored = {name: np.asarray(array) for name, array in arrays.items()}
    text = json.dumps(labels, allow_nan=False)
    dataset = xr.Dataset(
        {n: ([f"{n}_{k}" for k in range(array.ndim)], array) for n, array in stored.items()},
        attrs={"schema": schema, "labels": text, "digest": digest(stored, text)},
    )
    packed = {"zlib": True, "complevel": 4, "shuffle": True}
    encoding = {name: packed for name, array in stored.items() if array.ndim}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def load_model(
    path: str | os.PathLike[str], *, schema: str, what: str
) -> tuple[StoredArrays, dict[str, Any]]:
    """Arrays and labels that :func:`save_model` wrote.

    ProfileError: the file cannot be read, is no model of `what`, claims more values than its bytes
    can hold, or was changed after it was saved.
    """
    dataset, source = load_netcdf(path), Path(path).name
    found = dataset.attrs.get("schema")
    if not isinstance(found, str) or found != schema:
        raise ProfileError(
            f"{source}: attribute 'schema' is {quoted(found)}; a model of {what} of this version "
            f"has '{schema}': fit it again."
        )
    arrays = {str(name): variable.values for name, variable in dataset.variables.items()}
    text = str(dataset.attrs.get("labels"))
    if str(dataset.attrs.get("digest")) != digest(arrays, text):
        raise ProfileError(f"{source}: was changed since it was saved; copy or fit it again.")
    with label_errors(source):
        labels = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(labels, dict):
            raise ArgumentError("no table")
    return StoredArrays(source, arrays), labels


def save_part(
    part: object, path: str | os.PathLike[str], *, schema: str, overwrite: bool = False
) -> None:
    """Write a fitted part (:mod:`msbgen.core.parts`) to netCDF; `overwrite` replaces a file."""
    content = content_of(part, schema=schema)
    encoding = {
        str(name): {"zlib": True, "complevel": 1, "shuffle": True}
        for name, array in content.variables.items()
        if array.nbytes >= _LARGE
    }
    save_netcdf(content, path, overwrite=overwrite, encoding=encoding)


def load_part(kind: type[Part], path: str | os.PathLike[str], *, schema: str, what: str) -> Part:
    """The part that :func:`save_part` wrote; errors as :func:`part_of`, or it cannot be read."""
    return part_of(load_netcdf(path), kind, schema=schema, what=what)


def content_of(part: object, *, schema: str) -> xr.Dataset:
    """What :func:`save_part` writes of a part."""
    arrays, table = arrays_and_table(part)
    return sealed(arrays, table, schema=schema)


def sealed(arrays: Mapping[str, Any], table: Mapping[str, Any], *, schema: str) -> xr.Dataset:
    """The content of a model file of these arrays and values, with its digest."""
    stored = {name: np.asarray(array) for name, array in arrays.items()}
    text = json.dumps(table, default=plain)
    return xr.Dataset(
        {n: ([f"{n}_{k}" for k in range(array.ndim)], array) for n, array in stored.items()},
        attrs={"schema": schema, "labels": text, "digest": digest(stored, text)},
    )


def part_of(content: xr.Dataset, kind: type[Part], *, schema: str, what: str) -> Part:
    """The part of the content of a file.

    ProfileError: it is no model of `what`, was changed after it was saved, or holds values that no
    fit gives.
    """
    source, found = file_of(content), content.attrs.get("schema")
    if not isinstance(found, str) or found != schema:
        raise ProfileError(
            f"{source}: attribute 'schema' is {quoted(found)}; a model of {what} of this version "
            f"has '{schema}': fit it again."
        )
    arrays = {str(name): variable.values for name, variable in content.variables.items()}
    text = str(content.attrs.get("labels"))
    if str(content.attrs.get("digest")) != digest(arrays, text):
        raise ProfileError(f"{source}: was changed since it was saved; copy or fit it again.")
    try:
        table = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise ProfileError(
            f"{source}: attribute 'labels' is {quoted(text)}; a table is wanted: fit it again."
        ) from None
    return part_from(kind, StoredArrays(source, arrays), table)


@contextmanager
def label_errors(source: str) -> Iterator[None]:
    """While labels are read: turn errors about them into a :class:`ProfileError` of the file.

    Such are a missing name, a value of another type or range, and nesting that is too deep.
    """
    try:
        yield
    except ProfileError:  # has a better sentence already
        raise
    except RecursionError:
        raise ProfileError(
            f"{source}: attribute 'labels' is nested too deep; fit it again."
        ) from None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProfileError(
            f"{source}: attribute 'labels' is not that of a model ({_short(error)}); fit it again."
        ) from None


def stored_names(value: object, *, distinct: bool = True) -> tuple[str, ...]:
    """Names in a JSON list, for use within :func:`label_errors`; ArgumentError otherwise."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ArgumentError(f"{quoted(value)} is no list of names")
    if distinct and len(set(value)) < len(value):
        raise ArgumentError("a name stands there twice")
    return tuple(value)


def stored_count(value: object, most: int) -> int:
    """A whole number from 0 to `most` in JSON, for use within :func:`label_errors`."""
    if type(value) is not int or not 0 <= value <= most:
        raise ArgumentError(f"{quoted(value)} is no whole number from 0 to {most}")
    return value


def _short(error: Exception) -> str:
    """What an error says; the error itself where that alone would be a bare word."""
    return (str(error) if isinstance(error, ArgumentError) else repr(error))[:200]


def _refuse_constant(name: str) -> float:
    raise ArgumentError(f"{name} is no finite number")
