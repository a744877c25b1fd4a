"""The model of time, against a general solver and against refits."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from msbgen.engine.trend.caps import Cap, throttled
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.time_model import (
    TimeProblem,
    Windows,
    costly_counters,
    fit_time_model,
    left_out_times,
    refit_time_model,
)

GRID = np.stack(np.meshgrid([1.0, 2.0, 4.0], [1.0, 1.5, 2.0], indexing="ij"), axis=-1).reshape(
    -1, 2
)
UNSEEN = np.array([[1.4, 1.2], [3.0, 1.7]])
BINS = 12


def overlaps(windows):
    """The part of each bin in each window, (w, bins), cell by cell."""
    table = np.zeros((len(windows.time), windows.shape[1]))
    for i, (begin, end) in enumerate(zip(windows.begin, windows.end)):
        for j in range(windows.shape[1]):
            table[i, j] = max(0.0, min(end, j + 1) - max(begin, j))
    return table


def truth(levels, *, capped=False):
    """Time and misses of every bin, (n, bins) each: work at a clock, cost of misses, constant."""
    phase = np.arange(BINS)
    misses = (50 + 40 * np.sin(phase)) * np.ones((len(levels), 1))
    work = 0.2 + 0.1 * np.cos(0.7 * phase)
    free = work / levels[:, 1:] + 1e-3 * misses + 0.02
    if not capped:
        return free, misses
    return throttled(free, misses / (200.0 * levels[:, :1]), 0.2)[0], misses


def cap(rate=200.0):
    bins = np.zeros(BINS)
    return Cap(1, 0, rate, 0.2, 0.1, np.ones(2), 1e-3, bins, bins, np.zeros((len(GRID), BINS)))


def windows_of(times, rng, *, runs=6, noise=0.0):
    """Windows of runs that are sampled every second, from a random offset on."""
    position, spent, context = [], [], []
    for c, row in enumerate(times):
        ends = np.concatenate([[0.0], row.cumsum()])
        for _ in range(runs):
            edges = np.arange(rng.uniform(0.1, 1.0), ends[-1], 1.0)
            edges = np.concatenate([[0.0], edges, [ends[-1]]])
            position.append(np.interp(edges, ends, np.arange(BINS + 1) / BINS))
            spent.append(np.diff(edges) * (1 + noise * rng.standard_normal(len(edges) - 1)))
            context.append(c)
    most = max(map(len, spent))
    filled = [np.append(p, np.ones(most + 1 - len(p))) for p in position]
    zeros = [np.append(s, np.zeros(most - len(s))) for s in spent]
    return Windows.of_runs(np.array(filled), np.array(zeros), np.array(context), times.shape)


def test_windows_are_the_overlaps_of_intervals_and_bins():
    rng = np.random.default_rng(0)
    times, _ = truth(GRID)
    windows = windows_of(times, rng)
    table = overlaps(windows)
    np.testing.assert_allclose(
        windows.predicted(times), (table * times[windows.context]).sum(axis=1)
    )
    # without noise the times of bins add up to those of windows
    np.testing.assert_allclose(windows.predicted(times), windows.time, rtol=1e-9)
    weight = rng.random(len(table))
    sums, products = windows.sums(weight), windows.products(weight)
    for c in range(len(GRID)):
        rows = windows.context == c
        np.testing.assert_allclose(sums[c], weight[rows] @ table[rows])
        gram = (weight[rows, None] * table[rows]).T @ table[rows]
        for o in range(BINS):
            inside = o < products.shape[1]
            found = products[c, o, : BINS - o] if inside else np.zeros(BINS - o)
            np.testing.assert_allclose(found, np.diag(gram, o), atol=1e-12)


def test_time_without_progress_belongs_to_the_window_around_it():
    position = np.array([[0.0, 0.0, 0.25, 0.25, 0.25, 1.0]])
    time = np.array([[1.0, 2.0, 4.0, 8.0, 16.0]])
    windows = Windows.of_runs(position, time, np.array([0]), (1, 4))
    np.testing.assert_array_equal(windows.begin, [0.0, 1.0])
    np.testing.assert_array_equal(windows.end, [1.0, 4.0])
    np.testing.assert_array_equal(windows.time, [15.0, 16.0])


def test_windows_in_an_untimed_stretch_are_left_out():
    position, time = np.array([[0.0, 0.25, 0.5, 1.0]] * 2), np.array([[1.0, 2.0, 4.0]] * 2)
    untimed = np.array([[0.25, 0.5], [0.0, 0.0]])
    windows = Windows.of_runs(position, time, np.array([0, 1]), (2, 4), untimed)
    assert windows.context.tolist() == [0, 0, 1, 1, 1]
    assert windows.begin.tolist() == [0.0, 2.0, 0.0, 1.0, 2.0]
    assert windows.time.tolist() == [1.0, 4.0, 1.0, 2.0, 4.0]


def test_the_fit_is_that_of_a_general_solver():
    rng = np.random.default_rng(1)
    times, misses = truth(GRID)
    windows = windows_of(times, rng, noise=0.01)
    counts = misses[..., None]
    model = fit_time_model(TimeProblem(windows, GRID, counts, (), np.ones(len(GRID))), np.zeros(1))
    table = overlaps(windows)
    fitted, (free, _) = np.log(model.parts[1:].T), model.time(GRID, counts, ())
    residual = windows.time - (table * free[windows.context]).sum(axis=1)
    deviation = 1.4826 * np.median(np.abs(residual))
    common = np.log(model.common[1:-1])
    root_ridge = np.sqrt(0.01 * len(residual) / BINS)

    def residuals(logs):
        """Residuals of the windows, in deviations, and of the ridge, without banding."""
        work, cost, rest = np.exp(logs.reshape(BINS, 3).T)
        times = work / GRID[:, 1:] + cost * misses + rest
        error = (windows.time - (table * times[windows.context]).sum(axis=1)) / deviation
        size = np.abs(error)
        root = np.where(size <= 3, error, np.sign(error) * np.sqrt(np.maximum(6 * size - 9, 0)))
        return np.concatenate([root, root_ridge * (logs.reshape(BINS, 3) - common).ravel()])

    found = least_squares(residuals, fitted.ravel() + 0.1 * rng.standard_normal(fitted.size))
    loss = 0.5 * (residuals(fitted.ravel()) ** 2).sum()
    assert loss <= 1.002 * found.cost
    work, cost, rest = np.exp(found.x.reshape(BINS, 3).T)
    wanted = work / GRID[:, 1:] + cost * misses + rest
    np.testing.assert_allclose(free, wanted, rtol=0.01)


@pytest.mark.parametrize("capped", [False, True])
def test_the_time_of_bins_is_found_from_intervals_over_several_bins(capped):
    rng = np.random.default_rng(2)
    times, misses = truth(GRID, capped=capped)
    caps = (cap(),) if capped else ()
    windows = windows_of(times, rng, runs=20, noise=0.003)
    assert windows.products(np.ones(len(windows.time))).shape[1] >= 4  # bins of a window
    problem = TimeProblem(windows, GRID, misses[..., None], caps, np.ones(len(GRID)))
    model = fit_time_model(problem, np.zeros(1))
    wanted, unseen = truth(UNSEEN, capped=capped)
    found, share = model.time(UNSEEN, unseen[..., None], caps)
    np.testing.assert_allclose(found, wanted, rtol=0.1)
    assert np.abs(np.log(found / wanted)).mean() < 0.025
    np.testing.assert_allclose(found.sum(axis=1), wanted.sum(axis=1), rtol=0.015)
    assert np.all((share >= 0) & (share <= 1))
    assert np.all(model.parts >= 0)
    # windows with a pause have little weight
    windows.time[rng.random(len(windows.time)) < 0.05] += 3.0
    robust = fit_time_model(problem, np.zeros(1))
    np.testing.assert_allclose(robust.time(UNSEEN, unseen[..., None], caps)[0], wanted, rtol=0.12)


def test_a_left_out_context_is_predicted_as_by_a_fit_without_it():
    rng = np.random.default_rng(3)
    times, misses = truth(GRID, capped=True)
    noisy = times * np.exp(0.02 * rng.standard_normal(times.shape))
    counts, caps = misses[..., None], (cap(),)
    windows = windows_of(noisy, rng)
    weights, folds = np.ones(len(GRID)), Folds.of(GRID)
    model = fit_time_model(TimeProblem(windows, GRID, counts, caps, weights), np.zeros(1))

    def of_bins(kept):
        bins = Windows.of_bins(noisy[kept])
        return TimeProblem(bins, GRID[kept], counts[kept], caps, weights[kept])

    every = of_bins(np.arange(len(GRID)))
    model = refit_time_model(model, every)
    found = left_out_times(model, every, folds, counts[folds.index])
    groups = [([i], [i]) for i in range(folds.singles)]
    groups += [
        (folds.members[g], range(folds.singles + g.start, folds.singles + g.stop))
        for g in folds.groups
    ]
    inside, changes, errors = model.time(GRID, counts, caps)[0], [], []
    for group, rows in groups:
        kept = np.setdiff1d(np.arange(len(GRID)), group)
        others = refit_time_model(model, of_bins(kept))
        wanted = others.time(GRID[group], counts[group], caps)[0]
        changes.append(np.abs(np.log(wanted / inside[group])).mean())
        errors.append(np.abs(np.log(found[list(rows)] / wanted)).mean())
    assert np.mean(errors) < 0.5 * np.mean(changes)


def test_a_resource_that_does_not_vary_or_may_be_zero_has_no_part():
    levels = GRID.copy()
    levels[:, 0] -= 1.0
    times, misses = truth(GRID)
    windows = Windows.of_bins(times)
    problem = TimeProblem(windows, levels, misses[..., None], (), np.ones(len(GRID)))
    model = fit_time_model(problem, np.zeros(1))
    assert not model.parts[0].any()
    found = model.time(levels, misses[..., None], ())[0]
    np.testing.assert_allclose(found, times, rtol=1e-3)


def test_of_many_counters_those_that_differ_cost_time():
    rng = np.random.default_rng(5)
    own = np.exp(rng.standard_normal((20, 6, 8)))
    copies = own[..., [0, 3, 3]] * [2.0, 0.5, 7.0] * np.exp(1e-3 * rng.standard_normal((20, 6, 3)))
    counts = np.concatenate([own[..., :4], copies, own[..., 4:]], axis=2)
    costly = costly_counters(counts)
    assert costly.sum() == 8
    # one of each that is alike, and all others
    assert costly[[0, 4]].sum() == costly[[3, 5, 6]].sum() == 1
    assert costly[[1, 2, 7, 8, 9, 10]].all()
    assert costly_counters(counts[..., :8]).all()
    # those that cost nothing stay so where the model is refitted
    times = counts @ np.where(costly, 0.1, 0.0) + 0.01
    windows, levels = Windows.of_bins(times), np.linspace(1.0, 2.0, 20)[:, None]
    problem = TimeProblem(windows, levels, counts, (), np.ones(20))
    model = fit_time_model(problem, np.zeros(11))
    np.testing.assert_array_equal(model.costly, costly)
    assert not model.parts[1:-1][~costly].any()
    np.testing.assert_allclose(model.time(levels, counts, ())[0], times, rtol=0.02)
    problem = TimeProblem(windows, levels, counts, (), np.ones(20), model.costly)
    again = refit_time_model(model, problem)
    np.testing.assert_allclose(again.parts, model.parts, rtol=0.05, atol=1e-9)
