"""Geometry of contexts against a linear programme."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from msbgen.core import contexts as places
from msbgen.core.contexts import (
    Hull,
    LevelGrid,
    combinations_of,
    grid_contexts,
    grid_counts,
    in_tiles,
    inner_levels,
    near_weights,
    random_order,
    representative_contexts,
    squared_distances,
)
from msbgen.core.errors import ArgumentError


def in_hull(known, query):
    """Is the query a convex combination of known contexts, to a millionth of their ranges?"""
    low, span = known.min(axis=0), np.ptp(known, axis=0)
    scale = np.where(span > 0, span, 1.0)
    points, target = (known - low) / scale, (query - low) / scale
    n, m = points.shape
    # minimise the largest coordinate's error over convex weights
    upper = np.block([[points.T, -np.ones((m, 1))], [-points.T, -np.ones((m, 1))]])
    found = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=upper,
        b_ub=np.append(target, -target),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (n + 1),
    )
    return found.fun


@settings(max_examples=20)
@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 9])
)
def test_the_hull_agrees_with_a_linear_programme(m, n, seed, rank):
    """Designs in general position, in planes, on lines and in one place."""
    rng = np.random.default_rng(seed)
    known = rng.integers(-3, 4, (n, min(rank, m))) @ rng.integers(-2, 3, (min(rank, m), m))
    known = known * np.array([1.0, 50.0, 0.02])[:m] + np.array([0.0, 700.0, 1.2])[:m]
    weights = rng.dirichlet(np.ones(n), 4)
    query = np.vstack([weights @ known, known, known[0] + 0.3 * rng.standard_normal((6, m)) * 50])
    for one, outside in zip(query, Hull.of(known).outside(query)):
        error = in_hull(known, one)
        if not 1e-8 < error < 1e-4:  # where both may round either way
            assert outside == (error > 1e-6)


@pytest.mark.parametrize("missing", [[], [0], [0, 7]])
def test_a_grid_without_its_corners_is_no_box(missing):
    grid = np.array([(a, b, c) for a in (1, 2) for b in (70, 700) for c in (1.2, 2.2)], dtype=float)
    hull = Hull.of(np.delete(grid, missing, axis=0))
    outside = hull.outside(np.vstack([grid, [[1.5, 385.0, 1.7]]]))
    np.testing.assert_array_equal(np.flatnonzero(outside), missing)
    assert hull.outside(np.array([[1.5, 701.0, 1.7], [1.5, 700.0, 1.7]])).tolist()[0]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 2), max_size=16))
def test_inner_levels_lie_between_others_and_are_left_out_whole(rows):
    contexts = np.array(rows, dtype=float).reshape(-1, 2)
    found = inner_levels(contexts)
    for resource, members in found:
        level = {rows[i][resource] for i in members}
        others = [row[resource] for i, row in enumerate(rows) if i not in members]
        assert len(level) == 1
        assert min(others) < min(level) < max(others)
        assert not level & set(others)
    for resource in range(2):
        distinct = {row[resource] for row in rows}
        # a level of one context each is what leaving it out alone tests already
        wanted = len(distinct) - 2 if 3 <= len(distinct) <= len(rows) / 2 else 0
        assert sum(r == resource for r, _ in found) == wanted


levels_of_resources = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.integers(1, 50), min_size=1, unique=True), min_size=1
)


@given(levels=levels_of_resources, data=st.data())
def test_a_grid_has_so_many_levels_of_each_resource_spread_evenly(levels, data):
    counts = [data.draw(st.integers(1, len(values))) for values in levels.values()]
    grid = grid_contexts(levels, counts)
    assert grid.shape == (np.prod(counts), len(levels))
    assert len(np.unique(grid, axis=0)) == len(grid)
    for column, n, values in zip(grid.T, counts, levels.values()):
        chosen, known = np.unique(column), np.sort(values)
        assert len(chosen) == n
        assert chosen[-1] == known[-1]
        if n > 1:
            assert chosen[0] == known[0]
            steps = np.diff(np.searchsorted(known, chosen))
            assert steps.max() - steps.min() <= 2  # each place is rounded by half a level


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((2,), "grid is 2; a number of levels for each of ways, clock is wanted"),
        ((2, 0), "grid is 0 levels of clock"),
        ((4, 2), "grid is 4 levels of ways, which has 3; a number from 1 to 3"),
    ],
)
def test_a_grid_of_other_sizes_is_refused(counts, message):
    with pytest.raises(ArgumentError, match=message):
        grid_contexts({"ways": [2, 4, 6], "clock": [1.0, 2.0]}, counts)


def test_numbers_of_levels_are_read_from_text():
    assert grid_counts("5x4x1") == (5, 4, 1)
    assert grid_counts("7") == (7,)
    for text in ("", "5x", "axb", "-1x2", "5,5", "1e3", "²x1", "9" * 30):
        with pytest.raises(ArgumentError, match="grid is"):
            grid_counts(text)


def test_tiles_keep_every_row_and_repeat_the_last():
    for n in range(1, 20):
        rows = np.arange(2.0 * n).reshape(n, 2)
        tiled = in_tiles(rows)
        assert len(tiled) % 8 == 0
        assert len(tiled) < n + 8
        np.testing.assert_array_equal(tiled[:n], rows)
        assert (tiled[n:] == rows[-1]).all()


def test_near_weights_are_the_gaussian_kernel_of_the_nearest(monkeypatch):
    monkeypatch.setattr(places, "_NEAREST", 5)
    rng = np.random.default_rng(3)
    known, query = rng.normal(size=(30, 2)), rng.normal(size=(7, 2))
    for weight, distance in (
        (near_weights(known, query), squared_distances(query, known)),
        (near_weights(known, known, others=True), squared_distances(known, known)),
    ):
        distance = np.where(distance == 0, np.inf, distance)  # of a context to itself
        least = distance.min(axis=1, keepdims=True)
        kept = distance <= np.sort(distance, axis=1)[:, [4]]
        wanted = np.where(kept, np.exp(-0.5 * (distance - least)), 0.0)
        np.testing.assert_allclose(weight.toarray(), wanted, rtol=1e-12)


def test_representative_contexts_depend_on_no_order():
    contexts = np.random.default_rng(5).normal(size=(50, 3))
    order = np.random.default_rng(6).permutation(50)
    rows, others = (representative_contexts(c, 10) for c in (contexts, contexts[order]))
    assert 10 <= len(rows) <= 16
    np.testing.assert_array_equal(np.sort(order[others]), rows)
    np.testing.assert_array_equal(contexts[rows].min(axis=0), contexts.min(axis=0))
    np.testing.assert_array_equal(contexts[rows].max(axis=0), contexts.max(axis=0))
    np.testing.assert_array_equal(np.sort(random_order(contexts)), np.arange(50))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 99))
def test_a_grid_finds_every_combination_in_any_order(sizes, seed):
    rng = np.random.default_rng(seed)
    levels = [np.sort(rng.choice(20, size, replace=False)).astype(float) for size in sizes]
    every = np.array(list(itertools.product(*levels)))
    np.testing.assert_array_equal(combinations_of(levels), every)
    shuffled = rng.permutation(every)
    grid = LevelGrid.of(shuffled)
    assert grid.shape == tuple(sizes)
    assert grid.is_full
    np.testing.assert_array_equal(shuffled[grid.rows], every)
    np.testing.assert_array_equal(every[grid.numbers], shuffled)
    assert grid.missing.shape == (0, len(sizes))


def test_a_grid_names_the_combinations_that_are_no_context():
    grid = LevelGrid.of(np.array([[1.0, 5.0], [2.0, 5.0], [2.0, 7.0], [2.0, 7.0]]))
    assert not grid.is_full
    assert grid.missing.tolist() == [[1.0, 7.0]]
