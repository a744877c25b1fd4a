"""What a forecast may be, and the heat of a run of constant power."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.graphs.devices import shipped_device
from msbgen.graphs.forecast import Forecast, end_temperature

TX2 = shipped_device("tx2")


def test_a_forecast_is_positive_numbers_of_one_length():
    known = Forecast.certain([1.0, 2.0], [3.0, 4.0], [-5.0, 40.0], [-4.0, 41.0])
    np.testing.assert_array_equal(known.energy_bound, known.energy)
    with pytest.raises(ArgumentError, match="energy is 0 in context 1; a positive number"):
        Forecast.certain([1.0, 2.0], [3.0, 0.0], [30.0, 40.0], [30.0, 40.0])
    with pytest.raises(ArgumentError, match=r"temperature has shape \(1,\)"):
        Forecast.certain([1.0, 2.0], [3.0, 1.0], [30.0], [30.0, 40.0])
    with pytest.raises(ArgumentError, match="temperature is nan"):
        Forecast.certain([1.0], [3.0], [np.nan], [30.0])


@given(st.floats(20, 60), st.floats(1e-3, 200), st.floats(0.5, 30), st.integers(1, 20))
def test_heat_of_a_run_is_that_of_its_parts_one_after_another(start, time, power, parts):
    whole = end_temperature(TX2, start, time, power * time)
    heat = start
    for _ in range(parts):
        heat = end_temperature(TX2, heat, time / parts, power * time / parts)
    assert heat == pytest.approx(float(whole), abs=1e-9)
    goal = TX2.ambient + TX2.resistance * power
    assert min(start, goal) - 1e-9 <= whole <= max(start, goal) + 1e-9
