"""Ratios and their intervals: against scipy, under transformations, and by their coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from msbgen.answers.compare import band, permuted
from msbgen.answers.compare.band import ratios_everywhere
from msbgen.answers.compare.ratio import POWER, Differences, Ratio
from msbgen.core import contexts as few_or_many
from msbgen.core.errors import MeasurementError

GRID = np.array([[w, f] for w in (4.0, 8.0, 12.0) for f in (1.2, 1.8, 2.3)])


def times(seed, contexts=9, runs=3, noise=0.02):
    rng = np.random.default_rng(seed)
    usual = np.exp(rng.standard_normal((contexts, 1)))
    return [usual * np.exp(noise * rng.standard_normal((contexts, runs))) for _ in range(2)]


def ratio(old, new, contexts=GRID, *, are_paired=False):
    return Differences.of(contexts, old, new, are_paired=are_paired).mean(None, 0.95)


@pytest.fixture
def fewer_labels(monkeypatch):
    """A fifth of the permuted labels: their .95 quantile is exceeded by 1/200 more, on average."""
    monkeypatch.setattr(permuted, "_DRAWN", 199)


def ends(result):
    return np.array([result.value, result.low, result.high])


@pytest.mark.parametrize(("runs", "trimmed"), [(2, 0.0), (4, 0.0), (5, 0.2), (12, 0.2)])
def test_one_context_is_the_test_of_welch_or_yuen(runs, trimmed):
    old, new = times(runs, 1, runs, noise=0.1)
    centres = [stats.trim_mean(x[0], trimmed) for x in (old, new)]
    logs = [np.log(centre) + x[0] / centre - 1 for x, centre in zip((old, new), centres)]
    oracle = stats.ttest_ind(logs[1], logs[0], equal_var=False, trim=trimmed)
    result = ratio(old, new, GRID[:1])
    assert result.p_value == pytest.approx(oracle.pvalue)
    interval = oracle.confidence_interval(0.95)
    assert ends(result)[1:] == pytest.approx(np.exp([interval.low, interval.high]))


@given(st.integers(0, 99), st.floats(1e-6, 1e6), st.floats(0.5, 2), st.permutations(range(9)))
@settings(max_examples=10)
def test_the_ratio_keeps_to_units_orders_and_sides(seed, unit, slower, order):
    old, new = times(seed)
    new[2, 1] = np.nan
    result = ratio(old, new)
    assert ends(ratio(unit * old, unit * new)) == pytest.approx(ends(result))
    assert ends(ratio(old, slower * new)) == pytest.approx(slower * ends(result))
    assert ends(ratio(old[order][:, ::-1], new[order], GRID[order])) == pytest.approx(ends(result))
    value, low, high = ends(ratio(new, old))
    assert 1 / np.array([value, high, low]) == pytest.approx(ends(result))


def test_runs_in_pairs_are_compared_pair_by_pair():
    old, new = times(0, 1, 6, noise=0.01)
    usual = np.exp(0.3 * np.random.default_rng(1).standard_normal((1, 6)))
    result = ratio(old * usual, new * usual, GRID[:1], are_paired=True)
    oracle = stats.ttest_rel(np.log(new[0]), np.log(old[0]))
    assert result.p_value == pytest.approx(oracle.pvalue, abs=0.2)
    assert (
        result.high / result.low
        < 1.05
        < np.divide(*ends(ratio(old * usual, new * usual, GRID[:1]))[:0:-1])
    )


def test_noisy_contexts_count_less_unless_weights_are_given():
    noise = np.where(np.arange(9) < 2, 0.1, 0.005)[:, None]
    rng = np.random.default_rng(2)
    old, new = np.exp(noise * rng.standard_normal((2, 9, 3)))
    result = ratio(old, 1.02 * new)
    assert result.low > 1.005
    assert result.value == pytest.approx(1.02, abs=0.012)
    given = Differences.of(GRID, old, 1.02 * new).mean(np.full(9, 1 / 9), 0.95)
    assert given.value == pytest.approx(1.02 * np.exp(np.log(new.mean(1) / old.mean(1)).mean()))
    assert given.error > 2 * result.error


def test_rare_slow_runs_do_not_decide():
    old, new = times(3, 9, 10, noise=0.01)
    slow = new.copy()
    slow[:, 3] *= 3
    assert ratio(old, slow).value == pytest.approx(ratio(old, new).value, abs=0.005)
    assert ratio(old, slow, are_paired=True).value == pytest.approx(1, abs=0.01)


def test_the_detectable_change_has_its_power():
    for freedom in (3.0, 20.0, 160.0):
        change = Ratio.of(0.0, 0.01, freedom, 0.95).detectable(0.95)
        critical = stats.t.ppf(0.975, freedom)
        power = stats.nct.sf(critical, freedom, np.log1p(change) / 0.01)
        assert power == pytest.approx(POWER, abs=0.025)


@pytest.mark.parametrize(("runs", "are_paired"), [(1, False), (2, False), (3, False), (3, True)])
def test_intervals_and_bands_hold_the_ratio_as_often_as_they_say(fewer_labels, runs, are_paired):
    alarms = np.zeros(2)
    for seed in range(150):
        differences = Differences.of(GRID, *times(seed, runs=runs), are_paired=are_paired)
        result = differences.mean(None, 0.95)
        _, low, high = ratios_everywhere(differences, GRID, 0.95, np.random.default_rng(seed))
        alarms += not result.low < 1 < result.high, np.any((low > 1) | (high < 1))
    assert np.all((alarms >= 1) & (alarms <= 17))


def test_noise_of_two_modes_alarms_as_rarely(fewer_labels):
    alarms = np.zeros(2)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        runs = np.exp(0.005 * rng.standard_normal((2, 9, 2)))
        runs[:, :2] *= np.where(rng.random((2, 2, 2)) < 1 / 3, 1.2, 1.0)
        differences = Differences.of(GRID, *runs)
        result = differences.mean(None, 0.95)
        _, low, high = ratios_everywhere(differences, GRID, 0.95, np.random.default_rng(0))
        alarms += not result.low < 1 < result.high, np.any((low > 1) | (high < 1))
    assert 1 <= alarms[0] <= 11
    assert alarms[1] <= 11


@pytest.mark.parametrize("change", [0.01, 0.05])
def test_the_band_holds_changes_of_some_contexts(change):
    slow = GRID[:, 0] == 4
    truth, missed = np.where(slow, 1 + change, 1.0), 0
    for seed in range(24):
        old, new = times(seed, noise=0.01)
        new[slow] *= 1 + change
        differences = Differences.of(GRID, old, new)
        _, low, high = ratios_everywhere(differences, GRID, 0.95, np.random.default_rng(0))
        missed += np.any((low > truth) | (high < truth))
    assert missed <= 5


def test_a_change_of_some_contexts_is_seen_there():
    old, new = times(0, noise=0.005)
    slow = GRID[:, 0] == 4
    new[slow] *= 1.1
    value, low, _ = ratios_everywhere(
        Differences.of(GRID, old, new), GRID, 0.95, np.random.default_rng(0)
    )
    assert (low > 1).tolist() == slow.tolist()
    assert value[slow] == pytest.approx(1.1, abs=0.02)


def test_contexts_of_equal_runs_have_a_band_without_width():
    old = np.ones((len(GRID), 3))
    differences = Differences.of(GRID, old, 2 * old)
    value, low, high = ratios_everywhere(differences, GRID, 0.95, np.random.default_rng(0))
    np.testing.assert_allclose([value, low, high], 2.0, rtol=1e-3)


def test_few_contexts_of_single_runs_show_no_noise():
    with pytest.raises(
        MeasurementError, match=r"^one version has a single run .* and 4 contexts do .* 6 con"
    ):
        ratio(*times(0, 4, 1), GRID[:4])


def test_single_runs_take_the_noise_about_a_plane_over_the_contexts():
    """A resource with one level takes no degree of freedom."""
    contexts = np.column_stack([*map(np.ravel, np.indices((2, 2, 2))), np.ones(8)])
    old, new = times(5, 8, 1)
    result = ratio(old, new, contexts)
    value = np.log(new / old)[:, 0]
    design = np.column_stack([np.ones(8), contexts[:, :3]])
    rest = value - design @ np.linalg.lstsq(design, value, rcond=None)[0]
    assert result.freedom == 8 - 4
    assert result.error**2 == pytest.approx((rest**2).sum() / (8 - 4) / 8)
    assert np.log(result.value) == pytest.approx(value.mean())


def test_the_error_is_that_of_normal_runs(fewer_labels):
    errors = [ratio(*times(seed)).error for seed in range(20)]
    assert np.mean(errors) == pytest.approx(0.02 * np.sqrt(2 / 3 / 9), rel=0.08)


@pytest.mark.parametrize("seed", range(4))
def test_the_band_of_single_runs_has_the_tails_of_their_few_degrees_of_freedom(seed):
    contexts = np.column_stack([*map(np.ravel, np.indices((2, 2, 2)))]).astype(float)
    differences = Differences.of(contexts, *times(seed, 8, 1))
    rng = np.random.default_rng
    bands = [ratios_everywhere(differences, contexts[:1], c, rng(0)) for c in (0.5, 0.99)]
    narrow, wide = (np.log(high / value)[0] for value, _, high in bands)
    # Student's t with four degrees: 6.2; normal: 3.8
    assert wide > 5.5 * narrow


def test_the_band_is_as_wide_as_the_largest_deviations_of_permuted_runs(monkeypatch):
    """Of two kinds of permuted runs with one variance, rare large ones make the wider band."""
    differences = Differences.of(GRID, *times(0))
    signs = np.random.default_rng(1).choice([-0.01, 0.01], size=(2000, len(GRID)))
    rare = signs * np.sqrt(16) * (np.arange(2000) % 16 == 0)[:, None]
    assert (rare**2).mean(axis=0) == pytest.approx((signs**2).mean(axis=0))
    widths = []
    for rows in (signs, rare):
        monkeypatch.setattr(Differences, "permuted_values", lambda *_, rows=rows: rows)
        value, _, high = ratios_everywhere(differences, GRID, 0.95, np.random.default_rng(0))
        widths.append(np.log(high / value).mean())
    assert widths[1] > 1.2 * widths[0]


def test_groups_of_many_contexts_have_the_band_of_all(monkeypatch):
    places = np.array([[w, f] for w in range(1, 16) for f in range(16)], dtype=float)
    change = 0.03 * np.sin(places[:, 0] / 4)
    old, new = times(3, contexts=len(places), runs=2)
    new = new * (old.mean(axis=1) / new.mean(axis=1) * np.exp(change))[:, None]
    differences = Differences.of(places, old, new)
    bands = []
    for most in (len(places), 100):
        monkeypatch.setattr(few_or_many, "MOST_EXACT", most)
        monkeypatch.setattr(band, "MOST_EXACT", most)
        bands.append(ratios_everywhere(differences, places, 0.95, np.random.default_rng(0)))
    widths = [np.log(high / low).mean() for _, low, high in bands]
    errors = [np.abs(np.log(value) - change).mean() for value, _, _ in bands]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)
    assert max(errors) < 0.2 * np.abs(change).mean()
