"""Non-negative terms: the minimum of the fit, and the columns."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.kernels.predictor.terms import (
    column_products,
    fit_terms,
    inverse_products,
    powers_of_clocks,
)


def test_weights_of_a_sum_are_recovered():
    rng = np.random.default_rng(0)
    columns = np.exp(rng.normal(0, 3, (200, 4)))
    weight = np.array([2.0, 0.0, 1e-6, 5.0])
    np.testing.assert_allclose(fit_terms(columns, columns @ weight), weight, atol=1e-12)


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_no_step_makes_the_relative_error_smaller(seed):
    """Karush, Kuhn and Tucker: the slope is 0 at positive weights, and at least 0 at others."""
    rng = np.random.default_rng(seed)
    columns, target = np.exp(rng.normal(0, 1, (30, 5))), np.exp(rng.normal(0, 1, 30))
    weight = fit_terms(columns, target)
    relative = columns / target[:, None]
    slope = relative.T @ (relative @ weight - 1.0)
    assert (weight >= 0).all()
    assert (slope >= -1e-6).all()
    np.testing.assert_allclose(slope[weight > 0], 0.0, atol=1e-6)


def test_a_column_of_zeros_has_no_weight():
    columns = np.stack([np.zeros(5), np.arange(1.0, 6.0)], axis=1)
    np.testing.assert_allclose(fit_terms(columns, 3 * columns[:, 1]), [0.0, 3.0])


def test_inverse_products_of_up_to_three_resources():
    np.testing.assert_allclose(inverse_products(np.array([[2.0], [4.0]])), [[1, 0.5], [1, 0.25]])
    np.testing.assert_allclose(inverse_products(np.array([[2.0, 4.0]])), [[1, 0.5, 0.25, 0.125]])
    assert inverse_products(np.ones((3, 3))).shape == (3, 8)
    assert inverse_products(np.ones((3, 5))).shape == (3, 6)


def test_powers_of_clocks_and_column_products():
    np.testing.assert_allclose(powers_of_clocks(np.array([[0.5]])), [[1, 0.5, 0.125]])
    np.testing.assert_allclose(
        column_products(np.array([[1.0, 2]]), np.array([[3.0, 4]])), [[3, 4, 6, 8]]
    )
