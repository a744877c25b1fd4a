"""Families of graphs: there are many, of the sizes they say, the same for the same seed."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError
from msbgen.data.shipped import shipped_folder
from msbgen.systems.graphs.dataset import edges_of
from msbgen.systems.graphs.families.builder import GraphBuilder, TaskTemplate
from msbgen.systems.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.systems.graphs.families.recursions import queens

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
        (("lu", 60), "more than 20000 tasks"),
        (("page-rank", 3000), "more than 1000000 edges"),
    ],
)
def test_what_no_family_has_is_refused(given, predicted):
    with pytest.raises(ArgumentError) as caught:
        family_graph(*given)
    assert predicted in str(caught.value)
    with pytest.raises(ArgumentError, match="scale is -1"):
        family_graph("lu", scale=-1)


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


def test_a_fibonacci_number_of_calls():
    calls = [operations(family_graph("fibonacci", n)).count("call") for n in range(1, 9)]
    assert calls[2:] == [calls[i] + calls[i + 1] + 1 for i in range(6)]


def boards(n, placed):
    """Boards that a search visits below some queens, one by one, in up to six rows."""
    if len(placed) == min(n, 6):
        return 1
    free = [
        c
        for c in range(n)
        if all(c != q and abs(c - q) != len(placed) - row for row, q in enumerate(placed))
    ]
    return 1 + sum(boards(n, [*placed, column]) for column in free)


@pytest.mark.parametrize("n", [4, 5, 7])
def test_the_work_of_a_board_is_what_a_search_below_it_visits(n):
    alike = dict.fromkeys(("start", "row", "board", "count"), TaskTemplate("gzip", 1.0, 1))
    p = GraphBuilder(alike, np.random.default_rng(0), 99)
    queens(p, n)
    works = {name: work for name, work in zip(p.names, p.works) if name.startswith("board")}
    pairs = [(i, j) for i in range(n) for j in range(n) if abs(i - j) > 1]
    visited = {f"board-{i}-{j}": boards(n, [i, j]) for i, j in pairs}
    assert works == {name: count / max(visited.values()) for name, count in visited.items()}


@pytest.mark.parametrize("family", ["quick-sort", "tree-search", "floorplan", "knapsack", "layers"])
def test_irregular_graphs_depend_on_the_seed(family):
    counts = {family_graph(family, rng=seed).sizes["task"] for seed in range(8)}
    shapes = {family_graph(family, rng=seed)["source"].values.tobytes() for seed in range(8)}
    assert len(shapes) > 4
    assert max(counts) < 400


OPERATIONS = {"map": TaskTemplate("gzip", 0.5, 2), "sum": TaskTemplate("sort", 0.1, 1, 0.3)}


def test_a_task_is_its_operation_and_waits_once_for_each():
    p = GraphBuilder(OPERATIONS, np.random.default_rng(0), 10)
    a, b = p.add("map-0"), p.add("map-1", work=2.0)
    c = p.add("sum", [a, b, a], by="join")
    assert (p.kinds, p.loops, p.works[:2]) == (["gzip", "gzip", "sort"], [2, 2, 1], [0.5, 1.0])
    assert (p.edges, p.types) == ([(a, c), (b, c)], ["join", "join"])


def test_works_spread_as_their_operation_says():
    p = GraphBuilder(OPERATIONS, np.random.default_rng(0), 3000)
    for i in range(2000):
        p.add(f"sum-{i}")
    logs = np.log(np.array(p.works) / 0.1)
    assert abs(logs.std() - 0.3) < 0.02
    assert abs(logs.mean()) < 0.03
