"""Durations over the contexts, beside a dense oracle, and on curves that people measure."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from msbgen.engine.trend.durations import Durations

CORES = np.array([[1.0], [2.0], [4.0], [8.0], [16.0], [32.0]])


def fitted(contexts, seconds, runs=1.0, *, has_line=True, **options):
    weight = np.broadcast_to(np.asarray(runs, dtype=float), len(contexts))
    return Durations.fit(contexts, np.log(seconds), weight, has_line=has_line, **options)


def dense(durations, row):
    """Covariances of the known contexts and of those with `row` first, by their definition."""
    smoothness, length, signal, noise, _ = durations.hypotheses[row]
    z = np.log(durations.contexts)
    z = (z - z.min(axis=0)) / np.ptp(z, axis=0) - 0.5
    levels = durations.contexts - durations.contexts.min(axis=0)
    levels = levels / np.ptp(durations.contexts, axis=0) - 0.5
    steps = np.sqrt(2 * smoothness) * np.abs(z[:, None] - z) / length
    factor = {0.5: 1.0, 1.5: 1.0 + steps, 2.5: 1.0 + steps + steps**2 / 3}[smoothness]
    smooth = signal**2 * (factor * np.exp(-steps)).prod(axis=2)
    line = 100.0 + 1200.0 * z @ z.T + 4.0 * levels @ levels.T
    return smooth + (line if durations.has_line else 0.0), noise**2 / durations.weight


@pytest.mark.parametrize("has_line", [True, False])
def test_predictions_are_those_of_the_dense_covariances(has_line):
    rng = np.random.default_rng(1)
    contexts = np.array([[x, y] for x in (1.0, 2.0, 5.0) for y in (10.0, 30.0)])
    departure = rng.normal(0.0, 0.1, 6)
    durations = Durations.fit(
        contexts, departure, np.array([1.0, 2, 3, 1, 2, 3]), has_line=has_line
    )
    middle = departure.mean() if has_line else 0.0
    at_known, left_out = np.zeros(6), np.zeros(6)
    for row, probability in enumerate(durations.hypotheses[:, 4]):
        covariance, noise = dense(durations, row)
        inverse = np.linalg.inv(covariance + np.diag(noise))
        alpha = inverse @ (departure - middle)
        at_known += probability * (middle + covariance @ alpha)
        left_out += probability * (departure - alpha / np.diag(inverse))
    np.testing.assert_allclose(durations.predict(contexts), at_known, atol=1e-6)
    np.testing.assert_allclose(durations.left_out, left_out, atol=1e-6)


def test_the_evidence_is_a_difference_of_log_densities():
    durations = fitted(CORES, 64.0 / CORES[:, 0])
    one = durations.departure + np.array([0.0, 0.2, 0.0, -0.1, 0.0, 0.0])
    values = np.stack([durations.departure, one])
    evidence = durations.log_evidence(values)
    # of one hypothesis, both have the density of a multivariate normal
    (row, log), *_ = durations._log_densities(values, (0.0, 0))
    alone = Durations(
        CORES, durations.departure, durations.weight, True, np.array([[*row[40], 1.0]])
    )
    covariance, noise = dense(alone, 0)
    law = multivariate_normal(cov=covariance + np.diag(noise), allow_singular=True)
    wanted = np.diff(law.logpdf(values - durations.departure.mean()))
    np.testing.assert_allclose(np.diff(log[40]), wanted, rtol=1e-5)
    assert evidence[0] > evidence[1] + 3


def test_saturation_is_a_property_of_the_task():
    """Runs of one setting seldom differ by a factor of two: the last level is believed."""
    seconds = np.array([64.0, 32.0, 16.0, 8.0, 4.0, 4.0])
    predicted = np.exp(fitted(CORES, seconds).predict(CORES))
    np.testing.assert_allclose(predicted, seconds, rtol=0.02)


def test_noisy_runs_are_not_followed_where_repeats_show_the_noise():
    rng = np.random.default_rng(0)
    levels = np.linspace(1.0, 4.0, 12)[:, None]
    seconds = np.exp(-np.log(levels[:, 0]) + rng.normal(0.0, 0.1, 12))
    followed = np.exp(fitted(levels, seconds).predict(levels))
    smoothed = np.exp(fitted(levels, seconds, repeats=(24 * 0.1**2, 24)).predict(levels))
    truth = 1.0 / levels[:, 0]
    assert np.abs(smoothed / truth - 1).mean() < 0.06
    assert np.abs(smoothed / truth - 1).mean() <= np.abs(followed / truth - 1).mean()


@pytest.mark.parametrize(
    ("law", "error"),
    [
        (lambda x: 3.0 * x**-0.8, 0.005),
        (lambda x: 0.5 + 10.0 / x, 0.03),
        (lambda x: 10.0 / x + 0.02 * x, 0.05),
    ],
    ids=["power", "Amdahl", "communication"],
)
def test_usual_curves_are_predicted_between_the_levels(law, error):
    between = np.array([[1.5], [3.0], [6.0], [12.0], [24.0]])
    predicted = np.exp(fitted(CORES, law(CORES[:, 0])).predict(between))
    np.testing.assert_allclose(predicted, law(between[:, 0]), rtol=error)


@settings(max_examples=25)
@given(st.integers(1, 8), st.integers(1, 3), st.floats(1e-6, 1e6), st.booleans(), st.data())
def test_any_table_has_finite_durations_in_its_unit(n, m, unit, has_line, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    contexts = rng.uniform(1.0, 9.0, (n, m))
    if data.draw(st.booleans()):
        contexts[:, 0] = 2.0  # settings of one level
    seconds = np.exp(rng.normal(0.0, data.draw(st.floats(0.0, 3.0)), n))
    one = fitted(contexts, seconds, has_line=has_line).predict(contexts)
    assert np.isfinite(one).all()
    if has_line:
        other = fitted(contexts, unit * seconds, has_line=True).predict(contexts)
        np.testing.assert_allclose(other - np.log(unit), one, atol=1e-3)


def test_contexts_left_out_of_a_level_that_is_zero_are_predicted():
    contexts = np.array([[0.0], [1.0], [2.0], [3.0]])
    durations = fitted(contexts, np.array([4.0, 3.0, 2.5, 2.2]))
    rest = durations.refit(np.array([1, 2, 3]), durations.departure[1:])
    assert np.isfinite(rest.predict(contexts[:1])).all()
