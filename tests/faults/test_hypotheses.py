"""The closed forms of the moves against densities worked out the long way."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from msbgen.faults.hypotheses import (
    _BAD,
    _CROWDED,
    _LITTLE,
    _ODDS,
    _REAL,
    FAULT,
    Board,
    Move,
    freed_at,
)
from msbgen.faults.process import Process


@pytest.fixture
def board():
    rng = np.random.default_rng(3)
    n = 5
    processes, tables = [], []
    for _ in range(2):
        root = rng.standard_normal((n, n))
        processes.append(Process(root @ root.T, rng.uniform(0.05, 0.2, n)))
        tables.append(rng.standard_normal((n, n)))
    none = np.zeros((n, n), dtype=bool)
    return Board(tuple(processes), tuple(tables), none, none[0])


def density(process, values):
    return multivariate_normal(cov=process.smooth + np.diag(process.noise)).logpdf(values)


def test_slow_gains_what_integration_over_its_slowness_says(board):
    state = board.start()
    slow = board.gains(state)[0]
    process, values = board.processes[0], state.values[0]
    for i in range(board.n):
        shift = np.eye(board.n)[i]
        whole = quad(
            lambda d, shift=shift: (
                np.exp(density(process, values - d * shift)) * 2 * norm.pdf(d, 0, FAULT)
            ),
            0, 6, epsabs=0, epsrel=1e-10,
        )[0]  # fmt: skip
        assert slow[i] - np.log(_ODDS) == pytest.approx(np.log(whole) - density(process, values))


def of_counts(process, values, departing, deviation=FAULT):
    """Log density of counts some of which depart for real."""
    free = np.isin(np.arange(len(values)), departing)
    return density(Process(process.smooth, process.noise + deviation**2 * free), values)


def test_bad_gains_the_densities_with_a_free_variance(board):
    state = board.start()
    bad = board.gains(state)[1]
    time, counts = board.processes
    for i in range(board.n):
        gain = of_counts(time, state.values[0], [i]) - of_counts(time, state.values[0], [])
        free, none = (of_counts(counts, state.values[1], own) for own in ([i], []))
        # counts may depart though nothing is wrong
        little = of_counts(counts, state.values[1], [i], _LITTLE)
        gain += free - np.logaddexp(none, np.log(_REAL) + np.logaddexp(free, little))
        assert bad[i] - np.log(_ODDS * _BAD) == pytest.approx(gain)


def test_exchanged_gains_the_densities_of_exchanged_values(board):
    state = board.start()
    exchanged = board.gains(state)[2]
    for i, j in combinations(range(board.n), 2):
        label = np.arange(board.n)
        label[[i, j]] = j, i
        gain = 0.0
        for sign, own in ((1, label), (-1, np.arange(board.n))):
            time, counts = (table[np.arange(board.n), own] for table in board.table)
            gain += sign * density(board.processes[0], time)
            gain += sign * logsumexp(
                [
                    of_counts(board.processes[1], counts, free) + len(free) * np.log(_REAL)
                    for free in ([], [i], [j], [i, j])
                ]
            )
        assert exchanged[i, j] - np.log(_ODDS / (board.n - 1)) == pytest.approx(gain)


def test_a_rank_less_is_the_inverse_with_a_free_variance(board):
    process = board.processes[0]
    free = Process(process.smooth, process.noise + FAULT**2 * np.eye(board.n)[2])
    assert freed_at(process.precision(), 2) == pytest.approx(free.precision())


def test_moves_in_either_order_come_to_the_same_values(board):
    one, two = Move("slow", (0,)), Move("exchanged", (1, 3))
    there = board.after(board.after(board.start(), one, 1.0), two, 2.0)
    back = board.after(board.after(board.start(), two, 2.0), one, 1.0)
    assert there.gain == back.gain
    for a, b in zip((*there.values, *there.precision), (*back.values, *back.precision)):
        assert a == pytest.approx(b)
    assert there.label.tolist() == [0, 3, 2, 1, 4]


def test_no_context_moves_twice(board):
    state = board.after(board.start(), Move("exchanged", (1, 3)), 0.0)
    slow, bad, exchanged = board.gains(state)
    assert np.isinf(slow[[1, 3]]).all()
    assert np.isinf(bad[[1, 3]]).all()
    assert np.isinf(exchanged[[1, 3]]).all()
    assert np.isinf(exchanged[:, [1, 3]]).all()


def test_the_density_of_time_is_that_of_a_normal_law(board):
    constant = 0.5 * board.n * np.log(2 * np.pi)
    wanted = density(board.processes[0], board.start().values[0])
    assert board.log_density_of_time() - constant == pytest.approx(wanted)


def test_a_neighbour_of_what_moved_is_suspected_less(board):
    beside = np.zeros((board.n, board.n), dtype=bool)
    beside[0, 1] = beside[1, 0] = True
    near = replace(board, beside=beside)
    state = board.after(board.start(), Move("slow", (0,)), 1.0)
    for lone, crowded in zip(board.gains(state)[:2], near.gains(state)[:2]):
        assert lone[2:] == pytest.approx(crowded[2:])
        assert lone[1] - crowded[1] == pytest.approx(_CROWDED)
