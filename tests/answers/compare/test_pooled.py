"""The mean over contexts: against the best linear prediction, and by its degrees of freedom."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.answers.compare.pooled import pool
from msbgen.answers.compare.usual import usual_noise

GRID = np.array([[w, f] for w in (4.0, 8.0, 12.0) for f in (1.2, 1.8, 2.3)])


def best_prediction(noise, apart):
    """Weights of sum 1 whose mean is nearest to that of true values of variance `apart`."""
    n = len(noise)
    # stationary points of Σ g² v + τ² Σ (g − 1/n)² + 2 λ (Σ g − 1)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = np.diag(noise + apart), 0.0
    return np.linalg.solve(system, np.append(np.full(n, apart / n), 1.0))[:n]


@given(st.integers(0, 999), st.sampled_from([0.0, 1.0, 30.0]))
@settings(deadline=None, max_examples=30)
def test_weights_are_those_of_the_best_prediction_of_an_equal_mean(seed, spread):
    rng = np.random.default_rng(seed)
    variance = np.exp(1.5 * rng.standard_normal(9))
    value = spread * rng.standard_normal(9) + np.sqrt(variance) * rng.standard_normal(9)
    freedom = np.full(9, 4.0)
    found = pool(GRID, value, variance, freedom, np.array(2.0), None)
    noise = np.maximum(variance, usual_noise(GRID, variance, freedom + 2.0))
    # DerSimonian and Laird: the expectation of Cochran's Q, solved for the variance
    w = 1 / noise
    q = (w * (value - np.average(value, weights=w)) ** 2).sum()
    apart = (q - (9 - 1)) / (w.sum() - (w**2).sum() / w.sum())
    apart = max(apart, 10 * np.median(noise))
    weights = best_prediction(noise, apart)
    np.testing.assert_allclose(found.weights, weights)
    assert found.value == pytest.approx(weights @ value)
    assert found.noise**2 == pytest.approx((weights**2 * variance).sum())
    extra = apart * ((weights - 1 / 9) ** 2).sum()
    assert found.error**2 == pytest.approx(found.noise**2 + extra)


def test_given_weights_are_kept():
    weights = np.arange(9.0) / 36
    variance = np.exp(np.random.default_rng(1).standard_normal(9))
    found = pool(GRID, np.arange(9.0), variance, np.full(9, 4.0), np.array(0.0), weights)
    assert found.value == pytest.approx(weights @ np.arange(9.0))
    assert found.error**2 == found.noise**2 == pytest.approx(weights**2 @ variance)


def test_degrees_of_freedom_are_nearly_right_on_average():
    """Satterthwaite's formula with estimated variances is 22 % above, and 12 % without its bias."""
    true, freedom = np.array([1.0, 0.3, 3.0, 0.5, 2.0]), 6.0
    rng = np.random.default_rng(0)
    drawn = true * rng.chisquare(freedom, (4000, 5)) / freedom
    shape = np.full(drawn.shape, freedom)
    found = pool(np.arange(5.0)[:, None], 0 * drawn, drawn, shape, np.zeros(4000), np.full(5, 0.2))
    exact = true.sum() ** 2 / (true**2 / freedom).sum()
    assert found.freedom.mean() == pytest.approx(exact, rel=0.15)


def test_one_context_without_noise_among_noisy_ones_is_no_division_by_zero():
    contexts = np.array([[4.0, 1.2], [4.0, 2.3], [8.0, 1.2]])
    variance, free = np.array([1e-3, 0.0, 1e-3]), np.full(3, 1.0)
    found = pool(contexts, np.array([0.1, 0.2, 0.4]), variance, free, np.array(0.0), None)
    assert np.isfinite([found.value, found.noise, found.error, found.freedom]).all()
    assert found.weights.sum() == pytest.approx(1)
    assert 0.1 < found.value < 0.4
