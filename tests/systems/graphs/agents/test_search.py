"""Search against brute force, limits, future costs by enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import episodes
from msbgen.core.choice import InfeasibleError, Limits, choose
from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.search import (
    FutureCost,
    Oracle,
    Search,
    offers_of,
)
from msbgen.systems.graphs.agents.worlds import Cost, State
from msbgen.systems.graphs.forecast import Forecast

NUMBERS = st.lists(st.floats(0.1, 10.0), min_size=5, max_size=5)


def forecast(time, energy, heat, factor=1.0):
    time, energy, heat = (np.array(x, dtype=float) for x in (time, energy, heat))
    most = heat + factor - 1
    return Forecast(time, energy, heat, time * factor, energy * factor, heat, most)


@given(NUMBERS, NUMBERS, NUMBERS, st.floats(1, 2), st.floats(0.05, 25), st.floats(0.05, 12))
def test_a_choice_is_the_cheapest_of_those_that_keep_the_limits(t, e, heat, factor, limit, cap):
    predicted = forecast(t, e, heat, factor)
    kept = [
        i for i in range(5) if t[i] * factor <= limit * (1 + 1e-12) and heat[i] + factor - 1 <= cap
    ]
    limits = Limits(time=limit, temperature=cap)
    if not kept:
        with pytest.raises(InfeasibleError):
            choose(offers_of(predicted), limits)
        return
    found = choose(offers_of(predicted), limits)
    assert found.context in kept
    assert found.expected["energy"] == min(e[i] for i in kept)
    assert found.bound["energy"] == pytest.approx(found.expected["energy"] * factor)
    by_heat = choose(
        offers_of(predicted, objective=predicted.temperature),
        Limits(temperature=max(heat) + factor),
    )
    assert by_heat.expected["temperature"] == min(heat)


def test_the_error_of_an_impossible_limit_names_the_closest_context():
    predicted = forecast([1, 2], [5, 3], [50, 46], 1.1)
    offers = offers_of(predicted, describe=["fast", "slow"].__getitem__)
    with pytest.raises(InfeasibleError, match=r"1\.1 s or more is wanted, the lowest .* \(fast"):
        choose(offers, Limits(time=0.5))
    with pytest.raises(InfeasibleError, match=r"46\.1 °C or more .* \(slow\)"):
        choose(offers, Limits(temperature=40.0))
    # the fastest of those below the cap
    with pytest.raises(InfeasibleError, match=r"within 47 °C keeps; 2\.2 s or more .* \(slow\)"):
        choose(offers, Limits(temperature=47.0, time=1.5))
    assert offers.bound["power"][0] == pytest.approx(5.5)


def test_the_oracle_is_brute_force_on_the_simulator():
    world = episodes.world()
    policy = Search(world, Oracle(world))
    for number, heat in product(range(3), (30.0, 44.99)):
        costs = []
        for context in range(len(world.contexts)):
            run = world.simulator.run(
                world.programs[number], world.contexts[context], temperature=heat, noise=False
            )
            t0, e0 = world.reference[number]
            excess = max(run.last[0, 0] - 45, 0)
            costs.append(run.makespan[0, 0] / t0 + run.energy[0, 0] / (2 * e0) + 10 * excess**2)
        assert policy.act(State(number, heat, 1)) == int(np.argmin(costs))


class Told:
    """Says of every graph what it was result, whatever the contexts."""

    def __init__(self, predicted):
        self.predicted = predicted

    def forecast(self, graph, contexts, temperature):
        n = len(contexts)
        return Forecast(*(np.resize(values, n) for values in vars(self.predicted).values()))


def test_caution_ranks_by_bounds_and_keeps_the_cap():
    world = episodes.world(cost=Cost(energy=0.0, heat=0.0))
    n = len(world.contexts)
    time, bound = np.full(n, 5.0), np.full(n, 9.0)
    time[3], time[4], bound[4], time[5] = 1.0, 2.0, 3.0, 0.5
    heat = np.full(n, 40.0)
    heat[5] = 50.0
    predicted = Forecast(time, np.ones(n), heat, bound, np.ones(n), heat, heat + 0.5)
    assert Search(world, Told(predicted)).act(State(0, 30.0, 2)) == 5
    assert Search(world, Told(predicted), cap=45.0).act(State(0, 30.0, 2)) == 3
    assert Search(world, Told(predicted), cautious=True, cap=45.0).act(State(0, 30.0, 2)) == 4
    heat[7] = 39.0
    coolest = Forecast(time, np.ones(n), heat, bound, np.ones(n), heat, heat)
    assert Search(world, Told(coolest), cap=20.0).act(State(0, 30.0, 2)) == 7


def test_the_future_cost_is_that_of_the_best_sequence_of_contexts():
    """One graph without noise: V_2 is the least over all pairs of contexts, on the grid exactly."""
    world = episodes.world(clocks=1, scale=20.0)
    truth, graph = Oracle(world), world.graphs[0]
    start = 44.0
    grid = np.linspace(28.0, 60.0, 3000)
    heat = FutureCost.learn(
        truth, world.device, [graph], world.contexts, cost=world.cost, length=2,
        temperatures=np.unique(np.append(grid[::100], start)),
    )  # fmt: skip
    assert np.all(heat.values[0] == 0)
    reference = world.reference[0]
    first = truth.forecast(graph, world.contexts, start)
    now = world.cost.of(first.time, first.energy, first.temperature, reference)
    assert heat.of(start, 1) == pytest.approx(now.min())
    both = []
    for paid, left in zip(now, first.temperature):
        predicted = truth.forecast(graph, world.contexts, left)
        both.append(
            paid
            + world.cost.of(
                predicted.time, predicted.energy, predicted.temperature, reference
            ).min()
        )
    # values are convex where heat costs: lines between grid points lie above them
    assert min(both) - 1e-9 <= heat.of(start, 2) <= min(both) * 1.05
    assert heat.of(70.0, 1) > heat.of(60.0, 1) > heat.of(30.0, 1)
    with pytest.raises(ArgumentError, match="ascending"):
        FutureCost.learn(
            truth, world.device, [graph], world.contexts, cost=world.cost, length=2,
            temperatures=[40, 30],
        )  # fmt: skip


def test_a_forecast_is_positive_numbers_of_one_length():
    known = Forecast.certain([1.0, 2.0], [3.0, 4.0], [-5.0, 40.0], [-4.0, 41.0])
    np.testing.assert_array_equal(known.energy_bound, known.energy)
    with pytest.raises(ArgumentError, match="energy is 0 in context 1; a positive number"):
        Forecast.certain([1.0, 2.0], [3.0, 0.0], [30.0, 40.0], [30.0, 40.0])
    with pytest.raises(ArgumentError, match=r"temperature has shape \(1,\)"):
        Forecast.certain([1.0, 2.0], [3.0, 1.0], [30.0], [30.0, 40.0])
    with pytest.raises(ArgumentError, match="temperature is nan"):
        Forecast.certain([1.0], [3.0], [np.nan], [30.0])
