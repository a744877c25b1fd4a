"""The benchmark of relative performance, on made-up runs and with small models."""

import json
import shutil

import machines_peers
import machines_study
import numpy as np
import pytest
import tables

from machines import MACHINES, QUICK, made_runs
from msbgen.systems.machines import predictor
from msbgen.systems.machines.dataset import runtimes_of
from msbgen.systems.machines.evaluation import complete_runs


@pytest.fixture
def small(tmp_path, monkeypatch):
    for part in ("boosting", "trees", "kriging"):
        for module in (predictor, machines_peers):
            monkeypatch.setattr(module, f"{part.title()}Settings", lambda part=part: QUICK[part])
    monkeypatch.setattr(machines_peers, "TREES", 5)
    graphs = json.loads((tables.RESULTS / "relative.json").read_text())["graphs"]
    (tmp_path / "relative.json").write_text(json.dumps({"graphs": graphs}))
    for module in (machines_study, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    shutil.copy(tables.ROOT / "benchmarks" / "machines.md", tmp_path)
    publish = tables.publish
    monkeypatch.setattr(machines_study, "publish", lambda found: publish(found, [tmp_path]))
    runs = made_runs(18, scales=("small", "medium", "large"), noise=0.01)
    monkeypatch.setattr(machines_study, "shipped_runs", lambda machines: runs)
    monkeypatch.setattr(machines_study, "FOLDS", 2)
    monkeypatch.setattr(machines_study, "INTERVAL_FOLDS", 2)
    monkeypatch.setattr(machines_study, "RATES", (0.1,))
    monkeypatch.setattr(machines_study, "STARTS", 1)
    return tmp_path


def test_every_part_is_measured_written_and_drawn(small):
    graphs = json.loads((small / "relative.json").read_text())["graphs"]
    parts = [part for part in machines_study.PARTS if part != "graphs"]
    machines_study.run(parts, None)
    results = json.loads((small / "relative.json").read_text())
    for split in machines_study.SPLITS:
        error = {m: rows[-1]["error"] for m, rows in results[split]["methods"].items()}
        assert error["default"] < error["median per source"] < error["mean"]
        if split == "rows":
            assert error["looking up another row"] < 0.05 < error["median per source"]
    page = (small / "machines.md").read_text(encoding="utf-8")
    for part in (*machines_study.SPLITS, "crosswise", "ablations", "timing"):
        table = page.partition(f"<!-- results: relative-{part} -->")[2].partition("<!-- end -->")[0]
        assert table.count("\n|") > 2, part
    assert (small / "relative.png").stat().st_size > 10_000
    assert set(results["scales"]["each"]) == {"small", "medium", "large"}
    # what was measured before stays when other parts are measured
    assert results["graphs"] == graphs


def test_tasks_that_ran_on_all_processors_are_runs(tmp_path):
    (tmp_path / "tasks_cpu_gpu1_gpu2.csv").write_text(
        "task,cpu,gpu1,gpu2,app,block,nb\n1,2.0,0.5,-1.0,spotrf,64,5\n2,4.0,1.0,2.0,spotrf,64,5\n"
    )
    runs = machines_study.task_graph_runs(tmp_path)
    np.testing.assert_allclose(runtimes_of(runs), [[4e-3, 1e-3, 2e-3]])
    assert runs["counters"].values[0].tolist() == [64.0**3, 64.0, 5.0]


def test_shipped_runs_have_the_number_of_rows_of_the_page():
    runs = machines_study.shipped_runs(machines_study.MIXED)
    assert runtimes_of(runs).shape == (2024, 4)
    assert complete_runs(runs).sizes["run"] == 2024


@pytest.mark.parametrize("name", [*machines_peers.PEERS, *machines_peers.PAPER])
def test_peers_reproduce_the_source_except_the_mean(name):
    peer = {**machines_peers.PEERS, **machines_peers.PAPER}[name]
    runs = made_runs(30)
    known, new = runs.isel(run=slice(0, 40)), runs.isel(run=slice(40, 60))
    rows = np.ones((40, len(MACHINES)), dtype=bool)
    predicted, truth = peer(known, rows, new), runtimes_of(new)
    source_error = np.median(np.abs(predicted[:, [0, 1, 2], [0, 1, 2]] / truth - 1))
    assert predicted.shape == (20, 3, 3)
    assert (source_error < 0.3) == (name != "mean")
