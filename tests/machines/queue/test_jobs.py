"""Jobs: defaults, copies, and refusals with their row."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.machines.queue.jobs import Jobs, check_machines, make_jobs, where_jobs_fit

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
        ({"submission": [0, -1e300]}, r"submission of job 1 is -1e\+300; a number of seconds, 1e"),
        ({"runtime": [[1, 1], [1, 2e12]]}, r"runtime of job 1 on machine 1 is 2e\+12; a positive"),
        ({"submission": [0]}, "nodes is of 2 jobs; the 1 of submission are wanted."),
        ({"submission": [[0], [1]]}, r"submission is of shape \(2, 1\); a number a job is wanted."),
        ({"nodes": [1, 0]}, "nodes of job 1 is 0; a whole number from 1 to 10000000 is wanted."),
        ({"nodes": [1, np.nan]}, "nodes of job 1 is nan; a whole number from 1"),
        ({"nodes": [1, 1e300]}, r"nodes of job 1 is 1e\+300; a whole number from 1"),
        ({"runtime": [1, 2]}, r"runtime is of shape \(2,\); a row a job and a column a machine"),
        ({"runtime": [[1, 2], [3, 0]]}, "runtime of job 1 on machine 1 is 0; a positive number"),
        ({"runtime": [[1, np.inf], [3, 1]]}, "runtime of job 0 on machine 1 is inf; a positive"),
        ({"runtime": [[1, 1], [np.nan] * 2]}, "runtime of job 1 is empty; a number for one"),
        ({"estimate": [[1, 2], [0, 1]]}, "estimate of job 1 on machine 0 is 0; a positive number"),
        ({"estimate": [[1, np.nan], [1, 1]]}, "estimate of job 0 on machine 1 is nan; a number"),
        ({"estimate": [[1], [1]]}, r"estimate is of shape \(2, 1\); that of runtime"),
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
    with pytest.raises(ArgumentError, match="nodes of machine 'b' are 0; a whole number from 1"):
        check_machines(jobs, {"a": 1, "b": 0})
