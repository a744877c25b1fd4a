"""Changes are noted before they are made, and taken back as far as they are ours."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fake_kernel import CGROUP, CPU, MEMGUARD, FakeKernel
from msbgen.sources.measure.actuators.kernel_files import SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import (
    NORMALISERS,
    KernelSettings,
    kill_group,
    pending_changes,
    undo_changes,
)

MIN, MAX = (f"{CPU}/cpu0/cpufreq/scaling_{end}_freq" for end in ("min", "max"))


@pytest.fixture
def kernel(tmp_path):
    return FakeKernel(tmp_path / "kernel").with_cpufreq().with_memguard().with_cgroup(1)


class Log(list):
    """A journal that can be asked what it held when a file was written."""

    def __call__(self, record):
        self.append(dict(record))


def test_a_change_is_noted_before_the_kernel_hears_of_it(kernel):
    def refuse(record):
        raise OSError(28, "No space left on device")

    changes = KernelSettings(kernel, refuse)
    with pytest.raises(OSError, match="No space"):
        changes.write(MAX, "1200000")
    assert kernel.read(MAX) == "3000000\n"
    with pytest.raises(OSError, match="No space"):
        changes.make(f"{CGROUP}/cpu/user/g")
    assert not kernel.exists(f"{CGROUP}/cpu/user/g")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([800, 1200, 1600, 2400, 3000]), min_size=2, max_size=6))
def test_whatever_was_set_is_as_before_after_a_crash(kernel, clocks):
    """From the journal alone, in another process's place, after any number of changes."""
    kernel.write(MAX, "2400000")
    log = Log()
    changes = KernelSettings(kernel, log)
    for clock in clocks:
        up = 1000 * clock > int(kernel.read(MAX))
        for path in (MAX, MIN) if up else (MIN, MAX):
            changes.write(path, str(1000 * clock))
    outcome = undo_changes(FakeKernel(kernel.root), pending_changes(log))
    assert not outcome.failed
    assert (kernel.read(MIN), kernel.read(MAX)) == ("800000\n", "2400000\n")


def test_what_somebody_else_has_changed_is_named_and_left_alone(kernel):
    changes = KernelSettings(kernel, Log())
    changes.write(MAX, "2400000")
    kernel.write(MAX, "1600000")
    (sentence,) = changes.restore().changed_by_others
    assert MAX in sentence
    assert "'1600000'" in sentence
    assert kernel.read(MAX) == "1600000\n"


def test_a_change_that_was_noted_but_never_made_needs_no_mending(kernel):
    record = {"event": "set", "path": MAX, "reading": "plain", "before": "3000000", "wrote": "1"}
    outcome = undo_changes(kernel, [record, {"event": "make", "path": f"{CGROUP}/cpu/user/none"}])
    assert outcome.restored == outcome.changed_by_others == outcome.failed == []


def test_a_value_that_cannot_be_put_back_is_said_with_the_command_that_would(kernel):
    changes = KernelSettings(kernel, Log())
    changes.write(MAX, "1200000")
    kernel.deny(CPU)
    (sentence,) = changes.restore().failed
    assert sentence.endswith(f"do it by hand: echo '3000000' > {MAX}")
    kernel.know(denied=[])
    assert not changes.restore().failed  # nothing was forgotten
    assert kernel.read(MAX) == "3000000\n"


def test_a_file_that_is_gone_is_nobodys_failure(kernel):
    changes = KernelSettings(kernel, Log())
    changes.write(MAX, "1200000")
    kernel.at(MAX).unlink()
    outcome = changes.restore()
    assert not outcome.failed
    assert "is no more" in outcome.changed_by_others[0]


def test_what_the_kernel_made_of_a_value_counts_as_ours(kernel):
    log = Log()
    changes = KernelSettings(kernel, log)
    assert changes.write(MAX, "9000000") == "3000000"  # clamped by the hardware's limit
    changes.write(MIN, "2000000")
    assert changes.write(MAX, "2100000") == "2400000"  # the table's next
    assert {"event": "read", "path": MAX, "after": "2400000"} in log
    assert not changes.restore().changed_by_others
    assert (kernel.read(MIN), kernel.read(MAX)) == ("800000\n", "3000000\n")


def test_what_is_in_a_group_of_ours_is_not_noted(kernel):
    log = Log()
    changes = KernelSettings(kernel, log)
    changes.make(f"{CGROUP}/cpu/user/g")
    changes.write(f"{CGROUP}/cpu/user/g/cpu.cfs_quota_us", "5000")
    assert [record["event"] for record in log] == ["make"]
    changes.write(f"{CGROUP}/cpu/user/cpu.cfs_quota_us", "50000")  # another's
    assert [record["event"] for record in log] == ["make", "set"]


def test_a_group_that_could_not_be_made_is_not_removed(kernel):
    group = f"{CGROUP}/cpu/user/g"
    kernel.make(group)  # somebody's
    log = Log()
    with pytest.raises(FileExistsError):
        KernelSettings(kernel, log).make(group)
    undo_changes(kernel, pending_changes(log))
    assert kernel.exists(group)


def test_only_changes_since_the_last_restoration_are_pending(kernel):
    log = Log()
    changes = KernelSettings(kernel, log)
    changes.write(MAX, "1200000")
    changes.restore()
    assert pending_changes(log) == []
    changes.write(MAX, "1600000")
    log({"event": "run", "number": 3})
    assert [record["wrote"] for record in pending_changes(log)] == ["1600000"]


def test_the_process_number_of_nobody_kills_nobody(tmp_path):
    """Groups show 0 for processes of other containers; kill(0) would be our own group."""
    (tmp_path / "cgroup.procs").write_text("0\n")
    assert kill_group(SystemFiles(), str(tmp_path)) == 0
    assert os.getpid()


def test_readings_are_what_would_be_written(kernel):
    limits = f"{MEMGUARD}/read_limit"
    kernel.write(limits, "mb 500 600 700 800\n")
    assert NORMALISERS["memguard"](kernel.read(limits)) == "mb 500 600 700 800"
    assert NORMALISERS["memguard"]("mb 1 2\n") == "mb 1 2"
    assert (
        NORMALISERS["controller"]("cpuset cpu io\n") == NORMALISERS["controller"]("+cpu") == "+cpu"
    )
    assert NORMALISERS["controller"]("io\n") == NORMALISERS["controller"]("-cpu") == "-cpu"
    assert NORMALISERS["plain"]("max  100000\n") == "max 100000"
