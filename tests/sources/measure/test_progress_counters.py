"""Counters as clocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partials
from conftest import synthetic_task
from msbgen.core.errors import MeasurementError
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.sources.measure.progress_counters import (
    ProgressCounter,
    compare_progress_counters,
    describe_progress_counters,
    suggest_progress_counter,
)


def dataset(counts, duration=None, interval=0.01):
    """(context, run, time) counts of counters a, b, ..."""
    arrays = [np.asarray(c, dtype=float) for c in counts]
    shape = arrays[0].shape
    duration = np.full(shape[:2], interval * shape[2]) if duration is None else duration
    return make_profiles(
        np.stack(arrays, axis=-1), duration, np.arange(shape[0])[:, None] + 1.0,
        interval=interval, resources={"x": {"units": "1"}},
        counters={chr(ord("a") + i): {} for i in range(len(arrays))},
    )  # fmt: skip


def test_spreads_within_and_between_contexts():
    even = np.ones((3, 2, 100))
    even[:, 1] *= [[1.1], [1.2], [1.3]]  # 9.5, 18.2, 26.1 % of their means
    (clock,) = compare_progress_counters(Profiles.of(dataset([even])))
    assert clock.spread == pytest.approx(0.2 / 1.1)
    assert clock.spread_across_contexts == pytest.approx((1.15 - 1.05) / 1.1)
    assert clock.error == clock.spread


def slow_longest_stop(counts, steps=4000):
    """Every start on a fine grid, every end after it."""
    counts = np.asarray(counts, dtype=float)
    time = np.linspace(0, 1, steps + 1)
    done = np.interp(time, np.linspace(0, 1, len(counts) + 1), np.append(0, np.cumsum(counts)))
    done /= done[-1]
    ends = np.searchsorted(done, done + 0.01 + 1e-12, side="right") - 1
    return (time[ends] - time).max()


@given(st.lists(st.integers(0, 50), min_size=2, max_size=30).filter(lambda c: sum(c) > 0))
def test_the_longest_stop_is_that_of_a_fine_grid(counts):
    both = np.broadcast_to(np.array(counts, dtype=float), (1, 2, len(counts)))
    (clock,) = compare_progress_counters(Profiles.of(dataset([both])))
    assert clock.resolution == pytest.approx(slow_longest_stop(counts), abs=2e-3)


def test_runs_of_several_lengths_and_missing_ones():
    counts = np.full((2, 3, 50), np.nan)
    duration = np.full((2, 3), np.nan)
    for c, r, n in ((0, 0, 50), (0, 1, 40), (1, 0, 30)):
        counts[c, r, :n], duration[c, r] = 1000 / n, 0.01 * n - 0.004
    (clock,) = compare_progress_counters(Profiles.of(dataset([counts], duration)))
    assert clock.spread == pytest.approx(0, abs=1e-6)
    assert clock.spread_across_contexts == pytest.approx(0, abs=1e-6)
    assert 0.01 <= clock.resolution < 0.03


def test_the_steadiest_clock_that_moves_all_the_time_is_suggested():
    clocks = [
        ProgressCounter("task_clock", 0.2, 0.05, 0.011),
        ProgressCounter("page_faults", 0.001, 0.001, 0.9),
        ProgressCounter("calls", 0.0, 0.0, 0.03),
        ProgressCounter("syscalls", 0.001, 0.001, 0.02),
    ]
    assert suggest_progress_counter(clocks).name == "syscalls"  # as steady as calls, and finer
    counted = [*clocks, ProgressCounter("instructions_u", 0.001, 0.0, 0.05)]
    assert suggest_progress_counter(counted).name == "instructions_u"
    assert suggest_progress_counter(clocks[:2]).name == "task_clock"
    assert suggest_progress_counter(clocks[1:2]).name == "page_faults"  # nothing better is there
    for name in ("page_faults", "faults_u", "cs", "cpu_migrations", "context_switches"):
        interruptions = ProgressCounter(name, 0.0, 0.0, 0.01)  # even, but they count no work
        assert suggest_progress_counter([interruptions, clocks[0]]).name == "task_clock"
    with pytest.raises(MeasurementError, match="no counter counts"):
        suggest_progress_counter([])


def test_totals_over_contexts_rank_counters_of_single_runs():
    even = np.ones((3, 1, 100))
    drifting = even * np.array([1.0, 1.2, 1.5])[:, None, None]
    once = dataset([drifting, even]).assign_attrs(progress="time")
    drifts, steady = compare_progress_counters(Profiles.of(once))
    assert np.isnan(drifts.spread)
    assert steady.error == 0
    assert drifts.error == pytest.approx(0.5 / (3.7 / 3))
    *lines, last = describe_progress_counters(Profiles.of(once))
    assert lines[0].startswith("clock     a: totals spread over contexts by 40.5%; advances by")
    assert last == f"progress  time; b {BETTER}"
    unlike = dataset([drifting]).assign_attrs(progress="time")
    assert describe_progress_counters(Profiles.of(unlike))[-1] == "progress  time"


def test_one_run_compares_no_counters():
    once = dataset([np.ones((1, 1, 10))])
    with pytest.raises(MeasurementError, match="one complete run or none"):
        compare_progress_counters(Profiles.of(once))
    assert describe_progress_counters(Profiles.of(once)) == ["progress  time"]
    apart = np.full((2, 2, 10), np.nan)  # each counter in one context
    apart[0, 0] = 1
    assert describe_progress_counters(Profiles.of(dataset([apart], np.full((2, 2), 0.1)))) == [
        "progress  time"
    ]


def test_a_counter_that_stands_still_in_a_context_is_no_clock():
    counts = np.ones((2, 2, 10))
    counts[1] = 0
    assert [
        c.name
        for c in compare_progress_counters(Profiles.of(dataset([counts, np.ones((2, 2, 10))])))
    ] == ["b"]


BETTER = "measures it better (import --clock, or attribute 'progress')"


def test_clocks_are_described_and_one_is_suggested():
    task = synthetic_task(np.array([(2.0, 1.0), (8.0, 2.0)]))
    lines = describe_progress_counters(Profiles.of(task.assign_attrs(progress="cache_misses")))
    assert lines[0].startswith("clock     instructions: totals of one context spread by 0.0%")
    assert lines[-1] == f"progress  cache_misses; instructions {BETTER}"
    assert describe_progress_counters(Profiles.of(task.assign_attrs(progress="instructions")))[
        -1
    ] == ("progress  instructions")


def test_a_counter_that_is_hardly_better_is_not_recommended():
    """Two counters with noise of a percent and more: neither replaces the other."""
    rng = np.random.default_rng(1)
    counts = [np.full((3, 4, 50), 100.0) * rng.normal(1, s, (3, 4, 1)) for s in (0.01, 0.013)]
    measured = dataset(counts)
    for name in ("a", "b"):
        line = describe_progress_counters(Profiles.of(measured.assign_attrs(progress=name)))[-1]
        assert line == f"progress  {name}"
    noisy = dataset([counts[0], 100 * rng.normal(1, 0.1, (3, 4, 1)) * np.ones((3, 4, 50))])
    line = describe_progress_counters(Profiles.of(noisy.assign_attrs(progress="b")))[-1]
    assert line == f"progress  b; a {BETTER}"
    waits = dataset([np.where(np.arange(50) < 30, 100.0, 0.0) * np.ones((3, 4, 50))])
    for measured, more in ((waits, ""), (noisy, f"; a {BETTER}")):
        line = describe_progress_counters(Profiles.of(measured.assign_attrs(progress="time")))[-1]
        assert line == f"progress  time{more}"


def test_runs_that_lack_a_counter_or_were_cut_spread_no_total():
    whole = synthetic_task([(2.0, 1.0), (4.0, 1.0), (2.0, 2.0)], n_runs=4)
    spreads = {
        clock.name: (clock.spread, clock.spread_across_contexts)
        for clock in compare_progress_counters(Profiles.of(whole))
    }
    lacking = whole.copy(deep=True)
    lacking["cache_misses"][:, 0] = np.nan
    cut = partials.cut(whole.copy(deep=True), [(0, 1), (1, 1), (2, 1)])
    for partial in (lacking, cut):
        for clock in compare_progress_counters(Profiles.of(partial)):
            spread, across = spreads[clock.name]
            assert clock.spread <= spread + 1e-6
            assert clock.spread_across_contexts == pytest.approx(across, abs=0.02)
