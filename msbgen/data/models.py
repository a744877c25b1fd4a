"""The one store of fitted models: arrays by name and labels as JSON in netCDF; nothing is pickled.

A digest over arrays and labels detects a file that was changed after it was saved.  What is stored
is declared by the classes that are stored (:mod:`msbgen.core.parts`), and checked on load.
"""

import json
import os
from typing import TypeVar

import numpy as np
import xarray as xr

from msbgen.core.arrays import StoredArrays, digest
from msbgen.core.errors import ProfileError, quoted
from msbgen.core.parts import arrays_and_table, part_from
from msbgen.data.schema import file_of
from msbgen.data.store import load_netcdf, save_netcdf

Part = TypeVar("Part")

# Arrays of so many bytes are compressed, by about half; smaller ones would take longer to read.
_LARGE = 2**16


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
    text = json.dumps(table, default=_plain)
    return xr.Dataset(
        {n: ([f"{n}_{k}" for k in range(array.ndim)], array) for n, array in arrays.items()},
        attrs={"schema": schema, "labels": text, "digest": digest(arrays, text)},
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


def _plain(value: object) -> object:
    """A value of a type that JSON has, for one of numpy."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
