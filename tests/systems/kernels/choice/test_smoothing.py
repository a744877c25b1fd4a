"""Noise of curves, and curves without it, on curves that are known."""

import numpy as np
import pytest

from msbgen.systems.kernels.choice.prior import centred
from msbgen.systems.kernels.choice.smoothing import smooth_curves

PLACES = np.log(np.linspace(0.4, 1.6, 31))[:, None]


def curves(count, seed):
    """Curves with a common kink, and with a level and a slope of each program."""
    rng = np.random.default_rng(seed)
    x = PLACES[:, 0]
    share = rng.uniform(0.2, 1, (count, 1))
    return rng.normal(0, 2, (count, 1)) + np.log(share / np.exp(x) + 1) + 0.3 * np.maximum(x, 0.0)


def off(found, truth):
    """Root mean square of the difference, levels aside."""
    apart = found - truth
    return np.sqrt(np.nanmean((apart - np.nanmean(apart, axis=1, keepdims=True)) ** 2))


@pytest.mark.parametrize(("noise", "missing"), [(0.003, 0), (0.03, 0), (0.3, 0), (0.03, 0.2)])
def test_noise_is_estimated_and_removed(noise, missing):
    truth, rng = curves(12, 1), np.random.default_rng(2)
    rows = truth + noise * rng.standard_normal(truth.shape)
    rows[rng.random(rows.shape) < missing] = np.nan
    found = smooth_curves(rows, np.ones(12), PLACES)
    assert np.sqrt(found.noise) == pytest.approx(noise, rel=0.2)
    assert off(found.curves, truth) < 0.6 * off(rows, truth)
    assert (np.isnan(found.curves) == np.isnan(rows)).all()


def test_curves_without_noise_keep_their_kinks():
    truth = curves(12, 1)
    found = smooth_curves(truth, np.ones(12), PLACES)
    assert np.sqrt(found.noise) < 1e-3
    assert off(found.curves, truth) < 1e-4


def test_levels_and_units_do_not_matter():
    rows = curves(8, 3) + 0.05 * np.random.default_rng(0).standard_normal((8, 31))
    shift = np.arange(8.0)[:, None]
    one, other = (smooth_curves(x, np.ones(8), PLACES) for x in (rows, rows + shift))
    np.testing.assert_allclose(other.curves - shift, one.curves, atol=1e-9)
    assert one.noise == pytest.approx(other.noise)


@pytest.mark.parametrize(("programs", "contexts"), [(8, 15), (1, 31)])
def test_few_contexts_or_programs_are_taken_as_measured(programs, contexts):
    rows = np.random.default_rng(0).standard_normal((programs, contexts))
    found = smooth_curves(rows, np.ones(programs), PLACES[:contexts])
    assert found.curves is rows
    assert found.noise == 0


def test_levels_of_incomplete_rows_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    rows, weight = rng.standard_normal((5, 7)), rng.uniform(0.5, 2, 5)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    rows[0] = 1.0
    level, mean = centred(rows, weight)
    known = np.isfinite(rows)
    apart = np.where(known, rows - level[:, None] - mean, 0.0)
    np.testing.assert_allclose(apart.sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose((weight[:, None] * apart).sum(axis=0), 0, atol=1e-6)
