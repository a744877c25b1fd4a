"""Journals: a JSON object a line, on the disk before what it says is relied upon.

Lines are only ever added.  What a crash leaves of a last line is not a line yet: it is cut off when
the journal is opened again, and whatever it told of is done again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msbgen.core.errors import ProfileError
from msbgen.data.files import check_folder, check_input

Record = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """What the journals of a verb are like.

    Attributes
    ----------
    event : str
        What the first line says that it is.
    version : int
        Which the first line names, too.
    of : str
        What a journal is of, as "a sweep".
    verb : str
        The command that writes them, as "msbgen measure".
    at_work : str
        What a process does that has one open, as "measuring".
    without_copy : str
        What to do about a line that is damaged, where there is no copy.
    is_record : callable
        Whether a line's value holds all that is relied upon.
    """

    event: str
    version: int
    of: str
    verb: str
    at_work: str
    without_copy: str
    is_record: Callable[[Any], bool]

    @property
    def head(self) -> bytes:
        """How the first line begins."""
        return f'{{"event": "{self.event}"'.encode()


class Journal:
    """A journal that is being written, by one process at a time.

    Parameters
    ----------
    path : Path
    form : Form
    new : bool
        Whether it is begun, and must not exist; otherwise it is continued.

    Attributes
    ----------
    path : Path
    records : list of dict
        Everything that it holds.

    Raises
    ------
    FileExistsError
        It is begun, and exists.
    ProfileError
        It is continued, and no such journal can be read, or another process writes it.
    OSError
        It cannot be written.
    """

    def __init__(self, path: Path, form: Form, *, new: bool):
        self.path = path
        self.records: list[Record] = []
        if new:
            check_folder(path.resolve().parent, path)
            flags = os.O_CREAT | (0 if _is_blank(path, form) else os.O_EXCL)
        else:
            check_input(path)
            flags = 0
        self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
        try:
            self._lock(form)
            if new:
                os.ftruncate(self._handle, 0)
                _sync_folder(path.resolve().parent)
            else:
                self.records, whole = _read(path, form)
                os.ftruncate(self._handle, whole)
        except BaseException:
            os.close(self._handle)
            raise

    def _lock(self, form: Form) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ProfileError(
                f"{self.path}: another process is {form.at_work} with it; wait for it, or end it."
            ) from None

    def append(self, record: Record) -> None:
        """Add a record; it is on the disk when this returns, or not in the journal at all.

        Raises
        ------
        OSError
            The disk is full, say.
        """
        line = f"{json.dumps(record, ensure_ascii=True, allow_nan=False)}\n".encode()
        size = os.fstat(self._handle).st_size
        try:
            if os.write(self._handle, line) != len(line):
                raise OSError(errno.ENOSPC, "No space left on device")
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, size)
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self.records.append(record)

    def close(self) -> None:
        """Let others write it."""
        os.close(self._handle)


def read_journal(path: Path, form: Form) -> list[Record]:
    """Records of a journal, but for half a line at its end; none where nothing was begun yet.

    Raises
    ------
    ProfileError
        No such file, no journal, or a line in its middle that is damaged.
    """
    return _read(check_input(path), form)[0]


def _read(path: Path, form: Form) -> tuple[list[Record], int]:
    """Records of a journal, and the bytes that they take."""
    if _is_blank(path, form):
        return [], 0
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    records: list[Record] = []
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # bytes that are no text are no JSON either
            record = {}
        if not form.is_record(record):
            # without the first line nothing says what the others are of
            instead = form.without_copy if number > 1 else "begin again elsewhere"
            raise ProfileError(
                f"{path}: line {number} is no record of {form.of}; restore a copy, or {instead}."
            )
        records.append(_shared(record))
    if (
        not records
        or records[0]["event"] != form.event
        or records[0].get("version") != form.version
    ):
        raise ProfileError(
            f"{path}: is no journal of '{form.verb}'; name the one beside its output."
        )
    return records, whole


def _shared(record: Record) -> Record:
    """The record, with words that others have, too, in memory once: journals are long."""
    return {
        sys.intern(key): sys.intern(value) if isinstance(value, str) else value
        for key, value in record.items()
    }


def _is_blank(path: Path, form: Form) -> bool:
    """Whether there is a file that was made for a journal, and no more than half its first line."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        data = stream.readline()
    return not data.endswith(b"\n") and data[: len(form.head)] == form.head[: len(data)]


def _sync_folder(folder: Path) -> None:
    """Have the name of a new file survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
