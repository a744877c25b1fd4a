"""Replay: beside a slow one, what it conserves, its noise, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracles
from conftest import small_trace
from msbgen.core.errors import ArgumentError
from msbgen.data.schema import context_table
from msbgen.data.store import read_profiles, write_profiles
from msbgen.sources.platform.config import PlatformConfig, platform_contexts
from msbgen.sources.platform.replay import replay_trace
from msbgen.sources.platform.trace import make_trace, read_trace
from strategies import recorded_runs

PROFILES = Path(__file__).parents[3] / "profiles"
SMALL = PlatformConfig(cache_ways=(1.0, 2.0, 3.0, 4.0), bandwidths=(7.0, 70.0, 700.0, 7e4))
COUNTERS = ("instructions", "cache_requests", "cache_misses")


def counts_of(profiles: xr.Dataset) -> np.ndarray:
    return np.stack([profiles[name].values for name in COUNTERS], axis=-1)


@settings(max_examples=25)
@given(
    arrays=recorded_runs(colourings=1),
    ways=st.sampled_from(SMALL.cache_ways),
    bandwidth=st.sampled_from(SMALL.bandwidths),
    frequency=st.sampled_from(SMALL.frequencies),
    interval=st.sampled_from([0.01, 0.0017]),
)
def test_replay_without_noise_is_the_slow_replay(arrays, ways, bandwidth, frequency, interval):
    instructions, cycles, fixed, histogram = arrays
    trace = make_trace(*arrays, attrs={})
    w = int(ways)
    hits = histogram[:w, :, 0].sum(axis=0)
    misses = histogram[w:, :, 0].sum(axis=0)
    lengths = cycles.astype(np.float32).astype(float) / (frequency * 1e9) + 1e-9 * (
        hits @ [14.0, 3.5] + misses @ [55.0, 9.0] + fixed
    )
    duration, counts = oracles.replay(
        *(instructions, hits.sum(axis=1), misses.sum(axis=1), lengths),
        *(bandwidth * 1e6 / 64 * 1e-3, 1e-3, interval),
    )
    # where a run ends on a reading, rounding decides how many readings there are
    assume(abs(duration / interval - round(duration / interval)) > 1e-6)
    # where the last miss uses a grant up, rounding decides whether the run waits for another one
    grants = misses.sum() / (bandwidth * 1e6 / 64 * 1e-3)
    assume(grants == 0 or abs(grants - round(grants)) > 1e-6)
    got = replay_trace(
        trace, [[ways, bandwidth, frequency]], 1, interval, 0, SMALL.without_noise(), threads=1
    )
    assert got.duration.values[0, 0] == pytest.approx(duration, rel=1e-9)
    assert got.sizes["time"] == len(counts)
    np.testing.assert_allclose(counts_of(got)[0, 0], counts, atol=2, rtol=1e-6)


@settings(max_examples=20)
@given(arrays=recorded_runs(), seed=st.integers(0, 2**63))
def test_replay_conserves_counts(arrays, seed):
    instructions, _, _, histogram = arrays
    trace = make_trace(*arrays, attrs={})
    contexts = [[w, b, 1.5] for w in SMALL.cache_ways for b in (70.0, 7e4)]
    got = replay_trace(trace, contexts, 2, 0.002, seed, SMALL, threads=1)
    total = np.nansum(counts_of(got).astype(float), axis=2)
    assert np.all(total[..., 0] == instructions.sum())
    assert np.all(total[..., 1] == histogram[:, :, 0].sum())
    for (ways, *_), runs in zip(contexts, total[..., 2]):
        assert set(runs) <= set(histogram[int(ways) :].sum(axis=(0, 1, 3)).astype(float))
    assert np.all(got.cache_misses.fillna(0) <= got.cache_requests.fillna(0))


def test_a_run_depends_on_trace_context_number_and_seed_only():
    trace = small_trace()
    contexts = platform_contexts("grid:3x3x2")
    all_of_them = replay_trace(trace, contexts, 3, 0.01, 11, threads=2)
    order = np.random.default_rng(0).permutation(len(contexts))[:7]
    some = replay_trace(trace, contexts[order], 2, 0.01, 11, threads=1)
    kept = all_of_them.isel(context=order, run=slice(2))
    np.testing.assert_array_equal(some.duration, kept.duration)
    np.testing.assert_array_equal(counts_of(some), counts_of(kept)[:, :, : some.sizes["time"]])

    runs = all_of_them.duration.values
    assert np.all(np.diff(np.sort(runs.ravel())) > 0)  # no two runs share their noise
    assert np.all(replay_trace(trace, contexts, 3, 0.01, 12).duration.values != runs)
    assert np.all(replay_trace(small_trace(seed=4), contexts, 3, 0.01, 11).duration.values != runs)


def test_a_generator_gives_other_runs_each_time_and_the_same_again():
    trace, context = small_trace(40), [[5.0, 350.0, 1.5]]
    rng = np.random.default_rng(5)
    first, second = (replay_trace(trace, context, 1, 0.01, rng).duration.item() for _ in range(2))
    again = replay_trace(trace, context, 1, 0.01, np.random.default_rng(5)).duration.item()
    assert first != second
    assert first == again


def test_the_sampling_interval_does_not_change_the_run():
    """Also where a run has more readings than room was made for at first."""
    trace = small_trace()
    config = replace(PlatformConfig(), reading_jitter=0.0, preemption_rate=200.0)
    coarse, fine = (
        replay_trace(trace, [[4.0, 140.0, 1.2]], 2, dt, 1, config) for dt in (0.01, 0.0005)
    )
    assert fine.sizes["time"] > 256
    np.testing.assert_allclose(coarse.duration, fine.duration, rtol=1e-12)
    n = 20 * (coarse.sizes["time"] - 1)
    summed = counts_of(fine)[:, :, :n].reshape(1, 2, -1, 20, 3).sum(axis=3)
    whole = counts_of(coarse)[:, :, : summed.shape[2]]
    alive = np.isfinite(summed).all(axis=-1)
    np.testing.assert_allclose(summed[alive], whole[alive], atol=2)


def steady_trace(n: int = 3000) -> xr.Dataset:
    """A program that only computes, one instruction a cycle."""
    arrays = np.full(n, 400_000), np.full(n, 4e5), np.zeros(n), np.zeros((21, n, 1, 2))
    return make_trace(*arrays, attrs={})


def test_noise_has_the_size_that_the_configuration_says():
    runs = replay_trace(steady_trace(), [[2.0, 70.0, 2.0]], 200, 0.01, 0)
    relative = runs.duration.values / 0.6 - 1
    assert 0.007 < relative.std() < 0.0095
    # interrupts, preemptions and the start: 0.075 %, 0.02 % and 0.4 ms of 0.6 s
    assert abs(relative.mean() - 0.0016) < 4 * 0.008 / 200**0.5


QUIET = PlatformConfig().without_noise()


def one_noise(trace: xr.Dataset, config: PlatformConfig, runs: int = 40) -> xr.Dataset:
    return replay_trace(trace, [[2.0, 70.0, 2.0]], runs, 0.01, 0, config)


def test_interrupts_and_preemptions_take_their_time():
    trace = steady_trace()
    ticks = one_noise(trace, replace(QUIET, tick_rate=250.0)).duration.values - 0.6
    np.testing.assert_allclose(ticks, 150 * 3e-6, atol=4e-6)
    preempted = one_noise(trace, replace(QUIET, preemption_rate=50.0), 200).duration.values - 0.6
    # a compound Poisson process: 30 arrivals of 0.4 ms, with twice the variance of each
    assert preempted.mean() == pytest.approx(30 * 0.4e-3, rel=4 * (2 / 30 / 200) ** 0.5 + 0.02)
    late = one_noise(trace, replace(QUIET, start_offset=0.8e-3), 200).duration.values - 0.6
    assert 0 <= late.min() < 0.02e-3
    assert 0.78e-3 < late.max() <= 0.8e-3 + 1e-12


def test_regulator_phase_and_colouring_are_drawn_for_each_run():
    trace = small_trace()
    fixed = one_noise(trace.isel(colouring=[0]), QUIET)
    assert len(np.unique(fixed.duration)) == 1
    phases = one_noise(trace.isel(colouring=[0]), replace(QUIET, random_phases=True))
    assert len(np.unique(phases.duration)) == 40
    assert len(np.unique(phases.cache_misses.sum("time"))) == 1
    colourings = one_noise(trace, QUIET).cache_misses.sum("time").values
    values, counts = np.unique(colourings, return_counts=True)
    assert len(values) == 2
    assert counts.min() >= 10


@pytest.mark.parametrize("task", ["gzip", "zstd"])
def test_replay_agrees_with_the_shipped_truth(task):
    truth = read_profiles(PROFILES / f"{task}-truth.nc").isel(context=slice(None, None, 2))
    trace = read_trace(PROFILES / "traces" / f"{task}.nc")
    got = replay_trace(trace, context_table(truth), 10, 0.01, 0)
    error = got.duration.mean("run").values / truth.duration.mean("run").values - 1
    assert np.abs(error).mean() < 0.015
    assert np.abs(error).max() < 0.04
    for name in COUNTERS:
        ours, theirs = (float(p[name].sum("time").mean()) for p in (got, truth))
        assert ours == pytest.approx(theirs, rel=0.01)
    spread = [float((p.duration.std("run") / p.duration.mean("run")).mean()) for p in (got, truth)]
    assert 1 / 1.5 < spread[0] / spread[1] < 1.5


def test_replay_makes_a_valid_profile_file(tmp_path):
    got = replay_trace(small_trace(), platform_contexts("grid:2x2x2"), 2, 0.01, 0)
    write_profiles(got, tmp_path / "small.nc")
    back = read_profiles(tmp_path / "small.nc")
    np.testing.assert_array_equal(counts_of(back), counts_of(got))
    np.testing.assert_array_equal(back.cache_ways.attrs["levels"], np.arange(2.0, 21.0))
    readings = np.isfinite(got.instructions).sum("time")
    np.testing.assert_array_equal(readings, np.ceil(got.duration / 0.01))


def test_progress_reaches_the_total_and_may_stop_the_replay():
    seen = []
    contexts = platform_contexts("grid:2x2x2")
    replay_trace(small_trace(40), contexts, 1, progress=lambda *at: seen.append(at))
    assert seen[-1] == (8, 8)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def interrupted(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay_trace(small_trace(40), contexts, 1, progress=interrupted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": np.empty((0, 3))}, "shape"),
        ({"contexts": [[2.5, 70.0, 1.2]]}, "cache_ways is 2.5 in context 0; one of 2, 3"),
        ({"contexts": [[2.0, 70.0, 1.2], [2.0, 75.0, 1.2]]}, "bandwidth is 75 in context 1"),
        ({"contexts": [[2.0, 70.0, np.nan]]}, "finite numbers are wanted"),
        ({"contexts": [[2.0, 70.0, 1.2]] * 2}, "listed 2 times; each context once"),
        ({"runs": 0}, "runs is 0; a whole number ≥ 1"),
        ({"runs": 1.5}, "runs is 1.5"),
        ({"runs": 1e300}, "runs is 1e"),
        ({"runs": "ten"}, "runs is ten"),
        ({"runs": [1, 2]}, r"runs have shape \(2,\)"),
        ({"runs": 2**30}, "fewer runs or contexts, or a longer interval, is wanted"),
        ({"interval": 0.0}, "interval is 0.0; a number"),
        ({"interval": np.nan}, "interval is nan; a number"),
        ({"interval": np.inf}, "interval is inf; a number"),
        ({"interval": 1e-12}, "steps to play; at most"),
        ({"threads": 0}, "threads is 0"),
        ({"rng": -1}, "rng is -1"),
        ({"rng": 1.5}, "rng is 1.5"),
        ({"rng": None}, "rng is None"),
        ({"rng": 10**5000}, "rng is too large"),
    ],
)
def test_replay_refuses(change, message):
    arguments = {"contexts": [[2.0, 70.0, 1.2]], "runs": 1, **change}
    with pytest.raises(ArgumentError, match=message):
        replay_trace(small_trace(20), **arguments)


def test_seeds_may_be_large_and_of_any_whole_type():
    trace, context = small_trace(20), [[2.0, 70.0, 1.2]]
    runs = [replay_trace(trace, context, 1, rng=seed) for seed in (7, np.int64(7), 2**100)]
    assert runs[0].duration.item() == runs[1].duration.item() != runs[2].duration.item()
    assert runs[2].attrs["seed"] == str(2**100)


def test_runs_that_would_never_end_are_refused():
    ones = np.ones(5)
    for cycles, fixed in ((1e38, 0.0), (1.0, 1e38), (1e25, 1e30)):
        trace = make_trace(4e5 * ones, cycles * ones, fixed * ones, np.ones((9, 5, 1, 2)), attrs={})
        with pytest.raises(ArgumentError, match="steps to play; at most"):
            replay_trace(trace, [[2.0, 70.0, 1.2]], 1, 3600.0)
    # as where the regulator grants hardly anything
    slow = replace(PlatformConfig(), bandwidths=(1e-9,))
    with pytest.raises(ArgumentError, match="steps to play"):
        replay_trace(small_trace(20), [[2.0, 1e-9, 1.2]], 1, 3600.0, config=slow)


def test_replay_refuses_more_ways_than_the_trace_has():
    ones = np.ones(5)
    trace = make_trace(4e5 * ones, 4e5 * ones, ones, np.ones((9, 5, 1, 2)), attrs={})
    assert replay_trace(trace, [[8.0, 70.0, 1.2]], 1).duration.item() > 0
    with pytest.raises(ArgumentError, match="cache_ways is 9; at most the 8 of the trace"):
        replay_trace(trace, [[9.0, 70.0, 1.2]], 1)


def test_contexts_with_fewer_runs_than_others_lack_the_rest():
    got = replay_trace(small_trace(40), [[2.0, 70.0, 1.2], [9.0, 700.0, 2.0]], [3, 1])
    assert got.duration.notnull().sum("run").values.tolist() == [3, 1]
    assert got.instructions.notnull().any("time").sum("run").values.tolist() == [3, 1]
