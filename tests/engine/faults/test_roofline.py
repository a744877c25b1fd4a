"""Time that caps add, on a machine with one roofline."""

import numpy as np
import pytest

from faulty import machine
from msbgen.engine.faults.regression import TimeRegression
from msbgen.engine.faults.roofline import fit_roofline
from msbgen.engine.trend.caps import cap_rates


def roofline(noise=0.0):
    """Contexts, and time and a count of 40 bins in them: the cap binds at the least bandwidth."""
    rng, contexts = np.random.default_rng(0), machine((3, 4, 3))
    misses = np.geomspace(10.0, 1e4, 40) * (20.0 / contexts[:, :1]) ** 0.3
    free = 0.02 / contexts[:, 2:] + 1e-7 * misses
    least = misses / (1000.0 * contexts[:, 1:2])
    time = np.maximum(free, least) * np.exp(noise * rng.standard_normal(free.shape))
    return contexts, np.stack([time, misses], axis=2), np.maximum(least - free, 0.0)


def test_the_time_that_a_cap_adds_is_found():
    contexts, state, added = roofline(noise=0.002)
    rates = cap_rates(contexts, state)
    assert {rate[:2] for rate in rates} == {(1, 1)}
    fitted = fit_roofline(rates, contexts, state)
    excess = fitted.excess(contexts, state)
    time, counts = state[..., 0].sum(axis=1), state[..., 1:].sum(axis=1)
    assert added.sum(axis=1).max() > 0.3 * time.max()
    assert excess.sum(axis=1) == pytest.approx(added.sum(axis=1), abs=0.1 * added.sum(axis=1).max())
    whole = fitted.excess_of_every_pair(contexts, state)
    assert np.diag(whole) == pytest.approx(excess.sum(axis=1))
    left = []
    for other in (np.zeros(len(time)), excess.sum(axis=1)):
        model = TimeRegression.fit(contexts, time, counts, excess=other)
        left.append(np.abs(np.log((model.predict(contexts, counts) + other) / time)).max())
    assert left[1] < 0.2 * left[0]


def test_the_uncertainty_of_a_cap_grows_with_the_time_that_it_adds():
    contexts, state, added = roofline()
    fitted = fit_roofline(cap_rates(contexts, state), contexts, state)
    deviation = np.sqrt(fitted.variance(contexts, state))
    most = added.sum(axis=1).argmax()
    assert 0.02 < deviation[most] < 0.15
    assert deviation[contexts[:, 1] > 1000].max() < 0.01


def test_without_a_cap_nothing_is_added():
    contexts, state, _ = roofline()
    none = fit_roofline([], contexts, state)
    assert not none.excess(contexts, state).any()
    assert not none.excess_of_every_pair(contexts, state).any()
    assert not none.variance(contexts, state).any()
