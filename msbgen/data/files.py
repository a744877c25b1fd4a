"""Checks of input files, and outputs that appear whole or not at all."""

import errno
import fcntl
import glob
import gzip
import json
import math
import os
import shutil
import signal
import stat
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msbgen.core.errors import ArgumentError, ProfileError, quoted

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
# Error codes of a full disk.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNWRITABLE = (*NO_ROOM, errno.EIO, errno.EROFS, errno.ENXIO, errno.EPERM, errno.EACCES)
# Characters of a file's name in the name of its partial file, which must be short enough.
_NAME_KEPT = 40
# Name of an empty file in the folders of partial files.
_MARK = ".partial"


def path_of(path: str | os.PathLike[str]) -> Path:
    """The argument `path` as a path; ArgumentError where it is none."""
    try:
        return Path(path)
    except TypeError:
        raise ArgumentError(f"path is {quoted(path)}; the name of a file is wanted.") from None


def check_input(path: str | os.PathLike[str]) -> Path:
    """Return the path of an input if it is a regular file that can be read; ProfileError otherwise.

    Pipes and devices are not opened: opening a pipe would wait for its writer.
    """
    if isinstance(path, str) and not path:
        raise ProfileError("the name of the file is empty; name a file.")
    path = path_of(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            path.open("rb").close()
            return path
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise ProfileError(f"{path}: cannot be read ({_reason(error)}).") from None
    kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
    raise ProfileError(f"{path}: is {kind}; a regular file is wanted.")


def read_text(path: Path, most: int = 2**30) -> str:
    """The UTF-8 text of a file, decompressed where the name ends in ``.gz``.

    ProfileError: it is no such text, cannot be decompressed, or has more than `most` bytes, which a
    small compressed file may have.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = stream.read(most + 1)
        if len(data) <= most:
            return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ProfileError(f"{path.name}: is no UTF-8 text; one is wanted.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ProfileError(
            f"{path.name}: cannot be decompressed ({error}); copy it again."
        ) from None
    raise ProfileError(
        f"{path.name}: has more than {most / 2**30:g} GiB of text; less is wanted: split it."
    )


def followed(path: Path) -> Path:
    """Where an output is written: the end of its symbolic links, if they are of this user or root.

    In a folder that others can write, a link of another user may lead to any file of this one.
    OSError: it is such a link, or its links form a loop.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):  # nothing is there, or its link leads nowhere
        pass
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(f"{path}: its symbolic links form a loop; name another output.") from None
    end = path
    while end.is_symlink():
        if end.lstat().st_uid not in (0, os.geteuid()):
            raise OSError(f"{path}: is a link of another user; remove it, or name another output.")
        end = end.parent / end.readlink()
    return end.parent.resolve() / end.name


@contextmanager
def replace_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Let a file appear whole or not at all: write to a neighbour, then rename it.

    Use as ``with replace_file(path) as partial: write(partial)``.  After a failure or an
    interrupt in the body, the file at `path` is as before.  Partial files of killed processes are
    removed; those of running processes are not.

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is False, at the start or by the end.
    OSError
        `path` is no regular file or a link of another user, its folder does not exist or cannot be
        written, or the disk is full.
    """
    target = path_of(path)
    check_output(target, overwrite=overwrite)
    final = followed(target)  # a link is written through, not replaced
    prefix = f".{final.name[:_NAME_KEPT]}."
    _remove_abandoned(final.parent, prefix)
    with _own_folder(final.parent, prefix) as folder:
        partial = folder / final.name
        try:
            yield partial
            check_output(target, overwrite=overwrite)
            os.replace(partial, final)
        except OSError as error:
            of_partial = error.filename in (None, partial, str(partial))
            if error.errno not in _UNWRITABLE or not of_partial:
                raise
            remedy = "make room" if error.errno in NO_ROOM else "try again"
            raise OSError(
                f"{target}: cannot be written ({_reason(error)}); {remedy} or name another output."
            ) from None


def write_json(content: Any, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write numbers and names as JSON, whole or not at all; NaN and infinities become null.

    Raises as :func:`replace_file`.
    """
    with replace_file(path, overwrite=overwrite) as partial:
        text = json.dumps(_finite(content), indent=1, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def _finite(content: Any) -> Any:
    """The content with None for NaN and infinities, which JSON lacks."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


@contextmanager
def _own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder that is locked while this process runs, and removed at the end.

    The lock is on the folder, as the netCDF library locks its files itself.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".partial", dir=parent))
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another process removed it as abandoned
            continue
        _lock(lock, wait=True)
        if folder.exists():  # not removed as abandoned before it was locked
            break
        os.close(lock)
    try:
        os.close(os.open(_MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=lock))
        yield folder
    finally:
        _remove_folder(folder, lock)
        os.close(lock)


def _remove_folder(folder: str | os.PathLike[str], handle: int) -> None:
    """Remove an open folder with all that it holds.

    Where others can write the parent, its name may be given to another folder of this user at any
    time: that one keeps what it holds.
    """
    shutil.rmtree(".", ignore_errors=True, dir_fd=handle)
    with suppress(OSError):  # not empty: it is another one
        os.rmdir(folder)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Handle of a file that only this user can change; a new one is readable by this user only.

    In a folder that others can write, a name may become a link to another file at any time.  It can
    be the `opener` of :func:`open`.  ProfileError: the file is a link, no regular file, of another
    owner, or others may write it.  OSError: it cannot be opened.
    """
    try:
        # a pipe would wait for its other end
        more = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path, flags | more, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_private(path, "is a symbolic link") from None
        raise
    state = os.fstat(handle)
    try:
        if not stat.S_ISREG(state.st_mode):
            raise _not_private(path, "is no regular file")
        if state.st_nlink > 1:
            raise _not_private(path, "has a second name (a hard link)")
        _check_private(path, state)
    except ProfileError:
        os.close(handle)
        raise
    return handle


@contextmanager
def private_folder(path: Path, *, new: bool) -> Iterator[Path]:
    """Make a folder that only this user can use; with `new` false, it may be there.

    The result is another path of the folder, which stays the same folder if its name is given to
    another one.  FileExistsError: it exists and is `new`.  ProfileError: it is a link, of another
    owner, or others may write it.
    """
    try:
        path.mkdir(0o700)
    except FileExistsError:
        if new:
            raise
    check_private_folder(path)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_private(path, os.fstat(handle))
        yield Path(f"/proc/{os.getpid()}/fd/{handle}")
    finally:
        os.close(handle)


def check_private_folder(path: Path) -> None:
    """Raise ProfileError where a path is no folder, or one that others can change."""
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode):
        raise _not_private(path, "is no folder")
    _check_private(path, state)


def _check_private(path: str | os.PathLike[str], state: os.stat_result) -> None:
    if state.st_uid != os.geteuid():
        raise _not_private(path, "belongs to another user")
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ProfileError(
            f"{os.fspath(path)}: other users may write it; after a look at it, take that right "
            f"away: chmod go-w."
        )


def _not_private(path: str | os.PathLike[str], why: str) -> ProfileError:
    return ProfileError(f"{os.fspath(path)}: {why}; remove it, or name another output.")


def remove_abandoned(path: Path) -> None:
    """Remove what killed processes left while they wrote a file; running ones are let alone."""
    final = path.resolve()
    _remove_abandoned(final.parent, f".{final.name[:_NAME_KEPT]}.")


def remove_all_abandoned(folder: Path) -> None:
    """Remove what killed processes left of files in a folder; running ones are let alone."""
    _remove_abandoned(folder, ".")


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove partial files of ended processes: those without a lock.

    Their folders hold a mark: others who can write the parent may give such a name to any folder.
    """
    for name in glob.glob(f"{glob.escape(str(parent / prefix))}*.partial"):
        try:
            lock = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # of another user, or removed meanwhile
            continue
        if os.fstat(lock).st_uid == os.geteuid() and _lock(lock, wait=False):
            if _MARK in os.listdir(lock):
                _remove_folder(name, lock)
            with suppress(OSError):  # its process was killed before it made the mark
                os.rmdir(name)
        os.close(lock)


def _lock(handle: int, *, wait: bool) -> bool:
    """Whether the lock was acquired; False on file systems without locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def write_failure(path: Path) -> OSError | None:
    """The error of the system when `path` grows, as a full disk; None without one.

    Some libraries do not name the cause of a failed write.  This function enlarges the file by more
    than a library writes at once, and truncates it again.
    """
    try:
        with path.open("ab") as stream:
            size = stream.tell()
            try:
                for _ in range(8):
                    stream.write(bytes(2**20))
                stream.flush()
                os.fsync(stream.fileno())
            finally:
                os.truncate(path, size)
    except OSError as error:
        return error
    return None


def check_output(path: Path, *, overwrite: bool = False) -> None:
    """Raise the errors of :func:`replace_file` for this path, before a long computation."""
    try:
        folder = followed(path).parent
    except FileNotFoundError:
        raise OSError(f"{path}: the current folder was removed; change to another one.") from None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        there, regular = path.exists() or path.is_symlink(), path.is_file()
    except OSError as error:
        raise _unwritable(path, error) from None
    if path.exists() and not regular:
        raise OSError(f"{path}: is no regular file; name another output.")
    if there and not overwrite:
        raise FileExistsError(f"{path}: exists already; remove it or allow overwriting.")
    check_folder(folder, path)


def _unwritable(path: Path, error: OSError) -> OSError:
    """The error in a sentence; one of this module is a sentence already."""
    if error.errno is None:
        return error
    return OSError(f"{path}: cannot be written ({_reason(error)}); name another one.")


def check_folder(folder: Path, path: Path) -> None:
    """Raise OSError where `path` could not be created in `folder`."""
    if not folder.is_dir():
        raise OSError(f"{path}: there is no folder '{folder}'; make it first.")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            f"{path}: nothing can be written into '{folder}' ({_reason(error)}); name another one."
        ) from None


def sync_path(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk, to survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer SIGINT, SIGTERM, SIGHUP and SIGALRM to the end of the block.

    An interrupted netCDF library hangs, and an interrupted restoration is incomplete.  Handlers
    collect the signals.  A mask would not do: the kernel delivers a signal of the process
    to any thread that does not mask it.
    """
    if threading.current_thread() is not threading.main_thread():  # no signal arrives here
        yield
        return
    received: list[int] = []
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in handlers:
        signal.signal(number, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


def _reason(error: Exception) -> str:
    """The message of the system, to stand inside a sentence."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return text[:1].lower() + text[1:]
