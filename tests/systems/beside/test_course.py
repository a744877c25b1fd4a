"""Programs that share, played from tables of each alone."""

from dataclasses import replace
from time import process_time

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.schema import context_table
from msbgen.data.sharing import Sharing, shared_by_all
from msbgen.data.store import read_profiles, write_profiles
from msbgen.sources.platform import PlatformConfig, replay_beside
from msbgen.systems.beside.columns import Columns
from msbgen.systems.beside.course import (
    Course,
    LawSettings,
    course_dataset,
    course_profiles,
    duration_bounds,
    play,
    play_durations,
)
from msbgen.systems.beside.harm import find_harm
from msbgen.systems.beside.table import (
    DISTANCES,
    miss_probability,
    program_table,
    reuse_distances,
    with_bandwidths,
)

QUIET = replace(PlatformConfig().without_noise(), random_phases=True)


def missed(course: Course):
    return course.counts[:, :, 2].sum(axis=1)


def test_a_table_has_what_was_measured(measured, tables):
    profiles = measured[0]
    for c in (6, 7, 8, 15, 17):
        ways, bandwidth, _ = map(float, context_table(profiles)[c])
        true = float(profiles["duration"][c, 0])
        assert abs(tables[0].duration(ways, bandwidth) / true - 1) < 1e-6
        misses = float(profiles["cache_misses"][c].sum())
        # the mean over bandwidths, each with other page colours
        assert abs(tables[0].misses[:, int(ways)].sum() / misses - 1) < 0.03
    np.testing.assert_allclose(tables[0].misses[:, 0], tables[0].requests)
    assert np.all(np.diff(tables[0].misses, axis=1) <= 1e-6)


def test_reuse_distances_explain_the_misses_of_every_number_of_ways():
    true = np.zeros((1, len(DISTANCES)))
    true[0, [10, 25, -1]] = 500.0, 300.0, 200.0
    misses = true @ miss_probability(DISTANCES, np.arange(2, 21)).T
    found = reuse_distances(np.array([1000.0]), misses, np.arange(2, 21))
    np.testing.assert_allclose(found.sum(), 1000.0)
    np.testing.assert_allclose(
        found @ miss_probability(DISTANCES, [1.5, 7.5]).T,
        true @ miss_probability(DISTANCES, [1.5, 7.5]).T,
        rtol=0.03,
    )


def test_a_program_alone_runs_as_its_table_says(tables):
    for ways, bandwidth in ((8, 1e6), (4, 50.0), (6, 50.0)):
        course = play(tables[:1], shared_by_all(1, ways=ways, bandwidth=bandwidth))
        np.testing.assert_allclose(course.durations, tables[0].duration(ways, bandwidth), rtol=0.01)
        np.testing.assert_allclose(missed(course), tables[0].misses[:, ways].sum(), rtol=0.01)
        np.testing.assert_allclose(course.slowdown, 1.0)


@pytest.mark.parametrize(("channel", "within"), [("regulator", 0.03), ("queue", 0.05)])
def test_a_pair_runs_as_its_requests_do_in_one_cache(streams, tables, channel, within):
    sharing = shared_by_all(2, ways=8, bandwidth=100.0, channel=channel)
    true = replay_beside(streams, sharing, 2, config=QUIET)
    course = play(tables, sharing)
    for n, profiles in enumerate(true):
        duration = float(profiles["duration"].mean())
        assert abs(course.durations[n] / duration - 1) < within
        total = float(profiles["cache_misses"].sum("time").mean())
        assert abs(missed(course)[n] / total - 1) < 0.04
        held = float(profiles["held_ways"].isel(run=0, time=2).item())
        assert abs(course.ways[n, 2] / held - 1) < 0.15
    assert np.all(course.slowdown > 1.02)


def test_a_program_with_itself_suffers_alike_and_order_has_no_effect(tables):
    sharing = shared_by_all(2, ways=6, bandwidth=70.0)
    one, two = play([tables[1]] * 2, sharing).durations
    assert one == two
    forth, back = play(tables, sharing), play(tables[::-1], sharing)
    np.testing.assert_allclose(forth.durations, back.durations[::-1], rtol=1e-9)
    np.testing.assert_allclose(forth.ways, back.ways[::-1], atol=1e-9)


def test_partitions_and_pools_of_their_own_keep_programs_apart(tables):
    apart = Sharing((5, 3), (0, 1), (50.0, 1e6), (0, 1), (1.0, 1.0), (0.0, 0.0))
    course = play(tables, apart)
    np.testing.assert_allclose(course.slowdown, 1.0, rtol=1e-9)
    shared = replace(apart, memory=(0, 0))
    assert play(tables, shared).slowdown.max() > 1.1  # both use the 50 MB/s


def test_programs_that_do_not_overlap_do_not_slow_each_other(tables):
    late = shared_by_all(2, ways=8, bandwidth=50.0, starts=[0.0, 5.0])
    np.testing.assert_allclose(play(tables, late).slowdown, 1.0, rtol=0.02)
    alone = tables[0].duration(8, 50.0)
    some = shared_by_all(2, ways=8, bandwidth=50.0, starts=[0.0, 0.7 * alone])
    by_progress = play(tables, some).slowdown_by_progress[0]
    np.testing.assert_allclose(by_progress[:50], 1.0, rtol=1e-6)
    assert by_progress[90:].mean() > 1.02


def test_a_loop_disturbs_until_the_slowest_ends(tables):
    short = replace(tables[1], seconds=tables[1].seconds / 4)
    idle, loop = (
        play([tables[0], short], shared_by_all(2, ways=6, bandwidth=100.0, afterwards=afterwards))
        for afterwards in ("idle", "loop")
    )
    assert loop.durations[0] > 1.05 * idle.durations[0]
    np.testing.assert_allclose(idle.counts[1, :, 0].sum(), loop.counts[1, :, 0].sum())


def test_equal_runs_before_a_late_start_are_not_played_one_by_one(tables):
    def late(start):
        starts = [0.0, start]
        return shared_by_all(2, ways=6, bandwidth=100.0, starts=starts, afterwards="loop")

    # every run is played where intervals end in between
    every = play(tables, late(20.0), interval=1e6).durations
    few = play(tables, late(1.0), interval=1e6).durations
    np.testing.assert_array_equal(play_durations(tables, late(1.0)), few)
    np.testing.assert_allclose(play_durations(tables, late(20.0)), every, rtol=1e-4)
    begin = process_time()
    found = play_durations(tables, late(4000.0))
    assert process_time() - begin < 5
    np.testing.assert_allclose(found, every, rtol=0.2)


def test_a_third_program_hurts_and_a_regulator_keeps_its_bandwidth(tables):
    two = play(tables, shared_by_all(2, ways=8, bandwidth=70.0))
    three = play([*tables, tables[0]], shared_by_all(3, ways=8, bandwidth=70.0))
    assert np.all(three.durations[:2] > two.durations)
    assert three.durations[0] == three.durations[2]
    assert three.bandwidth.sum(axis=0)[1:-1].max() < 1.05 * 70
    assert three.ways.sum(axis=0).max() <= 8 + 1e-9


def test_bounds_widen_with_the_doubt_and_contain_the_duration(tables):
    sharing = shared_by_all(2, ways=8, bandwidth=100.0)
    duration = play(tables, sharing).durations
    widths = []
    for doubt in (0.0, 0.03):
        doubtful = [replace(table, doubt=doubt) for table in tables]
        low, high = duration_bounds(doubtful, sharing, draws=20, rng=1).T
        assert np.all((low < duration) & (duration < high))
        widths.append(float((high / low).mean()))
    assert widths[0] < 1.08 < widths[1] < 1.25


def test_tables_at_other_bandwidths_interpolate_and_wait_below_the_least(tables):
    one = tables[0]
    other = with_bandwidths(one, np.array([25.0, 50.0, 70.0, 100.0, 1e6]))
    same = [int(np.flatnonzero(one.bandwidth == b)[0]) for b in (50.0, 100.0, 1e6)]
    np.testing.assert_allclose(other.seconds[:, :, [1, 3, 4]], one.seconds[:, :, same])
    free = one.seconds[:, :, -1]
    low, least = (np.maximum(free, 64e-6 * one.misses / b) for b in (25, 50))
    np.testing.assert_allclose(other.seconds[:, :, 0] - other.seconds[:, :, 1], low - least)
    # more levels of one program say nothing new, below its own least level either
    more = with_bandwidths(one, np.union1d(one.bandwidth, [25.0, 70.0]))
    mixed = play([more, tables[1]], shared_by_all(2, ways=8, bandwidth=100.0))
    same = play(tables, shared_by_all(2, ways=8, bandwidth=100.0))
    np.testing.assert_allclose(mixed.durations, same.durations, rtol=0.005)


@pytest.mark.parametrize("change", [{"bandwidth": (1e-9,)}, {"starts": (1e9, 0.0)}])
def test_programs_that_would_never_end_are_refused_at_once(tables, monkeypatch, change):
    monkeypatch.setattr("msbgen.systems.beside.course.play_programs", None)  # nothing is played
    sharing = replace(shared_by_all(2, ways=8, bandwidth=100.0), **change)
    with pytest.raises(MeasurementError, match="more bandwidth, earlier starts or a longer"):
        play(tables, sharing)


def test_what_gives_no_table_is_refused(measured):
    profiles = measured[0].isel(context=[3, 4, 5, 15, 16, 17])
    other = profiles.assign_coords(frequency=profiles["frequency"].copy(data=[1.0, 1, 1, 2, 2, 2]))
    for broken, clock, message in (
        (profiles.isel(context=[0]), None, "has 1 context at this clock, all with 2 ways; two"),
        (profiles.isel(context=[0, 1, 2, 3, 4]), None, "lacks 8 ways with 1e.06 MB/s"),
        (profiles.drop_vars("cache_misses"), None, "has no counter 'cache_misses'; measure it"),
        (profiles.drop_vars("cache_ways"), None, "has no resource 'cache_ways'"),
        *(
            (profiles.assign_coords({name: profiles[name] * by}), None, f"{name}'; levels {wanted}")
            for name, by, wanted in (
                ("cache_ways", 1e4, "from 0 to 1024"),
                ("bandwidth", 0, "above 0"),
                ("frequency", -1, "above 0"),
            )
        ),
    ):
        with pytest.raises(MeasurementError, match=message):
            program_table(broken, clock)
    with pytest.raises(ArgumentError, match="p has the clocks 1, 2; name one"):
        program_table(other)
    with pytest.raises(
        ArgumentError, match=r"frequency is 1\.5; a clock of p, one of 1, is wanted"
    ):
        program_table(profiles, 1.5)
    with pytest.raises(ArgumentError, match=r"way_size is 0; a positive number \[B\]"):
        Columns(way_size=0)


def test_a_course_becomes_profiles_that_any_command_reads(tables, tmp_path):
    sharing = shared_by_all(2, ways=8, bandwidth=100.0, starts=[0.0, 0.0123])
    course = play(tables, sharing, interval=0.005)
    for n, profiles in enumerate(course_profiles(course)):
        path = tmp_path / f"{n}.nc"
        write_profiles(profiles, path)
        again = read_profiles(path)
        np.testing.assert_allclose(again["duration"], course.durations[n])
        total = float(again["cache_misses"].sum())
        np.testing.assert_allclose(total, missed(course)[n], rtol=1e-3)
        assert float(again["held_ways"].max()) <= 8
        np.testing.assert_allclose(again["slowdown"], course.slowdown_by_progress[n])


def test_tables_that_do_not_fit_are_refused(tables):
    sharing = shared_by_all(2, ways=8)
    small = replace(tables[1], misses=tables[1].misses[:, :5])
    with pytest.raises(MeasurementError, match="cache of 4 ways of 1024 KiB, and p with 8"):
        play([tables[0], small], sharing)
    for ways, clock, message in ((9, 1.0, "ways are 9; at most the 8"), (8, 2.0, "equal clocks")):
        with pytest.raises(ArgumentError, match=message):
            play(tables, shared_by_all(2, ways=ways, frequency=clock))
    with pytest.raises(ArgumentError, match="1 tables are given for 2 programs"):
        play(tables[:1], sharing)


def test_copies_have_the_same_bounds_unless_they_start_apart(tables):
    sharing = shared_by_all(2, ways=6, bandwidth=70.0)
    doubtful = [replace(tables[0], doubt=0.02)] * 2
    one, two = duration_bounds(doubtful, sharing, draws=10)
    np.testing.assert_array_equal(one, two)
    later = replace(sharing, starts=(0.0, 0.02))
    assert np.all(np.ptp(duration_bounds(doubtful, later, draws=10), axis=0) > 0)


def test_traffic_of_all_intervals_is_that_of_the_misses(tables):
    # most of the program is in one interval, which is longer than it
    alone = tables[0].duration(8, 50.0)
    for interval in (0.7 * alone, 5 * alone):
        course = play(tables[:1], shared_by_all(1, ways=8, bandwidth=50.0), interval=interval)
        np.testing.assert_allclose(course.times[-1], course.durations[0])
        lasting = np.diff(course.times, prepend=0.0)
        np.testing.assert_allclose(course.bandwidth @ lasting, 64e-6 * missed(course))
        used = course_profiles(course)[0]["used_bandwidth"].values
        np.testing.assert_allclose(used, course.bandwidth, rtol=1e-6)
    whole = course_dataset(course, np.ones((1, 2)))
    np.testing.assert_array_equal(whole["time"], course.times)
    assert all(v.attrs["long_name"] for name, v in whole.variables.items() if name != "program")


def test_a_bandwidth_beyond_the_measured_ones_is_warned_of(tables, caplog):
    play(tables, shared_by_all(2, ways=8))
    low = with_bandwidths(tables[0], np.array([50.0, 100.0]))
    play([low, low], shared_by_all(2, ways=8, bandwidth=100.0))
    assert not caplog.messages
    play([low, low], shared_by_all(2, ways=8))
    (text,) = caplog.messages
    assert text.startswith("p: was measured with up to 100 MB/s, and no limit is wanted")


def test_harm_of_programs_apart_is_zero_and_not_rounding(tables):
    apart = Sharing((5, 3), (0, 1), (50.0, 1e6), (0, 1), (1.0, 1.0), (0.0, 0.0))
    harm = find_harm(tables, apart)
    for part in (harm.by, harm.cache, harm.bandwidth):
        np.testing.assert_array_equal(part, 0.0)
    shared = find_harm(tables, shared_by_all(2, ways=6, bandwidth=70.0))
    assert np.all(shared.by[[0, 1], [1, 0]] > 0)


def test_constants_out_of_range_are_refused():
    for name in ("lookahead", "doubt", "table_doubt"):
        with pytest.raises(ArgumentError, match=f"{name} is -1; a number ≥ 0"):
            LawSettings(**{name: -1})
