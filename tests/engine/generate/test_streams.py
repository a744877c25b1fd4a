"""Streams: what they are keyed by, and what changes none of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msbgen.engine.generate.streams import context_streams, stream_key

CONTEXTS = np.array([[2.0, 1.2], [2.0, 1.3], [3.0, 1.2], [-0.5, 7e9]])


def draws(key, contexts):
    return np.array([stream.random(3) for stream in context_streams(key, contexts)])


@given(st.permutations(range(4)), st.integers(0, 2**63 - 1))
def test_streams_do_not_depend_on_order_or_other_contexts(order, seed):
    key = stream_key(seed, "task")
    whole = draws(key, CONTEXTS)
    np.testing.assert_array_equal(draws(key, CONTEXTS[order]), whole[order])
    np.testing.assert_array_equal(draws(key, CONTEXTS[order[:1]]), whole[order[:1]])


def test_streams_depend_on_seed_task_and_every_level():
    keys = [stream_key(seed, task) for seed in (0, 1) for task in ("", "a", "b")]
    both = np.concatenate([draws(key, CONTEXTS) for key in keys])
    assert len(np.unique(both)) == both.size


def test_both_signs_of_zero_have_one_stream():
    np.testing.assert_array_equal(draws(5, np.array([[0.0]])), draws(5, np.array([[-0.0]])))


def test_equal_generators_give_equal_keys_and_move_on():
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    assert stream_key(one) == stream_key(other)
    assert stream_key(one) != stream_key(np.random.default_rng(3))
    assert 0 <= stream_key(one) < 2**128


def test_streams_are_uniform_over_neighbouring_contexts():
    """Levels that differ in one bit give streams that know nothing of each other."""
    contexts = np.nextafter(1.0, 2.0) + np.arange(2000)[:, None] * np.spacing(1.0)
    first = draws(stream_key(0), contexts)[:, 0]
    assert abs(first.mean() - 0.5) < 4 / np.sqrt(12 * 2000)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 4 / np.sqrt(2000)
