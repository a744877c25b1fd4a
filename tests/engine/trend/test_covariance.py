"""The prior covariance over contexts."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gamma, kv

from msbgen.engine.trend.covariance import Pairs, matern, prior_covariance, prior_variance


def matern_of_order(nu, step, length):
    """Rasmussen and Williams, 2006, equation 4.14."""
    scaled = np.sqrt(2 * nu) * step / length
    return 2 ** (1 - nu) / gamma(nu) * scaled**nu * kv(nu, scaled)


def test_matern_is_that_of_order_five_halves():
    step = np.array([-2.0, 1e-3, 0.1, 0.7, 3.0])
    np.testing.assert_allclose(matern(step, 0.8), matern_of_order(2.5, abs(step), 0.8), rtol=1e-9)
    assert matern(np.zeros(1), 0.8) == 1.0


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_covariance_is_a_product_and_a_line(n_query, n, m, levels, seed):
    rng = np.random.default_rng(seed)
    z, known = rng.random((n_query, m)), rng.random((n, m))
    if levels:
        z, known = z.round(1), known.round(1)
    lengths = 0.1 + rng.random(m)
    found = prior_covariance(z, known, lengths)
    for a, row in zip(z, found):
        for b, value in zip(known, row):
            smooth = np.prod([matern(abs(x - y), s) for x, y, s in zip(a, b, lengths)])
            assert value == pytest.approx(smooth + 100 * (1 + 12 * a @ b), rel=1e-12)
    square = prior_covariance(z, z, lengths)
    np.testing.assert_allclose(np.diag(square), prior_variance(z), rtol=1e-12)
    assert np.linalg.eigvalsh(square).min() > -1e-8


def test_cached_correlations_are_right_in_many_threads():
    """Quantities are searched in parallel over one set of pairs, with more lengths than cached."""
    rng = np.random.default_rng(0)
    z = rng.random((40, 2))
    pairs = Pairs(z, z)
    lengths = rng.choice(np.linspace(0.1, 8.0, 60), size=(400, 2))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(pairs.covariance, lengths))
    finally:
        sys.setswitchinterval(before)
    for one, several in zip(lengths[::40], got[::40]):
        np.testing.assert_array_equal(several, prior_covariance(z, z, one))
