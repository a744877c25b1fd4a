"""Widths: planted shares are found, whatever the scale."""

import numpy as np

from msbgen.predict.spread import WIDTHS, fit_spread
from msbgen.predict.towers import Observations


def planted(rng, n=40_000, shape=(8, 6)):
    workload, platform = rng.integers(shape[0], size=n), rng.integers(shape[1], size=n)
    beside = rng.integers(-1, shape[0], (n, 1))
    shares = [rng.normal(size=k) * 0.5 for k in (shape[0], shape[1], shape[0])]
    log = -3.0 + shares[0][workload] + shares[1][platform]
    log = log + np.where(beside[:, 0] >= 0, 0.7 + shares[2][beside[:, 0]], 0.0)
    return Observations(workload, platform, beside, shape), np.exp(log) * rng.normal(size=n), log


def test_planted_widths_are_found_up_to_a_factor():
    rng = np.random.default_rng(3)
    runs, residual, log = planted(rng)
    width = fit_spread(runs, residual).width("additive", runs, np.zeros(len(runs)))
    away = np.log(width) - log
    assert away.std() < 0.08  # of shares with a deviation of 0.9


def test_widths_are_positive_and_grow_with_disagreement():
    rng = np.random.default_rng(4)
    runs, residual, _ = planted(rng, n=500)
    spread = fit_spread(runs, residual)
    low, high = np.zeros(len(runs)), np.full(len(runs), 0.3)
    for name in WIDTHS:
        assert (spread.width(name, runs, low) > 0).all()
    assert (
        spread.width("disagreement", runs, high) > spread.width("disagreement", runs, low)
    ).all()


def test_residuals_of_zero_have_a_width_too():
    rng = np.random.default_rng(5)
    runs, residual, _ = planted(rng, n=50)
    width = fit_spread(runs, np.zeros_like(residual)).width("additive", runs, np.zeros(50))
    assert np.isfinite(width).all()
    assert (width > 0).all()
