"""Sequential design against one factorisation of everything observed, and brute force."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.answers.plan.design import (
    DesignLimits,
    Posterior,
    greedy_design,
    propose_contexts,
    rows_that_pay,
    with_corners,
)
from msbgen.answers.plan.prior import Quantity
from msbgen.engine.trend.covariance import prior_covariance


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
        noise_factor=rng.uniform(1.0, 3.0, size),
        measured_noise_factor=rng.uniform(1.0, 2.0, n),
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


@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 150))
def test_updates_equal_one_factorisation(seed, n, steps):
    """However late some covariances are stored."""
    q, rng = quantity(seed, n=n), np.random.default_rng(seed)
    posterior = Posterior(q)
    index, noise = rng.integers(0, 24, steps), rng.uniform(0.01, 0.2, steps)
    for i, variance in zip(index, noise):
        posterior.prepare(np.array([i, 3]))
        posterior.observe(int(i), float(variance))
    covariance, some = dense_covariance(q, index, noise), np.array([5, 7])
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), rtol=1e-6, atol=1e-9)
    reach, noises = covariance[some] ** 2 @ q.weight, np.array([[0.1, 0.3, 0.5], [0.2, 0.4, 0.6]])
    gain = reach[:, None] / (posterior.variance[some][:, None] + noises)
    np.testing.assert_allclose(posterior.gain(some, noises), gain, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(posterior.gain(some, noises[:, 0]), gain[:, 0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(posterior.covariance(some), covariance[some], rtol=1e-6, atol=1e-9)


@given(st.floats(0, 0.1), st.floats(1e-6, 1), st.integers(1, 9), st.integers(1, 9))
def test_runs_in_two_steps_are_as_precise_as_in_one(misfit, noise, first, then):
    q, every = quantity(0, misfit=misfit, noise=noise), np.arange(24)
    none, some = np.zeros(24), np.full(24, float(first))
    precision = 1 / q.step_noise(none, first, every) + 1 / q.step_noise(some, then, every)
    np.testing.assert_allclose(precision, 1 / q.step_noise(none, first + then, every), rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("window", "steps"), [(None, 4), (3, 12)])
def test_every_step_is_the_best_by_brute_force(seed, window, steps):
    quantities = [quantity(seed), quantity(seed + 100)]
    rng = np.random.default_rng(seed)
    cost, proposals = rng.uniform(0.5, 5.0, 24), rng.permutation(24)
    limits = DesignLimits(window=window, contexts=steps)
    design = greedy_design(quantities, cost, np.zeros(24), proposals, limits)
    assert len(design.index) == steps
    noises = [q.step_noise(np.zeros(24), 1, np.arange(24)) for q in quantities]
    for step, chosen in enumerate(design.index):
        done = design.index[:step]

        def error(index):
            return total_error(quantities, index, [noise[index] for noise in noises])

        waiting = proposals[~np.isin(proposals, done)][:window]
        rates = {i: (error(done) - error(np.append(done, i))) / cost[i] for i in waiting}
        assert max(rates, key=rates.__getitem__) == chosen
        misfit = sum(q.importance * q.misfit for q in quantities)
        assert design.error[step] == pytest.approx(np.sqrt(error(done) / 24 + misfit), rel=1e-6)


@given(st.integers(0, 10**6), st.floats(0, 12))
def test_errors_fall_however_far_away_the_contexts_are(seed, power):
    near, nothing = quantity(seed), np.zeros(24)
    far = replace(near, axes=tuple(axis * 10**power for axis in near.axes), noise=1e-4, misfit=0.0)
    design = greedy_design([far], nothing + 1, nothing, np.arange(24), DesignLimits(contexts=5))
    assert np.isfinite(design.error).all()
    assert (np.diff(design.error) <= 0).all()


@given(st.integers(0, 10**6), st.floats(0.3, 40), st.floats(1, 3), st.floats(0, 2))
def test_budgets_are_kept_and_larger_ones_continue_smaller_ones(seed, budget, factor, overhead):
    q, rng = quantity(seed), np.random.default_rng(seed)
    cost, proposals = rng.uniform(0.2, 4.0, 24), rng.permutation(24)[:20]

    def design(seconds):
        limits = DesignLimits(window=3, seconds=seconds, overhead=overhead)
        return greedy_design([q], cost, np.zeros(24), proposals, limits)

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


def test_an_expensive_preparation_leads_to_more_runs_of_fewer_contexts():
    q = quantity(2, misfit=1e-4, noise=2.0)
    for overhead, seconds, least, most in ((0.0, 20.0, 1, 1), (20.0, 200.0, 3, 20)):
        limits = DesignLimits(seconds=seconds, overhead=overhead)
        design = greedy_design([q], np.ones(24), np.zeros(24), np.arange(24), limits)
        assert least <= design.runs[:5].mean() <= most


def test_where_no_new_context_may_be_measured_runs_are_repeated():
    q = quantity(2)
    limits = DesignLimits(seconds=12.0, contexts=3, most_runs=6)
    design = greedy_design([q], np.ones(24), np.zeros(24), np.arange(24), limits)
    assert len(design.index) == 3
    assert design.runs.sum() == 12
    assert design.runs.max() <= 6
    assert design.error[-1] < design.error[0]


def test_repetitions_lower_the_error_nearly_as_much_as_the_best_ones():
    """The ranking with one posterior against all ways to add three runs to three contexts."""
    q = quantity(4, misfit=1e-3, noise=3.0)
    before = np.zeros(24)
    before[[3, 11, 20]] = 1
    limits = DesignLimits(seconds=3.0, contexts=0)
    design = greedy_design([q], np.ones(24), before, np.arange(24), limits)
    assert set(design.index) <= {3, 11, 20}
    assert design.runs.sum() == 3

    def error(runs):
        index = np.array([i for i, n in zip((3, 11, 20), runs) if n])
        noise = q.step_noise(before, np.array([n for n in runs if n]), index)
        return total_error([q], index, [noise])

    found = dict(zip(design.index.tolist(), design.runs.tolist()))
    ways = [runs for runs in np.ndindex(4, 4, 4) if sum(runs) == 3]
    best, worst = min(map(error, ways)), max(map(error, ways))
    own = error([found.get(i, 0) for i in (3, 11, 20)])
    assert own <= best + 0.25 * (worst - best)


@given(st.floats(0.5, 3), st.floats(0.01, 1), st.floats(0, 50))
def test_rows_pay_while_a_doubling_of_the_time_lowers_the_deviation(power, noise, spent):
    """Against the derivative of a known curve, error = time^-power."""
    seconds = np.full(400, 1.0)
    time = spent + np.append(0.0, np.cumsum(seconds))
    error = np.maximum(time, 0.5) ** -power
    pays = rows_that_pay(seconds, error, noise, spent)
    square = error**2
    slope = power * square / (square + noise**2)  # −d log √(error² + noise²) / d log time
    if 1 < pays < 400:
        assert slope[max(pays - 1, 1)] <= 2 ** (2 * power) * 0.06  # not long after
        assert slope[: pays // 2 + 1].min() >= 0.01
    if pays == 400:
        assert slope[200] > 0.04
    # more of the same is no more worth it
    assert rows_that_pay(seconds[:300], error[:301], noise, spent) <= pays


def test_measured_contexts_are_not_proposed_again_while_there_are_others():
    q, before = quantity(2), np.zeros(24)
    before[:10] = 2
    design = greedy_design([q], np.ones(24), before, np.arange(24), DesignLimits(contexts=8))
    assert np.all(design.index >= 10)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 100))
def test_proposals_are_all_allowed_contexts_once(sizes, seed):
    rng = np.random.default_rng(seed)
    size = int(np.prod(sizes))
    allowed = rng.random(size) < 0.7
    allowed[0] = True
    order = propose_contexts(sizes, rng.uniform(1, 9, size), allowed)
    np.testing.assert_array_equal(np.sort(order), np.flatnonzero(allowed))


def test_proposals_spread_over_every_resource_and_less_over_expensive_contexts():
    sizes, every = (19, 20, 12), np.ones(4560, dtype=bool)
    levels = np.stack(np.unravel_index(np.arange(4560), sizes), axis=1)
    first = levels[propose_contexts(sizes, np.ones(4560), every)[:240]]
    for r, size in enumerate(sizes):
        counts = np.bincount(first[:, r], minlength=size)
        assert counts.min() >= 0.7 * 240 / size
        assert counts.max() <= 1.3 * 240 / size
    expensive = levels[:, 0] < 9
    order = propose_contexts(sizes, np.where(expensive, 4.0, 1.0), every)[:240]
    # the density falls with the root of the cost
    assert expensive[order].sum() / (~expensive)[order].sum() == pytest.approx(9 / 10 / 2, rel=0.15)


def test_resources_of_one_level_change_no_proposal():
    rng = np.random.default_rng(3)
    cost, every = rng.uniform(1, 9, 60), np.ones(60, dtype=bool)
    order = propose_contexts((5, 3, 4), cost, every)
    np.testing.assert_array_equal(propose_contexts((1, 5, 1, 3, 4, *[1] * 40), cost, every), order)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 100))
def test_every_other_context_is_a_corner_while_there_are_any(sizes, seed):
    rng = np.random.default_rng(seed)
    some = rng.permutation(int(np.prod(sizes)))[: rng.integers(1, np.prod(sizes) + 1)]
    order = with_corners(sizes, some)
    np.testing.assert_array_equal(np.sort(order), np.sort(some))
    levels = np.stack(np.unravel_index(order, sizes), axis=1)
    corner = ((levels == 0) | (levels == np.array(sizes) - 1)).all(axis=1)
    corners = min(corner.sum(), (~corner).sum())
    assert corner[: 2 * corners : 2].all()
    assert not corner[1 : 2 * corners : 2].any()
    np.testing.assert_array_equal(order[~corner], [i for i in some if i in order[~corner]])


def test_a_further_run_of_a_known_context_costs_its_preparation():
    q = quantity(2)
    before = np.ones(24)
    limits = DesignLimits(seconds=7.0, contexts=0, overhead=5.0)
    design = greedy_design([q], np.ones(24), before, np.arange(24), limits)
    np.testing.assert_array_equal(design.seconds, 5.0 + design.runs)
    assert len(design.runs) == 1
