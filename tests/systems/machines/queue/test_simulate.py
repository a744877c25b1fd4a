"""The scheduler beside a slow oracle, beside cases worked by hand, and theorems about it."""

import itertools
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import queues
from forks import anew
from machines import made_queue, queue_of
from msbgen.core.errors import ArgumentError
from msbgen.systems.machines import queue
from msbgen.systems.machines.queue import _kernels

EVERY = list(itertools.product(queue.PLACEMENTS, queue.QUEUES))
SEEDS = st.integers(0, 2**32 - 1)


def test_every_start_is_that_of_the_oracle():
    waited = backfilled = 0
    for seed in range(150):
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
    assert waited > 1500  # there are reservations
    assert backfilled > 450  # and jobs that start before the head


# --------------------------------------------------------------------------- worked by hand

# A machine of three nodes runs job 0 on two of them until 10.  Job 1 wants all and is promised 10.
# Job 2 would take 12 s and waits; job 3 is over at 10 and starts at once.
EASY = {"submission": [0, 1, 2, 3], "nodes": [2, 3, 1, 1], "runtime": [[10], [5], [12], [7]]}


@pytest.mark.parametrize("form", queue.QUEUES)
def test_a_job_starts_only_where_it_does_not_delay_the_head(form):
    found = queue.simulate_queue(queue.make_jobs(**EASY), {"m": 3}, queue=form)
    assert found.start.tolist() == [0, 10, 15, 3]
    assert found.end.tolist() == [10, 15, 27, 10]


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


# --------------------------------------------------------------------------- theorems


@given(SEEDS, st.sampled_from(queue.PLACEMENTS))
@settings(max_examples=100)
def test_no_promise_is_broken_where_estimates_are_right(seed, placement):
    """From schedules alone, a queue per machine: the head starts at its reservation.

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
        ({"placement": "awere"}, "placement is 'awere'; one of aware, .*: did you mean 'aware'"),
        ({"placement": "x" * 9}, "placement is 'xxxxxxxxx'; one of aware, .*, random is wanted"),
        ({"queue": "two"}, "queue is 'two'; one of machine, one is wanted"),
        ({"machines": {"m": 2}}, "nodes of job 1 are 3, and no machine on which it runs has more"),
        ({"machines": {"m": 3, "n": 1}}, "machines are 2; the 1 that the jobs have times of"),
        ({"machines": {"m": 2.5}}, "nodes of 'm' is 2.5; a whole number"),
        ({"machines": {"m": "4"}}, "nodes of 'm' is '4'; a whole number"),
        ({"machines": {"m": True}}, "nodes of 'm' is True; a whole number"),
    ],
)
def test_arguments_out_of_range_are_refused(given, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        queue.simulate_queue(
            queue.make_jobs(**EASY),
            **{"machines": {"m": 3}, **given},  # type: ignore[arg-type]
        )


def test_machines_with_names_are_in_the_order_of_the_columns():
    times = pd.DataFrame({"old": [4.0], "new": [1.0]})
    jobs = queue.make_jobs([0], [1], times)
    assert queue.simulate_queue(jobs, {"old": 1, "new": 1}).end.tolist() == [1.0]
    assert queue.simulate_queue(jobs, {"a": 1, "b": 1}).end.tolist() == [1.0]
    with pytest.raises(ArgumentError, match="machines are new, old; old, new, in the order of"):
        queue.simulate_queue(jobs, {"new": 1, "old": 1})
    with pytest.raises(ArgumentError, match="columns of estimate are new, old; old, new, in this"):
        queue.make_jobs([0], [1], times, estimate=times[["new", "old"]])


def test_a_user_of_machines_that_are_too_small_is_refused():
    jobs = queue.make_jobs([0], [5], [[1, 1]], suits=[[True, False]])
    machines = {"small": 4, "large": 5}
    assert queue.simulate_queue(jobs, machines).machine.tolist() == [1]
    with pytest.raises(ArgumentError, match="job 0 may use only machines that are too small"):
        queue.simulate_queue(jobs, machines, placement="user")


UNCOMPILED = """
import numpy as np
from machines import made_queue
from msbgen.systems.machines import queue
jobs, machines = made_queue(11)
for placement in queue.PLACEMENTS:
    for form in queue.QUEUES:
        found = queue.simulate_queue(jobs, machines, placement=placement, queue=form)
        print(found.start.tolist(), found.machine.tolist())
"""


def test_starts_are_the_same_without_compilation(capsys):
    exec(UNCOMPILED, {})
    assert capsys.readouterr().out.splitlines() == anew(UNCOMPILED, compiled=False)


@pytest.mark.skipif(
    not hasattr(_kernels.simulate_queues, "signatures"), reason="nothing is compiled"
)
def test_no_kernel_is_compiled_twice():
    """Layouts of arrays are part of what is compiled, and this takes ten seconds."""
    jobs, machines = made_queue(3)
    for placement, form in product(queue.PLACEMENTS, queue.QUEUES):
        queue.simulate_queue(jobs, machines, placement=placement, queue=form)
    assert len(_kernels.simulate_queues.signatures) == 1
