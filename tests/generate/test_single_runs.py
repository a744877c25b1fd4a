"""Durations of single runs: noise is distinguished from departures that neighbours share."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.core.arrays import StoredArrays
from msbgen.core.errors import ProfileError
from msbgen.generate.centre import Centre
from msbgen.generate.single_runs import noise_probability
from tasks import INSTRUCTIONS, answer, fit_distribution, task

POINTS = np.array([(w, f) for w in np.linspace(0, 1, 6) for f in np.linspace(0, 1, 6)])
CONTEXTS = np.stack([np.geomspace(2, 16, 6)[(5 * POINTS[:, 0]).round().astype(int)],
                     1.0 + POINTS[:, 1]], axis=1)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e3), st.floats(1e-6, 1e6))
def test_noise_is_likelier_than_departures_that_neighbours_share(seed, scale, unit):
    rng = np.random.default_rng(seed)
    noise = scale * rng.standard_normal(len(POINTS))
    shared = noise + 10.0 * scale * np.sin(4.0 * POINTS).prod(axis=1)
    runs = np.ones(len(POINTS), dtype=int)
    of_noise, of_both = (noise_probability(POINTS, r, runs) for r in (noise, shared))
    assert 0.0 <= of_both < of_noise <= 1.0
    assert of_both < 0.05
    other = noise_probability(unit * POINTS, scale * noise, runs)
    assert other == pytest.approx(of_noise, rel=1e-6)


def test_one_context_levels_that_never_change_and_equal_durations_have_a_probability():
    runs = np.ones(3, dtype=int)
    assert 0.0 < noise_probability(POINTS[:1], np.zeros(1), runs[:1]) < 1.0
    flat = np.zeros((3, 7))
    flat[:, 2] = [1.0, 2.0, 3.0]
    for residual in (np.zeros(3), np.array([0.1, -0.1, 0.1])):
        assert 0.0 < noise_probability(flat, residual, runs) < 1.0


def test_durations_of_noisy_single_runs_are_those_of_the_trend():
    counts, duration = task(CONTEXTS, 1, noise=0.01)
    fitted = fit_distribution(counts, duration, CONTEXTS)
    assert fitted.centre.noise > 0.5
    assert fit_distribution(*task(CONTEXTS, 2), CONTEXTS).centre.noise == 0.0
    query = np.array([[3.0, 1.3], [7.0, 1.7], [12.0, 1.1]])
    trend = fitted.centre.trend.predict(query)[..., 0].sum(axis=1)

    def departure(noise):
        found = replace(fitted, centre=replace(fitted.centre, noise=noise))
        return np.abs(np.log(answer(found, query, "mean")[1] / trend))

    stored = {name: array for name, (_, array) in fitted.centre.to_arrays().items()}
    again = read_again(stored, fitted)
    assert again.noise == fitted.centre.noise
    np.testing.assert_array_equal(again.held_out, fitted.centre.held_out)
    for clock, noise, sentence in ((1, 1.5, "numbers from 0"), (0, 0.5, "where time measures")):
        with pytest.raises(ProfileError, match=sentence):
            read_again({**stored, "noise": np.array(noise)}, fitted, clock)
    none, half, all_of_it = map(departure, (0.0, 0.5, 1.0))
    np.testing.assert_allclose(all_of_it, 0.0, atol=1e-6)
    assert none.max() > 0.001
    np.testing.assert_allclose(half, 0.5 * none, rtol=0.3)


def read_again(stored, fitted, clock=INSTRUCTIONS):
    """The centre of a distribution from stored arrays."""
    own = fitted.settings
    return Centre.from_arrays(
        StoredArrays("model", {name: np.asarray(array) for name, array in stored.items()}),
        fitted.contexts, fitted.duration, clock=clock,
        bins=own.bins, segments=own.segments, bandwidth=own.bandwidth,
    )  # fmt: skip
