"""Imputation of lost samples: nearer to the truth than a rate between their neighbours."""

from unittest.mock import patch

import numpy as np
import pytest

from msbgen.data.gaps import fill_gaps
from msbgen.engine.generate.lost import _correction, fill_lost
from msbgen.engine.trend.fit import fit_trend
from tasks import GRID, INSTRUCTIONS, INTERVAL, TIME, runs_of, task

BINS = 100


def lossy(clock, *, cut=False):
    """Counts, lost samples, interpolated counts, the runs of these, and the true trend."""
    counts, duration = task(GRID, 4, noise=0.01, rare=True)
    complete = np.ones(duration.shape, dtype=bool)
    if cut:
        kept = int(0.9 * duration[0, 0] / INTERVAL)
        counts[0, 0, kept:], duration[0, 0], complete[0, 0] = np.nan, kept * INTERVAL, False
    there = np.isfinite(counts)
    lost = there & (np.random.default_rng(3).random(there.shape[:3]) < 0.1)[..., None]
    lost[:, :, 0] = False
    seen = np.where(lost, np.nan, counts)
    filled = np.stack(
        [fill_gaps(seen[..., k], duration, INTERVAL, carried=False) for k in range(2)], axis=-1
    )
    measured = runs_of(filled, duration, GRID, INTERVAL, BINS, clock=clock, complete=complete)
    fine = task(GRID, 1, noise=0.0, rare=True, interval=1e-3)
    fine = runs_of(*fine, GRID, 1e-3, BINS, clock=clock)
    trend = fit_trend(GRID, fine.means(fine.state), find_caps=False)
    return counts, lost, filled, measured, trend


@pytest.mark.parametrize("clock", [TIME, INSTRUCTIONS])
def test_imputed_samples_are_nearer_than_a_rate_between_neighbours(clock):
    counts, lost, filled, runs, trend = lossy(clock)
    found = fill_lost(filled, lost, runs, trend)
    np.testing.assert_array_equal(found[~lost], filled[~lost])
    for k in range(2):
        gone = lost[..., k]
        off = [np.abs(a - counts)[gone, k].mean() for a in (found, filled)]
        assert off[0] < 0.6 * off[1]


def test_totals_are_nearer_to_those_of_other_runs():
    counts, lost, filled, runs, trend = lossy(INSTRUCTIONS)
    found = fill_lost(filled, lost, runs, trend)
    total, before, after = (np.nansum(a[..., 0], axis=2) for a in (counts, filled, found))
    assert np.abs(after - total).max() < 0.2 * np.abs(before - total).max()


def test_samples_of_a_cut_run_are_imputed_up_to_its_cut():
    counts, lost, filled, runs, trend = lossy(INSTRUCTIONS, cut=True)
    found = fill_lost(filled, lost, runs, trend)[0, 0]
    assert np.isnan(found[np.isnan(counts[0, 0])]).all()
    gone = lost[0, 0, :, 0]
    assert gone.any()
    off = [np.abs(a[gone, 0] - counts[0, 0, gone, 0]).max() for a in (found, filled[0, 0])]
    assert off[0] < off[1]


def test_imputed_samples_are_scaled_by_the_level_of_the_run():
    _, lost, filled, runs, trend = lossy(INSTRUCTIONS)
    usual = fill_lost(filled, lost, runs, trend)[0, 0]
    filled[0, 0, :, 1] *= 1.3
    np.testing.assert_allclose(fill_lost(filled, lost, runs, trend)[0, 0, :, 1], 1.3 * usual[:, 1])


def test_totals_are_corrected_where_samples_were_lost():
    runs = lossy(INSTRUCTIONS)[3]
    many = np.where(np.arange(len(runs.run_total)) % 2, 8, 0)
    off = np.where(many, np.where(np.arange(len(many)) % 4 == 1, 0.1, -0.1), 0.0)
    share = _correction(1e7 * np.exp(off), many, np.ones(len(many), dtype=bool), runs)
    np.testing.assert_array_equal(share[many == 0], 0.0)
    np.testing.assert_allclose(np.log1p(share[many > 0]), -off[many > 0], atol=0.03)


def test_a_cut_run_has_its_expected_total_and_is_not_corrected():
    _, lost, filled, runs, trend = lossy(INSTRUCTIONS, cut=True)
    found, totals = [], []
    for change in (0.0, 0.01):

        def corrected(total, *_, change=change):
            totals.append(total)
            return np.full(len(total), change)

        with patch("msbgen.engine.generate.lost._correction", corrected):
            found.append(fill_lost(filled, lost, runs, trend)[..., 0])
    assert totals[0][0] == runs.expected[0]
    np.testing.assert_array_equal(found[0][0, 0], found[1][0, 0])
    before, after = (np.nansum(counts[1:], axis=2) for counts in found)
    gone = lost[1:, ..., 0].any(axis=2)
    np.testing.assert_allclose(after[gone], 1.01 * before[gone])


def test_a_counter_that_a_run_does_not_hold_stays_missing():
    counts, lost, filled, runs, trend = lossy(INSTRUCTIONS)
    filled[:, 1, :, 1], lost[:, 1, :, 1] = np.nan, False
    found = fill_lost(filled, lost, runs, trend)
    assert np.isnan(found[:, 1, :, 1]).all()
    assert np.isfinite(found[..., 0]).sum() == np.isfinite(counts[..., 0]).sum()
