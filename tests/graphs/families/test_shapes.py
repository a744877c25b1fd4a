"""Graphs of regular programs: as many tasks, and as long paths, as the algorithms have."""

import numpy as np
import pytest

from msbgen.graphs.dataset import edges_of
from msbgen.graphs.families.catalogue import family_graph


def counts(family, n):
    graph = family_graph(family, n)
    operations = [str(name).partition("-")[0] for name in graph["task"].values]
    return {op: operations.count(op) for op in dict.fromkeys(operations)}, graph


def after(graph, name):
    """Names of what a task waits for."""
    names = graph["task"].values.astype(str)
    return {names[s] for s, t in edges_of(graph) if names[t] == name}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiled_factorisations_have_the_tasks_of_the_textbook(n):
    pairs, cubes = n * (n - 1) // 2, n * (n - 1) * (n - 2) // 6
    assert sum(counts("cholesky", n)[0].values()) == n + 2 * pairs + cubes
    squares = n * (n - 1) * (2 * n - 1) // 6
    lu = counts("lu", n)[0]
    assert (lu["getrf"], lu.get("trsm", 0), lu.get("gemm", 0)) == (n, 2 * pairs, squares)
    qr = counts("qr", n)[0]
    assert (qr["geqrt"], qr.get("tsqrt", 0), qr.get("tsmqr", 0)) == (n, pairs, squares)


@pytest.mark.parametrize(("family", "depth"), [("cholesky", 3 * 5 - 3), ("lu", 3 * 5 - 3)])
def test_the_longest_path_of_a_factorisation(family, depth):
    # potrf, trsm, syrk of each step but the last, which has one task
    assert int(counts(family, 5)[1]["depth"].max()) == depth


def test_tiles_are_read_after_they_are_written():
    lu = counts("lu", 3)[1]
    assert after(lu, "gemm-0-1-2") == {"trsm-column-0-1", "trsm-row-0-2"}
    assert after(lu, "gemm-1-2-2") == {"gemm-0-2-2", "trsm-column-1-2", "trsm-row-1-2"}
    assert after(lu, "getrf-1") == {"gemm-0-1-1"}


def test_a_butterfly_joins_every_input_with_every_output():
    graph = counts("fft", 3)[1]
    reach = np.eye(graph.sizes["task"], dtype=bool)
    for s, t in sorted(map(tuple, edges_of(graph)), key=lambda e: graph["depth"].values[e[0]]):
        reach[:, t] |= reach[:, s]
    depth = graph["depth"].values
    assert reach[np.ix_(depth == 0, depth == 3)].all()
    assert (depth == 0).sum() == (depth == 3).sum() == 8


def test_a_bitonic_network_sorts():
    """0-1 principle: the network's exchanges, with their directions, sort every 0-1 input."""
    n, stages = 8, 3
    names = [str(x) for x in family_graph("bitonic-sort", stages)["task"].values]
    exchanges = [tuple(map(int, x.split("-")[1:])) for x in names if x.startswith("exchange")]
    assert len(exchanges) == n // 2 * stages * (stages + 1) // 2
    for bits in range(2**n):
        a = [bits >> i & 1 for i in range(n)]
        for stage, s, i in exchanges:
            j = i | 1 << s
            if (a[i] > a[j]) == (i >> (stage + 1) & 1 == 0):
                a[i], a[j] = a[j], a[i]
        assert a == sorted(a)


def test_grids_wait_for_their_neighbours():
    wave = counts("wavefront", 4)[1]
    assert after(wave, "block-2-3") == {"block-1-3", "block-2-2"}
    assert int(wave["depth"].max()) == 6
    assert after(counts("jacobi", 6)[1], "sweep-1-2") == {"sweep-0-1", "sweep-0-2", "sweep-0-3"}
    assert after(counts("seidel", 6)[1], "relax-1-2") == {"relax-1-1", "relax-0-2", "relax-0-3"}
    assert len(after(counts("heat", 3)[1], "step-1-1-1")) == 5
    assert after(counts("nussinov", 4)[1], "fold-0-2") == {"fold-0-1", "fold-1-2"}


def test_a_step_of_shortest_paths_needs_its_row_column_and_itself():
    graph = counts("floyd-warshall", 3)[1]
    assert after(graph, "relax-1-0-2") == {"row-0-2", "column-1-0", "row-1-2"}


def test_rounds_are_joined():
    assert int(counts("fork-join", 7)[1]["depth"].max()) == 8
    assert counts("map-reduce", 9)[0] == {"split": 1, "map": 9, "reduce": 3, "collect": 1}
    pipe = counts("pipeline", 4)[1]
    assert after(pipe, "filter-2") == {"decode-2", "filter-1"}
    assert counts("alignment", 6)[0]["align"] == 15
    assert counts("matrix-product", 3)[0] == {"load": 9, "gemm": 27}
