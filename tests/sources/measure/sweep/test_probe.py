"""The probe: which level of the stressor a program is equivalent to."""

import os
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.sources.measure.actuators.pressure import Stressors
from msbgen.sources.measure.sweep import probe as probing
from msbgen.sources.measure.sweep.probe import Probe, equivalent_level, probe, slowdown_at
from msbgen.sources.measure.sweep.spec import ResourceSpec
from sweeping import processes, spec, work

two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
PRESSURE = ResourceSpec("p", "pressure", (0.0, 50.0), target="bandwidth")


@pytest.mark.parametrize(
    ("slowdown", "level"),
    [(0.9, 0.0), (1.0, 0.0), (1.1, 100.0), (1.2, 200.0), (1.4, 300.0), (3, 400.0)],
)
def test_the_equivalent_level_inverts_a_rising_curve(slowdown, level):
    levels = np.array([0.0, 200.0, 250.0, 400.0])
    curve = np.array([1.0, 1.2, 1.15, 1.5])  # noise: the third is no less than the second
    assert equivalent_level(levels, curve, slowdown) == pytest.approx(
        200 + 200 * 2 / 3 if slowdown == 1.4 else level
    )


def test_a_probe_has_a_range_and_a_context():
    slowdowns = np.array([[1.0, 1.2], [1.0, 1.4], [1.0, 1.4]])
    found = Probe("p", "MB s-1", np.array([0.0, 100.0]), slowdowns, np.array([1.1, 1.2, 1.4]))
    assert found.pressure == pytest.approx(50)
    assert found.range == pytest.approx((25, 100))
    assert found.table() == "p\n50\n"
    assert list(found.describe())[-1] == "p of the program: 50 MB s-1 (single runs: 25 to 100)"


@pytest.fixture
def profiles():
    seconds = [[2.0, 2.0, 9.0], [1.0, 1.0, 1.1], [1.5, 1.5, np.nan]]
    return xr.Dataset(
        {"duration": (("context", "run"), seconds)}, {"p": ("context", [100.0, 0.0, 50.0])}
    )


def test_a_slowdown_is_interpolated_between_the_levels(profiles):
    assert slowdown_at(profiles, "p", 75.0) == pytest.approx(1.75)
    assert slowdown_at(profiles, "p", 0.0) == 1.0
    with pytest.raises(MeasurementError, match="p = 0 is missing; measure the program alone"):
        slowdown_at(profiles.isel(context=[0, 2]), "p", 75.0)
    with pytest.raises(ArgumentError, match="no resource 'q'"):
        slowdown_at(profiles, "q", 75.0)
    with pytest.raises(ArgumentError, match="select those of one level"):
        slowdown_at(profiles.isel(context=[0, 1, 1]), "p", 75.0)


@two_cores
def test_a_program_is_probed_and_nothing_is_left(monkeypatch):
    monkeypatch.setattr(probing, "_SECONDS", 0.02)
    monkeypatch.setattr(Stressors, "_verify", lambda self: None)
    seen = []
    one = spec(*work(12000), resources=(PRESSURE,), runs=1)  # long enough for the reporter
    found = probe(one, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1)]
    assert found.slowdowns.shape == (1, 2)
    assert found.program.shape == (1,)
    assert (found.slowdowns > 0).all()
    assert 0 <= found.pressure <= 50
    assert not processes("stressor.py\0gather")
    with pytest.raises(MeasurementError, match=r"work: exited with 3 \(.*\); correct 'command'"):
        probe(replace(one, command=("/bin/sh", "-c", "exit 3")))
    assert not processes("stressor.py\0gather")


def test_a_probe_takes_a_spec_with_a_pressure_only():
    with pytest.raises(ProfileError, match='a probe takes one resource, by "pressure"'):
        probe(spec())
