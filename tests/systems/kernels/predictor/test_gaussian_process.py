"""Gaussian processes: against the textbook's matrices, and in limiting cases."""

import numpy as np

from msbgen.systems.kernels.predictor import gaussian_process as module
from msbgen.systems.kernels.predictor.gaussian_process import (
    condition,
    fit_gaussian_process,
    no_process,
)


def wave(n=120, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2)) * [1, 100]
    return x, np.sin(3 * x[:, 0]) + 0.01 * x[:, 1] + noise * rng.standard_normal(n)


def textbook(process, x, y, new):
    """Mean and deviation by inverting the whole covariance (Rasmussen and Williams, 2.25, 2.26)."""

    def covariance(a, b):
        apart = (a[:, None] - b[None]) / process.scale
        return process.variance * np.exp(-0.5 * (apart**2).sum(axis=2))

    inverse = np.linalg.inv(covariance(x, x) + process.noise * np.eye(len(x)))
    cross = covariance(new, x)
    explained = np.einsum("ij,jk,ik->i", cross, inverse, cross)
    return cross @ inverse @ y, np.sqrt(process.variance - explained + process.noise)


def test_the_posterior_agrees_with_the_textbook():
    x, y = wave()
    process = fit_gaussian_process(x, y)
    new = wave(20, seed=1)[0]
    mean, deviation = textbook(process, x, y, new)
    np.testing.assert_allclose(process.predict(new), mean, atol=1e-6)
    np.testing.assert_allclose(process.deviation(new), deviation, rtol=1e-2)


def test_a_subset_of_regressors_approximates_all_rows(monkeypatch):
    x, y = wave(300)
    whole = fit_gaussian_process(x, y)
    monkeypatch.setattr(module, "MOST_POINTS", 100)
    few = fit_gaussian_process(x, y)
    assert len(few.weights) == 100
    new = wave(50, seed=3)[0]
    np.testing.assert_allclose(few.predict(new), whole.predict(new), atol=0.02)
    assert (few.deviation(new) > 0).all()


def test_the_product_agrees_with_all_pairs():
    x, y = wave()
    process = fit_gaussian_process(x, y)
    rows, others = np.linspace(-1, 1, 5)[:, None], np.linspace(-80, 90, 7)[:, None]
    pairs = np.array([(r, o) for r in rows[:, 0] for o in others[:, 0]])
    product = process.predict_product(rows, others)
    np.testing.assert_allclose(product.ravel(), process.predict(pairs), atol=1e-9)


def test_without_information_the_process_is_zero():
    for process in (
        no_process(2),
        fit_gaussian_process(np.zeros((9, 0)), np.ones(9)),
        fit_gaussian_process(np.zeros((9, 2)), np.zeros(9)),
        fit_gaussian_process(np.ones((2, 2)), np.ones(2)),
    ):
        d = len(process.centre)
        assert (process.predict(np.ones((3, d))) == 0).all()
        assert np.isfinite(process.deviation(np.ones((3, d)))).all()
    assert no_process(2).predict_product(np.ones((3, 1)), np.ones((4, 1))).shape == (3, 4)


def test_conditioning_on_the_same_rows_agrees_with_the_fit():
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (80, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1]
    process = fit_gaussian_process(x, y)
    again = condition(process, x, y)
    np.testing.assert_allclose(again.predict(x), process.predict(x), rtol=1e-10)
    np.testing.assert_allclose(again.deviation(x), process.deviation(x), rtol=1e-8)
    other = condition(process, x[:60], -y[:60])
    assert np.abs(other.predict(x[60:]) + y[60:]).mean() < 0.1
    assert not len(condition(no_process(2), x, y).weights)
