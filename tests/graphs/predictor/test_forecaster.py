from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.graphs.devices import device_contexts
from msbgen.graphs.predictor.factors import Factors
from msbgen.graphs.predictor.forecaster import GraphForecaster
from toy_board import GRAPHS


def end_temperature(device, start, time, energy):
    """Temperature after a run of constant power."""
    goal = device.ambient + device.resistance * energy / time
    return goal + (start - goal) * np.exp(-time / device.time_constant)


def test_a_forecast_is_what_the_predictor_says(fitted, device):
    contexts, graph = device_contexts(device)[::7], next(iter(GRAPHS.values()))
    start = device.ambient + 3.0
    predicted = GraphForecaster(fitted, device, 0.2).forecast(graph, contexts, start)
    expected = fitted.predict(graph, device, contexts, temperature=start)
    _, upper = fitted.predict_interval(graph, device, contexts, 0.2, temperature=start)
    np.testing.assert_allclose(np.stack([predicted.time, predicted.energy], axis=1), expected)
    np.testing.assert_allclose(
        np.stack([predicted.time_bound, predicted.energy_bound], axis=1), upper
    )
    # close to a run of constant power, and as much hotter as more energy makes it
    constant = end_temperature(device, start, predicted.time, predicted.energy)
    assert np.abs(predicted.temperature - constant).max() < 0.3 * np.abs(constant - start).max()
    more = end_temperature(device, start, predicted.time, predicted.energy_bound) - constant
    np.testing.assert_allclose(predicted.temperature_bound - predicted.temperature, more, rtol=1e-6)
    assert (more > 0).all()
    assert (predicted.peak_bound >= predicted.temperature_bound).all()


def test_without_bounds_they_are_what_is_expected(fitted, device):
    contexts, graph = device_contexts(device)[::7], next(iter(GRAPHS.values()))
    quick = GraphForecaster(fitted, device, None)
    predicted = quick.forecast(graph, contexts, device.ambient)
    np.testing.assert_array_equal(predicted.time, predicted.time_bound)
    np.testing.assert_array_equal(predicted.temperature, predicted.temperature_bound)
    part = quick.forecast(graph, contexts[:2], device.ambient)
    np.testing.assert_array_equal(part.energy, predicted.energy[:2])
    bare = copy(fitted)
    bare.calibration_ = []
    with pytest.raises(ArgumentError, match="not calibrated"):
        GraphForecaster(bare, device)


def test_what_is_changed_in_place_is_forecast_anew(fitted, device):
    contexts, graph = device_contexts(device)[::7], next(iter(GRAPHS.values())).copy(deep=True)
    forecaster = GraphForecaster(fitted, device, 0.2)
    before = forecaster.forecast(graph, contexts, device.ambient)
    graph["work"].values[:] *= 3.0
    slower = forecaster.forecast(graph, contexts, device.ambient)
    assert (slower.time > 2.0 * before.time).all()
    contexts[:] = contexts[::-1].copy()
    turned = forecaster.forecast(graph, contexts, device.ambient)
    np.testing.assert_array_equal(turned.time, slower.time[::-1])
    known = fitted.devices_[device.name]
    other = Factors(known.factors.values + 0.5)
    forecaster.predictor = copy(fitted)
    forecaster.predictor.devices_ = {device.name: replace(known, factors=other)}
    adapted = forecaster.forecast(graph, contexts, device.ambient)
    assert (adapted.time > turned.time).all()
