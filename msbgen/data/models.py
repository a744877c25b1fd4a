"""Fitted predictors in netCDF files: arrays by name, labels as JSON, nothing pickled.

A digest over both tells a file that was changed: numbers that are possible each by itself may
still make no model together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.arrays import StoredArrays, digest
from msbgen.core.errors import ProfileError
from msbgen.data.store import load_netcdf, save_netcdf


def save_model(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    labels: Mapping[str, Any],
    *,
    schema: str,
    overwrite: bool = False,
) -> None:
    """Write arrays and labels to one netCDF file; arrays of no elements are left out.

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    kept = {name: array for name, array in arrays.items() if array.size}
    text = json.dumps(labels)
    dataset = xr.Dataset(
        {name: ([f"{name}_{k}" for k in range(array.ndim)], array) for name, array in kept.items()},
        attrs={"schema": schema, "labels": text, "digest": digest(kept, text)},
    )
    packed = {"zlib": True, "complevel": 4, "shuffle": True}
    encoding = {name: packed for name, array in kept.items() if array.dtype.kind in "fiu"}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def load_model(
    path: str | os.PathLike[str], *, schema: str, what: str
) -> tuple[StoredArrays, dict[str, Any]]:
    """Read what :func:`save_model` wrote: the arrays, and the labels.

    Raises
    ------
    ProfileError
        The file cannot be read, is no model of `what`, or was changed since it was saved.
    """
    dataset, source = load_netcdf(path), Path(path).name
    found = dataset.attrs.get("schema")
    if not isinstance(found, str) or found != schema:
        raise ProfileError(
            f"{source}: attribute 'schema' is {found!r}; a model of {what} says '{schema}'."
        )
    arrays = {str(name): variable.values for name, variable in dataset.data_vars.items()}
    text = str(dataset.attrs.get("labels"))
    if str(dataset.attrs.get("digest")) != digest(arrays, text):
        raise ProfileError(f"{source}: was changed since it was saved; copy or fit it again.")
    with told_labels(source):
        labels = dict(json.loads(text))
    return StoredArrays(source, arrays), labels


@contextmanager
def told_labels(source: str) -> Iterator[None]:
    """While labels are taken apart: whatever they lack is told as an error of the file.

    Raises
    ------
    ProfileError
        In place of what is raised where a name is missing or a value is of another kind.
    """
    try:
        yield
    except ProfileError:  # says more already
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProfileError(
            f"{source}: attribute 'labels' is not that of a model ({error!r}); fit it again."
        ) from None


def byte_array(content: bytes) -> NDArray[np.uint8]:
    """Bytes that another library wrote, as an array to be stored."""
    return np.frombuffer(content, dtype=np.uint8)


def stored_bytes(stored: StoredArrays, name: str) -> bytes:
    """What :func:`byte_array` made an array of."""
    return stored.indices(name, (None,), below=256).astype(np.uint8).tobytes()
