"""Episodes: costs by hand, the same for the same seed, temperatures that go on."""

import numpy as np
import pytest

import episodes
from msbgen.core.errors import ArgumentError
from msbgen.graphs.agents.rules import all_fast
from msbgen.graphs.agents.worlds import Cost, State, World, plain_contexts, play_episodes


def test_costs_by_hand():
    cost = Cost()
    assert cost.of(2.0, 3.0, 44.0, (4.0, 2.0)) == pytest.approx(0.5 + 0.5 * 1.5)
    assert cost.of(4.0, 2.0, 47.0, (4.0, 2.0)) == pytest.approx(1.5 + 10 * 4.0)
    np.testing.assert_allclose(
        Cost(0, 1, 2, soft=30).of([1, 1], [5, 10], [29, 31], (1, 10)), [0.5, 3.0]
    )
    with pytest.raises(ArgumentError, match="heat is -1"):
        Cost(heat=-1)


def test_a_graph_starts_as_warm_as_the_last_one_ended():
    world = episodes.world(scale=5.0)
    record = play_episodes(world, all_fast(world), 1, 1)
    graphs, temperature = world.draw(np.random.default_rng([1, 0]))
    for i, number in enumerate(graphs):
        outcome = world.simulator.run(
            world.programs[number], world.contexts[record.context[0, i]],
            temperature=temperature, rng=np.random.default_rng([1, 0, i]),
        )  # fmt: skip
        temperature = outcome.last[0, 0]
        assert record.last[0, i] == temperature
        expected = world.cost.of(
            outcome.makespan[0, 0], outcome.energy[0, 0], temperature, world.reference[number]
        )
        assert record.cost[0, i] == pytest.approx(float(expected))
    assert record.violated(float(record.peak.max())) == 0
    assert record.violated(float(record.peak.min()) - 1e-9) == 1


def test_contexts_differ_in_what_they_do():
    table = plain_contexts(episodes.TX2, 3)
    assert len(table) == 2 * 4 * 9 + 2 * 3 + 4 * 3
    for i, cluster in enumerate(episodes.TX2.clusters):
        assert (table[table[:, 2 * i] == 0, 2 * i + 1] == cluster.clocks[0]).all()


def test_a_world_needs_graphs_and_sane_numbers():
    simulator = episodes.simulator()
    with pytest.raises(ArgumentError, match="graphs are none"):
        World(simulator, [])
    with pytest.raises(ArgumentError, match="length is 0"):
        episodes.world(length=0)
    with pytest.raises(ArgumentError, match="start is 50 to 40"):
        episodes.world(start=(50, 40))
    world = episodes.world()
    for context in (-1, len(world.contexts)):
        with pytest.raises(ArgumentError, match=f"context is {context}; a number from 0 to"):
            world.step(State(0, 30.0, 1), context)
    with pytest.raises(ArgumentError, match="episodes is 0"):
        play_episodes(world, all_fast(world), 0)
