"""Makespan and slowdown of schedules worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import queues
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
def test_the_fastest_machine_is_the_harder_measure(seed, placement):
    submission, nodes, runtime, estimate, suits, sizes = queues.instance(seed)
    jobs = queue.make_jobs(submission, nodes, runtime, estimate=estimate, suits=suits)
    machines = {str(i): int(n) for i, n in enumerate(sizes)}
    schedule = queue.simulate_queue(jobs, machines, placement=placement)
    own = queue.bounded_slowdown(jobs, schedule)
    assert (own >= 1).all()
    waited = queue.bounded_slowdown(jobs, schedule, tau=1e-9)
    hard = queue.slowdown_against_fastest(jobs, schedule, machines, tau=1e-9)
    assert (hard >= waited * (1 - 1e-12)).all()
    scaled = queue.make_jobs(8 * submission, nodes, 8 * runtime, estimate=8 * estimate, suits=suits)
    slower = queue.simulate_queue(scaled, machines, placement=placement)
    np.testing.assert_allclose(
        queue.bounded_slowdown(scaled, slower, tau=80), own, rtol=1e-9
    )  # units of time do not matter


def test_units_of_time_change_no_machine():
    submission, nodes, runtime, estimate, suits, sizes = queues.instance(4)
    machines = {str(i): int(n) for i, n in enumerate(sizes)}
    found = [
        queue.simulate_queue(
            queue.make_jobs(f * submission, nodes, f * runtime, estimate=f * estimate, suits=suits),
            machines,
        ).machine.tolist()
        for f in (1, 16)
    ]
    assert found[0] == found[1]
