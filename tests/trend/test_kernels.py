"""Elimination against its definition."""

import numpy as np
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
