"""What is held back stays whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.runtimes.splits import SPLITS, hold_out, split_calibration, units_of


@given(st.integers(0, 10_000), st.sampled_from(SPLITS))
def test_units_stay_whole(seed, split):
    rng = np.random.default_rng(seed)
    runs = np.column_stack([rng.integers(5, size=40), rng.integers(4, size=40)])
    run = rng.integers(15, size=40)
    unit = units_of(runs, run, split)
    known = hold_out(unit, 0.5, seed)
    keys = {"rows": np.arange(40), "runs": run, "cells": 4 * runs[:, 0] + runs[:, 1]}[split]
    for key in np.unique(keys):
        assert len(set(known[keys == key])) == 1
    assert len(np.unique(unit)) == len(np.unique(keys))


def test_about_the_share_is_for_training_and_seeds_repeat():
    unit = np.arange(10_000)
    known = hold_out(unit, 0.3, 7)
    assert known.mean() == pytest.approx(0.3, abs=0.02)
    np.testing.assert_array_equal(known, hold_out(unit, 0.3, 7))
    assert (known != hold_out(unit, 0.3, 8)).any()


def test_unknown_splits_and_shares_are_refused():
    with pytest.raises(ArgumentError, match="split is 'days'; one of rows, runs, cells"):
        units_of(np.zeros((2, 2), dtype=np.int64), [0, 1], "days")
    with pytest.raises(ArgumentError, match="share is 1"):
        hold_out(np.arange(3), 1)


@given(st.integers(0, 10_000))
def test_every_workload_and_platform_stays_in_the_fit(seed):
    rng = np.random.default_rng(seed)
    runs = np.column_stack([rng.integers(6, size=50), rng.integers(5, size=50)])
    runs = np.column_stack([runs, rng.integers(-1, 6, size=50)])
    unit, known = rng.integers(30, size=50), rng.random(50) < 0.7
    kept, held = split_calibration(runs, unit, known, 0.3, seed)
    np.testing.assert_array_equal(kept | held, known)
    assert not (kept & held).any()
    assert not np.intersect1d(unit[kept], unit[held]).size
    alone = runs[:, 2] < 0
    for column in (0, 1):
        assert set(runs[kept & alone, column]) == set(runs[known & alone, column])
