"""Scaled coordinates of contexts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.engine.trend.coordinates import COORDINATES, Coordinates, check_names, default_names

LEVELS = st.lists(st.integers(1, 10**6), min_size=1, max_size=9)


@given(LEVELS, st.sampled_from(COORDINATES))
def test_known_contexts_span_one_unit_and_keep_their_order(levels, name):
    known = np.array(levels, dtype=float)[:, None]
    z = Coordinates.of((name,), known).scaled(known)[:, 0]
    if len(set(levels)) == 1:
        assert not z.any()  # one level has no scale
    else:
        assert z.min() == -0.5
        assert z.max() == pytest.approx(0.5, abs=1e-9)
    order = np.argsort(known[:, 0], kind="stable")
    assert np.all(np.diff(z[order]) >= 0)


@pytest.mark.parametrize(
    ("name", "levels"),
    [("log", [1, 2, 4]), ("reciprocal", [1 / 3, 1 / 2, 1]), ("linear", [1, 2, 3])],
)
def test_the_middle_of_a_coordinate_is_its_mean(name, levels):
    known = np.array(levels, dtype=float)[:, None]
    np.testing.assert_allclose(
        Coordinates.of((name,), known).scaled(known)[:, 0], [-0.5, 0, 0.5], atol=1e-12
    )


def test_levels_that_are_not_positive_are_linear():
    known = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert default_names(known) == ("linear", "log")
    assert check_names("linear", known) == ("linear", "linear")
    with pytest.raises(ArgumentError, match="'linear' is wanted where"):
        check_names("log", known)
    with pytest.raises(ArgumentError, match="'auto', or 2 of log, reciprocal, linear"):
        check_names(("log",), known)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([1.0, 2.0], r"shape \(2,\); \(q, 2\)"),
        ([[1.0]], r"shape \(1, 1\); \(q, 2\)"),
        ([[1.0, 1.0], [3.0, 0.0]], r"context 1, \[3.0, 0.0\]"),
        ([[1.0, np.nan]], "context 0"),
    ],
)
def test_contexts_outside_the_domain_are_refused(query, message):
    known = np.array([[0.0, 1.0], [2.0, 3.0]])
    with pytest.raises(ArgumentError, match=message):
        Coordinates.of(("linear", "log"), known).scaled(query)
