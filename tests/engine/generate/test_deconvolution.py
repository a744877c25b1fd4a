"""Deconvolution of counts within their sampling intervals, by all runs together."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from msbgen.engine.generate.deconvolution import (
    deconvolved_counts,
    deconvolved_trend,
    in_runs,
    interval_windows,
    neighbours,
)
from msbgen.engine.generate.partial import fill_means
from msbgen.engine.generate.progress import to_wall_time, uniform_knots
from msbgen.engine.trend.fit import fit_trend
from msbgen.engine.trend.time_model import Windows
from tasks import runs_of, task

CONTEXTS = np.array([[w, f] for w in (2.0, 4.0, 8.0) for f in (1.0, 1.3, 1.6, 2.0)])
BINS, LONG = 40, 0.03


@pytest.fixture(scope="module")
def runs():
    """Runs of which an interval holds two to five bins, with misses in one bin above all."""
    counts, duration = task(CONTEXTS, 3, rare=True, interval=LONG)
    return runs_of(counts, duration, CONTEXTS, LONG, BINS)


def in_proportion(position, amounts, prior):
    """Amounts of one run's intervals shared out over the bins by a prior, one cell at a time."""
    out = np.zeros(len(prior))
    for i, amount in enumerate(amounts):
        begin, end = len(prior) * position[i : i + 2]
        overlap = [max(0.0, min(end, j + 1) - max(begin, j)) for j in range(len(prior))]
        share = np.array(overlap) * prior
        if share.sum() > 0:
            out += amount * share / share.sum()
    return out


def corrected(runs, prior, kernel, steps):
    """The plain iteration of one counter, (n, bins), run by run."""
    position, amounts = runs.intervals
    prior = prior.copy()
    for step in range(steps + 1):
        state = np.array(
            [in_proportion(p, a[:, 1], prior[c])
             for p, a, c in zip(position, amounts, runs.context)]
        )  # fmt: skip
        if step < steps:
            sums = np.array([state[runs.context == c].sum(axis=0) for c in range(len(prior))])
            before = kernel @ (runs.n_runs[:, None] * prior)
            prior *= np.divide(kernel @ sums, before, out=np.ones_like(before), where=before > 0)
    return state


def test_a_step_is_richardson_and_lucy_s_over_neighbouring_contexts(runs):
    prior = runs.means(runs.state)[..., 1:]
    near = np.random.default_rng(0).random((1, len(CONTEXTS), len(CONTEXTS)))
    found = in_runs(runs, deconvolved_counts(runs, prior, near, 1)[0])
    np.testing.assert_allclose(found[..., 0], corrected(runs, prior[..., 0], near[0], 1), rtol=1e-6)


def test_steps_along_the_one_before_need_fewer(runs):
    prior, near = runs.means(runs.state)[..., 1:], np.ones((1, len(CONTEXTS), len(CONTEXTS)))
    found = in_runs(runs, deconvolved_counts(runs, prior, near, 10)[0])[..., 0]
    plain = corrected(runs, prior[..., 0], near[0], 10)
    burst = 30 * BINS // 50  # the bin that holds nearly all
    shares = [(p[:, burst] / p.sum(axis=1)).mean() for p in (runs.state[..., 1], plain, found)]
    assert shares[0] < shares[1] < shares[2]
    # every interval keeps what was counted in it
    np.testing.assert_allclose(found.sum(axis=1), runs.intervals[1][..., 1].sum(axis=1), rtol=1e-9)


def test_corrections_that_all_contexts_share_are_the_same_in_every_form():
    counts, duration = task(CONTEXTS, 2, interval=LONG)
    counts[:, :, :6, 1] = 0.0  # without events, amounts fall to the least one
    runs = runs_of(counts, duration, CONTEXTS, LONG, BINS)
    scale = np.geomspace(1.0, 1e6, len(CONTEXTS))[:, None, None]
    prior = runs.means(runs.state)[..., 1:] + scale * 1e-9 * np.nanmax(counts[..., 1])
    row = np.ones((1, len(CONTEXTS)))
    wanted, _ = deconvolved_counts(runs, prior, [np.repeat(row, len(CONTEXTS), axis=0)], 20)
    found, _ = deconvolved_counts(runs, prior, [row], 20)
    assert found[0].min() < 1e-9 * prior[0].min()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_neighbours_are_nearer_where_a_counter_changes_slowly(runs):
    trend, _ = deconvolved_trend(runs, 8, 0, lambda: None)
    (near,) = neighbours(trend)
    assert near.shape == (len(CONTEXTS), len(CONTEXTS))
    np.testing.assert_array_equal(near.diagonal(), 1.0)
    np.testing.assert_allclose(near, near.T)
    assert np.all((near >= 0) & (near <= 1))
    assert near.min() < 0.1 < np.median(near.max(axis=1, where=near < 1, initial=0))


def test_windows_scale_runs_to_the_mean_of_their_context(runs):
    windows = interval_windows(runs)
    mean = np.bincount(runs.context, runs.duration) / runs.n_runs
    spent = np.bincount(windows.context, windows.time) / runs.n_runs
    np.testing.assert_allclose(spent, mean)


# Errors of left-out intervals by the trend and by one model of all: time, then time and misses.
@pytest.mark.parametrize(
    ("counters", "errors", "used"),
    [
        (False, [2.0, 1.0], True),
        (False, [1.0, 2.0], False),
        (True, [1.0, 0.99, 1.0, 4.0, 0.99, 3.0], True),
        (False, [1.0, 0.99], False),  # hardly better
        (True, [1.0, 1.01, 1.0, 4.0, 1.01, 3.0], False),
    ],
)
def test_left_out_intervals_decide_whether_one_model_of_all_is_used(runs, counters, errors, used):
    given = iter(errors)
    with patch.object(Windows, "error", lambda *_: next(given)):
        trend, state = deconvolved_trend(runs, 8, 1, lambda: None, counters=counters)
    assert len(trend.time_model) == used
    assert state.shape == runs.state.shape


@pytest.mark.parametrize(
    ("rows", "n_runs", "error", "used"),
    [
        (slice(9), 1, 1.9, True),
        (slice(9), 1, 2.1, False),
        (slice(9), 2, 1.9, False),
        (slice(12), 1, 1.9, False),  # not few
        ([4, 5, 6, 7, 12, 13], 1, 1.9, False),  # one resource
    ],
)
def test_few_single_runs_over_several_resources_take_the_model_unless_it_is_far_worse(
    rows, n_runs, error, used
):
    known = np.concatenate([CONTEXTS, [[4.0, 1.1], [4.0, 1.8]]])[rows]
    few = runs_of(*task(known, n_runs, interval=LONG), known, LONG, BINS)
    given = iter([1.0, error])
    with patch.object(Windows, "error", lambda *_: next(given)):
        trend, _ = deconvolved_trend(few, 8, 1, lambda: None)
    assert len(trend.time_model) == used


def test_windows_of_a_counter_are_of_the_runs_that_hold_it(partial):
    windows = interval_windows(partial, 1)
    held = np.isfinite(partial.state[:, 0, 1])
    total = partial.intervals[1][..., 1].sum(axis=1)
    counted = np.bincount(partial.context, np.where(held, total, 0.0))
    np.testing.assert_allclose(np.bincount(windows.context, windows.time), counted)


def resolved(runs):
    """Trend of runs, after a check that it and their states are nearer to the truth."""
    trend, state = deconvolved_trend(runs, 8, 3, lambda: None)
    assert trend.time_model
    fine = runs_of(*task(CONTEXTS, 3, rare=True, interval=0.001), CONTEXTS, 0.001, BINS)
    truth = fine.means(fine.state)
    for k in range(2):
        off = [
            (np.abs(s - truth).sum(axis=1) / truth.sum(axis=1))[:, k].mean()
            for s in (runs.means(runs.state), runs.means(state), trend.predict(CONTEXTS))
        ]
        assert off[1] < 0.5 * off[0]
        assert off[2] < 0.75 * off[0]
    return trend


def test_one_law_of_all_intervals_resolves_what_happens_within_them(runs):
    trend = resolved(runs)
    # runs of the trend last as long as those measured
    made = trend.predict(CONTEXTS)
    _, duration = to_wall_time(made, 1e7, LONG, knots=uniform_knots(BINS))
    mean = np.bincount(runs.context, runs.duration) / runs.n_runs
    np.testing.assert_allclose(duration, mean, rtol=0.03)


@pytest.fixture(scope="module")
def partial():
    """Six runs of which every other one lacks the misses, and one of each context was cut."""
    counts, duration = task(CONTEXTS, 6, rare=True, interval=LONG)
    counts[:, 1::2, :, 1] = np.nan
    complete = np.ones(duration.shape, dtype=bool)
    for c in range(len(CONTEXTS)):
        kept = int(0.7 * duration[c, 2] / LONG)
        counts[c, 2, kept:], duration[c, 2], complete[c, 2] = np.nan, kept * LONG, False
    return runs_of(counts, duration, CONTEXTS, LONG, BINS, complete=complete)


def test_counters_that_a_run_does_not_hold_stay_missing(partial):
    prior = np.nan_to_num(partial.means(partial.state)[..., 1:])
    near = np.ones((1, len(CONTEXTS), len(CONTEXTS)))
    expected, means = deconvolved_counts(partial, prior, near, 2)
    state = in_runs(partial, expected)
    np.testing.assert_array_equal(np.isnan(state), np.isnan(partial.state[..., 1:]))
    whole = np.isnan(partial.expected) & np.isfinite(state[:, 0, 0])
    counted = partial.intervals[1][whole][..., 1].sum(axis=1)
    np.testing.assert_allclose(state[whole, :, 0].sum(axis=1), counted, rtol=1e-9)
    every = np.concatenate([partial.state[..., :1], state], axis=2)
    wanted = partial.amounts(every, time_resolved=False)[..., 1:]
    np.testing.assert_allclose(means, wanted, rtol=1e-9)


def test_a_level_of_zero_is_filled_in_where_all_fitted_ones_are_positive():
    counts, duration = task(CONTEXTS, 2, interval=LONG)
    contexts = CONTEXTS.copy()
    contexts[0, 0] = 0.0
    runs = runs_of(counts, duration, contexts, LONG, BINS)
    untimed = np.where(runs.context[:, None] == 0, [0.2, 0.5], 0.0)
    runs = replace(runs, untimed=untimed)._without_times()
    assert runs.timed_contexts.tolist() == list(range(1, len(CONTEXTS)))
    trend, _ = deconvolved_trend(runs, 8, 0, lambda: None)
    assert np.isfinite(trend.predict(contexts)).all()


def test_windows_of_cut_runs_end_at_the_cut_and_take_as_long_as_those_of_others(partial):
    windows, cut = interval_windows(partial), np.isfinite(partial.expected)
    many = np.bincount(partial.context, ~cut)
    mean = np.bincount(partial.context, np.where(cut, 0.0, partial.duration)) / many
    own = (windows.end - windows.begin)[:, None] * (windows.context[:, None] == range(len(mean)))
    assert np.all(own.sum(axis=0) < BINS * partial.n_runs)
    spent = np.bincount(windows.context, windows.time) - many * mean
    share = (own.sum(axis=0) / BINS - many) * mean
    np.testing.assert_allclose(spent, share, rtol=0.1)


def test_bins_measured_in_every_context_decide_on_the_form_of_the_trend():
    counts, duration = task(CONTEXTS, 2, interval=LONG)
    complete = np.ones(duration.shape, dtype=bool)
    kept = int(0.6 * duration[0].min() / LONG)
    counts[0, :, kept:], duration[0], complete[0] = np.nan, kept * LONG, False
    runs = runs_of(counts, duration, CONTEXTS, LONG, BINS, complete=complete)
    seen = int(np.isfinite(runs.amounts(runs.state)).all(axis=(0, 2)).sum())
    assert 0 < seen < BINS
    with patch("msbgen.engine.generate.deconvolution.fit_trend", wraps=fit_trend) as fitted:
        trend, _ = deconvolved_trend(runs, 8, 0, lambda: None)
    assert fitted.call_args.args[1].shape[1] == seen
    made = trend.predict(CONTEXTS)
    assert made.shape[1] == BINS
    # and the trend meets what is filled in from it
    again = trend.refit(fill_means(runs.amounts(runs.state), trend), weights=runs.weight)
    np.testing.assert_allclose(again.predict(CONTEXTS), made, rtol=1e-3, atol=1e-3 * made.max())


def test_one_law_of_all_intervals_fits_partial_runs_too(partial):
    resolved(partial)
