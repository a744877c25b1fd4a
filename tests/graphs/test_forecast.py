"""Which values a forecast may have."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.graphs.forecast import Forecast


def test_a_forecast_is_positive_numbers_of_one_length():
    known = Forecast.certain([1.0, 2.0], [3.0, 4.0], [-5.0, 40.0], [-4.0, 41.0])
    np.testing.assert_array_equal(known.energy_bound, known.energy)
    with pytest.raises(ArgumentError, match="energy is 0 in context 1; a positive number"):
        Forecast.certain([1.0, 2.0], [3.0, 0.0], [30.0, 40.0], [30.0, 40.0])
    with pytest.raises(ArgumentError, match=r"temperature has shape \(1,\)"):
        Forecast.certain([1.0, 2.0], [3.0, 1.0], [30.0], [30.0, 40.0])
    with pytest.raises(ArgumentError, match="temperature is nan"):
        Forecast.certain([1.0], [3.0], [np.nan], [30.0])
