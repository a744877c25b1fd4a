"""The drift of a machine, found from the start times of runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faulty import machine, task
from msbgen.engine.faults.drift import drift_basis, drift_slowdowns, find_drift


def sweep(runs, slope, seed=0, noise=0.01):
    """Contexts, log residuals of times, and start times in random order."""
    rng, contexts = np.random.default_rng(seed), machine((3, 3, 3))
    time, _ = task(contexts, noise=0)
    started = 60.0 * rng.permutation(27 * runs).reshape(27, runs)
    place = 2 * started / started.max() - 1
    residuals = (
        0.1 * np.log(time)[:, None] + slope * place + noise * rng.standard_normal((27, runs))
    )
    return contexts, residuals, started


@settings(max_examples=6)
@given(st.integers(0, 10_000), st.sampled_from([1, 4]))
def test_no_drift_is_found_in_a_steady_machine(seed, runs):
    contexts, residuals, started = sweep(runs, 0.0, seed)
    assert find_drift(contexts, residuals, drift_basis(started)) is None


@pytest.mark.parametrize(("runs", "off"), [(1, 0.03), (4, 0.01)])
def test_a_linear_drift_is_found(runs, off):
    contexts, residuals, started = sweep(runs, 0.05)
    drift = find_drift(contexts, residuals, drift_basis(started))
    slowdowns = drift_slowdowns(drift.terms, started)
    wanted = np.exp(0.05 * (2 * started / started.max() - 1))
    assert slowdowns == pytest.approx(wanted, abs=off)
    assert drift.log_odds > 5


def test_a_drift_that_levels_off_is_found():
    contexts, residuals, started = sweep(6, 0.0, noise=0.002)
    warming = 0.1 * (1 - np.exp(-3 * started / started.max()))
    drift = find_drift(contexts, residuals + warming, drift_basis(started))
    assert len(drift.terms) > 1
    wanted = np.exp(warming - warming.mean())
    assert drift_slowdowns(drift.terms, started) == pytest.approx(wanted, abs=0.005)


def test_runs_without_a_start_time_are_not_scaled():
    contexts, residuals, started = sweep(3, 0.05)
    started[4, 1], residuals[7] = np.nan, np.nan
    drift = find_drift(contexts, residuals, drift_basis(started))
    assert drift_slowdowns(drift.terms, started)[4, 1] == 1.0
    assert find_drift(contexts, residuals, drift_basis(np.full((27, 3), np.nan))) is None
    assert find_drift(contexts, residuals, drift_basis(np.zeros((27, 3)))) is None


def test_the_difference_of_two_batches_is_found():
    contexts, residuals, _ = sweep(2, 0.0)
    started = np.broadcast_to([0.0, 86400.0], residuals.shape)
    drift = find_drift(contexts, residuals + [-0.05, 0.05], drift_basis(started))
    assert drift.terms == pytest.approx((0.05,), abs=0.005)
