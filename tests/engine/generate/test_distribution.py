"""What every distribution must answer, and what wall time cannot."""

import functools

import numpy as np
import pytest

from conftest import MEASURED, synthetic_task
from msbgen.core.errors import ArgumentError
from msbgen.engine.generate.fit import PAPER, fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings
from msbgen.engine.generate.size import most_rows

QUICK = ProgressSettings(bins=80, segments=10, deconvolutions=1)


@functools.cache
def fitted(settings=QUICK, clock="instructions"):
    return fit_profiles(synthetic_task(MEASURED).assign_attrs(progress=clock), settings)


presets = pytest.mark.parametrize("settings", [QUICK, PAPER], ids=["default", "paper"])


@presets
def test_durations_are_those_of_the_mean_profiles(settings):
    distribution = fitted(settings).distribution
    query = np.array([[2.0, 1.0], [3.0, 1.5], [9.0, 2.5]])
    np.testing.assert_allclose(
        distribution.durations(query), distribution.profiles(query, "mean")[1], rtol=1e-12
    )


@pytest.mark.parametrize("clock", ["time", "instructions"])
@presets
def test_no_profile_is_longer_than_the_longest(settings, clock):
    model = fitted(settings, clock)
    query = np.array([[2.0, 1.0], [3.0, 1.5], [9.0, 2.5], [5.0, 1.2]])
    for part in (query, query[1:2]):
        longest = model.distribution.longest(part)
        for kind in ("mean", "max_likelihood", "sample"):
            profiles = model.generate(part, kind=kind, n_samples=50)
            assert profiles["duration"].max() <= longest * (1 + 1e-12)
            assert profiles.sizes["time"] <= most_rows(model, part)
            finer = model.generate(part, kind=kind, times=0.003)
            assert finer.sizes["time"] <= most_rows(model, part, 0.003)
    assert longest < 2 * np.nanmax(model.distribution.duration)


def test_a_law_without_a_trend_raises_an_error():
    distribution = fitted(PAPER).distribution
    for ask in (
        lambda: distribution.centre,
        lambda: distribution.residuals,
        distribution.known_states,
    ):
        with pytest.raises(ArgumentError, match="default preset is wanted"):
            ask()


def test_known_states_hold_the_means_of_the_measured_amounts(measured):
    distribution = fitted().distribution
    states = distribution.known_states()
    np.testing.assert_allclose(
        states[..., 0].sum(axis=1), measured["duration"].mean("run"), rtol=1e-9
    )
    assert states.shape == (6, distribution.settings.bins, 3)
