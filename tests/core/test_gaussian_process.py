"""Factored covariances against the inverse, written out."""

import numpy as np
import pytest

from msbgen.core.contexts import squared_distances
from msbgen.core.gaussian_process import SeenCovariance, gaussian_kernel, squares_between


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(12, 3))


def test_the_kernel_is_that_of_the_distances(points):
    some, others = points[:5], points[5:]
    squares = squared_distances(some, others)
    np.testing.assert_allclose(squares_between(some, others), squares, atol=1e-12)
    np.testing.assert_allclose(gaussian_kernel(some, others), np.exp(-squares / 2), rtol=1e-12)
    assert (squares_between(1e8 + points, 1e8 + points) >= 0).all()


def test_a_posterior_is_that_of_the_inverse(points):
    covariance = gaussian_kernel(points, points) + 0.1 * np.eye(12)
    values, cross = points[:, 0], gaussian_kernel(points, points[:4] + 0.3)
    seen, inverse = SeenCovariance.of(covariance), np.linalg.inv(covariance)
    np.testing.assert_allclose(seen.weights(values) @ cross, values @ inverse @ cross)
    explained = (seen.whitened(cross) ** 2).sum(axis=0)
    np.testing.assert_allclose(explained, np.diag(cross.T @ inverse @ cross))
    np.testing.assert_allclose(seen.precision, inverse, atol=1e-12)
    assert seen.half_log_determinant == pytest.approx(np.linalg.slogdet(covariance)[1] / 2)


def test_no_covariance_is_not_factored():
    with pytest.raises(np.linalg.LinAlgError):
        SeenCovariance.of(np.array([[1.0, 2.0], [2.0, 1.0]]))
