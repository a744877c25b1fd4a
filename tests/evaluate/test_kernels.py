"""The kernels of the metrics beside slow references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from msbgen.evaluate import _kernels
from strategies import clouds


@given(clouds(max_rows=6), st.data())
def test_mean_distance_is_the_sum_over_all_pairs(x, data):
    y = data.draw(clouds(max_rows=6, columns=x.shape[1]))
    rng = np.random.default_rng(0)
    wx, wy = rng.random(len(x)), rng.random(len(y))
    wanted = wx @ np.sqrt(oracles.squared_distances(x, y)) @ wy
    assert _kernels.mean_distance(x, wx, y, wy) == pytest.approx(wanted, rel=1e-12, abs=1e-9)


def test_values_that_are_not_finite_stay_so():
    """The kernels may contract, not assume that all is finite."""
    a, one = np.ones((4, 2)), np.ones(4)
    for value in (np.nan, np.inf):
        b = a.copy()
        b[2, 1] = value
        assert _kernels.mean_distance(a, one, b, one) == pytest.approx(value, nan_ok=True)
        assert not np.isfinite(_kernels.dtw(a, b))
