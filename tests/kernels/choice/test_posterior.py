"""The posterior of energy follows from those of time and power."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.kernels.choice.posterior import ProgramPosterior


def test_energy_is_the_product_of_time_and_power_by_sampling():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    posterior = ProgramPosterior(rng.normal(size=6), root @ root.T)
    drawn = rng.multivariate_normal(posterior.mean, posterior.covariance, size=200_000)
    logs = np.stack([drawn[:, :3], drawn[:, :3] + drawn[:, 3:], drawn[:, 3:]])
    np.testing.assert_allclose(posterior.logs, logs.mean(axis=1), atol=0.05)
    np.testing.assert_allclose(posterior.deviations, logs.std(axis=1), rtol=0.01)


def test_deviations_are_positive_even_without_variance():
    assert (ProgramPosterior(np.zeros(4), np.zeros((4, 4))).deviations > 0).all()


def test_wrong_shapes_are_refused():
    with pytest.raises(ArgumentError, match="mean has shape"):
        ProgramPosterior(np.zeros(3), np.zeros((3, 3)))
    with pytest.raises(ArgumentError, match="covariance"):
        ProgramPosterior(np.zeros(4), np.zeros((4, 2)))
