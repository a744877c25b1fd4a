"""Widths against slow loops, and what they follow."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from held import grid_groups, left_out
from msbgen.engine.bounds.growth import Growth, level_growth
from msbgen.engine.bounds.widths import LEAST_WIDTH, BandWidths, Widths

few = settings(max_examples=10)

# Growth of errors of which half does not depend on the gap.
HALF = Growth(errors=2.0, gaps=3.0)


def drawn(seed, *, most_runs=4, parts=1):
    """Ragged runs of a small grid, of which a few contexts may lack; errors of their own."""
    rng = np.random.default_rng(seed)
    levels = [np.sort(rng.uniform(1.0, 3.0, n)) for n in (4, rng.integers(2, 4))]
    contexts = np.array([(a, b) for a in levels[0] for b in levels[1]])
    runs = [np.ones(rng.integers(1, most_runs + 1)) for _ in contexts]
    held = left_out(contexts, runs, groups=grid_groups(contexts))
    return held, 0.2 * rng.standard_normal((len(held.row), parts))


def every(held):
    return np.ones(len(held.row), dtype=bool)


def made(held, error, band, measured=None):
    """Widths of whole runs or of bands, of errors that cancel partly between parts."""
    measured = every(held) if measured is None else measured
    if not band:
        return Widths(held, error, measured)
    return BandWidths(held, error, measured, 0.4 * error, {0: HALF})


def slow_rows(held, error):
    """The left-out predictions as the oracle wants them."""
    resource = dict.fromkeys(range(len(held.context)))
    for r, rows in held.levels:
        resource.update(dict.fromkeys(rows.tolist(), r))
    contexts, left_out, rows = held.trend.contexts, held.left_out_rows, []
    for i, c in enumerate(held.context):
        level = None if resource[i] is None else contexts[c, resource[i]]
        errors = error[held.row == i]
        own = left_out.near[i], left_out.gap[i] ** 2, errors.tolist(), (0.4 * errors).tolist()
        rows.append((int(c), resource[i], level, *own))
    return rows


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_widths_equal_those_of_slow_loops(seed, band):
    held, error = drawn(seed)
    rows, known = slow_rows(held, error[:, 0]), held.trend.contexts
    ends = sum((column == edge) for column in known.T for edge in (column.min(), column.max()))
    rng = np.random.default_rng(seed)
    query = held.query(np.vstack([known[:2], rng.uniform(1.0, 3.0, (3, 2))]))
    for places in (query, held.left_out_rows):
        found = made(held, error, band).at(places)
        for i in rng.choice(len(found), 1):
            own = places.near[i], places.new[i], places.gap[i] ** 2, rows
            if band:
                square = np.dot([1.1, 1.3], oracles.width(*own, ends, most_constant=[0.5, 1.0]))
            else:
                square = sum(oracles.width(*own))
            assert found[i, 0] == pytest.approx(np.sqrt(square) + LEAST_WIDTH, rel=1e-6)


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_runs_without_the_quantity_do_not_enter_widths(seed, band):
    held, error = drawn(seed)
    holds = np.random.default_rng(seed).random(len(error)) < 0.7
    holds[np.unique(held.row, return_index=True)[1]] = True  # one run of each context
    other = np.where(holds[:, None], error, 9.0)
    one, two = (made(held, e, band, holds).at(held.left_out_rows) for e in (error, other))
    np.testing.assert_array_equal(one, two)
    assert np.all(one < 2.0)


def grown(errors_of_gaps):
    """Left-out predictions on five levels, whose errors are a function of the squared gap."""
    contexts = np.array([(a, b) for a in (1.0, 1.2, 2.0, 2.9, 3.0) for b in (1.0, 2.0, 3.0)])
    held = left_out(contexts, [[1.0, 1.0]] * 15, groups=grid_groups(contexts))
    square = errors_of_gaps(held.left_out_rows.gap[:, 0] ** 2)[held.row][:, None]
    noise = 1e-4 * np.random.default_rng(0).standard_normal((len(held.row), 1))
    return held, np.sqrt(square) + noise


@pytest.mark.parametrize("smooth", [1.0, 0.0])
def test_widths_follow_the_gap_as_the_errors_of_left_out_levels_do(smooth):
    small, large = [[1.0, 1.5]], [[1.6, 1.5]]  # b is new to both, and a to the second
    growing, equal = grown(lambda gap: 0.1 * gap), grown(lambda gap: 0.01 * (gap > 0))
    for (held, error), grows in ((growing, True), (equal, False)):
        widths = BandWidths(held, error, every(held), smooth * error, {})
        width = [widths.at(held.query(context))[0, 0] for context in (small, large, [[1.1, 1.5]])]
        alone, wide, narrow = width
        # errors that cancel between parts may be those of sampling intervals at any smooth share
        assert wide > 1.5 * alone
        assert (narrow < 0.7 * wide) == (grows or smooth == 1.0)


def test_widths_follow_the_gap_as_far_as_levels_left_out_together_show():
    held, error = grown(lambda gap: 0.01 * (gap > 0))
    near = held.query([[1.1, 1.5]])
    widths = [
        BandWidths(held, error, every(held), 0.0 * error, growth).at(near)[0, 0]
        for growth in ({}, {0: Growth(errors=4.0, gaps=4.0)}, {0: Growth(errors=1.0, gaps=4.0)})
    ]
    assert widths[1] < 0.7 * widths[0]
    assert widths[2] == widths[0]  # a part of the errors that does not grow is no larger for it


@pytest.mark.parametrize(
    ("errors", "gaps", "share"),
    [(4.0, 4.0, 0.0), (1.0, 4.0, 1.0), (2.5, 4.0, 0.5), (9.0, 4.0, 0.0)],
)
def test_the_constant_share_of_errors_follows_from_their_growth(errors, gaps, share):
    assert Growth(errors, gaps).constant == pytest.approx(share)


def test_growth_is_that_of_contexts_left_out_with_the_level_beside():
    contexts = np.array([(a, b) for a in (1.0, 1.4, 2.0, 2.5, 3.0) for b in (1.0, 2.0, 3.0)])
    held = left_out(contexts, [[1.0]] * 15, groups=grid_groups(contexts))
    states = np.exp(np.sin(3.0 * contexts[:, 0]))[:, None, None]
    trend = replace(held.trend, lengths=np.full((1, 2), 0.5)).refit(states)
    residual = np.log(states / trend.predict(contexts))
    held = replace(held, centre=replace(held.centre, trend=trend, context_residual=residual))
    z, floor = held.known, held.floor

    def square_error(levels, row):
        kept = ~np.isin(contexts[:, 0], levels)
        log = np.log(states[kept] + trend.offset)[..., 0]
        wanted = oracles.kriging_mean(z[kept], z[row], trend.lengths[0], trend.nugget[0], log)
        return float(np.log(states[row, 0, 0] + floor[0]) - wanted[0]) ** 2

    inner, alone, together = (1.4, 2.0, 2.5), [], []
    for pair in pairwise(inner):
        for row in np.flatnonzero(np.isin(contexts[:, 0], pair)):
            alone.append(square_error(contexts[row, :1], row))
            together.append(square_error(pair, row))
    (growth,) = level_growth(held)
    assert set(growth) == {0}  # the other resource has one inner level
    assert growth[0].errors == pytest.approx(np.mean(together) / np.mean(alone), rel=0.05)
    assert growth[0].gaps > 2.0


def test_widths_at_a_cliff_do_not_follow_the_gap():
    held, error = grown(lambda gap: 0.1 * gap)
    near = held.query([[1.1, 1.5]])
    plain, cliff = (
        BandWidths(held, error, every(held), error, {}, frozenset(cliffs)).at(near)
        for cliffs in ((), (0,))
    )
    assert cliff > 1.5 * plain


def test_widths_of_parts_are_shrunk_towards_their_mean_the_more_at_new_levels():
    held, error = grown(lambda gap: 0.1 * (gap > 0))
    parts = error * [1.0, 1.0, 0.0]
    widths = BandWidths(held, parts, every(held), parts, {})
    square = (widths.at(held.query([[1.0, 1.0], [1.6, 1.0]])) - LEAST_WIDTH) ** 2
    known, new = square[:, 2] / square.mean(axis=1)
    assert known == pytest.approx(0.1 / 1.1, rel=1e-6)
    assert new == pytest.approx(0.3 / 1.3, rel=0.01)


@few
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_score_times_its_width_is_the_error(seed, band):
    held, error = drawn(seed, parts=2)
    widths = made(held, error, band)
    reached = widths.scores * widths.at(held.left_out_rows)[held.row]
    np.testing.assert_allclose(reached, error, atol=1e-12)
