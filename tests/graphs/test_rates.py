"""Rates for shares: between levels, beyond them, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import soc
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.graphs.devices import shipped_device
from msbgen.graphs.simulator import Rates

TX2 = shipped_device("tx2")
TABLE = soc.toy_table(((0.4, 0.5, 0.1, 4.0), (0.6, 0.3, 0.6, 9.0)))


def test_rates_and_watts_are_those_of_a_slow_look_up():
    rates = Rates.of(TX2, {"a": TABLE})
    slow = soc.rates_of(TABLE, TX2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        g, c, level = rng.integers(9), rng.integers(2), rng.integers(1, 12)
        here = rng.integers(1, TX2.clusters[c].cores + 1)
        running = rng.integers(here, 7)
        phase = rng.integers(2)
        ways, flow = rates.settings[g]
        cluster = TX2.clusters[c]
        wanted = slow(phase, cluster, cluster.clocks[level], ways / here, flow / running)
        at = g, c, level, running - 1, here - 1, phase
        assert (rates.rates[at], rates.watts[at]) == pytest.approx(wanted, rel=1e-6)


def test_clocks_beyond_the_profiles_go_on_with_their_slope_and_are_told():
    narrow = TABLE.isel(frequency=slice(2, 4))  # 1.2 and 2.4 GHz; the law is a / f + b
    whole, part = Rates.of(TX2, {"a": TABLE}), Rates.of(TX2, {"a": narrow})
    assert not whole.stretched[0].any()
    np.testing.assert_array_equal(part.stretched[0], np.array(TX2.clusters[0].clocks) < 1.2)
    np.testing.assert_allclose(part.rates, whole.rates, rtol=1e-5)
    # never more than with the clock, however steep measured slopes are
    noisy = narrow.copy(deep=True)
    noisy["speed"][{"frequency": 1}] *= 3
    pace = 1 / Rates.of(TX2, {"a": noisy}).rates[0, 0, :, 0, 0, 0]
    below = np.array(TX2.clusters[0].clocks) < 1.2
    at_end = 1 / soc.rates_of(TABLE, TX2)(0, TX2.clusters[0], 1.2, 8.0, 1050.0)[0]
    stretched = pace[below] * np.array(TX2.clusters[0].clocks)[below] / 1.2
    np.testing.assert_allclose(stretched, at_end, rtol=1e-5)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.isel(cache_ways=0, drop=True), "have no 'cache_ways'"),
        (lambda t: t.isel(frequency=0, drop=True), "have no clock in GHz"),
        (lambda t: t.isel(frequency=[0]), "are of one clock"),
        (lambda t: t.drop_vars("cache_misses"), "has no counter 'cache_misses'"),
        (lambda t: t.isel(cache_ways=slice(2, 4)), "begin at 8 of 'cache_ways'"),
        (lambda t: t.assign(speed=-t["speed"]), "'speed' is -0."),
        (
            lambda t: t.expand_dims(voltage=[1.0, 2.0]).assign_coords(
                voltage=("voltage", [1.0, 2.0], {"role": "resource", "units": "V"})
            ),
            "have the resource 'voltage', which no sheet has",
        ),
    ],
)
def test_what_does_not_fit_the_device_is_refused(spoil, message):
    with pytest.raises(ProfileError) as caught:
        Rates.of(TX2, {"a": spoil(TABLE)})
    assert message in str(caught.value)


def test_one_level_of_what_is_shared_is_enough():
    one = TABLE.isel(bandwidth=[0])
    rates = Rates.of(replace(TX2, bandwidth=(1000.0,)), {"a": one}).rates
    assert np.nanmin(rates) > 0
    with pytest.raises(ArgumentError, match="profiles are none"):
        Rates.of(TX2, {})


def test_profiles_become_tables_on_the_way(measured):
    with pytest.raises(ProfileError, match="have no 'bandwidth'"):
        Rates.of(TX2, {"a": measured})
