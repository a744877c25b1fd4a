"""The virtual platform: traces, replay, recording."""

import logging
import subprocess
from dataclasses import replace
from pathlib import Path
from pydoc_data import topics

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracles
from msbgen.data.schema import context_table
from msbgen.data.store import read_profiles, write_profiles
from msbgen.errors import ProfileError
from msbgen.platform import (
    PlatformConfig,
    RecordError,
    TraceError,
    check_recording_needs,
    make_trace,
    platform_contexts,
    read_trace,
    record_trace,
    replay,
    validate_trace,
    write_trace,
)
from msbgen.platform.record import cache_sets, stack_histogram
from strategies import recorded_runs

PROFILES = Path(__file__).parents[2] / "profiles"
SMALL = PlatformConfig(cache_ways=(1.0, 2.0, 3.0, 4.0), bandwidths=(7.0, 70.0, 700.0, 7e4))
COUNTERS = ("instructions", "cache_requests", "cache_misses")


def small_trace(n: int = 300, seed: int = 3) -> xr.Dataset:
    """A program of a few hundred milliseconds whose phases differ in misses."""
    rng = np.random.default_rng(seed)
    instructions = np.full(n, 400_000)
    busy = np.sin(np.arange(n) / 20) > 0
    first = rng.poisson(np.where(busy, 900, 40), (21, 2, n)).transpose(0, 2, 1)
    histogram = np.stack([first, np.roll(first, 1, axis=0)], axis=2)
    return make_trace(
        instructions, 0.7 * instructions, 100.0 * busy, histogram, attrs={"program": "small"}
    )


def counts_of(profiles: xr.Dataset) -> np.ndarray:
    return np.stack([profiles[name].values for name in COUNTERS], axis=-1)


# --------------------------------------------------------------------------- replay


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
    got = replay(
        trace, [[ways, bandwidth, frequency]], 1, interval, 0, SMALL.without_noise(), threads=1
    )
    assert got.duration.values[0, 0] == pytest.approx(duration, rel=1e-9)
    assert got.sizes["time"] == len(counts)
    np.testing.assert_allclose(counts_of(got)[0, 0], counts, atol=2, rtol=1e-6)


@settings(max_examples=60)
@given(arrays=recorded_runs(), seed=st.integers(0, 2**63))
def test_replay_conserves_counts(arrays, seed):
    instructions, _, _, histogram = arrays
    trace = make_trace(*arrays, attrs={})
    contexts = [[w, b, 1.5] for w in SMALL.cache_ways for b in (70.0, 7e4)]
    got = replay(trace, contexts, 2, 0.002, seed, SMALL, threads=1)
    total = np.nansum(counts_of(got).astype(float), axis=2)
    assert np.all(total[..., 0] == instructions.sum())
    assert np.all(total[..., 1] == histogram[:, :, 0].sum())
    for (ways, *_), runs in zip(contexts, total[..., 2]):
        assert set(runs) <= set(histogram[int(ways) :].sum(axis=(0, 1, 3)).astype(float))
    assert np.all(got.cache_misses.fillna(0) <= got.cache_requests.fillna(0))


@settings(max_examples=60)
@given(arrays=recorded_runs(colourings=1))
def test_more_ways_never_miss_more_and_never_take_longer_unregulated(arrays):
    trace = make_trace(*arrays, attrs={})
    contexts = [[w, 7e4, 1.5] for w in SMALL.cache_ways]
    got = replay(trace, contexts, 1, 0.01, 0, SMALL.without_noise(), threads=1)
    assert np.all(np.diff(got.cache_misses.sum("time").values[:, 0]) <= 0)
    assert np.all(np.diff(got.duration.values[:, 0]) <= 1e-12)


@settings(max_examples=60)
@given(arrays=recorded_runs(), seed=st.integers(0, 1000))
def test_regulator_limits_misses(arrays, seed):
    trace = make_trace(*arrays, attrs={})
    config = replace(SMALL, reading_jitter=0.0)
    got = replay(trace, [[1.0, 7.0, 2.0], [2.0, 70.0, 2.0]], 2, 0.005, seed, config, threads=1)
    grant = got.bandwidth.values * 1e6 / 64 * 1e-3
    # a window of five periods touches six of them
    assert np.all(np.nan_to_num(got.cache_misses.values) <= 6 * grant[:, None, None] + 1)
    total = got.cache_misses.sum("time").values
    assert np.all(got.duration.values >= (total / grant[:, None] - 2) * 1e-3)


def test_a_run_depends_on_trace_context_number_and_seed_only():
    trace = small_trace()
    contexts = platform_contexts("grid:3x3x2")
    all_of_them = replay(trace, contexts, 3, 0.01, 11, threads=2)
    order = np.random.default_rng(0).permutation(len(contexts))[:7]
    some = replay(trace, contexts[order], 2, 0.01, 11, threads=1)
    kept = all_of_them.isel(context=order, run=slice(2))
    np.testing.assert_array_equal(some.duration, kept.duration)
    np.testing.assert_array_equal(counts_of(some), counts_of(kept)[:, :, : some.sizes["time"]])

    runs = all_of_them.duration.values
    assert np.all(np.diff(np.sort(runs.ravel())) > 0)  # no two runs share their noise
    assert np.all(replay(trace, contexts, 3, 0.01, 12).duration.values != runs)
    assert np.all(replay(small_trace(seed=4), contexts, 3, 0.01, 11).duration.values != runs)


def test_a_generator_gives_other_runs_each_time_and_the_same_again():
    trace, context = small_trace(40), [[5.0, 350.0, 1.5]]
    rng = np.random.default_rng(5)
    first, second = (replay(trace, context, 1, 0.01, rng).duration.item() for _ in range(2))
    again = replay(trace, context, 1, 0.01, np.random.default_rng(5)).duration.item()
    assert first != second
    assert first == again


def test_the_sampling_interval_does_not_change_the_run():
    """Also where a run has more readings than room was made for at first."""
    trace = small_trace()
    config = replace(PlatformConfig(), reading_jitter=0.0, preemption_rate=200.0)
    coarse, fine = (replay(trace, [[4.0, 140.0, 1.2]], 2, dt, 1, config) for dt in (0.01, 0.0005))
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
    runs = replay(steady_trace(), [[2.0, 70.0, 2.0]], 200, 0.01, 0)
    relative = runs.duration.values / 0.6 - 1
    assert 0.007 < relative.std() < 0.0095
    # interrupts, preemptions and the start: 0.075 %, 0.02 % and 0.4 ms of 0.6 s
    assert abs(relative.mean() - 0.0016) < 4 * 0.008 / 200**0.5


QUIET = PlatformConfig().without_noise()


def one_noise(trace: xr.Dataset, config: PlatformConfig, runs: int = 40) -> xr.Dataset:
    return replay(trace, [[2.0, 70.0, 2.0]], runs, 0.01, 0, config)


def test_fluctuation_inside_a_run_is_an_autoregression():
    profiles = one_noise(steady_trace(), replace(QUIET, phase_noise=0.015))
    counts = profiles.instructions.values[0, :, :55]
    # a reading takes 100 steps of correlation 0.9: their mean has a variance of
    # (19 - 2 · 0.9 / 0.1² / 100) / 100
    expected = 0.015 * ((19 - 1.8) / 100) ** 0.5
    assert (counts.std(axis=1) / counts.mean(axis=1)).mean() == pytest.approx(expected, rel=0.1)


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
    truth = read_profiles(PROFILES / f"{task}-truth.nc")
    trace = read_trace(PROFILES / "traces" / f"{task}.nc")
    got = replay(trace, context_table(truth), 10, 0.01, 0)
    error = got.duration.mean("run").values / truth.duration.mean("run").values - 1
    assert np.abs(error).mean() < 0.015
    assert np.abs(error).max() < 0.04
    for name in COUNTERS:
        ours, theirs = (float(p[name].sum("time").mean()) for p in (got, truth))
        assert ours == pytest.approx(theirs, rel=0.01)
    spread = [float((p.duration.std("run") / p.duration.mean("run")).mean()) for p in (got, truth)]
    assert 1 / 1.5 < spread[0] / spread[1] < 1.5


def test_replay_makes_a_valid_profile_file(tmp_path):
    got = replay(small_trace(), platform_contexts("grid:2x2x2"), 2, 0.01, 0)
    write_profiles(got, tmp_path / "small.nc")
    back = read_profiles(tmp_path / "small.nc")
    np.testing.assert_array_equal(counts_of(back), counts_of(got))
    np.testing.assert_array_equal(back.cache_ways.attrs["levels"], np.arange(2.0, 21.0))
    readings = np.isfinite(got.instructions).sum("time")
    np.testing.assert_array_equal(readings, np.ceil(got.duration / 0.01))


def test_progress_reaches_the_total_and_may_stop_the_replay():
    seen = []
    contexts = platform_contexts("grid:2x2x2")
    replay(small_trace(40), contexts, 1, progress=lambda *at: seen.append(at))
    assert seen[-1] == (8, 8)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def interrupted(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(small_trace(40), contexts, 1, progress=interrupted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": [[2.0, 70.0]]}, "shape"),
        ({"contexts": np.empty((0, 3))}, "shape"),
        ({"contexts": [[2.5, 70.0, 1.2]]}, "cache_ways 2.5"),
        ({"contexts": [[2.0, 75.0, 1.2]]}, "bandwidth 75"),
        ({"contexts": [[2.0, 70.0, np.nan]]}, "frequency nan"),
        ({"contexts": [[2.0, 70.0, 1.2]] * 2}, "2 times, want each context once"),
        ({"runs": 0}, "runs: got 0"),
        ({"interval": 0.0}, "interval: got 0"),
        ({"interval": np.inf}, "interval: got inf"),
        ({"threads": -1}, "threads: got -1"),
    ],
)
def test_replay_refuses(change, message):
    arguments = {"contexts": [[2.0, 70.0, 1.2]], "runs": 1, **change}
    with pytest.raises(ValueError, match=message):
        replay(small_trace(20), **arguments)


def test_replay_refuses_more_ways_than_the_trace_has():
    ones = np.ones(5)
    trace = make_trace(4e5 * ones, 4e5 * ones, ones, np.ones((9, 5, 1, 2)), attrs={})
    assert replay(trace, [[8.0, 70.0, 1.2]], 1).duration.item() > 0
    with pytest.raises(ValueError, match="at most the 8 of the trace"):
        replay(trace, [[9.0, 70.0, 1.2]], 1)


@pytest.mark.parametrize(
    "change",
    [
        {"cache_ways": (2.5,)},
        {"frequencies": ()},
        {"bandwidths": (0.0,)},
        {"hit_time": (1.0, -1.0)},
        {"regulator_period": 0.0},
        {"tick_rate": -1.0},
        {"start_offset": np.nan},
        {"phase_correlation": 1.0},
        {"speed_noise": 0.5},
    ],
)
def test_configuration_refuses(change):
    with pytest.raises(ValueError, match=r"want|noise"):
        PlatformConfig(**change)


def test_contexts_by_description(tmp_path):
    everything = platform_contexts("all")
    assert everything.shape == (4560, 3)
    assert len(np.unique(everything, axis=0)) == 4560
    grid = platform_contexts("grid:5x4x1")
    assert grid.shape == (20, 3)
    assert set(grid[:, 0]) == {2.0, 6.0, 11.0, 16.0, 20.0}
    assert set(grid[:, 1]) == {70.0, 490.0, 980.0, 1400.0}
    assert np.all(grid[:, 2] == 2.3)
    path = tmp_path / "some.csv"
    path.write_text("frequency,cache_ways,bandwidth\n1.7000000000000002,3,140\n")
    np.testing.assert_array_equal(platform_contexts(str(path)), [[3.0, 140.0, 1.7]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cache_ways,bandwidth\n2,70\n", "row 1 is 'cache_ways,bandwidth'"),
        ("cache_ways,bandwidth,frequency\n2,70,fast\n", "row 2 is '2,70,fast'"),
        ("cache_ways,bandwidth,frequency\n1,70,1.2\n", "cache_ways 1, want one of 2, 3"),
    ],
)
def test_context_table_is_checked(tmp_path, text, message):
    path = tmp_path / "some.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        platform_contexts(str(path))


@pytest.mark.parametrize("selection", ["grid:5x5", "grid:axbxc", "grid:0x1x1", "grid:20x1x1", "no"])
def test_unknown_descriptions_are_refused(selection):
    with pytest.raises(ValueError, match="contexts: got"):
        platform_contexts(selection)


# --------------------------------------------------------------------------- traces


@settings(max_examples=20)
@given(arrays=recorded_runs())
def test_a_trace_survives_its_file(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "a.nc"
    trace = make_trace(*arrays, attrs={"program": "p"})
    write_trace(trace, path)
    xr.testing.assert_identical(read_trace(path), trace)
    with pytest.raises(FileExistsError):
        write_trace(trace, path)
    write_trace(trace, path, overwrite=True)


def test_shipped_traces_are_valid_and_small():
    paths = sorted((PROFILES / "traces").glob("*.nc"))
    assert len(paths) >= 11
    for path in paths:
        trace = read_trace(path)
        assert path.stat().st_size < 1_000_000
        assert trace.attrs["program"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.assign_attrs(schema="msbgen-profile/1"), "another kind of file"),
        (lambda t: t.drop_vars("core_cycles"), "'core_cycles' is missing"),
        (lambda t: t.drop_vars("stream"), "'stream'"),
        (lambda t: t.isel(depth=slice(1)), "'depth' has one entry"),
        (lambda t: t.isel(interval=slice(0)), "empty"),
        (lambda t: t.assign(instructions=0 * t.instructions), "'instructions'"),
        (lambda t: t.assign(fixed_time=t.fixed_time.assign_attrs(units="s")), "units 's'"),
        (
            lambda t: t.assign(
                core_cycles=t.core_cycles.where(t.interval_number != 3).assign_attrs(units="1")
            ),
            "'core_cycles' is nan in interval 3",
        ),
        (
            lambda t: t.assign(
                distance_histogram=(t.distance_histogram * (t.colouring_number + 1)).assign_attrs(
                    units="1"
                )
            ),
            "differ between colourings",
        ),
    ],
)
def test_bad_traces_are_refused(spoil, message):
    trace = small_trace(10)
    numbered = trace.assign_coords(
        interval_number=("interval", np.arange(10)), colouring_number=("colouring", [0, 1])
    )
    with pytest.raises(TraceError, match=message):
        validate_trace(spoil(numbered))


def test_a_profile_is_no_trace():
    with pytest.raises(ProfileError, match=r"gzip\.nc: attribute 'schema'"):
        read_trace(PROFILES / "gzip.nc")


# --------------------------------------------------------------------------- recording


@settings(max_examples=30)
@given(
    lines=st.lists(st.integers(0, 3000).map(lambda i: i * 64 + i % 2), min_size=1, max_size=300),
    seed=st.integers(0, 2**32),
)
def test_stack_distances_give_the_misses_of_every_lru_cache(lines, seed):
    rng = np.random.default_rng(seed)
    # small caches fill only where many lines share a set: draw most lines from few pages
    lines = [line % (64 * 40) if rng.random() < 0.8 else line for line in lines]
    streams = rng.integers(0, 2, len(lines))
    cut = int(rng.integers(0, len(lines) + 1))
    keys = rng.integers(2**63, size=2, dtype=np.uint64)
    requests = (2 * np.array(lines) + streams).astype(np.uint64)
    histogram = stack_histogram(requests, np.array([cut, len(lines) - cut]), keys)
    assert histogram.shape == (21, 2, 2, 2)
    for c, key in enumerate(keys):
        sets = cache_sets(requests // 2, key).tolist()
        for w in (1, 2, 3, 20):
            assert histogram[w:, :, c].sum() == oracles.lru_misses(lines, sets, w)
    by_interval = histogram.sum(axis=(0, 3))
    assert np.all(by_interval == np.array([[cut], [len(lines) - cut]]))
    assert np.all(histogram.sum(axis=(0, 1))[:, 1] == streams.sum())


def test_stack_distances_in_a_set_that_overflows():
    # 30 lines of one set, cyclically: LRU never hits, whatever the ways
    page = np.arange(200_000, dtype=np.uint64) * 64
    key = np.uint64(12345)
    sets = cache_sets(page, key)
    np.testing.assert_allclose(np.bincount(sets.astype(int) // 64), 200_000 / 256, rtol=0.2)
    lines = np.tile(page[sets == sets[0]][:30], 4)
    histogram = stack_histogram(2 * lines, np.array([len(lines)]), np.array([key]))
    assert histogram[20].sum() == 120
    few = np.tile(lines[:7], 4)
    histogram = stack_histogram(2 * few, np.array([len(few)]), np.array([key]))
    assert histogram[:, 0, 0, 0].tolist() == [0] * 6 + [21] + [0] * 13 + [7]


def test_stack_distances_in_one_full_set():
    page = np.arange(20_000, dtype=np.uint64) * 64
    key = np.uint64(99)
    sets = cache_sets(page, key)
    rng = np.random.default_rng(0)
    lines = rng.choice(page[sets == sets[0]][:26], 3000)
    histogram = stack_histogram(2 * lines, np.array([len(lines)]), np.array([key]))
    for w in (1, 10, 18, 19, 20):
        assert histogram[w:].sum() == oracles.lru_misses(lines.tolist(), [0] * len(lines), w)


def recorder_missing() -> str:
    try:
        check_recording_needs()
    except RecordError as error:
        return str(error)
    return ""


needs_recorder = pytest.mark.skipif(bool(recorder_missing()), reason=recorder_missing())


def compiled(source: str, folder: Path) -> list[str]:
    program = folder / "program"
    options = ["-O1", "-pthread", "-x", "c", "-", "-o", str(program)]
    subprocess.run(["gcc", *options], input=source.encode(), check=True)
    return [str(program)]


@needs_recorder
def test_record_a_real_compressor(tmp_path):
    seen = []
    text = Path(topics.__file__)
    command = ["gzip", "-9", "-c", str(text)]
    trace = record_trace(command, tmp_path / "gzip.nc", progress=seen.append)
    xr.testing.assert_identical(read_trace(tmp_path / "gzip.nc"), trace)
    instructions = float(trace.instructions.sum())
    assert instructions > 50 * text.stat().st_size
    assert 0 < seen[-1] <= instructions
    assert trace.instructions.values[:-1].min() >= 400_000
    assert trace.instructions.values.max() < 401_000
    assert 0.4 < float(trace.core_cycles.sum()) / instructions < 2
    misses = trace.distance_histogram.isel(colouring=0).sum(["interval", "stream"]).values
    assert misses[20] > text.stat().st_size / 64  # the text is read once
    profiles = replay(trace, platform_contexts("grid:2x2x2"), 2)
    slow = profiles.duration.values[profiles.frequency.values == 1.2]
    fast = profiles.duration.values[profiles.frequency.values == 2.3]
    assert fast.max() < slow.min()


@needs_recorder
def test_recorded_instructions_and_misses_are_those_of_a_known_program(tmp_path):
    """Loops of two instructions, ten million for each argument, then eight sweeps over 4 MiB."""
    source = """
        #include <stdio.h>
        static char data[4 << 20];
        int main(int count, char **arguments)
        {
            long n = 10000000L * count, sum = 0;
            __asm__ volatile("1: decq %0; jnz 1b" : "+r"(n));
            for (int k = 0; k < 8; k++)
                for (unsigned i = 0; i < sizeof data; i += 64)
                    sum += ++data[i];
            printf("%ld\\n", sum);
            return 0;
        }
    """
    program = compiled(source, tmp_path)
    trace = record_trace(program, tmp_path / "one.nc")
    more = record_trace([*program, "x"], tmp_path / "two.nc")
    executed = [float(t.instructions.sum()) for t in (trace, more)]
    assert executed[1] - executed[0] == pytest.approx(2e7, abs=1000)
    sweeps = 8 * 65536
    histogram = trace.distance_histogram.sum("interval").transpose("colouring", "stream", ...)
    demand, prefetched = histogram.values[:, 0], histogram.values[:, 1]
    requests = (demand + prefetched).sum(axis=1)
    assert np.all((sweeps <= requests) & (requests < 1.02 * sweeps))
    assert np.all(prefetched.sum(axis=1) > 0.97 * requests)
    misses = {w: (demand + prefetched)[:, w:].sum(axis=1) for w in (2, 20)}
    assert np.all(misses[20] < 1.05 * sweeps / 8)  # 4 MiB stay in 20 MiB
    assert np.all(misses[2] > 0.8 * sweeps)  # but not in 2
    assert len(set(misses[2])) == 3  # colourings differ


@needs_recorder
def test_mispredicted_branches_cost_cycles(tmp_path):
    source = """
        #include <stdio.h>
        int main(void)
        {
            unsigned x = 1, taken = 0;
            for (int i = 0; i < 1000000; i++) {
                x = x * 1664525 + 1013904223;
                if ((x >> BIT) & 1)
                    __asm__ volatile("incl %0" : "+r"(taken));
            }
            printf("%u\\n", taken);
            return 0;
        }
    """
    cycles = []
    for bit in ("0", "31"):  # the lowest bit alternates, the highest one looks random
        folder = tmp_path / bit
        folder.mkdir()
        trace = record_trace(compiled(source.replace("BIT", bit), folder), folder / "t.nc")
        cycles.append(float(trace.core_cycles.sum()))
    assert 0.4e6 * 15 < cycles[1] - cycles[0] < 0.6e6 * 15


@needs_recorder
def test_children_and_closed_descriptors_do_not_disturb_the_recording(tmp_path):
    work = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo $i"
    alone = record_trace(["sh", "-c", "exec 2>&-; (:); echo a"], tmp_path / "a.nc")
    parent = record_trace(["sh", "-c", f"exec 2>&-; ({work}); echo a"], tmp_path / "b.nc")
    itself = record_trace(["sh", "-c", f"exec 2>&-; {work}"], tmp_path / "c.nc")
    counts = [float(t.instructions.sum()) for t in (alone, parent, itself)]
    assert counts[1] < counts[0] + 0.1 * (counts[2] - counts[0])


@needs_recorder
def test_an_access_across_two_lines_touches_both(tmp_path):
    source = """
        static char data[8 << 20];
        int main(int count, char **arguments)
        {
            for (unsigned i = count == 1 ? 32 : 60; i + 128 < sizeof data; i += 128)
                *(volatile long *)(data + i) = 1;
            return 0;
        }
    """
    program = compiled(source, tmp_path)
    requests = [
        float(record_trace(command, tmp_path / name, colourings=1).distance_histogram.sum())
        for command, name in ((program, "inside.nc"), ([*program, "x"], "across.nc"))
    ]
    assert requests[1] - requests[0] == pytest.approx(65536, rel=0.01)


@needs_recorder
def test_only_the_first_thread_is_recorded_and_that_is_said(tmp_path, caplog):
    source = """
        #include <pthread.h>
        static void *work(void *unused)
        {
            long n = 50000000;
            __asm__ volatile("1: decq %0; jnz 1b" : "+r"(n));
            return unused;
        }
        int main(void)
        {
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            return pthread_join(thread, 0);
        }
    """
    with caplog.at_level(logging.WARNING, logger="msbgen"):
        trace = record_trace(compiled(source, tmp_path), tmp_path / "t.nc")
    assert float(trace.instructions.sum()) < 10e6
    assert "several threads" in caplog.text


@needs_recorder
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["sh", "-c", "echo $$"], "printed something else"),
        (["sh", "-c", "exec true"], "did not end by itself"),
        (["sh", "-c", "kill -9 $$"], "did not end by itself"),
        (["no-such-program"], "no such program"),
        (["SCRIPT"], "is a script .*/bin/sh"),
        (["TEXT"], "is no x86-64 executable"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, command, message):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\ntrue\n")
    text = tmp_path / "text"
    text.write_text("text")
    for path in (script, text):
        path.chmod(0o755)
    names = {"SCRIPT": str(script), "TEXT": str(text)}
    with pytest.raises(RecordError, match=message):
        record_trace([names.get(word, word) for word in command], tmp_path / "t.nc")
    assert not (tmp_path / "t.nc").exists()


def test_recording_names_the_packages_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(RecordError, match="apt install qemu-user gcc"):
        record_trace(["gzip"], tmp_path / "t.nc")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(RecordError, match="needs Linux on x86-64"):
        record_trace(["gzip"], tmp_path / "t.nc")


def test_recording_does_not_replace_a_file_unasked(tmp_path):
    path = tmp_path / "t.nc"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        record_trace(["gzip"], path)
    assert path.read_text() == "precious"
