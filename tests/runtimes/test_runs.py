"""Runs by index: what is derived of them, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.runtimes.runs import observations, run_indices

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
