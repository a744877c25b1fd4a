"""The benchmark of relative performance, on made-up runs and with small models."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from machines import MACHINES, QUICK, made_runs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import relative
import relative_peers
import tables

from msbgen.machines import predictor
from msbgen.machines.dataset import runtimes_of
from msbgen.machines.evaluation import complete_runs


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(predictor, "BoostingSettings", lambda: QUICK["boosting"])
    monkeypatch.setattr(predictor, "TreesSettings", lambda: QUICK["trees"])
    monkeypatch.setattr(relative_peers, "BoostingSettings", lambda: QUICK["boosting"])
    monkeypatch.setattr(relative_peers, "TreesSettings", lambda: QUICK["trees"])
    monkeypatch.setattr(predictor, "KrigingSettings", lambda: QUICK["kriging"])
    monkeypatch.setattr(relative_peers, "KrigingSettings", lambda: QUICK["kriging"])
    monkeypatch.setattr(relative_peers, "TREES", 5)
    monkeypatch.setattr(relative, "RESULTS", tmp_path)
    monkeypatch.setattr(relative, "FILE", tmp_path / "relative.json")
    page = tmp_path / "README.md"
    page.write_text(tables.README.read_text(encoding="utf-8"), encoding="utf-8")
    put = tables.put_into_readme
    monkeypatch.setattr(relative, "put_into_readme", lambda name, text: put(name, text, page))
    runs = made_runs(20, scales=("small", "medium", "large"), noise=0.01)
    monkeypatch.setattr(relative, "shipped_runs", lambda machines: runs)
    monkeypatch.setattr(relative, "FOLDS", 2)
    monkeypatch.setattr(relative, "INTERVAL_FOLDS", 2)
    monkeypatch.setattr(relative, "RATES", (0.1,))
    return tmp_path


def test_every_part_is_measured_written_and_drawn(small):
    parts = [part for part in relative.PARTS if part != "graphs"]
    relative.run(parts, None)
    results = json.loads((small / "relative.json").read_text())
    for split in relative.SPLITS:
        error = {m: rows[-1]["error"] for m, rows in results[split]["methods"].items()}
        assert error["default"] < error["median per source"] < error["mean"]
        if split == "rows":
            assert error["looking up another row"] < 0.05 < error["median per source"]
    page = (small / "README.md").read_text(encoding="utf-8")
    for part in (*relative.SPLITS, "crosswise", "ablations", "timing"):
        table = page.partition(f"<!-- results: relative-{part} -->")[2].partition("<!-- end -->")[0]
        assert table.count("\n|") > 2, part
    assert (small / "relative.png").stat().st_size > 10_000
    assert set(results["scales"]["each"]) == {"small", "medium", "large"}
    # what was measured before stays when one part is measured again
    relative.run(["importances"], None)
    assert json.loads((small / "relative.json").read_text()).keys() == results.keys()


def test_task_graphs_are_told_of_where_they_lie(small, capsys):
    relative.run(["graphs"], None)
    assert "give --data FOLDER" in capsys.readouterr().out


def test_tasks_that_ran_on_all_processors_are_runs(tmp_path):
    (tmp_path / "tasks_cpu_gpu1_gpu2.csv").write_text(
        "task,cpu,gpu1,gpu2,app,block,nb\n1,2.0,0.5,-1.0,spotrf,64,5\n2,4.0,1.0,2.0,spotrf,64,5\n"
    )
    runs = relative.task_graph_runs(tmp_path)
    np.testing.assert_allclose(runtimes_of(runs), [[4e-3, 1e-3, 2e-3]])
    assert runs["counters"].values[0].tolist() == [64.0**3, 64.0, 5.0]


def test_shipped_runs_are_the_rows_that_the_tables_speak_of():
    runs = relative.shipped_runs(relative.MIXED)
    assert runtimes_of(runs).shape == (2024, 4)
    assert complete_runs(runs).sizes["run"] == 2024


@pytest.mark.parametrize("name", [*relative_peers.PEERS, *relative_peers.PAPER])
def test_peers_know_their_own_source_but_for_the_mean(name):
    peer = {**relative_peers.PEERS, **relative_peers.PAPER}[name]
    runs = made_runs(30)
    known, new = runs.isel(run=slice(0, 40)), runs.isel(run=slice(40, 60))
    rows = np.ones((40, len(MACHINES)), dtype=bool)
    said, truth = peer(known, rows, new), runtimes_of(new)
    own = np.median(np.abs(said[:, [0, 1, 2], [0, 1, 2]] / truth - 1))
    assert said.shape == (20, 3, 3)
    assert (own < 0.3) == (name != "mean")
