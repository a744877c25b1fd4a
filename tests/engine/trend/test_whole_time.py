"""The duration of few contexts beside the sum of its bins."""

from dataclasses import replace

import numpy as np
import pytest

from forged import restored
from msbgen.engine.trend.fit import fit_trend
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.whole_time import WholeTime, stacked_share

CLOCKS = np.array([[1.0], [1.5], [2.0]])  # GHz


def duration_at(contexts):
    return 0.4 + 1.2 / contexts[:, 0]


def uneven(duration, seed, bins=200):
    """Times of bins with the given sums, and counts; each context has other work in its bins."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(sigma=0.4, size=(len(duration), bins))
    time = share / share.sum(axis=1, keepdims=True) * duration[:, None]
    return np.stack([time, np.ones_like(time)], axis=2)


def test_the_duration_of_uneven_bins_is_not_too_low():
    query = np.array([[1.2], [1.7]])
    errors = []
    for seed in range(5):
        trend = fit_trend(CLOCKS, uneven(duration_at(CLOCKS), seed))
        for one in (trend, replace(trend, whole_time=())):
            found = one.predict(query)[..., 0].sum(axis=1)
            errors.append(np.log(found / duration_at(query)))
    with_fit, without = np.mean(errors[::2], axis=0), np.mean(errors[1::2], axis=0)
    assert np.all(without < -0.02)
    assert np.all(np.abs(with_fit) < 0.25 * np.abs(without))


def test_counts_do_not_change_and_bins_keep_their_shares():
    trend = fit_trend(CLOCKS, uneven(duration_at(CLOCKS), 0))
    query = np.array([[0.8], [1.2], [3.0]])
    found, plain = trend.predict(query), replace(trend, whole_time=()).predict(query)
    np.testing.assert_array_equal(found[..., 1], plain[..., 1])
    shares = [state[..., 0] / state[..., 0].sum(axis=1, keepdims=True) for state in (found, plain)]
    np.testing.assert_allclose(*shares)


@pytest.mark.parametrize("n", [2, 3])
def test_outside_of_the_known_levels_the_duration_is_that_of_the_fit(n):
    trend = fit_trend(CLOCKS[:n], uneven(duration_at(CLOCKS[:n]), 1))
    query = np.array([[0.6], [4.0]])
    found = trend.predict(query)[..., 0].sum(axis=1)
    np.testing.assert_allclose(found, duration_at(query), rtol=1e-9)


def test_two_contexts_do_not_test_the_fit():
    trend = fit_trend(CLOCKS[:2], uneven(duration_at(CLOCKS[:2]), 1))
    query = np.array([[1.2]])
    (whole,) = trend.whole_time
    assert whole.share == 0.0
    plain = replace(trend, whole_time=())
    np.testing.assert_array_equal(trend.predict(query), plain.predict(query))


def test_the_parts_are_those_of_least_relative_squares():
    grid = np.array([[w, f] for w in (2.0, 5.0) for f in (1.0, 2.0)])
    weights = np.array([1.0, 3.0, 1.0, 2.0])
    duration = np.array([3.0, 2.1, 2.7, 1.7])
    columns = np.column_stack([np.ones(4), 1 / grid]) / duration[:, None]
    wanted = np.linalg.lstsq(columns * np.sqrt(weights)[:, None], np.sqrt(weights), rcond=None)[0]
    assert np.all(wanted > 0)
    whole = WholeTime.fit(grid, duration, weights)
    np.testing.assert_allclose(whole.parts, wanted)
    np.testing.assert_allclose(whole.predict(grid), wanted[0] + (wanted[1:] / grid).sum(axis=1))


def test_left_out_times_are_those_of_a_fit_to_the_others():
    states = uneven(duration_at(CLOCKS) * [1.0, 1.05, 1.0], 2)
    trend, folds = fit_trend(CLOCKS, states), Folds.of(CLOCKS)
    (whole,) = trend.whole_time
    assert 0.5 < whole.share < 1.0
    found = trend.left_out(folds)[..., 0].sum(axis=1)
    plain = replace(trend, whole_time=()).left_out(folds)[..., 0].sum(axis=1)
    fits = [
        trend.refit(states[kept], contexts=CLOCKS[kept]).whole_time[0].predict(CLOCKS[i : i + 1])[0]
        for i in folds.index
        for kept in [np.setdiff1d(np.arange(3), [i])]
    ]
    share = np.where(folds.index == 1, whole.share, 1.0)  # the ends are outside of the others
    np.testing.assert_allclose(found, plain ** (1 - share) * np.array(fits) ** share)


def test_a_fit_that_is_far_off_has_no_share():
    assert stacked_share(0.1, 0.1) == pytest.approx(0.5)
    assert stacked_share(0.02, 0.04) == pytest.approx(0.2)
    assert stacked_share(0.0, 0.0) == 0.0
    assert stacked_share(0.5, 0.2) == 0.0


@pytest.mark.parametrize(
    ("contexts", "settings"),
    [
        (np.array([[1.0], [1.2], [1.5], [2.0]]), {}),  # enough to choose parameters
        (np.array([[0.0], [1.0], [2.0]]), {}),  # a level has no reciprocal
        (CLOCKS, {"coordinates": "linear"}),  # a query may be one of level 0
        (CLOCKS, {"find_caps": False}),
        (CLOCKS[:1], {}),
    ],
)
def test_other_trends_have_no_such_fit(contexts, settings):
    states = uneven(1.0 + 0.1 * contexts[:, 0], 3)
    assert fit_trend(contexts, states, **settings).whole_time == ()


def test_arrays_keep_the_fit():
    trend = fit_trend(CLOCKS, uneven(duration_at(CLOCKS), 4))
    copied = restored(trend, trend)
    query = np.array([[0.8], [1.2], [1.9]])
    assert trend.whole_time
    np.testing.assert_array_equal(copied.predict(query), trend.predict(query))
