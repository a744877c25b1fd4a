"""Energy corrected by other programs: power bends between two measured clocks."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.build import make_profiles
from msbgen.data.energy import power_over_time, total_energy
from msbgen.systems.kernels.energy import EnergyCorrector

CLOCKS = np.array([1.0, 1.4, 1.8])


def task(name, busy, clocks=CLOCKS, units="GHz"):
    """Runs of ten intervals: power grows faster than the clock, busier programs take more."""
    watts = (0.2 + busy * clocks**2.5)[:, None, None] * np.linspace(0.8, 1.2, 10)
    seconds = 10.0 / clocks
    return make_profiles(
        np.stack([np.ones((len(clocks), 1, 10)), watts * 0.1], axis=-1),
        seconds[:, None] * 0 + 1.0,
        clocks[:, None],
        interval=0.1,
        resources={"clock": {"units": units}},
        counters={"instructions": {}, "energy": {"units": "J"}},
        attrs={"task": name},
    )


@pytest.fixture
def others():
    return [task(f"t{i}", busy) for i, busy in enumerate(np.linspace(0.2, 0.5, 8))]


def test_the_middle_clock_gets_the_power_of_others_and_keeps_its_shape_over_time(others):
    whole = task("new", 0.33)
    measured, truth = whole.isel(context=[0, 2]), whole.isel(context=[1])
    straight = 0.5 * (total_energy(measured)[0] + total_energy(measured)[1])
    wrong = truth.assign(energy=truth["energy"] * np.float32(straight / total_energy(truth)[0]))
    wrong["energy"].attrs = truth["energy"].attrs
    assert total_energy(wrong)[0, 0] / total_energy(truth)[0, 0] > 1.05
    corrected = EnergyCorrector(measured, others).correct(wrong)
    assert total_energy(corrected)[0, 0] == pytest.approx(total_energy(truth)[0, 0], rel=0.01)
    shape = power_over_time(corrected).values[0, 0]
    np.testing.assert_allclose(shape / shape.mean(), np.linspace(0.8, 1.2, 10), rtol=1e-5)


def test_measured_contexts_keep_their_power(others):
    measured = task("new", 0.33).isel(context=[0, 2])
    power = EnergyCorrector(measured, others).power(np.array([[1.8], [1.0]]))
    np.testing.assert_allclose(power, 0.2 + 0.33 * np.array([1.8, 1.0]) ** 2.5, rtol=1e-4)


def test_blocks_of_contexts_agree_with_all_at_once(others, monkeypatch):
    corrector = EnergyCorrector(task("new", 0.33).isel(context=[0, 2]), others)
    wanted = np.linspace(1.0, 1.8, 7)[:, None]
    whole = corrector.power(wanted)
    monkeypatch.setattr("msbgen.systems.kernels.energy._BLOCK", 3)
    np.testing.assert_allclose(corrector.power(wanted), whole, rtol=1e-6)
    assert (np.diff(whole) > 0).all()


def test_what_cannot_be_mended_is_refused(others):
    measured = task("new", 0.33)
    with pytest.raises(MeasurementError, match="there are 1 other programs"):
        EnergyCorrector(measured, [others[0], task("new", 0.4)])
    with pytest.raises(ArgumentError, match="over 'clock' in MHz, this one over clock in GHz"):
        EnergyCorrector(measured, [task("a", 0.3, units="MHz"), task("b", 0.4, units="MHz")])
    with pytest.raises(ArgumentError, match="no counter is in joules"):
        EnergyCorrector(measured.drop_vars("energy"), others)
    other = measured.rename(clock="frequency")
    with pytest.raises(ArgumentError, match="generated profiles have the resources frequency"):
        EnergyCorrector(measured, others).correct(other)
