"""Runs by index: what is derived of them, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.runtimes.runs import observations, run_indices
from msbgen.runtimes.splits import SPLITS, hold_out, split_calibration, units_of

SHAPE = (5, 4)


@given(st.integers(0, 10_000), st.integers(0, 3))
def test_cells_and_neighbours_are_those_of_each_row(seed, slots):
    rng = np.random.default_rng(seed)
    table = np.column_stack([rng.integers(n, size=12) for n in SHAPE])
    table = np.column_stack([table, rng.integers(-1, SHAPE[0], (12, slots))])
    runs = observations(run_indices(table), SHAPE)
    pairs = [
        (n, int(k), int(k) * SHAPE[1] + int(table[n, 1]))
        for n in range(12)
        for k in table[n, 2:]
        if k >= 0
    ]
    row, near = runs.neighbour
    assert (
        list(zip(runs.interfered[row].tolist(), near.tolist(), runs.neighbour_cell.tolist()))
        == pairs
    )
    np.testing.assert_array_equal(runs.n_neighbours, (table[:, 2:] >= 0).sum(axis=1))
    some = rng.random(12) < 0.5
    np.testing.assert_array_equal(runs.some(some).cell, (table[:, 0] * 4 + table[:, 1])[some])


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ([[0], [1]], r"runs has shape \(2, 1\); rows of workload"),
        (np.empty((0, 3)), r"runs has shape \(0, 3\)"),
        ([[0, 0], [5, 0]], "runs has 5 in row 1, column 0; an index from 0 to 4 is wanted"),
        ([[0, -1]], "runs has -1 in row 0, column 1; an index from 0 to 3"),
        ([[0, 0, -1], [0, 0, -2]], "runs has -2 in row 1, column 2; an index from -1 to 4"),
    ],
)
def test_arrays_that_are_no_runs_are_refused(table, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        observations(run_indices(table), SHAPE)


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
