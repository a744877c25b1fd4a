"""After a sweep that was killed: end what it left running, put back what it changed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msbgen.measure.actuators.kernel_files import KernelFiles, SystemFiles
from msbgen.measure.actuators.kernel_settings import (
    KernelSettings,
    RestoreReport,
    pending_changes,
    undo_changes,
)
from msbgen.measure.sweep.journal import SweepJournal
from msbgen.measure.sweep.process import kill_leftovers

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def restore_machine(path: Path, *, files: KernelFiles | None = None) -> RestoreReport:
    """Mend what a sweep left: processes, groups, settings, as its journal has them.

    What somebody else has changed since is left alone and named.  Nothing happens if all is
    well, so that it can be called any number of times.

    Parameters
    ----------
    path : Path
        The journal.
    files : KernelFiles, optional
        Of the kernel that runs, where none are given.

    Raises
    ------
    ProfileError
        No journal, or one that another process is writing.
    OSError
        The journal cannot be written.
    """
    journal = SweepJournal(path, new=False)
    try:
        return restore_journal(journal, files or SystemFiles())
    finally:
        journal.close()


def restore_journal(journal: SweepJournal, files: KernelFiles) -> RestoreReport:
    """As :func:`restore_machine`, for a journal that is open."""
    if not journal.records:
        return RestoreReport()
    first = journal.records[0]
    if first["boot"] != boot_id():
        # settings and processes went with the kernel that had them
        if pending_changes(journal.records):
            journal.append({"event": "restored", "others": []})
        return RestoreReport()
    with deferred_signals():
        ended = kill_leftovers(0, first["tag"])
        changes = pending_changes(journal.records)
        outcome = undo_changes(files, changes)
        if ended:
            outcome.done.insert(0, "what the program had left running was ended.")
        if changes and not outcome.failed:
            journal.append({"event": "restored", "others": outcome.others})
    return outcome


def boot_id() -> str:
    """Which start of the machine this is."""
    return _BOOT.read_text().strip()


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Let signals that would end us wait until the machine is as it was.

    By handlers, not by a mask: a signal of the process goes to any thread that does not mask it.
    """
    if threading.current_thread() is not threading.main_thread():  # where no signal arrives
        yield
        return
    waiting: list[int] = []
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in waiting:
            signal.raise_signal(number)


def restore_settings(settings: KernelSettings) -> RestoreReport:
    """Take a live sweep's changes back, whatever signals come."""
    with deferred_signals():
        return settings.restore()


@contextmanager
def sighup_handled_by(handler: Callable[..., object] | int | None) -> Iterator[None]:
    """While it lasts, a closed terminal (SIGHUP) ends us by the handler of SIGTERM."""
    try:
        before = signal.getsignal(signal.SIGHUP)
        taken = callable(handler) and before == signal.SIG_DFL
        if taken:
            signal.signal(signal.SIGHUP, handler)
    except ValueError:  # in a thread, where no signal arrives
        taken, before = False, None
    try:
        yield
    finally:
        if taken:
            signal.signal(signal.SIGHUP, before)
