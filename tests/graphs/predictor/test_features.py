import numpy as np
import pytest

from msbgen.graphs.boards import prepare_graph
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.devices import device_contexts
from msbgen.graphs.predictor.factors import estimate
from msbgen.graphs.predictor.features import (
    SCHEDULED,
    SHAPE,
    GraphShape,
    columns,
    plain_features,
    scheduled_features,
)
from toy_board import layered


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


def test_numbering_tasks_otherwise_changes_no_aggregate(board):
    graph = layered("abcd", 3)
    n = graph.sizes["task"]
    new = np.random.default_rng(0).permutation(n)
    pairs = np.stack([graph["source"].values, graph["target"].values], axis=1)
    turned = make_graph(
        graph["kind"].values[np.argsort(new)], graph["work"].values[np.argsort(new)], new[pairs]
    )
    rows = board.rows(device_contexts(board.device)[::7])
    start = np.full(len(rows), 30.0)
    one, other = (
        plain_features(GraphShape(prepare_graph(g, board.kinds), board), rows, start)
        for g in (graph, turned)
    )
    assert np.allclose(one, other)


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
