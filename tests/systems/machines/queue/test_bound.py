"""The bound beside the linear programme written out, and below every schedule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import queues
from msbgen.core.errors import ArgumentError
from msbgen.systems.machines import queue

SEEDS = st.integers(0, 2**32 - 1)


def made(seed):
    *times, _, _, sizes = queues.instance(seed, most=12)
    return queue.make_jobs(*times), {str(i): int(n) for i, n in enumerate(sizes)}


def written_out(jobs, sizes):
    """Optimum with a variable for every job and machine, and one for the span."""
    n, m = jobs.runtime.shape
    work, one = np.zeros((m, n * m + 1)), np.zeros((n, n * m + 1))
    upper = np.ones(n * m + 1)
    upper[-1] = np.inf
    for j in range(n):
        for k in range(m):
            runs = jobs.nodes[j] <= sizes[k] and jobs.runtime[j, k] == jobs.runtime[j, k]
            work[k, j * m + k] = jobs.nodes[j] * jobs.runtime[j, k] if runs else 0.0
            upper[j * m + k] = float(runs)
            one[j, j * m + k] = 1.0
    work[:, -1] = -np.asarray(sizes)
    cost = np.append(np.zeros(n * m), 1.0)
    bounds = [(0, u) for u in upper]
    return linprog(cost, work, np.zeros(m), one, np.ones(n), bounds).fun


@given(SEEDS)
@settings(max_examples=15)
def test_the_span_is_the_optimum_of_the_programme(seed):
    jobs, machines = made(seed)
    wanted = written_out(jobs, list(machines.values()))
    assert queue.least_span(jobs, machines) == pytest.approx(wanted, rel=1e-5)
    assert queue.least_span(jobs, machines) <= wanted * (1 + 1e-9)


@given(SEEDS, st.sampled_from(queue.PLACEMENTS), st.sampled_from(queue.QUEUES))
@settings(max_examples=6)
def test_no_schedule_is_shorter_than_the_bound(seed, placement, form):
    jobs, machines = made(seed)
    bound = queue.makespan_bound(jobs, machines)
    found = queue.simulate_queue(jobs, machines, placement=placement, queue=form)
    assert bound <= queue.makespan(jobs, found) * (1 + 1e-9)
    assert bound >= queue.least_span(jobs, machines) * (1 - 1e-9)


def test_jobs_that_come_late_and_long_jobs_raise_the_bound():
    machines = {"fast": 2, "slow": 2}
    jobs = queue.make_jobs([0] * 8, [1] * 8, [[2, 6]] * 8)
    assert queue.least_span(jobs, machines) == pytest.approx(6)  # two thirds at 2 s, a third at 6
    assert queue.makespan_bound(jobs, machines) == pytest.approx(6)
    late = queue.make_jobs([0] * 4 + [100] * 4, [1] * 8, [[2, 6]] * 8)
    # 103, were they cut; but on the slow machine none would be over before 106
    assert queue.makespan_bound(late, machines) == pytest.approx(104, rel=2e-3)
    # ten seconds on the fast machine, if only there: it cannot help itself to the slow one
    whole = queue.make_jobs([0, 0, 0], [2, 2, 2], [[10, 1000]] * 3)
    assert queue.least_span(whole, machines) == pytest.approx(30 * 1000 / 1010)
    assert queue.makespan_bound(whole, machines) == pytest.approx(30, rel=2e-3)


def test_an_even_mix_is_slower_than_the_optimum_by_what_placement_is_worth():
    jobs = queue.make_jobs([0] * 4, [1, 1, 2, 2], [[2, 6], [6, 2]] * 2)
    machines = {"a": 3, "b": 3}
    # 24 node-seconds on average machines of six nodes; half of it where each is fast
    assert queue.even_span(jobs, machines) == pytest.approx(4)
    assert queue.least_span(jobs, machines) == pytest.approx(2)
    # a job that runs on one machine only counts there
    alone = queue.make_jobs([0, 0], [1, 1], [[2, np.nan], [2, 4]])
    assert queue.even_span(alone, {"a": 1, "b": 1}) == pytest.approx(2 / (1 / 2 + 1 / 4))


@given(SEEDS)
@settings(max_examples=10)
def test_like_machines_are_filled_alike_by_every_placement(seed):
    rng = np.random.default_rng(seed)
    times = np.repeat(rng.random((9, 1)) + 0.1, 3, axis=1)
    jobs = queue.make_jobs(np.zeros(9), rng.integers(1, 4, 9), times)
    machines = {"a": 4, "b": 5, "c": 3}
    even = queue.even_span(jobs, machines)
    assert even == pytest.approx(queue.least_span(jobs, machines), rel=1e-5)


@given(SEEDS, st.floats(0.1, 3.0))
@settings(max_examples=10)
def test_a_load_is_the_share_of_the_machines_that_jobs_take(seed, load):
    jobs, machines = made(seed)
    if np.ptp(jobs.submission) == 0:
        with pytest.raises(ArgumentError, match="submissions are all at once"):
            queue.at_load(jobs, machines, load)
        return
    scaled = queue.at_load(jobs, machines, load)
    span = np.ptp(scaled.submission)
    assert queue.even_span(scaled, machines) / span == pytest.approx(load)
    gaps = (jobs.submission - jobs.submission.min()) / np.ptp(jobs.submission)
    np.testing.assert_allclose(scaled.submission, gaps * span, rtol=1e-9)


@pytest.mark.parametrize("load", ["x", None])
def test_loads_that_are_no_numbers_are_refused(load):
    with pytest.raises(ArgumentError, match=r"load is .*; a positive number is"):
        queue.at_load(queue.make_jobs([0, 1], [1, 1], [[1], [1]]), {"a": 1}, load)


@pytest.mark.parametrize("load", [0, -1, np.nan, np.inf])
def test_loads_out_of_range_are_refused(load):
    jobs = queue.make_jobs([0, 1], [1, 1], [[1], [1]])
    with pytest.raises(ArgumentError, match=r"load is .*; a positive number is wanted"):
        queue.at_load(jobs, {"a": 1}, load)
    with pytest.raises(ArgumentError, match=r"load is 1e-300, at which submissions last 2e\+300 s"):
        queue.at_load(jobs, {"a": 1}, 1e-300)


def test_times_that_no_solver_takes_have_a_bound_all_the_same():
    times = 1e-4 * np.tile([2.0, 9.0], (20, 1))
    times[17, 1] = 1e12
    jobs = queue.make_jobs(1e-4 * np.arange(20.0), np.ones(20), times)
    assert 30e-4 <= queue.makespan_bound(jobs, {"fast": 1, "slow": 1}) <= 36e-4
