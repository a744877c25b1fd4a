"""The compiled kernels of the laws beside what they compute."""

import numpy as np
import pytest

from msbgen.generate import _kernels
from msbgen.generate.clock import to_wall_time, uniform_knots


@pytest.mark.parametrize("clock", [0, 1, 2, 3])
def test_played_paths_are_those_that_the_clock_takes_to_wall_time(clock):
    rng = np.random.default_rng(3)
    q, n, runs, segments, bins, d, interval = 2, 4, 3, 5, 40, 3, 0.1
    centre, factor = rng.random((q, bins, d)), rng.random((runs, bins, d)) + 0.5
    centre[rng.random(centre.shape) < 0.2] = 0.0  # bins without width, bins without counts
    path = rng.integers(0, runs, (q, n, segments))
    scale, total = rng.random((q, n, d)) + 0.5, rng.random((q, n)) * 10
    visited = np.repeat(path, bins // segments, axis=2)
    state = centre[:, None] * factor[visited, np.arange(bins)]
    amounts = np.empty((q, n, d))
    _kernels.path_amounts(centre, factor, path, amounts)
    np.testing.assert_allclose(amounts, state.sum(axis=2), rtol=1e-12)
    wanted, _ = to_wall_time(
        state * scale[:, :, None], total, interval, knots=uniform_knots(bins), clock=clock
    )
    last = np.isfinite(wanted[..., 0]).sum(axis=2) - 1
    counts = np.empty_like(wanted)
    _kernels.path_counts(centre, factor, path, scale, total, clock, interval, last, counts)
    np.testing.assert_allclose(counts, wanted, rtol=1e-9, atol=1e-12)
    weight = rng.random((q, n))
    mean = np.zeros((q, *wanted.shape[2:]))
    _kernels.expected_counts(
        centre, factor, path, scale, total, weight, clock, interval, last, mean
    )
    np.testing.assert_allclose(
        mean, np.einsum("qn,qntd->qtd", weight, np.nan_to_num(wanted)), rtol=1e-9, atol=1e-12
    )
