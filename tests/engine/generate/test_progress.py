import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from msbgen.engine.generate.progress import (
    deconvolve,
    lost_counts,
    to_progress,
    to_wall_time,
    uniform_knots,
)
from strategies import measured_runs

few = settings(max_examples=25)


def sampling_knots(counts, duration, interval, clock=1):
    """Progress at the start and at every sampling time of one run: with these nothing is lost."""
    ends = np.append(interval * np.arange(1, len(counts)), duration)
    reached = np.diff(ends, prepend=0.0) if clock == 0 else counts[:, clock - 1]
    return np.append(0.0, np.cumsum(reached)) / np.cumsum(reached)[-1]


@given(measured_runs(), st.integers(0, 2))
def test_knots_at_sampling_times_give_the_run_back_exactly(run, clock):
    counts, duration, interval = run
    counts[0] += 1  # every counter is a clock here
    knots = sampling_knots(counts, duration, interval, clock)
    progress = to_progress(counts, duration, interval, knots=knots, clock=clock)
    back, ended = to_wall_time(progress.state, progress.total, interval, knots=knots, clock=clock)
    assert ended == pytest.approx(duration, rel=1e-12)
    assert back.shape == counts.shape
    np.testing.assert_allclose(back, counts, rtol=1e-9, atol=1e-9 * counts.sum())


@few
@given(measured_runs(least_clock=1.0), st.integers(1, 12))
def test_amounts_equal_differences_of_interpolated_cumulative_counts(run, n_bins):
    counts, duration, interval = run
    knots = uniform_knots(n_bins)
    wanted = oracles.progress_amounts(counts, duration, interval, knots)
    state = to_progress(counts, duration, interval, knots=knots).state
    np.testing.assert_allclose(state, wanted, rtol=1e-8, atol=1e-8 * (1 + np.abs(wanted).sum()))


@few
@given(measured_runs(), st.integers(1, 12), st.integers(0, 1))
def test_there_and_back_keeps_duration_and_totals_on_any_grid(run, n_bins, clock):
    counts, duration, interval = run
    knots = uniform_knots(n_bins)
    progress = to_progress(counts, duration, interval, knots=knots, clock=clock)
    np.testing.assert_allclose(
        progress.state[:, 0].sum(), duration if clock else counts[:, 0].sum(), rtol=1e-9
    )
    back, ended = to_wall_time(progress.state, progress.total, interval, knots=knots, clock=clock)
    assert ended == pytest.approx(duration, rel=1e-9)
    assert len(back) == np.ceil(duration / interval - 1e-6)
    np.testing.assert_allclose(back.sum(axis=0), counts.sum(axis=0), rtol=1e-9, atol=1e-9)


def test_a_plateau_keeps_its_time_in_one_bin():
    counts = np.array([[5.0, 1.0], [0.0, 7.0], [0.0, 7.0], [5.0, 1.0]])
    state = to_progress(counts, 4.0, 1.0, knots=uniform_knots(4)).state
    np.testing.assert_allclose(state, [[0.5, 0.5], [0.5, 0.5], [2.5, 14.5], [0.5, 0.5]])


def test_runs_are_treated_one_by_one_and_missing_ones_stay_missing():
    counts = np.full((2, 2, 3, 2), np.nan)
    counts[0, 0] = [[2.0, 1.0], [2.0, 1.0], [1.0, 1.0]]
    counts[0, 1, :2] = [[4.0, 1.0], [1.0, 1.0]]
    counts[1, 0, :1] = [[0.0, 1.0]]  # the progress counter counted nothing
    duration = np.array([[2.5, 1.2], [0.7, np.nan]])
    knots = uniform_knots(5)
    progress = to_progress(counts, duration, 1.0, knots=knots)
    np.testing.assert_array_equal(progress.total, [[5.0, 5.0], [0.0, np.nan]])
    assert np.isnan(progress.state[1]).all()
    for r, n in ((0, 3), (1, 2)):
        alone = to_progress(counts[0, r, :n], duration[0, r], 1.0, knots=knots)
        np.testing.assert_array_equal(progress.state[0, r], alone.state)
    back, ended = to_wall_time(progress.state, progress.total, 1.0, knots=knots)
    np.testing.assert_allclose(ended, [[2.5, 1.2], [np.nan, np.nan]])
    np.testing.assert_array_equal(np.isfinite(back).all(-1).sum(-1), [[3, 2], [0, 0]])


def test_a_hole_in_a_counter_stays_where_it_is():
    counts = np.array([[1.0, 1.0], [1.0, np.nan], [1.0, 1.0], [1.0, 1.0]])
    state = to_progress(counts, 4.0, 1.0, knots=uniform_knots(8)).state
    np.testing.assert_allclose(state[:, 0], 0.5)
    assert np.isnan(state[:, 1]).tolist() == [False, False, True, True] + 4 * [False]


def test_a_hole_in_the_clock_spoils_the_run():
    counts = np.array([[1.0, 1.0], [np.nan, 1.0], [1.0, 1.0]])
    progress = to_progress(counts, 3.0, 1.0, knots=uniform_knots(2))
    assert np.isnan(progress.state).all()
    assert np.isnan(progress.total)


def test_a_duration_of_whole_intervals_has_no_extra_one():
    state = np.full((7, 1), 0.1 / 7 * 3)  # sums to 0.3 but for rounding
    counts, _ = to_wall_time(state, 10.0, 0.1, knots=uniform_knots(7))
    assert counts.shape == (3, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clock": 3}, "clock is 3"),
        ({"interval": 0.0}, "interval is 0.0"),
        ({"knots": [0.0, 0.6, 0.5, 1.0]}, "two or more that ascend"),
        ({"knots": [0.0, 0.5]}, "two or more that ascend"),
        ({"duration": [1.0]}, "duration has shape"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {
        "counts": np.ones((2, 2)), "duration": 2.0, "interval": 1.0, "knots": [0.0, 1.0], "clock": 1
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=message):
        to_progress(**arguments)


def test_impossible_states_are_refused():
    knots = uniform_knots(2)
    with pytest.raises(ValueError, match="negative"):
        to_wall_time([[1.0], [-1.0]], 1.0, 1.0, knots=knots)
    with pytest.raises(ValueError, match="takes no time"):
        to_wall_time([[0.0], [0.0]], 1.0, 1.0, knots=knots)
    with pytest.raises(ValueError, match="state has shape"):
        to_wall_time([[1.0]], 1.0, 1.0, knots=knots)


def test_lost_counts_are_found_and_work_that_depends_on_the_context_is_not():
    total = 1e9 * (1 + 0.004 * np.random.default_rng(0).standard_normal((6, 3)))
    assert not lost_counts(total).any()
    total[2, 1] *= 0.6
    total[4, 0] = 0.0
    total[5, 2] = np.nan
    total[0] *= 1.3  # this context truly does more
    assert np.argwhere(lost_counts(total)).tolist() == [[2, 1], [4, 0]]
    one_each = np.array([[1.0], [1.001], [0.7], [0.999]])
    assert lost_counts(one_each).ravel().tolist() == [False, False, True, False]


@few
@given(measured_runs(), st.integers(1, 12))
def test_a_uniform_prior_changes_nothing(run, n_bins):
    counts, duration, interval = run
    knots = uniform_knots(n_bins)
    plain = to_progress(counts, duration, interval, knots=knots).state
    even = deconvolve(counts, duration, interval, np.ones(2), knots=knots).state
    np.testing.assert_allclose(even, plain, rtol=1e-9, atol=1e-9 * (1 + counts.sum()))


@few
@given(measured_runs(least_clock=1.0), st.data())
def test_a_prior_keeps_the_counts_of_every_interval(run, data):
    counts, duration, interval = run
    own = sampling_knots(counts, duration, interval)
    knots = np.unique(np.concatenate([own, uniform_knots(7)]))
    bins = len(knots) - 1
    prior = data.draw(arrays(np.float64, (bins, 2), elements=st.floats(0, 10, width=16)))
    state = deconvolve(counts, duration, interval, prior, knots=knots).state
    interval_of = np.searchsorted(own, knots[:-1], side="right") - 1
    back = np.zeros(len(counts))
    np.add.at(back, interval_of, state[:, 1])
    np.testing.assert_allclose(back, counts[:, 1], rtol=1e-9, atol=1e-9 * (1 + counts.sum()))
    assert np.all(state >= 0)


def test_deconvolution_finds_a_burst_shorter_than_the_interval():
    knots = uniform_knots(60)
    centre = (knots[:-1] + knots[1:]) / 2
    truth = np.where(np.abs(centre - 0.52) < 0.03, 20.0, 1.0)
    cumulative = np.concatenate([[0.0], np.cumsum(truth)])
    runs, n = [], np.arange(7, 14)
    for intervals in n:  # contexts of other speed meet the burst at other sampling times
        at = np.interp(np.linspace(0, 1, intervals + 1), knots, cumulative)
        one = np.full((n.max(), 2), np.nan)
        one[:intervals] = np.stack([np.full(intervals, 60.0 / intervals), np.diff(at)], axis=1)
        runs.append(one)
    counts, duration = np.stack(runs), n.astype(float)
    first = state = to_progress(counts, duration, 1.0, knots=knots).state
    for _ in range(4):
        state = deconvolve(counts, duration, 1.0, state.mean(axis=0), knots=knots).state

    def error(estimate):
        return np.abs(estimate.mean(axis=0)[:, 1] - truth).sum()

    assert error(state) < 0.6 * error(first)


def test_a_bad_prior_is_refused():
    with pytest.raises(ValueError, match=r"prior goes from -1 to -1; finite amounts ≥ 0"):
        deconvolve(np.ones((2, 2)), 2.0, 1.0, -np.ones(2), knots=[0.0, 1.0])
    with pytest.raises(ValueError, match="prior has shape"):
        deconvolve(np.ones((2, 2)), 2.0, 1.0, np.ones((3, 2)), knots=[0.0, 1.0])


@pytest.mark.parametrize("clock", [0, 1])
def test_a_run_that_was_cut_has_a_state_until_its_cut(clock):
    """As the same run whole, in the bins that it reached the end of."""
    counts = np.stack([np.arange(1.0, 11.0), 20 - np.arange(1.0, 11.0)], axis=1)
    knots = np.linspace(0, 1, 8)
    whole = to_progress(counts, 1.0, 0.1, knots=knots, clock=clock)
    cut = np.where(np.arange(10)[:, None] < 6, counts, np.nan)
    some = np.stack([counts, cut])
    expected = np.array([np.nan, whole.total])
    runs = to_progress(some, [1.0, 0.6], 0.1, knots=knots, clock=clock, expected=expected)
    np.testing.assert_array_equal(runs.state[0], whole.state)
    seen = int(0.6 * 7) if clock == 0 else int(21 / 55 * 7)
    np.testing.assert_allclose(runs.state[1, :seen], whole.state[:seen])
    assert np.isnan(runs.state[1, seen:]).all()
    assert runs.total.tolist() == [float(whole.total)] * 2
    prior = np.ones((7, 2))
    sharp = deconvolve(
        some, [1.0, 0.6], 0.1, prior, knots=knots, clock=clock, expected=expected, shared_steps=2
    )
    assert np.isnan(sharp.state[1]).any(axis=1).tolist() == [j >= seen for j in range(7)]


def test_a_run_that_was_cut_with_more_counts_than_expected_had_not_ended():
    counts = np.full((4, 1), 10.0)
    runs = to_progress(counts, 0.4, 0.1, knots=[0.0, 0.5, 1.0], clock=1, expected=20.0)
    assert runs.total == pytest.approx(40.0)
    assert np.isfinite(runs.state[:, 0]).tolist() == [True, False]
