"""The robust Gaussian process over contexts."""

import numpy as np
import pytest

from faulty import machine
from msbgen.engine.faults.process import Neighbourhoods, Process, ProcessSearch, raise_noise
from msbgen.engine.trend.coordinates import Coordinates, default_names


def neighbourhoods(contexts):
    return Neighbourhoods.of(Coordinates.of(default_names(contexts), contexts).scaled(contexts))


def test_one_departure_does_not_determine_the_noise():
    contexts = machine((4, 4, 4))
    values = np.log(contexts) @ [0.5, -0.2, 0.3]
    values += 0.01 * np.random.default_rng(1).standard_normal(len(values))
    values -= np.median(values)
    one, none = np.ones(len(values)), np.zeros(len(values), dtype=bool)
    clean = ProcessSearch(neighbourhoods(contexts), one, none).fit(values)
    values[20] += 1.0
    spoilt = ProcessSearch(neighbourhoods(contexts), one, none).fit(values)
    assert np.sqrt(spoilt.noise.max()) < 0.05
    raised = raise_noise(clean, neighbourhoods(contexts), values, none)
    assert np.all(raised.noise >= clean.noise)
    assert np.sqrt(raised.noise[20]) < 0.1  # its own deviation is left out


def test_neighbours_that_depart_together_raise_the_noise():
    contexts = machine((5, 5, 5))
    rng = np.random.default_rng(2)
    values = 0.005 * rng.standard_normal(len(contexts))
    corner = contexts[:, 0] == 2
    values[corner] += 0.3 * rng.standard_normal(corner.sum())
    process = Process(1e-4 * np.eye(len(values)), np.full(len(values), 1e-4))
    noise = raise_noise(
        process, neighbourhoods(contexts), values, np.zeros(len(values), bool)
    ).noise
    assert np.median(noise[corner]) > 20 * np.median(noise[contexts[:, 0] > 15])


@pytest.mark.parametrize("contexts", [np.array([[1.0], [2.0], [3.0], [4.0]]), machine((3, 3, 1))])
def test_few_contexts_have_neighbours(contexts):
    for group in neighbourhoods(contexts).groups:
        assert len(group) == len(contexts)
        assert not np.any(group == np.arange(len(contexts))[:, None])


def test_variances_are_raised_to_the_usual_one_around():
    contexts = machine((5, 5, 5))
    variance = np.zeros((len(contexts), 2))
    variance[7] = 1.0
    assert np.array_equal(neighbourhoods(contexts).floored(variance), variance)
    corner = contexts[:, 0] == 2
    variance[corner, 1] = 1e-3 * np.random.default_rng(3).chisquare(1, corner.sum())
    floored = neighbourhoods(contexts).floored(variance)
    assert np.all(floored >= variance)
    assert np.all(floored[corner, 1] > 1e-4)
    assert np.array_equal(floored[:, 0], variance[:, 0])


def test_quantities_that_share_inverses_have_their_own_process():
    contexts = machine((3, 3, 3))
    rng = np.random.default_rng(4)
    skipped, scale = np.arange(len(contexts)) == 5, rng.uniform(0.5, 2.0, len(contexts))
    quantities = rng.standard_normal((3, 1)) * np.log(contexts[:, 0])
    quantities = quantities + 0.01 * rng.standard_normal((3, len(contexts)))
    shared = ProcessSearch(neighbourhoods(contexts), scale, skipped)
    for values in quantities:
        alone = ProcessSearch(neighbourhoods(contexts), scale, skipped).fit(values)
        found = shared.fit(values)
        np.testing.assert_array_equal(found.smooth, alone.smooth)
        np.testing.assert_array_equal(found.noise, alone.noise)
        values[5] = 1e9  # a context that is skipped has no influence
        np.testing.assert_array_equal(shared.fit(values).smooth, alone.smooth)
