"""What is thought of energy follows from time and power."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.kernels.choice.posterior import Belief


def test_energy_is_the_product_of_time_and_power_by_sampling():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    belief = Belief(rng.normal(size=6), root @ root.T)
    drawn = rng.multivariate_normal(belief.mean, belief.covariance, size=200_000)
    logs = np.stack([drawn[:, :3], drawn[:, :3] + drawn[:, 3:], drawn[:, 3:]])
    np.testing.assert_allclose(belief.logs, logs.mean(axis=1), atol=0.05)
    np.testing.assert_allclose(belief.deviations, logs.std(axis=1), rtol=0.01)


def test_nothing_is_known_without_any_doubt():
    assert (Belief(np.zeros(4), np.zeros((4, 4))).deviations > 0).all()


def test_shapes_that_make_no_belief_are_refused():
    with pytest.raises(ArgumentError, match="mean has shape"):
        Belief(np.zeros(3), np.zeros((3, 3)))
    with pytest.raises(ArgumentError, match="covariance"):
        Belief(np.zeros(4), np.zeros((4, 2)))
