"""Boosted trees."""

import sys

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.learn import boosting, randomised
from msbgen.systems.learn.boosting import BoostingSettings, fit_boosting
from msbgen.systems.learn.randomised import TreesSettings, fit_trees

QUICK = BoostingSettings(rounds=60, rate=0.2, subsample=1.0, columns=1.0)


def steps(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 3))
    return x, np.stack([np.where(x[:, 0] > 0.5, 2.0, -1.0), 4.0 * x[:, 1]], axis=1)


def test_each_output_is_learned_from_its_own_feature():
    x, y = steps()
    model = fit_boosting(x, y, QUICK, seed=0)
    assert np.abs(model.predict(x) - y).mean() < 0.05
    gains = model.importances(3)
    assert gains[2] < 0.05
    assert gains.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror"])
def test_predictions_and_importances_are_those_of_xgboost(monkeypatch, objective):
    xgboost, grown = pytest.importorskip("xgboost"), []

    def train(*args, plain=xgboost.train):
        grown.append(plain(*args))
        return grown[-1]

    monkeypatch.setattr(boosting, "available_cores", lambda: 1)
    monkeypatch.setattr(xgboost, "train", train)
    rng = np.random.default_rng(0)
    x, new = (
        np.where(rng.random((n, 6)) < 0.2, np.nan, rng.normal(size=(n, 6))) for n in (500, 900)
    )
    y = np.nan_to_num(x[:, :2]) ** 2 + rng.normal(size=(500, 2))
    model = fit_boosting(x, y, BoostingSettings(rounds=50, objective=objective), seed=3)
    rows = new.astype(np.float32)
    rows[0] = np.inf
    # values at the thresholds themselves
    rows[1:300] = np.nextafter(model.nodes.threshold[:299], np.float32(np.inf))[:, None]
    rows[300:500] = model.nodes.threshold[:200, None]
    expected = np.stack([booster.inplace_predict(rows) for booster in grown], axis=1)
    np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-6)
    gains = np.zeros(6)
    for booster in grown:
        gain = booster.get_score(importance_type="gain")
        each = np.array([gain.get(f"f{k}", 0.0) for k in range(6)])
        gains += each / each.sum() / 2
    np.testing.assert_allclose(model.importances(6), gains, rtol=1e-5)


def test_predictions_need_no_xgboost(monkeypatch):
    x, y = steps()
    model = fit_boosting(x, y, BoostingSettings(rounds=5), seed=0)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert np.isfinite(model.predict(x)).all()
    with pytest.raises(ArgumentError, match=r"features have shape .*; 3 columns"):
        model.predict(x[:, :2])


def test_rows_that_miss_an_output_are_left_out_of_it_only():
    x, y = steps()
    gaps = y.copy()
    gaps[::2, 0] = np.nan
    whole, part = (fit_boosting(x, of, QUICK, seed=1) for of in (y, gaps))
    np.testing.assert_array_equal(part.predict(x)[:, 1], whole.predict(x)[:, 1])
    assert not np.array_equal(part.predict(x)[:, 0], whole.predict(x)[:, 0])


def test_equal_seeds_give_equal_bits_on_any_number_of_cores(monkeypatch):
    x, y = steps()
    settings = BoostingSettings(rounds=20)
    one = fit_boosting(x, y, settings, seed=3).predict(x)
    monkeypatch.setattr(boosting, "available_cores", lambda: 1)
    np.testing.assert_array_equal(fit_boosting(x, y, settings, seed=3).predict(x), one)
    assert not np.array_equal(fit_boosting(x, y, settings, seed=4).predict(x), one)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ArgumentError, match="rounds is 0"):
        BoostingSettings(rounds=0)
    with pytest.raises(ArgumentError, match="rate is -1"):
        BoostingSettings(rate=-1)
    with pytest.raises(ArgumentError, match="trees is 0"):
        TreesSettings(trees=0)


def rows(n=200, groups=20, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 4)), rng.integers(0, 3, n)])
    y = np.stack([x[:, 0] + x[:, 4], np.sin(x[:, 1])], axis=1)
    return x, y, rng.integers(groups, size=n)


def test_arrays_predict_what_the_trees_of_scikit_learn_predict(monkeypatch):
    tree = pytest.importorskip("sklearn.tree")
    kept = []
    monkeypatch.setattr(
        randomised, "_joined", lambda grown, *sizes, make=randomised._joined: (
            kept.extend(grown), make(grown, *sizes))[1]
    )  # fmt: skip
    x, y, group = rows()
    trees, seen = fit_trees(x, y, group, TreesSettings(trees=7), seed=0)
    new = np.random.default_rng(1).normal(size=(500, 5)).astype(np.float32)
    each = np.stack([grown.predict(new)[..., 0] for grown in kept])
    mean, deviation = trees.predict(new)
    np.testing.assert_allclose(mean, each.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(deviation, each.std(axis=0), atol=1e-3)
    without = np.full(seen.shape, True)
    without[[2, 5]] = False
    got = trees.predict_without(x, without)
    expected = np.mean([kept[t].predict(x.astype(np.float32))[..., 0] for t in (2, 5)], axis=0)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert isinstance(kept[0], tree._tree.Tree)


def test_whole_groups_are_left_out_of_trees():
    x, y, group = rows()
    settings = TreesSettings(trees=40, groups=0.75)
    trees, seen = fit_trees(x, y, group, settings, seed=0)
    for rows_used in seen:
        assert not set(group[rows_used]) & set(group[~rows_used])
        assert len(set(group[rows_used])) == 15
    # leaves of one row fit their rows, not those left out
    mean = trees.predict(x)[0]
    left_out = trees.predict_without(x, seen)
    assert np.abs(mean - y).mean() < 0.5 * np.abs(left_out - y).mean()


def test_of_two_groups_one_is_left_out():
    x, y, _ = rows()
    _, seen = fit_trees(x, y, np.arange(200) % 2, TreesSettings(trees=10, groups=0.9), seed=0)
    assert (seen.sum(axis=1) == 100).all()


def test_a_row_that_every_tree_saw_has_no_prediction_without_it():
    x, y, group = rows()
    trees, seen = fit_trees(x, y, group, TreesSettings(trees=3, groups=1.0), seed=0)
    assert seen.all()
    assert np.isnan(trees.predict_without(x, seen)).all()
