import numpy as np
from numpy.testing import assert_allclose
from scipy import special

from msbgen.trend.erfc import BEYOND, scaled_erfc


def test_it_is_that_of_scipy():
    x = np.concatenate([np.linspace(0.0, BEYOND, 5001), np.geomspace(1e-300, 1.0, 301)])
    assert_allclose(scaled_erfc(x), special.erfcx(x), rtol=1.5e-14)
    assert_allclose(scaled_erfc(x) * np.exp(-(x**2)), special.erfc(x), rtol=0, atol=5e-15)
    assert special.erfc(BEYOND) < 1e-18


def test_it_is_constant_beyond_and_changes_no_argument():
    x = np.array([BEYOND, 7.0, 1e300, np.inf])
    given = x.copy()
    np.testing.assert_array_equal(scaled_erfc(x), scaled_erfc(x[:1]).repeat(4))
    np.testing.assert_array_equal(x, given)
