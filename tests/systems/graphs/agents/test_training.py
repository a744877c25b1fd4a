"""Training: Dyna without imagination is plain, gates hold, equal seeds give equal agents."""

import numpy as np
import pytest

import episodes
from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.actions import AgentPerCore, OneAgent
from msbgen.systems.graphs.agents.gates import Gate
from msbgen.systems.graphs.agents.replay import Replay
from msbgen.systems.graphs.agents.rules import powersave
from msbgen.systems.graphs.agents.search import Oracle
from msbgen.systems.graphs.agents.tabular import TabularQ
from msbgen.systems.graphs.agents.training import (
    Imagination,
    LearnedPolicy,
    TrainingSettings,
    explore,
    gated_action,
    ranked_actions,
    train,
)
from msbgen.systems.graphs.agents.worlds import OBSERVED, Cost, State, play_episodes

SHORT = TrainingSettings(episodes=6, batch=8, seed=3)


def tabular(world):
    actions = OneAgent(world)
    return TabularQ(actions.branches[0]), actions


def test_dyna_without_imagined_transitions_is_plain():
    world = episodes.world()
    tables = []
    for model in (None, Oracle(world)):
        agent, actions = tabular(world)
        done = train(world, agent, actions, SHORT, model=model)
        assert done.imagined == done.refused == 0
        tables.append(agent.table)
    np.testing.assert_array_equal(*tables)
    agent, actions = tabular(world)
    done = train(
        world, agent, actions, TrainingSettings(episodes=6, batch=8, imagined=5, seed=3),
        model=Oracle(world),
    )  # fmt: skip
    assert done.imagined == 5 * 4 * 5  # every fifth of 24 steps, 5 ζ at once
    assert not np.array_equal(agent.table, tables[0])
    with pytest.raises(ArgumentError, match="imagined is 5 and there is no model"):
        train(world, *tabular(world), TrainingSettings(imagined=5))


def test_transitions_imagined_by_the_simulator_are_those_without_noise():
    world = episodes.world()
    agent, actions = tabular(world)
    imagination = Imagination(world, Oracle(world), actions, TrainingSettings(imagined=2), None)
    memory = Replay(100, len(OBSERVED))
    met = State(0, 40.0, 2)
    imagination.imagine(memory, agent, met, 1.0, np.random.default_rng(0))
    drawn = memory.sample(30, np.random.default_rng(1))
    for seen, action, reward in zip(drawn.observation, drawn.action, drawn.reward):
        shapes = [world.observe(State(g, 40.0, 2)) for g in range(3)]
        graph = int(np.argmin([np.abs(seen - shape).sum() for shape in shapes]))
        outcome = world.simulator.run(
            world.programs[graph], world.contexts[action[0]], temperature=40.0, noise=False
        )
        assert reward == pytest.approx(-min(world.costs(graph, outcome)[0], 20.0), rel=1e-6)
    assert not drawn.done.any()
    assert imagination.admitted == memory.size == 10


def test_a_gate_keeps_real_and_imagined_transitions_below_the_cap():
    world = episodes.world(scale=60.0, start=(41.0, 42.0), length=3, cost=Cost(soft=42.0))
    gate = Gate(world, Oracle(world), 42.0)
    settings = TrainingSettings(episodes=6, batch=4, imagined=2)
    shares = []
    for own in (None, gate):
        agent, actions = tabular(world)
        done = train(world, agent, actions, settings, model=Oracle(world), gate=own)
        shares.append((done.above.mean(), done.refused))
    assert shares[0][1] == 0 < shares[1][1]
    assert shares[1][0] < shares[0][0]
    record = play_episodes(world, LearnedPolicy(world, agent, actions, gate), 2)
    coolest = play_episodes(world, powersave(world), 2)
    assert record.last.max() <= max(42.1, coolest.last.max())


@pytest.mark.parametrize("kind", [OneAgent, AgentPerCore])
def test_the_gate_takes_the_best_that_is_admitted(kind):
    world = episodes.world(scale=60.0)
    actions = kind(world)

    class Fixed:
        branches = actions.branches

        def advantages(self, observation):
            return [np.arange(n, dtype=float)[None] * (i + 1) for i, n in enumerate(self.branches)]

        def best(self, observation):
            return np.array(self.branches) - 1

        def learn(self, batch):
            return 0.0

    agent, state = Fixed(), State(2, 42.0, 1)
    gate = Gate(world, Oracle(world), 42.0)
    admitted = gate.allowed(state)
    hot = actions.context(agent.best(np.zeros(7)))
    assert not admitted[hot]
    action, context = gated_action(gate, state, agent, actions, agent.best(np.zeros(7)), hot)
    assert admitted[context]
    assert actions.context(action) == context

    def worth(option):
        return sum(part[0, a] for part, a in zip(agent.advantages(None), option))

    allowed = [worth(o) for o in actions.every if admitted[actions.context(o)]]
    assert worth(action) == max(allowed)
    ranked = [worth(o) for o in ranked_actions(actions, agent, np.zeros(7))]
    assert ranked == sorted(ranked, reverse=True)
    same = gated_action(Gate(world, Oracle(world), 90.0), state, agent, actions, action, hot)
    assert same[1] == hot


def test_chances_fall_and_explorers_are_random_or_not():
    settings = TrainingSettings(episodes=100, explore=(1.0, 0.1), decline=0.5)
    assert settings.chance(0) == 1.0
    assert settings.chance(25) == pytest.approx(0.55)
    assert settings.chance(50) == settings.chance(99) == pytest.approx(0.1)
    rng, best = np.random.default_rng(0), np.array([2, 1])
    assert all(explore((3, 2), best, 0.0, rng).tolist() == [2, 1] for _ in range(20))
    drawn = {tuple(explore((3, 2), best, 1.0, rng)) for _ in range(200)}
    assert len(drawn) == 6
    with pytest.raises(ArgumentError, match="explore is"):
        TrainingSettings(explore=(2.0, 0.1))


def test_a_network_trains_the_same_for_the_same_seed_and_better_than_chance():
    torch = pytest.importorskip("torch", reason="torch is missing; pip install msbgen[graph]")
    from msbgen.systems.graphs.agents.d3qn import D3QN, D3QNSettings

    torch.set_num_threads(1)
    world = episodes.world()
    actions = AgentPerCore(world)
    settings = TrainingSettings(episodes=30, batch=16, imagined=5)
    agents = []
    for _ in range(2):
        agent = D3QN(len(OBSERVED), actions.branches, D3QNSettings(width=16, rate=3e-3))
        done = train(world, agent, actions, settings, model=Oracle(world))
        agents.append(agent)
    x = world.observe(State(1, 35.0, 3))
    for one, same in zip(*(agent.advantages(x[None]) for agent in agents)):
        np.testing.assert_array_equal(one, same)
    assert done.cost[-10:].mean() < 0.8 * done.cost[:10].mean()
