"""Kernels of the trend, beside a library."""

import numpy as np
import pytest
from scipy.linalg import solveh_banded

from msbgen.engine.trend import _kernels


@pytest.mark.parametrize(("n", "width"), [(1, 1), (5, 1), (7, 7), (40, 6)])
def test_banded_systems_have_the_solutions_of_a_library(n, width):
    rng = np.random.default_rng(n)
    lower = 0.1 * rng.standard_normal((n, width))
    lower[:, 0] = 2.0 + rng.random(n)
    for j in range(n):
        lower[j, n - j :] = 0.0
    right = rng.standard_normal(n)
    wanted = solveh_banded(lower.T.copy(), right, lower=True)
    assert _kernels.solve_banded(lower.copy(), right)
    np.testing.assert_allclose(right, wanted, rtol=1e-10)


def test_a_matrix_that_is_not_positive_definite_is_said_to_be_none():
    assert not _kernels.solve_banded(np.array([[1.0, 2.0], [1.0, 0.0]]), np.ones(2))
