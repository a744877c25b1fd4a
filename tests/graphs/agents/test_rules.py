"""Rules: all cores, at the clocks that they are meant to have."""

import numpy as np
import pytest

from episodes import TX2, three_clocks
from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.rules import Rule, ThermalGovernor, all_fast, heft, powersave
from msbgen.graphs.agents.worlds import State, play_episodes

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
