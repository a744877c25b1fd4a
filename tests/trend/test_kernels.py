"""Elimination, and the time under a cap, against the definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.trend import _kernels

SEEDS = st.integers(0, 2**32 - 1)


def positive(rng, n):
    half = rng.standard_normal((n, n))
    return half @ half.T + n * np.eye(n)


@given(st.integers(1, 13), st.integers(0, 3), st.booleans(), SEEDS)
def test_elimination_leaves_the_factor_and_its_inverse(n, c, with_identity, seed):
    rng = np.random.default_rng(seed)
    matrix, right = positive(rng, n), rng.standard_normal((n, c))
    upper = np.triu(matrix) + np.tril(rng.standard_normal((n, n)), -1)  # only that is read
    rows = np.concatenate([upper, right, np.eye(n) if with_identity else np.empty((n, 0))], axis=1)
    assert _kernels.eliminate(rows, n + c)
    factor = np.triu(rows[:, :n])
    np.testing.assert_allclose(factor.T @ factor, matrix, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(factor.T @ rows[:, n : n + c], right, atol=1e-9)
    if with_identity:
        np.testing.assert_allclose(factor.T @ rows[:, n + c :], np.eye(n), atol=1e-9)


@given(st.integers(1, 9), st.integers(0, 8), SEEDS)
def test_a_matrix_that_is_not_positive_definite_is_refused(n, place, seed):
    rng = np.random.default_rng(seed)
    matrix = positive(rng, n)
    matrix[place % n] = matrix[:, place % n] = 0.0
    assert not _kernels.eliminate(matrix, n)
    assert not _kernels.eliminate(np.full((n, n), np.nan), n)


@given(st.integers(2, 11), st.integers(1, 3), SEEDS)
def test_left_out_values_are_predicted_from_the_others(n, c, seed):
    rng = np.random.default_rng(seed)
    matrix, values = positive(rng, n), rng.standard_normal((n, c))
    groups = [rng.choice(n, rng.integers(1, n), replace=False) for _ in range(3)]
    index, ends = np.concatenate(groups), np.cumsum([len(g) for g in groups])
    inverse, errors = np.linalg.inv(matrix), np.empty((len(index), c))
    assert _kernels.left_out(inverse, inverse @ values, index, ends, errors)
    for group, found in zip(groups, np.split(errors, ends)):
        rest = np.setdiff1d(np.arange(n), group)
        weights = np.linalg.solve(matrix[np.ix_(rest, rest)], values[rest])
        wanted = values[group] - matrix[np.ix_(group, rest)] @ weights
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


@given(st.floats(1e-9, 1e3), st.floats(0, 3), st.floats(0.02, 1.0))
def test_the_free_time_gives_the_time(free, demand, width):
    free, least = np.array([free]), np.array([free * demand])
    time, share, found, again = np.empty((4, 1))
    widths = np.array([width])
    _kernels.throttled(free, least, widths, time, share)
    _kernels.unthrottled(time, least, width, found)
    _kernels.throttled(found, least, widths, again, np.empty(1))
    assert again[0] == pytest.approx(time[0], rel=1e-6)
    if share[0] > 1e-3:  # below, many free times give the same time
        assert found[0] == pytest.approx(free[0], rel=1e-5)


def test_a_time_below_the_least_has_the_lowest_free_time():
    time, least, free = np.array([1.0, 1.0]), np.array([1.5, 1e6]), np.empty(2)
    _kernels.unthrottled(time, least, 0.1, free)
    np.testing.assert_allclose(free, np.exp(-6), rtol=1e-6)
