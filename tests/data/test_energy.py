"""Energy in profiles: power over time and totals agree with sums by hand."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.build import make_profiles
from msbgen.data.check import validate_profiles
from msbgen.data.energy import (
    add_energy,
    energy_counter,
    energy_counters,
    power_over_time,
    scale_energy,
    total_energy,
)
from msbgen.data.profiles import Profiles


@pytest.fixture
def profiles():
    """Two contexts of two runs of 2.5 and 1.2 intervals of 2 s; one run is missing."""
    watts = np.array([[[3.0, 4.0, 5.0], [3.0, 4.0, 6.0]], [[7.0, 9.0, np.nan], [np.nan] * 3]])
    whole = make_profiles(
        np.where(np.isfinite(watts), 10.0, np.nan)[..., None],
        [[5.0, 5.0], [2.4, np.nan]],
        [[1.0], [2.0]],
        interval=2.0,
        resources={"clock": {"units": "GHz"}},
        counters={"instructions": {}},
        attrs={"task": "t"},
    )
    message = {"units": "W", "long_name": "power of the cores"}
    return whole.assign(meter=(("context", "run", "time"), watts.astype(np.float32), message))


def test_energy_is_power_times_the_time_that_the_run_lasted(profiles):
    made = validate_profiles(add_energy(profiles, "meter"))
    assert "meter" not in made
    assert energy_counters(made) == ["energy"]
    np.testing.assert_allclose(
        total_energy(made), [[6 + 8 + 5, 6 + 8 + 6], [14 + 0.4 * 9, np.nan]], rtol=1e-6
    )
    np.testing.assert_allclose(power_over_time(made).values, profiles["meter"].values, rtol=1e-6)
    assert power_over_time(made).attrs["units"] == "W"
    assert "energy: 17.6 to 20 J a run" in Profiles.of(made).describe()


def test_scaled_energy_keeps_its_course_and_the_ratios_of_runs(profiles):
    made = add_energy(profiles, "meter")
    scaled = scale_energy(made, [100.0, 1.0])
    total = total_energy(scaled)
    np.testing.assert_allclose(np.nanmean(total, axis=1), [100.0, 1.0], rtol=1e-6)
    assert total[0, 0] / total[0, 1] == pytest.approx(19 / 20)
    ratio = scaled["energy"].values / made["energy"].values
    np.testing.assert_allclose(ratio[0], 100 / 19.5, rtol=1e-6)
    xr.testing.assert_identical(scaled["instructions"], made["instructions"])


def test_of_several_meters_one_must_be_called_energy(profiles):
    both = add_energy(profiles, "meter").assign(other=lambda ds: 2 * ds["energy"])
    both["other"].attrs = {"units": "J", "role": "counter"}
    assert energy_counter(both) == "energy"
    with pytest.raises(ArgumentError, match="memory, other are in joules"):
        energy_counter(both.rename(energy="memory"))


def test_what_has_no_energy_is_refused(profiles):
    with pytest.raises(ArgumentError, match="no counter is in joules"):
        total_energy(profiles)
    with pytest.raises(ArgumentError, match=r"power is 'duration'; .* is wanted: meter"):
        add_energy(profiles, "duration")
    made = add_energy(profiles, "meter")
    with pytest.raises(ArgumentError, match="there is none"):
        add_energy(made, "meter")
    with pytest.raises(ArgumentError, match=r"joules have shape \(1,\)"):
        scale_energy(made, [1.0])
    with pytest.raises(ArgumentError, match=r"joules are 0 in context 1 \(clock=2 GHz\)"):
        scale_energy(made, [1.0, 0.0])
    dark = made.assign(energy=made["energy"] * 0)
    dark["energy"].attrs = made["energy"].attrs
    with pytest.raises(ArgumentError, match="'energy' is 0 J in context 0"):
        scale_energy(dark, [1.0, 1.0])


def test_watts_are_no_counter(profiles):
    profiles["meter"].attrs["role"] = "counter"
    with pytest.raises(ProfileError, match=r"units 'W'; .* or energy, 'J'"):
        validate_profiles(profiles)
