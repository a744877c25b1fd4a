"""Graphs as arrays: in an order that does not depend on the file's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphs import small_graphs
from msbgen.graphs.dataset import edges_of
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.graphs.simulator import Program


def permuted(graph, seed, rename=False):
    """The same graph with its tasks and edges in another order."""
    rng = np.random.default_rng(seed)
    n = graph.sizes["task"]
    order = rng.permutation(n)
    place = np.argsort(order)
    edges = rng.permutation(place[edges_of(graph)]) if graph.sizes["edge"] else []
    names = graph["task"].values.astype(str)[order]
    if rename:
        names = [f"x{i}" for i in rng.permutation(n)]
    return make_graph(
        graph["kind"].values[order],
        graph["work"].values[order],
        [tuple(e) for e in np.asarray(edges).tolist()],
        names=names,
    )


def same(a, b):
    return all(
        np.array_equal(getattr(a, x), getattr(b, x))
        for x in ("kind", "work", "waits", "first_after", "after")
    )


def test_tasks_stand_behind_what_they_wait_for():
    for name in FAMILIES:
        graph = family_graph(name)
        program = Program.of(graph)
        assert sorted(program.order.tolist()) == list(range(graph.sizes["task"]))
        waits = np.zeros(len(program.work), dtype=int)
        for i in range(len(waits)):
            below = program.after[program.first_after[i] : program.first_after[i + 1]]
            assert np.all(below > i)
            waits[below] += 1
        np.testing.assert_array_equal(waits, program.waits)
        np.testing.assert_array_equal(program.work, graph["work"].values[program.order])


@given(small_graphs(), st.integers(0, 99))
def test_the_order_in_a_file_changes_nothing(drawn, seed):
    n, edges, works = drawn
    graph = make_graph(["ab"[i % 2] for i in range(n)], works, edges)
    assert same(Program.of(graph), Program.of(permuted(graph, seed)))


def test_nor_do_names_in_any_family():
    for name in FAMILIES:
        graph = family_graph(name, FAMILIES[name].sizes[0], rng=1)
        for seed in (5, 6):
            assert same(Program.of(graph), Program.of(permuted(graph, seed, rename=True))), name


def test_symmetric_tasks_differ_by_their_neighbours():
    # two equal pairs: names decide which source is first, edges which target is
    one, other = (
        make_graph(["a"] * 4, [1.0] * 4, edges) for edges in ([(0, 3), (1, 2)], [(0, 2), (1, 3)])
    )
    assert same(Program.of(one), Program.of(other))
