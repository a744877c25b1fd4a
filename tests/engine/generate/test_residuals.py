"""Residuals of runs from the mean of their context, and the points of the bridge."""

import numpy as np
import pytest

import oracles
from tasks import GRID, answer, fit_distribution, kernel_weights, without


@pytest.mark.parametrize("n_runs", [2, 3, 12])
def test_residuals_have_an_unbiased_variance_about_the_contexts_mean(runs, n_runs):
    counts, measured = (part[:, :n_runs] for part in runs)
    distribution = fit_distribution(counts, measured)
    factor = np.exp(distribution.residuals.residual).reshape(
        len(GRID), n_runs, *distribution.residuals.residual.shape[1:]
    )
    np.testing.assert_allclose(factor.mean(axis=1), 1.0, rtol=1e-9)
    wanted = np.log(measured).var(axis=1, ddof=1).mean()
    whole = distribution.residuals.lag[:, -1, 0].reshape(len(GRID), n_runs)
    assert whole.var(axis=1).mean() == pytest.approx(wanted, rel=0.02)


def test_a_context_with_one_run_keeps_its_noise_as_residual(runs):
    one = without(*(part[:, :2] for part in runs), slice(None), 1)
    distribution = fit_distribution(*one)
    # the runs' speed varies by 0.02; the trend takes some of it
    assert distribution.residuals.lag[:, -1, 0].std() > 0.003
    _, drawn = answer(distribution, GRID, "sample", n_samples=50)
    assert np.median(drawn.std(axis=1) / drawn.mean(axis=1)) > 0.003


def test_points_of_the_bridge_are_in_units_of_their_deviation_and_of_the_bandwidth(distribution):
    residual = distribution.residuals.residual.reshape(108, 10, 5, 2).mean(axis=2)
    inner = distribution.chain.points[:, :, :4].std(axis=(0, 1))
    np.testing.assert_allclose(inner, 1.0, rtol=1e-9)
    for k in range(2):  # fine residuals of a segment move with its coarse one
        assert (
            np.corrcoef(residual[..., k].T.ravel(), distribution.chain.points[:, :, k].ravel())[
                0, 1
            ]
            > 0.9
        )
    contexts = distribution.chain.points[0, :, 4:]
    np.testing.assert_array_equal(
        distribution.chain.points[:, :, 4:], np.repeat(contexts[None], 10, axis=0)
    )
    # exp(−|x − y|²/2) is the kernel
    wanted = [kernel_weights(GRID, GRID[c])[distribution.residuals.run_context] for c in (0, 4)]
    got = np.exp(-0.5 * oracles.squared_distances(contexts[[0, 48]], contexts))
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_centre_and_residual_of_a_single_run_give_the_run(runs):
    counts, duration = without(*(part[:, :2] for part in runs), 0, 1)
    distribution = fit_distribution(counts, duration)
    assert distribution.centre.shrinkage[0].max() < 1
    single = np.ones(distribution.centre.context_residual.shape[::2])
    centre = distribution.centre.of_known(single)[:1]
    back = (centre * distribution.residuals.factor[:1]).sum(axis=1)
    np.testing.assert_allclose(back[0, 0], duration[0, 0], rtol=1e-9)
    np.testing.assert_allclose(back[0, 1], np.nansum(counts[0, 0, :, 1]), rtol=1e-9)
