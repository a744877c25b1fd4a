"""Runs that a distribution is fitted to, and the deconvolution of their counts."""

from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import MeasurementError
from msbgen.data.profiles import Profiles
from msbgen.engine.generate.fit import fit_model, fit_profiles
from tasks import GRID, INTERVAL, SMALL, answer, fit_distribution, labelled, runs_of, task, without

KINDS = ("max_likelihood", "mean", "sample")


def test_runs_that_lost_counts_are_named_and_a_context_without_counts_is_refused(runs, caplog):
    counts, measured = (part[:4, :4].copy() for part in runs)
    counts[2, 1] *= 0.6
    fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)
    assert "run 1 of context 2 (" in caplog.text
    assert "lost counts" in caplog.text
    caplog.clear()
    fit_model(
        Profiles.of(labelled(counts, measured, GRID[:4])), SMALL, quiet=True
    )  # a fold: named before
    assert caplog.text == ""
    counts, measured = (part[:4, 2:3].copy() for part in runs)
    fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)
    assert caplog.text == ""
    counts[2] *= 0.6  # its only run: lost counts look like less work
    fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)
    assert caplog.text == ""
    counts[2, :, :, 0] = np.where(np.isnan(counts[2, :, :, 0]), np.nan, 0.0)
    with pytest.raises(
        MeasurementError,
        match="dataset: the progress counter counted nothing in every run of context 2",
    ):
        fit_profiles(labelled(counts, measured, GRID[:4]), SMALL)


def test_the_wall_clock_never_loses_counts():
    contexts = np.array([[w, f] for w in (6.0, 7.0, 8.0) for f in (1.9, 2.0)] + [[2.0, 1.0]])
    counts, measured = task(contexts, 1, noise=0.002)  # the last context is far slower
    fit_profiles(labelled(counts, measured, contexts), replace(SMALL, clock="time"))


def test_runs_with_lost_samples_are_kept_whatever_their_total(runs):
    counts, duration = runs
    counts = counts.copy()
    counts[0, 1, :, 0] *= 0.5
    lost = np.zeros(counts.shape, dtype=bool)
    for lost[0, 1, 3, 0] in (False, True):
        made = runs_of(counts, duration, GRID, INTERVAL, 10, lost=lost)
        assert np.isfinite(made.total[0, 1]) == lost[0, 1, 3, 0]


def test_kernels_are_compiled_for_one_layout_of_the_runs(runs):
    made = runs_of(*runs, GRID, INTERVAL, 10)
    assert made.context.flags.c_contiguous
    assert all(array.flags.c_contiguous for array in made.intervals)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_lost_counts_is_left_out(runs, kind):
    counts, measured = (part[:4, :4].copy() for part in runs)
    missing = fit_distribution(*without(counts, measured, 2, 1), GRID[:4])
    counts[2, 1] *= 0.6
    distribution = fit_distribution(counts, measured, GRID[:4])
    assert np.argwhere(np.isnan(distribution.centre.total)).tolist() == [[2, 1]]
    assert distribution.residuals.run_context.tolist() == [0] * 4 + [1] * 4 + [2] * 3 + [3] * 4
    for got, wanted in zip(
        *(answer(m, GRID[:5], kind, n_samples=3) for m in (distribution, missing))
    ):
        np.testing.assert_array_equal(got, wanted)


def test_a_counter_of_some_runs_is_taken_per_time_of_these():
    """At a cap the misses per time are the same in slow and fast runs."""
    rng = np.random.default_rng(2)
    speed = np.exp(0.1 * rng.standard_normal((9, 6)))
    counts = np.ones((9, 6, 10, 3))
    counts[..., 1:] = 5.0 * speed[..., None, None]
    duration = speed.copy()
    counts[:, 0::2, :, 1], counts[:, 1::2, :, 2] = np.nan, np.nan
    runs = runs_of(counts, duration, GRID, 0.1, 5, slowdown=1 / speed)
    amounts, means = runs.amounts(runs.state), runs.means(runs.state)
    np.testing.assert_allclose(amounts[..., 1:] / amounts[..., :1], 50.0, rtol=1e-9)
    assert np.ptp(means[..., 1] / means[..., 0]) > 1.0
    np.testing.assert_array_equal(amounts[..., 0], means[..., 0])
