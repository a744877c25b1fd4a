"""Spellings of units."""

import pytest

from msbgen.data.units import is_known_unit, plain_unit


def test_a_unit_has_one_spelling():
    spelled = {plain_unit(u) for u in ("MBps", "MB/s", "MB s-1", "MB s^-1", " MB  / s")}
    assert spelled == {"MB s-1"}
    assert plain_unit("%") == plain_unit("percent") == "percent"
    assert plain_unit("") == "1"
    assert plain_unit("\u03bcJ") == plain_unit("\u00b5J")
    assert [plain_unit(unit) for unit in ("steps", "ps")] == ["steps", "ps"]


@pytest.mark.parametrize(
    "unit",
    [
        *("1", "%", "MBps", "GB/min", "0.125 GB s-1", "KiB", "kHz", "1/s", "s^2", "µs", "μJ", "°C"),
        *("threads", "vCPU", "GFLOPS", "Gbps", "bits", "hours", "kWh", "ops/s", "10^6 s-1"),
    ],
)
def test_usual_units_are_known(unit):
    assert is_known_unit(unit)


@pytest.mark.parametrize("unit", ["parsec", "GhZ", "MB/sec", "cache ways", "/", "MB s-1 x", "-"])
def test_other_units_are_not(unit):
    assert not is_known_unit(unit)
