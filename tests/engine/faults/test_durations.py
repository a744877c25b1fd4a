"""Faults of durations and start times alone."""

import numpy as np
import pytest

from msbgen.answers.compare.suspects import faulty_contexts
from msbgen.engine.faults.durations import exchange_in_order, find_duration_faults
from msbgen.engine.faults.findings import Findings, SlowContext

GRID = np.array([[x, y] for x in (1.0, 2.0, 4.0) for y in (10.0, 20.0, 40.0)])
CORES = np.array([[1.0], [2.0], [4.0], [8.0], [16.0], [32.0]])
UNKNOWN = np.full((6, 1), np.nan)
SINGLE = np.ones(6, dtype=np.int64)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("columns", [[0, 1], [1, 0]])
def test_an_exchange_in_an_ordered_sweep_is_found(order, columns):
    started = np.empty(9)
    started[np.lexsort((GRID[:, columns[1]], order * GRID[:, columns[0]]))] = np.arange(9.0)
    assert exchange_in_order(GRID, started[:, None]) is None
    started[[2, 6]] = started[[6, 2]]
    assert exchange_in_order(GRID, started[:, None]) == (2, 6)


def test_an_irregular_order_shows_no_exchange():
    assert exchange_in_order(GRID, np.random.default_rng(0).permutation(9)[:, None] + 0.0) is None


def test_an_exchange_that_start_times_support_is_a_doubt():
    seconds, started = 64.0 / CORES[:, 0], np.arange(6.0)
    for values in (seconds, started):
        values[[1, 3]] = values[[3, 1]]
    (fault,) = find_duration_faults(CORES, seconds, SINGLE, started[:, None])
    assert (fault.kind, fault.contexts, fault.is_doubt) == ("exchanged", (1, 3), True)


@pytest.mark.parametrize("seed", range(5))
def test_contexts_visited_out_of_order_are_not_doubted_against_their_durations(seed):
    levels = np.arange(1.0, 9.0)[:, None]
    seconds = 64.0 / levels[:, 0] * np.exp(np.random.default_rng(seed).normal(0.0, 0.01, 8))
    started = np.array([0.0, 1, 2, 4, 3, 5, 6, 7])[:, None]
    assert find_duration_faults(levels, seconds, np.ones(8, dtype=np.int64), started) == []


def test_an_exchange_that_only_durations_support_is_a_doubt():
    seconds, started = 64.0 / CORES[:, 0], np.array([3.0, 0.0, 5.0, 1.0, 4.0, 2.0])
    seconds[[1, 4]] = seconds[[4, 1]]
    (fault,) = find_duration_faults(CORES, seconds, SINGLE, started[:, None])
    assert (fault.kind, fault.contexts, fault.is_doubt) == ("exchanged", (1, 4), True)
    assert find_duration_faults(CORES, 64.0 / CORES[:, 0], SINGLE, started[:, None]) == []


@pytest.mark.parametrize(
    "seconds", [[64, 32, 16, 8, 4, 4], [64, 33, 33, 16, 8, 4], [9, 9, 9, 9, 9, 9]]
)
def test_saturation_and_steps_are_no_faults(seconds):
    for runs in (SINGLE, 3 * SINGLE):
        assert find_duration_faults(CORES, np.array(seconds, dtype=float), runs, UNKNOWN) == []


def test_a_single_run_that_departs_is_named_and_repeats_are_not():
    levels = np.linspace(1.0, 4.0, 12)[:, None]
    seconds = 10.0 / levels[:, 0]
    seconds[5] *= 3.0
    (fault,) = find_duration_faults(
        levels, seconds, np.ones(12, dtype=np.int64), np.full((12, 1), np.nan)
    )
    assert (fault.kind, fault.contexts, fault.is_doubt) == ("slow", (5,), True)
    assert fault.factor == pytest.approx(3.0, rel=0.1)
    assert find_duration_faults(levels, seconds, np.full(12, 3), np.full((12, 1), np.nan)) == []


def test_doubts_leave_no_context_out_of_a_comparison():
    found = Findings((SlowContext(contexts=(5,), factor=3.0, log_odds=2.0, is_doubt=True),))
    assert not faulty_contexts(found, np.arange(12)).any()
    repaired = found.repair(np.ones((12, 1, 1, 1)), np.ones((12, 1)), np.ones((12, 1)))
    assert (repaired.slowdown == 1.0).all()
    assert len(repaired.kept) == 12
