"""Conformal widths: every kernel has the same weight for any number of measurements."""

import numpy as np
import pytest

from msbgen.core.errors import MeasurementError
from msbgen.kernels.predictor.intervals import Scores, half_width


def scores(runtime, kernel, kind="a"):
    n = len(runtime)
    return Scores(np.array([kind] * n), np.array(kernel), np.array(runtime, float), np.zeros(n))


def test_the_quantile_weights_kernels_equally():
    found = scores([*[0.1] * 90, *[0.5] * 9], [*[0] * 90, *range(1, 10)])
    assert half_width(found, "a", 0.1) == 0.5
    assert half_width(scores(np.arange(1, 10), range(9)), "a", 0.1) == 9
    assert half_width(scores(np.arange(1, 20), range(19)), "a", 0.1) == 18


def test_rates_that_kernels_do_not_support_are_refused():
    found = scores(np.arange(1, 10), range(9))
    with pytest.raises(MeasurementError, match="of 9 kernels of kind 'a'"):
        half_width(found, "a", 0.05)
    with pytest.raises(MeasurementError, match="of 0 kernels of kind 'b'"):
        half_width(found, "b", 0.1)
