"""Journals: one JSON object a line, on the disk before the record is relied upon.

Lines are only added.  A crash may leave part of a last line: it is cut off when the journal is
opened again, and its step is repeated.
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
    """The format of the journals of a command.

    Attributes
    ----------
    event : str
        The value of ``event`` in the first line.
    version : int
        The version in the first line.
    of : str
        The content of a journal in words, as "a sweep".
    verb : str
        The command that writes them, as "msbgen measure".
    at_work : str
        The activity of a process that has a journal open, as "measuring".
    without_copy : str
        Remedy for a damaged line where there is no copy.
    is_record : callable
        Whether the value of a line is a complete record.
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
        """Beginning of the first line."""
        return f'{{"event": "{self.event}"'.encode()


class Journal:
    """A journal that one process at a time can write; `records` are all that it holds.

    A `new` one must not exist (FileExistsError); otherwise it is continued.  ProfileError: no such
    journal can be read, or another process writes it.  OSError: it cannot be written.
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
        """Add a record; it is on the disk when this returns, or, after an OSError, left out."""
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
        """Close the journal and release its lock."""
        os.close(self._handle)


def read_journal(path: Path, form: Form) -> list[Record]:
    """Records of a journal without an incomplete last line; none for a new journal.

    ProfileError: no such file, no journal, or a line in its middle that is damaged.
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
        except (ValueError, RecursionError):  # bytes that are no UTF-8 text are no JSON
            record = {}
        if not form.is_record(record):
            # the other lines have no meaning without the first
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
    """The record with repeated words held once in memory, as journals are long."""
    return {
        sys.intern(key): sys.intern(value) if isinstance(value, str) else value
        for key, value in record.items()
    }


def _is_blank(path: Path, form: Form) -> bool:
    """Whether a file holds at most an incomplete first line of a journal."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        data = stream.readline()
    return not data.endswith(b"\n") and data[: len(form.head)] == form.head[: len(data)]


def _sync_folder(folder: Path) -> None:
    """Write the name of a new file to the disk, so that it survives a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
