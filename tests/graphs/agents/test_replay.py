"""Memories keep the last transitions, whole."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.replay import Replay


def test_the_oldest_are_forgotten_and_rows_stay_together():
    memory = Replay(5, 2, 3)
    for i in range(12):
        memory.add([i, -i], [i, i + 1, i + 2], 0.5 * i, [2 * i, 0], i % 2 == 1)
    assert memory.size == 5
    drawn = memory.sample(400, np.random.default_rng(0))
    i = drawn.observation[:, 0]
    assert set(i.tolist()) == {7, 8, 9, 10, 11}
    np.testing.assert_array_equal(drawn.observation[:, 1], -i)
    np.testing.assert_array_equal(drawn.action, i[:, None] + [0, 1, 2])
    np.testing.assert_array_equal(drawn.reward, 0.5 * i)
    np.testing.assert_array_equal(drawn.following[:, 0], 2 * i)
    np.testing.assert_array_equal(drawn.done, i % 2)


def test_what_is_not_full_gives_what_it_has():
    memory = Replay(100, 1)
    memory.add([1.0], [4], -1.0, [2.0], True)
    assert memory.sample(3, np.random.default_rng(0)).action.tolist() == [[4]] * 3
    with pytest.raises(ArgumentError, match="capacity is 0"):
        Replay(0, 1)
