"""A graph that is asked about many contexts of a device."""

import numpy as np
import pytest

from msbgen.graphs.devices import device_contexts
from toy_board import GRAPHS


@pytest.fixture
def asked(fitted, device):
    return fitted.prepare(GRAPHS["family01"], device)


def test_what_is_scheduled_before_need_not_be_again(asked, device):
    rows = asked.rows(device_contexts(device)[::9])
    planned = asked.scheduled(rows, 31.0)
    np.testing.assert_array_equal(asked.predict(rows, 31.0, planned), asked.predict(rows, 31.0))
    for with_plan, without in zip(
        asked.interval(rows, 0.2, 31.0, planned), asked.interval(rows, 0.2, 31.0)
    ):
        np.testing.assert_array_equal(with_plan, without)


def test_intervals_lie_around_what_is_predicted_in_logarithms(asked, device):
    rows = asked.rows(device_contexts(device)[::9])
    middle, low, high = asked.interval(rows, 0.2)
    np.testing.assert_allclose(middle, asked.predict(rows))
    np.testing.assert_allclose(middle / low, high / middle)
    assert (high > middle).all()


def test_a_start_of_none_is_ambient(asked, device):
    rows = asked.rows([device.largest])
    np.testing.assert_array_equal(asked.scheduled(rows), asked.scheduled(rows, device.ambient))
