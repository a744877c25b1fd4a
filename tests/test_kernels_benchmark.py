"""The benchmark of kernels, on made-up measurements."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import kernels
import kernels_peers
import tables
import targets


def test_absent_sets_are_named_and_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(kernels, "FILE", tmp_path / "kernels.json")
    monkeypatch.setattr(kernels, "show", lambda results: None)
    monkeypatch.setattr(kernels, "shipped_folder", lambda: tmp_path)
    kernels.run(["gemm", "gpus", "zeus", "cpu"], tmp_path, tmp_path)
    said = capsys.readouterr().out
    for name in ("jetson", "nv-dvfs", "zeus"):
        assert f"there is no folder '{name}'" in said
    assert "cpu: left out, as cpu.nc, cpu.workloads.nc does not ship yet" in said
    assert not (tmp_path / "kernels.json").exists()


def test_a_choice_that_is_late_counts_and_one_in_time_regrets():
    truth, cost = np.array([1.0, 2.0, 3.0]), np.array([5.0, 3.0, 1.0])
    right = (truth, cost / truth)
    assert kernels._bounded(truth, cost, right, np.ones(3), [1.5, 2.5, 3.5]) == (0.0, 0.0)
    hasty = (0.5 * truth, 2 * cost / truth)
    late, regret = kernels._bounded(truth, cost, hasty, np.ones(3), [1.5])
    assert late == 1.0
    assert regret == pytest.approx(1 / 5 - 1)


def test_a_study_goes_on_where_it_was_and_equal_seeds_are_equal(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    pytest.importorskip("xgboost")
    monkeypatch.setattr(kernels_peers, "TREES", (100, 120))
    rng = np.random.default_rng(0)
    table, group = rng.random((40, 2)), np.arange(40)
    target = np.exp(table[:, 0])

    def tune(journal, trials):
        return kernels_peers.tune(
            table, target, group, journal=tmp_path / journal, name="study", trials=trials
        )

    whole = tune("a.log", 3)
    tune("b.log", 1)
    assert tune("b.log", 3) == whole
    said = kernels_peers.tuned_boosting(
        table, target, group, table, journal=tmp_path / "a.log", name="study", trials=3
    )
    assert np.abs(np.log(said / target)).mean() < 0.2


def test_peers_move_curves_and_lines_to_what_was_measured():
    contexts = np.array([[1.0], [2.0], [4.0]])
    own = 3 + 2 / contexts[:, 0]
    others = np.stack([own * 2, own * 5])
    given = np.array([2, 0])
    for name in ("mean curve", "a + b/f"):
        np.testing.assert_allclose(kernels_peers.CURVES[name](others, own, given, contexts), own)


def test_the_stored_results_have_every_figure():
    results = json.loads((tables.RESULTS / "kernels.json").read_text())
    found = list(targets.kernel_figures(results))
    assert len({figure.what for figure in found}) == len(found) >= 15
    assert all(figure.value >= 0 for figure in found)
