"""Labelled results of the simulator agree with themselves and with the arrays."""

import numpy as np
import pytest

from msbgen.data.store import save_netcdf
from msbgen.realtime.allocate import Allocator
from msbgen.realtime.edf import simulate_edf
from msbgen.realtime.simulate import simulate_task_set, timeline
from msbgen.realtime.tasksets import Task, TaskSet

CAPACITY = {"ways": 6.0, "bandwidth": 420.0}


@pytest.fixture
def task_set():
    tasks = [Task("x", "a", 0.12), Task("y", "b", 0.4), Task("z", "a", 0.33)]
    return TaskSet(2, CAPACITY, tuple(tasks), {"ways": 2.0})


def test_the_result_is_that_of_the_arrays(small, task_set, tmp_path):
    _, tables, truth = small
    result = simulate_task_set(task_set, tables, truth, allocator="dna", horizon=3.0, rng=1)
    allocator = Allocator(tables, CAPACITY, 2, method="dna", minima={"ways": 2.0})
    outcome = simulate_edf(task_set, allocator, truth, horizon=3.0, rng=1)
    np.testing.assert_array_equal(result["completion"], outcome.completion)
    np.testing.assert_array_equal(result["energy"], outcome.energy)
    assert result.attrs["decisions"] == outcome.decisions
    late = result["completion"] > result["deadline"] * (1 + 1e-9)
    np.testing.assert_array_equal(result["late"], late)
    assert late.any()
    per_task = [int(late[result["task_number"] == i].sum()) for i in range(3)]
    assert result["misses"].values.tolist() == per_task
    assert result["task"].values.tolist() == ["x", "y", "z"]
    response = result["completion"] - result["release"]
    np.testing.assert_array_equal(result["response_time"], response)
    save_netcdf(result, tmp_path / "result.nc")


def test_draws_are_the_same_for_every_allocator_and_others_for_other_seeds(small, task_set):
    _, tables, truth = small

    def runs(**settings):
        return simulate_task_set(task_set, tables, truth, horizon=3.0, **settings)["run"].values

    equal, dna, optimum = (runs(allocator=name).tolist() for name in ("equal", "dna", "optimum"))
    assert equal == dna == optimum
    assert runs(rng=1).tolist() != optimum


def test_the_timeline_gives_every_decision_within_the_capacities(small, task_set):
    _, tables, truth = small
    result = simulate_task_set(task_set, tables, truth, horizon=3.0)
    kept = timeline(task_set, tables, truth, horizon=3.0)
    assert kept.sizes["decision"] == result.attrs["decisions"]
    assert kept["ways"].sum("core").max() <= 6
    assert kept["ways"].min() >= 2
    assert kept["bandwidth"].sum("core").max() <= 420
    jobs = kept["job"].values[np.isfinite(kept["job"])]
    assert set(jobs) <= set(range(result.sizes["job"]))
    assert np.all(np.diff(kept["time"]) >= 0)
