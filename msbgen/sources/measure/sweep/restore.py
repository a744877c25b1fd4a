"""Restore the machine after a sweep that was killed: processes, groups and settings."""

from __future__ import annotations

import os.path
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.files import deferred_signals, remove_abandoned
from msbgen.sources.measure.actuators import cpufreq, memguard, resctrl
from msbgen.sources.measure.actuators.control_group import mount_points
from msbgen.sources.measure.actuators.kernel_files import HOOK, KernelFiles, SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import (
    RestoreReport,
    pending_changes,
    undo_changes,
)
from msbgen.sources.measure.sweep.journal import Record, SweepJournal
from msbgen.sources.measure.sweep.process import kill_leftovers

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def restore_machine(
    path: Path, hooks: Collection[str] = (), *, files: KernelFiles | None = None
) -> RestoreReport:
    """Undo what a killed sweep left: processes, groups, settings and a file half written.

    Executables that set levels are run if they are among `hooks`, those of the sweep's spec.

    A setting that somebody else has changed since is left alone and named in the report.  The
    function can be called any number of times; without anything to undo it does nothing.

    ProfileError: there is no journal, another process is writing it, it is of another user, or it
    names a file that no sweep changes, or another executable.  OSError: it cannot be written.
    """
    journal = SweepJournal(path, new=False)
    try:
        remove_abandoned(path.with_suffix(".nc"))
        return restore_journal(journal, hooks, files or SystemFiles())
    finally:
        journal.close()


def restore_journal(
    journal: SweepJournal, hooks: Collection[str], files: KernelFiles
) -> RestoreReport:
    """Undo the changes in an open journal; see :func:`restore_machine`."""
    if not journal.records:
        return RestoreReport()
    first = journal.records[0]
    pending = changes = pending_changes(journal.records)
    if first["boot"] != boot_id():
        # a reboot has ended the processes and reset the kernel's settings, but not those of hooks
        changes = [record for record in changes if record["path"].startswith(HOOK)]
    _check_paths(journal, files)
    _check_hooks(journal.path, changes, hooks)
    with deferred_signals():
        killed = kill_leftovers(0, first["tag"])
        report = undo_changes(files, changes)
        if killed:
            report.restored.insert(0, "processes that the program had left running were ended.")
        if pending and not report.failed:
            journal.append({"event": "restored", "others": report.changed_by_others})
    return report


def _check_paths(journal: SweepJournal, files: KernelFiles) -> None:
    """ProfileError for a file or group that is no sweep's: a forged journal must not touch it."""
    roots = (resctrl.ROOT, cpufreq.ROOT, memguard.FOLDER, *mount_points(files))
    for record in journal.records:
        path = record.get("path", HOOK)
        ours = any(path.startswith(f"{root}/") for root in roots) and os.path.normpath(path) == path
        if record["event"] == "make":
            ours &= os.path.basename(path).startswith("msbgen-")
        if not ours and not path.startswith(HOOK):
            raise ProfileError(
                f"{journal.path}: {quoted(path)} is no setting that a sweep changes; nothing was "
                f"restored: name the journal of your own sweep."
            )


def _check_hooks(path: Path, changes: Iterable[Record], hooks: Collection[str]) -> None:
    """ProfileError for an executable that no spec names: a journal alone must not start it."""
    named = {f"{HOOK}{hook}" for hook in hooks}
    for change in changes:
        if change["path"].startswith(HOOK) and change["path"] not in named:
            hook = change["path"].removeprefix(HOOK)
            raise ProfileError(
                f"{path}: restoring would run {quoted(hook, 1000)}, which the spec does not name; "
                f"name the spec of that sweep: msbgen measure SPEC.toml --restore {path}."
            )


def boot_id() -> str:
    """Identifier of the current boot of this machine."""
    return _BOOT_ID.read_text().strip()


@contextmanager
def sighup_handled_by(handler: Callable[..., object] | int | None) -> Iterator[None]:
    """Use this handler, that of SIGTERM, for SIGHUP (a closed terminal) within the block."""
    try:
        before = signal.getsignal(signal.SIGHUP)
        replaced = callable(handler) and before == signal.SIG_DFL
        if replaced:
            signal.signal(signal.SIGHUP, handler)
    except ValueError:  # in a thread, where no signal arrives
        replaced, before = False, None
    try:
        yield
    finally:
        if replaced:
            signal.signal(signal.SIGHUP, before)
