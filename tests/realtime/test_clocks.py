"""Rules for the slack of clocks: the paper's test, and simulation on profiles."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.realtime.allocate import Allocator
from msbgen.realtime.clocks import STEP, reference_slack, simulated_slack
from msbgen.realtime.edf import simulate_edf
from msbgen.realtime.tasksets import Task, TaskSet
from platforms import make_table, make_truth

LEVELS = {"ways": [1.0], "clock": [0.25, 0.5, 0.6, 0.75, 0.9, 1.0]}
CAPACITY = {"ways": 4.0}


def task_set(utilisations, cores=2):
    tasks = [Task(f"t{i}", "a", 0.1 / u, 0.1) for i, u in enumerate(utilisations)]
    return TaskSet(cores, {"ways": float(cores)}, tuple(tasks))


@pytest.mark.parametrize("utilisations", [[0.1], [0.2, 0.2, 0.4, 0.1], [0.05] * 8])
def test_the_reference_slack_is_where_the_test_for_global_edf_turns(utilisations):
    chosen = task_set(utilisations, cores=4)
    slack = reference_slack(chosen)

    def passes(delta):
        stretched = np.array(utilisations) / (1 - delta)
        return stretched.sum() <= 4 - 3 * stretched.max()

    assert passes(slack - 1e-9)
    assert not passes(slack + 1e-9)


def test_a_set_that_fails_the_test_has_no_slack():
    assert reference_slack(task_set([0.4] * 9, cores=4)) == 0.0
    with pytest.raises(ArgumentError, match="wcet of task 'x' is not given"):
        reference_slack(TaskSet(4, CAPACITY, (Task("x", "a", 1.0),)))


@pytest.fixture
def linear():
    """A task as fast as its clock: 0.1 s at the highest."""
    clock = np.array(LEVELS["clock"])
    table = make_table((10 * clock)[None, None], [1.0], LEVELS)
    truth = make_truth({"a": (0.1 / clock)[None, :, None] * np.ones(4) / 4}, LEVELS)
    return table, truth


def test_the_simulated_slack_is_the_largest_that_keeps_responses_below_the_share(linear):
    table, truth = linear

    def allocator(slack):
        return Allocator({"a": table}, {"ways": 1.0}, 1, slack=slack)

    one = task_set([0.5], cores=1)  # response/deadline is 0.5 over the clock
    slack = simulated_slack(one, allocator, truth, horizon=5.0)
    # 0.5/0.6 < 0.9 and 0.5/0.5 > 0.9: any slack that allows 0.6 but not 0.5
    assert 0.4 <= slack < 0.5
    worst = simulate_edf(one, allocator(slack), truth, horizon=5.0).ratio.max()
    assert worst == pytest.approx(0.5 / 0.6)
    assert simulate_edf(one, allocator(slack + STEP), truth, horizon=5.0).ratio.max() > 0.9
    assert simulated_slack(task_set([0.95], cores=1), allocator, truth, horizon=5.0) == 0.0
    assert simulated_slack(one, allocator, truth, share=0.6, horizon=5.0) < slack
    with pytest.raises(ArgumentError, match=r"share is 1\.5"):
        simulated_slack(one, allocator, truth, share=1.5)


def test_equal_seeds_give_equal_slacks(linear):
    table, truth = linear

    def allocator(slack):
        return Allocator({"a": table}, {"ways": 2.0}, 2, slack=slack)

    sets = task_set([0.3, 0.3, 0.4])
    again = [simulated_slack(sets, allocator, truth, horizon=3.0, rng=5) for _ in range(2)]
    assert again[0] == again[1] > 0
