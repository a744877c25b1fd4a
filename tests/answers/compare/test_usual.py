"""The usual noise of contexts: against every split by hand, and where runs hide a mode."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.answers.compare.band import ratios_everywhere
from msbgen.answers.compare.ratio import Differences
from msbgen.answers.compare.usual import mean_by_side, usual_noise

GRID = np.array([[w, f] for w in (2.0, 8.0, 12.0) for f in (1.2, 1.8, 2.3)])


@given(st.integers(0, 999))
@settings(deadline=None, max_examples=30)
def test_contexts_are_split_where_the_likelihood_gains_most(seed):
    rng = np.random.default_rng(seed)
    scale = np.where(rng.random(9) < 0.4, 0.1, 1.0)
    variance, freedom = scale * rng.chisquare(4, 9), rng.integers(1, 5, 9).astype(float)

    def cost(part):
        return freedom[part].sum() * np.log(np.average(variance[part], weights=freedom[part]))

    best, expected = cost(GRID[:, 0] > 0), np.full(9, np.average(variance, weights=freedom))
    best -= 10
    for column in GRID.T:
        for level in np.unique(column)[1:]:
            below = column < level
            if cost(below) + cost(~below) < best:
                best = cost(below) + cost(~below)
                means = [np.average(variance[p], weights=freedom[p]) for p in (below, ~below)]
                expected = np.where(below, *means)
    np.testing.assert_allclose(usual_noise(GRID, variance, freedom), expected)
    both = usual_noise(GRID, np.stack([variance, 2 * variance]), np.stack([freedom, freedom]))
    np.testing.assert_allclose(both, [expected, 2 * expected])


def test_one_context_and_single_runs_have_their_own_mean():
    assert usual_noise(GRID[:1], np.array([2.0]), np.array([4.0])).tolist() == [2.0]
    assert mean_by_side(np.arange(9.0), np.zeros(9), np.ones(9)).tolist() == [4.0] * 9


def runs_of_two_modes(rng):
    """Runs (9, 3) of equal versions; those of few cache ways are fast or slow by chance."""
    few = GRID[:, 0] == 2
    for _ in range(2):
        version = np.exp(0.005 * rng.standard_normal((9, 3)))
        version[few] *= np.where(rng.random((3, 3)) < 1 / 3, 0.7, 1.0)
        yield version


def test_a_context_whose_runs_hide_a_mode_does_not_decide():
    rng, seen, errors = np.random.default_rng(0), 0, []
    for _ in range(30):
        old, new = runs_of_two_modes(rng)
        # all runs of one context are slow in the old version, and fast in the new one
        old[0], new[0] = np.exp(0.005 * rng.standard_normal((2, 3))) * [[1.0], [0.7]]
        found = Differences.of(GRID, old, 1.02 * new).mean(None, 0.95)
        errors.append(np.log(found.value / 1.02))
        seen += found.low > 1
    assert seen >= 24
    assert np.median(np.abs(errors)) < 0.004


def test_contexts_of_two_modes_do_not_widen_the_band_elsewhere():
    rng = np.random.default_rng(1)
    for _ in range(4):
        differences = Differences.of(GRID, *runs_of_two_modes(rng))
        value, low, high = ratios_everywhere(differences, GRID, 0.95, rng)
        assert np.all((low <= 1) & (high >= 1))
        assert np.all((high / value)[GRID[:, 0] > 2] < 1.025)
