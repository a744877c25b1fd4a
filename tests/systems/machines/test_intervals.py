"""Conformal intervals per pair of machines."""

from dataclasses import replace

import numpy as np
import pytest

from machines import made_predictions
from msbgen.core.errors import MeasurementError
from msbgen.systems.learn.randomised import Trees
from msbgen.systems.learn.trees import Nodes
from msbgen.systems.machines.intervals import MachineCalibration
from msbgen.systems.machines.predictions import joined
from msbgen.systems.machines.predictor import PARTS
from msbgen.systems.machines.widths import IntervalWidths, count_width_features, fit_widths


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


def parts_of(*parts, source_time=True, n=3, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 3, 3))
    seconds = np.exp(rng.normal(size=(n, 3)))
    ratio, kriged, prior = (rng.normal(size=(n, 3, 3)) for _ in range(3))
    return made_predictions(
        ratio, seconds=seconds, kriged=kriged, prior=prior, parts=parts or PARTS,
        covariance=root @ root.transpose(0, 2, 1), fit=np.arange(n) % 2, source_time=source_time,
    )  # fmt: skip


def test_by_ratios_the_time_is_that_on_the_source_times_the_ratio():
    a = parts_of("boosting")
    log_times = a.log_times([1])
    np.testing.assert_allclose(log_times[:, 0], a.log[:, 1] + a.ratio[:, 1, 0])
    np.testing.assert_array_equal(log_times[:, 1], a.log[:, 1])
    a = parts_of("kriging")  # from two sources, the mean of both
    expected = (a.log[:, [0, 1]] + a.kriged[:, [0, 1], 2]).mean(axis=1)
    np.testing.assert_allclose(a.log_times([0, 1])[:, 2], expected)


def test_by_the_trees_it_is_the_conditional_expectation():
    a = parts_of("trees")
    got = a.log_times([2])
    for i in range(3):
        c = a.covariance[i % 2]
        want = a.prior[i, 2] + c[:, 2] / c[2, 2] * (a.log[i, 2] - a.prior[i, 2, 2])
        np.testing.assert_allclose(got[i], want)


@pytest.mark.parametrize("sources", [[0, 2], [2, 0]])
def test_several_machines_measured_in_any_order(sources):
    a = parts_of("trees")
    got = a.log_times(sources)
    for i in range(3):
        c, prior = a.covariance[i % 2], a.prior[i, [0, 2]].mean(axis=0)
        gain = c[1, [0, 2]] @ np.linalg.inv(c[np.ix_([0, 2], [0, 2])])
        np.testing.assert_allclose(
            got[i, 1], prior[1] + gain @ (a.log[i] - prior)[[0, 2]], rtol=1e-6
        )
    np.testing.assert_array_equal(got[:, [0, 2]], a.log[:, [0, 2]])


def test_all_is_the_weighted_mean_in_log():
    boosting, kriging, trees = (parts_of(part).log_times([0]) for part in PARTS)
    want = 0.3 * boosting + 0.6 * kriging + 0.1 * trees
    np.testing.assert_allclose(parts_of().log_times([0]), want)


def test_without_the_sources_time_the_trees_keep_their_ratios():
    a = parts_of("trees", source_time=False)
    got = a.log_times([0])
    np.testing.assert_allclose(got[:, 1] - got[:, 0], a.prior[:, 0, 1] - a.prior[:, 0, 0])


def test_predictions_of_several_fits_keep_their_covariances():
    parts = [
        replace(part, covariance=part.covariance[:1], fit=0 * part.fit)
        for part in (parts_of("trees", n=4, seed=seed) for seed in (1, 2))
    ]
    whole = joined(parts)
    np.testing.assert_allclose(whole.log_times([1]), np.vstack([p.log_times([1]) for p in parts]))
    np.testing.assert_allclose(whole.some(np.array([5])).log_times([1]), whole.log_times([1])[5:6])
