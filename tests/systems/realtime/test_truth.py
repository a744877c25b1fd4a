"""Truths: runs keep their durations; power falls with the clock and with stalls."""

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, duration_array
from msbgen.systems.phases.grid import Grid
from msbgen.systems.realtime.truth import STRETCHES, Truth

FULL = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 1.5, 2.0)])


def test_runs_keep_their_durations_in_every_context():
    profiles = synthetic_task(np.random.default_rng(1).permutation(FULL))
    truth = Truth.of({"s": profiles})
    rows = Grid.of(Profiles.of(profiles)).rows(Profiles.of(profiles))
    wanted = duration_array(profiles)[rows].T
    np.testing.assert_allclose(truth.durations("s"), wanted, rtol=1e-6)
    assert truth.seconds.shape == (1, 3, 9, STRETCHES)


def test_tasks_with_fewer_runs_have_theirs_again():
    three, two = synthetic_task(FULL), synthetic_task(FULL, n_runs=2)
    truth = Truth.of({"three": three, "two": two})
    again = truth.durations("two")
    np.testing.assert_array_equal(again[2], again[0])
    assert len(set(truth.durations("three")[:, 0])) == 3


def test_power_falls_with_the_clock_and_where_the_core_stalls():
    # time of a phase = cycles/clock + stalls by construction: the first computes, the second waits
    profiles = synthetic_task(FULL, n_runs=20)
    power = Truth.of({"s": profiles}).power[0]
    clock = context_table(profiles)[:, 1]
    ways = context_table(profiles)[:, 0]
    first, last = power[:, 10], power[:, -10]
    voltage = 0.8 + 0.2 * (clock - 1.0)
    active = voltage**2 * clock / 2.0
    # requests/instruction × miss ratio × 100 cycles of 1 GHz, from the task's own construction
    for phase, requests in ((first, 0.002), (last, 0.02)):
        fixed = 100 * requests * 0.8 / ways
        stalled = fixed / (fixed + 1.0 / clock)
        np.testing.assert_allclose(phase, active * (1 - 0.5 * stalled), rtol=0.02)


def test_without_a_clock_every_second_costs_the_same():
    profiles = synthetic_task(FULL)
    profiles["frequency"].attrs["units"] = "1"
    assert np.all(Truth.of({"s": profiles}).power == 1.0)


def test_other_platforms_are_refused():
    profiles, fewer = synthetic_task(FULL), synthetic_task(FULL[:6])
    with pytest.raises(ProfileError, match="'b': 'cache_ways' has 2 levels"):
        Truth.of({"a": profiles, "b": fewer})
    with pytest.raises(ArgumentError, match="profiles are none"):
        Truth.of({})
