"""Families of graphs: there are many, of the sizes they say, the same for the same seed."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError
from msbgen.data.shipped import shipped_folder
from msbgen.graphs.families.catalogue import FAMILIES, family_graph

TRACES = {path.stem for path in (shipped_folder() / "traces").glob("*.nc")}


def test_there_are_at_least_two_dozen_families_of_all_sizes():
    assert len(FAMILIES) >= 24
    for family in FAMILIES.values():
        counts = [family_graph(family.name, size).sizes["task"] for size in family.sizes]
        assert counts == sorted(counts)
        assert 5 <= counts[0] <= 50
        assert 40 <= counts[-1] <= 260


@pytest.mark.parametrize("name", FAMILIES)
def test_kinds_are_traces_that_ship_and_equal_seeds_draw_equal_graphs(name):
    graph = family_graph(name, rng=3)
    assert set(graph["kind"].values.tolist()) <= TRACES
    xr.testing.assert_identical(graph, family_graph(name, rng=np.random.default_rng(3)))
    assert graph.attrs["family"] == name
    assert graph["loops"].values.min() >= 0


def test_every_trace_that_ships_is_a_kind_of_some_family():
    used = {op.kind for family in FAMILIES.values() for op in family.operations.values()}
    assert used == TRACES


def test_scale_scales_the_work_of_the_same_graph():
    small, large = family_graph("layers", 5), family_graph("layers", 5, scale=3)
    np.testing.assert_allclose(large["work"], 3 * small["work"])
    np.testing.assert_array_equal(large["source"], small["source"])


@pytest.mark.parametrize(
    ("given", "predicted"),
    [
        (("choleski",), "did you mean 'cholesky'?"),
        (("x",), "one of lu, cholesky"),
        (("lu", 0), "size is 0; a whole number ≥ 1"),
        (("lu", 2.5), "size is 2.5"),
        (("lu", 60), "more than 20000 tasks"),
    ],
)
def test_what_no_family_has_is_refused(given, predicted):
    with pytest.raises(ArgumentError) as caught:
        family_graph(*given)
    assert predicted in str(caught.value)
    with pytest.raises(ArgumentError, match="scale is -1"):
        family_graph("lu", scale=-1)
