"""Randomised trees as arrays, against those of scikit-learn."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.learn import randomised
from msbgen.learn.randomised import TreesSettings, fit_trees


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


def test_settings_out_of_range_are_refused():
    with pytest.raises(ArgumentError, match="trees is 0"):
        TreesSettings(trees=0)
