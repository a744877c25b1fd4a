"""Which contexts are found at fault, and which are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faulty import machine, task
from msbgen.faults.hypotheses import Move
from msbgen.faults.search import _direct_neighbours, _Hunt, _polished, _replayed, find_suspects


def suspects(contexts, time, counts, variance=None):
    n = len(time)
    none = np.zeros(n, dtype=bool)
    told = np.zeros((n, 3)) if variance is None else variance
    return find_suspects(contexts, time, counts, told, none, np.zeros((n, n)))


def found(contexts, time, counts):
    return {(move.kind, move.contexts) for move in suspects(contexts, time, counts).moves}


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.sampled_from([0.002, 0.01, 0.08]))
def test_where_nothing_is_wrong_nothing_is_named(seed, noise):
    contexts = machine()
    result = suspects(contexts, *task(contexts, noise, seed))
    assert result.moves == ()
    assert np.all(result.factor == 1.0)
    assert np.all(result.worth == 1.0)


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.integers(0, 26), st.floats(1.5, 3.0))
def test_a_slow_context_is_named_and_its_factor_told(seed, slow, factor):
    contexts = machine()
    time, counts = task(contexts, seed=seed)
    time[slow] *= factor
    result = suspects(contexts, time, counts)
    assert [(move.kind, move.contexts) for move in result.moves] == [("slow", (slow,))]
    assert result.factor[slow] == pytest.approx(factor, rel=0.15)
    assert 0 < result.worth[slow] <= 1
    assert np.all(np.delete(result.worth, slow) == 1)


@settings(max_examples=10)
@given(
    st.dictionaries(st.integers(0, 26), st.floats(0.2, 5.0), max_size=6),
    st.lists(st.integers(0, 26), max_size=4, unique=True),
)
def test_whatever_happened_weights_never_exceed_one(factors, excused):
    contexts = machine()
    time, counts = task(contexts)
    for i, factor in factors.items():
        time[i] *= factor
    result = find_suspects(
        contexts,
        time,
        counts,
        np.zeros((27, 3)),
        np.isin(np.arange(27), excused),
        np.zeros((27, 27)),
    )
    assert np.all((result.worth > 0) & (result.worth <= 1))
    assert np.all(result.factor >= 1)
    moved = [i for move in result.moves for i in move.contexts]
    assert len(moved) == len(set(moved))
    assert all(gain > 0 for gain in result.gains)


@pytest.mark.parametrize("pair", [(0, 13), (5, 24), (10, 12)])
def test_exchanged_labels_are_named(pair):
    contexts = machine()
    time, counts = task(contexts)
    back = list(pair[::-1])
    time[list(pair)], counts[list(pair)] = time[back], counts[back]
    assert found(contexts, time, counts) == {("exchanged", pair)}


def test_an_exchange_that_counts_alone_tell_is_found():
    contexts = machine((3, 3, 1))[:, :2]
    contexts = np.column_stack([np.repeat(contexts[:, 0], 3), np.tile(contexts[:, 1], 3)])
    rng = np.random.default_rng(0)
    misses = 4e6 * np.exp(-contexts[:, 0] / 7.0)
    time = (0.5 + 1e-7 * misses) * np.exp(0.005 * rng.standard_normal(27))  # whatever the bandwidth
    counts = np.column_stack([np.full(27, 5e6), misses])
    counts *= np.exp(0.002 * rng.standard_normal(counts.shape))
    time[[1, 25]], counts[[1, 25]] = time[[25, 1]], counts[[25, 1]]
    (move,) = suspects(contexts, time, counts).moves
    assert move.kind == "exchanged"


@pytest.mark.parametrize("seed", [0, 12])
def test_two_runs_alike_by_chance_do_not_tell_that_there_is_no_noise(seed):
    levels = np.meshgrid([2.0, 6, 11], np.linspace(70.0, 1400, 5), np.linspace(1.2, 2.2, 5))
    contexts = np.stack([axis.ravel() for axis in levels], axis=1)
    rng, n = np.random.default_rng(seed), len(contexts)
    # at two ways a run has as many misses as one of two places in memory brings
    odd = np.where(contexts[:, :1] == 2.0, 0.085, 0.0) * rng.integers(0, 2, (n, 2))
    misses = np.log(1e5) - np.log(contexts[:, :1]) / 20 + odd
    logs = np.stack([np.full((n, 2), np.log(3e5)), misses], axis=2)
    logs += 0.0003 * rng.standard_normal(logs.shape)
    time = np.log(0.7 / contexts[:, 2:]) + 0.008 * rng.standard_normal((n, 2))
    runs = np.concatenate([time[:, :, None], logs], axis=2)
    mean, variance = np.exp(runs.mean(axis=1)), runs.var(axis=1, ddof=1) / 2
    assert suspects(contexts, mean[:, 0], mean[:, 1:], variance).moves == ()


def test_two_wrong_moves_give_way_to_the_exchange_behind_them():
    contexts = machine()
    time, counts = task(contexts)
    time[[2, 8]], counts[[2, 8]] = time[[8, 2]], counts[[8, 2]]
    none = np.zeros((27, 3)), np.zeros(27, dtype=bool), np.zeros((27, 27))
    hunt = _Hunt(contexts, time, counts, *none)
    board = hunt._fitted((Move("slow", (8,)), Move("bad", (2,))), np.arange(27), raised=True)
    wrong = _replayed(board, [Move("slow", (8,)), Move("bad", (2,))])
    assert _polished(board, wrong).moves == (Move("exchanged", (2, 8)),)
    both = _replayed(board, [Move("slow", (5,)), Move("exchanged", (2, 7))])
    assert _polished(board, both).moves == (Move("exchanged", (2, 8)),)


def test_two_slow_neighbours_and_an_exchange_are_told_apart():
    contexts = machine((5, 5, 4))
    time, counts = task(contexts)
    time[[50, 51]] *= 1.7, 2.4
    time[[12, 87]], counts[[12, 87]] = time[[87, 12]], counts[[87, 12]]
    assert found(contexts, time, counts) == {
        ("slow", (50,)), ("slow", (51,)), ("exchanged", (12, 87)),
    }  # fmt: skip


@given(st.permutations(range(27)))
@settings(max_examples=6)
def test_the_order_of_the_contexts_does_not_matter(order):
    contexts = machine()
    time, counts = task(contexts)
    time[7] *= 2.0
    order = np.array(order)
    moves = found(contexts[order], time[order], counts[order])
    assert {(kind, tuple(order[list(at)].tolist())) for kind, at in moves} == {("slow", (7,))}


def test_a_cliff_along_a_line_is_no_fault():
    contexts = machine((5, 5, 5))
    time, counts = task(contexts)
    line = (contexts[:, 0] == 2) & (contexts[:, 1] == 70)
    time[line] *= 2.5
    assert not any(line[list(at)].any() for _, at in found(contexts, time, counts))


def test_whoever_is_excused_is_not_slow():
    contexts = machine()
    time, counts = task(contexts)
    time[4] *= 2.0
    excused = np.arange(27) == 4
    none = np.zeros((27, 27))
    result = find_suspects(contexts, time, counts, np.zeros((27, 3)), excused, none)
    assert not any(move.kind == "slow" and 4 in move.contexts for move in result.moves)


def test_direct_neighbours_of_a_grid_stand_along_its_axes():
    places = machine((3, 3, 3))
    ranks = np.column_stack([np.unique(c, return_inverse=True)[1] for c in places.T]) / 2
    beside = _direct_neighbours(ranks)
    steps = np.abs(ranks[:, None] - ranks[None]).sum(axis=2)
    assert np.array_equal(beside, np.isclose(steps, 0.5))
