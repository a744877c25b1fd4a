"""The journal of a sweep: a JSON object a line, on the disk before what it says is relied upon.

Lines are only ever added.  What a crash leaves of a last line is not a line yet: it is cut off when
the journal is opened again, and whatever it told of is done again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from msbgen.data.files import check_folder, check_input
from msbgen.errors import ProfileError
from msbgen.measure.actuators.settings import READINGS

Record = dict[str, Any]

VERSION = 1
# How a run ends that is kept.
DONE = "done"
# How the first line begins.
_HEAD = b'{"event": "sweep"'
# No number in a journal is as large.
_MOST = 1e18
# What may take recordings; the first line names one, with its version.
_RECORDERS = ("perf", "torch")
# What is relied upon of each kind of record.
_HELD: dict[str, dict[str, type]] = {
    "sweep": {
        "version": int,
        **dict.fromkeys(("tag", "digest", "task", "boot", "machine"), str),
    },
    "make": {"path": str},
    "not made": {"path": str},
    "set": dict.fromkeys(("path", "before", "wrote"), str),
    "read": dict.fromkeys(("path", "after"), str),
    "run": {"slot": int, "attempt": int, "run": int, "recording": str, "context": list},
}
_DONE: dict[str, type] = {
    "digest": str, "wall": float, "cpu": float, "load": float, "steal": float, "achieved": dict,
}  # fmt: skip


class Journal:
    """A journal that is being written, by one process at a time.

    Parameters
    ----------
    path : Path
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

    def __init__(self, path: Path, *, new: bool):
        self.path = path
        self.records: list[Record] = []
        if new:
            check_folder(path.resolve().parent, path)
            flags = os.O_CREAT | (0 if _is_blank(path) else os.O_EXCL)
        else:
            self.records = read_journal(path)
            flags = 0
        self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise ProfileError(
                f"{path}: another process is measuring with it; wait for it, or end it."
            ) from None
        if new:
            os.ftruncate(self._handle, 0)
            _sync_folder(path.resolve().parent)
        else:
            self.records = read_journal(path)  # whoever held the lock may have added to it
            os.ftruncate(self._handle, _whole(path.read_bytes()))

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


def read_journal(path: Path) -> list[Record]:
    """Records of a journal, but for half a line at its end; none where nothing was begun yet.

    Raises
    ------
    ProfileError
        No such file, no journal, or a line in its middle that is damaged.
    """
    data = check_input(path).read_bytes()
    if _is_blank(path):
        return []
    records: list[Record] = []
    for number, line in enumerate(data[: _whole(data)].splitlines(), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # bytes that are no text are no JSON either
            record = {}
        if not _is_record(record):
            raise ProfileError(f"{path}: line {number} is no record of a sweep; restore a copy.")
        records.append(record)
    if not records or records[0]["event"] != "sweep" or records[0]["version"] != VERSION:
        raise ProfileError(
            f"{path}: is no journal of 'msbgen measure'; name the one beside OUT.nc."
        )
    return records


def _is_record(record: Any) -> bool:
    """Whether a line holds all that is relied upon of its kind."""
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return False
    held = _HELD.get(record["event"], {})
    if record["event"] == "set" and record.get("reading") not in READINGS:
        return False
    if record["event"] == "run":
        done = record.get("outcome") == DONE
        held = {**held, **(_DONE if done else {"outcome": str, "why": str})}
    if record["event"] == "sweep" and not any(_is_a(str, record.get(r)) for r in _RECORDERS):
        return False
    return all(_is_a(kind, record.get(key)) for key, kind in held.items())


def _is_a(kind: type, value: Any) -> bool:
    """Whether a value is of a kind; numbers are not below zero, lists of numbers."""
    if kind is float:
        return type(value) in (int, float) and 0 <= value < _MOST
    if kind is list and isinstance(value, list):
        return all(_is_a(float, part) for part in value)
    if kind is dict and isinstance(value, dict):
        return all(_is_a(float, part) for part in value.values())
    return type(value) is kind


def _is_blank(path: Path) -> bool:
    """Whether there is a file that was made for a journal, and no more than half its first line."""
    if not path.is_file():
        return False
    data = path.read_bytes()
    return b"\n" not in data and data[: len(_HEAD)] == _HEAD[: len(data)]


def _whole(data: bytes) -> int:
    """Bytes up to the end of the last whole line."""
    return data.rfind(b"\n") + 1


def _sync_folder(folder: Path) -> None:
    """Have the name of a new file survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
