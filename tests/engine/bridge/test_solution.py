"""Times between snapshots, trajectories and conditional clouds, against closed forms."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.engine.bridge.solve import SolverConfig, solve_bridge
from oracles import atoms, bridge_tensor, squared_distances

STEP, EPSILON = 4.0, 1.0


def two_points(**given):
    """One point at 0 and one at 1, four units of time later."""
    return solve_bridge([[0.0], [1.0]], epsilon=EPSILON, times=[1.0, 1.0 + STEP], **given)


def test_variance_between_snapshots_is_that_of_a_brownian_bridge():
    cloud = two_points().interpolate(1.0 + STEP / 2)
    assert cloud.variance == 0.5 * EPSILON * STEP / 4 == 0.5
    assert cloud.points.item() == 0.5


def test_costs_over_given_times_have_the_variance_of_these_times():
    cost = np.array([[1.0 / STEP]])
    assert two_points(costs=[cost]).interpolate(3.0).variance == 0.5
    untimed = solve_bridge([[0.0], [1.0]], epsilon=EPSILON, costs=[cost])
    assert np.isnan(untimed.interpolate(0.5).variance)
    with pytest.raises(ArgumentError, match="costs were given without times"):
        untimed.sample_points([0.5], 2)


def test_gaussians_move_as_the_closed_form_says():
    """Of N(0, s²) and N(m, s²) the coupling has the covariance c of the Schrödinger bridge.

    With k = ε Δt / 2 the variance of the motion, c = √(s⁴ + k²/4) − k/2 (Janati et al. 2020), and
    the variance at half time is (s² + c)/2 + k/4.
    """
    spread, shift, step, epsilon = 1.0, 2.0, 2.0, 0.8
    x = np.linspace(-6.0, 8.0, 400)
    weights = [np.exp(-((x - m) ** 2) / (2 * spread**2)) for m in (0.0, shift)]
    bridge = solve_bridge([x, x], weights, epsilon=epsilon, times=[0.0, step])
    motion = 0.5 * epsilon * step
    covariance = np.sqrt(spread**4 + motion**2 / 4) - motion / 2
    plan = bridge.coupling(0)
    assert plan.ravel() @ np.outer(x, x - shift).ravel() == pytest.approx(covariance, rel=1e-3)
    cloud = bridge.interpolate(step / 2)
    mean = cloud.weights @ cloud.points[:, 0]
    assert mean == pytest.approx(shift / 2, abs=1e-6)
    variance = cloud.weights @ (cloud.points[:, 0] - mean) ** 2 + cloud.variance
    assert variance == pytest.approx((spread**2 + covariance) / 2 + motion / 4, rel=1e-3)
    drawn = bridge.sample_points([step / 2], 40_000, rng=1)[:, 0, 0]
    assert drawn.mean() == pytest.approx(mean, abs=0.02)
    assert drawn.var() == pytest.approx(variance, rel=0.03)


def test_trajectories_go_through_points_and_move_as_one_brownian_bridge():
    times = np.array([4.0, 1.0, 3.0, 2.0, 5.0])
    drawn = two_points().sample_points(times, 40_000)[..., 0]
    assert (drawn[:, 1] == 0.0).all()
    assert (drawn[:, 4] == 1.0).all()
    t = (times[[3, 2, 0]] - 1.0) / STEP
    np.testing.assert_allclose(drawn[:, [3, 2, 0]].mean(axis=0), t, atol=0.02)
    wanted = 0.5 * EPSILON * STEP * np.minimum.outer(t, t) * (1 - np.maximum.outer(t, t))
    np.testing.assert_allclose(np.cov(drawn[:, [3, 2, 0]].T), wanted, atol=0.02)


def test_equal_seeds_give_equal_trajectories_on_several_snapshots():
    rng = np.random.default_rng(0)
    points = [rng.random((n, 2)) for n in (5, 7, 6)]
    bridge = solve_bridge(points, epsilon=0.1, times=[0.0, 1.0, 10.0])
    times = [0.5, 1.0, 7.0, 10.0]
    drawn = bridge.sample_points(times, 50, rng=3)
    np.testing.assert_array_equal(drawn, bridge.sample_points(times, 50, rng=3))
    for snapshot, column in ((1, 1), (2, 3)):
        nearest = squared_distances(drawn[:, column], points[snapshot]).min(axis=1)
        assert (nearest == 0.0).all()


@pytest.mark.parametrize("method", ["pairwise", "multimarginal"])
def test_times_equal_costs_over_their_steps(method):
    rng = np.random.default_rng(2)
    points = [rng.random((n, 3)) for n in (4, 5, 3)]
    times = np.array([2.0, 2.5, 6.5])
    costs = [
        squared_distances(x, y) / step for x, y, step in zip(points, points[1:], np.diff(times))
    ]
    config = SolverConfig(tol=1e-12)
    bridge = solve_bridge(points, epsilon=0.2, times=times, method=method, config=config)
    tensor = bridge_tensor(costs, [np.full(len(x), 1 / len(x)) for x in points], 0.2)
    np.testing.assert_allclose(bridge.coupling(0), tensor.sum(axis=2), atol=1e-9)
    np.testing.assert_allclose(bridge.coupling(1), tensor.sum(axis=0), atol=1e-9)


def test_a_conditional_cloud_equals_the_sum_over_all_atoms():
    rng = np.random.default_rng(4)
    points = [rng.random((n, 2)) for n in (6, 5)]
    contexts = [rng.random((n, 1)) for n in (6, 5)]
    bridge = solve_bridge(points, epsilon=0.1, times=[0.0, 2.0])
    for t in (0.0, 0.5, 2.0):
        cloud = bridge.condition(t, contexts, [0.4], 0.2)
        lam = 1.0 - t / 2
        mass, values, mixed = atoms(bridge.coupling(0), points, contexts, lam)
        weight = mass * np.exp(-((0.4 - mixed[:, 0]) ** 2) / (2 * 0.2**2))
        wanted = weight @ values / weight.sum()
        np.testing.assert_allclose(cloud.weights @ cloud.points, wanted, atol=1e-8)
        assert cloud.weights.sum() == pytest.approx(1.0)
        assert cloud.variance == pytest.approx(0.1 * lam * (1 - lam))


def test_a_narrow_kernel_keeps_the_atoms_of_its_context():
    points, labels = [[0.0, 10.0], [1.0, 11.0]], [[[1.0], [2.0]]] * 2
    bridge = solve_bridge(points, epsilon=100.0)
    cloud = bridge.condition(0.5, labels, [2.0], 0.05)
    assert cloud.points[cloud.weights > 0.5].item() == pytest.approx(10.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve_bridge(np.ones(3), epsilon=1.0), "points is a single snapshot"),
        (lambda: solve_bridge(np.ones((3, 2)), np.ones((3, 2)), epsilon=1.0), "second snapshot"),
        (lambda: solve_bridge([[0.0], [1.0]], epsilon=1.0, times=[1.0, 1.0]), "2 ascending"),
        (lambda: solve_bridge([[0.0], [1.0]], epsilon=1.0, times=[1.0]), "2 ascending"),
        (lambda: two_points().interpolate(0.5), "1 to 5, the path"),
        (lambda: two_points().sample_points([3.0, 6.0], 2), "1 to 5, the path"),
        (lambda: two_points().condition(2.0, [[[1.0]]] * 2, [1.0], 0.0), "above 0"),
        (lambda: two_points().condition(2.0, [[[1.0]]], [1.0], 1.0), "contexts have the shapes"),
    ],
)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
