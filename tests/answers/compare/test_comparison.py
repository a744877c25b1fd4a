"""The comparison of two versions, on the virtual platform."""

import json
import re

import numpy as np
import pytest
import xarray as xr

import partials
from conftest import MEASURED, synthetic_task
from faulty import spoilt
from msbgen.answers.compare.comparison import compare_profiles
from msbgen.answers.compare.matching import match_profiles
from msbgen.answers.compare.pairs import pair_profiles
from msbgen.answers.compare.results import CompareSettings
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.data.profiles import Profiles
from msbgen.data.shipped import shipped_file
from msbgen.sources.platform.replay import replay_trace
from msbgen.sources.platform.trace import read_trace
from worked import worked

CONTEXTS = [[w, b, f] for w in (4, 12) for b in (350, 1050) for f in (1.2, 2.3)]
SETTINGS = CompareSettings(permutations=199)


def versions(change=lambda trace: trace, runs=3, contexts=CONTEXTS):
    trace = read_trace(shipped_file("traces/gzip.nc"))
    return tuple(
        replay_trace(t, contexts, runs, rng=seed) for t, seed in ((trace, 1), (change(trace), 2))
    )


def paired(old, new):
    old, new = Profiles.of(old), Profiles.of(new)
    return pair_profiles(old, new, match_profiles(old, new))


def test_equal_programs_are_the_same():
    result = compare_profiles(*versions(), settings=SETTINGS)
    assert result.verdict in ("same", "undecided")
    assert result.time.low < 1 < result.time.high
    assert result.changes == ()
    assert np.all((result.low < 1) & (result.high > 1))


def test_slower_work_is_found_where_it_is():
    def slower(trace):
        work = np.cumsum(trace["instructions"].values.astype(float))
        inside = (work > 0.4 * work[-1]) & (work <= 0.6 * work[-1])
        factor = np.where(inside, 1.1, 1.0).astype("float32")
        return trace.assign(core_cycles=trace["core_cycles"] * factor)

    old, new = versions(slower)
    result = compare_profiles(old, new, settings=SETTINGS)
    assert result.verdict == "slower"
    assert result.changes[0].quantity == "time"
    assert result.changes[0].old == pytest.approx((0.4, 0.6), abs=0.03)
    assert result.changes[0].ratios["time"].low > 1
    back = compare_profiles(new, old, settings=SETTINGS)
    assert back.verdict == "faster"
    assert back.changes[0].old == result.changes[0].old
    inverse = 1 / np.array([back.time.value, back.time.high, back.time.low])
    assert inverse == pytest.approx([result.time.value, result.time.low, result.time.high])


def test_a_slower_stretch_shifts_the_samples_after_it_and_changes_nothing_there():
    contexts = [[w, b, f] for w in (4, 8, 12) for b in (350, 700, 1050) for f in (1.2, 1.7, 2.3)]

    def slower(trace):
        n = trace.sizes["interval"]
        factor = np.where(np.arange(n) // (n // 5) == 2, 1.1, 1.0).astype("float32")
        return trace.assign(core_cycles=trace["core_cycles"] * factor)

    result = compare_profiles(*versions(slower, contexts=contexts), settings=SETTINGS)
    assert [change.quantity for change in result.changes] == ["time"]


def test_two_slower_stretches_are_both_found():
    def slower(trace):
        work = np.cumsum(trace["instructions"].values.astype(float))
        inside = [(work > a * work[-1]) & (work <= (a + 0.1) * work[-1]) for a in (0.2, 0.6)]
        factor = np.where(inside[0] | inside[1], 1.1, 1.0).astype("float32")
        return trace.assign(core_cycles=trace["core_cycles"] * factor)

    result = compare_profiles(*versions(slower), settings=SETTINGS)
    found = sorted(change.old for change in result.changes if change.quantity == "time")
    assert np.array(found[:1] + found[-1:]) == pytest.approx(
        np.array([(0.2, 0.3), (0.6, 0.7)]), abs=0.03
    )


def test_runs_are_compared_as_the_longer_sampling_interval_shows_them():
    trace = read_trace(shipped_file("traces/gzip.nc"))
    old, new = (replay_trace(trace, CONTEXTS, 3, i, rng=s) for s, i in ((1, 0.01), (2, 0.025)))
    result = compare_profiles(old, new, settings=SETTINGS)
    assert result.changes == ()
    pair = paired(old, new)
    (many, few) = (np.isfinite(v.counts[..., 0]).sum(axis=2) for v in (pair.old, pair.new))
    assert np.abs(many - few).max() <= 1
    np.testing.assert_allclose(pair.old.totals, Profiles.of(old).totals, rtol=1e-9)
    cut = pair.old.counts[0, 0, :4].sum(axis=0)  # 4 · .05 s are 20 · .01 s
    raw = [old[name].values[0, 0, :20].sum() for name in pair.counters]
    np.testing.assert_allclose(cut, raw, rtol=1e-6)
    new.attrs["interval"] *= 1.13  # has no short multiple in common
    assert paired(old, new).old.interval == pytest.approx(0.02825)


def test_counts_of_zero_in_one_version_have_no_ratio():
    old, new = synthetic_task(MEASURED), synthetic_task(MEASURED, seed=8)
    held = np.arange(6)[:, None, None] >= 3
    new["cache_misses"] = new["cache_misses"].where(held | new["cache_misses"].isnull(), 0.0)
    result = compare_profiles(old, new, settings=SETTINGS)
    for change in result.changes:
        assert all(np.isfinite(ratio.value) for ratio in change.ratios.values())
    assert 0.8 < result.totals["cache_misses"].value < 1.25


def test_faults_are_left_out_and_may_be_the_change_if_one_version_alone_has_them():
    old, new = versions(contexts=[[8, *rest] for _, *rest in CONTEXTS[:4]] + CONTEXTS)
    new = spoilt(new, slow=[(5, 2.0)], stretched=[(0, 1, 3.0, 0.3, 0.5), (2, 0, 3.0, 0.6, 0.8)])
    result = compare_profiles(old, new, settings=SETTINGS)
    assert len(result.contexts) == 11
    assert result.stretched_runs == (0, 2)
    assert result.time.low < 1 < result.time.high
    assert any("left out: 2 runs of 2 contexts." in note for note in result.notes)
    both = paired(new, spoilt(old, slow=[(5, 2.0)]))
    for pair, n_alone in ((result, 1), (paired(new, old), 1), (both, 0)):
        assert len(pair.left_out) == n_alone
        notes = [note for note in pair.notes if "which the change itself may cause" in note]
        assert len(notes) == n_alone
        assert not any("without usable runs" in note for note in pair.notes)


def test_another_program_is_called_different():
    other = read_trace(shipped_file("traces/sqlite.nc"))
    result = compare_profiles(*versions(lambda trace: other, runs=2), settings=SETTINGS)
    assert not result.same_program
    assert result.changes == ()


def test_work_of_both_has_one_place_on_the_common_axis():
    def repeated(trace):
        n = trace.sizes["interval"]
        return trace.isel(interval=[*range(n // 2), *range(n // 2 - n // 20, n)])

    result = compare_profiles(*versions(repeated), settings=SETTINGS)
    course = result.course
    for edges in (course.old_edges, course.new_edges):
        assert (edges[0], edges[-1]) == pytest.approx((0, 1))
        assert np.all(np.diff(edges) >= 0)
    (gap,) = [change for change in result.changes if change.quantity == "inserted"]
    length = gap.new[1] - gap.new[0]
    # the old version's work is as much shorter on the axis as was inserted
    assert np.median(np.diff(course.old_edges)) == pytest.approx((1 - length) / 100, rel=0.02)
    assert course.new[:, 0].sum() > course.old[:, 0].sum()
    values = result.as_dict()
    assert json.loads(json.dumps(values))["changes"][0]["new"] == list(gap.new)


def slower(dataset, factor):
    """All runs longer by a factor, in as many intervals."""
    out = dataset.assign_coords(time=dataset["time"] * factor)
    out["duration"] = dataset["duration"] * factor
    return out.assign_attrs(interval=dataset.attrs["interval"] * factor)


GRID = np.array([(w, f) for w in (2.0, 4.0, 6.0, 8.0) for f in (1.0, 1.3, 1.6, 2.0)])


@pytest.mark.usefixtures("coarse")
def test_versions_without_a_shared_context_are_compared_through_models():
    factor = 1.2
    checkered = np.arange(16) // 4 % 2 == np.arange(16) % 2
    old, new = (synthetic_task(GRID[rows], 2) for rows in (checkered, ~checkered))
    for dataset in (old, new):
        dataset["frequency"].attrs.pop("levels", None)
    done = []
    result = compare_profiles(old, slower(new, factor), progress=lambda *step: done.append(step))
    assert (result.verdict, result.noise, result.course) == ("slower", "models", None)
    assert result.time.low < factor < result.time.high
    assert np.all((result.low < factor) & (factor < result.high))
    assert len(result.value) == 16
    assert "share no context: fitted models of both are compared" in result.notes[0]
    assert done[-1][0] < done[-1][1] == 10
    with pytest.raises(MeasurementError, match="4 contexts with complete runs are too few"):
        compare_profiles(old.isel(context=slice(4)), new)
    ends = np.isin(GRID[:, 0], [2.0, 8.0])
    corners, middle = (synthetic_task(GRID[rows], 2) for rows in (ends, ~ends))
    with pytest.raises(MeasurementError, match="2 levels of 'cache_ways' do not show what happens"):
        compare_profiles(corners, middle)


@pytest.mark.usefixtures("coarse")
def test_stages_of_a_comparison_are_reported():
    old = synthetic_task(GRID, 2)
    done = []
    compare_profiles(old, slower(old, 1.2), progress=lambda *step: done.append(step))
    assert done == [(k, len(done)) for k in range(1, len(done) + 1)]
    assert len(done) > 1


def renamed(dataset):
    return dataset.rename(cache_ways="ways")


def with_units(name, units):
    return lambda dataset: dataset.assign({name: dataset[name].assign_attrs(units=units)})


BAD_INPUTS = [
    (renamed, ProfileError, "has the resources ways, frequency"),
    (with_units("frequency", "MHz"), ProfileError, "'frequency' is in 'MHz', in synthetic in"),
    (with_units("cache_misses", "J"), ProfileError, "'cache_misses' is in 'J'"),
    (lambda d: d.drop_vars("instructions"), ProfileError, "measures progress by 'time'"),
    (lambda d: d.isel(run=0, drop=True), ProfileError, "has no measured runs"),
    (lambda d: d.isel(context=[0, 1], run=[0]), MeasurementError, "has a single run in each"),
]


@pytest.mark.parametrize(("change", "error", "sentence"), BAD_INPUTS)
def test_versions_that_cannot_be_compared_are_refused(change, error, sentence):
    with pytest.raises(error, match=sentence):
        compare_profiles(synthetic_task(MEASURED), change(synthetic_task(MEASURED, seed=8)))


def cut(dataset):
    return partials.cut(dataset, [(0, 0), (3, 1)])


NOTED = [
    (lambda d: slower(d, 2), "the sampling intervals are 0.01 s and 0.02 s"),
    (lambda d: d.drop_vars("cache_requests"), "cache_requests: only in synthetic"),
    (lambda d: d.assign_attrs(platform="a lab"), "name different platforms, '.*' and 'a lab'"),
    (lambda d: synthetic_task(MEASURED), "hold the same runs, to the last digit"),
    (lambda d: d.assign_attrs(task="other"), "name different tasks, 'synthetic' and 'other'"),
    (lambda d: d.isel(context=slice(5)), "not in synthetic, and not compared: 1 context."),
    (cut, "synthetic: cut, and not compared: 2 runs."),
]


@pytest.mark.parametrize(("change", "sentence"), NOTED)
def test_what_limits_a_comparison_is_noted(change, sentence):
    new = change(synthetic_task(MEASURED, seed=8))
    result = compare_profiles(synthetic_task(MEASURED), new, settings=SETTINGS)
    assert any(re.search(sentence, note) for note in result.notes), result.notes


def test_levels_that_different_mechanisms_set_are_noted():
    old, new = synthetic_task(MEASURED), synthetic_task(MEASURED, seed=8)
    for dataset, mechanism in ((old, "resctrl L3, 1.8 MiB a way"), (new, "a script")):
        dataset["cache_ways"].attrs["mechanism"] = mechanism
    notes = compare_profiles(old, new, settings=SETTINGS).notes
    assert any("set by 'resctrl L3, 1.8 MiB a way' in synthetic" in note for note in notes), notes


def test_one_run_a_context_takes_its_noise_from_neighbours():
    old, new = (synthetic_task(GRID, 1, seed=seed) for seed in (1, 2))
    result = compare_profiles(old, new, settings=SETTINGS)
    assert result.noise == "neighbours"
    assert result.time.low < 1 < result.time.high


def test_a_counter_of_few_contexts_with_one_run_each_has_no_ratio():
    old, new = (synthetic_task(GRID, 1, seed=seed) for seed in (1, 2))
    for dataset in (old, new):
        dataset["cache_misses"][4:] = np.minimum(dataset["cache_misses"][4:], 0)
    result = compare_profiles(old, slower(new, 1.2), settings=SETTINGS)
    assert result.verdict == "slower"
    assert {*result.totals} == {"instructions", "cache_requests"}


def test_runs_of_one_sweep_are_compared_with_the_one_beside_them():
    rng = np.random.default_rng(3)
    old, new = synthetic_task(GRID, 4), synthetic_task(GRID, 4, seed=8)
    place = rng.permutation(16 * 4).reshape(16, 4)
    second = rng.integers(2, size=place.shape)
    new = new.isel(run=[2, 0, 3, 1])
    lost = (np.arange(16) == 5)[:, None] & (np.array([2, 0, 3, 1]) == 1)
    new = new.where(xr.DataArray(~lost, dims=("context", "run")))
    for dataset, began in (
        (old, 2 * place + second),
        (new, (2 * place + 1 - second)[:, [2, 0, 3, 1]]),
    ):
        dataset["started"] = ("context", "run"), began.astype(float), {"units": "s"}
        dataset.attrs["sweep"] = "one"
    pair = paired(old, new)
    assert pair.are_paired
    assert pair.notes[-1].endswith("right before or after them: 1 run.")
    number = {t: (c, r) for (c, r), t in np.ndenumerate(new["duration"].values)}
    for (c, k), time in np.ndenumerate(pair.old.duration):
        r = int(np.flatnonzero(old["duration"].values[c] == time)[0]) if np.isfinite(time) else 1
        assert not np.isfinite(time) or number[pair.new.duration[c, k]] == (c, [1, 3, 0, 2][r])
    assert np.isfinite(pair.old.duration).sum() == 63
    assert not paired(old, new.assign_attrs(sweep="other")).are_paired
    new["started"] = new["started"] + 1e4  # a sweep whose starts do not alternate
    pair = paired(old, new)
    assert not pair.are_paired
    assert "did not start in turn" in pair.notes[-1]
    assert np.isfinite(pair.old.duration).sum() == 64


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ((["slow", "fast", "odd"], ["fast", "slow", "odd"]), True),
        ((["slow", "fast", "odd"], []), True),
        (([], ["slow", "fast", "odd"]), True),
        ((["slow", "fast", "odd"], ["slow", "fast", "odd", "new"]), False),
    ],
)
def test_words_are_compared_in_one_order_only(words, refused):
    pair = [synthetic_task(MEASURED) for _ in words]
    for dataset, names in zip(pair, words):
        levels = np.unique(dataset["cache_ways"].values, return_inverse=True)[1] + 1.0
        attrs = {"role": "resource", "units": "1", **({"labels": names} if names else {})}
        dataset["cache_ways"] = "context", levels, attrs
    if not refused:
        assert compare_profiles(*pair, settings=SETTINGS).verdict == "same"
        return
    with pytest.raises(ProfileError, match=r"'cache_ways' are .*; write both in the same order"):
        compare_profiles(*pair, settings=SETTINGS)


def test_weights_choose_the_contexts_that_count():
    old, new = synthetic_task(MEASURED), synthetic_task(MEASURED, seed=8)
    weights = np.eye(6)[2]
    result = compare_profiles(old, new, weights=weights, settings=SETTINGS)
    means = [float(dataset["duration"][2].mean()) for dataset in (old, new)]
    assert result.time.value == pytest.approx(means[1] / means[0])
    for wrong in (np.ones(5), -np.ones(6)):
        with pytest.raises(ArgumentError, match="weights"):
            compare_profiles(old, new, weights=wrong)
    with pytest.raises(MeasurementError, match="weights of all 6 contexts of both versions are 0"):
        compare_profiles(old, new, weights=np.zeros(6))


@pytest.mark.parametrize("tolerance", [0.001, 0.008])
def test_as_many_more_runs_as_announced_make_the_interval_decide(tolerance):
    """The interval excludes 1, or lies within the tolerance; one run fewer does not suffice."""
    tasks = synthetic_task(MEASURED), synthetic_task(MEASURED, seed=8)
    result = compare_profiles(*tasks, settings=CompareSettings(tolerance, permutations=99))
    assert result.verdict == "undecided"
    change, half = np.log([result.time.value, result.time.high / result.time.value])
    runs, more = result.runs[0] / len(MEASURED), result.more_runs
    with_them, with_fewer = half * np.sqrt(runs / (runs + more - np.arange(2)))

    def decides(half):
        return half <= abs(change) or abs(change) + half <= np.log1p(tolerance)

    assert (decides(with_them), decides(with_fewer)) == (True, False)


def cut_without_a_mark(dataset, contexts):
    """All runs of some contexts end early, and nothing tells so."""
    runs = [(c, r) for c in contexts for r in range(dataset.sizes["run"])]
    return partials.cut(dataset, runs).drop_vars("complete")


@pytest.mark.parametrize("swapped", [False, True])
def test_contexts_in_which_one_version_was_cut_are_left_out(swapped):
    old, new = synthetic_task(MEASURED), cut_without_a_mark(synthetic_task(MEASURED, seed=8), [1])
    files = (new, old) if swapped else (old, new)
    result = compare_profiles(*files, settings=SETTINGS)
    assert result.time.low < 1 < result.time.high
    assert len(result.contexts) == 5
    (note,) = [note for note in result.notes if "left out" in note]
    assert "less of 'instructions' and less time than in the other version" in note
    assert "left out of both: context 1 (cache_ways=2, frequency=2 GHz). The change itself" in note
    assert result.left_out.tolist() == [[2.0, 2.0]]
    both = compare_profiles(new, new.assign_attrs(task="again"), settings=SETTINGS)
    assert (len(both.contexts), len(both.left_out)) == (6, 0)  # it is the program's
    trusted = [dataset.assign_attrs(keep_all=1) for dataset in files]
    wrong = compare_profiles(*trusted, settings=SETTINGS)
    assert len(wrong.contexts) == 6
    assert wrong.time.value > 1.02 if swapped else wrong.time.value < 0.98
    assert any("in one context and by" in note for note in wrong.notes)


@pytest.mark.parametrize("factors", [{0: 1.3, 1: 1.3}, {0: 1.12, 1: 1.12}])
@pytest.mark.parametrize("swapped", [False, True])
def test_more_work_of_one_version_in_few_contexts_is_compared(factors, swapped):
    files = worked({}, 1), worked(factors, 2)
    result = compare_profiles(*files[:: -1 if swapped else 1], settings=SETTINGS)
    change = np.prod(list(factors.values())) ** ((-1 if swapped else 1) / 15)
    assert result.time.low < change < result.time.high
    assert result.verdict == ("faster" if swapped else "slower")
    assert (len(result.contexts), len(result.left_out)) == (15, 0)


def test_less_work_that_takes_as_long_is_compared():
    new = worked({}, 2)
    new["instructions"][4:6] *= 0.7
    assert len(paired(worked({}, 1), new).left_out) == 0
    shorter = paired(worked({}, 1), worked({4: 0.7, 5: 0.7}, 2))
    assert shorter.left_out.tolist() == [[4.0, 1.5], [4.0, 2.0]]


def test_cpu_time_that_shrinks_in_few_contexts_was_not_cut():
    files = (worked(factors, seed, "task_clock") for factors, seed in (({}, 1), ({0: 0.7}, 2)))
    assert not any("the verdict does not hold" in note for note in paired(*files).notes)
    files = (worked(factors, seed) for factors, seed in (({}, 1), ({0: 1.3}, 2)))
    trusted = (dataset.assign_attrs(keep_all=1) for dataset in files)
    assert any("the verdict does not hold" in note for note in paired(*trusted).notes)
