"""Scores of relative times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import QUICK, made_runs
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.machines.dataset import make as make_relative
from msbgen.systems.machines.dataset import runtimes_of, words_of
from msbgen.systems.machines.evaluation import (
    complete_runs,
    constant_times,
    evaluate,
    score_rows,
    scores,
)
from msbgen.systems.machines.predictor import RelativePredictor
from msbgen.systems.machines.splits import LEAKY, folds_of, held_rows


def test_scores_of_a_case_worked_by_hand():
    truth = np.array([[10.0, 8.0, 21.0], [4.0, 2.0, 1.0]])
    predicted = np.array([[10.0, 12.0, 20.0], [4.0, 1.0, 2.0]])
    got = scores(predicted, truth, 0)
    assert got["error"] == pytest.approx((0.4 + 0.1 + 0.25 + 0.25) / 6)
    assert got["error_elsewhere"] == pytest.approx((0.4 + 0.1 + 0.25 + 0.25) / 4)
    assert got["same_order"] == 0.0
    assert got["best_found"] == 0.0
    assert got["time_lost"] == pytest.approx((10 / 8 - 1 + 2 / 1 - 1) / 2)
    logs = np.log([12 / 8, 21 / 20, 2, 2])
    assert got["factor"] == pytest.approx(np.exp(logs.mean()))


def test_scores_of_all_sources_are_the_mean_of_each():
    truth = runtimes_of(made_runs(5))
    predicted = np.random.default_rng(0).random((10, 3, 3))
    *each, mean = score_rows(predicted, truth, ["a", "b", "c"])
    assert mean["rows"] == 30
    assert mean["error"] == pytest.approx(np.mean([row["error"] for row in each]))


def test_constants_are_the_papers_mean_and_the_median_of_each_source():
    known = np.array([[1.0, 2.0], [1.0, 8.0], [2.0, 6.0]])
    truth = np.array([[3.0, 5.0]])
    np.testing.assert_allclose(
        constant_times(known, truth, each_source=True)[0], [[3, 9], [5 / 3, 5]]
    )
    means = [(3 + 1 / 2 + 1 / 8 + 1 / 3) / 6, (2 + 8 + 3 + 3) / 6]
    np.testing.assert_allclose(
        constant_times(known, truth, each_source=False)[0],
        [np.multiply(3, means), np.multiply(5, means)],
    )


@pytest.mark.parametrize("split", ["programs", "rows"])
def test_the_predictor_beats_the_constants_on_every_split(split):
    rows = evaluate(made_runs(30), split=split, folds=3, predictor=RelativePredictor(**QUICK))
    all_ = {row["method"]: row for row in rows if row["source"] == "all"}
    assert all_["default"]["error"] < 0.6 * all_["median per source"]["error"]
    assert all_["median per source"]["error"] < all_["mean"]["error"]
    assert {row["split"] for row in rows} == {split}
    assert {row["source"] for row in rows} == {"old", "new", "odd", "all"}


def test_only_runs_on_every_machine_have_an_order():
    runs = make_relative([[1.0, np.nan], [1.0, 2.0]], ["a", "b"], program=["p", "q"])
    assert list(complete_runs(runs)["program"].values) == ["q"]
    with pytest.raises(MeasurementError, match="no run ran on every machine"):
        complete_runs(runs.isel(run=[0]))


RUNS = made_runs(12, scales=("small", "medium", "large"))


@given(st.sampled_from(["runs", "programs", "scales"]), st.integers(2, 12), st.integers(0, 99))
def test_each_run_is_held_back_once(split, folds, seed):
    parts = folds_of(RUNS, split, folds, seed)
    np.testing.assert_array_equal(np.sum(parts, axis=0), 1)
    assert len(parts) == (3 if split == "scales" else folds)


def test_programs_are_held_back_whole_and_scales_too():
    for split, word in (("programs", "program"), ("scales", "scale")):
        words = words_of(RUNS, word)
        for held in folds_of(RUNS, split, 5, 1):
            assert not set(words[held]) & set(words[~held])


def test_runs_without_a_scale_are_never_held_back():
    runs = made_runs(4, scales=("small", "large", ""))
    assert not np.any(folds_of(runs, "scales"), axis=0)[words_of(runs, "scale") == ""].any()


def test_rows_of_one_run_stand_on_both_sides_by_rows_only():
    for split in ("rows", "runs", "programs", "scales"):
        parts = held_rows(RUNS, split, 5, 0)
        np.testing.assert_array_equal(np.sum(parts, axis=0), 1)
        torn = any((held.any(axis=1) & ~held.all(axis=1)).any() for held in parts)
        assert torn == (split in LEAKY)


def test_what_cannot_be_held_back_is_refused():
    with pytest.raises(MeasurementError, match="12 programs for 13 folds"):
        folds_of(RUNS, "programs", 13)
    with pytest.raises(MeasurementError, match="at 1 scale"):
        folds_of(made_runs(4, scales=("small",)), "scales")
    with pytest.raises(ArgumentError, match="split is 'suites'"):
        folds_of(RUNS, "suites")
    with pytest.raises(ArgumentError, match="folds is 1"):
        folds_of(RUNS, "runs", 1)
