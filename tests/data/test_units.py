"""Spellings of units."""

import pytest

from msbgen.data.units import is_known_unit, plain_unit


def test_a_unit_has_one_spelling():
    spelled = {plain_unit(u) for u in ("MBps", "MB/s", "MB s-1", "MB s^-1", " MB  / s")}
    assert spelled == {"MB s-1"}
    assert plain_unit("%") == plain_unit("percent") == "percent"
    assert plain_unit("") == "1"


@pytest.mark.parametrize(
    "unit",
    ["1", "%", "MBps", "GB/min", "0.125 GB s-1", "KiB", "kHz", "1/s", "s^2", "µs", "°C", "threads"],
)
def test_usual_units_are_known(unit):
    assert is_known_unit(unit)


@pytest.mark.parametrize("unit", ["parsec", "GhZ", "MB/sec", "cache ways", "/", "MB s-1 x", "-"])
def test_other_units_are_not(unit):
    assert not is_known_unit(unit)
