"""Linear scaling beside plain least squares, and what it says of tables that fall apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import MeasurementError
from msbgen.runtimes.scaling import check_connected, fit_scaling


def observed(rng, shape, share):
    """Cells of a table, such that every row and column is connected to the first."""
    cells = rng.random(shape) < share
    cells[0] = cells[:, 0] = True
    return np.argwhere(cells).T


@given(st.integers(0, 10_000))
def test_scaling_is_the_least_squares_solution(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 7, 2))
    workload, platform = observed(rng, shape, 0.5)
    again = rng.integers(len(workload), size=5)  # some cells are observed twice
    workload, platform = np.append(workload, workload[again]), np.append(platform, platform[again])
    log_runtime = rng.normal(size=len(workload))
    design = np.zeros((len(workload), sum(shape)))
    design[np.arange(len(workload)), workload] = 1
    design[np.arange(len(workload)), shape[0] + platform] = 1
    wanted = design @ np.linalg.lstsq(design, log_runtime, rcond=None)[0]
    fitted = fit_scaling(workload, platform, log_runtime, shape)
    np.testing.assert_allclose(fitted.log_runtime(workload, platform), wanted, atol=1e-8)
    assert abs(fitted.platform.mean()) < 1e-9


def test_lengths_and_speeds_have_the_right_order():
    workload, platform = np.divmod(np.arange(12), 4)
    runtime = np.array([1.0, 2.0, 5.0])[workload] * np.array([1.0, 3.0, 10.0, 30.0])[platform]
    fitted = fit_scaling(workload, platform, np.log(runtime), (3, 4))
    np.testing.assert_allclose(np.exp(np.diff(fitted.platform)), [3.0, 10 / 3, 3.0])
    np.testing.assert_allclose(np.exp(np.diff(fitted.workload)), [2.0, 2.5])


def test_platforms_that_share_no_workload_are_named():
    with pytest.raises(MeasurementError, match="platform 1 shares no workload with platform 0"):
        fit_scaling(np.array([0, 1]), np.array([0, 1]), np.zeros(2), (2, 2))
    with pytest.raises(MeasurementError, match="platform 0 shares no workload with platform 1"):
        fit_scaling(np.array([1, 0]), np.array([1, 0]), np.zeros(2), (2, 2))
    with pytest.raises(
        MeasurementError, match="platform 'm1' shares no workload with platform 'pi'"
    ):
        check_connected(np.array([0, 1]), np.array([0, 1]), (2, 2), ["pi", "m1"])


def test_workloads_never_observed_have_no_length():
    fitted = fit_scaling(np.array([0, 2]), np.array([0, 0]), np.zeros(2), (3, 2))
    assert np.isnan(fitted.workload).tolist() == [False, True, False]
    assert np.isnan(fitted.platform).tolist() == [False, True]
