"""Phase tables: known phases are found, durations are kept, files are whole or refused."""

import re

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.systems.phases.phases import (
    phase_table,
    read_phases,
    table_grid,
    validate_phases,
    write_phases,
)

FULL = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])
LABELS = {
    "cache_ways": {"units": "1", "levels": [2.0, 4.0, 8.0]},
    "frequency": {"units": "GHz", "levels": [1.0, 2.0]},
}


def stepwise(ends, paces, n_runs=4, noise=0.0, interval=0.002):
    """A task of constant paces [s per progress] (contexts, phases), 1e6 instructions, and noise."""
    rng = np.random.default_rng(3)
    runs, durations = [], np.empty((len(paces), n_runs))
    for c, pace in enumerate(paces):
        for r in range(n_runs):
            fine = np.linspace(0, 1, 2001)
            speed = pace[np.searchsorted(ends, 0.5 * (fine[1:] + fine[:-1]))]
            steps = np.diff(fine) * speed * (1 + noise * rng.standard_normal(2000))
            time = np.concatenate([[0.0], np.cumsum(steps)])
            durations[c, r] = time[-1]
            at = np.append(np.arange(interval, time[-1], interval), time[-1])
            done = 1e6 * np.interp(at, time, fine)
            events = np.stack([done, 0.01 * done], axis=1)
            runs.append(np.diff(events, axis=0, prepend=0))
    counts = np.full((len(paces), n_runs, max(map(len, runs)), 2), np.nan)
    for k, run in enumerate(runs):
        counts[k // n_runs, k % n_runs, : len(run)] = run
    names = {"instructions": {}, "cache_misses": {}}
    labels = {"resources": LABELS, "counters": names, "attrs": {"task": "steps"}}
    return make_profiles(counts, durations, FULL, interval=interval, **labels)


PACES = np.stack([np.array([1.0, 0.4, 1.5]) * (2 - 0.2 * c) for c in range(6)])


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_three_phases_are_found_where_they_are(noise):
    table = phase_table(stepwise(np.array([0.25, 0.5, 1.0]), PACES, noise=noise))
    found = table["end"].values
    # a bin is 1/256 wide; a sampling interval may blur an edge into a short phase of its own
    long = found[np.diff(found, prepend=0.0) > 0.02]
    np.testing.assert_allclose(long, [0.25, 0.5, 1.0], atol=0.02)
    assert len(found) <= 5


def test_a_task_without_phases_has_one_whatever_its_noise():
    flat = stepwise(np.array([1.0]), np.full((6, 1), 0.5), noise=0.3)
    assert phase_table(flat).sizes["phase"] == 1


def test_one_context_that_changes_is_enough_for_all():
    paces = np.ones((6, 2))
    paces[4, 1] = 4.0
    table = phase_table(stepwise(np.array([0.5, 1.0]), paces))
    assert np.abs(table["end"].values - 0.5).min() < 0.01
    assert table["speed"].dims == ("phase", "cache_ways", "frequency")


def test_phases_add_up_to_the_mean_duration_in_every_context_and_counters_to_their_totals():
    profiles = synthetic_task(FULL)
    table = phase_table(profiles)
    width = np.diff(table["end"].values, prepend=0.0)[:, None, None]
    lasting = (width / table["speed"].values).sum(axis=0).ravel()
    np.testing.assert_allclose(lasting, Profiles.of(profiles).mean_duration, rtol=1e-5)
    work = (table["instructions"].values * width / table["speed"].values).sum(axis=0)
    np.testing.assert_allclose(work, table.attrs["work"], rtol=1e-5)
    assert table["speed"].dtype == table["cache_misses"].dtype == np.float32
    assert table["cache_misses"].attrs["units"] == "s-1"


def test_coarser_tables_have_fewer_phases():
    profiles = stepwise(np.linspace(0.1, 1.0, 10), np.random.default_rng(0).random((6, 10)) + 1)
    number = [phase_table(profiles, resolution=r).sizes["phase"] for r in (0.003, 0.1, 10.0)]
    assert number == sorted(number, reverse=True)
    assert number[0] >= 10
    assert number[-1] == 1


def test_rates_beyond_single_precision_are_refused():
    task = synthetic_task(FULL).copy(deep=True)
    task["cache_misses"] = task["cache_misses"].astype(np.float32)
    task["cache_misses"][2] *= np.float32(3e38 / float(task["cache_misses"][2].max()))
    with pytest.raises(ProfileError, match=r"rate of .* s-1 in cache_ways=4, .* correct the"):
        phase_table(task)


def test_contexts_missing_are_refused():
    with pytest.raises(ProfileError, match=r"synthetic: 1 of 6 contexts are missing"):
        phase_table(synthetic_task(FULL[1:]))
    for resolution in (0, 1e300, np.nan, "coarse"):
        with pytest.raises(
            ArgumentError, match=re.escape(f"resolution is {resolution!r}; a number above 0")
        ):
            phase_table(synthetic_task(FULL), resolution=resolution)


@pytest.fixture(scope="module")
def table():
    return phase_table(synthetic_task(FULL))


def test_a_table_is_the_same_after_its_file(tmp_path, table):
    write_phases(table, tmp_path / "table.nc")
    read = read_phases(tmp_path / "table.nc")
    np.testing.assert_array_equal(read["speed"].values, table["speed"].values)
    assert table_grid(read) == table_grid(table)
    assert read.attrs["schema"] == "msbgen-phases/1"


def _spoil(table, **changes):
    broken = table.copy(deep=True)
    for name, value in changes.items():
        broken[name].values.flat[0] = value
    return broken


def _spoil_last(table, name, value):
    levels = table[name].values.copy()
    levels[-1] = value
    return table.assign_coords({name: (name, levels, table[name].attrs)})


def _with_role(table, name, role):
    changed = table.copy()
    changed[name].attrs["role"] = role
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.assign_attrs(schema="msbgen-profile/1"), "make the table of profiles first"),
        (lambda t: t.drop_vars("speed"), "'speed' is missing"),
        (lambda t: _spoil(t, speed=0.0), "'speed' is 0 at phase 0.*; a positive"),
        (lambda t: t.assign_coords(end=t["end"] * 0.5), "'end' does not ascend to 1"),
        (lambda t: t.isel(cache_ways=[1, 0, 2]), "levels of 'cache_ways' do not ascend"),
        (lambda t: _spoil_last(t, "cache_ways", np.inf), "'cache_ways' is inf at cache_ways 2"),
        (lambda t: t.assign_attrs(work=float("nan")), "'work' is nan"),
        (lambda t: _with_role(t, "end", np.arange(2)).drop_vars("speed"), "'speed' is missing"),
        (lambda t: _with_role(t, "cache_ways", np.arange(2)), "'speed' has dimensions"),
        (lambda t: t.assign(speed=t["speed"].astype(str)), "'speed' holds <U32"),
        (lambda t: t.assign_coords(end=t["end"].astype(str)), "'end' holds <U32; numbers"),
        (lambda t: t.assign_coords(end=1.0), r"'end' has dimensions \[\]"),
    ],
)
def test_broken_tables_are_refused_with_their_name(table, change, message):
    with pytest.raises(ProfileError, match=f"t.nc: .*{message}"):
        validate_phases(change(table), source="t.nc")
