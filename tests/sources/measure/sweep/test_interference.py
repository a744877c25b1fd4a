"""What else the machine did."""

import os

import pytest

from msbgen.sources.measure.sweep import interference
from msbgen.sources.measure.sweep.interference import InterferenceMeter

BEFORE = "cpu  0 0\ncpu0 100 0 0 1000 0 0 0 0 0 0\ncpu1 50 5 5 1000 5 5 5 10 0 0\nintr 1\n"
AFTER = "cpu  0 0\ncpu0 150 0 10 1040 0 0 0 0 0 0\ncpu1 120 5 5 1010 5 5 5 30 0 0\nintr 1\n"


def test_load_is_others_work_and_steal_is_what_the_programs_core_lost(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text(BEFORE)
    monkeypatch.setattr(interference, "_STAT", stat)
    monkeypatch.setattr(interference.time, "monotonic", iter([0.0, 1.0]).__next__)
    meter = InterferenceMeter([1])
    stat.write_text(AFTER)
    tick = os.sysconf("SC_CLK_TCK")
    found = meter.measure(70 / tick)
    assert found["load"] == pytest.approx((50 + 10 + 70 - 70) / tick)
    assert found["steal"] == pytest.approx(20 / (70 + 10 + 20))
