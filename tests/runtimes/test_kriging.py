"""Kriging beside the same posterior mean from dense matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import MeasurementError
from msbgen.runtimes import kriging
from msbgen.runtimes.kriging import fit_fields
from msbgen.runtimes.scaling import check_connected, fit_scaling
from observing import drawn_runs


def dense_posterior(runs, residual, features):
    """Posterior mean at the runs themselves, by a solve with the whole covariance."""

    def likeness(table):
        scaled = table / table.std(axis=0)
        square = ((scaled[:, None] - scaled) ** 2).sum(-1) / scaled.shape[1]
        return np.exp(-0.5 * square / kriging._LENGTH**2)

    workloads, platforms = (likeness(f) for f in features)
    n_platforms = runs.shape[1]
    one_w, one_p = np.eye(runs.shape[0]), np.eye(n_platforms)
    signal = np.zeros((len(residual), len(residual)))
    for process, shares in enumerate(kriging._SHARES):
        cells = np.zeros((len(residual), runs.shape[0] * n_platforms))
        for r in range(len(residual)):
            near = [k for k in runs.beside[r] if k >= 0]
            if process == 2:
                for k in near:
                    cells[r, k * n_platforms + runs.platform[r]] += 1
            elif process == 0 or near:
                cells[r, runs.workload[r] * n_platforms + runs.platform[r]] += 1
        covariance = (
            shares[0] * np.kron(one_w, one_p)
            + shares[1] * np.kron(workloads, one_p)
            + shares[2] * np.kron(one_w, platforms)
            + shares[3] * np.kron(workloads, platforms)
        )
        signal += cells @ covariance @ cells.T
    noise = np.where((runs.beside >= 0).any(axis=1), kriging._NOISE[1], kriging._NOISE[0])
    return signal @ np.linalg.solve(signal + np.diag(noise), residual)


@given(st.integers(0, 10_000))
def test_kriging_agrees_with_dense_matrices(seed):
    rng = np.random.default_rng(seed)
    shape = (4, 3)
    runs = drawn_runs(rng, 15, shape)
    features = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    residual = rng.normal(size=15)
    fields = fit_fields(runs, residual, features)
    np.testing.assert_allclose(
        fields.at(runs), dense_posterior(runs, residual, features), atol=5e-3
    )


def test_the_scale_does_not_matter_and_zero_residuals_give_zero():
    rng = np.random.default_rng(1)
    runs, features = drawn_runs(rng, 40, (6, 5)), (rng.normal(size=(6, 2)), rng.normal(size=(5, 2)))
    residual = rng.normal(size=40)
    once = fit_fields(runs, residual, features).at(runs)
    np.testing.assert_allclose(
        fit_fields(runs, 7 * residual, features).at(runs), 7 * once, rtol=1e-4
    )
    assert not fit_fields(runs, np.zeros(40), features).at(runs).any()


def test_the_effect_of_an_outlier_is_bounded():
    rng = np.random.default_rng(2)
    runs, features = drawn_runs(rng, 40, (6, 5)), (rng.normal(size=(6, 2)), rng.normal(size=(5, 2)))
    residual = rng.normal(size=40)
    far, farther = residual.copy(), residual.copy()
    far[0], farther[0] = 1e3, 1e6
    np.testing.assert_allclose(
        fit_fields(runs, far, features).at(runs), fit_fields(runs, farther, features).at(runs)
    )


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
