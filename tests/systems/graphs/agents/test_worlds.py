"""Episodes: costs by hand, the same for the same seed, temperatures that go on."""

import warnings

import numpy as np
import pytest

import episodes
from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.environments import (
    Episode,
    gymnasium_environment,
    pettingzoo_environment,
)
from msbgen.systems.graphs.agents.rules import all_fast
from msbgen.systems.graphs.agents.worlds import (
    OBSERVED,
    Cost,
    State,
    World,
    plain_contexts,
    play_episodes,
)


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


MISSING = "is missing; pip install msbgen[graph]"


def test_an_episode_pays_what_the_world_charges_and_then_is_over():
    world = episodes.world()
    episode = Episode(world)
    with pytest.raises(RuntimeError, match="call reset first"):
        episode.play(0)
    seen = episode.begin(4)
    graphs, temperature = world.draw(rng := np.random.default_rng(4))
    for i, number in enumerate(graphs):
        state = State(int(number), temperature, world.length - i)
        np.testing.assert_allclose(seen, world.observe(state), rtol=1e-6)
        step = world.step(state, 7, rng)
        seen, reward, done, figures = episode.play(7)
        assert reward == -step.cost
        temperature = step.last
        assert figures["last"] == temperature
    assert done
    with pytest.raises(RuntimeError, match="over"):
        episode.play(0)


def test_gymnasium_finds_nothing_wrong():
    gymnasium = pytest.importorskip("gymnasium", reason=f"gymnasium {MISSING}")
    from gymnasium.utils.env_checker import check_env

    world = episodes.world()
    env = gymnasium_environment(world)
    assert isinstance(env, gymnasium.Env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*not initialized via gymnasium.make.*")
        warnings.filterwarnings("ignore", ".*no spec.*|.*spec is None.*")
        check_env(env, skip_render_check=True)
    env.reset(seed=3)
    assert [env.step(action)[2:4] for action in (5, 1, 9, 0)][-1] == (True, False)


def test_pettingzoo_finds_nothing_wrong():
    pytest.importorskip("pettingzoo", reason=f"pettingzoo {MISSING}")
    pytest.importorskip("gymnasium", reason=f"gymnasium {MISSING}")
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    world = episodes.world()
    env = pettingzoo_environment(world)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parallel_api_test(env, num_cycles=40)
        parallel_seed_test(lambda: pettingzoo_environment(world), num_cycles=10)
    env.reset(seed=1)
    _, rewards, ends, _, figures = env.step(dict.fromkeys(env.agents, 2))
    assert len(set(rewards.values())) == 1
    row = world.contexts[next(iter(figures.values()))["context"]]
    assert row[[0, 2]].tolist() == [2, 4]
    assert not any(ends.values())


def test_an_observation_tells_graphs_apart_and_falls_with_the_heat():
    world = episodes.world()
    seen = np.array([world.observe(State(g, 30.0, 2)) for g in range(3)])
    assert seen.shape == (3, len(OBSERVED))
    assert len(np.unique(seen[:, 2:], axis=0)) == 3
    assert (np.abs(seen) <= 1.5).all()
    assert world.observe(State(0, world.cost.soft, 4))[0] == 0
    assert world.observe(State(0, 28.0, 4))[1] == 1
