"""Logs of power: nvidia-smi, turbostat, tegrastats."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.formats import format_of
from msbgen.sources.measure.readers.power_log import read_power_log
from msbgen.sources.measure.readers.recording import assemble

NVIDIA = """timestamp, index, power.draw [W], temperature.gpu, utilization.gpu [%]
2026/03/01 23:59:59.000, 0, 90.0 W, 60, 97 %
2026/03/01 23:59:59.000, 1, 50.0 W, 50, 0 %
2026/03/02 00:00:01.000, 0, 100.0 W, 60, 50 %
2026/03/02 00:00:01.000, 1, 40.0 W, 50, 0 %
2026/03/02 00:00:02.000, 0, [N/A], 60, 25 %
2026/03/02 00:00:02.000, 1, 30.0 W, 50, 0 %
"""
TURBOSTAT = """Core\tCPU\tAvg_MHz\tBusy%\tPkgWatt\tRAMWatt
-\t-\t1200\t50.00\t20.00\t3.00
0\t0\t1200\t90.00\t20.00\t3.00
-\t-\t1200\t40.00\t22.00\t2.00
Core\tCPU\tAvg_MHz\tBusy%\tPkgWatt\tRAMWatt
-\t-\t1200\t60.00\t24.00\t1.00
"""
TEGRA = """01-12-2026 10:54:47 RAM 2/7MB CPU [12%@1420] GR3D_FREQ 33% VDD_IN 4000mW/4000mW
01-12-2026 10:54:48 RAM 2/7MB CPU [12%@1420] GR3D_FREQ 50% VDD_IN 6000mW/5000mW
01-12-2026 10:54:50 RAM 2/7MB CPU [12%@1420] GR3D_FREQ 20% VDD_IN 5000mW/5000mW
"""


def read(folder, text, step=None):
    (folder / "log.txt").write_text(text)
    assert format_of(folder / "log.txt") == "power"
    return read_power_log(folder / "log.txt", step)


def columns(recording):
    return dict(zip(recording.events, recording.counts.T.tolist()))


def test_power_becomes_energy_and_levels_are_left_out(tmp_path):
    rows = read(tmp_path, NVIDIA)
    first = assemble(rows, places=["GPU 0"])
    np.testing.assert_allclose(first.times, [2, 3])
    assert columns(first)["energy"][0] == 200
    assert np.isnan(columns(first)["energy"][1])
    assert columns(first)["utilization.gpu"] == [1, 0.25]
    assert columns(assemble(rows, places=["GPU 1"]))["energy"] == [80, 30]
    assert "log.txt: levels that are no counts were left out: temperature.gpu." in rows.warnings


def test_turbostat_has_the_whole_system_and_needs_a_step(tmp_path):
    found = assemble(read(tmp_path, TURBOSTAT, 5.0))
    assert found.times.tolist() == [5, 10]
    assert columns(found) == {"PkgWatt": [110, 120], "RAMWatt": [10, 5], "busy": [2, 3]}
    with pytest.raises(ProfileError, match=r"no stamps that increase; .*--step 1s"):
        read(tmp_path, TURBOSTAT)


def test_rails_of_tegrastats(tmp_path):
    found = assemble(read(tmp_path, TEGRA))
    assert found.times.tolist() == [1, 3]
    assert columns(found) == {"energy": [6, 10], "gpu": [0.5, 0.4]}


def test_other_texts_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(ProfileError, match=r"a\.txt: is no log of nvidia-smi"):
        read_power_log(tmp_path / "a.txt")
