import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.problem import Problem, SmoothingParameters, offsets

SEEDS = st.integers(0, 2**32 - 1)
PARAMETERS = SmoothingParameters(
    "gaussian-process", np.array([[1.0, 0.5], [0.7, 2.0]]), np.array([1e-3] * 2)
)
FLOOR = 0.1


def contexts():
    return np.stack(np.meshgrid([-0.5, -0.1, 0.2, 0.5], [-0.5, 0.1, 0.5]), axis=2).reshape(-1, 2)


def problem(seed, bins=5, factor=1.0, weights=None):
    rng, z = np.random.default_rng(seed), contexts()
    slopes = rng.normal(0, 0.5, (2, 2))
    scatter = rng.normal(0, 0.05, (len(z), bins, 2))
    amounts = factor * np.exp((z @ slopes)[:, None] + scatter + rng.normal(0, 1, (1, bins, 2)))
    weights = np.ones(len(z)) if weights is None else weights
    return Problem(z, amounts, weights, offsets(amounts, FLOOR), Folds.of(z))


@given(SEEDS, st.floats(1e-6, 1e6))
def test_units_do_not_matter(seed, factor):
    plain, other = problem(seed), problem(seed, factor=factor)
    assert_allclose(other.left_out(PARAMETERS), factor * plain.left_out(PARAMETERS), rtol=1e-6)
    assert_allclose(other.share, plain.share, rtol=1e-9)


@given(SEEDS)
def test_an_unmeasured_amount_is_predicted_from_the_others_alone(seed):
    plain = problem(seed)
    amounts = plain.amounts.copy()
    amounts[4, 1, 0] = np.nan
    holes = Problem(plain.z, amounts, plain.weights, plain.offset, plain.folds)
    row = holes.left_out_logs(PARAMETERS)[4, 1, 0]
    rest = np.delete(np.arange(12), 4)
    without = Problem(
        plain.z[rest], plain.amounts[rest], plain.weights[rest], plain.offset, Folds.alone(11)
    )
    fit = without.fit(PARAMETERS)
    smooth = without.smoother("gaussian-process").predict(
        plain.z[[4]], fit.coefficients, PARAMETERS.lengths, PARAMETERS.nugget
    )
    expected = fit.mean[0, 1] + smooth[0, 0, 1]
    assert row == pytest.approx(np.clip(expected, fit.lowest[0, 1], fit.highest[0, 1]), abs=1e-4)


def test_segments_are_sums_of_bins():
    plain = problem(3, bins=7)
    for segments in range(1, 8):
        segmented = plain.in_segments(segments, FLOOR)
        assert segmented.amounts.shape[1] == segments
        assert_allclose(segmented.amounts.sum(axis=1), plain.amounts.sum(axis=1))
        assert_allclose(segmented.offset[1], FLOOR * segmented.amounts[..., 1].mean())


def test_predictions_stay_near_measured_values():
    plain = problem(5)
    wild = Problem(
        plain.z, plain.amounts * np.exp(3 * plain.z[:, :1, None] ** 5), plain.weights, plain.offset,
        plain.folds,
    )  # fmt: skip
    for one in (plain, wild):
        lowest, highest = one.limits
        logs = one.left_out_logs(PARAMETERS)
        assert np.all((lowest <= logs) & (logs <= highest))
        assert np.all((lowest < one.logs.min(axis=0)) & (highest > one.logs.max(axis=0)))


def test_the_error_is_the_weighted_mean_square_residual():
    plain = problem(6)
    known = plain.logs[plain.folds.index]
    assert not plain.left_out_errors(known).any()
    assert_allclose(plain.left_out_errors(known + [0.1, -0.2]), [0.01, 0.04])
    assert_allclose(plain.left_out_errors(known[..., :1] + 0.1), [0.01])


def test_a_quantity_that_is_always_zero_stays_zero():
    amounts = np.stack([np.ones((12, 4)), np.zeros((12, 4))], axis=2)
    z = contexts()
    zero = Problem(z, amounts, np.ones(12), offsets(amounts, FLOOR), Folds.of(z))
    assert not zero.left_out(PARAMETERS)[..., 1].any()
    assert_allclose(zero.left_out(PARAMETERS)[..., 0], 1.0, rtol=1e-6)
