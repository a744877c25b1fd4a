"""The next context to measure, against sampling and enumeration."""

import numpy as np
import pytest

from choosing import programs
from msbgen.core.choice import NO_LIMITS, Limits
from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.choice.posterior import ProgramPosterior
from msbgen.systems.kernels.choice.probes import improvement, mean_regret


@pytest.mark.parametrize("objective", ["energy", "edp", "time"])
def test_improvement_is_the_mean_decrease_of_sampled_costs(objective):
    rng = np.random.default_rng(1)
    root = 0.3 * rng.normal(size=(6, 6))
    posterior = ProgramPosterior(rng.normal(size=6), root @ root.T)
    time, energy = np.array([np.nan, 2.0, np.nan]), np.array([np.nan, 3.0, np.nan])
    work = np.array([1.0, 2.0, 3.0])
    got = improvement(posterior, time, energy, work, objective=objective, limits=NO_LIMITS)
    drawn = rng.multivariate_normal(posterior.mean, posterior.covariance, size=400_000)
    seconds, watts = np.exp(drawn[:, :3]), np.exp(drawn[:, 3:])
    power = {"energy": (0, 1), "edp": (1, 1), "time": (1, 0)}[objective]
    cost = np.log(seconds ** power[0] * (seconds * watts) ** power[1] / work)
    best = np.log(2.0 ** power[0] * 3.0 ** power[1] / 2.0)
    np.testing.assert_allclose(got, np.maximum(best - cost, 0).mean(axis=0), rtol=0.03, atol=2e-3)


def test_a_context_that_breaks_the_limit_has_little_improvement():
    posterior = ProgramPosterior(np.log([1.0, 5.0, 10.0, 10.0]), 0.01 * np.eye(4))
    time, energy = np.array([1.0, np.nan]), np.array([100.0, np.nan])
    free = improvement(posterior, time, energy, np.ones(2), objective="energy", limits=NO_LIMITS)
    late = improvement(
        posterior, time, energy, np.ones(2), objective="energy", limits=Limits(time=2.0)
    )
    assert 0 < late[1] < 1e-6 * free[1]


@pytest.mark.parametrize("objective", ["energy", "edp", "time"])
def test_regret_agrees_with_enumeration(objective):
    rng = np.random.default_rng(3)
    others, at, n = programs(7, seed=2), 5, 6
    others.time[1, 2] = np.nan
    work = rng.uniform(1, 2, n)
    truth = np.log(np.stack([others.time, others.energy, others.power], axis=1))
    expected = truth + rng.normal(0, 0.2, truth.shape)
    expected[1, :, 2] = 0.0
    upper = expected + 0.1
    limits = Limits(time=1.6, power=14.0)
    got = mean_regret(
        others, expected, upper, work, (at, np.array([1.0, 12.0])),
        objective=objective, limits=limits,
    )  # fmt: skip
    power = {"energy": (0, 1), "edp": (1, 1), "time": (1, 0)}[objective]
    regrets = []
    for p in range(7):
        latency = 1.6 * others.time[p, at]
        there = [c for c in range(n) if np.isfinite(others.time[p, c])]
        cost = {
            c: others.time[p, c] ** power[0] * others.energy[p, c] ** power[1] / work[c]
            for c in there
        }
        good = [c for c in there if others.time[p, c] <= latency and others.power[p, c] <= 14]
        if not good:
            continue
        sure = [
            c for c in there
            if np.exp(upper[p, 0, c]) <= latency and np.exp(upper[p, 2, c]) <= 14
        ] or [at]  # fmt: skip
        predicted = np.exp(power[0] * expected[p, 0] + power[1] * expected[p, 1]) / work
        choice = min(sure, key=lambda c: predicted[c])
        paid = cost[choice] if choice in good else max(cost.values())
        regrets.append(paid / min(cost[c] for c in good) - 1)
    assert regrets
    assert got == pytest.approx(np.mean(regrets))


def test_regret_is_infinite_where_no_program_keeps_the_limits():
    others = programs(3)
    logs = np.log(np.stack([others.time, others.energy, others.power], axis=1))
    got = mean_regret(
        others, logs, logs, np.ones(6), (5, np.array([1.0, 1.0])),
        objective="energy", limits=Limits(power=1e-3),
    )  # fmt: skip
    assert got == np.inf


def test_energy_is_the_product_of_time_and_power_by_sampling():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    posterior = ProgramPosterior(rng.normal(size=6), root @ root.T)
    drawn = rng.multivariate_normal(posterior.mean, posterior.covariance, size=200_000)
    logs = np.stack([drawn[:, :3], drawn[:, :3] + drawn[:, 3:], drawn[:, 3:]])
    np.testing.assert_allclose(posterior.logs, logs.mean(axis=1), atol=0.05)
    np.testing.assert_allclose(posterior.deviations, logs.std(axis=1), rtol=0.01)
    assert (ProgramPosterior(np.zeros(4), np.zeros((4, 4))).deviations > 0).all()


def test_wrong_shapes_are_refused():
    with pytest.raises(ArgumentError, match="mean has shape"):
        ProgramPosterior(np.zeros(3), np.zeros((3, 3)))
    with pytest.raises(ArgumentError, match="covariance"):
        ProgramPosterior(np.zeros(4), np.zeros((4, 2)))
