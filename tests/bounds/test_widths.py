"""Widths against slow loops, and what they follow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from held import grid_groups, held_out
from msbgen.bounds.widths import LEAST_WIDTH, Widths

few = settings(max_examples=20)


def drawn(seed, *, most_runs=4, parts=1):
    """Ragged runs of a small grid, of which a few contexts may lack; errors of their own."""
    rng = np.random.default_rng(seed)
    levels = [np.sort(rng.uniform(1.0, 3.0, n)) for n in (4, rng.integers(2, 4))]
    contexts = np.array([(a, b) for a in levels[0] for b in levels[1]])
    runs = [np.ones(rng.integers(1, most_runs + 1)) for _ in contexts]
    held = held_out(contexts, runs, groups=grid_groups(contexts))
    return held, 0.2 * rng.standard_normal((len(held.row), parts))


def every(held):
    return np.ones(len(held.row), dtype=bool)


def slow_rows(held, error, placed):
    """The left-out predictions as the oracle wants them."""
    steps = held.left_out_rows.new.astype(float) if placed else held.left_out_rows.gap**2
    resource = dict.fromkeys(range(len(held.context)))
    for r, rows in held.levels:
        resource.update(dict.fromkeys(rows.tolist(), r))
    contexts, rows = held.trend.contexts, []
    for i, c in enumerate(held.context):
        level = None if resource[i] is None else contexts[c, resource[i]]
        errors = error[held.row == i].tolist()
        rows.append((int(c), resource[i], level, held.left_out_rows.near[i], steps[i], errors))
    return rows


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_widths_equal_those_of_slow_loops(seed, placed):
    held, error = drawn(seed)
    rows = slow_rows(held, error[:, 0], placed)
    rng = np.random.default_rng(seed)
    query = held.query(np.vstack([held.trend.contexts[:2], rng.uniform(1.0, 3.0, (3, 2))]))
    for places in (query, held.left_out_rows):
        found = Widths(held, error, every(held), placed).at(places)
        steps = places.new.astype(float) if placed else places.gap**2
        for i, near in enumerate(places.near):
            wanted = oracles.width(near, steps[i], rows, placed)
            assert found[i, 0] == pytest.approx(np.sqrt(1.3 * wanted) + LEAST_WIDTH, rel=1e-6)


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_runs_without_the_quantity_do_not_enter_widths(seed, placed):
    held, error = drawn(seed)
    holds = np.random.default_rng(seed).random(len(error)) < 0.7
    holds[np.unique(held.row, return_index=True)[1]] = True  # one run of each context
    other = np.where(holds[:, None], error, 9.0)
    one, two = (Widths(held, e, holds, placed).at(held.left_out_rows) for e in (error, other))
    np.testing.assert_array_equal(one, two)
    assert np.all(one < 2.0)


def test_widths_of_parts_are_shrunk_towards_their_mean():
    held, error = drawn(1, parts=3)
    quiet = error * [1.0, 1.0, 0.0]
    width = Widths(held, quiet, every(held), deconvolved=True).at(held.left_out_rows)
    square = (width - LEAST_WIDTH) ** 2
    mean = square.sum(axis=1) / (3 + 3 * 0.3)
    np.testing.assert_allclose(square[:, 2], 0.3 * mean, rtol=1e-9)


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_score_times_its_width_is_the_error(seed, placed):
    held, error = drawn(seed, parts=2)
    widths = Widths(held, error, every(held), placed)
    reached = widths.scores * widths.at(held.left_out_rows)[held.row]
    np.testing.assert_allclose(reached, error, atol=1e-12)
