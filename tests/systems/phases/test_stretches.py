"""Runs on the progress axis: amounts are conserved and found where they happened."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from conftest import COUNTERS, RESOURCES, synthetic_task
from msbgen.core.errors import MeasurementError
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    duration_array,
)
from msbgen.systems.phases.grid import Grid
from msbgen.systems.phases.stretches import cut_runs
from partials import cut, in_groups, with_gaps
from strategies import measured_runs

FULL = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])


def one_run(counts, duration, interval) -> xr.Dataset:
    names = {"resources": RESOURCES, "counters": {"instructions": {}, "cache_misses": {}}}
    counts = np.array(counts)[None, None]
    return make_profiles(counts, [[duration]], [[2.0, 1.0]], interval=interval, **names)


def by_hand(counts, duration, interval, bins):
    """Interpolate the cumulative curves at equal steps of the clock; plateaus count where met."""
    rows = len(counts)
    ends = np.append(interval * np.arange(1, rows), duration)
    time = np.concatenate([[0.0], ends])
    total, misses = np.concatenate([[[0.0, 0.0]], np.cumsum(counts[:, :2], axis=0)]).T
    edges = total[-1] * np.arange(1, bins) / bins
    cut = []
    for curve in (time, misses):
        # where the clock stands still, what happens belongs to the stretch that begins there
        first = [np.searchsorted(total, edge, side="left") for edge in edges]
        at = [
            curve[j - 1]
            + (curve[j] - curve[j - 1]) * (e - total[j - 1]) / (total[j] - total[j - 1])
            if total[j] > total[j - 1]
            else curve[j]
            for j, e in zip(first, edges)
        ]
        cut.append(np.diff([0.0, *at, curve[-1]]))
    return cut


@given(measured_runs(), st.integers(1, 9))
def test_stretches_are_what_interpolation_of_the_curves_gives(run, bins):
    counts, duration, interval = run
    profiles = one_run(counts, duration, interval)
    (seconds, misses), total = cut_runs(
        Profiles.of(profiles), Grid.of(Profiles.of(profiles)), bins, ("time", "cache_misses")
    )
    assert total[0, 0] == pytest.approx(counts[:, 0].sum())
    assert seconds.sum() == pytest.approx(duration, rel=1e-5)
    assert misses.sum() == pytest.approx(counts[:, 1].sum(), rel=1e-5)
    if np.all(counts[:, 0] > 1):  # where it stands still, rounding decides on which side it is
        wanted = by_hand(counts, duration, interval, bins)
        np.testing.assert_allclose(seconds[0, 0], wanted[0], rtol=1e-3, atol=1e-6 * duration)
        atol = 1e-5 * counts[:, 1].sum()
        np.testing.assert_allclose(misses[0, 0], wanted[1], rtol=1e-3, atol=atol)


def test_contexts_come_in_the_order_of_the_grid_and_profiles_need_no_runs():
    shuffled = np.random.default_rng(0).permutation(FULL)
    profiles = synthetic_task(shuffled)
    grid = Grid.of(Profiles.of(profiles))
    (seconds,), _ = cut_runs(Profiles.of(profiles), grid, 8, ("time",))
    durations = duration_array(profiles)[grid.rows(Profiles.of(profiles))]
    np.testing.assert_allclose(seconds.sum(axis=2), durations, rtol=1e-6)
    one = profiles.isel(run=0)
    (alone,), _ = cut_runs(Profiles.of(one), grid, 8, ("time",))
    np.testing.assert_array_equal(alone[:, 0], seconds[:, 0])


def test_other_runs_stand_in_for_missing_ones_and_for_those_that_lost_counts(caplog):
    counts, duration = (
        Profiles.of(synthetic_task(FULL)).counts,
        duration_array(synthetic_task(FULL)),
    )
    counts[2, 1], duration[2, 1] = np.nan, np.nan
    counts[3, 0] *= 0.5
    profiles = make_profiles(
        counts, duration, FULL, interval=0.01, resources=RESOURCES, counters=COUNTERS
    )
    (seconds,), total = cut_runs(
        Profiles.of(profiles), Grid.of(Profiles.of(profiles)), 4, ("time",)
    )
    lasted = seconds.sum(axis=2)
    np.testing.assert_allclose(lasted[2], duration[2, [0, 2, 0]], rtol=1e-6)
    np.testing.assert_allclose(lasted[3], duration[3, [1, 2, 1]], rtol=1e-6)
    assert total.min() > 0.9 * total.max()
    assert "lost counts and are left out: 1" in caplog.text


def test_without_instructions_progress_is_wall_time_or_what_the_file_says():
    profiles = synthetic_task(FULL)
    assert Profiles.of(profiles).clock_name == "instructions"
    assert (
        Profiles.of(profiles.assign_attrs(progress="cache_requests")).clock_name == "cache_requests"
    )
    timed = profiles.drop_vars("instructions")
    assert Profiles.of(timed).clock_name == "time"
    (seconds,), total = cut_runs(Profiles.of(timed), Grid.of(Profiles.of(timed)), 4, ("time",))
    np.testing.assert_allclose(seconds, np.broadcast_to(total[..., None] / 4, seconds.shape), 1e-5)


def test_slow_runs_and_generated_ones_lost_no_counts(caplog):
    profiles = synthetic_task(FULL)
    profiles["duration"].values[:, 1] = 0.1  # of 0.11 s and more
    for name in COUNTERS:
        profiles[name].values[:, 1, 10:] = np.nan
    timed = profiles.drop_vars("instructions")
    by_cpu_time = profiles.rename(instructions="task_clock").assign_attrs(progress="task_clock")
    for whole in (timed, by_cpu_time, profiles.assign_attrs(kind="sample")):
        (seconds,), _ = cut_runs(Profiles.of(whole), Grid.of(Profiles.of(whole)), 4, ("time",))
        np.testing.assert_allclose(seconds.sum(axis=2), duration_array(whole), rtol=1e-5)
    assert "lost counts" not in caplog.text
    cut_runs(Profiles.of(profiles), Grid.of(Profiles.of(profiles)), 4, ("time",))
    assert "left out: 5" in caplog.text


def test_a_clock_that_stands_still_in_a_context_is_refused():
    profiles = synthetic_task(FULL)
    profiles["instructions"].values[1] *= 0
    with pytest.raises(MeasurementError, match="counted nothing in cache_ways=2, frequency=2 GHz"):
        cut_runs(Profiles.of(profiles), Grid.of(Profiles.of(profiles)), 4, ("time",))


def test_counters_measured_in_groups_come_from_the_runs_that_hold_them():
    whole = synthetic_task(FULL, n_runs=4)
    parts, grid = in_groups(whole.copy(deep=True)), Grid.of(Profiles.of(whole))
    names = ("time", "instructions", "cache_requests", "cache_misses")
    every, total = cut_runs(Profiles.of(whole), grid, 8, names)
    found, same = cut_runs(Profiles.of(parts), grid, 8, names)
    np.testing.assert_array_equal(same, total)
    for k, runs in enumerate(([0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 0, 2], [1, 3, 1, 3])):
        np.testing.assert_array_equal(found[k], every[k][:, runs])


def test_a_counter_that_no_complete_run_of_a_context_holds_is_refused():
    parts = in_groups(synthetic_task(FULL, n_runs=4))
    parts["cache_misses"].values[3] = np.nan
    with pytest.raises(MeasurementError, match=r"no complete run holds 'cache_misses' in .*=4"):
        cut_runs(Profiles.of(parts), Grid.of(Profiles.of(parts)), 8, ("cache_misses",))


@pytest.mark.parametrize("clock", ["instructions", "time"])
@pytest.mark.parametrize("kind", ["carried", "lost"])
def test_gaps_are_filled_and_do_not_end_a_run(clock, kind):
    whole = synthetic_task(FULL)
    if clock == "time":
        whole = whole.drop_vars("instructions")
    gapped, grid = with_gaps(whole.copy(deep=True), kind), Grid.of(Profiles.of(whole))
    (seconds, misses), total = cut_runs(Profiles.of(gapped), grid, 4, ("time", "cache_misses"))
    (wanted, counted), of_whole = cut_runs(Profiles.of(whole), grid, 4, ("time", "cache_misses"))
    np.testing.assert_allclose(seconds.sum(axis=2), wanted.sum(axis=2), rtol=1e-6)
    tolerance = 1e-6 if kind == "carried" else 0.1
    np.testing.assert_allclose(total, of_whole, rtol=tolerance)
    np.testing.assert_allclose(misses.sum(axis=2), counted.sum(axis=2), rtol=tolerance)


def test_runs_that_were_cut_are_left_out(caplog):
    whole = synthetic_task(FULL)
    ended = cut(whole.copy(deep=True), [(2, 1)], share=0.95)
    grid = Grid.of(Profiles.of(whole))
    (seconds,), _ = cut_runs(Profiles.of(ended), grid, 4, ("time",))
    (every,), _ = cut_runs(Profiles.of(whole), grid, 4, ("time",))
    np.testing.assert_array_equal(seconds[2], every[2, [0, 2, 0]])
    assert not caplog.text
    never = cut(whole, [(2, run) for run in range(3)])
    with pytest.raises(MeasurementError, match=r"every run was cut in cache_ways=4, .*timeout"):
        cut_runs(Profiles.of(never), grid, 4, ("time",))
