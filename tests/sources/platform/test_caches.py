"""Stack distances beside caches that are simulated one size at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from msbgen.core.errors import ArgumentError
from msbgen.sources.platform.caches import cache_sets, stack_histogram


@settings(max_examples=30)
@given(
    lines=st.lists(st.integers(0, 3000).map(lambda i: i * 64 + i % 2), min_size=1, max_size=300),
    seed=st.integers(0, 2**32),
)
def test_stack_distances_give_the_misses_of_every_lru_cache(lines, seed):
    rng = np.random.default_rng(seed)
    # small caches fill only where many lines share a set: draw most lines from few pages
    lines = [line % (64 * 40) if rng.random() < 0.8 else line for line in lines]
    streams = rng.integers(0, 2, len(lines))
    cut = int(rng.integers(0, len(lines) + 1))
    keys = rng.integers(2**63, size=2, dtype=np.uint64)
    requests = (2 * np.array(lines) + streams).astype(np.uint64)
    histogram = stack_histogram(requests, np.array([cut, len(lines) - cut]), keys)
    assert histogram.shape == (21, 2, 2, 2)
    for c, key in enumerate(keys):
        sets = cache_sets(requests // 2, key).tolist()
        for w in (1, 2, 3, 20):
            assert histogram[w:, :, c].sum() == oracles.lru_misses(lines, sets, w)
    by_interval = histogram.sum(axis=(0, 3))
    assert np.all(by_interval == np.array([[cut], [len(lines) - cut]]))
    assert np.all(histogram.sum(axis=(0, 1))[:, 1] == streams.sum())


def test_stack_distances_in_a_set_that_overflows():
    # 30 lines of one set, cyclically: LRU never hits, whatever the ways
    page = np.arange(200_000, dtype=np.uint64) * 64
    key = np.uint64(12345)
    sets = cache_sets(page, key)
    np.testing.assert_allclose(np.bincount(sets.astype(int) // 64), 200_000 / 256, rtol=0.2)
    lines = np.tile(page[sets == sets[0]][:30], 4)
    histogram = stack_histogram(2 * lines, np.array([len(lines)]), np.array([key]))
    assert histogram[20].sum() == 120
    few = np.tile(lines[:7], 4)
    histogram = stack_histogram(2 * few, np.array([len(few)]), np.array([key]))
    assert histogram[:, 0, 0, 0].tolist() == [0] * 6 + [21] + [0] * 13 + [7]


def test_stack_distances_in_one_full_set():
    page = np.arange(20_000, dtype=np.uint64) * 64
    key = np.uint64(99)
    sets = cache_sets(page, key)
    rng = np.random.default_rng(0)
    lines = rng.choice(page[sets == sets[0]][:26], 3000)
    histogram = stack_histogram(2 * lines, np.array([len(lines)]), np.array([key]))
    for w in (1, 10, 18, 19, 20):
        assert histogram[w:].sum() == oracles.lru_misses(lines.tolist(), [0] * len(lines), w)


@pytest.mark.parametrize("counts", [[3], [5, 1], [-1, 6], []])
def test_intervals_with_other_requests_than_there_are_are_refused(counts):
    requests, key = np.arange(5, dtype=np.uint64), np.ones(1, np.uint64)
    with pytest.raises(ArgumentError, match="the number of requests, 5, is wanted"):
        stack_histogram(requests, np.array(counts, dtype=np.int64), key)


def test_a_program_without_requests_has_an_empty_histogram():
    histogram = stack_histogram(
        np.empty(0, np.uint64), np.zeros(3, np.int64), np.ones(2, np.uint64)
    )
    assert histogram.shape == (21, 3, 2, 2)
    assert not histogram.any()
