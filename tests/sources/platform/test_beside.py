"""Replays of programs that share the cache and the bandwidth, and the streams they are made of."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.check import validate_profiles
from msbgen.data.sharing import Sharing, shared_by_all
from msbgen.sources.platform import (
    PlatformConfig,
    StreamError,
    read_stream,
    replay_beside,
    write_stream,
)
from streams import random_lines, stream_of

QUIET = PlatformConfig().without_noise()


def total(profiles, name="cache_misses"):
    return float(profiles[name].sum())


def test_a_stream_survives_its_file_and_a_damaged_one_is_refused(tmp_path):
    one = stream_of(random_lines(1, 400))
    write_stream(one, tmp_path / "a.nc")
    xr.testing.assert_identical(read_stream(tmp_path / "a.nc"), one)
    for broken, message in (
        (one.assign(requests=one.requests + 1), "'requests' has a sum of 440, where there are 400"),
        (one.assign(prefetched=one.prefetched + 2), "'prefetched' is 2"),
        (one.drop_vars("line"), "'line' is missing: record the stream again"),
    ):
        with pytest.raises(StreamError, match=message):
            replay_beside([broken], shared_by_all(1, ways=2))


def test_pages_are_numbered_by_first_use():
    lines = [70 * 64 + 3, 5 * 64, 70 * 64 + 4, 5 * 64 + 63]
    assert stream_of(lines, 1)["line"].values.tolist() == [3, 64, 4, 127]


def test_programs_with_partitions_of_their_own_run_as_if_alone():
    one, two = stream_of(random_lines(3)), stream_of(random_lines(4, seed=1))
    apart = Sharing((4, 6), (0, 1), (200.0, 300.0), (0, 1), (1.5, 2.0), (0.0, 0.0))
    together = replay_beside([one, two], apart, 3, config=QUIET)
    for n, program in enumerate((one, two)):
        validate_profiles(together[n].drop_vars("held_ways"), part=True)
        alone = replay_beside([program], apart.only([n]), 3, config=QUIET)[0]
        # page colours are drawn again
        np.testing.assert_allclose(total(together[n]), total(alone), rtol=0.08)
        ratio = together[n]["duration"].values.mean() / alone["duration"].values.mean()
        assert abs(ratio - 1) < 0.08


def test_two_copies_of_a_program_suffer_alike_and_share_the_regulator():
    program = stream_of(random_lines(6))
    both = replay_beside([program] * 2, shared_by_all(2, ways=8, bandwidth=300), 2, config=QUIET)
    lone = replay_beside([program], shared_by_all(1, ways=8, bandwidth=300), 2, config=QUIET)[0]
    one, two = (float(p["duration"].mean()) for p in both)
    assert abs(one / two - 1) < 0.01
    assert one > 1.3 * float(lone["duration"].mean())
    assert sum(total(p) for p in both) > 2.2 * total(lone)  # 12 MiB are more than 8
    # misses of both, per period of 1 ms, are at most those that the pool grants
    granted = 300e6 / 64 * both[0]["duration"].values
    misses = sum(p["cache_misses"].sum("time").values for p in both)
    assert np.all(misses <= granted + 2 * 300e3 / 64)
    assert np.all(misses >= 0.9 * granted)
    held = [float(p["held_ways"].isel(run=0, time=-1).item()) for p in both]
    assert sum(held) <= 8


def test_programs_that_fit_the_cache_together_do_not_disturb_each_other():
    one, two = stream_of(random_lines(1)), stream_of(random_lines(2, seed=1))
    beside = replay_beside([one, two], shared_by_all(2, ways=20), 1, config=QUIET)
    for program, profiles in zip((one, two), beside):
        assert total(profiles) == len(np.unique(program["line"].values))


def test_a_queue_delays_demand_misses_more_than_prefetched_ones():
    lines = random_lines(40, 6_000)
    demand = stream_of(lines)
    early = demand.assign(prefetched=demand.prefetched + 1)
    heavy = stream_of(random_lines(40, 6_000, seed=2))
    slower = []
    for program in (demand, early):
        queue = shared_by_all(2, ways=2, bandwidth=1400, channel="queue")
        beside = replay_beside([program, heavy], queue, 1, config=QUIET)[0]
        alone = replay_beside([program], shared_by_all(1, ways=2), 1, config=QUIET)[0]
        slower.append(float(beside["duration"].item() - alone["duration"].item()))
    assert 0 <= slower[1] < 0.2 * slower[0]


def test_a_loop_displaces_lines_until_the_slowest_has_ended():
    long, short = stream_of(random_lines(7), 400), stream_of(random_lines(7, 60_000, seed=3), 40)
    misses = {}
    for afterwards in ("idle", "loop"):
        sharing = shared_by_all(2, ways=8, starts=[0.0, 0.001], afterwards=afterwards)
        found = replay_beside([long, short], sharing, 1, config=QUIET)
        misses[afterwards] = total(found[0])
        assert total(found[1], "instructions") == 40 * 20_000  # its first run only
    assert misses["loop"] > 1.2 * misses["idle"]


def test_noise_differs_between_runs_and_is_determined_by_the_seed():
    pair = [stream_of(random_lines(2)), stream_of(random_lines(2, seed=1))]
    first, again, other = (
        replay_beside(pair, shared_by_all(2, ways=4), 3, rng=seed) for seed in (1, 1, 2)
    )
    xr.testing.assert_identical(first[0], again[0])
    durations = [*first[0]["duration"].values[0], *other[0]["duration"].values[0]]
    assert len(set(durations)) == 6


@pytest.mark.parametrize(
    ("sharing", "message"),
    [
        (lambda: shared_by_all(2, ways=2), "1 streams are given for 2 programs"),
        (lambda: shared_by_all(1, ways=2.5), r"ways are \(2.5,\); whole ways"),
        (lambda: shared_by_all(1, ways=0), "ways is .0,.; a list of positive numbers"),
        (lambda: shared_by_all(1, ways=2, channel="bus"), "channel is 'bus'; one of regulator"),
        (lambda: shared_by_all(1, ways=2, starts=-1.0), "starts is .-1.0,.; a list of numbers ≥ 0"),
        (lambda: Sharing((2,), (1,), (1.0,), (0,), (1.0,), (0.0,)), "cache has 1; the number of"),
        (lambda: Sharing((2,), (0,), (1.0,), (0,), (), (0.0,)), "frequency has 0 entries"),
    ],
)
def test_what_cannot_be_shared_is_refused(sharing, message):
    with pytest.raises(ArgumentError, match=message):
        replay_beside([stream_of(random_lines(1, 400))], sharing())


def test_programs_without_an_end_are_refused(monkeypatch):
    monkeypatch.setattr("msbgen.sources.platform.beside._MOST_READINGS", 1 << 9)
    slow = stream_of(random_lines(1, 400))
    slow["core_cycles"] = slow["core_cycles"] * 1e9
    with pytest.raises(MeasurementError, match="check core_cycles and fixed_time of the streams"):
        replay_beside([slow], shared_by_all(1, ways=2), 1, config=QUIET)


@pytest.mark.parametrize(("nanoseconds", "interval"), [(1e12, 1e-5), (1e20, 1e9)])
def test_programs_that_would_play_for_hours_are_refused_at_once(monkeypatch, nanoseconds, interval):
    monkeypatch.setattr("msbgen.sources.platform.beside.replay_shared", None)  # nothing is played
    slow = stream_of(random_lines(1, 400))
    slow["fixed_time"] = slow["fixed_time"] + nanoseconds
    with pytest.raises(MeasurementError, match="check core_cycles and fixed_time of the streams"):
        replay_beside([slow], shared_by_all(1, ways=2), 1, interval)
