"""Runs by index: what is derived of them, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.systems.runtimes.runs import observations, run_indices
from msbgen.systems.runtimes.splits import cells_of, removable

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


def components(runs):
    """Component of each workload and platform by the cells observed alone, as a partition."""
    part = {("w", int(i)): {("w", int(i))} for i in runs[:, 0]}
    part |= {("p", int(j)): {("p", int(j))} for j in runs[:, 1]}
    for i, j, k in runs:
        if k < 0:
            joined = part["w", int(i)] | part["p", int(j)]
            part |= dict.fromkeys(joined, joined)
    return {frozenset(one) for one in part.values()}


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_what_is_held_out_is_whole_cells_that_nothing_depends_on(seed, share):
    rng = np.random.default_rng(seed)
    runs = np.column_stack([rng.integers(6, size=40), rng.integers(5, size=40)])
    runs = np.column_stack([runs, rng.integers(-3, 6, size=40).clip(-1)])
    cell = cells_of(runs)
    wanted = (rng.random(cell.max() + 1) < share)[cell]
    held = removable(runs, wanted)
    assert not (held & ~wanted).any()
    for one in np.unique(cell):
        assert len(set(held[cell == one])) == 1
        assert len(np.unique(runs[cell == one, :2], axis=0)) == 1
    alone = runs[runs[:, 2] < 0]
    rest = runs[~held & (runs[:, 2] < 0)]
    assert components(rest) == components(alone)
    # as many as possible: one more cell would separate some
    for one in np.unique(cell[wanted & ~held]):
        fewer = runs[~held & (cell != one) & (runs[:, 2] < 0)]
        assert components(fewer) != components(alone)
