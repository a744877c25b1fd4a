"""Tabular Q-learning against value iteration."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.replay import Replay, Transitions
from msbgen.systems.graphs.agents.tabular import TabularQ

# two states, three actions: rewards, and the state that follows
REWARD = np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.5]])
FOLLOWS = np.array([[0, 1, 1], [0, 0, 1]])


def everything(rng):
    s, a = (grid.ravel() for grid in np.meshgrid([0, 1], [0, 1, 2], indexing="ij"))
    order = rng.permutation(6)
    s, a = s[order], a[order]
    seen, then = s[:, None].astype(float), FOLLOWS[s, a][:, None].astype(float)
    return Transitions(seen, a[:, None], REWARD[s, a], then, np.zeros(6))


def test_values_become_those_of_value_iteration():
    agent = TabularQ(3, bins={0: (0.5,)}, discount=0.7, rate=0.5)
    rng = np.random.default_rng(0)
    for _ in range(300):
        agent.learn(everything(rng))
    values = np.zeros((2, 3))
    for _ in range(300):
        values = REWARD + 0.7 * values.max(axis=1)[FOLLOWS]
    np.testing.assert_allclose(agent.table, values, atol=1e-6)
    assert agent.best(np.array([0.0])) == values[0].argmax()
    assert agent.best(np.array([1.0])) == values[1].argmax()


def test_the_value_at_the_end_of_an_episode_is_its_reward():
    agent = TabularQ(2, bins={0: ()}, discount=0.9)
    one = Transitions(
        np.zeros((1, 1)), np.array([[1]]), np.array([-3.0]), np.zeros((1, 1)), np.ones(1)
    )
    for _ in range(5):
        agent.learn(one)
    assert agent.table[0, 1] == pytest.approx(-3.0)
    # an action that was never tried is not thought better than one that was
    assert agent.best(np.zeros(1)) == [1]


def test_bins_define_states_and_untried_states_have_mean_values():
    agent = TabularQ(2, bins={1: (0.0, 1.0), 0: (5.0,)})
    seen = [[0, -1], [0, 0.5], [0, 2], [9, -1], [9, 0.5], [9, 2]]
    assert len(set(agent.states(seen).tolist())) == len(agent.table) == 6
    one = np.array([[0.0, -1.0]])
    agent.learn(Transitions(one, np.array([[1]]), np.array([-1.0]), one, np.ones(1)))
    assert agent.best(np.array([9.0, 2.0])) == [1]
    with pytest.raises(ArgumentError, match="discount is 1"):
        TabularQ(2, discount=1.0)


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
