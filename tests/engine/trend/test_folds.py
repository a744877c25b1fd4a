"""Folds of contexts and of levels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.engine.trend.folds import Folds

CONTEXTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=14, unique=True
).map(lambda rows: np.array(rows, dtype=float))


@given(CONTEXTS)
def test_contexts_and_levels_have_half_the_weight_each(contexts):
    folds, n = Folds.of(contexts), len(contexts)
    assert folds.weight.sum() == pytest.approx(1)
    assert len(folds.weight) == len(folds.index)
    np.testing.assert_array_equal(folds.index[:n], np.arange(n))
    alone = folds.weight[:n]
    assert np.ptp(alone) == 0
    assert alone.sum() == pytest.approx(0.5 if len(folds.ends) else 1.0)
    levels = [folds.weight[n:][group].sum() for group in folds.groups]
    np.testing.assert_allclose(levels, np.full(len(levels), 0.5 / max(len(levels), 1)))


@given(CONTEXTS)
def test_a_group_is_all_of_one_level(contexts):
    folds = Folds.of(contexts)
    assert len(folds.groups) == len(folds.resources)
    for group, resource in zip(folds.groups, folds.resources):
        column, members = contexts[:, resource], folds.members[group]
        (level,) = set(column[members])
        np.testing.assert_array_equal(np.sort(members), np.flatnonzero(column == level))


@given(CONTEXTS, st.integers(0, 1), st.booleans())
def test_folds_of_a_resource_are_rows_of_all_folds(contexts, resource, singles):
    folds = Folds.of(contexts)
    part, rows = folds.of_resource(resource, singles=singles)
    np.testing.assert_array_equal(folds.index[rows], part.index)
    if resource in folds.resources:
        assert set(part.resources) == {resource}
        assert len(part.ends) == folds.resources.count(resource)
        assert part.singles == (len(contexts) if singles else 0)
    else:  # the contexts alone
        assert part.singles == len(contexts)
        assert len(part.ends) == 0
