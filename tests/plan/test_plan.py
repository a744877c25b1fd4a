"""Sequential design and the plans made of it."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.data.schema import count_array, duration_array
from msbgen.data.tables import read_contexts, read_planned_contexts
from msbgen.errors import ProfileError
from msbgen.generate.clock import sharpen, uniform_knots
from msbgen.generate.model import PAPER, fit_profiles
from msbgen.plan.design import Quantity, greedy_design, propose_contexts
from msbgen.plan.plan import Plan, _importance, parse_budget, parse_levels, plan_contexts
from msbgen.platform import PlatformConfig, platform_contexts, read_trace, replay
from msbgen.trend.covariance import prior_covariance

TRACES = Path(__file__).resolve().parents[2] / "profiles" / "traces"
LEVELS = {"cache_ways": [2.0, 4, 8, 16, 20], "frequency": [1.0, 1.4, 1.8, 2.2]}


def product(axes):
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)


def quantity(seed, sizes=(3, 4, 2), n=3, misfit=0.01, noise=0.05):
    """A quantity of a small platform of which `n` points, off the levels, are measured."""
    rng = np.random.default_rng(seed)
    axes = tuple(np.sort(rng.uniform(-0.5, 0.5, size)) for size in sizes)
    size = int(np.prod(sizes))
    return Quantity(
        axes=axes,
        lengths=rng.uniform(0.2, 2.0, len(sizes)),
        importance=float(rng.uniform(0.5, 2.0)),
        weight=rng.uniform(0.1, 1.0, size),
        misfit=misfit,
        noise=noise,
        points=rng.uniform(-0.5, 0.5, (n, len(sizes))),
        runs=rng.integers(1, 4, n).astype(float),
        sight=rng.uniform(1.0, 3.0, size),
        point_sight=rng.uniform(1.0, 2.0, n),
    )


def dense_covariance(q, index, noise):
    """Posterior covariance by one factorisation of everything observed."""
    z = product(q.axes)
    points = np.concatenate([q.points, z[index]])
    every = np.concatenate([q.measured_noise, noise])
    among = prior_covariance(points, points, q.lengths) + np.diag(every)
    across = prior_covariance(points, z, q.lengths)
    return prior_covariance(z, z, q.lengths) - across.T @ np.linalg.solve(among, across)


def total_error(quantities, index, noises):
    return sum(
        q.importance * (q.weight @ np.diag(dense_covariance(q, index, noise)))
        for q, noise in zip(quantities, noises)
    )


# ------------------------------------------------------------------ the posterior


@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 6))
def test_updates_equal_one_factorisation(seed, n, steps):
    q, rng = quantity(seed, n=n), np.random.default_rng(seed)
    posterior = q.posterior()
    index, noise = rng.integers(0, 24, steps), rng.uniform(0.01, 0.2, steps)
    for i, variance in zip(index, noise):
        posterior.observe(int(i), float(variance))
    covariance = dense_covariance(q, index, noise)
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(posterior.reach, covariance**2 @ q.weight, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        posterior.covariance(np.array([5, 7])), covariance[[5, 7]], rtol=1e-6, atol=1e-9
    )


def test_the_gain_is_what_the_error_loses():
    q = quantity(3)
    noise = np.full(24, 0.07)
    gain = q.posterior().gain(noise)
    for i in range(24):
        posterior = q.posterior()
        before = posterior.error
        posterior.observe(i, 0.07)
        assert before - posterior.error == pytest.approx(gain[i], rel=1e-6)


def test_many_observations_are_as_good_as_one_factorisation():
    q, rng = quantity(1, sizes=(6, 5, 4)), np.random.default_rng(1)
    posterior, index = q.posterior(), rng.permutation(120)[:90]
    for i in index:
        posterior.observe(int(i), 1e-3)
    covariance = dense_covariance(q, index, np.full(90, 1e-3))
    np.testing.assert_allclose(posterior.reach, covariance**2 @ q.weight, rtol=1e-3)


@given(st.floats(0, 0.1), st.floats(1e-6, 1), st.integers(1, 9), st.integers(1, 9))
def test_runs_in_two_steps_tell_what_they_tell_in_one(misfit, noise, first, then):
    q = quantity(0, misfit=misfit, noise=noise)
    none, some = np.zeros(24), np.full(24, float(first))
    precision = 1 / q.step_noise(none, first) + 1 / q.step_noise(some, then)
    np.testing.assert_allclose(precision, 1 / q.step_noise(none, first + then), rtol=1e-6)


# ------------------------------------------------------------------ the design


@pytest.mark.parametrize("seed", range(4))
def test_every_step_is_the_best_by_brute_force(seed):
    quantities = [quantity(seed), quantity(seed + 100)]
    cost = np.random.default_rng(seed).uniform(0.5, 5.0, 24)
    design = greedy_design(quantities, cost, np.zeros(24), np.arange(24), contexts=4)
    assert len(design.index) == 4
    noises = [q.step_noise(np.zeros(24), 1) for q in quantities]
    for step, chosen in enumerate(design.index):
        done = design.index[:step]

        def error(index):
            return total_error(quantities, index, [noise[index] for noise in noises])

        rates = {
            i: (error(done) - error(np.append(done, i))) / cost[i]
            for i in range(24)
            if i not in done
        }
        assert max(rates, key=rates.__getitem__) == chosen
        misfit = sum(q.importance * q.misfit for q in quantities)
        assert design.error[step] == pytest.approx(np.sqrt(error(done) / 24 + misfit), rel=1e-6)


@given(st.integers(0, 10**6), st.floats(0.3, 40), st.floats(1, 3), st.floats(0, 2))
def test_budgets_hold_and_larger_ones_go_on(seed, budget, factor, overhead):
    q, rng = quantity(seed), np.random.default_rng(seed)
    cost, proposals = rng.uniform(0.2, 4.0, 24), rng.permutation(24)[:20]

    def design(seconds):
        return greedy_design(
            [q], cost, np.zeros(24), proposals, window=3, seconds=seconds, overhead=overhead
        )

    small, large = design(budget), design(budget * factor)
    assert small.seconds.sum() <= budget * (1 + 1e-9)
    assert set(small.index) <= set(proposals)
    np.testing.assert_array_equal(small.index, large.index[: len(small.index)])
    assert np.all(small.runs <= large.runs[: len(small.index)])
    assert large.error[-1] <= small.error[-1] * (1 + 1e-9)
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(large.error))
    again = design(budget)
    np.testing.assert_array_equal(small.index, again.index)
    np.testing.assert_array_equal(small.error, again.error)


def test_dear_contexts_are_chosen_less():
    q = quantity(5, sizes=(6, 6, 3), n=0)
    half = product(q.axes)[:, 1] > np.median(q.axes[1])
    shares = []
    for factor in (1.0, 8.0):
        cost = np.where(half, factor, 1.0)
        design = greedy_design([q], cost, np.zeros(108), np.arange(108), contexts=15)
        shares.append(half[design.index].sum())
    assert shares[1] < shares[0]


def test_a_dear_preparation_asks_for_more_runs_of_fewer_contexts():
    q = quantity(2, misfit=1e-4, noise=2.0)
    for overhead, seconds, least, most in ((0.0, 20.0, 1, 1), (20.0, 200.0, 3, 20)):
        design = greedy_design(
            [q], np.ones(24), np.zeros(24), np.arange(24), seconds=seconds, overhead=overhead
        )
        assert least <= design.runs[:5].mean() <= most


def test_where_no_new_context_may_be_measured_runs_are_repeated():
    q = quantity(2)
    design = greedy_design(
        [q], np.ones(24), np.zeros(24), np.arange(24), seconds=12.0, contexts=3, most_runs=6
    )
    assert len(design.index) == 3
    assert design.runs.sum() == 12
    assert design.runs.max() <= 6
    assert design.error[-1] < design.error[0]


def test_measured_contexts_are_not_proposed_again_while_there_are_others():
    q, before = quantity(2), np.zeros(24)
    before[:10] = 2
    design = greedy_design([q], np.ones(24), before, np.arange(24), contexts=8)
    assert np.all(design.index >= 10)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 100))
def test_proposals_are_all_allowed_contexts_once(sizes, seed):
    rng = np.random.default_rng(seed)
    size = int(np.prod(sizes))
    allowed = rng.random(size) < 0.7
    allowed[0] = True
    order = propose_contexts(sizes, rng.uniform(1, 9, size), allowed)
    np.testing.assert_array_equal(np.sort(order), np.flatnonzero(allowed))


def test_proposals_spread_over_every_resource_and_spare_dear_contexts():
    sizes, every = (19, 20, 12), np.ones(4560, dtype=bool)
    levels = np.stack(np.unravel_index(np.arange(4560), sizes), axis=1)
    first = levels[propose_contexts(sizes, np.ones(4560), every)[:240]]
    for r, size in enumerate(sizes):
        counts = np.bincount(first[:, r], minlength=size)
        assert counts.min() >= 0.7 * 240 / size
        assert counts.max() <= 1.3 * 240 / size
    dear = levels[:, 0] < 9
    order = propose_contexts(sizes, np.where(dear, 4.0, 1.0), every)[:240]
    # the density falls with the root of the cost
    assert dear[order].sum() / (~dear)[order].sum() == pytest.approx(9 / 10 / 2, rel=0.15)


# ------------------------------------------------------------------ plans


@pytest.fixture(scope="module")
def gzip():
    """A real program in 40 of 4,560 contexts, one run each but for two in ten of them."""
    plan = plan_contexts(PlatformConfig().levels, 40)
    runs = np.where(np.arange(40) < 10, 2, 1)
    trace = read_trace(TRACES / "gzip.nc")
    return trace, fit_profiles(replay(trace, plan.contexts, runs))


def test_a_plan_from_nothing_is_cut_from_one_order():
    levels = PlatformConfig().levels
    plan = plan_contexts(levels, 12)
    again = plan_contexts(levels, "9s", run_seconds=0.5)
    n = min(len(plan.runs), len(again.runs))
    assert n > 3
    np.testing.assert_array_equal(plan.contexts[:n], again.contexts[:n])
    assert again.seconds.sum() <= 9
    assert not plan.calibrated
    # low levels are taken to cost more
    costs = dict(zip(plan.contexts.sum(axis=1), plan.seconds))
    assert costs[min(costs)] > costs[max(costs)]


def test_a_plan_from_a_model_knows_what_runs_take_and_does_not_repeat(gzip):
    trace, model = gzip
    plan = plan_contexts(model, "10s")
    known = {tuple(row) for row in model.law.contexts}
    assert plan.calibrated
    assert not known & {tuple(row) for row in plan.contexts}
    assert plan.seconds.sum() <= 10
    took = duration_array(replay(trace, plan.contexts, 3, rng=5)).mean(axis=1)
    assert np.abs(plan.seconds / plan.runs / took - 1).mean() < 0.05
    assert plan.error[-1] < plan.error[0]


def test_the_expected_error_is_that_of_a_typical_context_not_seen(gzip):
    trace, model = gzip
    rng = np.random.default_rng(3)
    unseen = platform_contexts("all")[rng.choice(4560, 60, replace=False)]
    there, trend = replay(trace, unseen, 4, rng=8), model.law.trend
    counts, duration = count_array(there), duration_array(there)
    predicted = trend.predict(unseen)
    # what a run spent in a bin is known up to where in its sampling interval it was spent
    own = sharpen(
        counts.reshape(-1, *counts.shape[2:]), duration.ravel(), 0.01,
        np.repeat(predicted, 4, axis=0), knots=uniform_knots(predicted.shape[1]), clock=1,
    ).state  # fmt: skip
    states = own.reshape(60, 4, *own.shape[1:]).mean(axis=1)
    logs = [np.log(s + trend.offset) for s in (predicted, states)]
    squared = (logs[0] - logs[1]) ** 2
    importance = _importance(states, trend.offset, model.law.clock)
    seen = np.sqrt(np.median(np.einsum("nbk,bk->n", squared, importance)))
    plan = plan_contexts(model, 1)
    expected = np.hypot(plan.error[0], plan.noise / np.sqrt(4))
    assert seen / 2 < expected < 2 * seen, seen


def test_only_candidates_are_planned(gzip):
    candidates = platform_contexts("grid:4x4x4")
    plan = plan_contexts(gzip[1], "20s", candidates=candidates)
    assert {tuple(row) for row in plan.contexts} <= {tuple(row) for row in candidates}


def test_a_model_of_a_single_context_can_be_planned_from():
    trace = read_trace(TRACES / "gzip.nc")
    model = fit_profiles(replay(trace, [[20.0, 1400.0, 2.3]], 2))
    plan = plan_contexts(model, "5s")
    took = duration_array(replay(trace, plan.contexts, 1)).sum()
    assert 2 < took < 10
    assert np.all(np.ptp(plan.contexts, axis=0) > 0)


def test_measuring_pays_while_the_error_falls():
    rows = np.arange(1, 201)

    def plan(error):
        return Plan(("a",), rows[:, None], rows, np.ones(200), np.append(1.0, error), 0.1, True)

    assert plan(rows**-0.5).pays == 200  # well above the noise
    assert plan(0.3 * rows**-1.0).pays < 60  # soon below it
    assert plan(np.full(200, 1.0)).pays < 10


def test_rows_that_cost_ever_more_still_pay():
    cost, error = np.array([1.0, 1.1, 1.2]), np.array([10.0, 5.0, 2.0, 0.3])
    assert Plan(("a",), np.ones((3, 1)), np.ones(3, int), cost, error, 0.03, True).pays == 3


def test_a_number_of_contexts_buys_no_repetitions():
    plan = plan_contexts(LEVELS, 1000)
    assert len(plan.contexts) == 20
    assert (plan.runs == 1).all()


def test_no_more_contexts_than_a_fit_may_hold_are_planned():
    trace = read_trace(TRACES / "gzip.nc")
    model = fit_profiles(replay(trace, platform_contexts("grid:2x2x2"), 2))
    plan = plan_contexts(model, "30s", most_contexts=10)
    known = {tuple(row) for row in model.law.contexts}
    assert len(known | {tuple(row) for row in plan.contexts}) == 10
    assert plan.runs.sum() > len(plan.runs)  # the rest goes to repetitions
    with pytest.raises(ValueError, match="no context is left"):
        plan_contexts(model, 3, most_contexts=8)
    with pytest.raises(ValueError, match="most_contexts is -4"):
        plan_contexts(model, 3, most_contexts=-4)


def test_a_further_run_of_a_known_context_costs_its_preparation():
    q = quantity(2)
    before = np.ones(24)
    design = greedy_design(
        [q], np.ones(24), before, np.arange(24), seconds=7.0, contexts=0, overhead=5.0
    )
    np.testing.assert_array_equal(design.seconds, 5.0 + design.runs)
    assert len(design.runs) == 1


def test_a_plan_is_written_and_replayed_with_its_runs(tmp_path):
    plan = plan_contexts(
        PlatformConfig().levels, "40s", run_seconds=0.4, overhead=2.0, least_runs=2
    )
    plan.write(tmp_path / "plan.csv")
    lines = (tmp_path / "plan.csv").read_text().splitlines()
    header = "cache_ways,bandwidth,frequency,runs,seconds,cumulative_seconds,expected_error"
    assert lines[0] == header
    assert float(lines[-1].split(",")[5]) == pytest.approx(plan.seconds.sum(), rel=1e-5)
    contexts, runs = read_planned_contexts(tmp_path / "plan.csv", plan.resources)
    np.testing.assert_array_equal(contexts, plan.contexts)
    np.testing.assert_array_equal(runs, plan.runs)
    np.testing.assert_array_equal(read_contexts(tmp_path / "plan.csv", plan.resources), contexts)
    with pytest.raises(FileExistsError):
        plan.write(tmp_path / "plan.csv")


def test_a_plan_of_no_runs_is_refused(tmp_path):
    path = tmp_path / "plan.csv"
    for runs in ("0", "1.5"):
        path.write_text(f"a,runs\n1,2\n2,{runs}\n")
        with pytest.raises(ProfileError, match="line 3 asks for"):
            read_planned_contexts(path, ["a"])


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [("120s", (120, 0)), ("1.5min", (90, 0)), ("2h", (7200, 0)), (40, (np.inf, 40)),
     (" 40 ", (np.inf, 40))],
)  # fmt: skip
def test_budgets_are_times_or_numbers(budget, wanted):
    assert parse_budget(budget) == wanted


@pytest.mark.parametrize(
    "budget", ["", "0", 0, -3, "-3s", "0s", "infs", "nans", "3.5", 3.5, "ten", "10 m", True]
)
def test_other_budgets_are_refused(budget):
    with pytest.raises(ValueError, match=r"budget is .*is wanted"):
        parse_budget(budget)


def test_levels_are_ranges_or_lists():
    levels = parse_levels("cache_ways=2:5,frequency=1.2:1.5:0.1, mode = 1/4/2")
    assert {name: list(values) for name, values in levels.items()} == {
        "cache_ways": [2, 3, 4, 5],
        "frequency": [1.2, 1.3, 1.4, 1.5],
        "mode": [1, 4, 2],
    }
    for text in ("cache_ways", "a=1:2:0", "a=2:1", "a=x", "a=1,a=2", "=1/2", "a=1:2:3:4"):
        with pytest.raises(ValueError, match="levels are"):
            parse_levels(text)


@pytest.mark.parametrize(
    ("source", "budget", "options", "message"),
    [
        (LEVELS, "10s", {}, "say how long a run takes"),
        (LEVELS, "0.1s", {"run_seconds": 1.0}, "the first context alone would take longer"),
        ({}, 3, {}, "levels are given for no resource"),
        ({"a": []}, 3, {}, "resource 'a' has no levels"),
        ({"a": [1.0, np.nan]}, 3, {}, "not finite"),
        ({"a": ["x"]}, 3, {}, "not finite"),
        (LEVELS, 3, {"overhead": -1.0}, "overhead is -1"),
        (LEVELS, 3, {"least_runs": 3, "most_runs": 2}, "1 ≤ least ≤ most"),
        ({"runs": [1, 2]}, 3, {}, "resource 'runs' is called as a column of plans is"),
        ({"a": range(200), "b": range(200)}, 3, {}, "the levels make 40000 contexts"),
        ({"a": [1e-300, 1e300]}, 3, {}, "at the lowest levels would take"),
        (LEVELS, 3, {"candidates": [[2.0]]}, "rows × 2 columns"),
        (LEVELS, 3, {"candidates": [[3.0, 1.0]]}, "which the platform cannot set"),
    ],
)
def test_what_cannot_be_planned_is_refused(source, budget, options, message):
    with pytest.raises(ValueError, match=message):
        plan_contexts(source, budget, **options)


def test_models_without_levels_or_of_the_paper_are_refused(measured):
    with pytest.raises(ValueError, match="paper's preset"):
        plan_contexts(fit_profiles(measured, PAPER), 3)
    del measured["cache_ways"].attrs["levels"]
    model = fit_profiles(measured)
    with pytest.raises(ValueError, match="resource 'cache_ways' has no levels"):
        plan_contexts(model, 3)
    given = plan_contexts(model, 3, levels=LEVELS)
    assert given.resources == ("cache_ways", "frequency")
    assert len(given.runs) == 3
