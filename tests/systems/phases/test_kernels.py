"""Change points beside all segmentations."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msbgen.systems.phases import _kernels


def cost_of(scores, cuts, penalty):
    edges = [0, *cuts, len(scores)]
    pieces = [scores[i:j] for i, j in itertools.pairwise(edges)]
    return sum(((p - p.mean(axis=0)) ** 2).sum() + penalty for p in pieces)


@given(st.integers(1, 8), st.floats(0.0, 3.0), st.integers(0, 2**32 - 1))
def test_change_points_are_the_best_of_all_segmentations(bins, penalty, seed):
    scores = np.random.default_rng(seed).normal(size=(bins, 2)).cumsum(axis=0)
    cost, start = np.empty(bins + 1), np.zeros(bins + 1, dtype=np.int64)
    _kernels.change_points(scores, penalty, cost, start)
    every = [
        [i + 1 for i in range(bins - 1) if mask >> i & 1] for mask in range(2 ** max(bins - 1, 0))
    ]
    best = min(cost_of(scores, cuts, penalty) for cuts in every)
    np.testing.assert_allclose(cost[bins], best, rtol=1e-9, atol=1e-9)
    found, at = [], bins
    while start[at] > 0:
        at = start[at]
        found.insert(0, int(at))
    np.testing.assert_allclose(cost_of(scores, found, penalty), best, rtol=1e-9, atol=1e-9)
