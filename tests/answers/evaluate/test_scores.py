import json

import numpy as np
import pytest

import partials
from conftest import synthetic_task
from faulty import EVERY_FAULT, spoilt
from msbgen.answers.evaluate.baselines import mean_profiles, nearest_context
from msbgen.answers.evaluate.scores import (
    METHODS,
    METRICS,
    improvement,
    leave_contexts_out,
    mean_scores,
    score_counters,
    score_halves,
    score_methods,
    summarise,
)
from msbgen.answers.evaluate.scores import methods as evaluate_methods
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    context_table,
    counter_names,
)
from msbgen.engine.generate.fit import PRESETS
from msbgen.engine.generate.progress_distribution import ProgressSettings

CHEAP = ("bracketing", "nearest_context", "multilinear")


def test_a_perfect_method_scores_zero_and_a_known_error_its_size(measured, truth):
    def perfect(train, contexts):
        return mean_profiles(truth)

    def slow(train, contexts):
        late = mean_profiles(truth)
        late["duration"] = late["duration"] * 1.25
        return late

    scores = score_methods(measured, truth, {"perfect": perfect, "slow": slow})["score"]
    exact = scores.sel({"method": "perfect", "metric": ["ndtw", "ndtw_scaled", "duration_error"]})
    np.testing.assert_allclose(exact, 0, atol=1e-12)
    wrong = scores.sel({"method": "slow", "metric": "duration_error"})
    np.testing.assert_allclose(wrong, 0.25)
    assert np.isnan(scores.sel(metric="fastdtw")).all()


def two_counters(*runs):
    """One context; runs are rows × (small, large) counts per interval of 10 ms."""
    length = max(len(run) for run in runs)
    counts = np.full((1, len(runs), length, 2), np.nan)
    for r, run in enumerate(runs):
        counts[0, r, : len(run)] = run
    return make_profiles(
        counts, [[0.01 * len(run) for run in runs]], [[4.0]], interval=0.01,
        resources={"ways": {"units": "1"}}, counters={"small": {}, "large": {}},
    )  # fmt: skip


def scores_of(generated, truth, train):
    scores = score_methods(train, truth, {"m": lambda train, contexts: generated})["score"]
    return {m: float(scores.sel({"method": "m", "metric": m}).item()) for m in METRICS}


ROWS = np.ones((25, 1))
TRAIN = two_counters(ROWS * [10.0, 1.0], ROWS * [5.0, 1000.0])  # largest counts 10 and 1000


def test_scores_of_constant_profiles_equal_those_by_hand():
    got = scores_of(two_counters(ROWS * [7.0, 460.0]), two_counters(ROWS * [4.0, 500.0]), TRAIN)
    # the diagonal is the cheapest path: 25 equal steps
    assert got["ndtw"] == pytest.approx(np.hypot(3, 40) / np.hypot(4, 500), rel=1e-6)
    assert got["ndtw_scaled"] == pytest.approx(np.hypot(0.3, 0.04) / np.hypot(0.4, 0.5), rel=1e-6)
    assert got["duration_error"] == pytest.approx(0.0, abs=1e-9)
    # between single points: Wasserstein-1 |x − y|, energy 2|x − y|
    assert got["wasserstein"] == pytest.approx(np.hypot(0.3, 0.04), rel=1e-5)
    assert got["energy_distance"] == pytest.approx(2 * np.hypot(0.3, 0.04), rel=1e-5)


def test_counters_are_scored_one_by_one():
    generated, truth = two_counters(ROWS * [7.0, 460.0]), two_counters(ROWS * [4.0, 0.0])
    scores = score_counters({"m": lambda train, contexts: generated}, TRAIN, Profiles.of(truth))[
        "score"
    ]
    assert scores.dims == ("method", "context", "counter")
    assert float(scores.sel(counter="small").item()) == pytest.approx(3 / 4, rel=1e-6)
    assert np.isnan(scores.sel(counter="large").item())  # it counted nothing


def test_clouds_are_compared_at_five_times_of_the_measured_execution():
    row = np.arange(25.0)[:, None]
    wanted = ROWS * [5.0, 500.0]
    # off by row² in the large counter: rows 2, 7, 12, 17 and 22 are at 10, 30, ..., 90 %
    got = scores_of(two_counters(wanted + row**2 * [0.0, 1.0]), two_counters(wanted), TRAIN)
    expected = np.mean(np.array([2, 7, 12, 17, 22]) ** 2) / 1000
    assert got["wasserstein"] == pytest.approx(expected, rel=1e-5)
    assert got["energy_distance"] == pytest.approx(2 * expected, rel=1e-5)


def test_clouds_of_several_runs_and_runs_that_have_ended():
    # small counter: measured runs at 1 and 5, generated at 2 and 3 until row 10, then nothing
    truth = two_counters(ROWS * [1.0, 100.0], ROWS * [5.0, 100.0])
    until = ROWS[:10]
    generated = two_counters(until * [2.0, 100.0], until * [3.0, 100.0])
    got = scores_of(generated, truth, TRAIN)
    # rows 2 and 7: sorted 1, 5 against 2, 3; rows 12, 17 and 22: both at zero events
    alive, ended = (0.1 + 0.2) / 2, np.mean([np.hypot(0.1, 0.1), np.hypot(0.5, 0.1)])
    assert got["wasserstein"] == pytest.approx((2 * alive + 3 * ended) / 5, rel=1e-5)
    # 2 E|X − Y| − E|X − X'| − E|Y − Y'|
    alive = 2 * np.mean([0.1, 0.2, 0.3, 0.2]) - 0.4 / 2 - 0.1 / 2
    ended = 2 * ended - 0.4 / 2
    assert got["energy_distance"] == pytest.approx((2 * alive + 3 * ended) / 5, rel=1e-5)


def test_fastdtw_is_reported_beside_the_exact_distance(measured, truth):
    scores = score_methods(measured, truth, ["nearest_context"], warping=("exact", "fastdtw"))[
        "score"
    ]
    exact = scores.sel(metric=["ndtw", "ndtw_scaled"]).values
    assert np.all(scores.sel(metric=["fastdtw", "fastdtw_scaled"]).values >= exact - 1e-12)


def test_every_method_scores_every_context(measured, truth):
    scores = score_methods(measured, truth)
    assert list(scores["method"].values) == list(METHODS)
    assert list(scores["metric"].values) == list(METRICS)
    requested = scores["score"].sel(metric=[m for m in METRICS if "fastdtw" not in m])
    assert np.isfinite(requested).all()
    np.testing.assert_array_equal(scores["cache_ways"], truth["cache_ways"])


def test_leaving_one_context_out_is_evaluating_on_it(measured):
    scores = leave_contexts_out(measured, 1, ["nearest_context"], rng=np.random.default_rng(0))
    keep = np.arange(6) != 2
    alone = score_methods(
        measured.isel(context=keep), measured.isel(context=[2]), {"n": nearest_context}
    )
    np.testing.assert_allclose(
        scores["score"].values[0, 2], alone["score"].values[0, 0], equal_nan=True
    )


def test_contexts_where_a_method_is_undefined_are_excluded_for_all(measured):
    scores = leave_contexts_out(measured, 1, CHEAP, rng=np.random.default_rng(0))
    undefined = scores["score"].sel({"method": "bracketing", "metric": "ndtw"}).isnull()
    assert 0 < undefined.sum() < 6  # the corners have nothing that brackets them
    kept = scores["score"].sel({"method": "multilinear", "metric": "ndtw"})[~undefined.values]
    got = mean_scores(scores).sel({"method": "multilinear", "metric": "ndtw"})
    assert got == pytest.approx(float(kept.mean()))
    assert summarise(scores)["n_contexts_undefined"] == int(undefined.sum())


def test_a_method_that_is_defined_nowhere_excludes_no_context(measured, truth):
    every = score_methods(measured, truth, CHEAP)
    nowhere = every.copy(deep=True)
    nowhere["score"].loc[{"method": "bracketing"}] = np.nan
    summary, wanted = summarise(nowhere), summarise(every)
    assert (summary["n_contexts"], summary["n_contexts_undefined"]) == (2, 0)
    assert summary["methods"].pop("bracketing") == {}
    assert "baseline" not in summary
    for name, figures in summary["methods"].items():
        assert figures == {m: wanted["methods"][name][m] for m in figures}


def test_a_summary_holds_the_means_and_improvements(measured, truth):
    scores = score_methods(measured, truth, CHEAP)
    summary = json.loads(json.dumps(summarise(scores)))
    assert summary["n_contexts"] == 2
    assert summary["n_contexts_undefined"] == 0
    assert summary["baseline"] == "bracketing"
    table = scores["score"].values
    for name, row, baseline in zip(CHEAP, table, [table[0]] * 3):
        figures = summary["methods"][name]
        for column, metric in enumerate(METRICS):
            if "fastdtw" in metric:  # not asked for
                assert metric not in figures
                continue
            mean, other = row[:, column].mean(), baseline[:, column].mean()
            assert figures[metric] == pytest.approx(mean, rel=1e-12)
            gain = figures["improvement"][metric]
            assert gain == pytest.approx(1 - mean / other, abs=1e-12)


def test_a_summary_without_its_baseline_has_no_improvements(measured, truth):
    summary = summarise(score_methods(measured, truth, ["multilinear"]))
    assert "baseline" not in summary
    assert "improvement" not in summary["methods"]["multilinear"]


def test_groups_left_out_are_those_of_the_seed(measured):
    first, second, other = (
        leave_contexts_out(measured, 2, ["nearest_context"], rng=rng)["score"].values
        for rng in (0, np.random.default_rng(0), 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other, equal_nan=True)
    by_default = leave_contexts_out(measured, 2, ["nearest_context"])["score"].values
    np.testing.assert_array_equal(by_default, first)


def test_improvement_is_relative_to_the_baseline(measured, truth):
    scores = score_methods(measured, truth, CHEAP)
    better = improvement(scores)
    assert np.all(better.sel({"method": "bracketing"}).dropna("metric") == 0)
    with pytest.raises(ArgumentError, match="baseline is 'paper/mean'; one of the scored"):
        improvement(scores, "paper/mean")


def test_a_changed_dataset_is_fitted_again(measured, truth, monkeypatch):
    monkeypatch.setitem(PRESETS, "default", ProgressSettings(bins=40, segments=5, deconvolutions=1))
    methods = evaluate_methods()
    first = methods["default/mean"](measured, context_table(truth))["instructions"]
    other = measured.assign(instructions=measured["instructions"] * 3)
    other["instructions"].attrs = measured["instructions"].attrs
    again = methods["default/mean"](other, context_table(truth))["instructions"]
    assert float(again.sum() / first.sum()) == pytest.approx(3, rel=1e-6)


def test_known_contexts_in_the_truth_are_logged(measured, caplog):
    score_methods(measured, measured.isel(context=[1, 2]), ["nearest_context"])
    assert "2 contexts of the truth were measured too" in caplog.text


def test_a_method_that_mixes_up_contexts_or_counters_is_refused(measured, truth):
    def scored(change):
        return score_methods(measured, truth, {"odd": lambda *given: change(mean_profiles(truth))})

    scored(lambda generated: generated)
    for change, message in (
        (lambda g: g.isel(context=[1, 0]), "'odd' answers for other contexts"),
        (lambda g: g.isel(context=[0]), "'odd' answers for other contexts"),
        (lambda g: g.drop_vars("cache_misses"), "what 'odd' generates instructions, cache_requ"),
        (lambda g: g.assign_attrs(interval=0.02), r"what 'odd' generates every 0\.02 s"),
    ):
        with pytest.raises(ProfileError, match=message):
            scored(change)


def test_files_that_do_not_belong_together_are_refused(measured, truth):
    with pytest.raises(ProfileError, match="the truth has counters"):
        score_methods(measured, truth.drop_vars("cache_misses"), CHEAP)
    with pytest.raises(ProfileError, match="the truth has resources"):
        score_methods(measured, truth.drop_vars("frequency"), CHEAP)
    with pytest.raises(ArgumentError, match="method is 'best'; one of default"):
        score_methods(measured, truth, ["best"])
    with pytest.raises(ArgumentError, match="methods is 'bracketing'"):
        score_methods(measured, truth, "bracketing")
    with pytest.raises(ArgumentError, match="methods is \\[\\]"):
        score_methods(measured, truth, [])
    with pytest.raises(ArgumentError, match="warping is 'exact'"):
        score_methods(measured, truth, CHEAP, warping="exact")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="1 to 5 of the 6 contexts"):
        leave_contexts_out(measured, 6, CHEAP)
    slower = make_profiles(
        np.ones((1, 1, 3, 3)), [[0.06]], [[2.0, 1.0]], interval=0.02,
        resources={n: measured[n].attrs for n in ("cache_ways", "frequency")},
        counters={n: {} for n in ("instructions", "cache_requests", "cache_misses")},
    )  # fmt: skip
    with pytest.raises(ProfileError, match=r"sampled every 0\.02 s"):
        score_methods(measured, slower, CHEAP)


def test_nothing_is_better_than_a_baseline_without_an_error(measured):
    """A baseline that is scored on what it learned from: no figure of the summary is NaN."""
    summary = summarise(score_methods(measured, measured, ["bracketing", "multilinear"]))
    assert summary["methods"]["bracketing"]["ndtw"] == 0
    figures = [g for row in summary["methods"].values() for g in row["improvement"].values()]
    assert np.isfinite(figures).all()


def test_halves_of_the_runs_are_scored_as_methods_are(measured, truth):
    whole = truth.copy(deep=True)
    for name in (*counter_names(whole), "duration"):  # the second run of the first context
        whole[name][{"context": 0, "run": 1}] = np.nan
    found = score_halves(Profiles.of(measured), Profiles.of(whole))["score"].sel(
        {"method": "halves"}
    )
    one, other = whole.isel(run=[0, 3]), whole.isel(run=[2])
    wanted = score_methods(measured, one, {"other": lambda *_: other})["score"][0]
    np.testing.assert_array_equal(found[0], wanted[0])
    alone = score_halves(Profiles.of(measured), Profiles.of(truth.isel(run=[0])))["score"]
    assert np.isnan(alone).all()


def test_a_partial_truth_is_compared_where_it_was_measured():
    whole, grouped = partials.whole(), partials.in_groups(partials.whole())
    plain, partial = (
        score_methods(whole, truth, ["nearest_context"])["score"].sel({"method": "nearest_context"})
        for truth in (whole, grouped)
    )
    assert float(partial.sel(metric="ndtw").max()) < 0.05
    # no run holds all counters: nothing is known of clouds of them
    assert partial.sel(metric="energy_distance").isnull().all()
    assert plain.sel(metric="energy_distance").notnull().all()
    cut = partials.cut(partials.whole(), [(3, r) for r in range(4)])
    with pytest.raises(ProfileError, match=r"no run of some counter that went on .* context 3"):
        score_methods(whole, cut, ["nearest_context"])


def test_contexts_of_which_every_run_was_cut_are_not_scored(measured, caplog):
    runs = measured.sizes["run"]
    cut = partials.cut(measured.copy(deep=True), [(0, r) for r in range(runs)])
    scores = leave_contexts_out(cut, 3, ["nearest_context"], rng=0)
    assert scores.sizes["context"] == measured.sizes["context"] - 1
    np.testing.assert_array_equal(context_table(scores), context_table(measured)[1:])
    assert np.isfinite(scores["score"].sel(metric="duration_error")).all()
    assert "1 context is learned from but not left out" in caplog.text
    none = partials.cut(measured.copy(deep=True), list(np.ndindex(measured.sizes["context"], runs)))
    with pytest.raises(ProfileError, match="every context lacks a counter"):
        leave_contexts_out(none, 3, ["nearest_context"])


def test_faulty_contexts_are_not_scored(caplog):
    grid = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.25, 1.5, 2.0)])
    clean = synthetic_task(grid)
    scores = leave_contexts_out(spoilt(clean, **EVERY_FAULT), 7, ["kernel_mean"])
    kept = np.delete(np.arange(20), [2, 9, 16])  # one bad run, or count, takes no context along
    np.testing.assert_array_equal(context_table(scores), grid[kept])
    said = [record.message for record in caplog.records]
    (named,) = [one for one in said if "faults, corrected" in one]
    for part in ("4 faults", "1 slow context", "1 exchanged pair", "1 run slowed in part"):
        assert part in named
    assert any("3 contexts are learned from but not left out, first context 2 " in s for s in said)
    caplog.clear()
    everything = spoilt(clean, **EVERY_FAULT).assign_attrs(keep_all=1)
    scores = leave_contexts_out(everything, 7, ["kernel_mean"])
    np.testing.assert_array_equal(context_table(scores), grid)
    assert not caplog.records


def test_an_absurd_count_is_not_the_scale_of_others(truth):
    grid = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])
    clean = synthetic_task(grid)
    methods = {"mean": lambda train, contexts: mean_profiles(truth.isel(run=[0]))}
    ours, wanted = (
        score_methods(train, truth, methods)["score"].sel(metric="ndtw_scaled").values
        for train in (spoilt(clean, absurd=[(3, 0, 2, 2)]), clean)
    )
    np.testing.assert_allclose(ours, wanted, rtol=0.05)
