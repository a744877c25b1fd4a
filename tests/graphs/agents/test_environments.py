"""The environments by the checkers of their own libraries, and the same as an episode played."""

import warnings

import numpy as np
import pytest

import episodes
from msbgen.graphs.agents.environments import Episode, gymnasium_environment, pettingzoo_environment
from msbgen.graphs.agents.worlds import State

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
