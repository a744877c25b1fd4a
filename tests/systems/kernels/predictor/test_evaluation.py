"""Scores on kernels that were held out."""

import numpy as np
import pytest

from kernelling import CLOCKS, made_kernels
from msbgen.core.errors import MeasurementError
from msbgen.systems.kernels.dataset import runtimes_of
from msbgen.systems.kernels.predictor import evaluation
from msbgen.systems.kernels.predictor.evaluation import MEASURES, evaluate, scores
from msbgen.systems.kernels.predictor.intervals import Scores, half_width
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor, kernel_folds


def test_scores_by_hand():
    row = scores(np.array([1.0, 1.07, 0.88, 2.0]), np.ones(4))
    assert row["error"] == pytest.approx((0.07 + 0.12 + 1) / 4)
    assert [row[m] for m in MEASURES[1:]] == [0.25, 0.5, 0.75, 0.75]


def test_the_default_beats_the_mean_curve_on_left_out_kernels():
    rows = evaluate(made_kernels(noise=0.01), folds=7)
    found = {(r["method"], r["kind"], r["quantity"]): r for r in rows}
    assert found["default", "matmul", "runtime"]["rows"] == 35
    for quantity, factor in (("runtime", 5), ("power", 1.5)):
        ours, curve = (found[m, "all", quantity]["error"] for m in ("default", "mean curve"))
        assert factor * ours < curve
    with pytest.raises(MeasurementError, match="no kind has 4 measurements"):
        evaluate(made_kernels(sizes=(64,)), folds=2)


def test_the_baseline_is_scored_on_the_folds_of_the_method(monkeypatch):
    """The mean curve of a kernel of two is that of the other fold, for any seed."""
    runs = made_kernels(sizes=(64, 96, 128, 192), clocks=CLOCKS[:1])
    for seed in range(6):
        fold = kernel_folds(runs, 2, seed)
        log = np.log(runtimes_of(runs))
        curve = np.array([log[fold != k].mean() for k in fold])
        predictor = KernelPredictor(random_state=seed)
        # the predictor itself needs more kernels than a fold has: every prediction is 1 s
        ones = (np.ones(4), np.ones(4))
        monkeypatch.setattr(evaluation, "cross_predict", lambda *_, ones=ones, **__: ones)
        rows = evaluate(runs, folds=2, predictor=predictor)
        row = next(r for r in rows if (r["method"], r["quantity"]) == ("mean curve", "runtime"))
        assert row["error"] == pytest.approx(np.abs(np.expm1(curve - log)).mean())


def scored(runtime, kernel, kind="a"):
    n = len(runtime)
    return Scores(np.array([kind] * n), np.array(kernel), np.array(runtime, float), np.zeros(n))


def test_the_quantile_weights_kernels_equally():
    found = scored([*[0.1] * 90, *[0.5] * 9], [*[0] * 90, *range(1, 10)])
    assert half_width(found, "a", 0.1) == 0.5
    assert half_width(scored(np.arange(1, 10), range(9)), "a", 0.1) == 9
    assert half_width(scored(np.arange(1, 20), range(19)), "a", 0.1) == 18


def test_rates_that_kernels_do_not_support_are_refused():
    found = scored(np.arange(1, 10), range(9))
    with pytest.raises(MeasurementError, match="of 9 kernels of kind 'a'"):
        half_width(found, "a", 0.05)
    with pytest.raises(MeasurementError, match="of 0 kernels of kind 'b'"):
        half_width(found, "b", 0.1)
