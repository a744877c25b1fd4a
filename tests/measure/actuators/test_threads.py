"""Threads are told, and refused beyond the cores."""

from msbgen.measure.actuators.actuator import Usage
from msbgen.measure.actuators.threads import Threads


def test_a_level_is_what_the_next_program_is_told():
    threads = Threads("threads", [0, 3])
    assert threads.read() == 2.0
    threads.apply(1.0)
    assert threads.read() == threads.achieved(Usage(1.0, 0.5)) == 1.0


def test_more_threads_than_cores_and_halves_are_refused_with_the_range():
    level_problems = (
        Threads("threads", [0, 3]).capability().level_problems("threads", [1, 2, 3, 1.5], "1")
    )
    assert len(level_problems) == 2
    assert "threads is 3 1; this machine's number of threads takes 1 to 2." in level_problems
    assert "rounded to 2" in level_problems[1]
