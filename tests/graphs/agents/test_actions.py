"""What agents say, and the contexts that it makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import episodes
from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.actions import AgentPerCore, OneAgent
from msbgen.graphs.agents.worlds import World


@pytest.fixture(scope="module")
def world():
    return episodes.three_clocks()


@pytest.fixture(scope="module")
def cores(world):
    return AgentPerCore(world)


def test_one_agent_names_the_context(world):
    actions = OneAgent(world)
    n = len(world.contexts)
    assert actions.branches == (n,)
    assert [actions.context(action) for action in actions.every] == list(range(n))


def test_actions_of_cores_reach_every_context(world, cores):
    assert cores.names == ("denver_0", "denver_1", "a57_0", "a57_1", "a57_2", "a57_3")
    assert cores.branches == (4,) * 6
    assert [cores.context(action) for action in cores.every] == list(range(len(world.contexts)))


@settings(max_examples=50)
@given(message=st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_a_cluster_has_the_cores_that_are_on_and_their_highest_clock(world, cores, message):
    row = world.contexts[cores.context(message)]
    if not any(message):
        assert row[[0, 2]].tolist() == [1, 0]
        return
    for i, own in enumerate((message[:2], message[2:])):
        assert row[2 * i] == sum(s > 0 for s in own)
        levels = np.unique(world.contexts[:, 2 * i + 1])
        assert row[2 * i + 1] == levels[max(max(own) - 1, 0)]


def test_contexts_without_some_combinations_are_refused(world):
    part = World(episodes.simulator(), world.graphs, contexts=world.contexts[:-1])
    with pytest.raises(ArgumentError, match="all are wanted for one agent a core"):
        AgentPerCore(part)
