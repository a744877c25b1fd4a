"""Settings of the program's own process: told at its start, or set on the waiting process."""

import os
import subprocess

import pytest

from msbgen.sources.measure.actuators.actuator import Capability, SettingError, Usage
from msbgen.sources.measure.actuators.program import Cores, Priority, ProgramInput

THREADS = Capability("number of threads", 1.0, 2.0, 1.0, ())


@pytest.fixture
def child():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_a_level_is_what_the_next_program_is_told():
    threads = ProgramInput("threads", THREADS)
    assert threads.read() == 2.0
    threads.apply(1.0)
    assert threads.read() == threads.achieved(Usage(1.0, 0.5)) == 1.0


def test_more_threads_than_cores_and_halves_are_refused_with_the_range():
    level_problems = THREADS.level_problems("threads", [1, 2, 3, 1.5], "1")
    assert len(level_problems) == 2
    assert "threads is 3 1; this machine's number of threads takes 1 to 2." in level_problems
    assert "rounded to 2" in level_problems[1]


def test_a_process_runs_on_the_cores_of_its_level(child):
    ours = sorted(os.sched_getaffinity(0))
    cores = Cores("where", THREADS, {1.0: ours[:1], 2.0: ours, 3.0: [ours[0], 60_000]})
    for level, wanted in ((1.0, ours[:1]), (2.0, ours)):
        cores.apply(level)
        cores.place(child)
        assert os.sched_getaffinity(child) == set(wanted)
    cores.apply(3.0)
    with pytest.raises(SettingError, match=r"where \[\d+, 60000\] were set; list cores"):
        cores.place(child)


def test_a_process_has_the_nice_value_or_policy_of_its_level(child):
    nice = Priority("nice", ())
    nice.apply(7.0)
    nice.place(child)
    assert os.getpriority(os.PRIO_PROCESS, child) == 7
    policy = Priority("policy", ("batch", "idle"))
    for level, wanted in ((1.0, os.SCHED_BATCH), (2.0, os.SCHED_IDLE)):
        policy.apply(level)
        policy.place(child)
        assert os.sched_getscheduler(child) == wanted
    assert policy.read() == 2.0


def test_an_unknown_policy_or_nice_value_is_a_sentence():
    for label in ("fifo", "fifo:0", "fifo:100", "idle:1", "other"):
        (problem,) = Priority("p", (label,)).capability().problems
        assert f"policy '{label}' is unknown; batch, idle, fifo:1" in problem
    assert Priority("p", ("rr:99", "fifo:1")).capability().problems == ()
    assert len(Priority("p", ()).capability().level_problems("p", [-20, 19, 20, 0.5], "1")) == 2
