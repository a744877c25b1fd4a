"""Rules: all cores, at the clocks that they are meant to have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import episodes
from episodes import TX2, three_clocks
from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.actions import AgentPerCore, OneAgent
from msbgen.systems.graphs.agents.gates import Gate
from msbgen.systems.graphs.agents.rules import Rule, ThermalGovernor, all_fast, heft, powersave
from msbgen.systems.graphs.agents.search import Oracle
from msbgen.systems.graphs.agents.worlds import State, World, play_episodes
from msbgen.systems.graphs.forecast import Forecast

COOL = State(0, 30.0, 2)


@pytest.fixture(scope="module")
def world():
    return three_clocks()


def clocks(policy, state=COOL):
    row = three_clocks().contexts[policy.act(state)]
    assert row[0] == 2  # denver
    assert row[2] == 4  # a57
    return row[[1, 3]].tolist()


def test_rules_give_all_cores(world):
    levels = [c.clocks for c in TX2.clusters]
    assert clocks(all_fast(world)) == clocks(heft(world)) == [own[-1] for own in levels]
    assert clocks(powersave(world)) == [own[0] for own in levels]
    middle = clocks(Rule(world, 0.5))
    assert levels[0][0] < middle[0] < levels[0][-1]
    with pytest.raises(ArgumentError, match="share is 2"):
        Rule(world, 2.0)


def test_clocks_fall_with_the_temperature(world):
    rule = ThermalGovernor(world, 4.0)
    course = [sum(clocks(rule, State(0, heat, 1))) for heat in np.linspace(38, 48, 30)]
    assert np.all(np.diff(course) <= 0)
    assert clocks(rule, State(0, 40.9, 1)) == clocks(all_fast(world))
    assert clocks(rule, State(0, 45.1, 1)) == clocks(powersave(world))
    # of three clocks the middle one is for the half of the way that lies around 43 °C
    top, middle, low = (clocks(Rule(world, share)) for share in (1.0, 0.5, 0.0))
    course = [clocks(rule, State(0, heat, 1)) for heat in (41.9, 42.1, 43.9, 44.1)]
    assert course == [top, middle, middle, low]
    with pytest.raises(ArgumentError, match="width is 0"):
        ThermalGovernor(world, 0)


def test_heft_is_played_in_its_order(world):
    ranked, arrival = (play_episodes(world, rule, 2) for rule in (heft(world), all_fast(world)))
    assert not np.array_equal(ranked.time, arrival.time)


def test_bounds_are_kept_and_not_what_is_expected():
    world = episodes.world()
    time, heat = np.array([1.0, 2.0, 4.0]), np.array([44.0, 44.0, 40.0])
    predicted = Forecast(time, time, heat, time * 1.5, time, heat, heat + [2.0, 0.5, 0.0])
    truth = Oracle(world)
    assert Gate(world, truth, 45.0).admits(predicted).tolist() == [False, True, True]
    assert Gate(world, truth, 45.0, slowness=3.0).admits(predicted).tolist() == [False, True, False]
    with pytest.raises(ArgumentError, match=r"slowness is 0\.5"):
        Gate(world, truth, 45.0, slowness=0.5)


def test_the_coolest_context_is_admitted_if_none_keeps_the_limits():
    world = episodes.world(scale=60.0)
    truth, state = Oracle(world), State(2, 42.0, 1)
    peak = truth.forecast(world.graphs[2], world.contexts, 42.0).peak_bound
    some = Gate(world, truth, 42.0).allowed(state)
    np.testing.assert_array_equal(some, peak <= 42.0)
    assert 0 < some.sum() < len(some)
    assert np.flatnonzero(Gate(world, truth, 20.0).allowed(state)).tolist() == [int(peak.argmin())]


def test_a_context_passes_alone_as_it_does_among_all():
    world = episodes.world(scale=60.0)
    truth, state = Oracle(world), State(2, 42.0, 1)
    for gate in (Gate(world, truth, 42.0), Gate(world, truth, 50.0, slowness=2.0)):
        among = gate.allowed(state)
        assert 0 < among.sum() < len(among)
        found = [gate.passes(state, context) for context in range(len(among))]
        np.testing.assert_array_equal(found, among)


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
    with pytest.raises(ArgumentError, match="all are wanted for one agent per core"):
        AgentPerCore(part)
