"""The benchmark of decisions, on made-up programs."""

import json

import choice_study
import pytest
import tables

from choosing import CLOCKS, programs
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.dataset import write as write_kernels


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(choice_study, "SLACKS", (0.2, 0.4))
    monkeypatch.setattr(choice_study, "PROBES", 2)
    monkeypatch.setattr(choice_study, "LATENCIES", 5)
    monkeypatch.setattr(choice_study, "REPEATED", 3)


def test_decisions_within_a_slack_are_counted_against_the_truth(few):
    found = choice_study.within_slack(programs(12, prefix="m"), programs(10, seed=1))
    assert found["decisions"] == 20
    assert found["late"]["highest clock"] == 0
    assert found["regret"]["margins"] < 0.05 < found["regret"]["highest clock"]
    assert found["late"]["margins"] <= found["late"]["expected"] + 0.05
    assert sum(found["second_clock"].values()) == 20


def test_new_runs_of_measured_clocks_exceed_their_bounds_as_often_as_nominal(monkeypatch):
    monkeypatch.setattr(choice_study, "REPEATED", 60)
    for row in choice_study.repeats():
        nominal = max(choice_study.NOMINAL, 1 / (row["runs"] + 1))
        assert abs(row["above the bound"] - nominal) < 0.05
        assert row["late"] < nominal


def test_bounds_from_programs_that_are_too_alike_do_not_hold(few):
    """Microbenchmarks without noise promise what applications with noise do not keep."""
    alike = programs(12, prefix="m", noise=1e-3)
    found = choice_study.energy_bounds(alike, programs(20, seed=1, noise=0.05))
    for bounds in found.values():
        assert bounds["microbenchmarks"]["covered"] < 0.85 < bounds["applications"]["covered"]
        assert bounds["applications"]["at_the_worst_clock"] <= bounds["applications"]["covered"]


def write_board(folder, device, drawn):
    """A CSV as the public set has it, out of made-up programs."""
    rows = ["device,design,rows,columns,gpu_clock_mhz,runtime_s,power_mean_w"]
    for p in range(len(drawn.programs)):
        for c, clock in enumerate(CLOCKS):
            cells = device, "sq", p + 1, p + 1, 1e3 * clock, drawn.time[p, c], drawn.power[p, c]
            rows.append(",".join(map(str, cells)))
    (folder / "gemm.csv").write_text("\n".join(rows) + "\n")
    rows = ["device,batch,gpu_clock_mhz,power_mean_w,latency_p50_ms"]
    for batch in (1, 4, 16):
        for c, clock in enumerate(CLOCKS):
            cells = device, batch, 1e3 * clock, drawn.power[0, c], 1e3 * batch * drawn.time[0, c]
            rows.append(",".join(map(str, cells)))
    (folder / "mobilenet.csv").write_text("\n".join(rows) + "\n")


def test_a_network_is_scheduled_by_batch_and_clock(few, tmp_path):
    pytest.importorskip("xgboost", reason="the peer wants pip install msbgen[ml]")
    write_board(tmp_path, "AGX", programs(8))
    found = choice_study.one_board(tmp_path, "AGX")
    assert (found["configurations"], len(found["known"])) == (18, 6)
    assert found["expected"]["regret"] < 0.05
    assert len(found["fronts"]["measured"]) > 1


def test_results_are_written_tabulated_and_drawn(few, tmp_path, monkeypatch, capsys):
    drawn = programs(9)
    rows = [(p, c) for p in range(9) for c in range(6)]
    times, powers = ([table[i] for i in rows] for table in (drawn.time, drawn.power))
    limits = {"power_limit": [CLOCKS[c] for _, c in rows]}
    names = [f"net{p % 3}/{p}" for p, _ in rows]
    dataset = make_kernels(names, times, power=powers, resources=limits, units={"power_limit": "W"})
    write_kernels(dataset, tmp_path / "z.nc")
    monkeypatch.setattr(
        choice_study.msbgen, "shipped_file", lambda name: tmp_path / "z.nc", raising=False
    )
    found = choice_study.run(None, results=tmp_path)
    assert "nv-dvfs: no such folder" in capsys.readouterr().out
    assert json.loads((tmp_path / "choice.json").read_text()) == found
    assert (tmp_path / "choice.png").stat().st_size > 1000
    for result in found["zeus"].values():
        paid = result["regret_by_probes"]
        assert len(paid) == 3
        assert paid[2] < result["highest_limit"]
    readme = tmp_path / "README.md"
    places = (f"<!-- results: {name} -->\n<!-- end -->\n" for name in ("choice", "choice-repeats"))
    readme.write_text("".join(places))
    tables.publish(choice_study.tables(found), [tmp_path])
    assert "| mean of the four |" in readme.read_text()
