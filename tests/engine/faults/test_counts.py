"""Wrong single counts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.engine.faults.counts import find_wrong_counts


def runs(seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.gamma(2.0, 1e4, (9, 3, 20, 2))
    counts[:, :, 15:] = np.nan
    return counts


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_counts_of_a_heavy_tail_are_not_wrong(seed):
    assert find_wrong_counts(runs(seed)) == []


def test_one_impossible_count_is_found():
    counts = runs()
    counts[4, 1, 7, 1] = 2.0**48
    (found,) = find_wrong_counts(counts)
    assert (found.contexts, found.run, found.interval, found.counter) == ((4,), 1, 7, 1)
    assert found.factor > 1e8


def test_rare_events_and_fewer_than_five_runs_are_not_searched():
    counts = runs()
    counts[..., 0] = 0.0
    assert find_wrong_counts(counts) == []
    counts[4, 1, 7, 0] = 3.0  # rare events, as page faults, are possible
    assert find_wrong_counts(counts) == []
    few = runs().reshape(27, 1, 20, 2)[:5]
    few[0, 0, 3, 1] = 2.0**48
    assert len(find_wrong_counts(few)) == 1
    assert find_wrong_counts(few[:4]) == []
