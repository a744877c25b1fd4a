"""Regression of time on counts: exact for a law of its form, and robust against a fault."""

import numpy as np
import pytest

from faulty import machine, task
from msbgen.engine.faults.regression import TimeRegression, grows_with_time


def test_a_law_of_the_form_is_found_exactly():
    contexts = machine((4, 4, 4))
    _, counts = task(contexts, noise=0)
    time = 0.2 + 0.9 / contexts[:, 2] + 3e-8 * counts[:, 1] + 4e-6 * counts[:, 1] / contexts[:, 1]
    model = TimeRegression.fit(contexts, time, counts)
    assert model.predict(contexts, counts) == pytest.approx(time, rel=1e-6)


def test_predictions_of_every_pair_hold_those_of_each_context():
    contexts = machine()
    time, counts = task(contexts)
    model = TimeRegression.fit(contexts, time, counts)
    every = model.predict_every_pair(contexts, counts)
    assert np.diag(every) == pytest.approx(model.predict(contexts, counts))
    assert every[3, 5] == pytest.approx(model.predict(contexts[3:4], counts[5:6])[0])


def test_a_level_of_zero_that_was_not_fitted_has_a_finite_time():
    contexts = machine((4, 4, 4))
    time, counts = task(contexts)
    model = TimeRegression.fit(contexts[1:], time[1:], counts[1:])
    contexts[0] = 0.0
    assert np.isfinite(model.predict_every_pair(contexts, counts)).all()


def test_a_slow_context_hardly_changes_predictions_of_others():
    contexts = machine((5, 5, 5))
    time, counts = task(contexts)
    clean = TimeRegression.fit(contexts, time, counts).predict(contexts, counts)
    time[60] *= 3.0
    spoilt = TimeRegression.fit(contexts, time, counts).predict(contexts, counts)
    assert np.abs(np.log(spoilt / clean)).max() < 0.02


def test_several_regressions_are_those_of_each_alone():
    contexts = machine((4, 3, 3))
    time, counts = task(contexts)
    rng = np.random.default_rng(0)
    times = time * rng.uniform(0.5, 2.0, (5, 1)) * np.exp(0.01 * rng.standard_normal((5, 36)))
    amounts = counts * np.exp(0.1 * rng.standard_normal((5, *counts.shape)))
    excess, weight = 0.2 * times * rng.random(times.shape), rng.uniform(0.1, 1.0, times.shape)
    together = TimeRegression.fit(contexts, times, amounts, excess=excess, weight=weight)
    runs = amounts[None] * rng.uniform(0.9, 1.1, (2, 1, 1, 1))
    predicted = together.predict(contexts, runs)
    pairs = together.predict_every_pair(contexts, amounts)
    for i, one in enumerate(zip(times, amounts, excess, weight)):
        alone = TimeRegression.fit(contexts, *one[:2], excess=one[2], weight=one[3])
        assert together.table[i] == pytest.approx(alone.table, rel=1e-9)
        for j in range(2):
            expected = alone.predict(contexts, runs[j, i])
            assert predicted[j, i] == pytest.approx(expected, rel=1e-9)
        assert pairs[i] == pytest.approx(alone.predict_every_pair(contexts, one[1]), rel=1e-9)


def test_a_resource_of_one_level_or_with_zero_has_no_reciprocal():
    contexts = np.column_stack([np.arange(6.0), np.ones(6)])
    model = TimeRegression.fit(contexts, np.full(6, 2.0), np.ones((6, 1)))
    assert np.isnan(model.least).all()
    assert model.predict(contexts, np.ones((6, 1))) == pytest.approx(2.0)


@pytest.mark.parametrize("levels", [(3, 3, 3), (5, 5, 5)])
@pytest.mark.parametrize("slow", [1.0, 3.0])
def test_cycles_grow_with_time_and_events_do_not(levels, slow):
    contexts = machine(levels)
    time, events = task(contexts)
    time[7] *= slow
    rng = np.random.default_rng(1)
    cycles = 1e9 * contexts[:, 2] * time * (1 - 0.01 * rng.random(len(time)))
    counts = np.column_stack([events, cycles, np.full(len(time), 5e8), np.zeros(len(time))])
    found = grows_with_time(contexts, counts, counts / time[:, None])
    assert found.tolist() == [False, False, True, False, False]
