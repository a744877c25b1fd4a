"""The benchmark of kernels, on made-up measurements."""

import json

import kernels_peers
import kernels_study
import numpy as np
import pytest
import tables
import targets

from msbgen.systems.kernels.choice.costs import Costs


def test_absent_sets_are_named_and_left_out(tmp_path, capsys, monkeypatch):
    for module in (kernels_study, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(kernels_study, "publish", lambda tables: None)
    monkeypatch.setattr(kernels_study.kernels_pictures, "draw", lambda results: None)
    monkeypatch.setattr(kernels_study, "shipped_folder", lambda: tmp_path)
    kernels_study.run(["gemm", "gpus", "zeus", "cpu"], tmp_path, tmp_path)
    printed = capsys.readouterr().out
    for name in ("jetson", "nv-dvfs", "zeus"):
        assert f"there is no folder '{name}'" in printed
    assert "cpu: left out, as cpu.nc, cpu.workloads.nc does not ship yet" in printed
    assert not (tmp_path / "kernels.json").exists()


def test_a_choice_that_is_late_counts_and_one_in_time_regrets():
    truth, cost = np.array([1.0, 2.0, 3.0]), np.array([5.0, 3.0, 1.0])
    right = (truth, cost / truth)
    assert kernels_study._bounded(truth, cost, right, np.ones(3), [1.5, 2.5, 3.5]) == (0.0, 0.0)
    hasty = (0.5 * truth, 2 * cost / truth)
    late, regret = kernels_study._bounded(truth, cost, hasty, np.ones(3), [1.5])
    assert late == 1.0
    assert regret == pytest.approx(1 / 5 - 1)


def test_an_interrupted_search_resumes_and_equal_seeds_are_equal(tmp_path, monkeypatch):
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
    predicted = kernels_peers.tuned_boosting(
        table, target, group, table, journal=tmp_path / "a.log", name="study", trials=3
    )
    assert np.abs(np.log(predicted / target)).mean() < 0.2


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


def test_surfaces_of_clock_and_batch_recover_their_own_form():
    clock, batch = (x.ravel() for x in np.meshgrid([1.0, 2.0, 4.0], [1.0, 2.0, 8.0]))
    contexts, given = np.stack([clock, batch], axis=1), np.array([0, 2, 4, 6, 8])
    curve = np.log(3 + 2 / clock)
    own = 0.3 * (3 + 2 / clock) * batch**0.8
    predicted = kernels_peers.SURFACES["mean curve"](curve, contexts, given, own, True)
    np.testing.assert_allclose(predicted, own)
    for is_time, own in ((True, 1 + batch * (2 + 3 / clock)), (False, 4 + clock + batch * clock)):
        predicted = kernels_peers.SURFACES["a + b/f"](curve, contexts, given, own, is_time)
        np.testing.assert_allclose(predicted, own, rtol=1e-6)


def test_the_mean_curve_is_that_of_other_programs_at_each_clock():
    def costs(contexts, time):
        return Costs(
            tuple(f"p{i}" for i in range(len(time))), tuple("ab"[: len(time)]), ("clock",),
            ("1",), np.array(contexts), np.array(time), np.array(time),
        )  # fmt: skip

    others = costs([[2.0], [1.0]], [[2.0, 4.0], [8.0, np.nan]])
    own = costs([[1.0], [1.5], [2.0]], [[1.0, 1.0, 1.0]])
    found = np.exp(kernels_study._curve(others.time, others, own))
    np.testing.assert_allclose(found, [4.0, 4.0, 4.0])
    found = np.exp(kernels_study._curve(others.time * [1, 4], others, own))
    np.testing.assert_allclose(found, [16.0, 8.0, 4.0])


def test_the_regret_of_a_choice_by_hand():
    truth = np.array([1.0, 2.0, 3.0, 10.0, 5.0])
    predicted = np.array([2.0, 1.0, 3.0, 1.0, 2.0])
    assert kernels_study.choice_regret(
        predicted, truth, np.array([0, 0, 0, 1, 1])
    ) == pytest.approx((1 + 1) / 2)
    assert kernels_study.choice_regret(truth, truth, np.array([0, 0, 0, 1, 1])) == 0
