"""The centre of a context: the trend, and the context residuals of the known contexts from it."""

from dataclasses import replace

import numpy as np

from msbgen.engine.generate.centre import predicted_share
from tasks import GRID, answer, fit_distribution, task


def test_means_follow_context_residuals(runs):
    """The residual of a single context is too narrow for the trend."""
    counts, measured = (part.copy() for part in runs)
    counts[4, ..., 1] *= 1.5
    distribution = fit_distribution(counts, measured)
    trend = distribution.centre.trend.predict(GRID)[:, :, 1].sum(axis=1)
    misses = np.nansum(answer(distribution, GRID, "mean")[0], axis=1)[:, 1]
    known = np.nansum(counts, axis=2)[..., 1].mean(axis=1)
    missed = [np.abs(np.log(found / known)) for found in (trend, misses)]
    assert missed[0][4] > 0.02
    assert missed[1][4] < 0.8 * missed[0][4]
    assert missed[1].max() < missed[0].max()


def test_the_work_of_a_context_follows_its_trend(runs):
    counts, measured = runs
    # more work with more ways, too little to look like lost counts
    counts = counts * (1 + 0.002 * GRID[:, :1, None, None])
    distribution = fit_distribution(counts, measured)
    total = np.nansum(counts, axis=2)[..., 0].mean(axis=1)
    query = np.array([[2.0, 1.0], [6.0, 1.7], [8.0, 2.0]])
    wanted = total[0] / (1 + 0.002 * GRID[0, 0]) * (1 + 0.002 * query[:, 0])
    for kind in ("max_likelihood", "sample", "mean"):
        generated, _ = answer(distribution, query, kind)
        work = np.nansum(generated[..., 0], axis=-1).reshape(len(query), -1).mean(axis=1)
        np.testing.assert_allclose(work, wanted, rtol=5e-4)
    assert np.ptp(total) / total.mean() > 0.01


def test_the_context_residual_of_a_single_run_is_shrunk_to_what_its_neighbours_predict(
    distribution, runs
):
    assert np.all(distribution.centre.shrinkage == 1.0)
    pair = np.zeros((2, 1))
    residual = np.array([[1.0, 1.0, 0.0], [0.5, -1.0, 0.0]])[:, None]
    even, first = np.ones((2, 1, 3)), np.array([1.0, 0.0])[:, None, None] * np.ones(3)
    np.testing.assert_allclose(predicted_share(pair, residual, even), [0.8, 0.0, 0.0])
    np.testing.assert_allclose(predicted_share(pair, residual, first), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(predicted_share(pair[:1], residual[:1], even[:1]), 1.0)
    counts, duration = task(GRID, 2)
    duration[0, 1] = np.nan
    counts[0, 1] = np.nan
    mixed = fit_distribution(counts, duration)
    assert np.all(mixed.centre.shrinkage[1:] == 1.0)
    assert np.all((mixed.centre.shrinkage[0] >= 0.0) & (mixed.centre.shrinkage[0] <= 1.0))
    assert np.any(mixed.centre.shrinkage[0] < 1.0)
    nothing = np.zeros_like(distribution.centre.context_residual)
    shrunk = replace(distribution, centre=replace(distribution.centre, shrinkage=nothing[:, 0]))
    bare = replace(distribution, centre=replace(distribution.centre, context_residual=nothing))
    (full, _), (one, _), (other, _) = (
        answer(distribution_, [[3.0, 1.2]], "mean")
        for distribution_ in (distribution, shrunk, bare)
    )
    np.testing.assert_array_equal(one, other)
    assert abs(np.nansum(full) / np.nansum(one) - 1) > 1e-6


def test_an_outlier_run_is_shrunk_and_a_bump_of_neighbours_is_kept():
    contexts = np.array([(w, f) for w in np.geomspace(2, 16, 6) for f in np.linspace(1, 2, 6)])
    counts, duration = task(contexts, 1, noise=0.002)
    middle = 21
    wild, bumped = counts.copy(), counts.copy()
    wild[middle, ..., 1] *= 1.5
    near = np.exp(-0.5 * (((np.log(contexts) - np.log(contexts[middle])) / 0.25) ** 2).sum(axis=1))
    bumped[..., 1] *= np.exp(0.4 * near)[:, None, None]

    def misses(counts):
        distribution = fit_distribution(counts, duration, contexts)
        made, _ = answer(distribution, contexts[[middle]], "mean")
        return np.nansum(made[0, :, 1]), distribution.centre.shrinkage[0, 1]

    plain, _ = misses(counts)
    with_wild, shrinkage = misses(wild)
    assert abs(with_wild / plain - 1) < 0.15
    assert shrinkage < 0.5
    assert misses(bumped)[0] / plain > 1.2


def test_durations_are_kept_from_the_noise_of_bins(distribution):
    """Bins scattered by half about their sums: their mean logarithm is a tenth too low."""
    centre, query = distribution.centre, np.array([[3.0, 1.2], [6.0, 1.7]])
    scatter = np.random.default_rng(5).normal(0.0, 0.5, centre.context_residual.shape)
    states = centre.known_states() * np.exp(scatter)
    states *= centre.known_states().sum(axis=1, keepdims=True) / states.sum(axis=1, keepdims=True)
    plain = replace(centre.trend, sums=(), time_model=())
    residual = np.log(states / plain.predict(GRID))
    scattered = replace(centre, trend=plain, context_residual=residual)

    def times(centre):
        return centre.amounts(query, centre.log_weights(query))[..., 0].sum(axis=1)

    wanted = times(centre)
    assert np.all(times(replace(scattered, durations=None)) < 0.97 * wanted)
    np.testing.assert_allclose(times(scattered), wanted, rtol=0.02)
