"""Runs of which a part was slowed down."""

import numpy as np
import pytest

from faulty import machine, task
from msbgen.engine.faults.stretches import find_stretches, narrow_slowness


def amounts(contexts, runs, seed=0):
    """Time and two counts of 25 segments of progress, (n, runs, 25, 3)."""
    rng = np.random.default_rng(seed)
    time, counts = task(contexts, noise=0)
    shape = np.abs(np.sin(np.arange(25.0))) + 0.3
    whole = np.column_stack([time, counts])[:, None, None] * (shape / shape.sum())[:, None]
    return whole * np.exp(0.01 * rng.standard_normal((len(time), runs, 25, 3)))


@pytest.mark.parametrize(("runs", "contexts"), [(6, machine((2, 3, 2))), (1, machine((4, 4, 4)))])
def test_a_stretched_run_is_found_where_it_is(runs, contexts):
    state = amounts(contexts, runs)
    none = np.zeros(state.shape[:3]), np.zeros((len(state), 25))
    assert find_stretches(contexts, state, *none) == []
    state[5, runs - 1, 10:16, 0] *= 2.0
    (found,) = find_stretches(contexts, state, *none)
    assert (found.contexts, found.run) == ((5,), runs - 1)
    assert found.begin == pytest.approx(0.4, abs=0.05)
    assert found.end == pytest.approx(0.64, abs=0.05)
    assert found.factor == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(("runs", "contexts"), [(6, machine((2, 3, 2))), (1, machine((4, 4, 4)))])
def test_a_stretch_is_found_whole_where_a_part_of_it_is_more_certain(runs, contexts):
    state = amounts(contexts, runs)
    noise = np.random.default_rng(1).standard_normal((*state.shape[:2], 6))
    state[:, :, 4:10, 0] *= np.exp(0.1 * noise)
    state[5, runs - 1, 4:16, 0] *= 1.7
    none = np.zeros(state.shape[:3]), np.zeros((len(state), 25))
    (found,) = find_stretches(contexts, state, *none)
    assert (found.begin, found.end) == pytest.approx((0.16, 0.64))
    assert found.factor == pytest.approx(1.7, rel=0.1)


def test_a_run_slow_over_a_part_is_distinguished_from_one_slow_throughout():
    contexts = machine((4, 4, 4))
    state = amounts(contexts, 1)
    state[9, 0, 10:13, 0] *= 3.0
    state[20, 0, :, 0] *= 1.5
    none = np.zeros((len(state), 25))
    (found,) = narrow_slowness(contexts, state, none, {9: 1.25, 20: 1.5})
    assert (found.contexts, found.run) == ((9,), 0)
    assert (found.begin, found.end) == pytest.approx((0.4, 0.52))
    assert found.factor == pytest.approx(3.0, rel=0.1)


def test_two_runs_of_a_context_that_are_slow_alike_are_no_fault():
    contexts = machine((2, 3, 2))
    state = amounts(contexts, 7)
    state[3, :2, 4:9, 0] *= 1.6
    assert find_stretches(contexts, state, np.zeros(state.shape[:3]), np.zeros((12, 25))) == []


def test_missing_runs_are_ignored_and_capped_runs_exempt():
    contexts = machine((4, 4, 4))
    state = amounts(contexts, 2)
    state[:, 1] = np.nan
    state[9, 0, 3:9, 0] *= 2.0
    capped, none = np.zeros((len(state), 2, 25)), np.zeros((len(state), 25))
    assert [s.contexts[0] for s in find_stretches(contexts, state, capped, none)] == [9]
    capped[9, 0, 2:10] = 1.0
    assert find_stretches(contexts, state, capped, none) == []


def test_a_negligible_stretch_is_no_fault():
    contexts = machine((2, 3, 2))
    state = amounts(contexts, 6)
    least = int(state[..., 0].mean(axis=(0, 1)).argmin())
    state[5, 5, least, 0] *= 2.0  # the shortest of 25 segments
    assert find_stretches(contexts, state, np.zeros(state.shape[:3]), np.zeros((12, 25))) == []
