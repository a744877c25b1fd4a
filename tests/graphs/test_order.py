"""An order of tasks that neither a file's order nor names settle."""

import numpy as np
import pytest

from msbgen.graphs.dataset import edges_of
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.graphs.order import canonical_order


def shuffled(graph, seed):
    """The same graph from another file: tasks, edges and names in another order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.sizes["task"])
    edges = rng.permutation(np.argsort(order)[edges_of(graph)])
    return order, make_graph(
        graph["kind"].values[order],
        graph["work"].values[order],
        [tuple(edge) for edge in edges.tolist()],
        names=[f"x{i}" for i in rng.permutation(len(order))],
    )


def laid_out(graph):
    """Kinds, works and edges in the order."""
    order = canonical_order(graph)
    place = np.argsort(order)
    edges = sorted(map(tuple, place[edges_of(graph)].tolist()))
    return graph["kind"].values[order].tolist(), graph["work"].values[order].tolist(), edges


@pytest.mark.parametrize("family", ["fft", "cholesky", "series-parallel", "k-means", "wavefront"])
def test_equal_graphs_are_laid_out_alike(family):
    graph = family_graph(family, FAMILIES[family].sizes[0], rng=1)
    wanted = laid_out(graph)
    for seed in range(3):
        assert laid_out(shuffled(graph, seed)[1]) == wanted


def test_everybody_stands_once_and_behind_what_he_waits_for():
    graph = family_graph("lu")
    order = canonical_order(graph)
    place = np.argsort(order)
    assert sorted(order.tolist()) == list(range(graph.sizes["task"]))
    source, target = place[edges_of(graph)].T
    assert np.all(source < target)


def test_symmetric_tasks_differ_by_their_neighbours():
    # two pairs alike: which source is first is a matter of names, whose target is which is not
    graphs = (
        make_graph(["a"] * 4, [1.0] * 4, edges) for edges in ([(0, 3), (1, 2)], [(0, 2), (1, 3)])
    )
    one, other = map(laid_out, graphs)
    assert one == other
