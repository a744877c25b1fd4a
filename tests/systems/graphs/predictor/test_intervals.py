import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.graphs.predictor.intervals import calibrate, check_families, independent_runs
from msbgen.systems.graphs.predictor.residual import Residual, choose_weight, leave_families_out
from msbgen.systems.learn.boosting import BoostingSettings, fit_boosting

NONE = np.empty((0, 2))


def families(n, runs, rng, shared=0.0):
    """Features of which the first is the deviation of the errors; part is the family's own."""
    family = np.repeat(np.arange(n), runs)
    features = rng.uniform(0.05, 0.3, (n * runs, 2))
    own, common = rng.normal(size=(n * runs, 2)), rng.normal(size=(n, 2))[family]
    error = features[:, :1] * (np.sqrt(1 - shared) * own + np.sqrt(shared) * common)
    return features, error, family


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_intervals_of_new_families_cover_at_about_the_nominal_rate(shared):
    inside = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        found = calibrate(*families(40, 15, rng, shared), folds=4, seed=0)
        features, error, _ = families(200, 5, rng, shared)
        inside.append(np.abs(error) <= found.half_width(features, 0.1, NONE))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.03)


def test_intervals_are_wide_where_errors_are():
    rng = np.random.default_rng(0)
    found = calibrate(*families(40, 20, rng), folds=4, seed=0)
    narrow, wide = found.half_width(np.array([[0.06, 0.2], [0.29, 0.2]]), 0.1, NONE)
    assert np.all(wide > 2 * narrow)


def test_a_rate_needs_its_families():
    rng = np.random.default_rng(0)
    few = calibrate(*families(12, 50, rng), folds=4, seed=0)
    with pytest.raises(MeasurementError, match=r"at least 19 runs of as many different families"):
        few.half_width(np.ones((1, 2)), 0.05, NONE)
    assert np.all(few.half_width(np.ones((1, 2)), 0.1, NONE) > 0)
    check_families(0.05, np.arange(19))
    with pytest.raises(ArgumentError, match="miscoverage is 0"):
        check_families(0.0, np.arange(19))


def test_the_new_family_is_one_of_all():
    """Of nine with a run each and the new one 85 % are nine, where of the nine they are eight."""
    rng = np.random.default_rng(0)
    found = calibrate(*families(9, 1, rng), folds=3, seed=0)
    features = np.ones((1, 2))
    ordered = np.sort(found.score, axis=0)
    for rate, rank in ((0.15, 9), (0.25, 8), (0.55, 5)):
        half = found.half_width(features, rate, NONE)
        np.testing.assert_allclose(half[0], ordered[rank - 1] * found.width(features)[0])


def test_the_effective_number_of_runs_lies_between_families_and_runs():
    family = np.repeat(np.arange(30), 20)
    rng = np.random.default_rng(0)
    together = (rng.random(30) < 0.2)[family]
    assert independent_runs(together, family) == pytest.approx(30)
    apart = rng.random(600) < 0.05
    assert independent_runs(apart, family) > 300
    assert independent_runs(np.zeros(600, bool), family) == 30  # no information
    assert independent_runs(apart[:30], np.arange(30)) == 30


def test_intervals_of_a_device_follow_its_own_errors():
    rng = np.random.default_rng(0)
    found = calibrate(*families(40, 20, rng), folds=4, seed=0)
    features, error, _ = families(10, 5, rng)
    plain = found.half_width(features, 0.1, NONE)
    alike = found.half_width(features, 0.1, found.scores(features, error))
    worse = found.half_width(features, 0.1, found.scores(features, 3.0 * error))
    few = found.half_width(features, 0.1, found.scores(features[:3], 3.0 * error[:3]))
    assert np.all(np.abs(np.log(alike / plain)) < 0.3)
    assert np.all((worse > 1.6 * plain) & (worse < 3.5 * plain))
    assert np.all(few < worse)


def test_errors_that_are_none_are_refused():
    features, error, family = families(10, 5, np.random.default_rng(0))
    error[3, 0] = np.nan
    with pytest.raises(MeasurementError, match="not finite"):
        calibrate(features, error, family, folds=2, seed=0)


FEW = BoostingSettings(rounds=30, depth=3, rate=0.2, least=2.0)


def test_each_run_is_answered_by_a_fit_that_did_not_see_its_family():
    family = np.repeat(np.arange(7), 5)[np.random.default_rng(0).permutation(35)]
    seen = []

    def answer(shown, left):
        assert not set(family[shown]) & set(family[left])
        assert len(shown) + len(left) == 35
        seen.append(set(family[left].tolist()))
        return left[:, None] * 10.0

    result, fold = leave_families_out(family, 3, 1, answer)
    assert result[:, 0].tolist() == [10.0 * i for i in range(35)]
    assert len(seen) == 3
    assert all(len(np.unique(fold[family == f])) == 1 for f in range(7))


def test_fewer_families_than_folds_are_refused():
    with pytest.raises(MeasurementError, match="2 families for 3 folds"):
        leave_families_out(np.array([0, 1, 1]), 3, 0, lambda a, b: b)
    with pytest.raises(ArgumentError, match="folds is 1"):
        leave_families_out(np.array([0, 1, 1]), 1, 0, lambda a, b: b)


def test_what_helps_on_every_family_counts_in_full_and_what_harms_not_at_all():
    rng = np.random.default_rng(0)
    family = np.repeat(np.arange(10), 20)
    left = rng.normal(size=(200, 2))
    predicted = np.stack([left[:, 0], -left[:, 1]], axis=1)
    assert choose_weight(left, predicted, family).tolist() == [1.0, 0.0]


def test_half_of_what_overshoots_twofold_is_taken():
    rng = np.random.default_rng(0)
    left = rng.normal(size=(200, 1))
    assert choose_weight(left, 2 * left, np.arange(200) % 10).tolist() == [0.5]


def test_families_weigh_alike_and_a_doubtful_gain_is_none():
    # of great use to one family of a thousand runs, of harm to nine of ten
    family = np.concatenate([np.zeros(1000, int), np.repeat(np.arange(1, 10), 10)])
    left = np.ones((1090, 1))
    predicted = np.where(family == 0, 1.0, -1.0)[:, None]
    assert choose_weight(left, predicted, family).tolist() == [0.0]
    # of the same use, on average, as none
    rng = np.random.default_rng(1)
    left = rng.normal(size=(300, 1))
    noise = rng.normal(size=(300, 1))
    assert choose_weight(left, noise, np.arange(300) % 10)[0] <= 0.1


def test_a_gain_within_its_standard_error_over_families_is_none():
    """Of great use to one family of ten, of slight harm to the others: a gain on average only."""
    family = np.repeat(np.arange(10), 20)
    left = np.ones((200, 1))
    predicted = np.where(family == 0, 1.0, -0.01)[:, None]
    errors = [((left - w * predicted) ** 2).mean() for w in (0.0, 1.0)]
    assert errors[1] < errors[0]
    assert choose_weight(left, predicted, family).tolist() == [0.0]
    # the same gain on average, in each of them
    alike = np.full((200, 1), 0.05)
    assert choose_weight(left, alike, family).tolist() == [1.0]


def test_a_residual_with_weight_zero_is_zero():
    features = np.random.default_rng(0).normal(size=(80, 3))
    left = np.stack([features[:, 0], features[:, 1]], axis=1)
    boosting = fit_boosting(features, left, FEW, 0)
    predicted = boosting.predict(features)
    assert np.corrcoef(predicted[:, 0], left[:, 0])[0, 1] > 0.9
    assert np.array_equal(Residual(boosting, np.zeros(2))(features), np.zeros((80, 2)))
    half = Residual(boosting, np.array([0.5, 1.0]))(features)
    assert np.allclose(half, predicted * [0.5, 1.0])
