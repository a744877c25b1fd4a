"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
