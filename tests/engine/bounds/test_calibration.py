"""Bounds and bands: what they promise, and where they are guesses."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from conftest import cliff_task, synthetic_task
from held import grid_groups, left_out
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import duration_array
from msbgen.engine.bounds.calibration import Calibration
from msbgen.engine.bounds.model import calibrate_model
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress import deconvolve, uniform_knots


def bounds_of(held):
    return Calibration(held, ("duration",))


def test_bounds_with_learned_widths_cover_new_runs():
    rng = np.random.default_rng(4)
    rate, trials, covered = 0.1, 40, []
    for _ in range(trials):
        # the width at the new context is the same function of the others as at known ones
        contexts = np.linspace(1.0, 2.0, 40)[:, None]
        runs = np.exp(0.01 * rng.standard_normal((40, 1)) + 0.02 * rng.standard_normal((40, 3)))
        place = int(rng.integers(40))
        known = left_out(np.delete(contexts, place, axis=0), np.delete(runs, place, axis=0))
        bound = bounds_of(known).duration_bound(contexts[[place]], rate)
        covered += [np.mean(runs[place] <= bound)]
    mean, slack = np.mean(covered), 4 * np.std(covered) / np.sqrt(trials)
    assert 1 - rate - slack <= mean <= 1 - rate + 1 / 40 + slack


def test_a_rate_that_the_contexts_cannot_support_is_refused(calibration, between):
    calibration.duration_bound(between, 1 / 26)
    with pytest.raises(MeasurementError, match=r"at least 99 runs .* 100 runs of 25 contexts"):
        calibration.duration_bound(between, 0.01)
    with pytest.raises(MeasurementError, match="at least 26 runs"):
        calibration.bands(between, 1 / 26.5)
    with pytest.raises(ArgumentError, match=r"miscoverage is 1\.5"):
        calibration.duration_bound(between, 1.5)
    with pytest.raises(ArgumentError, match="miscoverage is 0"):
        calibration.bands(between, 0.0)


def test_smaller_rates_never_give_smaller_bounds(calibration, between):
    rates = np.linspace(0.9, 0.04, 40)
    bounds = np.array([calibration.duration_bound(between, rate) for rate in rates])
    assert np.all(np.diff(bounds, axis=0) >= 0)
    assert np.all(bounds[-1] > bounds[0])
    for holds in ("run", "segment"):
        bands = [calibration.bands(between, rate, holds=holds) for rate in (0.5, 0.2, 0.1, 0.04)]
        for (lower, upper), (wider_lower, wider_upper) in pairwise(bands):
            assert np.all(wider_lower <= lower)
            assert np.all(wider_upper >= upper)


def test_bands_cover_the_runs_of_new_contexts(calibration, between):
    truth = synthetic_task(between, n_runs=4)
    centre = calibration.left_out.centre
    own = deconvolve(
        Profiles.of(truth).counts,
        duration_array(truth),
        0.01,
        centre.amounts(between, centre.log_weights(between))[:, None],
        knots=uniform_knots(40),
    ).state
    own = own.reshape(*own.shape[:2], 5, 8, 3).sum(axis=3)
    assert calibration.quantities == ("duration", "cache_requests", "cache_misses")
    inside = {}
    for holds in ("run", "segment"):
        lower, upper = calibration.bands(between, 0.1, holds=holds)
        assert np.all(lower >= 0)
        inside[holds] = (own >= lower[:, None]) & (own <= upper[:, None])
    assert inside["run"].all(axis=2)[..., 0].mean() >= 0.8
    assert inside["segment"][..., 0].mean() >= 0.8
    assert inside["run"].mean() >= inside["segment"].mean()
    with pytest.raises(ArgumentError, match="holds is 'all'; one of run, segment is wanted"):
        calibration.bands(between, 0.1, holds="all")


def test_bands_of_counts_are_wide_where_a_cliff_may_lie(quick):
    task = cliff_task()
    calibration = calibrate_model(fit_profiles(task, quick), task).calibration
    lower, upper = calibration.bands([[4.0, 1.4], [9.0, 1.4], [2.0, 1.4]], 0.2)
    gap, beside, measured = np.log(upper[:, -1, 2] / lower[:, -1, 2])
    assert gap > np.log(10.0)  # half of the change to either side
    assert max(beside, measured) < 0.5 * gap
    time = np.log(upper[..., 0] / lower[..., 0]).max(axis=1)
    assert time[0] < 0.5 * gap


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_bounds_do_not_depend_on_the_order_of_contexts_and_runs(seed):
    rng = np.random.default_rng(seed)
    contexts = np.array([(w, f) for w in (1.0, 2.0, 4.0) for f in (1.0, 1.3, 2.0)])
    runs = np.exp(0.05 * rng.standard_normal((9, 1)) + 0.02 * rng.standard_normal((9, 3)))
    query = rng.uniform(1.0, 2.0, (4, 2))
    order = rng.permutation(9)
    bounds, bands = [], []
    for places in (np.arange(9), order):
        own = rng.permuted(runs[places], axis=1)
        held = left_out(contexts[places], own, groups=grid_groups(contexts[places]))
        bounds.append(bounds_of(held).duration_bound(query, 0.2))
        bands.append(bounds_of(held).bands(query, 0.2))
    np.testing.assert_allclose(*bounds, rtol=1e-8)
    np.testing.assert_allclose(*bands, rtol=1e-8)


def test_a_segment_of_small_errors_does_not_widen_the_band_of_the_others():
    rng = np.random.default_rng(8)
    n, segments, runs = 200, 10, 2
    noise = np.full(segments, 0.02)
    noise[3] = 1e-5
    log = noise * rng.standard_normal((n * runs, segments))
    log.reshape(n, runs, segments)[::16, :, 3] += 0.004  # little, in one context out of 16
    state = np.exp(log)[..., None] / segments
    contexts = np.linspace(1.0, 2.0, n)[:, None]
    held = left_out(contexts, np.ones((n, runs)), state=state)
    _, upper = bounds_of(held).bands(contexts, 0.05)
    # the largest of nine errors: 2.8; widths are learned from few runs nearby
    assert np.log(upper * segments).mean() < 4.0 * 0.02
    assert upper[:, 3, 0].mean() < 0.99 * upper[:, 4, 0].mean()


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_equal_or_extreme_runs_give_finite_bounds_without_a_warning(seed):
    rng = np.random.default_rng(seed)
    contexts = np.unique(rng.integers(1, 4, (12, 2)).astype(float), axis=0)
    n = len(contexts)
    noise = rng.choice([0.0, 1e-12, 0.1, 3.0], n)
    runs = [np.exp(s * rng.standard_normal(rng.integers(1, 4))) for s in noise]
    state = rng.choice([0.0, 1.0, 1e-9, 1e12], (sum(map(len, runs)), 2, 2))
    state[..., 0] = np.maximum(state[..., 0], 1e-3)
    held = left_out(contexts, runs, deviation=rng.choice([0.0, 0.1, 1.0], n), state=state)
    calibration = Calibration(held, ("duration", "misses"))
    query = np.vstack([contexts, rng.uniform(0.1, 9.0, (5, 2))])
    for rate in (0.5, 1.001 / (n + 1)):
        bound = calibration.duration_bound(query, rate)
        assert np.all((bound >= 0) & np.isfinite(bound))
        lower, upper = calibration.bands(query, rate)
        assert np.all((lower >= 0) & (lower <= upper) & np.isfinite(upper))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 8))
def test_known_contexts_are_no_guesses_in_any_order_of_resources(seed, m, n):
    rng = np.random.default_rng(seed)
    contexts = np.unique(rng.integers(1, 5, (n, m)).astype(float), axis=0)
    if len(contexts) == 1:
        contexts = np.vstack([contexts, contexts + 1.0])
    query, order = rng.integers(0, 11, (20, m)) / 2 + 0.5, rng.permutation(m)
    beyond = []
    for columns in (np.arange(m), order):
        held = left_out(contexts[:, columns], np.ones((len(contexts), 1)))
        trend, z = held.trend, held.trend.scaled(held.trend.contexts)
        deviation = [
            oracles.kriging_deviation(
                np.delete(z, i, axis=0), z[i], trend.lengths[0], trend.nugget[0]
            )
            for i in range(len(z))
        ]
        calibration = bounds_of(dataclasses.replace(held, deviation=np.array(deviation)))
        assert not calibration.beyond(contexts[:, columns]).any()
        beyond.append(calibration.beyond(query[:, columns]))
    np.testing.assert_array_equal(*beyond)


def test_contexts_farther_than_all_left_out_ones_are_guesses():
    contexts = np.array([(1.0,), (2.0,), (4.0,), (8.0,), (16.0,)])
    held = left_out(contexts, np.ones((5, 2)))
    inner = held.query([[5.6]]).deviation[0]
    for deviation, guess in ((2 * inner, False), (inner / 2, True)):
        some = dataclasses.replace(held, deviation=np.full(5, deviation))
        assert bounds_of(some).beyond([[5.6]]).tolist() == [guess]
