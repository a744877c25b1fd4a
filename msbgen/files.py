"""Files that appear whole or not at all, and netCDF files read with a sentence for a bad one.

What any dataset of the package is read and written with; what a dataset must hold is known to
:mod:`msbgen.schema` and to the others.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


class ProfileError(ValueError):
    """A file or data that break the contract; the message names the place and the remedy.

    Attributes
    ----------
    problems : tuple of str
        Every problem found, one sentence each.
    """

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


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
    import xarray as xr

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
def replace_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Let a file appear whole or not at all: write to a neighbour, then rename it.

    Use as ``with replace_file(path) as partial: write(partial)``.  A failure or an interrupt
    in the body leaves whatever was at `path` untouched.

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is False, at the start or by the end.
    OSError
        `path` is no regular file, its folder does not exist or cannot be written.
    """
    path = Path(path)
    check_output(path, overwrite=overwrite)
    path = path.resolve()  # a link is written through, not replaced
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        check_output(path, overwrite=overwrite)
        # mkstemp makes private files; a result has the permissions of any new file
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def check_output(path: Path, *, overwrite: bool = False) -> None:
    """Raise what :func:`replace_file` would raise for this path, before the work is done."""
    if not overwrite and (path.exists() or path.is_symlink()):
        raise FileExistsError(f"{path}: exists already; remove it or allow overwriting.")
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: is no regular file; name another output.")
    check_folder(path.resolve().parent, path)


def check_folder(folder: Path, path: Path) -> None:
    """Raise OSError where `path`, a file or folder to be, could not be made in `folder`."""
    if not folder.is_dir():
        raise OSError(f"{path}: there is no folder '{folder}'; make it first.")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            f"{path}: nothing can be written into '{folder}' ({error.strerror}); name another one."
        ) from None


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
