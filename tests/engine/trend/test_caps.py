"""Caps of synthetic tasks, and the time under a cap against its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from msbgen.engine.trend import caps
from msbgen.engine.trend.caps import (
    at_rates,
    cap_rates,
    find_cap,
    left_out_time,
    refit_cap,
    throttled,
    unthrottled,
)
from msbgen.engine.trend.coordinates import Coordinates
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.problem import Problem, SmoothingParameters, offsets
from rooflines import BANDWIDTH, KNOWN, grid, noisy, roofline

PARAMETERS = SmoothingParameters("gaussian-process", np.full((2, 2), 1.6), np.full(2, 1e-3))


def problem(states, known=KNOWN):
    z = Coordinates.of(("log", "log"), known).scaled(known)
    return Problem(z, states, np.ones(len(known)), offsets(states, 0.1), Folds.of(known))


def found(states, known=KNOWN):
    one = problem(states, known)
    return find_cap(one, one, known, PARAMETERS)


def test_a_throttled_time_is_the_mean_of_a_maximum():
    rng = np.random.default_rng(0)
    free, least = rng.random((6, 1)), np.append(rng.random(4), 0.0)
    time, share = throttled(free, least, 0.3)
    factor = np.exp(0.3 * ndtri((np.arange(200_000) + 0.5) / 200_000) - 0.045)
    wanted = np.maximum(free[..., None], least[:, None] * factor).mean(axis=-1)
    np.testing.assert_allclose(time, wanted, rtol=1e-4)
    slope = (np.log(throttled(free * 1.0001, least, 0.3)[0]) - np.log(time)) / np.log(1.0001)
    np.testing.assert_allclose(share, slope, rtol=1e-3, atol=1e-9)


def test_a_throttled_time_has_the_rounding_of_its_formula():
    """Also far from the knee, at both ends of the widths, and at time zero."""
    ratio = np.concatenate(
        [[0.0, 1e-300, 1e-30], np.exp(np.linspace(-30, 30, 2001)), [1e30, 1e300]]
    )
    width, free = np.array([[0.02], [0.1], [0.7], [2.0]]), 0.7
    with np.errstate(divide="ignore"):
        deviation, half = np.log(ratio) / width, 0.5 * width
    part = free * ndtr(half - deviation)
    wanted = part + free * ratio * ndtr(deviation + half)
    time, share = throttled(np.array(free), free * ratio, width)
    np.testing.assert_allclose(time, wanted, rtol=1e-14)
    np.testing.assert_allclose(share, part / wanted, rtol=0, atol=2e-14)
    nothing = np.zeros(1)
    assert [float(a[0]) for a in throttled(nothing, np.ones(1), 0.3)] == [1.0, 0.0]
    assert [float(a[0]) for a in throttled(np.ones(1), nothing, 0.3)] == [1.0, 1.0]
    assert float(throttled(nothing, nothing, 0.3)[0][0]) == 0.0


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0.02, 1.0))
def test_a_throttled_time_exceeds_both_and_grows_with_both(free, least, width):
    one, other = np.array([free]), np.array([least])
    (time,), (share,) = throttled(one, other, width)
    assert time >= max(free, least) * (1 - 1e-12)
    assert 0 <= share <= 1
    assert throttled(one * 1.1, other, width)[0] >= time * (1 - 1e-12)
    assert throttled(one, other * 1.1, width)[0] >= time * (1 - 1e-12)
    # a wider knee never saves time
    assert throttled(one, other, width * 1.1)[0] >= time * (1 - 1e-12)


@given(st.floats(1e-9, 1e3), st.floats(0, 3), st.floats(0.02, 1.0))
def test_the_free_time_gives_the_time(free, demand, width):
    free, least = np.array([free]), np.array([free * demand])
    time, share = throttled(free, least, width)
    found = unthrottled(time, least, width)
    np.testing.assert_allclose(throttled(found, least, width)[0], time, rtol=1e-6)
    if share[0] > 1e-3:  # below, many free times give the same time
        np.testing.assert_allclose(found, free, rtol=1e-5)


def test_a_time_below_the_least_has_the_lowest_free_time():
    free = unthrottled(np.ones(2), np.array([1.5, 1e6]), 0.1)
    np.testing.assert_allclose(free, np.exp(-6), rtol=1e-6)


@settings(max_examples=12)
@given(st.floats(150, 900), st.integers(0, 2**32 - 1))
def test_a_planted_cap_is_found_with_its_rate(rate, seed):
    (cap,) = found(noisy(roofline(KNOWN, rate), seed))
    assert (cap.counter, cap.resource) == (1, 0)
    assert cap.rate == pytest.approx(rate, rel=0.05)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.floats(0.001, 0.02))
def test_no_cap_is_found_where_none_binds(seed, scale):
    assert found(noisy(roofline(KNOWN, rate=1e9), seed, scale)) == ()


def test_of_two_correlated_counters_the_capped_one_is_found():
    known = grid(np.geomspace(1.0, 16.0, 7), [1.0, 1.5, 2.0])
    states = roofline(known)
    # another counter nearly follows the capped one
    waves = 0.03 * np.sin(np.arange(states.shape[1]))[:, None] * np.log(known)[:, None, :1]
    follower = states[..., 1:] * np.exp(waves)
    assert found(np.concatenate([states[..., :1], follower], axis=2), known) != ()
    for columns, capped in (
        ([states, follower], 1),
        ([states[..., :1], follower, states[..., 1:]], 2),
    ):
        both = np.concatenate(columns, axis=2)
        parameters = SmoothingParameters("gaussian-process", np.full((3, 2), 1.6), np.full(3, 1e-3))
        (cap,) = find_cap(problem(both, known), problem(both, known), known, parameters)
        assert cap.counter == capped


@pytest.mark.parametrize(("levels", "gain", "accepted"), [(5, 0.74, 1), (5, 0.8, 0), (14, 0.8, 1)])
def test_a_small_gain_is_accepted_with_many_levels(monkeypatch, levels, gain, accepted):
    monkeypatch.setattr(caps._Trials, "best", lambda self, tried: (gain, tried[0]))
    known = grid(np.geomspace(1.0, 16.0, levels), [1.0, 1.5, 2.0])
    assert len(found(noisy(roofline(known)), known)) == accepted


def test_the_highest_of_spread_rates_is_no_cap_whatever_it_predicts(monkeypatch):
    monkeypatch.setattr(caps._Trials, "best", lambda self, tried: (0.1, tried[0]))
    level, clock = KNOWN[:, :1], KNOWN[:, 1:]
    rates = np.linspace(0.2, 1.0, 60)  # misses per second, most at the lowest level
    time = np.ones((len(KNOWN), 60)) / clock
    states = np.stack([time, 100.0 * rates * time * level.min() / level], axis=2)
    assert found(states) == ()
    assert len(found(states.sum(axis=1, keepdims=True))) == 1  # a mean rate says nothing
    rates[rates > 0.7] = 0.7
    assert len(found(np.stack([time, 100.0 * rates * time * level.min() / level], axis=2))) == 1


@pytest.mark.parametrize(
    ("levels", "at", "accepted"), [(3, 24, 0), (3, 27, 1), (14, 22, 0), (14, 23, 1)]
)
def test_more_bins_at_a_rate_than_below_make_a_cap(monkeypatch, levels, at, accepted):
    monkeypatch.setattr(caps._Trials, "best", lambda self, tried: (0.1, tried[0]))
    known = grid(np.geomspace(1.0, 16.0, levels), [1.0, 1.5, 2.0])
    level, clock = known[:, :1], known[:, 1:]
    rates = np.concatenate([np.linspace(0.71, 0.88, 20), np.ones(at)])
    time = np.ones((len(known), 20 + at)) / clock
    states = np.stack([time, 100.0 * rates * time * level.min() / level], axis=2)
    assert len(found(states, known)) == accepted


def test_no_cap_is_searched_for_levels_or_times_of_zero():
    states = roofline(KNOWN)
    states[3, 0, 0] = 0.0
    assert found(states) == ()
    shifted = KNOWN - [1.0, 0.0]  # the lowest level is zero
    linear = Coordinates.of(("linear", "log"), shifted).scaled(shifted)
    states = roofline(KNOWN)
    zero = Problem(linear, states, np.ones(15), offsets(states, 0.1), Folds.of(shifted))
    assert all(cap.resource != 0 for cap in find_cap(zero, zero, shifted, PARAMETERS))


@pytest.fixture(scope="module")
def capped():
    one = problem(noisy(roofline(KNOWN)))
    (cap,) = find_cap(one, one, KNOWN, PARAMETERS)
    return one, cap


def test_refitting_a_cap_keeps_its_parameters_and_follows_the_time(capped):
    one, cap = capped
    again = refit_cap(one, KNOWN, cap)
    np.testing.assert_allclose(again.coefficients, cap.coefficients, rtol=1e-9, atol=1e-9)
    # where everything takes twice as long the rate is half
    slower = problem(one.amounts * [2.0, 2.0])
    twice = refit_cap(slower, KNOWN, cap)
    assert (twice.rate, twice.width, twice.nugget) == (cap.rate, cap.width, cap.nugget)
    np.testing.assert_allclose(twice.mean, cap.mean + np.log(2.0), atol=1e-6)


def test_left_out_times_do_not_depend_on_themselves(capped):
    one, cap = capped
    alone = Problem(one.z, one.amounts, one.weights, one.offset, Folds.alone(15))
    left_out = alone.left_out(PARAMETERS)
    time = left_out_time(alone, KNOWN, cap, left_out)
    near = np.abs(np.log(time / one.amounts[..., 0]))
    assert near.mean() < 0.05
    wrong = one.amounts.copy()
    wrong[6, :, 0] *= 1.2  # a context at which the cap hardly binds
    other = Problem(one.z, wrong, one.weights, one.offset, alone.folds)
    changed = left_out_time(other, KNOWN, cap, left_out)
    moved = np.abs(np.log(changed / time)).max(axis=1)
    # only through the mean of all contexts, which the line compensates
    assert moved[6] < 0.02 < moved.max()


def ramp(contexts, misses):
    """Misses (bins,) at most 1,500 × bandwidth per second, on clocks of which most are slow."""
    level, clock = contexts[:, :1], contexts[:, 1:]
    time = np.maximum(0.5 / clock + 1e-4 * misses, misses / (1500.0 * level))
    return np.stack([time, np.broadcast_to(misses, time.shape)], axis=2)


def bins_at_caps(contexts, state):
    return at_rates(cap_rates(contexts, state), contexts, state)


SLOW_CLOCKS = grid(BANDWIDTH, [0.05, 0.1, 0.2, 0.4, 2.0])


def test_a_cap_that_binds_only_in_the_fastest_context_is_found():
    misses = np.geomspace(200.0, 3000.0, 24)
    near = bins_at_caps(SLOW_CLOCKS, noisy(ramp(SLOW_CLOCKS, misses)))
    corner = np.flatnonzero((SLOW_CLOCKS == [1.0, 2.0]).all(axis=1))[0]
    assert np.array_equal(near[corner], misses > 400)
    assert np.flatnonzero(near.mean(axis=1) > 0.5).tolist() == [corner]


def test_the_fastest_context_of_a_steady_task_is_at_no_cap():
    state = ramp(SLOW_CLOCKS, np.full(24, 300.0))
    bandwidth = SLOW_CLOCKS[:, :1]  # the clock does cap it
    assert not bins_at_caps(bandwidth, noisy(state)).any()
