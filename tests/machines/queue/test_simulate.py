"""The scheduler beside a slow oracle, beside cases worked by hand, and theorems about it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import queues
from machines import made_queue, queue_of
from msbgen.core.errors import ArgumentError
from msbgen.machines import queue

EVERY = list(itertools.product(queue.PLACEMENTS, queue.QUEUES))
INFORMED = ("aware", "completion", "greedy")
SEEDS = st.integers(0, 2**32 - 1)


def test_every_start_is_that_of_the_oracle():
    waited = backfilled = 0
    for seed in range(400):
        arrays = queues.instance(seed, most=20)
        jobs, machines = queue_of(arrays)
        drawn = np.empty(len(jobs))
        order = np.argsort(jobs.submission, kind="stable")
        drawn[order] = np.random.default_rng(7).random(len(jobs))
        for placement, form in EVERY:
            found = queue.simulate_queue(jobs, machines, placement=placement, queue=form, rng=7)
            oracle = queues.play(*arrays, placement=placement, queue=form, drawn=drawn)
            start, machine = oracle.start, oracle.machine
            assert found.start.tolist() == [start[j] for j in range(len(jobs))], (seed, placement)
            assert found.machine.tolist() == [machine[j] for j in range(len(jobs))]
            waited += len(oracle.promises)
            for head in oracle.promises:
                behind = jobs.submission > jobs.submission[head]
                backfilled += bool((found.start[behind] < found.start[head]).any())
    assert waited > 4000  # there are reservations
    assert backfilled > 1200  # and jobs that start before the head


# --------------------------------------------------------------------------- worked by hand

# A machine of three nodes runs job 0 on two of them until 10.  Job 1 wants all and is promised 10.
# Job 2 would take 12 s and waits; job 3 is over at 10 and starts at once.
EASY = {"submission": [0, 1, 2, 3], "nodes": [2, 3, 1, 1], "runtime": [[10], [5], [12], [7]]}


@pytest.mark.parametrize("form", queue.QUEUES)
def test_a_job_starts_only_where_it_does_not_delay_the_head(form):
    found = queue.simulate_queue(queue.make_jobs(**EASY), {"m": 3}, queue=form)
    assert found.start.tolist() == [0, 10, 15, 3]
    assert found.end.tolist() == [10, 15, 27, 10]


@pytest.mark.parametrize("form", queue.QUEUES)
def test_a_job_that_leaves_the_head_enough_nodes_starts_however_long_it_takes(form):
    jobs = queue.make_jobs([0, 1, 2, 3], [2, 2, 1, 1], [[10], [5], [100], [100]])
    found = queue.simulate_queue(jobs, {"m": 3}, queue=form)
    assert found.start.tolist() == [0, 10, 2, 15]  # one node is left over at 10, not two


@pytest.mark.parametrize("form", queue.QUEUES)
def test_an_estimate_that_ran_out_ends_now(form):
    # job 0 is estimated to end at 5 and lasts until 20: from 5 on, the head's reservation is now,
    # so that job 2, of one second, never fits before it
    jobs = queue.make_jobs([0, 1, 6], [2, 3, 1], [[20], [5], [1]], estimate=[[5], [5], [1]])
    found = queue.simulate_queue(jobs, {"m": 3}, queue=form)
    assert found.start.tolist() == [0, 20, 25]
    # before 5 it does fit
    early = jobs.submitted([0, 1, 4])
    assert queue.simulate_queue(early, {"m": 3}, queue=form).start.tolist() == [0, 20, 4]


def placed(placement, form="machine", **given):
    jobs = queue.make_jobs(given.pop("submission"), given.pop("nodes"), **given)
    return queue.simulate_queue(jobs, {"a": 2, "b": 2}, placement=placement, queue=form)


def test_the_wait_lasts_until_there_is_room_for_all_ahead_or_the_mean_work_left():
    # `a` runs two jobs of one node until 8 and 20; two nodes are free there at 20, one at 8
    ahead = {"submission": [0, 0], "nodes": [1, 1], "runtime": [[8, 99], [20, 99]]}
    for nodes, b, machine in (
        (1, 11.9, 1),  # 8 + 4 on a
        (1, 12.1, 0),
        (2, 17.9, 1),  # two nodes at 20, but on average 14 s are left: 14 + 4
        (2, 18.1, 0),
    ):
        last = {"submission": 0, "nodes": nodes, "runtime": [4, b]}
        new = {name: [*values, last[name]] for name, values in ahead.items()}
        assert placed("completion", **new).machine.tolist() == [0, 0, machine]


def test_aware_weighs_the_completion_by_the_root_of_the_time():
    # on a after a wait of 10: (10 + 4) √4 = 28; on b at once: t √t = 28 at t = 9.22
    for b, machine in ((9.2, 1), (9.3, 0)):
        new = {"submission": [0, 0], "nodes": [2, 1], "runtime": [[10, 99], [4, b]]}
        assert placed("aware", **new).machine.tolist() == [0, machine]
        assert placed("completion", **new).machine.tolist() == [0, 1]


@pytest.mark.parametrize("form", queue.QUEUES)
def test_greedy_takes_the_fastest_with_room_and_waits_for_the_fastest_of_all(form):
    new = {"submission": [0, 1, 2, 3], "nodes": [2, 2, 1, 2], "runtime": [[5, 9]] * 4}
    found = placed("greedy", form, **new)
    # both are full at 2, and a, the faster, has room first
    assert found.machine.tolist() == [0, 1, 0, 0]
    assert found.start.tolist() == [0, 1, 5, 10]


def test_one_queue_asks_greedy_again_when_a_machine_is_free():
    new = {"submission": [0, 1, 2], "nodes": [2, 2, 2], "runtime": [[9, 99], [99, 3], [5, 6]]}
    assert placed("greedy", "machine", **new).machine.tolist() == [0, 1, 0]
    found = placed("greedy", "one", **new)
    assert found.machine.tolist() == [0, 1, 1]
    assert found.start.tolist() == [0, 1, 4]


def test_turns_are_taken_on_submission_or_on_start():
    new = {"submission": [0, 1, 2, 3], "nodes": [2, 2, 2, 2],
           "runtime": [[10, 10], [4, 4], [1, 1], [1, 1]]}  # fmt: skip
    assert placed("round_robin", "machine", **new).machine.tolist() == [0, 1, 0, 1]
    # job 2 is promised a; job 3 has the turn of b, which is free at 5
    found = placed("round_robin", "one", **new)
    assert found.machine.tolist() == [0, 1, 0, 1]
    assert found.start.tolist() == [0, 1, 10, 5]


def test_users_take_turns_among_the_machines_that_suit_them():
    jobs = queue.make_jobs(
        np.arange(6), np.ones(6), np.ones((6, 3)), suits=[[1, 1, 0], [0, 0, 1]] * 3
    )
    found = queue.simulate_queue(jobs, {"a": 9, "b": 9, "c": 9}, placement="user")
    assert found.machine.tolist() == [0, 2, 1, 2, 0, 2]


# --------------------------------------------------------------------------- theorems


@given(SEEDS, st.sampled_from(EVERY))
def test_nodes_are_never_oversubscribed_and_no_job_starts_early(seed, how):
    jobs, machines = made_queue(seed)
    found = queue.simulate_queue(jobs, machines, placement=how[0], queue=how[1])
    assert (found.start >= jobs.submission).all()
    rows = np.arange(len(jobs))
    np.testing.assert_array_equal(found.end, found.start + jobs.runtime[rows, found.machine])
    for machine, size in enumerate(machines.values()):
        here = found.machine == machine
        for moment in found.start[here]:
            holds = here & (found.start <= moment) & (found.end > moment)
            assert jobs.nodes[holds].sum() <= size


@given(SEEDS, st.sampled_from(queue.PLACEMENTS))
@settings(max_examples=100)
def test_no_promise_is_broken_where_estimates_are_right(seed, placement):
    """From schedules alone, a queue a machine: the head starts at its reservation.

    A job heads its machine's queue once all earlier jobs have started.  Earlier jobs, and jobs that
    started before then, hold nodes until they end; no other job may delay the head.
    """
    submission, nodes, runtime, _, suits, sizes = queues.instance(2 * (seed // 2))  # no ties
    submission = submission + np.random.default_rng(seed).random(len(submission)) * 1e-3
    jobs, machines = queue_of((submission, nodes, runtime, runtime, suits, sizes))
    found = queue.simulate_queue(jobs, machines, placement=placement)
    for job in range(len(jobs)):
        here = found.machine == found.machine[job]
        before = here & (jobs.submission < jobs.submission[job])
        heads = max(jobs.submission[job], found.start[before].max(initial=-np.inf))
        if found.start[job] <= heads:
            continue
        ahead = before | (here & (found.start < heads))
        ahead &= found.end > heads
        size = list(machines.values())[found.machine[job]]
        for moment in sorted(found.end[ahead]):
            if jobs.nodes[ahead & (found.end > moment)].sum() + jobs.nodes[job] <= size:
                assert found.start[job] <= moment
                break
        else:
            raise AssertionError("no start fits")


@given(SEEDS, st.sampled_from(EVERY))
def test_the_oracles_promises_are_kept_in_every_form(seed, how):
    submission, nodes, runtime, _, suits, sizes = queues.instance(seed)
    drawn = np.random.default_rng(0).random(len(submission))
    oracle = queues.play(
        submission, nodes, runtime, runtime, suits, sizes,
        placement=how[0], queue=how[1], drawn=drawn,
    )  # fmt: skip
    assert all(oracle.start[job] <= moment for job, moment in oracle.promises.items())


@given(SEEDS, st.sampled_from(INFORMED), st.sampled_from(queue.QUEUES), st.randoms())
def test_machines_in_another_order_give_the_same_schedule_renamed(seed, placement, form, random):
    submission, nodes, runtime, estimate, suits, sizes = queues.instance(2 * (seed // 2))
    order = random.sample(range(len(sizes)), len(sizes))
    found, renamed = (
        queue.simulate_queue(*queue_of(arrays), placement=placement, queue=form)
        for arrays in (
            (submission, nodes, runtime, estimate, suits, sizes),
            (submission, nodes, runtime[:, order], estimate[:, order], suits[:, order],
             sizes[order]),
        )
    )  # fmt: skip
    np.testing.assert_array_equal(found.start, renamed.start)
    np.testing.assert_array_equal(found.machine, np.array(order)[renamed.machine])


@given(SEEDS, st.sampled_from(EVERY), st.integers(0, 1000))
def test_equal_seeds_give_equal_bits(seed, how, rng):
    jobs, machines = made_queue(seed)
    found = [
        queue.simulate_queue(jobs, machines, placement=how[0], queue=how[1], rng=drawn)
        for drawn in (rng, rng, np.random.default_rng(rng))
    ]
    assert len({(f.start.tobytes(), f.end.tobytes(), f.machine.tobytes()) for f in found}) == 1


def test_random_placements_are_even_and_depend_on_the_seed():
    jobs = queue.make_jobs(np.arange(4000), np.ones(4000), np.ones((4000, 4)))
    machines = dict.fromkeys("abcd", 10)
    first, other = (
        queue.simulate_queue(jobs, machines, placement="random", rng=rng).machine for rng in (0, 1)
    )
    assert np.bincount(first).min() > 900
    assert (first != other).mean() > 0.7


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"placement": "awere"}, "placement is 'awere'; aware, .*; did you mean 'aware'"),
        ({"placement": "x" * 9}, "placement is 'xxxxxxxxx'; aware, .*, random are possible"),
        ({"queue": "two"}, "queue is 'two'; machine, one are possible"),
        ({"machines": {"m": 2}}, "nodes of job 1 are 3, and no machine on which it runs has more"),
        ({"machines": {"m": 3, "n": 1}}, "machines are 2; the 1 that the jobs have times of"),
        ({"machines": {"m": 2.5}}, "nodes of machine 'm' are 2.5; a whole number"),
    ],
)
def test_arguments_out_of_range_are_refused(given, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        queue.simulate_queue(
            queue.make_jobs(**EASY),
            **{"machines": {"m": 3}, **given},  # type: ignore[arg-type]
        )


def test_a_user_of_machines_that_are_too_small_is_refused():
    jobs = queue.make_jobs([0], [5], [[1, 1]], suits=[[True, False]])
    machines = {"small": 4, "large": 5}
    assert queue.simulate_queue(jobs, machines).machine.tolist() == [1]
    with pytest.raises(ArgumentError, match="job 0 may use only machines that are too small"):
        queue.simulate_queue(jobs, machines, placement="user")
