"""Makespan and slowdown of schedules worked by hand."""

import numpy as np
import pytest

from machines import made_queue
from msbgen.core.errors import ArgumentError
from msbgen.systems.machines import queue
from msbgen.systems.machines.queue.compare import SimulationVariant, simulate_variants
from msbgen.systems.machines.queue.jobs import Jobs, check_machines, make_jobs, where_jobs_fit


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
    with pytest.raises(ArgumentError, match=r"tau is .*; a positive number \[s\]"):
        queue.bounded_slowdown(jobs, queue.simulate_queue(jobs, {"a": 1}), tau=tau)


GOOD = {"submission": [0, 1], "nodes": [1, 2], "runtime": [[1.0, 2.0], [3.0, np.nan]]}


def test_estimates_are_right_and_all_machines_suit_by_default():
    jobs = make_jobs(**GOOD)
    np.testing.assert_array_equal(jobs.estimate, jobs.runtime)
    assert jobs.suits.all()
    assert len(jobs) == 2
    estimated = make_jobs(**GOOD, estimate=[[9, 9], [9, 9]])
    np.testing.assert_array_equal(estimated.with_true_times().estimate, jobs.runtime)
    assert estimated.submitted([5, 4]).submission.tolist() == [5, 4]


def test_jobs_do_not_change_with_the_arrays_that_they_were_made_of():
    nodes, runtime = np.array([1.0, 2.0]), np.ones((2, 1))
    jobs = make_jobs([0, 0], nodes, runtime)
    nodes[:] = runtime[:] = 7
    assert (jobs.nodes.tolist(), jobs.runtime.ravel().tolist()) == ([1, 2], [1.0, 1.0])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"submission": [0, np.inf]}, "submission of job 1 is inf; a number of seconds, "),
        ({"runtime": [[1, 1], [1, 2e12]]}, r"runtime of job 1 on machine 1 is 2e\+12; a positive"),
        ({"submission": [0]}, "nodes is of 2 jobs; the 1 of submission are wanted."),
        (
            {"submission": [[0], [1]]},
            r"submission is of shape \(2, 1\); a number per job is",
        ),
        ({"nodes": ["1", "2"]}, "nodes are .'1', '2'.; numbers are wanted"),
        ({"submission": np.ma.masked_array([0, 1], [0, 1])}, "submission is masked in part"),
        ({"runtime": np.ma.masked_array(np.ones((2, 2)), np.eye(2))}, "runtime is masked in part"),
        ({"nodes": [1, 0]}, "nodes of job 1 is 0; a whole number from 1 to 10000000 is wanted."),
        (
            {"runtime": [1, 2]},
            r"runtime is of shape \(2,\); a row per job and a column",
        ),
        ({"runtime": [[1, 2], [3, 0]]}, "runtime of job 1 on machine 1 is 0; a positive number"),
        ({"runtime": [[1, 1], [np.nan] * 2]}, "runtime of job 1 is empty; a number for one"),
        ({"estimate": [[1, np.nan], [1, 1]]}, "estimate of job 0 on machine 1 is nan; a number"),
        ({"estimate": [[1], [1]]}, r"estimate is of shape \(2, 1\); that of runtime"),
        ({"suits": np.ma.masked_array(np.ones((2, 2), bool), np.eye(2))}, "suits are masked in"),
        ({"suits": [[True, 2], [True, True]]}, "suits are .*; True or False is wanted"),
        ({"suits": [[True, True], [False, True]]}, "suits of job 1 is empty; a machine on which"),
    ],
)
def test_what_is_no_job_is_refused_with_its_row(given, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        make_jobs(**{**GOOD, **given})


def test_no_jobs_are_refused():
    with pytest.raises(ArgumentError, match="jobs are none; one or more is wanted"):
        Jobs(np.empty(0), np.empty(0, int), np.empty((0, 1)), np.empty((0, 1)),
             np.empty((0, 1), bool))  # fmt: skip


def test_a_job_goes_where_it_runs_and_has_room():
    jobs = make_jobs(**GOOD)
    fits = where_jobs_fit(jobs, {"a": 2, "b": 1})
    assert fits.tolist() == [[True, True], [True, False]]
    assert check_machines(jobs, {"a": 2, "b": 1}).tolist() == [2, 1]
    with pytest.raises(ArgumentError, match="nodes of job 1 are 2, and no machine on which it"):
        where_jobs_fit(jobs, {"a": 1, "b": 9})
    with pytest.raises(ArgumentError, match="nodes of 'b' is 0; a whole number from 1"):
        check_machines(jobs, {"a": 1, "b": 0})


@pytest.fixture
def some():
    return made_queue(0)


def test_every_variant_equals_a_simulation_of_its_own(some):
    jobs, machines = some
    steps = []
    rows = queue.compare_variants(
        jobs, machines, arrivals=["as submitted", "at once", 0.8], placements=["aware", "greedy"],
        queues=["machine", "one"], progress=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert steps == [(k, 24) for k in range(1, 25)]
    assert len({tuple(row[k] for k in ("arrivals", "placement", "queue", "times"))
                for row in rows}) == 24  # fmt: skip
    for row in rows:
        submitted = {
            "as submitted": jobs,
            "at once": jobs.submitted(np.full(len(jobs), jobs.submission.min())),
            0.8: queue.at_load(jobs, machines, 0.8),
        }[row["arrivals"]]
        submitted = submitted.with_true_times() if row["times"] == "true" else submitted
        alone = queue.simulate_queue(
            submitted, machines, placement=row["placement"], queue=row["queue"]
        )  # fmt: skip
        assert row["makespan"] == queue.makespan(submitted, alone)
        assert row["slowdown"] == queue.bounded_slowdown(submitted, alone).mean()
        against_fastest = queue.slowdown_against_fastest(submitted, alone, machines)
        assert row["slowdown_against_fastest"] == against_fastest.mean()
        assert row["makespan_over_bound"] == row["makespan"] / row["bound"] >= 1 - 1e-9
        assert row["wait"] == (alone.start - submitted.submission).mean()
        if row["arrivals"] != "as submitted":
            assert row["load"] == pytest.approx({"at once": np.inf, 0.8: 0.8}[row["arrivals"]])


def test_right_estimates_are_simulated_once(some):
    jobs, machines = some
    rows = queue.compare_variants(jobs.with_true_times(), machines)
    assert [row["times"] for row in rows] == ["true"] * len(queue.PLACEMENTS)


def test_random_placements_are_the_same_at_every_load_and_follow_the_seed(some):
    jobs, machines = some
    listed = queue.variants(jobs, ["as submitted", "at once"], ["random"])
    drawn = [
        [
            each.schedule.machine.tolist()
            for each in simulate_variants(jobs, machines, listed, rng=r)
        ]
        for r in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_names_are_those_of_files():
    assert SimulationVariant("at once", "aware", "one", "true").name == "at-once-aware-one-true"
    name = SimulationVariant(0.95, "round_robin", "machine", "estimated").name
    assert name == "load-0.95-round_robin-machine-estimated"
    near = [
        SimulationVariant(load, "aware", "one", "true").name for load in (1, 1.0, 0.9, 0.90000001)
    ]
    assert near[0] == near[1] == "load-1-aware-one-true"
    assert len({*near}) == 3
