"""Conformal intervals per pair of machines."""

import numpy as np
import pytest

from machines import made_predictions
from msbgen.core.errors import MeasurementError
from msbgen.learn.randomised import Trees
from msbgen.learn.trees import Nodes
from msbgen.machines.intervals import MachineCalibration
from msbgen.machines.widths import IntervalWidths, count_width_features, fit_widths


def calibration(n=99, each=1, seed=0, scale=1.0):
    ratio = scale * np.random.default_rng(seed).normal(size=(n * each, 2, 2))
    predictions = made_predictions(ratio)
    # trees of one leaf: all widths are one, of typical distances and of mean ones
    leaf, none = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.uint8)
    columns = count_width_features(predictions.parts, 2, 0)
    nodes = Nodes(leaf, leaf.astype(np.float32), leaf, leaf, none, leaf, columns)
    trees = Trees(nodes, np.array([[0.0, 9.9]], dtype=np.float32))
    return MachineCalibration(
        predictions, np.repeat(np.arange(n), each), IntervalWidths(trees), np.zeros_like(ratio)
    )


def test_of_99_programs_the_largest_miss_is_exceeded_by_one_in_a_hundred():
    made = calibration()
    got = made.half_widths(made.predictions, [0], 0.01, ["a", "b"])
    assert got[0, 1] == pytest.approx(np.abs(made.predictions.ratio[:, 0, 1]).max(), rel=1e-6)
    assert (got[:, 0] == 0).all()
    nine = np.sort(np.abs(made.predictions.ratio[:, 0, 1]))[89]
    tenth = made.half_widths(made.predictions, [0], 0.1, ["a", "b"])[0, 1]
    assert tenth == pytest.approx(nine, rel=1e-6)


def test_ten_runs_of_a_program_say_no_more_than_one_of_ten():
    made = calibration(n=20, each=10)
    with pytest.raises(MeasurementError, match="200 runs of 20 programs"):
        made.half_widths(made.predictions, [0], 0.01, ["a", "b"])


def test_machines_that_were_never_measured_together_have_no_interval():
    made = calibration()
    made.predictions.seconds[:, 1] = np.nan
    with pytest.raises(MeasurementError, match="no run is on 'b'"):
        made.half_widths(made.predictions, [0], 0.1, ["a", "b"])


def predictions(programs=60, each=5, seed=0):
    """Two machines; runs of the second configuration are predicted ten times worse."""
    rng = np.random.default_rng(seed)
    n = programs * each
    context = np.eye(2)[rng.integers(2, size=n)]
    ratio = rng.normal(size=(n, 2, 2)) * (0.02 * context[:, 0] + 0.2 * context[:, 1])[:, None, None]
    return made_predictions(ratio, context=context), np.repeat(np.arange(programs), each)


def test_runs_that_are_hard_to_predict_are_given_wider_intervals():
    known, program = predictions()
    widths, unbiased = fit_widths(known, program, seed=0)
    hard = known.context[:, 1] == 1
    assert np.exp(unbiased[hard, 0, 1].mean() - unbiased[~hard, 0, 1].mean()) > 3
    assert np.isnan(unbiased[:, [0, 1], [0, 1]]).all()
    new, _ = predictions(seed=1)
    got = widths.log_width(new, [0])[:, 1]
    hard = new.context[:, 1] == 1
    assert got[hard].min() > got[~hard].mean()
    np.testing.assert_allclose(
        widths.log_width(new, [0, 1]), (widths.log_width(new, [0]) + widths.log_width(new, [1])) / 2
    )


def test_unbiased_widths_do_not_depend_on_times_of_the_program():
    """Up to which programs share a leaf with it: its error is in no leaf of its trees."""
    known, program = predictions(programs=20)
    _, unbiased = fit_widths(known, program, seed=0)
    known.seconds[:5, 1] *= np.e**9
    _, moved = fit_widths(known, program, seed=0)
    np.testing.assert_allclose(moved[:5, 0, 1], unbiased[:5, 0, 1])
    assert not np.allclose(moved[5:, 0, 1], unbiased[5:, 0, 1])
