"""The process of low rank against dense algebra, and against the exact process at full rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.core.errors import MeasurementError
from msbgen.engine.trend import low_rank
from msbgen.engine.trend.covariance import prior_covariance
from msbgen.engine.trend.deviations import ExactVariance
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.low_rank import (
    Factor,
    LowRankProcess,
    LowRankVariance,
    low_rank_updates,
)
from msbgen.engine.trend.smooth import GaussianProcess

SEEDS = st.integers(0, 2**32 - 1)
NUGGET = 0.01


def drawn(seed, n=40, columns=3, *, equal=True):
    """Points on a coarse grid, values, noise and length scales."""
    rng = np.random.default_rng(seed)
    every = np.stack(np.meshgrid(*(np.linspace(-0.5, 0.5, 7),) * 2), axis=-1).reshape(-1, 2)
    z = every[rng.permutation(len(every))[:n]]
    noise = rng.uniform(0.5, 2.0, (n, columns))
    noise = np.repeat(noise[:, :1], columns, axis=1) if equal else noise
    return z, rng.standard_normal((n, columns)), noise, rng.uniform(0.3, 2.0, 2)


@settings(max_examples=10)
@given(SEEDS, st.booleans())
def test_full_rank_is_the_exact_process(seed, equal):
    z, values, noise, lengths = drawn(seed, equal=equal)
    exact, low = GaussianProcess(z), LowRankProcess(z)
    folds, query = Folds.of(z), np.random.default_rng(seed).uniform(-0.6, 0.6, (9, 2))
    assert folds.groups  # levels are left out, too
    found, wanted = (
        one.predict(
            query, one.coefficients(values, noise, lengths, NUGGET)[None], lengths[None], NUGGET
        )
        for one in (low, exact)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    found, wanted = (p.left_out(values, noise, lengths, NUGGET, folds) for p in (low, exact))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    groups = [np.array([3]), np.arange(5, 11)]
    low_variance, exact_variance = (
        kind(z, lengths, NUGGET) for kind in (LowRankVariance, ExactVariance)
    )
    np.testing.assert_allclose(low_variance.at(query), exact_variance.at(query), atol=1e-3)
    left = low_variance.left_out(groups), exact_variance.left_out(groups)
    np.testing.assert_allclose(*left, rtol=1e-3, atol=1e-3)


@settings(max_examples=10)
@given(SEEDS)
def test_a_lower_rank_is_the_dense_posterior_of_its_covariance(seed):
    z, values, noise, lengths = drawn(seed)
    query = np.random.default_rng(seed).uniform(-0.6, 0.6, (9, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(low_rank, "MOST_PIVOTS", 12)
        process = LowRankProcess(z)
        coefficients = process.coefficients(values, noise, lengths, NUGGET)
        pivots = np.flatnonzero(coefficients.any(axis=1))
        assert len(pivots) == 12
        (found,) = process.predict(query, coefficients[None], lengths[None], np.array([NUGGET]))
        left_out = process.left_out(values, noise, lengths, NUGGET, Folds.of(z))
    full = prior_covariance(z, z, lengths)
    to_pivots = prior_covariance(z, z[pivots], lengths)
    solved = np.linalg.solve(prior_covariance(z[pivots], z[pivots], lengths), to_pivots.T)
    low = to_pivots @ solved
    # the rest of each variance is noise, of its own
    total = low + np.diag(np.diag(full - low) + NUGGET * noise[:, 0])

    def dense(at, rows):
        across = prior_covariance(at, z[pivots], lengths) @ solved[:, rows]
        return across @ np.linalg.solve(total[np.ix_(rows, rows)], values[rows])

    np.testing.assert_allclose(found, dense(query, np.arange(len(z))), rtol=1e-5, atol=1e-6)
    folds = Folds.of(z)
    for i in (0, 7, int(pivots[0])):
        wanted = values[i] - dense(z[[i]], np.delete(np.arange(len(z)), i))[0]
        np.testing.assert_allclose(left_out[i], wanted, rtol=1e-5, atol=1e-6)
    for group in folds.groups:
        members = folds.members[group]
        wanted = values[members] - dense(z[members], np.setdiff1d(np.arange(len(z)), members))
        np.testing.assert_allclose(left_out[len(z) :][group], wanted, rtol=1e-5, atol=1e-6)


def test_the_factorisation_ends_where_the_rest_is_negligible():
    z, lengths = drawn(1)[0], np.array([8.0, 8.0])
    factor = Factor.of(z, lengths, 1e-6)
    assert 3 < len(factor.pivots) < len(z)
    missing = prior_covariance(z, z, lengths) - factor.rows @ factor.rows.T
    assert np.diag(missing).max() <= 1e-6 * (1 + 1e-6)
    np.testing.assert_allclose(np.diag(missing), factor.rest, atol=1e-10)
    np.testing.assert_allclose(factor.lower, np.tril(factor.lower), atol=1e-9)


def test_noise_below_rounding_is_refused():
    z, values, noise, lengths = drawn(2)
    with pytest.raises(MeasurementError, match="so close that they determine no trend"):
        LowRankProcess(z).coefficients(values, noise, lengths, -1.0)


@settings(max_examples=10)
@given(SEEDS)
def test_what_observations_explain_is_that_of_the_exact_process(seed):
    z, _, noise, lengths = drawn(seed)
    noise, query = 0.01 * noise[:, 0], np.random.default_rng(seed).uniform(-0.6, 0.6, (9, 2))
    rows = low_rank_updates(z, noise, query, lengths)
    among = prior_covariance(z, z, lengths) + np.diag(noise)
    across = prior_covariance(z, query, lengths)
    wanted = across.T @ np.linalg.solve(among, across)
    np.testing.assert_allclose(rows.T @ rows, wanted, atol=2e-3)
    # each point has noise of its own
    found = LowRankVariance(z, lengths, noise).left_out([np.array([i]) for i in range(len(z))])
    np.testing.assert_allclose(found, 1 / np.diag(np.linalg.inv(among)) - noise, atol=1e-3)
