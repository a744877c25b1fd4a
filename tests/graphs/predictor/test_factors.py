import numpy as np
import pytest

from msbgen.graphs.boards import prepare_graph
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.devices import device_contexts
from msbgen.graphs.predictor.factors import DeviceRuns, Factors, estimate, fit_factors
from toy_board import layered

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
