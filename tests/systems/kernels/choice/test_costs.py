"""Time and energy of programs, from tables of kernels and from profiles."""

from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.data.build import make_profiles
from msbgen.systems.kernels.choice.costs import Costs, costs_of
from msbgen.systems.kernels.dataset import make as make_kernels


@pytest.fixture
def kernels():
    """Two shapes of one kind and a program, at two clocks; the first was run twice at one."""
    return make_kernels(
        ["gemm", "gemm", "gemm", "gemm", "app/x", "app/x"],
        [4.0, 2.0, 2.2, 8.0, 1.0, 0.5],
        power=[10.0, 20.0, 20.0, 11.0, 5.0, np.nan],
        parameters={"rows": [64, 64, 64, 128, np.nan, np.nan]},
        resources={"clock": [1, 2, 2, 1, 1, 2]},
        units={"clock": "GHz"},
        run=[0, 0, 1, 0, 0, 0],
    )


def test_each_kernel_of_a_table_is_a_program(kernels):
    costs = costs_of(kernels)
    assert costs.programs == ("gemm rows=64", "gemm rows=128", "app/x")
    assert costs.families == ("gemm", "gemm", "app")
    assert costs.contexts.tolist() == [[1.0], [2.0]]
    np.testing.assert_allclose(costs.time, [[4.0, 2.1], [8.0, np.nan], [1.0, 0.5]])
    np.testing.assert_allclose(costs.energy, [[40.0, 42.0], [88.0, np.nan], [5.0, np.nan]])
    assert costs.measured.tolist() == [[True, True], [True, False], [True, False]]
    assert costs.describe(1) == "clock=2 GHz"


def test_each_task_with_joules_is_a_program():
    joules = np.array([[[1.0, 2.0], [1.0, 3.0]], [[4.0, np.nan], [5.0, np.nan]]])
    profiles = make_profiles(
        np.stack([joules, joules], axis=-1),
        [[2.0, 2.0], [1.0, 1.0]],
        [[1.0], [2.0]],
        interval=1.0,
        resources={"clock": {"units": "GHz"}},
        counters={"instructions": {}, "energy": {"units": "J"}},
        attrs={"task": "t"},
    )
    costs = costs_of(profiles)
    assert costs.programs == ("t",)
    np.testing.assert_allclose(costs.time, [[2.0, 1.0]])
    np.testing.assert_allclose(costs.energy, [[3.5, 4.5]])


def test_programs_and_contexts_are_selected(kernels):
    costs = costs_of(kernels)
    assert costs.take([2, 0]).programs == ("app/x", "gemm rows=64")
    assert costs.without(["gemm"]).programs == ("app/x",)
    assert costs.only([1]).measured.tolist() == [[False, True], [False, False], [False, False]]
    assert costs.row("app/x") == 2


def test_an_unknown_program_is_refused_with_the_nearest_name(kernels):
    with pytest.raises(ArgumentError, match="'gem rows=64'; did you mean 'gemm rows=64'"):
        costs_of(kernels).row("gem rows=64")


@pytest.mark.parametrize("wrong", [0.0, np.inf])
def test_values_that_are_no_cost_are_refused_with_their_context(kernels, wrong):
    costs = costs_of(kernels)
    time = costs.time.copy()
    time[0, 1] = wrong
    with pytest.raises(ArgumentError, match=r"time of 'gemm rows=64' is .* in clock=2 GHz"):
        replace(costs, time=time)


def test_rows_and_columns_must_fit_and_be_different():
    one = np.ones((1, 2))
    with pytest.raises(ArgumentError, match="time has shape"):
        Costs(("a",), ("a",), ("c",), ("Hz",), np.array([[1.0]]), one, one)
    with pytest.raises(ArgumentError, match="comes twice"):
        Costs(("a",), ("a",), ("c",), ("Hz",), np.array([[1.0], [1.0]]), one, one)


def test_own_runs_bound_a_new_run_by_their_conformal_quantile_or_their_largest():
    seconds = np.arange(1.0, 21.0)
    watts = 30.0 - seconds
    runs = make_kernels(
        ["p"] * 24,
        [*seconds, 3.0, 5.0, 4.0, 7.0],
        power=[*watts, 1.0, 1.0, np.nan, 2.0],
        resources={"clock": [1] * 20 + [2] * 3 + [3]},
    )
    costs = costs_of(runs)
    np.testing.assert_allclose(costs.time, [[10.5, 4.0, 7.0]])
    bounds, enough = costs.bounds_of_runs(0, 0.1)
    # the 19th of 20, and of three and one the largest
    np.testing.assert_allclose(
        bounds, [[19, 5, 7], [np.sort(seconds * watts)[18], 5, 14], [28, 1, 2]]
    )
    assert enough.tolist() == [[True, False, False]] * 3
    assert not costs.bounds_of_runs(0, 0.04)[1].any()  # it takes 24
    kept = costs.only([1]).bounds_of_runs(0, 0.1)[0]
    assert np.isnan(kept).tolist() == [[True, False, True]] * 3
    again = costs.with_measurement(0, 2.0, 6.0)
    assert again.bounds_of_runs(0, 0.1)[0][:, 0].tolist() == [2.0, 6.0, 3.0]
    equal = costs_of(runs.assign(runtime=0 * runs["runtime"] + 1.5))
    assert equal.bounds_of_runs(0, 0.1)[0][0].tolist() == [1.5] * 3


def test_times_alone_have_bounds_too():
    runs = make_kernels(["p"] * 3, [1.0, 2.0, 4.0], resources={"clock": [1, 1, 1]})
    costs = costs_of(runs, assumed_power=3.0)
    np.testing.assert_allclose(costs.bounds_of_runs(0, 0.3)[0][:, 0], [4.0, 12.0, 3.0])
