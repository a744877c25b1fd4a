"""Widths: planted shares are found, whatever the scale."""

import numpy as np
import pytest

from msbgen.runtimes.runs import Observations
from msbgen.runtimes.spread import WIDTHS, fit_spread


def planted(rng, n=40_000, shape=(8, 6)):
    workload, platform = rng.integers(shape[0], size=n), rng.integers(shape[1], size=n)
    beside = rng.integers(-1, shape[0], (n, 1))
    shares = [rng.normal(size=k) * 0.5 for k in (shape[0], shape[1], shape[0])]
    log = -3.0 + shares[0][workload] + shares[1][platform]
    log = log + np.where(beside[:, 0] >= 0, 0.7 + shares[2][beside[:, 0]], 0.0)
    return Observations(workload, platform, beside, shape), np.exp(log) * rng.normal(size=n), log


def width_of(spread, name, runs, deviation, correction):
    return spread.widths(runs, deviation, correction)[WIDTHS.index(name)]


def fitted(runs, residual):
    """Without features, members that differ, or corrections."""
    features = np.empty((8, 0)), np.empty((6, 0))
    return fit_spread(runs, residual, *np.zeros((2, len(residual))), features)


def test_planted_widths_are_recovered_up_to_a_factor():
    rng = np.random.default_rng(3)
    runs, residual, log = planted(rng)
    width = width_of(fitted(runs, residual), "additive", runs, *np.zeros((2, len(runs))))
    away = np.log(width) - log
    assert away.std() < 0.08  # of shares with a deviation of 0.9


def test_a_cell_that_scatters_more_than_its_row_and_column_is_wider():
    rng = np.random.default_rng(6)
    runs, residual, _ = planted(rng)
    odd = (runs.workload == 3) & (runs.platform == 2) & (runs.n_neighbours == 0)
    residual = np.where(odd, 10.0 * residual, residual)
    spread = fitted(runs, residual)
    widths = {
        name: width_of(spread, name, runs, *np.zeros((2, len(runs))))
        for name in ("additive", "local")
    }
    same = (runs.workload == 3) & (runs.platform == 1) & (runs.n_neighbours == 0)
    apart = {name: np.log(w[odd][0] / w[same][0]) for name, w in widths.items()}
    assert apart["local"] > apart["additive"] / 2 + 0.4  # its additive share has the exponent 1/2


@pytest.mark.parametrize("name", WIDTHS)
def test_widths_are_positive_and_grow_with_disagreement_and_correction(name):
    rng = np.random.default_rng(4)
    runs, residual, _ = planted(rng, n=500)
    spread, low, high = fitted(runs, residual), np.zeros(len(runs)), np.full(len(runs), 0.3)
    width = width_of(spread, name, runs, low, low)
    assert (width > 0).all()
    assert (width_of(spread, name, runs, high, low) > width).all() == (WIDTHS.index(name) > 1)
    assert (width_of(spread, name, runs, low, high) > width).all() == (WIDTHS.index(name) > 2)


@pytest.mark.parametrize("name", WIDTHS)
def test_residuals_of_zero_have_a_width_too(name):
    rng = np.random.default_rng(5)
    runs, residual, _ = planted(rng, n=50)
    width = width_of(fitted(runs, np.zeros_like(residual)), name, runs, *np.zeros((2, 50)))
    assert np.isfinite(width).all()
    assert (width > 0).all()
