"""Scores of kernels that were held back."""

import numpy as np
import pytest

from kernelling import made_kernels
from msbgen.core.errors import MeasurementError
from msbgen.kernels.predictor.evaluation import MEASURES, choice_regret, evaluate_kernels, scores


def test_scores_by_hand():
    found = scores(np.array([1.0, 1.07, 0.88, 2.0]), np.ones(4))
    assert found["error"] == pytest.approx((0.07 + 0.12 + 1) / 4)
    assert [found[m] for m in MEASURES[1:]] == [0.25, 0.5, 0.75, 0.75]


def test_the_regret_of_a_choice_is_what_it_costs():
    truth = np.array([1.0, 2.0, 3.0, 10.0, 5.0])
    said = np.array([2.0, 1.0, 3.0, 1.0, 2.0])
    assert choice_regret(said, truth, np.array([0, 0, 0, 1, 1])) == pytest.approx((1 + 1) / 2)
    assert choice_regret(truth, truth, np.array([0, 0, 0, 1, 1])) == 0


def test_the_default_beats_the_mean_curve_on_kernels_never_shown():
    rows = evaluate_kernels(made_kernels(noise=0.01), folds=7)
    found = {(r["method"], r["kind"], r["quantity"]): r for r in rows}
    assert found["default", "matmul", "runtime"]["rows"] == 35
    for quantity, factor in (("runtime", 5), ("power", 1.5)):
        ours, curve = (found[m, "all", quantity]["error"] for m in ("default", "mean curve"))
        assert factor * ours < curve
    with pytest.raises(MeasurementError, match="there are 1 kernels"):
        evaluate_kernels(made_kernels(sizes=(64,)), folds=2)
