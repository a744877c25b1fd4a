"""What every law must answer, and what the wall clock cannot."""

import inspect

import numpy as np
import pytest

from msbgen.errors import ArgumentError
from msbgen.generate.elapsed_law import ElapsedLaw
from msbgen.generate.law import Law
from msbgen.generate.model import DEFAULT, PAPER, fit_profiles
from msbgen.generate.progress_law import ProgressLaw


@pytest.mark.parametrize("law", [ProgressLaw, ElapsedLaw])
def test_every_law_takes_the_arguments_of_the_protocol(law):
    for name, wanted in vars(Law).items():
        if callable(wanted) and not name.startswith("_"):
            got = inspect.signature(getattr(law, name)).parameters
            assert list(got) == list(inspect.signature(wanted).parameters), name


@pytest.mark.parametrize("settings", [DEFAULT, PAPER], ids=["default", "paper"])
def test_durations_are_those_of_the_mean_profiles(measured, settings):
    law = fit_profiles(measured, settings).law
    query = np.array([[2.0, 1.0], [3.0, 1.5], [9.0, 2.5]])
    np.testing.assert_allclose(law.durations(query), law.profiles(query, "mean")[1], rtol=1e-12)


def test_a_law_without_a_trend_says_so(measured):
    law = fit_profiles(measured, PAPER).law
    for ask in (lambda: law.centre, lambda: law.residuals, law.known_states):
        with pytest.raises(ArgumentError, match="default preset is wanted"):
            ask()


def test_known_states_hold_the_means_of_the_measured_amounts(measured):
    law = fit_profiles(measured).law
    states = law.known_states()
    np.testing.assert_allclose(
        states[..., 0].sum(axis=1), measured["duration"].mean("run"), rtol=1e-9
    )
    assert states.shape == (6, law.settings.bins, 3)
