"""A machine's drift: found where runs say when they began, and not where there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faulty import machine, task
from msbgen.faults.drift import drift_basis, drift_paces, find_drift


def sweep(runs, slope, seed=0, noise=0.01):
    """Contexts, log times that counts do not explain, and when runs began, in random order."""
    rng, contexts = np.random.default_rng(seed), machine((3, 3, 3))
    time, _ = task(contexts, noise=0)
    started = 60.0 * rng.permutation(27 * runs).reshape(27, runs)
    place = 2 * started / started.max() - 1
    left = 0.1 * np.log(time)[:, None] + slope * place + noise * rng.standard_normal((27, runs))
    return contexts, left, started


@settings(max_examples=6)
@given(st.integers(0, 10_000), st.sampled_from([1, 4]))
def test_a_machine_that_did_not_drift_is_told_so(seed, runs):
    contexts, left, started = sweep(runs, 0.0, seed)
    assert find_drift(contexts, left, drift_basis(started)) is None


@pytest.mark.parametrize(("runs", "off"), [(1, 0.03), (4, 0.01)])
def test_a_drift_is_found_and_its_paces_told(runs, off):
    contexts, left, started = sweep(runs, 0.05)
    drift = find_drift(contexts, left, drift_basis(started))
    paces = drift_paces(drift.terms, started)
    wanted = np.exp(0.05 * (2 * started / started.max() - 1))
    assert paces == pytest.approx(wanted, abs=off)
    assert drift.gain > 5


def test_a_warming_that_levels_off_is_followed():
    contexts, left, started = sweep(6, 0.0, noise=0.002)
    warming = 0.1 * (1 - np.exp(-3 * started / started.max()))
    drift = find_drift(contexts, left + warming, drift_basis(started))
    assert len(drift.terms) > 1
    wanted = np.exp(warming - warming.mean())
    assert drift_paces(drift.terms, started) == pytest.approx(wanted, abs=0.005)


def test_runs_whose_time_is_not_known_keep_their_pace():
    contexts, left, started = sweep(3, 0.05)
    started[4, 1], left[7] = np.nan, np.nan
    drift = find_drift(contexts, left, drift_basis(started))
    assert drift_paces(drift.terms, started)[4, 1] == 1.0
    assert find_drift(contexts, left, drift_basis(np.full((27, 3), np.nan))) is None
    assert find_drift(contexts, left, drift_basis(np.zeros((27, 3)))) is None


def test_two_batches_tell_how_far_they_are_apart():
    contexts, left, _ = sweep(2, 0.0)
    started = np.broadcast_to([0.0, 86400.0], left.shape)
    drift = find_drift(contexts, left + [-0.05, 0.05], drift_basis(started))
    assert drift.terms == pytest.approx((0.05,), abs=0.005)
