"""Theorems about the bridge, and its limits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.engine.bridge.solution import Status
from msbgen.engine.bridge.solve import NotConvergedError, SolverConfig, solve_bridge
from oracles import bimarginal, bridge_tensor, squared_distances
from strategies import epsilons, snapshots

TIGHT = SolverConfig(tol=1e-12)
few = settings(max_examples=25, deadline=None)
both_forms = pytest.mark.parametrize("method", ["pairwise", "multimarginal"])
# from here on the sweeps of the message form converge within the default limit
SWEEPABLE = 0.05


def clouds(rng, *sizes, dimension=3):
    return [rng.random((size, dimension)) for size in sizes]


def normalised(weights):
    return [w / w.sum() for w in weights]


def reachable(epsilon, method):
    """An epsilon at which the form converges: sweeps are slow at small ones."""
    return epsilon if method == "pairwise" else max(epsilon, SWEEPABLE)


def costs_of(points):
    return [squared_distances(x, y) for x, y in pairwise(points)]


def couplings(bridge):
    return [bridge.coupling(j) for j in range(len(bridge.potentials))]


def assert_same_plans(first, second, atol=1e-10):
    for one, other in zip(couplings(first), couplings(second), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("method", ["pairwise", "multimarginal"])
@pytest.mark.parametrize("epsilon", [10.0, 1.0, 0.1, 0.03])
@pytest.mark.parametrize("sizes", [(4, 6), (3, 5, 2), (4, 1, 6, 3)])
def test_both_forms_equal_the_dense_tensor(rng, sizes, epsilon, method):
    points = clouds(rng, *sizes)
    weights = normalised([rng.random(n) + 0.05 for n in sizes])
    tensor = bridge_tensor(costs_of(points), weights, epsilon)
    bridge = solve_bridge(points, weights, epsilon=epsilon, method=method, config=TIGHT)
    for j, plan in enumerate(couplings(bridge)):
        np.testing.assert_allclose(plan, bimarginal(tensor, j), rtol=0, atol=1e-10)


@pytest.mark.parametrize("free", [(1,), (2,), (1, 2), (0,), (3,), (0, 2)])
def test_unconstrained_snapshots_equal_the_dense_tensor(rng, free):
    points = clouds(rng, 4, 5, 3, 4)
    weights = normalised([rng.random(len(x)) + 0.05 for x in points])
    for j in free:
        weights[j] = None
    tensor = bridge_tensor(costs_of(points), weights, 0.1)
    bridge = solve_bridge(points, weights, epsilon=0.1, method="multimarginal", config=TIGHT)
    for j, plan in enumerate(couplings(bridge)):
        np.testing.assert_allclose(plan, bimarginal(tensor, j), rtol=0, atol=1e-10)
    for j in range(4):
        marginal = tensor.sum(axis=tuple(k for k in range(4) if k != j))
        np.testing.assert_allclose(bridge.weights[j], marginal, rtol=0, atol=1e-10)


def test_path_law_is_the_markov_chain_of_the_tensor(rng):
    points = clouds(rng, 3, 4, 2)
    weights = normalised([rng.random(len(x)) + 0.1 for x in points])
    tensor = bridge_tensor(costs_of(points), weights, 0.2)
    paths = solve_bridge(points, weights, epsilon=0.2).sample_paths(40_000, rng)
    counts = np.zeros(tensor.shape)
    np.add.at(counts, tuple(paths.T), 1.0 / len(paths))
    # five standard deviations of a frequency
    assert np.all(abs(counts - tensor) < 5 * np.sqrt(tensor / len(paths)) + 1e-4)


@given(snapshots(), epsilons)
@few
def test_marginals_hold_and_forms_agree(case, epsilon):
    points, weights = case
    bridge = solve_bridge(points, weights, epsilon=epsilon)
    assert bridge.status is Status.CONVERGED
    for j, plan in enumerate(couplings(bridge)):
        error = abs(plan.sum(1) - bridge.weights[j]).sum()
        error += abs(plan.sum(0) - bridge.weights[j + 1]).sum()
        assert error <= 1e-9 + 1e-13
        assert error == pytest.approx(bridge.marginal_error[j], abs=1e-12)
    messages = solve_bridge(
        points, weights, epsilon=epsilon, method="multimarginal", on_failure="return"
    )
    assert (messages.status is Status.CONVERGED) or epsilon < SWEEPABLE
    for j, plan in enumerate(couplings(messages)):  # the stated error is right in both cases
        error = abs(plan.sum(1) - messages.weights[j]).sum()
        error += abs(plan.sum(0) - messages.weights[j + 1]).sum()
        assert error == pytest.approx(messages.marginal_error[j], abs=1e-12)
    if messages.status is Status.CONVERGED:
        assert_same_plans(bridge, messages, atol=1e-7)
    else:
        assert messages.marginal_error.max() > 1e-9


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.05])
def test_two_snapshots_equal_pot(rng, epsilon):
    import ot  # here, since every worker would spend seconds on it

    x, y = clouds(rng, 30, 40)
    a, b = normalised([rng.random(30), rng.random(40)])
    plan = solve_bridge([x, y], [a, b], epsilon=epsilon, config=TIGHT).coupling(0)
    peer = ot.sinkhorn(
        a, b, ot.dist(x, y), epsilon, method="sinkhorn_log", stopThr=1e-13, numItermax=20_000
    )
    np.testing.assert_allclose(plan, peer, rtol=0, atol=1e-11)


@both_forms
@given(case=snapshots(), epsilon=epsilons)
@few
def test_time_reversal_transposes(method, case, epsilon):
    points, weights = case
    epsilon = reachable(epsilon, method)
    forward = solve_bridge(points, weights, epsilon=epsilon, method=method)
    backward = solve_bridge(points[::-1], weights[::-1], epsilon=epsilon, method=method)
    for one, other in zip(couplings(forward), couplings(backward)[::-1]):
        np.testing.assert_allclose(one, other.T, rtol=0, atol=3e-8)


@both_forms
@given(case=snapshots(), epsilon=epsilons, exponent=st.floats(-3, 3))
@few
def test_scaling_space_by_c_and_epsilon_by_c_squared_leaves_the_plan(
    method, case, epsilon, exponent
):
    points, weights = case
    c, epsilon = 10.0**exponent, reachable(epsilon, method)
    plain = solve_bridge(points, weights, epsilon=epsilon, method=method)
    scaled = solve_bridge([c * x for x in points], weights, epsilon=c**2 * epsilon, method=method)
    assert_same_plans(plain, scaled, atol=3e-8)


def test_cost_matrices_are_used(rng):
    points = clouds(rng, 5, 6, 4)
    by_points = solve_bridge(points, epsilon=0.1)
    by_costs = solve_bridge(points, epsilon=0.1, costs=costs_of(points))
    assert_same_plans(by_points, by_costs, atol=1e-12)
    # adding a function of one side to the cost leaves the plan
    tilted = [cost + rng.random(cost.shape[1]) for cost in costs_of(points)]
    assert_same_plans(by_points, solve_bridge(points, epsilon=0.1, costs=tilted), atol=1e-8)
    for cost, plan in zip(tilted, couplings(solve_bridge(points, epsilon=0.1, costs=tilted))):
        assert plan.shape == cost.shape


@pytest.mark.parametrize("epsilon", [1e-2, 1e-3, 1e-4, 2e-5])
def test_the_plan_is_exact_where_the_kernel_underflows(rng, epsilon):
    import ot

    # every exp(-C / epsilon) is zero: the plan tends to the optimal assignment
    x, y = clouds(rng, 20, 20)
    y += 3.0
    assert np.exp(-squared_distances(x, y) / epsilon).max() == 0.0
    bridge = solve_bridge([x, y], epsilon=epsilon)
    assert bridge.marginal_error[0] <= 1e-9
    # optimality: the duality gap of entropic transport bounds the cost from both sides
    cost = squared_distances(x, y)
    best = ot.emd2(bridge.weights[0], bridge.weights[1], cost)
    reached = (bridge.coupling(0) * cost).sum()
    assert best - 1e-6 <= reached <= best + epsilon * np.log(400) + 1e-6


def test_multimarginal_is_exact_where_the_kernel_underflows(rng):
    points = clouds(rng, 4, 5, 3)
    points = [x + 20.0 * j for j, x in enumerate(points)]
    pairwise = solve_bridge(points, epsilon=0.05, config=TIGHT, on_failure="return")
    messages = solve_bridge(points, epsilon=0.05, method="multimarginal")
    assert_same_plans(pairwise, messages, atol=1e-9)


@pytest.mark.parametrize("epsilon", [1e-2, 1e-4])
def test_multimarginal_uses_the_pairs_where_sweeps_are_slow(rng, epsilon):
    points = clouds(rng, 40, 25, 40)
    weights = [rng.random(len(x)) for x in points]
    weights[1][3] = 0.0
    messages = solve_bridge(points, weights, epsilon=epsilon, method="multimarginal")
    assert messages.iterations.max() < 100
    assert_same_plans(solve_bridge(points, weights, epsilon=epsilon), messages, atol=3e-9)


def bell(n, mean, deviation):
    weights = np.exp(-((np.arange(n) - mean) ** 2) / (2 * deviation**2))
    return weights / weights.sum()


@both_forms
@pytest.mark.parametrize(
    ("n", "means", "deviation", "epsilon"),
    [
        *((10, (3, 4), 1, e) for e in (1e-3, 5e-4, 3e-4, 2.5e-4, 8.2e-5)),
        *((30, (9, 12), 3, e) for e in (5e-3, 4e-3, 8.5e-4)),
    ],
)
def test_clusters_exchange_their_mass_before_they_are_apart(n, means, deviation, epsilon, method):
    """On grids with tails, down to max(C) / epsilon = 1e6, neighbours are 1 / epsilon apart."""
    x = np.arange(float(n))[:, None]
    weights = [bell(n, mean, deviation) for mean in means]
    bridge = solve_bridge([x, x], weights, epsilon=epsilon, method=method)
    plan = bridge.coupling(0)
    assert np.abs(plan.sum(axis=1) - weights[0]).sum() <= 1e-9
    # the shifted bell needs few atoms: at small epsilon the coupling is the monotone one
    monotone = np.diff(np.pad(np.minimum.outer(*map(np.cumsum, weights)), ((1, 0), (1, 0))), axis=0)
    assert np.abs(plan - np.diff(monotone, axis=1)).sum() <= 1e-6


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("ragged", [False, True])
def test_large_clusters_with_weights_over_twelve_decades(rng, epsilon, ragged):
    # separated clusters of unequal masses, large enough for conjugate gradients, compressed plans
    # and factors
    centres = rng.random((20, 3))
    labels = np.arange(240) % 20, rng.integers(20, size=170 if ragged else 240)
    points = [
        np.hstack([0.1 * rng.random((20, 3))[label], centres[label]])
        + 0.003 * rng.standard_normal((label.size, 6))
        for label in labels
    ]
    weights = [10.0 ** (-12 * rng.random(len(x))) for x in points]
    bridge = solve_bridge(points, weights, epsilon=epsilon, config=SolverConfig(tol=1e-8))
    assert bridge.status is Status.CONVERGED
    plan = bridge.coupling(0)
    assert abs(plan.sum(1) - bridge.weights[0]).sum() <= 1.1e-8
    assert abs(plan.sum(0) - bridge.weights[1]).sum() <= 1.1e-8


def test_an_epsilon_beyond_float64_does_not_converge(rng):
    points = clouds(rng, 40, 40)
    with pytest.raises(NotConvergedError, match=r"rounding stops.*epsilon") as caught:
        solve_bridge(points, epsilon=1e-14)
    bridge = caught.value.bridge
    assert bridge.status is Status.STAGNATED
    assert bridge.marginal_error[0] > 1e-9
    error = abs(bridge.coupling(0).sum(0) - 1 / 40).sum()
    error += abs(bridge.coupling(0).sum(1) - 1 / 40).sum()
    assert error == pytest.approx(bridge.marginal_error[0])


@pytest.mark.parametrize("method", ["pairwise", "multimarginal"])
def test_zero_weight_is_zero_mass(rng, method):
    points = clouds(rng, 6, 7, 5)
    weights = [rng.random(len(x)) for x in points]
    weights[0][2] = weights[1][0] = weights[1][6] = weights[2][4] = 0.0
    bridge = solve_bridge(points, weights, epsilon=0.1, method=method)
    for j, plan in enumerate(couplings(bridge)):
        assert (plan[weights[j] == 0.0] == 0.0).all()
        assert (plan[:, weights[j + 1] == 0.0] == 0.0).all()
    f, g = bridge.potentials[0]
    assert np.array_equal(f == -np.inf, weights[0] == 0.0)
    assert np.array_equal(g == -np.inf, weights[1] == 0.0)
    kept = solve_bridge(
        [x[w > 0] for x, w in zip(points, weights)],
        [w[w > 0] for w in weights],
        epsilon=0.1,
        method=method,
    )
    for j, plan in enumerate(couplings(kept)):
        whole = bridge.coupling(j)[np.ix_(weights[j] > 0, weights[j + 1] > 0)]
        np.testing.assert_allclose(whole, plan, rtol=0, atol=1e-9)
    paths = bridge.sample_paths(2000, rng)
    for j, w in enumerate(weights):
        assert (w[paths[:, j]] > 0).all()


@pytest.mark.parametrize("method", ["pairwise", "multimarginal"])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0])
def test_single_points_have_all_mass(rng, method, epsilon):
    points = clouds(rng, 1, 5, 1, 1)
    weights = [np.array([3.0]), rng.random(5), np.ones(1), np.ones(1)]
    bridge = solve_bridge(points, weights, epsilon=epsilon, method=method)
    np.testing.assert_allclose(bridge.coupling(0)[0], weights[1] / weights[1].sum(), rtol=1e-8)
    np.testing.assert_allclose(bridge.coupling(2), [[1.0]], rtol=1e-9)


@pytest.mark.parametrize("method", ["pairwise", "multimarginal"])
def test_a_bridge_of_one_snapshot_is_the_snapshot(rng, method):
    (x,) = clouds(rng, 6)
    bridge = solve_bridge([x], epsilon=0.1, method=method)
    assert bridge.potentials == ()
    assert bridge.marginal_error.shape == (0,)
    np.testing.assert_array_equal(bridge.interpolate(0).points, x)
    np.testing.assert_allclose(bridge.weights[0], np.full(6, 1 / 6))
    assert bridge.sample_paths(3, rng).shape == (3, 1)


def test_not_converged_raises_with_the_partial_result(rng):
    points = clouds(rng, 30, 30)
    short = SolverConfig(max_iter=2)
    with pytest.raises(NotConvergedError, match="raise max_iter") as caught:
        solve_bridge(points, epsilon=0.01, config=short)
    partial = solve_bridge(points, epsilon=0.01, config=short, on_failure="return")
    assert partial.status is caught.value.bridge.status is Status.MAX_ITERATIONS
    assert partial.marginal_error[0] > short.tol
    with pytest.raises(NotConvergedError):
        solve_bridge(points, epsilon=0.01, config=short, method="multimarginal")


def test_threads_do_not_change_the_result(rng):
    points = clouds(rng, *[40] * 9)
    serial = solve_bridge(points, epsilon=0.02, config=SolverConfig(threads=1))
    seen = []
    threaded = solve_bridge(
        points,
        epsilon=0.02,
        config=SolverConfig(threads=4),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(k, 8) for k in range(1, 9)]
    for (f, g), (p, q) in zip(serial.potentials, threaded.potentials):
        np.testing.assert_array_equal(f, p)
        np.testing.assert_array_equal(g, q)


def test_dual_variables_start_at_random_in_the_unit_interval(rng):
    points = clouds(rng, 5, 6, 4)
    short = SolverConfig(max_iter=1)

    def after_one_sweep(generator):
        bridge = solve_bridge(
            points, epsilon=0.1, method="multimarginal", config=short, rng=generator,
            on_failure="return",
        )  # fmt: skip
        return np.concatenate([np.concatenate(pair) for pair in bridge.potentials])

    first, again, other = (after_one_sweep(np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.ptp(first - other) > 1e-3  # not by a constant, on which plans do not depend

    class Recorder(np.random.Generator):
        """Return the ends of [0, 1) in turn, and count the numbers."""

        drawn = 0

        def random(self, size):
            self.drawn += size
            return np.where(np.arange(size) % 2, 0.0, np.nextafter(1.0, 0.0))

    recorder = Recorder(np.random.PCG64())
    assert np.all(np.isfinite(after_one_sweep(recorder)))
    assert recorder.drawn == 15  # every dual variable, and each once
    extreme = solve_bridge(
        points, epsilon=0.1, method="multimarginal", rng=Recorder(np.random.PCG64())
    )
    assert_same_plans(solve_bridge(points, epsilon=0.1), extreme, atol=1e-9)


@given(snapshots(), epsilons, st.floats(0, 1))
@few
def test_means_between_snapshots_lie_on_a_line_and_atoms_have_all_mass(case, epsilon, position):
    """The plan has the snapshots as marginals, so that means move linearly."""
    points, weights = case
    bridge = solve_bridge(points, weights, epsilon=epsilon)
    t = position * (len(points) - 1)
    cloud, pair = bridge.interpolate(t), min(int(t), len(points) - 2)
    assert cloud.variance == pytest.approx(0.5 * epsilon * (t % 1) * (1 - t % 1))
    np.testing.assert_allclose(cloud.weights.sum(), 1.0, atol=1e-8)
    ends = [w / w.sum() @ x for w, x in zip(weights[pair : pair + 2], points[pair : pair + 2])]
    wanted = (pair + 1 - t) * ends[0] + (t - pair) * ends[1]
    np.testing.assert_allclose(cloud.weights @ cloud.points, wanted, atol=1e-8)


def test_interpolation_at_a_snapshot_is_the_snapshot(rng):
    points = clouds(rng, 4, 5, 3)
    weights = [np.array([1.0, 0.0, 2.0, 1.0]), rng.random(5), rng.random(3)]
    bridge = solve_bridge(points, weights, epsilon=0.1)
    cloud = bridge.interpolate(0)
    np.testing.assert_array_equal(cloud.points, points[0][[0, 2, 3]])
    np.testing.assert_allclose(cloud.weights, [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(bridge.interpolate(2).points, points[2])


def test_atoms_lie_on_the_segments_with_the_mass_of_the_plan(rng):
    points = clouds(rng, 3, 4)
    bridge = solve_bridge(points, epsilon=0.5)
    cloud = bridge.interpolate(0.25)
    wanted = 0.75 * points[0][:, None] + 0.25 * points[1][None]
    np.testing.assert_allclose(cloud.points, wanted.reshape(-1, 3))
    np.testing.assert_allclose(cloud.weights, bridge.coupling(0).ravel())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": []}, "points is empty"),
        ({"points": [np.zeros((2, 2)), np.zeros((2, 3))]}, r"points\[1\] has shape \(2, 3\)"),
        ({"points": [np.zeros((2, 2)), np.zeros((0, 2))]}, r"points\[1\] has shape \(0, 2\)"),
        ({"points": [np.zeros((2, 2, 2))]}, r"points\[0\] has shape"),
        ({"points": [np.zeros((2, 2)), np.full((1, 2), np.nan)]}, r"points\[1\] holds NaN"),
        ({"weights": [np.ones(3)]}, "weights has 1 entries; 2, one per snapshot, are wanted"),
        ({"weights": [np.ones(3), np.ones(3)]}, r"weights\[1\] has shape \(3,\); \(4,\) is wanted"),
        (
            {"weights": [np.ones(3), -np.ones(4)]},
            r"weights\[1\] goes from -1 to -1; finite numbers ≥ 0",
        ),
        ({"weights": [np.ones(3), np.zeros(4)]}, "not all 0"),
        ({"weights": [np.ones(3), None]}, "weights.1. is None.*method 'multimarginal' is wanted"),
        ({"weights": [None, None], "method": "multimarginal"}, "at least one array"),
        ({"epsilon": 0.0}, "epsilon is 0.0; a positive number is wanted"),
        ({"epsilon": np.inf}, "epsilon is inf"),
        ({"costs": []}, "costs has 0 entries; 1, one per pair, are wanted"),
        ({"costs": [np.zeros((4, 3))]}, r"costs\[0\] has shape \(4, 3\); \(3, 4\) is wanted"),
        ({"costs": [np.full((3, 4), np.inf)]}, r"costs\[0\] holds NaN or infinity"),
        ({"method": "exact"}, "method is 'exact'"),
        ({"on_failure": "warn"}, "on_failure is 'warn'"),
    ],
)
def test_malformed_input_is_refused(rng, change, message):
    arguments = {"points": clouds(rng, 3, 4), "epsilon": 0.1} | change
    with pytest.raises(ArgumentError, match=message):
        solve_bridge(**arguments)


@pytest.mark.parametrize(
    "change", [{"tol": 0.0}, {"tol": 2.0}, {"max_iter": 0}, {"hilbert_tol": -1.0}, {"threads": 0}]
)
def test_malformed_configuration_is_refused(change):
    with pytest.raises(ArgumentError, match=f"{next(iter(change))} is "):
        SolverConfig(**change)


def test_positions_outside_the_path_are_refused(rng):
    bridge = solve_bridge(clouds(rng, 3, 4), epsilon=0.1)
    for t in (-0.1, 1.1):
        with pytest.raises(ArgumentError, match="0 to 1, the path, is wanted"):
            bridge.interpolate(t)
    with pytest.raises(ArgumentError, match="pair is 1"):
        bridge.coupling(1)
