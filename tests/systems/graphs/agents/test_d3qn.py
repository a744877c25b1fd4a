"""The network's values and targets against loops and a computation by hand."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.agents.d3qn import D3QN, D3QNSettings
from msbgen.systems.graphs.agents.replay import Transitions
from needing import needs_torch

pytestmark = needs_torch


def batch(rng, n=6, d=4, branches=(3, 2)):
    return Transitions(
        rng.normal(size=(n, d)),
        np.stack([rng.integers(b, size=n) for b in branches], axis=1),
        rng.normal(size=n),
        rng.normal(size=(n, d)),
        (rng.random(n) < 0.4).astype(float),
    )


def by_hand(network, x, branches):
    """State value and advantages of one observation, in numpy."""
    w = {name: p.detach().numpy().astype(float) for name, p in network.named_parameters()}
    h = np.maximum(w["body.0.weight"] @ x + w["body.0.bias"], 0)
    h = np.maximum(w["body.2.weight"] @ h + w["body.2.bias"], 0)
    value = (w["value.weight"] @ h + w["value.bias"])[0]
    flat = w["advantage.weight"] @ h + w["advantage.bias"]
    return value, np.split(flat, np.cumsum(branches)[:-1])


def test_targets_are_double_and_values_add_up_over_branches():
    rng = np.random.default_rng(3)
    agent = D3QN(4, (3, 2), D3QNSettings(width=8, discount=0.7, follow=0.5), seed=1)
    for _ in range(3):  # the slow copy is not the network any more
        agent.learn(batch(rng))
    data = batch(rng)
    targets, values = [], []
    for i in range(6):
        _, parts = by_hand(agent.network, data.following[i], (3, 2))
        chosen = [int(part.argmax()) for part in parts]
        slow, slow_parts = by_hand(agent.slow, data.following[i], (3, 2))
        worth = slow + sum(p[a] - p.mean() for p, a in zip(slow_parts, chosen))
        targets.append(data.reward[i] + 0.7 * (1 - data.done[i]) * worth)
        value, parts = by_hand(agent.network, data.observation[i], (3, 2))
        values.append(value + sum(p[a] - p.mean() for p, a in zip(parts, data.action[i])))
    np.testing.assert_allclose(agent.targets(data), targets, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(agent.values(data.observation, data.action), values, atol=1e-5)
    assert 0 < data.done.sum() < 6


def test_the_best_joint_action_is_the_best_of_all():
    agent = D3QN(4, (3, 2, 4), D3QNSettings(width=8), seed=2)
    x = np.random.default_rng(0).normal(size=4)
    every = np.array(list(np.ndindex(3, 2, 4)))
    values = agent.values(np.repeat(x[None], len(every), axis=0), every)
    assert agent.best(x).tolist() == every[values.argmax()].tolist()


def test_equal_seeds_give_equal_networks_and_leave_the_chance_of_others_alone():
    import torch

    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (D3QN(3, (4,), seed=s) for s in (7, 7, 8))
    assert torch.rand(1) == before
    x = np.ones(3)
    np.testing.assert_array_equal(one.advantages(x[None])[0], same.advantages(x[None])[0])
    assert not np.array_equal(one.advantages(x[None])[0], other.advantages(x[None])[0])


def test_settings_are_checked():
    for wrong in ({"discount": 1.0}, {"rate": 0.0}, {"width": 0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            D3QNSettings(**wrong)
