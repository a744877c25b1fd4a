"""Jointly Gaussian residuals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import MeasurementError
from msbgen.systems.learn.gaussian import conditional_gain, residual_covariance

COVARIANCE = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.1], [0.2, 0.1, 0.5]])


def test_without_gaps_it_is_the_weighted_second_moment():
    rng = np.random.default_rng(0)
    r, w = rng.normal(size=(50, 3)), rng.random(50)
    want = sum(wi * np.outer(ri, ri) for wi, ri in zip(w, r)) / w.sum()
    np.testing.assert_allclose(residual_covariance(r, w), want, rtol=1e-4, atol=1e-5)


def test_gaps_at_random_are_bridged_by_what_goes_together():
    rng = np.random.default_rng(1)
    full = rng.multivariate_normal(np.zeros(3), COVARIANCE, 20_000)
    gaps = np.where(rng.random(full.shape) < 0.3, np.nan, full)
    gaps = gaps[np.isfinite(gaps).any(axis=1)]
    found = residual_covariance(gaps, np.ones(len(gaps)))
    np.testing.assert_allclose(found, COVARIANCE, atol=0.04)


@given(st.lists(st.booleans(), min_size=3, max_size=3))
def test_conditioning_is_least_squares(measured):
    there = np.array(measured)
    gain = conditional_gain(COVARIANCE, there)
    assert gain.shape == (3, there.sum())
    # the residual measured is itself, and what is left is uncorrelated with it
    np.testing.assert_allclose(gain[there], np.eye(there.sum()), atol=1e-12)
    left = COVARIANCE[:, there] - gain @ COVARIANCE[np.ix_(there, there)]
    np.testing.assert_allclose(left, 0, atol=1e-12)


def test_a_machine_without_residuals_is_refused():
    with pytest.raises(MeasurementError, match="has no residual"):
        residual_covariance(np.array([[1.0, np.nan], [2.0, np.nan]]), np.ones(2))
