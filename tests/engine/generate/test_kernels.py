"""The compiled kernels of the distributions beside what they compute."""

import numpy as np
import pytest

from msbgen.engine.generate import _kernels
from msbgen.engine.generate.progress import to_wall_time, uniform_knots


@pytest.mark.parametrize("clock", [0, 1, 2, 3])
def test_played_paths_are_those_that_the_clock_takes_to_wall_time(clock):
    rng = np.random.default_rng(3)
    q, n, runs, segments, bins, d, interval = 2, 4, 3, 5, 40, 3, 0.1
    centre, factor = rng.random((q, bins, d)), rng.random((runs, bins, d)) + 0.5
    centre[rng.random(centre.shape) < 0.2] = 0.0  # bins without width, bins without counts
    path = rng.integers(0, runs, (q, n, segments))
    stretch, total = rng.random((q, n, d)) + 0.5, rng.random((q, n)) * 10
    visited = np.repeat(path, bins // segments, axis=2)
    state = centre[:, None] * factor[visited, np.arange(bins)]
    amounts = np.empty((q, n, d))
    _kernels.path_amounts(centre, factor, path, amounts)
    np.testing.assert_allclose(amounts, state.sum(axis=2), rtol=1e-12)
    wanted, _ = to_wall_time(
        state * stretch[:, :, None], total, interval, knots=uniform_knots(bins), clock=clock
    )
    last = np.isfinite(wanted[..., 0]).sum(axis=2) - 1
    weight = rng.random((q, n))
    counts = np.empty(wanted.shape, dtype=np.float32)
    _kernels.play_paths(centre, factor, path, stretch, total, weight, last, clock, interval, counts)
    each = weight[..., None, None] * wanted
    np.testing.assert_allclose(counts, each, rtol=1e-6, atol=1e-9)
    mean = np.empty((q, 1, *wanted.shape[2:]), dtype=np.float32)
    _kernels.play_paths(centre, factor, path, stretch, total, weight, last, clock, interval, mean)
    np.testing.assert_allclose(
        mean[:, 0], np.where(np.isnan(each).all(axis=1), np.nan, np.nansum(each, axis=1)),
        rtol=1e-6, atol=1e-9,
    )  # fmt: skip


def test_runs_summed_one_by_one_are_the_sum_of_all():
    rng = np.random.default_rng(5)
    n, m, intervals, bins, k = 7, 3, 6, 11, 2
    position = np.sort(rng.random((n, intervals + 1)), axis=1)
    position[:, 0], position[:, -1], position[4] = 0.0, 1.0, np.nan  # run 4 is missing
    amounts, edges = rng.random((n, intervals, k)), uniform_knots(bins)
    prior, row = rng.random((m, bins, k)), rng.integers(0, m, n)
    each = np.empty((n, bins, k))
    _kernels.rebin_in_proportion(position, amounts, edges, prior, row, each)
    np.testing.assert_allclose(
        np.delete(each, 4, 0).sum(axis=1), np.delete(amounts, 4, 0).sum(axis=1)
    )
    missing = np.isnan(each) | (rng.random(each.shape) < 0.3)
    sums = np.zeros((k, m, bins))
    prior, missing = (np.moveaxis(array, 2, 0).copy() for array in (prior, missing))
    _kernels.sum_in_proportion(bins * position, amounts, prior, row, missing, sums)
    left = np.where(missing, 0.0, np.moveaxis(each, 2, 0)).swapaxes(0, 1)
    wanted = [left[row == i].sum(axis=0) for i in range(m)]
    np.testing.assert_allclose(np.moveaxis(sums, 0, 1), wanted, rtol=1e-12, atol=1e-300)
