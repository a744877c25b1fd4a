"""One run: how it ends, whatever the program does; real processes under a fake kernel."""

import os
import time

import pytest

from fake_kernel import RESCTRL
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.executor import (
    FAILED,
    NOT_RECORDED,
    TIMED_OUT,
    RunExecutor,
    describe_failure,
    digest_of,
)
from msbgen.sources.measure.sweep.journal import CUT, DONE
from msbgen.sources.measure.sweep.order import Slot
from msbgen.sources.measure.sweep.process import tagged_processes
from sweeping import machine, needs_perf, processes, spec, tree

pytestmark = needs_perf
SLOT = Slot(0, (4.0,), 1)
TAG = f"run-{os.getpid()}"


@pytest.fixture
def kernel(tmp_path):
    return machine(tmp_path)


@pytest.fixture
def made(kernel, tmp_path):
    """Makes one run of a program; gives its record, and checks that nothing is left of it."""

    def made(*command, slot=SLOT, **given):
        one = spec(*command, **given)
        settings = KernelSettings(kernel, lambda record: None)
        actuators = make_actuators(one, settings, "msbgen-run")
        folder = tmp_path / "recordings"
        folder.mkdir(exist_ok=True)
        before, cores = tree(kernel), os.sched_getaffinity(0)
        with RunExecutor(one, folder, TAG, settings, actuators) as here:
            record = here.run(slot, 0)
            assert not tagged_processes(TAG)
        assert tree(kernel) == before
        assert os.sched_getaffinity(0) == cores
        assert not list(folder.glob("*.err"))
        assert not list(folder.glob("*.perf"))
        return record

    return made


def test_a_run_has_times_counts_and_what_was_achieved(made, tmp_path):
    record = made()
    assert record["outcome"] == DONE
    assert 0 < record["cpu"] <= record["wall"] + 0.01
    assert record["achieved"] == {"cache_ways": 4.0}
    assert record["load"] >= 0
    assert 0 <= record["steal"] < 1
    path = tmp_path / "recordings" / record["recording"]
    assert digest_of(path) == record["digest"]


def test_the_program_ran_where_and_with_what_it_should(made, tmp_path, kernel):
    out = tmp_path / "out"
    core = min(os.sched_getaffinity(0))
    script = f"taskset -cp $$ > {out}; cp {kernel.at(RESCTRL)}/msbgen-run/* {tmp_path}"
    record = made("/bin/sh", "-c", script, cores=(core,))
    assert record["outcome"] == DONE
    assert out.read_text().endswith(f": {core}\n")
    assert "L3:0=f;1=f" in (tmp_path / "schemata").read_text()
    assert (tmp_path / "tasks").read_text().split()  # it was there while it ran


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'bad input: x' >&2; exit 7", "exited with 7; its message: bad input: x"),
        ("kill -SEGV $$", "was ended by SIGSEGV"),
    ],
)
def test_a_run_that_failed_says_how(made, script, why):
    record = made("/bin/sh", "-c", script)
    assert (record["outcome"], record["why"]) == (FAILED, why)
    assert describe_failure(spec(), record) == f"run 1 of context cache_ways=4: {why}."


def test_a_run_that_hangs_is_ended_in_time(made):
    start = time.monotonic()
    record = made(
        "/bin/sh", "-c", "trap '' TERM INT HUP; while :; do sleep 67.25; done", timeout=0.3
    )
    assert time.monotonic() - start < 5
    assert record["outcome"] == TIMED_OUT
    assert "did not end within 0.3 s" in record["why"]
    assert not processes("67.25")


def test_a_run_that_is_cut_is_kept_until_then_where_the_spec_says_so(made, tmp_path):
    busy = "while :; do :; done"
    record = made("/bin/sh", "-c", busy, timeout=0.2, keep_cut=True)
    assert record["outcome"] == CUT
    assert 0.2 <= record["wall"] < 1
    assert digest_of(tmp_path / "recordings" / record["recording"]) == record["digest"]
    assert made("/bin/sh", "-c", "exit 7", keep_cut=True)["outcome"] == FAILED


def test_children_that_outlive_their_program_are_ended(made):
    script = "sleep 68.25 & setsid sleep 68.25 & (setsid env -i sleep 68.25 &) ; sleep 0.05"
    record = made("/bin/sh", "-c", script)
    assert record["outcome"] == DONE
    assert not processes("68.25")


def test_forked_children_count_with_their_program(made):
    """perf counts those that it started, and wait4 those that it waited for."""
    # long beside the start of perf and of a shell, which both runs pay once
    busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    scripts = busy, f"({busy}) & ({busy}) & wait"
    # least of three in turn: the speed of a shared machine varies
    runs = [[made("/bin/sh", "-c", script)["cpu"] for script in scripts] for _ in range(3)]
    alone, both = map(min, zip(*runs))
    assert both > 1.3 * alone


def test_a_run_without_counts_is_silent(made, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "perf"
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    fake.write_text("#!/bin/sh\necho 'perf has a bad day.' >&2\nexit 1\n")
    fake.chmod(0o755)
    record = made()
    assert (record["outcome"], record["why"]) == (NOT_RECORDED, "perf has a bad day")
