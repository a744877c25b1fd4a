"""Journals: one JSON object per line, on the disk before the record is relied upon.

Lines are only added.  A crash may leave part of a last line: it is cut off when the journal is
opened again, and its step is repeated.
"""

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
from msbgen.data.files import NO_ROOM, check_folder, check_input, open_private, sync_path

Record = dict[str, Any]


@dataclass(frozen=True)
class JournalFormat:
    """The format of the journals of a command."""

    event: str  # value of ``event`` in the first line
    version: int  # version in the first line
    content: str  # of a journal in words, as "a sweep"
    verb: str  # the command that writes them, as "msbgen measure"
    activity: str  # of a process that has a journal open, as "measuring"
    damage_remedy: str  # for a damaged line where there is no copy
    is_record: Callable[[Any], bool]  # whether the value of a line is a complete record

    @property
    def head(self) -> bytes:
        """Beginning of the first line."""
        return f'{{"event": "{self.event}"'.encode()


class Journal:
    """A journal that one process at a time can write; `records` are all that it holds.

    A `new` one must not exist (FileExistsError); otherwise it is continued.  ProfileError: no such
    journal can be read, another process writes it, or other users can.  OSError: it cannot be
    written.
    """

    def __init__(self, path: Path, layout: JournalFormat, *, new: bool):
        self.path = path
        self.records: list[Record] = []
        if new:
            check_folder(path.resolve().parent, path)
        else:
            check_input(path)
        self._handle = open_private(path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if new else 0))
        try:
            self._lock(layout)
            with open(self._handle, "rb", closefd=False) as stream:
                data = stream.read()
            if new and not _is_blank(data, layout):
                raise FileExistsError(errno.EEXIST, "File exists", str(path))
            self.records, whole = _parse(path, data, layout)
            os.ftruncate(self._handle, whole)
            if new:
                sync_path(path.resolve().parent)
        except BaseException:
            os.close(self._handle)
            raise

    def _lock(self, layout: JournalFormat) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.path.samestat(os.fstat(self._handle), os.lstat(self.path))
        except OSError:
            there = False  # or it was removed before it was locked
        if not there:
            raise ProfileError(
                f"{self.path}: another process is {layout.activity} with it; wait for it, or end "
                f"it."
            )

    def clear(self) -> None:
        """Remove all records."""
        os.ftruncate(self._handle, 0)
        self.records.clear()

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
            remedy = "make room, then continue" if error.errno in NO_ROOM else "continue"
            reason = f"{error.strerror}; {remedy} with --resume"
            raise OSError(error.errno, reason, str(self.path)) from None
        self.records.append(record)

    def close(self) -> None:
        """Close the journal and release its lock."""
        os.close(self._handle)


def read_journal(path: Path, layout: JournalFormat) -> list[Record]:
    """Records of a journal without an incomplete last line; none for a new journal.

    ProfileError: no such file, no journal, or a line in its middle that is damaged.
    """
    return _parse(path, check_input(path).read_bytes(), layout)[0]


def _parse(path: Path, data: bytes, layout: JournalFormat) -> tuple[list[Record], int]:
    """Records of a journal's content, and the bytes that they take."""
    if _is_blank(data, layout):
        return [], 0
    whole = data.rfind(b"\n") + 1
    records: list[Record] = []
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # bytes that are no UTF-8 text are no JSON
            record = {}
        if not layout.is_record(record):
            # the other lines have no meaning without the first
            instead = layout.damage_remedy if number > 1 else "begin again elsewhere"
            raise ProfileError(
                f"{path}: line {number} is no record of {layout.content}; restore a copy, or "
                f"{instead}."
            )
        if records and record["event"] == layout.event:
            raise ProfileError(
                f"{path}: line {number} is a second first record of {layout.content}; restore a "
                f"copy, or remove that line and those after it."
            )
        records.append(_shared(record))
    if (
        not records
        or records[0]["event"] != layout.event
        or records[0].get("version") != layout.version
    ):
        raise ProfileError(
            f"{path}: is no journal of '{layout.verb}'; name the one beside its output."
        )
    return records, whole


def _shared(record: Record) -> Record:
    """The record with repeated words held once in memory, as journals are long."""
    return {
        sys.intern(key): sys.intern(value) if isinstance(value, str) else value
        for key, value in record.items()
    }


def _is_blank(data: bytes, layout: JournalFormat) -> bool:
    """Whether a content is at most an incomplete first line of a journal."""
    return b"\n" not in data and data[: len(layout.head)] == layout.head[: len(data)]
