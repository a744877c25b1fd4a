"""Gaussian processes: against the textbook's matrices, and on the ways out."""

import numpy as np

from msbgen.kernels.predictor import process as module
from msbgen.kernels.predictor.process import fit_process, no_process, tell_process


def wave(n=120, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2)) * [1, 100]
    return x, np.sin(3 * x[:, 0]) + 0.01 * x[:, 1] + noise * rng.standard_normal(n)


def textbook(found, x, y, new):
    """Mean and deviation by inverting the whole covariance (Rasmussen and Williams, 2.25, 2.26)."""

    def covariance(a, b):
        apart = (a[:, None] - b[None]) / found.scale
        return found.variance * np.exp(-0.5 * (apart**2).sum(axis=2))

    inverse = np.linalg.inv(covariance(x, x) + found.noise * np.eye(len(x)))
    across = covariance(new, x)
    told = np.einsum("ij,jk,ik->i", across, inverse, across)
    return across @ inverse @ y, np.sqrt(found.variance - told + found.noise)


def test_the_posterior_is_the_textbooks():
    x, y = wave()
    found = fit_process(x, y)
    new = wave(20, seed=1)[0]
    mean, deviation = textbook(found, x, y, new)
    np.testing.assert_allclose(found.predict(new), mean, atol=1e-6)
    np.testing.assert_allclose(found.deviation(new), deviation, rtol=1e-2)


def test_it_interpolates_and_its_deviation_is_honest():
    x, y = wave(200, noise=0.05)
    found = fit_process(x, y)
    new, truth = wave(400, noise=0.05, seed=2)
    off = np.abs(found.predict(new) - truth)
    assert off.mean() < 0.07
    assert 0.85 < (off < 1.645 * found.deviation(new)).mean() < 0.97


def test_few_points_stand_for_many(monkeypatch):
    x, y = wave(300)
    whole = fit_process(x, y)
    monkeypatch.setattr(module, "MOST_POINTS", 100)
    few = fit_process(x, y)
    assert len(few.weights) == 100
    new = wave(50, seed=3)[0]
    np.testing.assert_allclose(few.predict(new), whole.predict(new), atol=0.02)
    assert (few.deviation(new) > 0).all()


def test_products_of_rows_and_others_are_those_of_all_pairs():
    x, y = wave()
    found = fit_process(x, y)
    rows, others = np.linspace(-1, 1, 5)[:, None], np.linspace(-80, 90, 7)[:, None]
    pairs = np.array([(r, o) for r in rows[:, 0] for o in others[:, 0]])
    product = found.predict_product(rows, others)
    np.testing.assert_allclose(product.ravel(), found.predict(pairs), atol=1e-9)


def test_nothing_to_learn_from_says_nothing():
    for found in (
        no_process(2),
        fit_process(np.zeros((9, 0)), np.ones(9)),
        fit_process(np.zeros((9, 2)), np.zeros(9)),
        fit_process(np.ones((2, 2)), np.ones(2)),
    ):
        d = len(found.centre)
        assert (found.predict(np.ones((3, d))) == 0).all()
        assert np.isfinite(found.deviation(np.ones((3, d)))).all()
    assert no_process(2).predict_product(np.ones((3, 1)), np.ones((4, 1))).shape == (3, 4)


def test_equal_calls_give_equal_answers():
    x, y = wave(60)
    np.testing.assert_array_equal(fit_process(x, y, 3).weights, fit_process(x, y, 3).weights)


def test_the_same_rows_told_again_say_the_same_and_others_what_they_hold():
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (80, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1]
    found = fit_process(x, y)
    again = tell_process(found, x, y)
    np.testing.assert_allclose(again.predict(x), found.predict(x), rtol=1e-10)
    np.testing.assert_allclose(again.deviation(x), found.deviation(x), rtol=1e-8)
    other = tell_process(found, x[:60], -y[:60])
    assert np.abs(other.predict(x[60:]) + y[60:]).mean() < 0.1
    assert not len(tell_process(no_process(2), x, y).weights)
