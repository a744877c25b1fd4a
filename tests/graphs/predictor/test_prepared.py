"""A graph that is asked about many contexts of a device."""

import numpy as np
import pytest

from msbgen.graphs.devices import device_contexts
from toy_board import GRAPHS


@pytest.fixture
def requested(fitted, device):
    return fitted.prepare(GRAPHS["family01"], device)


def test_what_is_scheduled_before_need_not_be_again(requested, device):
    rows = requested.rows(device_contexts(device)[::9])
    planned = requested.scheduled(rows, 31.0)
    np.testing.assert_array_equal(
        requested.predict(rows, 31.0, planned), requested.predict(rows, 31.0)
    )
    for with_plan, without in zip(
        requested.interval(rows, 0.2, 31.0, planned), requested.interval(rows, 0.2, 31.0)
    ):
        np.testing.assert_array_equal(with_plan, without)


def test_intervals_lie_around_what_is_predicted_in_logarithms(requested, device):
    rows = requested.rows(device_contexts(device)[::9])
    middle, low, high = requested.interval(rows, 0.2)
    np.testing.assert_allclose(middle, requested.predict(rows))
    np.testing.assert_allclose(middle / low, high / middle)
    assert (high > middle).all()


def test_a_start_of_none_is_ambient(requested, device):
    rows = requested.rows([device.largest])
    np.testing.assert_array_equal(
        requested.scheduled(rows), requested.scheduled(rows, device.ambient)
    )
