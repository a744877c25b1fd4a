"""Imputation of groups of counters and of cut runs from donors, by coupled clouds."""

import numpy as np
import pytest

from msbgen.engine.generate.imputation import find_donors, impute

SETTINGS = {"epsilon": 0.1, "tol": 1e-9}
# runs of a context in which the two groups alternate, and of three of them
RUNS, SEGMENTS = 40, 6
CONTEXT = np.repeat(np.arange(3), RUNS)
PLACE = 3.0 * CONTEXT[:, None]


def in_groups(seed=3):
    """Time, and two counters that follow the speed of a run: whole (n, segments, 3), in groups."""
    rng = np.random.default_rng(seed)
    speed = rng.standard_normal((3 * RUNS, 1, 1)) * np.ones((1, SEGMENTS, 1))
    whole = speed * [1.0, 1.0, -1.0] + 0.3 * rng.standard_normal((3 * RUNS, SEGMENTS, 3))
    grouped = whole.copy()
    grouped[0::2, :, 1] = np.nan
    grouped[1::2, :, 2] = np.nan
    return whole, grouped


@pytest.fixture
def residuals():
    return in_groups()


def donors(coarse, lag=None, **settings):
    lag = coarse.cumsum(axis=1) if lag is None else lag
    return find_donors(coarse, lag, PLACE, CONTEXT, **(SETTINGS | settings))


def imputed(coarse, **settings):
    return impute(coarse, donors(coarse, **settings))


def test_a_run_is_its_own_donor_of_what_it_holds(residuals):
    whole, grouped = residuals
    donor = donors(grouped)
    filled = impute(grouped, donor)
    held = np.isfinite(grouped)
    np.testing.assert_array_equal(filled[held], whole[held])
    assert np.isfinite(filled).all()
    assert (CONTEXT[donor] == CONTEXT[:, None, None]).all()  # three bandwidths apart
    assert (donors(grouped) == donor).all()  # equal data, equal donors
    np.testing.assert_array_equal(imputed(whole), whole)


def joined_at_random(grouped, rng):
    """The alternative: groups joined at random within a context."""
    filled = grouped.copy()
    for run, q in np.argwhere(np.isnan(grouped[:, 0])):
        others = np.flatnonzero(np.isfinite(grouped[:, 0, q]) & (CONTEXT[run] == CONTEXT))
        filled[run, :, q] = grouped[rng.choice(others), :, q]
    return filled


def test_counters_in_different_runs_depend_as_they_do_through_time():
    """The case for coupled clouds: random joining loses the dependence."""
    found = []
    for seed in range(3, 8):
        whole, grouped = in_groups(seed)
        fills = whole, imputed(grouped), joined_at_random(grouped, np.random.default_rng(seed))
        found.append([np.corrcoef(a[:, 2, 1], a[:, 2, 2])[0, 1] for a in fills])
    true, coupled, random = np.mean(found, axis=0)
    assert true == pytest.approx(-0.92, abs=0.02)
    assert coupled == pytest.approx(true, abs=0.25)
    assert abs(random) < 0.15


def test_donors_have_the_distribution_of_their_context(residuals):
    _, grouped = residuals
    donor = donors(grouped)[0::2, 0, 1]
    mean = np.array([grouped[donor, 0, 1].mean(), grouped[1::2, 0, 1].mean()])
    assert np.ptp(mean) < 0.2
    assert grouped[donor, 0, 1].std() == pytest.approx(grouped[1::2, 0, 1].std(), rel=0.15)


def test_a_context_without_a_group_has_donors_in_its_neighbours(residuals):
    _, grouped = residuals
    grouped[CONTEXT == 1, :, 2] = np.nan
    donor = donors(grouped)
    assert np.isfinite(impute(grouped, donor)).all()
    assert set(CONTEXT[donor[CONTEXT == 1, 0, 2]]) <= {0, 2}


def test_groups_of_which_no_context_has_both_are_joined(residuals):
    whole, _ = residuals
    whole[CONTEXT == 0, :, 1] = np.nan
    whole[CONTEXT > 0, :, 2] = np.nan
    assert np.isfinite(imputed(whole)).all()


def test_a_cut_run_goes_on_as_one_that_was_like_it(residuals):
    whole, _ = residuals
    cut = whole.copy()
    cut[::4, 3:] = np.nan
    donor = donors(cut)
    filled = impute(cut, donor)
    assert (donor[::4, 3:] == donor[::4, 3:4, :1]).all()  # one run for all that comes after
    np.testing.assert_array_equal(filled[:, :3], whole[:, :3])
    assert np.corrcoef(filled[::4, 4, 0], whole[::4, 4, 0])[0, 1] > 0.8


def test_a_run_cut_at_once_and_groups_that_were_cut_are_imputed(residuals):
    _, grouped = residuals
    grouped[0] = np.nan
    grouped[1::6, 2:] = np.nan
    assert np.isfinite(imputed(grouped)).all()
