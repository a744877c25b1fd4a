"""Makespan and slowdown of schedules worked by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machines import made_queue
from msbgen.core.errors import ArgumentError
from msbgen.machines import queue


def test_a_schedule_is_measured_as_by_hand():
    jobs = queue.make_jobs([100, 100], [1, 1], [[40, 4], [50, 100]])
    schedule = queue.Schedule(np.array([100.0, 140]), np.array([140.0, 190]), np.array([0, 0]))
    machines = {"a": 1, "b": 1}
    assert queue.makespan(jobs, schedule) == 90
    assert queue.bounded_slowdown(jobs, schedule).tolist() == [1, 90 / 50]
    # 4 s on b count as 10
    assert queue.slowdown_against_fastest(jobs, schedule, machines).tolist() == [4, 90 / 50]
    assert queue.bounded_slowdown(jobs, schedule, tau=45).tolist() == [1, 90 / 50]
    assert queue.bounded_slowdown(jobs, schedule, tau=1000).tolist() == [1, 1]


def test_a_machine_without_room_is_no_fastest_one():
    jobs = queue.make_jobs([0], [3], [[40, 20]])
    schedule = queue.Schedule(np.array([0.0]), np.array([40.0]), np.array([0]))
    assert queue.slowdown_against_fastest(jobs, schedule, {"a": 3, "b": 2}).tolist() == [1]
    assert queue.slowdown_against_fastest(jobs, schedule, {"a": 3, "b": 3}).tolist() == [2]


@pytest.mark.parametrize("tau", [0, -1, np.inf, np.nan])
def test_no_bound_of_short_runs_is_refused(tau):
    jobs = queue.make_jobs([0], [1], [[1]])
    with pytest.raises(ArgumentError, match=r"tau is .*; a positive number of seconds"):
        queue.bounded_slowdown(jobs, queue.simulate_queue(jobs, {"a": 1}), tau=tau)


@given(st.integers(0, 2**32 - 1), st.sampled_from(queue.PLACEMENTS))
@settings(max_examples=25)
def test_the_fastest_machine_is_the_harder_measure_and_units_of_time_do_not_matter(seed, placement):
    jobs, machines = made_queue(seed)
    schedule = queue.simulate_queue(jobs, machines, placement=placement)
    slowdown = queue.bounded_slowdown(jobs, schedule)
    assert (slowdown >= 1).all()
    waited = queue.bounded_slowdown(jobs, schedule, tau=1e-9)
    hard = queue.slowdown_against_fastest(jobs, schedule, machines, tau=1e-9)
    assert (hard >= waited * (1 - 1e-12)).all()
    times = {"submission": 8 * jobs.submission, "runtime": 8 * jobs.runtime}
    scaled = replace(jobs, **times, estimate=8 * jobs.estimate)
    slower = queue.simulate_queue(scaled, machines, placement=placement)
    np.testing.assert_array_equal(slower.machine, schedule.machine)
    scaled_slowdown = queue.bounded_slowdown(scaled, slower, tau=80)
    np.testing.assert_allclose(scaled_slowdown, slowdown, rtol=1e-9)
