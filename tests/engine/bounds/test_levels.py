"""Counts at levels that are left out: deconvolved with the runs of the other levels alone."""

from dataclasses import replace

import numpy as np
import pytest

import partials
from held import WithStates
from msbgen.data.profiles import Profiles
from msbgen.engine.bounds import left_out
from msbgen.engine.bounds.left_out import leave_out
from msbgen.engine.generate.fit import fit_profiles


@pytest.fixture(params=["time model", "no time model"])
def distribution(request, model):
    fitted = model.distribution
    if request.param == "time model":
        assert fitted.centre.trend.time_model
        return fitted
    plain = replace(fitted.centre.trend, sums=(), time_model=())
    return replace(fitted, centre=replace(fitted.centre, trend=plain))


@pytest.fixture
def level(grid):
    """Contexts of an inner level of the clock."""
    return grid[:, 1] == 1.5


def predicted(distribution, counts, level):
    """Counts per segment of the level's contexts, left out together, and their shares of a run."""
    held = leave_out(distribution, counts)
    counts = held.predicted[(held.lacks == level).all(axis=1)][..., 1:]
    return counts, counts / counts.sum(axis=1, keepdims=True)


def test_shares_do_not_depend_on_states_that_were_deconvolved_with_the_level(
    task, distribution, level
):
    counts, states = Profiles.of(task).counts, distribution.known_states()
    shifted = states.copy()
    shifted[..., 1:] = np.roll(states[..., 1:], 3, axis=1)  # totals are as before
    others = WithStates(distribution, shifted)
    _, shares = predicted(distribution, counts, level)
    np.testing.assert_allclose(predicted(others, counts, level)[1], shares, rtol=1e-9)


def test_shares_follow_the_runs_of_the_other_levels(task, distribution, level):
    counts = Profiles.of(task).counts
    spoilt, other = counts.copy(), counts.copy()
    spoilt[level, ..., 1:] *= np.linspace(0.5, 2.0, counts.shape[2])[:, None]
    other[~level, ..., 1:] *= np.linspace(0.5, 2.0, counts.shape[2])[:, None]
    amounts, shares = predicted(distribution, counts, level)
    np.testing.assert_array_equal(predicted(distribution, spoilt, level)[0], amounts)
    steeper = predicted(distribution, other, level)
    assert np.all(steeper[1][:, -1] > 1.1 * shares[:, -1])
    np.testing.assert_allclose(steeper[0].sum(axis=1), amounts.sum(axis=1), rtol=1e-9)


def test_contexts_without_a_complete_run_are_predicted_from_others(task, quick, level):
    spoilt = partials.cut(task.copy(deep=True), [(7, r) for r in range(4)])
    fitted = fit_profiles(spoilt, quick).distribution
    amounts, _ = predicted(fitted, Profiles.of(spoilt).counts, level)
    whole, _ = predicted(fitted, Profiles.of(task).counts, level)
    assert np.isfinite(amounts).all()
    np.testing.assert_allclose(amounts, whole, rtol=0.1)


def test_a_counter_that_some_runs_lack_is_deconvolved_with_the_others(task, model, quick, level):
    grouped = partials.in_groups(task.copy(deep=True))
    amounts, _ = predicted(
        fit_profiles(grouped, quick).distribution, Profiles.of(grouped).counts, level
    )
    whole, _ = predicted(model.distribution, Profiles.of(task).counts, level)
    np.testing.assert_allclose(amounts, whole, rtol=0.05)


def test_levels_of_few_contexts_are_not_deconvolved_again(task, distribution, monkeypatch):
    """A design that visits every level has dozens of them."""
    counts, left = Profiles.of(task).counts, []

    def note(others, group, prior):
        left.append(len(group))
        return prior

    monkeypatch.setattr(left_out.OtherLevels, "predicted", note)
    leave_out(distribution, counts)
    assert left
    assert min(left) > 0.1 * len(counts)
    monkeypatch.setattr(left_out, "_SMALL_LEVEL", 0.99)
    monkeypatch.setattr(left_out.OtherLevels, "of", None)  # not even prepared
    leave_out(distribution, counts)
