import numpy as np
import pytest

from msbgen.systems.graphs.boards import prepare_graph
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.devices import device_contexts
from msbgen.systems.graphs.predictor.encoder import TELEMETRY, GraphEncoder
from msbgen.systems.graphs.predictor.factors import DeviceRuns, Factors, estimate, fit_factors
from msbgen.systems.graphs.predictor.features import (
    SCHEDULED,
    SHAPE,
    GraphShape,
    columns,
    plain_features,
    scheduled_features,
)
from msbgen.systems.graphs.predictor.network import RELATIONS
from toy_board import device_of, layered


@pytest.fixture(scope="module")
def scene(board):
    return GraphEncoder(layered("abcd", 2), board)


def batch(scene, context, start=30.0, **how):
    return scene.batch(scene.board.rows([context])[0], start, **how)


ALL = [2, 2.0, 2, 1.0, 8, 800]


def test_edges_are_those_of_the_graph_in_both_directions(scene):
    found, graph = batch(scene, ALL), scene.dataset
    pairs = np.stack([graph["source"].values, graph["target"].values])
    assert np.array_equal(found.edges["precedes"], pairs)
    assert np.array_equal(found.edges["follows"], pairs[::-1])
    for name, (start, end) in RELATIONS.items():
        edges = found.edges[name]
        assert edges.shape[1] == len(found.weights[name])
        if edges.size:
            assert edges[0].max() < len(found.features[start])
            assert edges[1].max() < len(found.features[end])


def test_each_task_is_placed_once_on_a_core_that_is_given(scene):
    for context, given in ((ALL, {0, 1, 2, 3}), ([1, 2.0, 0, 1.0, 8, 800], {0})):
        found = batch(scene, context)
        tasks, cores = found.edges["runs on"]
        assert sorted(tasks.tolist()) == list(range(scene.dataset.sizes["task"]))
        assert set(cores.tolist()) <= given
        assert np.array_equal(found.edges["hosts"], found.edges["runs on"][::-1])
        assert set(found.edges["shares"].ravel().tolist()) == (given if len(given) > 1 else set())


def test_cores_use_their_cache_and_the_memory(scene, kinds):
    found = batch(scene, ALL)
    assert len(found.features["memory"]) == 3
    pairs = set(map(tuple, found.edges["uses"].T.tolist()))
    assert pairs == {(0, 0), (1, 0), (2, 1), (3, 1), (0, 2), (1, 2), (2, 2), (3, 2)}
    shared = GraphEncoder(
        layered("abcd", 2), type(scene.board)(device_of(shared_by="device"), kinds)
    )
    assert len(batch(shared, ALL).features["memory"]) == 2


def test_telemetry_is_all_that_the_temperature_changes(scene):
    cold, hot = batch(scene, ALL, 25.0), batch(scene, ALL, 60.0)
    differ = np.flatnonzero((cold.features["resource"] != hot.features["resource"]).any(axis=0))
    assert tuple(differ) == TELEMETRY
    blind = [batch(scene, ALL, t, telemetry=False).features["resource"] for t in (25.0, 60.0)]
    assert np.array_equal(*blind)


def row_of(graph, board):
    shape = GraphShape(prepare_graph(graph, board.kinds), board)
    return dict(zip(SHAPE, shape.row)), shape


def test_aggregates_of_a_fork_and_join_by_hand(board):
    n = 6
    edges = [(0, i) for i in range(1, n - 1)] + [(i, n - 1) for i in range(1, n - 1)]
    found, shape = row_of(make_graph(["busy"] * n, [2.0] * n, edges), board)
    assert shape.seconds == pytest.approx([1.0] * n)  # 2 runs of 1e9 cycles at 2 GHz
    assert found["log tasks"] == pytest.approx(np.log(6))
    assert found["edges a task"] == pytest.approx(8 / 6)
    assert found["depths a task"] == pytest.approx(3 / 6)
    assert found["widest depth"] == pytest.approx(4 / 6)
    assert found["parallelism"] == pytest.approx(2.0)
    assert found["log span"] == pytest.approx(np.log(3))
    assert found["spread of tasks"] == pytest.approx(0)
    assert shape.shares.tolist() == [1.0, 0.0, 0.0]
    assert found["kinds"] == pytest.approx(1.0)


def test_brents_bound_is_one_above_the_truth_without_contention(board):
    graph = make_graph(["busy"] * 5, [1, 2, 3, 4, 5], [(0, 1), (0, 2)])
    prepared = prepare_graph(graph, board.kinds)
    rows = board.rows(device_contexts(board.device))
    start = np.full(len(rows), 25.0)
    time = estimate(prepared, board.arrays, rows, start)[:, 0]
    names = columns(board.kinds)
    table = plain_features(GraphShape(prepared, board), rows, start)
    assert table.shape == (len(rows), len(names))
    one = (rows[:, 1] + rows[:, 3]) > 0
    same = (rows[:, 1] == 0) | (rows[:, 3] == 0)  # cores of one speed: Brent's theorem
    bound = np.exp(table[:, names.index("log Brent")]) + 5 * 4e-4
    assert np.all(time[one & same] <= bound[one & same])


def test_what_a_schedule_says_comes_behind(board):
    prepared = prepare_graph(layered("abcd", 1), board.kinds)
    rows = board.rows(device_contexts(board.device)[:5])
    start = np.full(5, 30.0)
    table = plain_features(GraphShape(prepared, board), rows, start)
    spread = np.array([0.0, 0.0, 0.1, 0.1, 0.2])
    predicted = np.column_stack(
        [np.log([1.0, 2, 3, 4, 5]), np.log([9.0, 8, 7, 6, 5]), start + 3, spread, start + 4]
    )
    names = columns(board.kinds)
    found = scheduled_features(table, names, predicted)
    more = dict(zip(SCHEDULED, found[:, table.shape[1] :].T))
    assert more["warming"] == pytest.approx([3.0] * 5)
    assert np.array_equal(more["spread"], spread)
    assert more["log power"] == pytest.approx(np.log([9, 4, 7 / 3, 1.5, 1]))
    brent = table[:, names.index("log Brent")]
    assert more["log over Brent"] == pytest.approx(predicted[:, 0] - brent)
    assert np.isfinite(found).all()


TRUE = np.array([0.2, -0.15, 0.5, -0.1, 0.15, 0.3, -0.4])


def runs_on(board, factors, n=100, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    graphs = [prepare_graph(layered("abcd", s), board.kinds) for s in range(6)]
    contexts = device_contexts(board.device)
    rows = board.rows(contexts[rng.integers(len(contexts), size=n)])
    which, start = rng.integers(6, size=n), rng.uniform(20, 50, n)
    bare = DeviceRuns(graphs, which, rows, start, np.zeros((n, 2)))
    log = bare.estimates(factors.applied(board))[:, :2] + noise * rng.normal(size=(n, 2))
    return DeviceRuns(graphs, which, rows, start, log)


def test_factors_are_found_again(board):
    runs = runs_on(board, Factors(TRUE), noise=0.01)
    found = fit_factors(runs, board, Factors.none(2))
    # dispatch and misses have little effect here; the prior determines them
    assert found.values[[0, 1, 3, 4]] == pytest.approx(TRUE[[0, 1, 3, 4]], abs=0.06)
    new = runs_on(board, Factors(TRUE), n=50, seed=9)
    off = new.estimates(found.applied(board))[:, :2] - new.log
    assert np.sqrt((off**2).mean()) < 0.01


def test_without_runs_the_prior_stands_and_few_runs_move_it_little(board):
    prior = Factors(0.1 * np.ones(7))
    runs = runs_on(board, Factors(TRUE))
    assert fit_factors(runs.some(np.arange(0)), board, prior) is prior
    one = fit_factors(runs.some(np.arange(1)), board, Factors.none(2))
    assert np.abs(one.values).max() < 0.5
    five = fit_factors(runs.some(np.arange(5)), board, Factors.none(2))

    def error(factors):
        return np.abs(runs.estimates(factors.applied(board))[:, :2] - runs.log).mean()

    assert error(five) < error(Factors.none(2))


def test_factors_multiply_what_they_are_named_for(board):
    graph = prepare_graph(layered("abcd", 1), board.kinds)
    rows = board.rows([[2, 2.0, 0, 1.0, 8, 800]])
    start = np.array([25.0])
    plain = estimate(graph, board.arrays, rows, start)[0]
    assert np.array_equal(plain, estimate(graph, Factors.none(2).applied(board), rows, start)[0])
    twice = Factors(np.log([2.0, 9.0, 2.0, 1, 1, 1, 1]))  # cluster 1 is not given
    busy = prepare_graph(make_graph(["busy"] * 2, [1.0, 2.0], [(0, 1)]), board.kinds)
    alone = estimate(busy, board.arrays, rows, start)[0, 0]
    assert estimate(busy, twice.applied(board), rows, start)[0, 0] == pytest.approx(2 * alone)
    # half as fast a core waits for memory as long as before: 0.1 / 2 and 80 * 0.6 / 800 s
    stream = prepare_graph(make_graph(["stream"], [1.0], []), board.kinds)
    slow = estimate(stream, twice.applied(board), rows, start)[0, 0]
    assert slow == pytest.approx(2 * 0.05 + 0.06 + 2 * 1e-4)
    costly = Factors(np.log([1, 1, 1, 3.0, 3.0, 3.0, 3.0]))
    tripled = estimate(graph, costly.applied(board), rows, start)[0]
    assert tripled[1] == pytest.approx(3 * plain[1])
    assert tripled[2] - 25 == pytest.approx(3 * (plain[2] - 25))  # never near the cap


def test_runs_far_off_hardly_move_factors(board):
    runs = runs_on(board, Factors(TRUE), noise=0.01)
    log = runs.log.copy()
    log[::10] += 0.4
    strange = DeviceRuns(runs.graphs, runs.graph, runs.rows, runs.temperature, log)
    found = fit_factors(strange, board, Factors.none(2))
    assert found.values[:2] == pytest.approx(TRUE[:2], abs=0.06)


def test_the_swiftest_core_is_the_one_that_runs_say_is(board):
    big = board.clusters[0, 0, 1]
    slow = Factors(np.log([2.0, 1, 1, 1, 1, 1, 1])).applied(board)[2]
    assert slow[0, 0, 1] == pytest.approx(big / 2)
    assert slow[0, 1, 1] == pytest.approx(board.clusters[0, 1, 1])
