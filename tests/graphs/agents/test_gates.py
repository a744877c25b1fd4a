"""A gate lets through what keeps its limits by its bounds."""

import numpy as np
import pytest

import episodes
from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.gates import Gate
from msbgen.graphs.agents.search import Oracle
from msbgen.graphs.agents.worlds import State
from msbgen.graphs.forecast import Forecast


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
