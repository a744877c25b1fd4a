"""Graphs of recursive programs: counts that are known, and searches that visit what they say."""

import itertools

import numpy as np
import pytest

from msbgen.graphs.families import recursions
from msbgen.graphs.families.catalogue import family_graph


def operations(graph):
    return [str(name).partition("-")[0] for name in graph["task"].values]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_trees_have_the_nodes_of_trees(n):
    sort = operations(family_graph("merge-sort", n))
    assert (sort.count("leaf"), sort.count("split"), sort.count("merge")) == (
        2**n,
        2**n - 1,
        2**n - 1,
    )
    assert family_graph("reduction", n).sizes["task"] == 2 ** (n + 1) - 1
    assert family_graph("broadcast", n).sizes["task"] == (3 ** (n + 1) - 1) // 2
    assert operations(family_graph("strassen", 1)).count("product") == 7


def test_works_of_a_merge_sort_add_up_level_by_level():
    graph = family_graph("merge-sort", 4)
    work, ops = graph["work"].values, np.array(operations(graph))
    assert work[ops == "merge"].sum() == pytest.approx(4 * 0.2)
    assert work[ops == "leaf"].sum() == pytest.approx(4 * 0.3)


def test_a_fibonacci_number_of_calls():
    calls = [operations(family_graph("fibonacci", n)).count("call") for n in range(1, 9)]
    assert calls[2:] == [calls[i] + calls[i + 1] + 1 for i in range(6)]


def test_a_search_for_queens_visits_what_a_naive_one_does():
    def naive(n, placed):
        row = len(placed)
        count = 1
        if row < n:
            for column in range(n):
                if all(column != q and abs(column - q) != row - r for r, q in enumerate(placed)):
                    count += naive(n, [*placed, column])
        return count

    for n in (4, 5, 6):
        for start in itertools.permutations(range(n), 2):
            if abs(start[0] - start[1]) > 1:
                assert recursions._visited(n, start) == naive(n, list(start))


@pytest.mark.parametrize("family", ["quick-sort", "tree-search", "floorplan", "knapsack", "layers"])
def test_irregular_graphs_depend_on_the_seed(family):
    counts = {family_graph(family, rng=seed).sizes["task"] for seed in range(8)}
    shapes = {family_graph(family, rng=seed)["source"].values.tobytes() for seed in range(8)}
    assert len(shapes) > 4
    assert max(counts) < 400


def test_quick_sort_splits_all_its_pieces():
    graph = family_graph("quick-sort", 4, rng=5)
    assert operations(graph).count("leaf") == 16
    assert operations(graph).count("partition") == 15


def test_a_series_parallel_program_has_one_end_for_each_fork():
    graph = family_graph("series-parallel", 12, rng=2)
    ops = operations(graph)
    assert ops.count("fork") == ops.count("join")
    assert ops.count("work") == 2 * 12 + 1
