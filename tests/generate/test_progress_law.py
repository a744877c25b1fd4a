"""The default law, on arrays: a trend over contexts on a progress clock, a bridge on the rest."""

import os
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import oracles
from msbgen.bridge import _kernels
from msbgen.data.check import inspect_profiles
from msbgen.data.schema import counter_names, make_profiles
from msbgen.errors import ProfileError
from msbgen.generate.model import ProfileModel, fit_profiles
from msbgen.generate.progress_law import ProgressLaw, ProgressSettings, _confirmed
from msbgen.trend.fit import fit_trend

KINDS = ("max_likelihood", "mean", "sample")
INTERVAL = 0.01
GRID = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 1.5, 2.0)])
SMALL = ProgressSettings(bins=50, segments=10)
COUNTERS = 2
TIME, INSTRUCTIONS = 0, 1  # clocks


def task(contexts, n_runs, *, seed=1, noise=0.02, interval=INTERVAL, rare=False):
    """Runs of two phases: counts (contexts, runs, time, 2) and durations.

    Each run's pace and its misses vary by `noise`; misses fall with the ways, time with the clock.
    """
    rng = np.random.default_rng(seed)
    work = np.full(50, 2e5)
    requests = work * np.where(np.arange(50) < 25, 0.002, 0.02)
    if rare:  # misses in one burst
        requests = np.where(np.arange(50) == 30, requests, 0.0)
    runs = []
    for ways, frequency in np.repeat(contexts, n_runs, axis=0):
        pace, luck = np.exp(noise * rng.standard_normal(2))
        misses = requests * 0.8 * luck * ways**-0.7
        seconds = 50e-9 * pace * (work / frequency + 60 * misses)
        ends = np.append(np.arange(interval, seconds.sum(), interval), seconds.sum())
        edges = np.append(0.0, seconds.cumsum())
        reached = [
            np.interp(ends, edges, np.append(0.0, amount.cumsum())) for amount in (work, misses)
        ]
        runs.append((np.diff(reached, axis=1, prepend=0.0).T, seconds.sum()))
    counts = np.full((len(runs), max(len(c) for c, _ in runs), COUNTERS), np.nan)
    for row, (own, _) in zip(counts, runs):
        row[: len(own)] = own
    shape = (len(contexts), n_runs)
    return counts.reshape(*shape, *counts.shape[1:]), np.array([d for _, d in runs]).reshape(shape)


def answer(law, query, kind, n_samples=1, seed=0):
    rng = np.random.default_rng(seed)
    return law.profiles(np.asarray(query), kind, n_samples=n_samples, rng=rng)


def kernel_weights(known, query):
    """Gaussian kernel in logarithms: 0.8 of Scott's rule, or of 0.7 spacings."""
    logs = (np.log(known) - np.log(known).min(axis=0)) / np.ptp(np.log(known), axis=0)
    there = (np.log(query) - np.log(known).min(axis=0)) / np.ptp(np.log(known), axis=0)
    scott = logs.std(axis=0) * len(known) ** (-1 / 6)
    width = 0.8 * np.maximum(scott, 0.7 / max(np.sqrt(len(known)) - 1, 1))
    return np.exp(-0.5 * (((logs - there) / width) ** 2).sum(axis=1))


def padded(profiles, length):
    """Profiles that count zero after their end, cut or drawn out to one length."""
    missing = length - profiles.shape[-2]
    widths = [(0, 0)] * (profiles.ndim - 2) + [(0, missing), (0, 0)]
    return np.pad(np.nan_to_num(profiles), widths)


@pytest.fixture(scope="module")
def runs():
    return task(GRID, 12)


@pytest.fixture(scope="module")
def law(runs):
    return ProgressLaw.fit(*runs, GRID, INTERVAL, INSTRUCTIONS, SMALL)


# ----------------------------------------------------------------------------- known contexts


def test_known_contexts_get_nearly_their_own_mean_profile_and_duration(law, runs):
    counts, measured = runs
    generated, duration = answer(law, GRID, "mean")
    np.testing.assert_allclose(duration, measured.mean(axis=1), rtol=0.025)
    length = max(counts.shape[2], generated.shape[1])
    mean = padded(counts, length).mean(axis=1)
    away = np.abs(padded(generated, length) - mean).sum(axis=1) / mean.sum(axis=1)
    assert away.max() < 0.07
    assert np.median(away) < 0.01


def test_the_most_likely_profile_of_a_known_context_lies_within_its_runs(law, runs):
    counts, measured = runs
    generated, duration = answer(law, GRID, "max_likelihood")
    middle = measured.mean(axis=1)
    assert np.all(np.abs(duration - middle) < 1.5 * measured.std(axis=1))
    np.testing.assert_allclose(
        np.nansum(generated, axis=1)[:, 0],
        np.nansum(counts, axis=2)[..., 0].mean(axis=1),
        rtol=1e-5,
    )


@pytest.mark.parametrize("quantity", ["duration", "misses"])
def test_samples_at_known_contexts_spread_as_the_runs_do(law, runs, quantity):
    counts, measured = runs
    generated, drawn = answer(law, GRID, "sample", n_samples=400)
    if quantity == "misses":
        measured = np.nansum(counts, axis=2)[..., 1]
        drawn = np.nansum(generated, axis=2)[..., 1]
    own = drawn.std(axis=1) / drawn.mean(axis=1)
    pooled = (measured / measured.mean(axis=1, keepdims=True)).std()
    # what the trend misses at one context widens the samples of its neighbours
    ratio = own / pooled
    assert 0.85 < np.median(ratio) < 1.25, ratio
    assert np.all((ratio > 0.6) & (ratio < 1.8)), ratio
    np.testing.assert_allclose(drawn.mean(axis=1), measured.mean(axis=1), rtol=2 * pooled)


def test_a_narrow_kernel_gives_a_context_the_runs_measured_there(runs):
    counts, measured = runs
    settings = replace(SMALL, bandwidth=0.05, neighbours=12)
    law = ProgressLaw.fit(counts, measured, GRID, INTERVAL, INSTRUCTIONS, settings)
    generated, duration = answer(law, GRID, "mean")
    np.testing.assert_allclose(duration, measured.mean(axis=1), rtol=1e-9)
    total = np.nansum(counts, axis=2).mean(axis=1)
    np.testing.assert_allclose(np.nansum(generated, axis=1), total, rtol=1e-5)
    _, drawn = answer(law, GRID[4:5], "sample", n_samples=50)
    # a path is as long as the run that it ends in, with the variance that a new run has
    ratio = (measured[4] / measured[4].mean()) ** np.sqrt(12 / 11)
    ends = measured[4].mean() * ratio / ratio.mean()
    assert np.abs(drawn[0][:, None] - ends).min(axis=1).max() < 1e-9


def test_expected_counts_conserve_events(runs):
    counts, measured = (part[3:4] for part in runs)
    law = ProgressLaw.fit(counts, measured, GRID[3:4], INTERVAL, INSTRUCTIONS, SMALL)
    generated, duration = answer(law, GRID[3:4], "mean")
    assert duration[0] == pytest.approx(measured.mean(), rel=1e-9)
    total = np.nansum(counts, axis=2)[0]
    np.testing.assert_allclose(np.nansum(generated[0], axis=0), total.mean(axis=0), rtol=1e-5)
    assert np.isfinite(generated[0, :, 0]).sum() == np.ceil(measured.max() / INTERVAL)


def test_means_follow_what_the_trend_misses(runs):
    """What one context has for itself is too narrow for the trend."""
    counts, measured = (part.copy() for part in runs)
    counts[4, ..., 1] *= 1.5
    law = ProgressLaw.fit(counts, measured, GRID, INTERVAL, INSTRUCTIONS, SMALL)
    trend = law.trend.predict(GRID)[:, :, 1].sum(axis=1)
    misses = np.nansum(answer(law, GRID, "mean")[0], axis=1)[:, 1]
    known = np.nansum(counts, axis=2)[..., 1].mean(axis=1)
    missed = [np.abs(np.log(found / known)) for found in (trend, misses)]
    assert missed[0][4] > 0.02
    assert missed[1][4] < 0.8 * missed[0][4]
    assert missed[1].max() < missed[0].max()


@pytest.mark.parametrize("n_runs", [2, 3, 12])
def test_residuals_have_an_unbiased_variance_about_the_contexts_mean(runs, n_runs):
    counts, measured = (part[:, :n_runs] for part in runs)
    law = ProgressLaw.fit(counts, measured, GRID, INTERVAL, INSTRUCTIONS, SMALL)
    factor = np.exp(law.residual).reshape(len(GRID), n_runs, *law.residual.shape[1:])
    np.testing.assert_allclose(factor.mean(axis=1), 1.0, rtol=1e-9)
    wanted = np.log(measured).var(axis=1, ddof=1).mean()
    whole = law.lag[:, 0].reshape(len(GRID), n_runs)
    assert whole.var(axis=1).mean() == pytest.approx(wanted, rel=0.02)


def test_a_context_with_one_run_keeps_its_noise_as_residual(runs):
    one = without(*(part[:, :2] for part in runs), slice(None), 1)
    law = ProgressLaw.fit(*one, GRID, INTERVAL, INSTRUCTIONS, SMALL)
    assert law.lag[:, 0].std() > 0.003  # the runs' pace varies by 0.02; the trend takes some of it
    _, drawn = answer(law, GRID, "sample", n_samples=50)
    assert np.median(drawn.std(axis=1) / drawn.mean(axis=1)) > 0.003


def test_bursts_shorter_than_an_interval_are_resolved_by_what_all_runs_share():
    contexts = np.array([[w, f] for w in (2.0, 4.0, 8.0) for f in (1.0, 1.3, 1.6, 2.0)])
    counts, measured = task(contexts, 3, rare=True, interval=0.03)
    shares = []
    for sharpenings in (0, 3):
        settings = replace(SMALL, sharpenings=sharpenings)
        law = ProgressLaw.fit(counts, measured, contexts, 0.03, INSTRUCTIONS, settings)
        misses = law.trend.predict(contexts)[..., 1]
        shares.append((misses[:, 30] / misses.sum(axis=1)).mean())
    assert shares[0] < 0.5  # an interval is three to six bins
    assert shares[1] > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_runs_without_kernel_weight_have_no_say(runs, kind):
    law = ProgressLaw.fit(*runs, GRID, INTERVAL, INSTRUCTIONS, replace(SMALL, bandwidth=0.05))
    elsewhere = law.run_context[:, None, None] != 4
    other = replace(law, residual=law.residual + 0.5 * elsewhere)
    counts, duration = answer(law, GRID[4:5], kind)
    again, same = answer(other, GRID[4:5], kind)
    np.testing.assert_allclose(same, duration, rtol=1e-6)
    length = max(counts.shape[-2], again.shape[-2])  # rows of NaN may follow
    np.testing.assert_allclose(padded(again, length), padded(counts, length), rtol=1e-5, atol=1e-3)


def test_the_work_of_a_context_follows_its_trend(runs):
    counts, measured = runs
    # more work with more ways, so little that nobody counts it as lost
    counts = counts * (1 + 0.002 * GRID[:, :1, None, None])
    law = ProgressLaw.fit(counts, measured, GRID, INTERVAL, INSTRUCTIONS, SMALL)
    total = np.nansum(counts, axis=2)[..., 0].mean(axis=1)
    query = np.array([[2.0, 1.0], [6.0, 1.7], [8.0, 2.0]])
    wanted = total[0] / (1 + 0.002 * GRID[0, 0]) * (1 + 0.002 * query[:, 0])
    for kind in ("max_likelihood", "sample", "mean"):
        generated, _ = answer(law, query, kind)
        work = np.nansum(generated[..., 0], axis=-1).reshape(len(query), -1).mean(axis=1)
        np.testing.assert_allclose(work, wanted, rtol=5e-4)
    assert np.ptp(total) / total.mean() > 0.01


def test_samples_vary_where_the_runs_do():
    counts, measured = task(GRID[:1], 6, noise=0.0)
    luck, half = np.linspace(0.8, 1.2, 6), counts.shape[2] // 2
    counts[0, :, half:, 1] *= luck[:, None]
    settings = replace(SMALL, epsilon=0.01)  # a path stays with its run
    law = ProgressLaw.fit(counts, measured, GRID[:1], INTERVAL, INSTRUCTIONS, settings)
    generated, _ = answer(law, GRID[:1], "sample", n_samples=300)
    misses = generated[0, :, :, 1]
    early, late = misses[:, : half - 2].sum(axis=1), np.nansum(misses[:, half + 2 :], axis=1)
    assert early.std() / early.mean() < 0.01
    assert late.std() / late.mean() == pytest.approx(luck.std(), rel=0.15)


def test_points_of_the_bridge_are_in_units_of_their_deviation_and_of_the_bandwidth(law):
    residual = law.residual.reshape(108, 10, 5, 2).mean(axis=2)
    inner = law.points[:, :, :4].std(axis=(0, 1))
    np.testing.assert_allclose(inner, 1.0, rtol=1e-9)
    for k in range(2):  # fine residuals of a segment move with its coarse one
        assert np.corrcoef(residual[..., k].T.ravel(), law.points[:, :, k].ravel())[0, 1] > 0.9
    place = law.points[0, :, 4:]
    np.testing.assert_array_equal(law.points[:, :, 4:], np.repeat(place[None], 10, axis=0))
    # exp(−|x − y|²/2) is the kernel
    wanted = [kernel_weights(GRID, GRID[c])[law.run_context] for c in (0, 4)]
    got = np.exp(-0.5 * oracles.squared_distances(place[[0, 48]], place))
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_neighbours_limit_the_runs_that_serve_a_context(runs):
    counts, measured = runs
    settings = replace(SMALL, neighbours=12)
    law = ProgressLaw.fit(counts, measured, GRID, INTERVAL, INSTRUCTIONS, settings)
    _, drawn = answer(law, GRID[8:], "sample", n_samples=200)
    assert len(np.unique(np.round(drawn, 12))) <= 12


# ------------------------------------------------------------------------ paths of the bridge


def plans_of(points, epsilon):
    """Couplings of neighbouring segments from a dense solver, blind to the law's potentials."""
    uniform = np.full(points.shape[1], 1 / points.shape[1])
    return [
        oracles.bridge_tensor([oracles.squared_distances(x, y)], [uniform] * 2, epsilon, 1000)
        for x, y in pairwise(points)
    ]


TINY = ProgressSettings(bins=8, segments=4, epsilon=10.0, tol=1e-11)
PAIR = GRID[[0, 4]]


@pytest.fixture(scope="module")
def tiny():
    """Two contexts, three runs each, four segments: 1296 paths."""
    return ProgressLaw.fit(*task(PAIR, 3, seed=5), PAIR, INTERVAL, INSTRUCTIONS, TINY)


@pytest.fixture(scope="module")
def plans(tiny):
    plans = plans_of(tiny.points, TINY.epsilon)
    for plan in plans:
        np.testing.assert_allclose(plan.sum(axis=1), 1 / 6, rtol=1e-9)
    return plans


def draw(law, active, log_weight, n_draws, seed=0):
    path = np.empty((1, n_draws, law.settings.segments), dtype=np.int64)
    uniform = np.random.default_rng(seed).random(path.shape)
    f, g = law.potentials
    _kernels.draw_paths(
        law.points, f, g, law.settings.epsilon, active[None], log_weight[None], uniform, path
    )
    return path[0]


@pytest.mark.parametrize("active", [[0, 1, 2, 3, 4, 5], [5, 0, 3]])
def test_drawn_paths_follow_the_enumerated_law(tiny, plans, active):
    log_weight = np.log(np.linspace(1.0, 0.2, len(active)))
    n = 40_000
    paths = draw(tiny, np.array(active), log_weight, n)
    wanted = oracles.path_law(plans, active, np.exp(log_weight))
    assert sum(wanted.values()) == pytest.approx(1.0)
    seen, counts = np.unique(paths, axis=0, return_counts=True)
    got = dict.fromkeys(wanted, 0.0) | {tuple(p): c / n for p, c in zip(seen.tolist(), counts)}
    assert got.keys() == wanted.keys()
    away = [(got[p] - q) / np.sqrt(q * (1 - q) / n + 1e-4 / n) for p, q in wanted.items()]
    assert np.abs(away).max() < 6
    assert np.sqrt(np.mean(np.square(away))) < 1.3  # no systematic part either


def test_sampled_durations_follow_the_enumerated_law(tiny, plans):
    """The whole way from a query to durations: the last run of the path decides."""
    query = np.array([2.6, 1.2])
    n = 4000
    _, drawn = answer(tiny, [query], "sample", n_samples=n)
    kernel = kernel_weights(PAIR, query)
    weights = kernel[tiny.run_context]
    wanted = np.zeros(6)
    for path, probability in oracles.path_law(plans, range(6), weights).items():
        wanted[path[-1]] += probability
    centre = tiny.trend.predict(query[None])[0, :, 0] * np.exp(
        np.einsum("c,cb->b", kernel / kernel.sum(), tiny.departure[..., 0])
    )
    ends = centre.sum() * np.exp(tiny.lag[:, 0])
    which = np.abs(drawn[0][:, None] - ends).argmin(axis=1)
    np.testing.assert_allclose(drawn[0], ends[which], rtol=1e-9)
    share = np.bincount(which, minlength=6) / n
    assert np.all(np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / n))


def test_of_a_single_run_s_departure_the_share_counts_that_its_neighbours_confirm(law, runs):
    assert np.all(law.trust == 1.0)  # repeated runs tell for themselves
    pair = np.zeros((2, 1))
    departure = np.array([[1.0, 1.0, 0.0], [0.5, -1.0, 0.0]])[:, None]
    even, first = np.ones((2, 1, 3)), np.array([1.0, 0.0])[:, None, None] * np.ones(3)
    np.testing.assert_allclose(_confirmed(pair, departure, even), [0.8, 0.0, 0.0])
    np.testing.assert_allclose(_confirmed(pair, departure, first), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(_confirmed(pair[:1], departure[:1], even[:1]), 1.0)
    counts, duration = task(GRID, 2)
    duration[0, 1] = np.nan
    counts[0, 1] = np.nan
    mixed = ProgressLaw.fit(counts, duration, GRID, INTERVAL, INSTRUCTIONS, SMALL)
    assert np.all(mixed.trust[1:] == 1.0)
    assert np.all((mixed.trust[0] >= 0.0) & (mixed.trust[0] < 1.0))
    distrusted = replace(law, trust=np.zeros_like(law.trust))
    bare = replace(law, departure=np.zeros_like(law.departure))
    (own, _), (one, _), (other, _) = (
        answer(law_, [[3.0, 1.2]], "mean") for law_ in (law, distrusted, bare)
    )
    np.testing.assert_array_equal(one, other)
    assert np.nanmax(np.abs(own - one)) > 0


def test_a_single_run_keeps_as_residual_what_the_trusted_local_mean_leaves(monkeypatch):
    counts, duration = task(GRID, 2)
    duration[0, 1], counts[0, 1] = np.nan, np.nan
    seen, segments = [], []

    def half(place, departure, weight):
        seen.append(weight)
        return np.array([0.25, 0.5])

    def fit(*args, **settings):
        segments.append(settings.get("segments"))
        return fit_trend(*args, **settings)

    monkeypatch.setattr("msbgen.generate.progress_law._confirmed", half)
    monkeypatch.setattr("msbgen.generate.progress_law.fit_trend", fit)
    law = ProgressLaw.fit(counts, duration, GRID, INTERVAL, INSTRUCTIONS, SMALL)
    assert segments[0] == SMALL.segments
    (weight,) = seen
    assert np.all(weight[1:] == 0)
    assert np.all(weight[0].sum(axis=0) > 0)
    np.testing.assert_array_equal(law.trust[0], [0.25, 0.5])
    kernel = kernel_weights(GRID, GRID[0])
    trusted = law.departure * law.trust[:, None]
    wanted = law.departure[0] - np.einsum("c,cbk->bk", kernel / kernel.sum(), trusted)
    np.testing.assert_allclose(law.residual[0], wanted, atol=1e-9)


def test_a_wild_single_run_is_not_its_context_and_a_shared_bump_is():
    contexts = np.array([(w, f) for w in np.geomspace(2, 16, 6) for f in np.linspace(1, 2, 6)])
    counts, duration = task(contexts, 1, noise=0.002)
    middle = 21
    wild, bumped = counts.copy(), counts.copy()
    wild[middle, ..., 1] *= 1.5
    near = np.exp(-0.5 * (((np.log(contexts) - np.log(contexts[middle])) / 0.25) ** 2).sum(axis=1))
    bumped[..., 1] *= np.exp(0.4 * near)[:, None, None]

    def misses(counts):
        law = ProgressLaw.fit(counts, duration, contexts, INTERVAL, INSTRUCTIONS, SMALL)
        made, _ = answer(law, contexts[[middle]], "mean")
        return np.nansum(made[0, :, 1]), law.trust[0, 1]

    plain, _ = misses(counts)
    with_wild, trust = misses(wild)
    assert abs(with_wild / plain - 1) < 0.15
    assert trust < 0.5
    assert misses(bumped)[0] / plain > 1.2


def test_a_counter_that_never_counts_stays_zero():
    counts, duration = task(GRID, 3)
    counts[..., 1] *= 0.0
    law = ProgressLaw.fit(counts, duration, GRID, INTERVAL, INSTRUCTIONS, SMALL)
    made, _ = answer(law, [[3.0, 1.2]], "sample", n_samples=3)
    assert np.nanmax(np.abs(made[..., 1])) == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_the_most_likely_path_is_the_best_of_all(tiny, plans, seed):
    rng = np.random.default_rng(seed)
    active = rng.permutation(6)[: 4 + seed % 3].astype(np.int64)
    log_weight = np.log(rng.random(len(active)))
    bandwidth, dims = 0.3 + rng.random(), tiny.points.shape[2] - 2
    path = np.empty((1, 4), dtype=np.int64)
    f, g = tiny.potentials
    _kernels.most_likely_paths(
        tiny.points, f, g, TINY.epsilon, active[None], log_weight[None], bandwidth, dims, path
    )
    best = oracles.most_likely_path(
        plans,
        tiny.points[:, :, :dims], active, np.exp(log_weight), bandwidth,
    )  # fmt: skip
    assert tuple(path[0]) == best


def test_with_one_context_every_run_is_visited_equally_often_in_every_segment():
    alone = ProgressLaw.fit(*task(PAIR[:1], 5), PAIR[:1], INTERVAL, INSTRUCTIONS, TINY)
    n = 30_000
    paths = draw(alone, np.arange(5), np.zeros(5), n)
    assert np.any(paths[:, 1:] != paths[:, :-1])
    for visited in paths.T:
        share = np.bincount(visited, minlength=5) / n
        assert np.abs(share - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / n)


# ------------------------------------------------------------------------------ hard measurements


def without(counts, measured, context, run):
    counts, measured = counts.copy(), measured.copy()
    counts[context, run] = measured[context, run] = np.nan
    return counts, measured


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_lost_counts_is_left_out(runs, kind):
    counts, measured = (part[:4, :4].copy() for part in runs)
    missing = ProgressLaw.fit(
        *without(counts, measured, 2, 1), GRID[:4], INTERVAL, INSTRUCTIONS, SMALL
    )
    counts[2, 1] *= 0.6
    law = ProgressLaw.fit(counts, measured, GRID[:4], INTERVAL, INSTRUCTIONS, SMALL)
    assert np.argwhere(np.isnan(law.total)).tolist() == [[2, 1]]
    assert law.run_context.tolist() == [0] * 4 + [1] * 4 + [2] * 3 + [3] * 4
    for got, wanted in zip(*(answer(m, GRID[:5], kind, n_samples=3) for m in (law, missing))):
        np.testing.assert_array_equal(got, wanted)


def labelled(counts, measured, contexts, interval=INTERVAL):
    return make_profiles(
        counts, measured, contexts, interval=interval,
        resources={"ways": {"units": "1"}, "frequency": {"units": "GHz"}},
        counters={"instructions": {}, "misses": {}},
    )  # fmt: skip


def test_runs_that_lost_counts_are_said_and_a_context_without_counts_is_refused(runs, caplog):
    counts, measured = (part[:4, :4].copy() for part in runs)
    counts[2, 1] *= 0.6
    fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)
    assert "run 1 of context 2 (" in caplog.text
    assert "lost counts" in caplog.text
    caplog.clear()
    counts, measured = (part[:4, 2:3].copy() for part in runs)
    fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)
    assert caplog.text == ""
    counts[2] *= 0.6  # its only run: nothing tells lost counts from less work
    fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)
    assert caplog.text == ""
    counts[2, :, :, 0] = np.where(np.isnan(counts[2, :, :, 0]), np.nan, 0.0)
    with pytest.raises(ProfileError, match="counted nothing in every run of context 2"):
        fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)


def test_the_wall_clock_never_loses_counts():
    contexts = np.array([[w, f] for w in (6.0, 7.0, 8.0) for f in (1.9, 2.0)] + [[2.0, 1.0]])
    counts, measured = task(contexts, 1, noise=0.002)  # the last context is far slower
    fit_profiles(labelled(counts, measured, contexts), replace(SMALL, clock="time"))


@pytest.mark.parametrize("what", ["mean", "spread"])
def test_durations_on_the_wall_clock_are_those_measured(runs, what):
    counts, measured = runs
    law = ProgressLaw.fit(counts, measured, GRID, INTERVAL, TIME, SMALL)
    _, drawn = answer(law, GRID, "sample", n_samples=100)
    if what == "mean":
        np.testing.assert_allclose(drawn.mean(axis=1), measured.mean(axis=1), rtol=0.025)
    else:
        assert np.median(drawn.std(axis=1) / measured.std(axis=1)) > 0.5


@pytest.mark.parametrize("clock", [TIME, INSTRUCTIONS, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "case", ["plain", "missing run", "one run", "one context", "one run in all", "rare", "short"]
)
def test_every_clock_answers_for_every_kind_of_measurement(kind, clock, case):
    contexts, n_runs = GRID[:4], 3
    if case in ("one context", "one run in all"):
        contexts = GRID[3:4]
    if case == "one run" and clock == 2:  # where runs differ in work, one alone is under suspicion
        contexts = GRID[:3]
    if case in ("one run", "one run in all"):
        n_runs = 1
    interval = 1.0 if case == "short" else INTERVAL  # no run lasts for one interval
    counts, measured = task(contexts, n_runs, interval=interval, rare=case == "rare")
    if case == "missing run":
        counts, measured = without(counts, measured, 1, 2)
    dataset = labelled(counts, measured, contexts, interval)
    assert inspect_profiles(dataset).errors == []
    name = ("time", "instructions", "misses")[clock]
    model = fit_profiles(dataset, replace(SMALL, clock=name))
    assert model.law.clock == clock
    query = [*contexts, [3.0, 1.2]]
    generated = model.generate(query, kind=kind, n_samples=4, rng=np.random.default_rng(0))
    assert inspect_profiles(generated).errors == []
    assert generated.attrs["solver_status"].startswith("converged")
    known = np.nansum(counts, axis=2)
    known = known[np.isfinite(measured)]
    for k, counter in enumerate(counter_names(generated)):
        total = generated[counter].sum("time").values
        assert 0.8 * known[:, k].min() < total.min()
        assert total.max() < 1.2 * known[:, k].max()
    assert 0.8 * np.nanmin(measured) < generated["duration"].min()
    assert generated["duration"].max() < 1.2 * np.nanmax(measured)
    if len(contexts) == 1 and kind == "mean":
        for k, counter in enumerate(counter_names(generated)):
            np.testing.assert_allclose(generated[counter][0].sum(), known[:, k].mean(), rtol=1e-4)


def test_runs_that_miss_altogether_do_not_matter(runs):
    counts, measured = (part[:3, :4] for part in runs)
    gap = np.full_like(counts[:, :1], np.nan), np.full_like(measured[:, :1], np.nan)
    wider = [
        np.concatenate([a[:, :2], b, a[:, 2:]], axis=1) for a, b in zip((counts, measured), gap)
    ]
    one = ProgressLaw.fit(counts, measured, GRID[:3], INTERVAL, INSTRUCTIONS, SMALL)
    two = ProgressLaw.fit(*wider, GRID[:3], INTERVAL, INSTRUCTIONS, SMALL)
    for a, b in zip(answer(one, GRID, "sample", 3), answer(two, GRID, "sample", 3)):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------ the same again


def test_equal_seeds_give_equal_profiles_with_any_number_of_threads(law, monkeypatch):
    query = np.repeat(GRID, 10, axis=0) * np.linspace(1, 1.01, 90)[:, None]  # more than one block
    counts, duration = answer(law, query, "sample", n_samples=2, seed=4)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    again, same = answer(law, query, "sample", n_samples=2, seed=4)
    np.testing.assert_array_equal(duration, same)
    np.testing.assert_array_equal(counts, again)
    _, other = answer(law, query, "sample", n_samples=2, seed=5)
    assert np.mean(other == duration) < 0.5
    # blocks draw from generators of their own
    first, second = (duration[i : i + 9] / duration[i : i + 9].mean() for i in (0, 64))
    assert not np.allclose(first, second, rtol=1e-6)


@pytest.mark.parametrize(
    "settings", [SMALL, replace(SMALL, segments=1), replace(SMALL, clock="time")]
)
def test_a_saved_law_answers_the_same(runs, tmp_path, settings):
    counts, measured = (part[:4, :3].copy() for part in runs)
    counts, measured = without(counts, measured, 1, 0)
    model = fit_profiles(labelled(counts, measured, GRID[:4]), settings)
    model.save(tmp_path / "model.nc")
    loaded = ProfileModel.load(tmp_path / "model.nc")
    assert loaded.law.labels() == model.law.labels()
    for kind in KINDS:
        for a, b in zip(*(answer(m.law, GRID, kind, n_samples=3) for m in (model, loaded))):
            np.testing.assert_array_equal(a, b)


def test_progress_counts_up_to_the_number_of_pairs_and_of_blocks(runs):
    seen = []
    law = ProgressLaw.fit(
        *runs, GRID, INTERVAL, INSTRUCTIONS, SMALL, progress=lambda *step: seen.append(step)
    )
    assert seen == [(k, 9) for k in range(1, 10)]
    seen.clear()
    law.profiles(
        np.repeat(GRID, 8, axis=0), "mean", rng=np.random.default_rng(0),
        progress=lambda *step: seen.append(step),
    )  # fmt: skip
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bins": 0}, "bins is 0; a positive number"),
        ({"epsilon": np.nan}, "epsilon is nan"),
        ({"neighbours": -3}, "neighbours is -3"),
        ({"bins": 30, "segments": 7}, "a multiple of segments 7"),
    ],
)
def test_bad_settings_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        ProgressSettings(**change)


def test_an_unknown_clock_is_refused(runs):
    counts, measured = (part[:2, :2] for part in runs)
    with pytest.raises(ProfileError, match="clock 'ticks' is no counter; want time, instructions"):
        fit_profiles(labelled(counts, measured, GRID[:2]), replace(SMALL, clock="ticks"))
