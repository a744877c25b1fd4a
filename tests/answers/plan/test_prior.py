"""What is known before a plan, against what is there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.answers.plan.prior import (
    _importance,
    all_points,
    is_on_axes,
    nearest_index,
    prior_of_distribution,
    prior_of_levels,
)
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.schema import duration_array
from msbgen.engine.generate.fit import fit_profiles
from msbgen.sources.platform import platform_contexts, replay_trace

AXES = [np.array([2.0, 4.0, 8.0, 16.0]), np.array([1.0, 1.4, 2.2])]


@given(st.integers(0, 11), st.floats(-1e-8, 1e-8))
def test_contexts_are_found_up_to_rounding(index, rounding):
    context = all_points(AXES)[index] * (1 + rounding)
    assert is_on_axes(AXES, context)
    assert nearest_index(AXES, context) == index
    assert not is_on_axes(AXES, context * [1.0, 1.001])
    assert nearest_index(AXES, context * [1.0, 1.001]) == index
    assert not is_on_axes(AXES, np.array([np.nan, 1.0]))


def test_without_measurements_low_levels_cost_more():
    prior = prior_of_levels(AXES, run_seconds=3.0)
    points = all_points(AXES)
    assert prior.cost[-1] == pytest.approx(3.0)  # at the highest levels
    for a, cost in zip(points, prior.cost):
        for b, other in zip(points, prior.cost):
            if np.all(a <= b) and np.any(a < b):
                assert cost > other
    assert not prior.calibrated
    assert not prior.before.any()
    (quantity,) = prior.quantities
    assert len(quantity.points) == 0
    with pytest.raises(ArgumentError, match="a run at the lowest levels would take"):
        prior_of_levels([np.array([1e-300, 1e300])])


def test_few_contexts_scale_the_default_costs(gzip):
    trace, _ = gzip
    known = np.array([[20.0, 1400.0, 2.3], [10.0, 700.0, 1.2]])
    measured = replay_trace(trace, known, 2)
    axes = [np.unique(column) for column in platform_contexts("grid:4x4x4").T]
    prior = prior_of_distribution(fit_profiles(measured).distribution, axes)
    took = duration_array(measured).mean(axis=1)
    guessed = prior.cost[[nearest_index(axes, row) for row in known]]
    assert np.exp(np.mean(np.log(guessed / took))) == pytest.approx(1, rel=1e-6)
    assert not prior.calibrated
    assert prior.n_known == 2


def test_a_prior_of_a_law_has_its_runs_costs_and_noise(gzip):
    _, model = gzip
    axes = [np.unique(column) for column in platform_contexts("all").T]
    prior = prior_of_distribution(model.distribution, axes)
    assert prior.calibrated
    assert prior.n_known == 40
    assert prior.before.sum() == 50
    took = np.nanmean(model.distribution.duration, axis=1)
    cost = prior.cost[[nearest_index(axes, row) for row in model.distribution.contexts]]
    assert np.abs(np.log(cost / took)).mean() < 0.02
    for quantity in prior.quantities:
        assert np.all((quantity.weight >= 0) & (quantity.weight <= 1 + 1e-9))
        assert np.all(quantity.noise_factor >= 1)
        assert quantity.noise > 0


BINS = 40


@pytest.mark.usefixtures("coarse")
def test_a_trend_without_finite_errors_is_refused(measured):
    distribution = fit_profiles(measured).distribution
    axes = [np.array([2.0, 8.0]), np.array([1.0, 2.0])]
    trend = distribution.centre.trend
    object.__setattr__(trend, "offset", trend.offset + 1e200)
    with pytest.raises(MeasurementError, match="not finite: fit the model again"):
        prior_of_distribution(distribution, axes)


def test_the_importance_of_a_quantity_is_its_effect_on_the_profile():
    """Scaled squared distances of counts per interval, by wiggling amounts bin by bin."""
    rng = np.random.default_rng(0)
    time = 0.05 * (1 + 0.3 * np.sin(np.arange(BINS) / 3))
    misses = 50.0 * (1.2 + np.cos(np.arange(BINS) / 5))
    states = np.stack([time, misses], axis=1)[None]
    importance = _importance(states, np.zeros(2), clock=1)
    for k in range(2):
        errors = rng.normal(0, 0.01, (400, BINS))
        wrong = np.repeat(states, 400, axis=0)
        wrong[..., k] *= np.exp(errors)
        # at equal progress: rates of both counters over the largest, weighted by the time
        rates, other = (
            np.stack([1 / s[..., 0], s[..., 1] / s[..., 0]], axis=2) for s in (states, wrong)
        )
        largest = rates.max(axis=(0, 1))
        size = ((rates / largest) ** 2).sum(axis=2).max()
        square = (((other - rates) / largest) ** 2).sum(axis=2) @ (time / time.sum()) / size
        expected = (errors**2 @ importance[:, k]).mean()
        assert expected == pytest.approx(square.mean(), rel=0.1)
