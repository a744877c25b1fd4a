import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.graphs.predictor.intervals import calibrate, check_families, independent_runs

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
