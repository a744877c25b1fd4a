"""Bounds on contexts that are chosen by them."""

import numpy as np
import pytest

from msbgen.engine.bounds import choices
from msbgen.engine.bounds.calibration import Calibration
from msbgen.engine.bounds.choices import RefittedLevels, careful_log_time
from msbgen.engine.bounds.left_out import Query, in_segments
from msbgen.engine.bounds.model import CalibratedModel
from msbgen.engine.trend.fit import fit_trend
from msbgen.engine.trend.time_model import Windows


@pytest.mark.parametrize("alone", [True, False], ids=["each level alone", "levels together"])
def test_levels_are_predicted_by_trends_fitted_without_them(calibrated, monkeypatch, alone):
    monkeypatch.setattr(choices, "_MOST_ALONE", 40 if alone else 0)
    held, distribution = calibrated.calibration.left_out, calibrated.distribution
    refitted = RefittedLevels.fit(held, distribution)
    made, contexts, centre = refitted.replaced(held), held.trend.contexts, held.centre
    lacks = (contexts[:, 0] == 4.0) | (False if alone else contexts[:, 1] == 1.5)
    kept, means = np.flatnonzero(~lacks), distribution.known_states()
    trend = fit_trend(
        contexts[kept], means[kept], weights=centre.trend.weights[kept], segments=centre.segments
    ).with_time_model(Windows.of_bins(means[kept][..., 0]))
    others = centre.of_others(kept, means[kept], trend, anew=True)
    levels = dict.fromkeys(r for r, _ in held.levels)
    (rows,) = [
        rows for r, rows in held.levels if r == 0 and (contexts[held.context[rows], 0] == 4.0).all()
    ]
    assert list(levels) == [0, 1]
    if not alone:  # the second of the three inner levels of both is 4 ways and 1.5 GHz
        double = contexts[held.context[rows], 1] == 1.5
        np.testing.assert_array_equal(made.weight[rows[double]], 0.0)
        rows = rows[~double]
    query = contexts[held.context[rows]]
    wanted = in_segments(others.amounts(query, others.log_weights(query)), held.segments)
    np.testing.assert_allclose(made.predicted[rows], wanted, rtol=1e-6)
    assert (made.weight[rows] > 0).all()
    assert made.weight.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(made.predicted[held.alone], held.predicted[held.alone])


def test_errors_downwards_widen_bounds_for_choices(calibration, between):
    held = calibration.left_out
    fast = held.log_time - np.log(1.3)  # every run was faster than predicted
    lowered = Calibration(held, calibration.quantities)
    lowered.left_out.__dict__["log_time"] = fast
    both = Calibration(held, calibration.quantities, chosen=True)
    try:
        one, two = (each.duration_bound(between, 0.2) for each in (lowered, both))
    finally:
        del held.__dict__["log_time"]
    assert (two > 1.2 * one).all()


def times(monkeypatch, held, law):
    """Let a law of the contexts (q, 2) be the predicted times."""
    monkeypatch.setattr(Query, "log_time", property(lambda query: np.log(law(*query.contexts.T))))
    return lambda contexts: careful_log_time(held, contexts, np.log(law(*contexts.T)))


def test_time_falls_suddenly_at_no_place_that_was_not_measured(calibration, monkeypatch):
    held = calibration.left_out  # levels of ways from 2, 3, 4 on
    contexts = np.array([[2.5, 1.5], [5.0, 1.3], [4.0, 1.0], [8.0, 2.0], [2.0, 1.7]])
    slowest = times(monkeypatch, held, lambda ways, clock: np.where(ways > 2.2, 1.0, 3.0))
    # 1/2.5 is two fifths of the way from 1/3 to 1/2
    np.testing.assert_allclose(np.exp(slowest(contexts)), [3**0.4, 1, 1, 1, 3])
    for law in (
        lambda ways, clock: 1.0 + 2.0 / ways + 5.0 / clock,  # in proportion to the resources
        lambda ways, clock: 0.1 * ways + clock**2,  # more is slower
        lambda ways, clock: np.full(ways.shape, 2.0),
    ):
        found = times(monkeypatch, held, law)(contexts)
        np.testing.assert_allclose(found, np.log(law(*contexts.T)), rtol=1e-12)


def test_bounds_for_choices_are_above_the_line_between_levels(calibrated, between):
    bounds = calibrated.bounds(between, 0.5, chosen=True)
    expected, bound = (bounds[name].values for name in ("expected_duration", "duration_bound"))
    held = calibrated.for_choices().refitted.replaced(calibrated.left_out)
    careful = np.exp(careful_log_time(held, between, np.log(expected)))
    assert (careful >= expected * (1 - 1e-12)).all()
    assert (bound >= careful * (1 - 1e-12)).all()


def test_a_saved_model_holds_the_fits_for_choices(calibrated, between, tmp_path):
    ready = calibrated.for_choices()
    ready.save(tmp_path / "m.nc")
    again = CalibratedModel.load(tmp_path / "m.nc")
    assert np.array_equal(again.refitted.predicted, ready.refitted.predicted)
    bound = calibrated.duration_bound(between, 0.1, chosen=True)
    np.testing.assert_allclose(again.duration_bound(between, 0.1, chosen=True), bound, rtol=1e-12)
    assert again.bounds(between, 0.1).identical(calibrated.bounds(between, 0.1))
    assert not np.allclose(bound, calibrated.duration_bound(between, 0.1))
