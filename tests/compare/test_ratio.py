"""Ratios and their intervals: against scipy, under transformations, and by their coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from msbgen.compare.ratio import POWER, Differences, Ratio, equal_weights
from msbgen.core.errors import MeasurementError

GRID = np.array([[w, f] for w in (4.0, 8.0, 12.0) for f in (1.2, 1.8, 2.3)])


def times(seed, contexts=9, runs=3, noise=0.02):
    rng = np.random.default_rng(seed)
    usual = np.exp(rng.standard_normal((contexts, 1)))
    return [usual * np.exp(noise * rng.standard_normal((contexts, runs))) for _ in range(2)]


def ratio(old, new, contexts=GRID):
    return Differences.of(contexts, old, new).mean(equal_weights(len(old)), 0.95)


def ends(result):
    return np.array([result.value, result.low, result.high])


@pytest.mark.parametrize("runs", [2, 5])
def test_one_context_is_welchs_test(runs):
    old, new = times(runs, 1, runs, noise=0.1)
    logs = [np.log(x.mean()) + x[0] / x.mean() - 1 for x in (old, new)]
    oracle = stats.ttest_ind(logs[1], logs[0], equal_var=False)
    result = ratio(old, new, GRID[:1])
    assert result.p_value == pytest.approx(oracle.pvalue)
    interval = oracle.confidence_interval(0.95)
    assert ends(result)[1:] == pytest.approx(np.exp([interval.low, interval.high]))


@given(st.integers(0, 99), st.floats(1e-6, 1e6), st.floats(0.5, 2), st.permutations(range(9)))
@settings(deadline=None, max_examples=25)
def test_the_ratio_keeps_to_units_orders_and_sides(seed, unit, slower, order):
    old, new = times(seed)
    new[2, 1] = np.nan
    result = ratio(old, new)
    assert ends(ratio(unit * old, unit * new)) == pytest.approx(ends(result))
    assert ends(ratio(old, slower * new)) == pytest.approx(slower * ends(result))
    assert ends(ratio(old[order][:, ::-1], new[order], GRID[order])) == pytest.approx(ends(result))
    value, low, high = ends(ratio(new, old))
    assert 1 / np.array([value, high, low]) == pytest.approx(ends(result))


def test_the_detectable_change_has_its_power():
    for freedom in (3.0, 20.0, 160.0):
        change = Ratio.of(0.0, 0.01, freedom, 0.95).detectable(0.95)
        critical = stats.t.ppf(0.975, freedom)
        power = stats.nct.sf(critical, freedom, np.log1p(change) / 0.01)
        assert power == pytest.approx(POWER, abs=0.025)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_intervals_and_bands_hold_the_ratio_as_often_as_they_say(runs):
    alarms = np.zeros(2)
    for seed in range(150):
        differences = Differences.of(GRID, *times(seed, runs=runs))
        result = differences.mean(equal_weights(9), 0.95)
        _, low, high = differences.everywhere(GRID, 0.95, np.random.default_rng(seed))
        alarms += not result.low < 1 < result.high, np.any((low > 1) | (high < 1))
    assert np.all((alarms >= 1) & (alarms <= 17))


def test_a_change_of_some_contexts_is_seen_there():
    old, new = times(0, noise=0.005)
    slow = GRID[:, 0] == 4
    new[slow] *= 1.1
    value, low, _ = Differences.of(GRID, old, new).everywhere(GRID, 0.95, np.random.default_rng(0))
    assert (low > 1).tolist() == slow.tolist()
    assert value[slow] == pytest.approx(1.1, abs=0.02)


def test_few_contexts_of_single_runs_show_no_noise():
    with pytest.raises(MeasurementError, match=r"^4 shared contexts with one run each .* 6 con"):
        ratio(*times(0, 4, 1), GRID[:4])
