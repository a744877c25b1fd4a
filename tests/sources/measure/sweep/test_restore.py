"""Repair of what a killed sweep left."""

import os
import signal
import subprocess
import threading

import pytest

from fake_kernel import CPU
from msbgen.core.errors import ProfileError
from msbgen.data.files import deferred_signals
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.journal import SweepJournal, read_journal
from msbgen.sources.measure.sweep.process import TAG
from msbgen.sources.measure.sweep.restore import boot_id, restore_machine, sighup_handled_by
from sweeping import HEAD, machine, tree

MAX = f"{CPU}/cpu0/cpufreq/scaling_max_freq"


@pytest.fixture
def kernel(tmp_path):
    return machine(tmp_path).with_cpufreq()


@pytest.fixture
def left(kernel, tmp_path):
    """The journal of a sweep that died with a clock, a group, and a process."""

    def left(**head):
        path = tmp_path / f"{len(os.listdir(tmp_path))}.journal"
        journal = SweepJournal(path, new=True)
        journal.append({**HEAD, "tag": f"{os.getpid():016x}", "boot": boot_id(), **head})
        changes = KernelSettings(kernel, journal.append)
        changes.write(MAX, "1200000")
        changes.make("/sys/fs/resctrl/msbgen-x")
        journal.close()
        return path

    return left


def test_everything_is_put_back_once_and_then_there_is_nothing_to_do(kernel, left):
    before = tree(kernel)
    path = left()
    tag = read_journal(path)[0]["tag"]
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, TAG: tag})
    half, other = (path.with_name(f".{name}.nc.a1b2.partial") for name in (path.stem, "other"))
    for folder in (half, other):  # as a process leaves that is killed while it writes the profiles
        folder.mkdir()
    assert tree(kernel) != before
    outcome = restore_machine(path, files=kernel)
    assert len(outcome.restored) == 3
    assert not outcome.changed_by_others
    assert not outcome.failed
    assert tree(kernel) == before
    assert child.wait() == -signal.SIGKILL
    assert other.exists()
    assert not half.exists()
    again = restore_machine(path, files=kernel)
    assert again.restored == again.changed_by_others == again.failed == []


@pytest.mark.parametrize(
    ("event", "path"),
    [
        ("set", "/etc/hostname"),
        ("set", "/proc/sys/kernel/core_pattern"),
        ("set", f"{CPU}/../../../kernel/uevent_helper"),
        ("make", "/sys/fs/resctrl/another"),
        ("make", "relative"),
    ],
)
def test_a_forged_journal_changes_nothing(kernel, left, event, path):
    journal = SweepJournal(left(), new=False)
    change = {"reading": "plain", "before": "evil", "wrote": "same"} if event == "set" else {}
    if event == "set":
        kernel.put(path, "same\n")
    journal.append({"event": event, "path": path, **change})
    journal.close()
    before = tree(kernel)
    with pytest.raises(ProfileError, match=r"is no setting that a sweep changes; nothing was rest"):
        restore_machine(journal.path, files=kernel)
    assert tree(kernel) == before


def test_others_changes_are_left_alone_by_name(kernel, left):
    path = left()
    kernel.write(MAX, "1600000")
    outcome = restore_machine(path, files=kernel)
    assert MAX in outcome.changed_by_others[0]
    assert kernel.read(MAX) == "1600000\n"
    assert not restore_machine(path, files=kernel).changed_by_others  # said once


def test_a_machine_that_was_started_anew_has_nothing_of_it(kernel, left):
    """The same value may be somebody's: it is not touched."""
    path = left(boot="another start")
    outcome = restore_machine(path, files=kernel)
    assert outcome.restored == outcome.changed_by_others == outcome.failed == []
    assert kernel.read(MAX) == "1200000\n"


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(ProfileError, match="no record of a sweep"):
        restore_machine(tmp_path / "x")


@pytest.mark.parametrize("others", [0, 1])
def test_signals_wait_until_the_machine_is_as_it_was(others):
    done = False
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(others)]
    for thread in threads:
        thread.start()

    def work():
        nonlocal done
        with deferred_signals():
            os.kill(os.getpid(), signal.SIGINT)
            done = True

    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        end.set()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_hangups_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with sighup_handled_by(signal.default_int_handler):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
