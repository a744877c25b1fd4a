"""Variability between nodes or sessions: by enumeration, and by what chance alone does."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.kernels.dataset import make as make_kernels
from msbgen.kernels.variability import (
    compare_groups,
    describe_variability,
    repeatability,
    variability_rows,
)

GROUPS = st.lists(
    st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8), min_size=2, max_size=4
).filter(lambda groups: len({x for g in groups for x in g}) > 1)


def steps_apart(a, b):
    """Largest difference of two distribution functions, at every point there is."""
    return max(abs(np.mean(np.array(a) <= x) - np.mean(np.array(b) <= x)) for x in [*a, *b])


@settings(max_examples=20)
@given(GROUPS)
def test_figures_by_enumeration(groups):
    found = compare_groups(groups)
    medians = [sorted(g)[len(g) // 2] if len(g) % 2 else np.median(g) for g in groups]
    assert found.reference == pytest.approx(np.median(medians))
    every = [x / found.reference - 1 for g in groups for x in g]
    np.testing.assert_allclose(found.difference, every)
    assert found.between == pytest.approx((max(medians) - min(medians)) / found.reference)
    apart = max(steps_apart(a, b) for a, b in combinations(groups, 2))
    assert found.kolmogorov == pytest.approx(apart)
    assert 0 <= found.kolmogorov_p <= 1
    assert 0.001 <= found.anderson_p <= 0.25


def test_equal_laws_are_rarely_told_apart_and_other_ones_always():
    rng = np.random.default_rng(0)
    rejected = [
        [found.anderson_p < 0.05, found.kolmogorov_p < 0.05]
        for found in (compare_groups(np.exp(0.1 * rng.normal(size=(3, 40)))) for _ in range(200))
    ]
    assert (np.mean(rejected, axis=0) < 0.09).all()
    shifted = np.exp(0.1 * rng.normal(size=(3, 40)) + [[0.0], [0.0], [0.2]])
    found = compare_groups(shifted)
    assert found.anderson_p == 0.001
    assert found.kolmogorov_p < 1e-6
    assert found.between == pytest.approx(0.2, abs=0.06)
    assert found.within == pytest.approx(0.0674, abs=0.02)


def test_a_table_has_a_row_for_each_kernel_and_configuration():
    seconds = [1.0, 1.1, 2.0, 2.2, 5.0, 5.5, 5.0, 5.5, 9.0]
    dataset = make_kernels(
        ["a"] * 8 + ["b"],
        seconds,
        resources={"clock": [1, 1, 1, 1, 2, 2, 2, 2, 1]},
        node=["x", "x", "y", "y", "x", "x", "y", "y", "x"],
        run=[0, 0, 0, 0, 0, 0, 1, 1, 0],
    )
    rows = list(variability_rows(dataset))
    assert [(row["kind"], row["clock"]) for row in rows] == [("a", 1.0), ("a", 2.0)]
    assert rows[0]["between"] == pytest.approx(1.05 / 1.575)
    assert rows[1]["between"] == 0
    assert [row["kind"] for row in variability_rows(dataset, by="run")] == ["a"]
    with pytest.raises(ArgumentError, match="quantity is 'power', but no measurement"):
        list(variability_rows(dataset, quantity="power"))
    with pytest.raises(ArgumentError, match="by is 'day'; node or run"):
        list(variability_rows(dataset, by="day"))


def test_sessions_repeat_as_well_as_their_medians():
    assert repeatability([[1.0, 1.2, 1.1]]) == pytest.approx((0.1 / 1.1) * 2 / 3)
    with pytest.raises(MeasurementError, match="in two sessions"):
        repeatability([[1.0, np.nan]])


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(MeasurementError, match="groups of 3, 1 observations"):
        compare_groups([[1.0, 2.0, 3.0], [1.0]])
    with pytest.raises(MeasurementError, match="groups of no observations"):
        compare_groups([])
    with pytest.raises(ArgumentError, match="observation 1 of group 1 is 0"):
        compare_groups([[1.0, 2.0], [1.0, 0.0]])
    with pytest.raises(MeasurementError, match="all 4 observations are 2"):
        compare_groups([[2.0, 2.0], [2.0, 2.0]])


def test_a_file_is_described_by_how_it_repeats():
    def runs(seconds, **more):
        clock = [500.0, 500.0, 500.0, 700.0]
        return make_kernels(["a"] * 4, seconds, resources={"clock": clock}, **more)

    nodes = runs([1.0, 1.1, 1.2, 9.0], node=["x", "y", "z", "x"], power=[5.0, 5.0, np.nan, 5.0])
    assert describe_variability(nodes) == [
        "runtime       repeats to 6.1% between nodes: from -9.1% on x to +9.1% on z",
        "power         repeats to 0.0% between nodes: from +0.0% on x to +0.0% on x",
    ]
    [line] = describe_variability(runs([1.0, 1.0, 3.0, 9.0], run=[1, 1, 2, 3]))
    assert line == "runtime       repeats to 50.0% between runs: from -50.0% on 1 to +50.0% on 2"
    assert describe_variability(runs([1.0, 1.1, 1.2, 9.0])) == []
    assert describe_variability(runs([1.0, 1.1, 1.2, 9.0], node=["x", "x", "x", "y"])) == []
