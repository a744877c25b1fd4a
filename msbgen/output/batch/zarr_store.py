"""Zarr stores of profiles (format 3): created at full size, then filled by several processes.

They have no consolidated metadata, which version 3 does not define.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from msbgen.core.machine import load_library
from msbgen.data.schema import replicate_dim

# Contexts of a chunk; a region between multiples of it has one writer only.
CHUNK = 128


def create_store(path: Path, layout: xr.Dataset, n_contexts: int, n_times: int) -> None:
    """Create an empty store of profiles, replacing an existing one.

    Names, attributes and samples are those of `layout`, profiles of some contexts; `n_times` is the
    length of the longest profile possible.
    """
    zarr = load_library("zarr", "dist", "stores of profiles")
    shutil.rmtree(path, ignore_errors=True)
    group = zarr.create_group(store=str(path), zarr_format=3, attributes=_plain(layout.attrs))
    sizes = {"context": n_contexts, "time": n_times}
    for name, variable in layout.variables.items():
        shape = [sizes.get(str(d), variable.sizes[d]) for d in variable.dims]
        chunks = [min(CHUNK, s) if d == "context" else s for d, s in zip(variable.dims, shape)]
        array = group.create_array(
            str(name),
            shape=shape,
            chunks=[max(c, 1) for c in chunks],
            dtype=variable.dtype,
            fill_value=np.nan if variable.dtype.kind == "f" else 0,
            dimension_names=[str(d) for d in variable.dims],
            attributes=_plain({**variable.attrs, **_coordinates(layout, str(name))}),
        )
        if replicate_dim(layout) in variable.dims and variable.ndim == 1:
            array[:] = variable.values


def write_region(path: Path, block: xr.Dataset, first: int) -> None:
    """Write the profiles of a block of contexts.

    Blocks that start at multiples of :data:`CHUNK` may be written concurrently and repeatedly.
    """
    zarr = load_library("zarr", "dist", "stores of profiles")
    group = zarr.open_group(store=str(path), mode="r+", zarr_format=3, use_consolidated=False)
    for name, variable in block.variables.items():
        if "context" in variable.dims:
            place = tuple(
                slice(first, first + size) if dim == "context" else slice(size)
                for dim, size in variable.sizes.items()
            )
            group[str(name)][place] = variable.values


def finish_store(path: Path, final: Path, n_times: int) -> None:
    """Cut a store to the length of its longest profile, and move it to its final path."""
    zarr = load_library("zarr", "dist", "stores of profiles")
    group = zarr.open_group(store=str(path), mode="r+", zarr_format=3, use_consolidated=False)
    for _, array in group.arrays():
        dims = array.metadata.dimension_names
        shape = [n_times if d == "time" else s for d, s in zip(dims, array.shape)]
        if tuple(shape) != array.shape:
            array.resize(tuple(shape))
    if "time" in group:  # durations alone have none
        group["time"][:] = group.attrs["interval"] * np.arange(1, n_times + 1)
    shutil.rmtree(final, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, final)


def _coordinates(layout: xr.Dataset, name: str) -> dict[str, str]:
    """CF's attribute ``coordinates``, which lists coordinates that are not dimensions."""
    variable = layout.variables[name]
    if name in layout.coords:
        return {}
    beside = [
        str(c)
        for c, coord in layout.coords.items()
        if c not in layout.dims and set(coord.dims) <= set(variable.dims)
    ]
    return {"coordinates": " ".join(beside)} if beside else {}


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as JSON values."""
    return {
        str(key): value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for key, value in attrs.items()
    }
