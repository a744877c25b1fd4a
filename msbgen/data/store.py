"""NetCDF files: the only code that touches them.

Files are read with a sentence for a bad one, and appear whole or not at all.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xarray as xr

from msbgen.data.check import validate_profiles
from msbgen.data.files import replace_file
from msbgen.data.schema import context_table, counter_names
from msbgen.errors import ProfileError

# Counts of one stored chunk.
_CHUNK = 2**18


def load_netcdf(path: str | os.PathLike[str]) -> xr.Dataset:
    """Load a whole netCDF file, saying in one sentence what is wrong with a bad one.

    Raises
    ------
    ProfileError
        No such file, an empty one, another format, or a truncated one.
    """
    path = Path(path)
    name = path.name
    try:
        with path.open("rb") as stream:
            magic = stream.read(8)
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file.") from None
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read ({error.strerror}).") from None
    if not magic:
        raise ProfileError(f"{name}: the file is empty; write or copy it again.")
    if magic != b"\x89HDF\r\n\x1a\n" and not magic.startswith(b"CDF"):
        raise ProfileError(f"{name}: not a netCDF file; profiles are netCDF-4.")
    try:
        return xr.load_dataset(path, engine="netcdf4", decode_timedelta=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise ProfileError(
            f"{name}: cannot be read whole ({error}); it may be truncated: copy or write it again."
        ) from None


def save_netcdf(
    dataset: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    encoding: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write any dataset as netCDF-4, whole or not at all (see :func:`replace_file`)."""
    with replace_file(path, overwrite=overwrite) as partial, interrupts_wait():
        dataset.to_netcdf(partial, engine="netcdf4", encoding=dict(encoding or {}))


def start_netcdf(
    dataset: xr.Dataset,
    path: Path,
    unlimited: Sequence[str],
    encoding: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write a dataset whose dimensions `unlimited` can grow by :func:`append_netcdf`."""
    with interrupts_wait():
        dataset.to_netcdf(
            path, engine="netcdf4", encoding=dict(encoding), unlimited_dims=list(unlimited)
        )


def append_netcdf(dataset: xr.Dataset, path: Path, dim: str) -> None:
    """Append a dataset of the same layout along `dim`.

    Where it is shorter along other unlimited dimensions, the rest is filled up; where it is
    longer, what was written before is.
    """
    import netCDF4

    with interrupts_wait(), netCDF4.Dataset(path, "a") as file:
        file.set_auto_maskandscale(False)
        before = {name: dimension.size for name, dimension in file.dimensions.items()}
        for name, variable in dataset.variables.items():
            stored = file.variables[str(name)]
            if dim in variable.dims:
                values = variable.transpose(*stored.dimensions).values
                first = [before[d] if d == dim else 0 for d in stored.dimensions]
            elif any(variable.sizes[d] > before[d] for d in stored.dimensions):
                values, first = variable.values, [0] * variable.ndim
            else:
                continue
            stored[tuple(slice(a, a + n) for a, n in zip(first, values.shape))] = values


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM until the body is done: interrupted, the netCDF library hangs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def catch(number: int, frame: object) -> None:
        caught.append(number)

    before = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in caught[:1]:
        signal.raise_signal(number)


def read_profiles(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a profile file; everything is loaded.

    Raises
    ------
    ProfileError
        The file cannot be read whole, or what it holds breaks the contract.
    """
    dataset = load_netcdf(path)
    return validate_profiles(dataset, source=Path(path).name)


def write_profiles(
    dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write a profile file, whole or not at all.

    Raises
    ------
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    validate_profiles(dataset, source=Path(path).name)
    encoding = {name: _packed() for name in counter_names(dataset)}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def write_blocks(
    blocks: Iterable[xr.Dataset], path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write blocks of contexts one after another into one profile file, whole or not at all.

    One block at a time is held in memory, however many there are.

    Parameters
    ----------
    blocks : iterable of xarray.Dataset
        Profile datasets with one layout and one set of attributes, of other contexts each.  A
        block is as long as it needs to be, the file as long as its longest block.
    path : str or path
    overwrite : bool

    Raises
    ------
    ProfileError
        No block, a block that breaks the contract, one of another layout than the first, or a
        context that a block before had; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    name, done = Path(path).name, 0
    known: set[tuple[float, ...]] = set()
    layout = xr.Dataset()
    with replace_file(path, overwrite=overwrite) as partial:
        for block in blocks:
            source = f"{name}, from context {done}"
            validate_profiles(block, source=source, part=True)
            contexts = list(map(tuple, context_table(block).tolist()))
            again = [context for context in contexts if context in known]
            if again:
                raise ProfileError(f"{source}: {again[0]} is listed again; write it once.")
            known.update(contexts)
            own = block.isel(context=slice(0), time=slice(0))
            if done == 0:
                layout = own
                start_netcdf(block, partial, ("context", "time"), _growing(block))
            elif not own.identical(layout):
                raise ProfileError(f"{source}: names or attributes are not those of the first.")
            else:
                append_netcdf(block, partial, "context")
            done += len(contexts)
        if done == 0:
            raise ProfileError(f"{name}: there are no profiles to write.")


def _packed() -> dict[str, Any]:
    return {"zlib": True, "complevel": 4, "shuffle": True, "dtype": "float32"}


def _growing(ds: xr.Dataset) -> dict[str, dict[str, Any]]:
    """How variables that grow are stored: in chunks of about _CHUNK values, last dims first."""
    encoding: dict[str, dict[str, Any]] = {n: _packed() for n in counter_names(ds)}
    for name, variable in ds.variables.items():
        chunks, left = [], _CHUNK
        for size in reversed(variable.shape):
            chunks.append(min(max(size, 1), left))
            left = max(left // chunks[-1], 1)
        if len(chunks) == 1:
            chunks = [max(chunks[0], 512)]
        encoding.setdefault(str(name), {})["chunksizes"] = tuple(reversed(chunks))
    return encoding
