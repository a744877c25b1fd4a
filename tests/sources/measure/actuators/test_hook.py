"""Hooks: executables that read and set a level; restored from the journal, also after a kill."""

import os
import signal

import pytest

from forks import forked, status_of
from msbgen.sources.measure.actuators import kernel_files
from msbgen.sources.measure.actuators.actuator import SettingError
from msbgen.sources.measure.actuators.hook import Hook
from msbgen.sources.measure.actuators.kernel_files import DryRunFiles, SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.journal import SweepJournal
from msbgen.sources.measure.sweep.restore import boot_id, restore_machine
from sweeping import HEAD

SCRIPT = """#!/bin/sh
cd "$(dirname "$0")"
case "$1" in
levels) echo 900 1200; echo 1500 ;;
read) cat level ;;
set) {set} ;;
esac
"""
TEXTS = {900.0: "900", 1500.0: "1500"}


@pytest.fixture
def hook(tmp_path):
    def write(setting='echo "$2" > level'):
        path = tmp_path / "gpu"
        path.write_text(SCRIPT.format(set=setting))
        path.chmod(0o755)
        (tmp_path / "level").write_text("default\n")
        return path

    return write


def actuator(path, files=None, log=lambda record: None, texts=TEXTS):
    return Hook("clock", KernelSettings(files or SystemFiles(), log), str(path), texts, "MHz")


def level(path):
    return (path.parent / "level").read_text()


def test_a_level_is_set_read_back_and_restored(hook):
    path = hook()
    clock = actuator(path)
    assert clock.capability().problems == ()
    clock.apply(900.0)
    assert (level(path), clock.read()) == ("900\n", 900.0)
    clock.apply(1500.0)
    report = clock.settings.restore()
    assert level(path) == "default\n"
    assert report.restored == [f"hook:{path} is 'default' again."]


def test_a_level_that_the_hook_does_not_list_is_refused(hook):
    (problem,) = actuator(hook(), texts={900.0: "900.0", 1.0: "fast"}).capability().problems
    assert "clock is 'fast', which" in problem
    assert "('900 1200 1500')" in problem


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("echo busy >&2; exit 3", "exited with 3: 'busy'; correct the hook"),
        ("echo 850 > level", "is '850' where .* set '900'"),
        ("sleep 60", "did not end within 0.2 s"),
    ],
)
def test_a_hook_that_fails_is_quoted(hook, monkeypatch, setting, message):
    monkeypatch.setattr(kernel_files, "_HOOK_TIMEOUT", 0.2)
    with pytest.raises(SettingError, match=message):
        actuator(hook(setting)).apply(900.0)
    gone = actuator(hook().with_name("none"))
    assert "does not start" in gone.capability().problems[0]


def test_a_dry_run_lists_its_commands(hook):
    path = hook()
    files = DryRunFiles(SystemFiles())
    clock = actuator(path, files)
    clock.apply(900.0)
    clock.settings.restore()
    assert files.commands == [f"{path} set 900", f"{path} set default"]
    assert level(path) == "default\n"


@pytest.mark.parametrize("boot", [boot_id(), "another"])  # other machines survive our reboot
def test_after_a_kill_the_journal_restores_it(hook, tmp_path, boot):
    path, file = hook(), tmp_path / "out.journal"

    def work():
        journal = SweepJournal(file, new=True)
        journal.append({**HEAD, "boot": boot, "tag": f"{os.getpid():016x}"})
        actuator(path, log=journal.append).apply(900.0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert status_of(forked(work)) == -signal.SIGKILL
    assert level(path) == "900\n"
    assert not restore_machine(file, [str(path)]).failed
    assert level(path) == "default\n"
    assert restore_machine(file, [str(path)]).restored == []


def test_a_level_that_somebody_else_set_is_left_alone(hook):
    path = hook()
    clock = actuator(path)
    clock.apply(900.0)
    (path.parent / "level").write_text("1200\n")
    assert len(clock.settings.restore().changed_by_others) == 1
    assert level(path) == "1200\n"
