"""Changes of kernel settings: recorded before they are made, and undone from the records.

Each change is a record of a journal: the value before, the value written.  The record is on the
disk before the kernel's file is written.  A running sweep and ``measure --restore`` undo changes
by the same function; values that somebody else has changed since are left alone.
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

from msbgen.sources.measure.actuators.kernel_files import KernelFiles, writing_command

Record = dict[str, Any]

# A group can be removed once its killed processes are gone, which takes this time at most [s].
_REMOVAL_TIMEOUT = 5.0
_RETRY_PAUSE = 0.01
# A core's bandwidth limit, as MemGuard shows it.
_LIMIT = re.compile(r"^CPU(\d+):\s*(\d+)\s*\((\d+)\s*MB/s\)", re.MULTILINE)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _enabled(controller: str) -> Callable[[str], str]:
    """A function that returns ``+NAME`` if groups below have this controller, else ``-NAME``."""
    signs = {controller, f"+{controller}"}
    return lambda text: f"{'+' if signs & set(text.split()) else '-'}{controller}"


def _limits(text: str) -> str:
    """MemGuard's limits in the syntax that sets them."""
    limits = _LIMIT.findall(text)
    return "mb " + " ".join(mb for _, _, mb in limits) if limits else _plain(text)


# Functions from the text that a file shows to the text that would set it, by kind of file.
NORMALISERS: dict[str, Callable[[str], str]] = {
    "plain": _plain,
    "controller": _enabled("cpu"),  # in older journals
    **{f"controller {name}": _enabled(name) for name in ("cpu", "memory", "io")},
    "memguard": _limits,
}


@dataclass
class RestoreReport:
    """Outcome of undoing changes, one sentence per change."""

    restored: list[str] = field(default_factory=list)
    changed_by_others: list[str] = field(default_factory=list)  # settings that were left alone
    failed: list[str] = field(default_factory=list)  # with the command to restore by hand


class KernelSettings:
    """Changes kernel settings for one sweep, and restores them.

    `log` stores the record of a change; it returns when the record is on the disk.
    """

    def __init__(self, files: KernelFiles, log: Callable[[Record], None]):
        self.files = files
        self._log = log
        self._records: list[Record] = []

    def make(self, path: str) -> None:
        """Create the folder of a group; OSError if the kernel refuses."""
        self._note({"event": "make", "path": path})
        try:
            self.files.make(path)
        except OSError:
            self._note({"event": "not made", "path": path})
            raise

    def write(self, path: str, text: str, reading: str = "plain") -> str:
        """Write a text; return what the file shows afterwards, normalised; OSError if refused.

        `reading` is the key of the normaliser in :data:`NORMALISERS`.
        """
        normalise = NORMALISERS[reading]
        recorded = not any(path.startswith(f"{folder}/") for folder in _folders(self._records))
        if recorded:  # files of our own groups are removed with the group
            before, wrote = normalise(self.files.read(path)), normalise(text)
            change = {"path": path, "reading": reading, "before": before, "wrote": wrote}
            self._note({"event": "set", **change})
        self.files.write(path, text)
        after = normalise(self.files.read(path))
        if recorded and after != normalise(text):
            self._note({"event": "read", "path": path, "after": after})
        return after

    def restore(self) -> RestoreReport:
        """Undo every change, the last one first."""
        report = undo_changes(self.files, self._records)
        if self._records and not report.failed:
            self._records.clear()
            with suppress(OSError):  # a full disk; the machine is restored all the same
                self._log({"event": "restored", "others": report.changed_by_others})
        return report

    def end_processes(self) -> None:
        """Kill the processes in the groups that were created."""
        for folder in _folders(self._records):
            kill_group(self.files, folder)

    def _note(self, record: Record) -> None:
        self._log(record)
        self._records.append(record)


def pending_changes(records: Iterable[Record]) -> list[Record]:
    """Records of the changes since settings were last restored."""
    changes: list[Record] = []
    for record in records:
        if record["event"] in ("make", "not made", "set", "read"):
            changes.append(record)
        elif record["event"] == "restored":
            changes.clear()
    return changes


def undo_changes(files: KernelFiles, records: Iterable[Record]) -> RestoreReport:
    """Undo recorded changes, the last one first.

    A value is restored only if the file still shows what was written; any other value is a later
    change by somebody else.  Groups are removed, and the processes in them killed.
    """
    records = list(records)
    report = RestoreReport()
    values = _values(records)
    for last in (False, False, True):  # a minimum may have to wait for its maximum
        values = [value for value in values if not _restore_value(files, value, report, last=last)]
    for path in reversed(_folders(records)):
        _remove_group(files, path, report)
    return report


@dataclass
class _Value:
    """A file's value before the first change, and the values that we have written or read since."""

    path: str
    reading: str
    before: str
    written: set[str]


def _values(records: list[Record]) -> list[_Value]:
    """Values to restore, the last change first."""
    values: dict[tuple[str, str], _Value] = {}
    for record in records:
        path = record["path"]
        if record["event"] == "set":
            reading = record["reading"]  # two controllers are two values of one file
            value = _Value(path, reading, record["before"], set())
            values.setdefault((path, reading), value).written.add(record["wrote"])
        elif record["event"] == "read":
            for value in values.values():
                if value.path == path:
                    value.written.add(record["after"])
    return list(values.values())[::-1]


def _folders(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Folders of the groups that were created, in order."""
    made: dict[str, None] = {}
    for record in records:
        if record["event"] == "make":
            made[record["path"]] = None
        elif record["event"] == "not made":
            made.pop(record["path"], None)
    return list(made)


def _restore_value(files: KernelFiles, value: _Value, report: RestoreReport, *, last: bool) -> bool:
    """Whether a value is done: restored, or left to somebody else."""
    normalise = NORMALISERS[value.reading]
    try:
        now = normalise(files.read(value.path))
        if now == value.before:
            return True
        if now not in value.written:
            report.changed_by_others.append(
                f"{value.path} is '{now}', neither what msbgen set nor '{value.before}' as before: "
                f"somebody changed it since, so it was left as it is."
            )
            return True
        files.write(value.path, f"{value.before}\n")
        now = normalise(files.read(value.path))
        reason = f"it shows '{now}'"
    except FileNotFoundError:  # a driver that was unloaded, a core that is offline
        report.changed_by_others.append(f"{value.path} is no more; there is nothing to restore.")
        return True
    except OSError as error:
        now, reason = None, str(error.strerror)
    if now == value.before:
        report.restored.append(f"{value.path} is '{now}' again.")
        return True
    if last:
        report.failed.append(
            f"{value.path} could not be restored to '{value.before}' ({reason}); do it by hand: "
            f"{writing_command(value.path, value.before)}"
        )
    return False


def _remove_group(files: KernelFiles, path: str, report: RestoreReport) -> None:
    if not files.exists(path):
        return
    until = time.monotonic() + _REMOVAL_TIMEOUT
    while True:
        kill_group(files, path)
        try:
            files.remove(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno == errno.EBUSY and time.monotonic() < until:
                time.sleep(_RETRY_PAUSE)
                continue
            report.failed.append(
                f"group {path} could not be removed ({error.strerror}); end the processes in it, "
                f"then: rmdir {path}"
            )
            return
        report.restored.append(f"group {path} is removed.")
        return


def kill_group(files: KernelFiles, path: str) -> int:
    """Kill the processes of one of our groups; return how many there were."""
    killed = 0
    for name in ("cgroup.procs", "tasks"):
        file = f"{path}/{name}"
        if files.exists(file):
            with suppress(OSError):
                # 0 stands for a process of another container; os.kill(0) would kill our own group
                for pid in filter(None, map(int, files.read(file).split())):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
            break
    return killed
