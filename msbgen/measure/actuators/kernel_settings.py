"""Changes of the machine's settings: noted before they are made, and taken back.

Each change is a record of a journal, written (and on the disk) before the kernel's file is: what
was there, what is written.  The live sweep and ``measure --restore`` take changes back by the same
function, from the same records; what somebody else has changed meanwhile is left alone.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msbgen.measure.actuators.kernel_files import KernelFiles

Record = dict[str, Any]

# A group can be removed once its killed processes are gone, which takes this time [s] at most.
_PATIENCE = 5.0
_PAUSE = 0.01
# Limits of bandwidth per core, as MemGuard shows them.
_LIMIT = re.compile(r"^CPU(\d+):\s*(\d+)\s*\((\d+)\s*MB/s\)", re.MULTILINE)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _controller(text: str) -> str:
    """Whether groups below have the controller ``cpu``, in the word that makes it so."""
    return "+cpu" if {"cpu", "+cpu"} & set(text.split()) else "-cpu"


def _limits(text: str) -> str:
    """MemGuard's limits in the words that set them."""
    found = _LIMIT.findall(text)
    return "mb " + " ".join(mb for _, _, mb in found) if found else _plain(text)


# How what a file shows becomes what would have to be written to get it.
NORMALISERS: dict[str, Callable[[str], str]] = {
    "plain": _plain,
    "controller": _controller,
    "memguard": _limits,
}


@dataclass
class RestoreReport:
    """What came of taking changes back, a sentence each.

    Attributes
    ----------
    done : list of str
        What was put back.
    others : list of str
        What somebody else has changed since, and was left alone.
    failed : list of str
        What could not be put back, with what to do by hand.
    """

    done: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class KernelSettings:
    """The changes of one sweep.

    Parameters
    ----------
    files : KernelFiles
    log : callable
        Takes the record of a change, and returns when it is safe.
    """

    def __init__(self, files: KernelFiles, log: Callable[[Record], None]):
        self.files = files
        self._log = log
        self._records: list[Record] = []

    def make(self, path: str) -> None:
        """Make a group's folder.

        Raises
        ------
        OSError
            As the kernel says it.
        """
        self._note({"event": "make", "path": path})
        try:
            self.files.make(path)
        except OSError:
            self._note({"event": "not made", "path": path})
            raise

    def write(self, path: str, text: str, reading: str = "plain") -> str:
        """Write a text and return what the file shows then, read by :data:`NORMALISERS`.

        Raises
        ------
        OSError
            As the kernel says it.
        """
        read = NORMALISERS[reading]
        noted = not any(path.startswith(f"{folder}/") for folder in _folders(self._records))
        if noted:  # what is in a group of ours goes with it
            before, wrote = read(self.files.read(path)), read(text)
            change = {"path": path, "reading": reading, "before": before, "wrote": wrote}
            self._note({"event": "set", **change})
        self.files.write(path, text)
        after = read(self.files.read(path))
        if noted and after != read(text):
            self._note({"event": "read", "path": path, "after": after})
        return after

    def restore(self) -> RestoreReport:
        """Take every change back, the last one first."""
        outcome = undo_changes(self.files, self._records)
        if self._records and not outcome.failed:
            self._records.clear()
            with suppress(OSError):  # on a full disk; what is as before needs no note
                self._log({"event": "restored", "others": outcome.others})
        return outcome

    def end_processes(self) -> None:
        """Kill what is in the groups that were made."""
        for folder in _folders(self._records):
            kill_group(self.files, folder)

    def _note(self, record: Record) -> None:
        self._log(record)
        self._records.append(record)


def pending_changes(records: Iterable[Record]) -> list[Record]:
    """Records of changes since settings were last restored."""
    changes: list[Record] = []
    for record in records:
        if record["event"] in ("make", "not made", "set", "read"):
            changes.append(record)
        elif record["event"] == "restored":
            changes.clear()
    return changes


def undo_changes(files: KernelFiles, records: Iterable[Record]) -> RestoreReport:
    """Take changes back, the last one first.

    A value is put back only where the file still shows what was written: anything else is
    somebody's later change.  Groups are removed with the processes in them.
    """
    records = list(records)
    outcome = RestoreReport()
    waiting = _values(records)
    for last in (False, False, True):  # a minimum may have to wait for its maximum
        waiting = [value for value in waiting if not _put_back(files, value, outcome, last=last)]
    for path in reversed(_folders(records)):
        _remove_group(files, path, outcome)
    return outcome


@dataclass
class _Value:
    """A file's value before the first change, and what was written or shown since."""

    path: str
    reading: str
    before: str
    ours: set[str]


def _values(records: list[Record]) -> list[_Value]:
    """Values to put back, the last change first."""
    found: dict[str, _Value] = {}
    for record in records:
        path = record["path"]
        if record["event"] == "set":
            value = found.setdefault(path, _Value(path, record["reading"], record["before"], set()))
            value.ours.add(record["wrote"])
        elif record["event"] == "read" and path in found:
            found[path].ours.add(record["after"])
    return list(found.values())[::-1]


def _folders(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Groups that were made, in their order."""
    made: dict[str, None] = {}
    for record in records:
        if record["event"] == "make":
            made[record["path"]] = None
        elif record["event"] == "not made":
            made.pop(record["path"], None)
    return list(made)


def _put_back(files: KernelFiles, value: _Value, outcome: RestoreReport, *, last: bool) -> bool:
    """Whether there is nothing more to do about a value."""
    read = NORMALISERS[value.reading]
    try:
        now = read(files.read(value.path))
        if now == value.before:
            return True
        if now not in value.ours:
            outcome.others.append(
                f"{value.path} is '{now}', neither what was set nor '{value.before}' as before: "
                f"somebody changed it since, and it was left as it is."
            )
            return True
        files.write(value.path, f"{value.before}\n")
        now = read(files.read(value.path))
        reason = f"it shows '{now}'"
    except FileNotFoundError:  # a driver that was unloaded, a core that is offline
        outcome.others.append(f"{value.path} is no more; there is nothing to put back.")
        return True
    except OSError as error:
        now, reason = None, str(error.strerror)
    if now == value.before:
        outcome.done.append(f"{value.path} is '{now}' again.")
        return True
    if last:
        outcome.failed.append(
            f"{value.path} could not be put back to '{value.before}' ({reason}); do it by hand: "
            f"echo '{value.before}' > {value.path}"
        )
    return False


def _remove_group(files: KernelFiles, path: str, outcome: RestoreReport) -> None:
    if not files.exists(path):
        return
    until = time.monotonic() + _PATIENCE
    while True:
        kill_group(files, path)
        try:
            files.remove(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno == errno.EBUSY and time.monotonic() < until:
                time.sleep(_PAUSE)
                continue
            outcome.failed.append(
                f"group {path} could not be removed ({error.strerror}); end what is in it, then: "
                f"rmdir {path}"
            )
            return
        outcome.done.append(f"group {path} is removed.")
        return


def kill_group(files: KernelFiles, path: str) -> int:
    """Kill the processes of a group of ours; returns how many there were."""
    killed = 0
    for name in ("cgroup.procs", "tasks"):
        file = f"{path}/{name}"
        if files.exists(file):
            with suppress(OSError):
                # 0 stands for a process of another container, and would mean our own group
                for pid in filter(None, map(int, files.read(file).split())):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
            break
    return killed
