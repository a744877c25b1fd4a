"""Pressure: stressors on another core, seen to press, and gone after each run."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from msbgen.sources.measure.actuators import stressor
from msbgen.sources.measure.actuators.actuator import SettingError, Usage
from msbgen.sources.measure.actuators.pressure import Companion, Pressure, Stressors
from msbgen.sources.measure.sweep.process import tagged_processes
from sweeping import await_that

OURS = sorted(os.sched_getaffinity(0))
TAG = f"pressure-{os.getpid()}"
two_cores = pytest.mark.skipif(len(OURS) < 2, reason="needs two cores")
USAGE = Usage(1.0, 1.0)


@pytest.fixture
def stressors():
    stressors = Stressors(OURS[:1], OURS[1:2], TAG)
    yield stressors
    stressors.end()
    assert not tagged_processes(TAG)


def test_a_streamer_changes_every_line_and_a_gatherer_reads_every_line():
    lines = np.zeros((64, 8), np.int64)[:, 0]
    work = stressor.streamer(lines, 24)
    assert [work() for _ in range(4)] == [24, 24, 16, 24]
    assert lines.tolist() == [2] * 24 + [1] * 40
    seen = set()

    class Noted(np.ndarray):
        def take(self, places, **more):  # pyright: ignore[reportIncompatibleMethodOverride]
            seen.update(places.tolist())

    work = stressor.gatherer(lines.view(Noted), 16)
    assert sum(work() for _ in range(64)) == 1024
    assert seen == set(range(64))


@two_cores
def test_a_stressor_presses_as_it_should_and_ends_with_the_run(stressors):
    speed = Pressure("speed", stressors, "bandwidth")
    size = Pressure("size", stressors, "working set")
    speed.apply(20.0)
    size.apply(0.125)
    for each in (speed, size):
        assert not each.capability().level_problems("r", [0.0, 20.0], "")
        each.place(0)
    (pid,) = tagged_processes(TAG)
    assert os.sched_getaffinity(pid) == {OURS[0]}
    speed.begin()
    await_that(lambda: stressors._speed() > 1.0)
    await_that(lambda: stressors._running[0].moved > 2 * 2**20)
    for each in (speed, size):
        each.end()
    assert not tagged_processes(TAG)
    assert 1.0 < speed.achieved(USAGE) < 23.0  # a busy machine makes it slower, never faster
    assert size.achieved(USAGE) == 0.125
    assert speed.failure() == ""
    assert (speed.units, speed.read(), size.units, size.read()) == ("MB s-1", 20.0, "MiB", 0.125)


def test_level_0_is_no_stressor(stressors):
    pressure = Pressure("p", stressors, "bandwidth")
    pressure.apply(0.0)
    pressure.place(0)
    assert not tagged_processes(TAG)
    pressure.begin()
    pressure.end()
    assert pressure.achieved(USAGE) == 0.0


@two_cores
def test_a_speed_that_cannot_be_reached_says_the_highest(stressors, monkeypatch):
    monkeypatch.setattr("msbgen.sources.measure.actuators.pressure._REACHED", 0.02)
    stressors.bandwidth, stressors.working_set = 9e5, 0.125
    with pytest.raises(SettingError, match=r"pressure is 900000 MB/s, and the stressor reaches \d"):
        stressors.start()
    assert not tagged_processes(TAG)


@two_cores
def test_a_stressor_that_is_killed_is_a_failure(stressors):
    pressure = Pressure("p", stressors, "working set")
    pressure.apply(0.125)
    pressure.place(0)
    (companion,) = stressors._running
    os.kill(companion.pid, signal.SIGKILL)
    await_that(lambda: not companion.runs)
    pressure.end()
    assert "was killed" in pressure.failure()
    pressure.apply(0.0)
    pressure.place(0)
    assert pressure.failure() == ""


def test_stressors_need_cores_of_their_own():
    for cores in ((), OURS[:1]):
        (problem,) = (
            Pressure("p", Stressors(cores, OURS[:1], TAG), "bandwidth").capability().problems
        )
        assert "p: pressure needs a core beside the program's" in problem
    (problem,) = Pressure("p", Stressors([9999], [0], TAG), "bandwidth").capability().problems
    assert "cores 9999 of the stressor are not available" in problem


def test_a_stressor_dies_with_its_parent():
    code = (
        "import sys; from msbgen.sources.measure.actuators.pressure import Companion;"
        f"c = Companion('stream', {OURS[0]}, 65536, 1e6, {TAG!r}); c.wait_until_ready();"
        "print('ready', flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    assert len(tagged_processes(TAG)) == 1
    parent.kill()
    parent.communicate()
    await_that(lambda: not tagged_processes(TAG))


def test_a_core_that_does_not_exist_is_a_sentence():
    companion = Companion("gather", 9999, 65536, 1e6, TAG)
    try:
        with pytest.raises(SettingError, match="cannot run on core 9999"):
            companion.wait_until_ready()
    finally:
        companion.stop()
    assert not tagged_processes(TAG)
