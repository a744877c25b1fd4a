"""The solver of a pair: its workspace and its stated errors."""

import numpy as np
import pytest

from msbgen.engine.bridge.pair import NO_COST, Workspace, ground_of, solve_pair
from oracles import squared_distances


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def clusters(rng, size):
    """Groups of points that are far apart at a small epsilon, of unequal masses."""
    centres = rng.random((12, 3))
    return centres[rng.integers(12, size=size)] + 0.003 * rng.standard_normal((size, 3))


def test_a_used_workspace_does_not_change_the_result(rng):
    used = Workspace()
    for n, m in ((90, 70), (30, 80), (90, 90)):
        x, y = clusters(rng, n), clusters(rng, m)
        a, b = np.full(n, 1 / n), np.full(m, 1 / m)
        ground = ground_of(x, y, NO_COST)
        again = solve_pair(ground, a, b, 0.001, 1e-9, 20_000, used)
        fresh = solve_pair(ground, a, b, 0.001, 1e-9, 20_000, Workspace())
        np.testing.assert_array_equal(again.f, fresh.f)
        np.testing.assert_array_equal(again.g, fresh.g)


@pytest.mark.parametrize("epsilon", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_the_error_is_that_of_the_potentials(rng, epsilon, tol):
    # a loose tolerance takes powers of the kernel, a strict one rebuilds it at every epsilon
    x, y = clusters(rng, 80), clusters(rng, 100)
    a, b = np.full(80, 1 / 80), np.full(100, 1 / 100)
    solved = solve_pair(ground_of(x, y, NO_COST), a, b, epsilon, tol, 20_000, Workspace())
    plan = np.exp((solved.f[:, None] + solved.g - squared_distances(x, y)) / epsilon)
    error = abs(plan.sum(1) - a).sum() + abs(plan.sum(0) - b).sum()
    assert solved.error <= tol
    assert error == pytest.approx(solved.error, abs=0.02 * tol)


def test_single_precision_stays_within_the_tolerance(rng):
    """A loose tolerance starts with single precision; the stated error is still a bound."""
    workspace = Workspace()
    for epsilon in (0.05, 0.1, 1.0, 30.0):
        x, y = rng.random((150, 4)), rng.random((130, 4))
        a, b = rng.random(150), rng.random(130)
        a, b = a / a.sum(), b / b.sum()
        ground = ground_of(x, y, NO_COST)
        loose = solve_pair(ground, a, b, epsilon, 1e-6, 20_000, workspace)
        strict = solve_pair(ground, a, b, epsilon, 1e-12, 20_000, workspace)
        plan = np.exp((loose.f[:, None] + loose.g - squared_distances(x, y)) / epsilon)
        error = abs(plan.sum(1) - a).sum() + abs(plan.sum(0) - b).sum()
        assert error - 1e-12 <= loose.error <= 1e-6
        exact = np.exp((strict.f[:, None] + strict.g - squared_distances(x, y)) / epsilon)
        assert abs(plan - exact).sum() <= 2e-6  # about the error of the marginals


def test_slow_problems_of_single_precision_are_finished_in_double(rng):
    # two groups that hardly exchange mass, of masses that do not match
    x = np.concatenate([rng.random((70, 2)), 1.0 + rng.random((70, 2))]) * 3.0
    y = np.concatenate([rng.random((60, 2)), 1.0 + rng.random((80, 2))]) * 3.0
    a = b = np.full(140, 1 / 140)
    epsilon = 1.1  # the largest cost is 72: mild, so that single precision is tried
    solved = solve_pair(ground_of(x, y, NO_COST), a, b, epsilon, 1e-6, 20_000, Workspace())
    plan = np.exp((solved.f[:, None] + solved.g - squared_distances(x, y)) / epsilon)
    assert abs(plan.sum(1) - a).sum() + abs(plan.sum(0) - b).sum() <= 1e-6
    assert solved.error <= 1e-6
