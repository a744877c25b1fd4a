"""Reading and writing of netCDF files; no other module calls the library.

A bad file is refused in one sentence, and a written file appears whole or not at all.
"""

import errno
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import NetCDF4DataStore

from msbgen.core.errors import ProfileError
from msbgen.core.machine import physical_memory
from msbgen.data import hdf5
from msbgen.data.check import validate_profiles
from msbgen.data.files import check_input, deferred_signals, path_of, replace_file, write_failure
from msbgen.data.schema import context_table, counter_names

# Counts of one stored chunk.
_CHUNK = 2**18
# Bytes that the arrays of any file may take, and most bytes of arrays for one byte of a larger one:
# deflate packs up to 1,032 zeros into one, and values never written take none.
_ALWAYS, _MOST_PACKED = 2**28, 256
# Bytes of a text in memory, of which an array holds references.
_TEXT_BYTES = 64
# Bytes of texts that are read at a time, to see how much memory all of them take.
_TEXTS_AT_ONCE = 2**26


def load_netcdf(path: str | os.PathLike[str]) -> xr.Dataset:
    """The content of a whole netCDF file; times stay numbers, as profiles have no dates.

    Raises
    ------
    ProfileError
        No such file, an empty one, another format, a truncated one, one whose arrays are larger
        than memory or than its bytes can hold, or one whose attributes contradict its values.
    """
    path = check_input(path)
    name = path.name
    with path.open("rb") as stream:
        magic = stream.read(8)
    if not magic:
        raise ProfileError(f"{name}: the file is empty; write or copy it again.")
    if magic != hdf5.MAGIC and not magic.startswith(b"CDF"):
        raise ProfileError(f"{name}: not a netCDF file; netCDF-4 is wanted.")
    texts = hdf5.read_texts(path)
    if texts is None:
        raise ProfileError(f"{name}: is damaged (a heap without an end); copy or write it again.")
    try:
        with warnings.catch_warnings(), deferred_signals():
            # xarray's warnings are about the values, which are checked later
            warnings.simplefilter("ignore")
            return _load(path, texts)
    except ProfileError:
        raise
    except MemoryError as error:
        raise ProfileError(
            f"{name}: is too large ({_in_short(error)}); split it, or read it on another machine."
        ) from None
    except (OSError, RuntimeError) as error:  # a RecursionError: groups in groups
        raise ProfileError(
            f"{name}: cannot be read whole ({error}); it may be truncated: copy or write it again."
        ) from None
    except Exception as error:  # any error of the library about a malformed file
        raise ProfileError(
            f"{name}: cannot be understood ({_in_short(error)}); correct what its attributes say "
            f"or write it again."
        ) from None


def _load(path: Path, texts: hdf5.Texts) -> xr.Dataset:
    import netCDF4

    size = path.stat().st_size
    most = min(max(_ALWAYS, _MOST_PACKED * size), physical_memory())
    if texts.longest * size > hdf5.REFERENCE * most:
        _check_claim("its texts", hdf5.referenced_bytes(path, texts), most, size)
    with _encodable(path) as name:
        hdf5.check_objects(name, path.name, most)
        with netCDF4.Dataset(name) as file:
            # before xarray takes memory for coordinates; a few bytes of a file may claim any size
            variables = file.variables.values()
            taken = sum(math.prod(v.shape) * _item_bytes(v.dtype) for v in variables)
            _check_claim("its arrays", taken, most, size)
            for variable in variables:
                if variable.dtype is str and variable.size * texts.longest > most:
                    for total in _text_bytes(variable, texts.longest):
                        _check_claim("its texts", total, most, size)
            dataset = xr.open_dataset(NetCDF4DataStore(file), decode_times=False).load()
    dataset.encoding["source"] = os.fspath(path)  # messages name the file
    return dataset


def _check_claim(what: str, taken: float, most: float, size: int) -> None:
    """Raise MemoryError if a file of a size [bytes] claims more memory than it may take."""
    claim = f"{what} take {taken / 1e9:.3g} GB"
    if taken > physical_memory():
        raise MemoryError(f"{claim}, this machine has {physical_memory() / 1e9:.3g} GB of memory")
    if taken > most:
        raise MemoryError(f"{claim}, which a file of {size / 1e9:.3g} GB cannot hold")


def _text_bytes(variable: Any, longest: int) -> Iterator[float]:
    """Bytes of the texts of a variable up to each of its parts: many may be one text of the file.

    Parts are small enough to be read: `longest` is the length of the longest text [bytes].
    """
    total, step = 0.0, max(_TEXTS_AT_ONCE // longest, 1)
    for row in np.ndindex(variable.shape[:-1]):
        for first in range(0, variable.shape[-1], step):
            part = variable[(*row, slice(first, first + step))]
            total += sum(len(text) for text in np.ravel(part))
            yield total


@contextmanager
def _encodable(path: Path) -> Iterator[Path]:
    """The path, or a link to it where the library cannot encode its name."""
    if os.fsencode(path).decode(sys.getfilesystemencoding(), "replace") == os.fspath(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "file.nc"
        link.symlink_to(path.absolute())
        yield link


def _item_bytes(kind: Any) -> int:
    """Memory of one value of a netCDF variable, once decoded."""
    return _TEXT_BYTES if kind is str else max(np.dtype(kind).itemsize, 8)


def _in_short(error: Exception) -> str:
    """First line of an error that a library raised."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def save_netcdf(
    dataset: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    encoding: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write any dataset as netCDF-4, whole or not at all; equal datasets give equal bytes.

    ProfileError: netCDF cannot hold a part of it, such as an attribute that is None.  Other errors
    as :func:`replace_file`.
    """
    with replace_file(path, overwrite=overwrite) as partial:
        _write(dataset, partial, encoding or {})


def packing(dataset: xr.Dataset, level: int = 9) -> dict[str, dict[str, Any]]:
    """Encoding that compresses numbers, and texts as tables of letters: a tenth of their size."""
    packed = {"zlib": True, "complevel": level, "shuffle": True}
    return {
        str(name): {**packed, "dtype": "S1"} if data.dtype.kind in "OU" else packed
        for name, data in dataset.variables.items()
    }


def _write(
    dataset: xr.Dataset,
    path: Path,
    encoding: Mapping[str, Mapping[str, Any]],
    growing: Sequence[str] = (),
) -> None:
    """Write a dataset whose dimensions `growing` can grow by :func:`_append`.

    Other than by ``to_netcdf``, which takes growing dimensions from a set, and imports dask and
    distributed where they are installed.
    """
    import netCDF4
    from xarray import conventions

    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    for name, own in encoding.items():
        variables[name].encoding = dict(own)
    with _library(path) as writable, netCDF4.Dataset(writable, "w") as file:
        _Store(file).store(variables, attributes, frozenset(encoding), _Writer(), growing)


class _Store(NetCDF4DataStore):
    """Encodes texts only: numbers are stored as they are."""

    def encode_variable(self, variable: xr.Variable, name: str | None = None) -> xr.Variable:
        """Return a variable as the library can store it."""
        if variable.dtype.kind in "fiu" and variable.dtype.isnative:
            return variable
        return super().encode_variable(variable, name)


class _Writer:
    """Writes arrays at once: none is a lazy one of dask."""

    def add(self, source: np.ndarray, target: Any, region: None = None) -> None:
        """Write an array to a variable of the file."""
        target[...] = source


def _append(dataset: xr.Dataset, path: Path, dim: str) -> None:
    """Append a dataset of the same layout along `dim`.

    Where it is shorter along other growing dimensions, the rest is filled up; where it is
    longer, what was written before is.
    """
    import netCDF4

    with _library(path) as writable, netCDF4.Dataset(writable, "a") as file:
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
def _library(path: Path) -> Iterator[Path]:
    """Write with the netCDF library, without interrupts, with the system's message on a failure.

    On a full disk the library reports "HDF error", or that permission was denied.
    """
    try:
        with deferred_signals(), _encodable(path) as name:
            yield name
    except (OSError, RuntimeError) as error:
        if "illegal characters" in str(error):
            raise ProfileError(
                f"{path.name}: cannot be stored as netCDF ({_in_short(error)}); rename it."
            ) from None
        cause = write_failure(path)
        code, reason = (cause.errno, cause.strerror) if cause else (errno.EIO, _in_short(error))
        raise OSError(code, reason) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ProfileError(
            f"{path.name}: cannot be stored as netCDF ({_in_short(error).rstrip('.')}); correct it."
        ) from None


def read_profiles(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a profile file; everything is loaded.

    Raises
    ------
    ProfileError
        The file cannot be read whole, or what it holds breaks the contract.
    """
    dataset = load_netcdf(path)
    return validate_profiles(dataset, source=path_of(path).name)


def write_profiles(
    dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write a profile file, whole or not at all.

    Raises
    ------
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError, OSError
        As :func:`replace_file`.
    """
    validate_profiles(dataset, source=path_of(path).name)
    encoding = {name: _packed() for name in counter_names(dataset)}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def write_blocks(
    blocks: Iterable[xr.Dataset], path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write blocks of contexts one after another into one profile file, whole or not at all.

    One block at a time is held in memory, however many there are.  Equal blocks give equal
    bytes.

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
    FileExistsError, OSError
        As :func:`replace_file`.
    """
    name = path_of(path).name
    written: set[tuple[float, ...]] = set()
    layout = None
    with replace_file(path, overwrite=overwrite) as partial:
        for block in blocks:
            source = f"{name}, from context {len(written)}"
            validate_profiles(block, source=source, part=True)
            contexts = [tuple(context) for context in context_table(block).tolist()]
            for context in written.intersection(contexts):
                raise ProfileError(f"{source}: {context} is listed again; write it once.")
            growing = tuple(dim for dim in ("context", "time") if dim in block.dims)
            own = block.isel({dim: slice(0) for dim in growing})
            if layout is None:
                layout = own
                _write(block, partial, _growing_encoding(block), growing)
            elif own.identical(layout):
                _append(block, partial, "context")
            else:
                raise ProfileError(f"{source}: names or attributes are not those of the first.")
            written.update(contexts)
        if layout is None:
            raise ProfileError(f"{name}: there are no profiles to write.")


def _packed() -> dict[str, Any]:
    return {"zlib": True, "complevel": 4, "shuffle": True, "dtype": "float32"}


def _growing_encoding(ds: xr.Dataset) -> dict[str, dict[str, Any]]:
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
