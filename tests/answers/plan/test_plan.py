"""Plans from a model and from nothing, budgets and levels."""

import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import cliff_task
from msbgen.answers.plan.plan import (
    Budget,
    Plan,
    Rest,
    parse_budget,
    parse_levels,
    plan_contexts,
    platform_axes,
)
from msbgen.answers.plan.prior import PLAN_FACTOR, ROW_FACTOR, nearest_index, prior_of_levels
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, duration_array, resource_attrs
from msbgen.data.shipped import shipped_file
from msbgen.data.store import read_profiles
from msbgen.data.tables import read_plan
from msbgen.engine.faults.findings import Findings, SlowContext, StretchedRun, WrongCount
from msbgen.engine.generate.fit import PAPER, fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings
from msbgen.sources.platform import PlatformConfig, platform_contexts, read_trace, replay_trace

TRACES = Path(__file__).resolve().parents[3] / "profiles" / "traces"
PLATFORM = {name: levels[::2] for name, levels in PlatformConfig().levels.items()}
LEVELS = {"cache_ways": [2.0, 4, 8, 16, 20], "frequency": [1.0, 1.4, 1.8, 2.2]}


@pytest.mark.parametrize(("little", "much"), [(12, 30), ("9s", "20s")])
def test_plans_without_measurements_are_prefixes_of_one_order(little, much):
    told = []
    plan = plan_contexts(
        PLATFORM, little, run_seconds=0.5, progress=lambda *step: told.append(step)
    )
    assert told == sorted(told)
    assert told[-1][0] <= told[-1][1] == 1000
    more = plan_contexts(PLATFORM, much, run_seconds=0.5)
    assert 3 < len(plan.runs) < len(more.runs)
    np.testing.assert_array_equal(plan.contexts, more.contexts[: len(plan.runs)])
    if little == "9s":
        assert plan.seconds.sum() <= 9
    assert not plan.calibrated
    # low levels are taken to cost more
    costs = dict(zip(plan.contexts.sum(axis=1), plan.seconds))
    assert costs[min(costs)] > costs[max(costs)]


def test_a_plan_without_the_time_of_a_run_says_so():
    for run_seconds, is_timed in ((None, False), (1.0, True)):
        plan = plan_contexts(LEVELS, 4, run_seconds=run_seconds)
        assert ("if a run at the highest levels takes 1 s" in plan.describe()) is not is_timed
        assert plan.as_dict()["timed"] is is_timed


@pytest.mark.parametrize("name", ["gzip", "bzip2", "openssl", "ffmpeg", "python", "zstd"])
def test_times_by_a_power_law_are_within_the_factors_that_a_plan_names(name):
    profiles = read_profiles(shipped_file(f"{name}.nc"))
    table, took = context_table(profiles), Profiles.of(profiles).mean_duration
    levels = {r: attrs["levels"] for r, attrs in resource_attrs(profiles).items()}
    axes = platform_axes(levels, tuple(levels))
    cost = prior_of_levels(axes).cost[[nearest_index(axes, row) for row in table]]
    rng, top = np.random.default_rng(0), table.sum(axis=1).argmax()
    for rows in ([top], *(rng.choice(len(table), n, replace=False) for n in (1, 3, 3, 5))):
        scaled = cost * np.exp(np.mean(np.log(took[rows] / cost[rows])))
        plan, row = abs(np.log(scaled.sum() / took.sum())), abs(np.log(scaled / took)).max()
        assert np.exp(plan) < PLAN_FACTOR
        assert np.exp(row) < ROW_FACTOR


def test_a_plan_names_the_doubt_of_times_until_they_are_fitted(gzip):
    doubt = "may be wrong by a factor of 2, in single rows of 6; they are fitted"
    few = replay_trace(gzip[0], [[20, 1400, 2.3], [4, 350, 1.5], [11, 700, 1.9]], 1)
    for source in (fit_profiles(few), LEVELS):
        lines = plan_contexts(source, 4, run_seconds=None).describe().splitlines()
        assert sum(doubt in line for line in lines) == 1
    assert doubt not in plan_contexts(gzip[1], 4).describe()


def test_a_plan_from_a_model_has_its_costs_and_no_known_contexts(gzip):
    trace, model = gzip
    assert plan_contexts(model, "10s").advice.startswith("stop: ")  # the noise is much larger
    plan = plan_contexts(model, "10s", whole_budget=True)
    known = {tuple(row) for row in model.distribution.contexts}
    assert plan.calibrated
    assert not known & {tuple(row) for row in plan.contexts}
    assert plan.seconds.sum() <= 10
    took = duration_array(replay_trace(trace, plan.contexts, 3, rng=5)).mean(axis=1)
    assert np.abs(plan.seconds / plan.runs / took - 1).mean() < 0.05
    assert plan.error[-1] < plan.error[0]


def test_levels_between_which_a_count_may_change_suddenly_come_first():
    task, quick = cliff_task(), ProgressSettings(bins=20, segments=5, deconvolutions=1)
    model = fit_profiles(task, quick)
    levels = {"cache_ways": np.arange(2.0, 13.0), "frequency": [1.0, 1.4, 2.0]}
    for budget in (4, "2s"):
        plan = plan_contexts(model, budget, levels=levels)
        assert plan.cliffs == 1 <= plan.pays
        assert plan.contexts[0, 0] == 4
        assert "first 1 between levels where a count may change suddenly" in plan.describe()
    assert plan.contexts[0, 1] == 2.0  # the fastest
    assert plan.as_dict()["cliffs"] == 1
    left = [row for row in product(levels["cache_ways"], levels["frequency"]) if row[0] != 4]
    other = plan_contexts(model, 4, levels=levels, candidates=left)
    assert other.contexts[0, 0] in (3, 5)
    coarse = plan_contexts(model, 4, levels={**levels, "cache_ways": [2, 6, 7, 8, 9, 10, 12]})
    assert coarse.cliffs == 0


def test_a_plan_from_many_contexts_is_that_of_the_exact_process(gzip, monkeypatch):
    exact = plan_contexts(gzip[1], 12, whole_budget=True)
    monkeypatch.setattr("msbgen.core.contexts.MOST_EXACT", 30)
    many = plan_contexts(gzip[1], 12, whole_budget=True)
    np.testing.assert_array_equal(many.contexts, exact.contexts)
    np.testing.assert_allclose(many.error, exact.error, rtol=1e-3)


def test_only_candidates_are_planned(gzip):
    candidates = list(product(*(levels[::3] for levels in PLATFORM.values())))
    plan = plan_contexts(gzip[1], "20s", levels=PLATFORM, candidates=candidates)
    assert {tuple(row) for row in plan.contexts} <= {tuple(row) for row in candidates}


def test_a_model_of_a_single_context_can_be_planned_from():
    trace = read_trace(TRACES / "gzip.nc")
    model = fit_profiles(replay_trace(trace, [[20.0, 1400.0, 2.3]], 2))
    plan = plan_contexts(model, "5s")
    took = duration_array(replay_trace(trace, plan.contexts, 1)).sum()
    assert 2 < took < 10
    assert np.all(np.ptp(plan.contexts, axis=0) > 0)


def test_a_plan_ends_where_noise_dominates_and_says_what_the_rest_would_lower(corners):
    whole = plan_contexts(corners, "90s", levels=PLATFORM, whole_budget=True)
    assert whole.seconds.sum() == pytest.approx(90, rel=0.05)
    assert 0 < whole.pays < len(whole.runs)
    ended = plan_contexts(corners, "90s", levels=PLATFORM)
    n = len(ended.runs)
    assert n == ended.pays < len(whole.runs)
    np.testing.assert_array_equal(ended.contexts, whole.contexts[:n])
    ((rest),) = ended.rest
    assert ended.advice == (
        f"stop after the first {n} contexts: {rest.seconds:.4g} s more in {rest.contexts} contexts "
        f"would lower the expected error from {ended.error[-1]:.3g} to {rest.error:.3g} of the "
        f"largest counts, where one run differs by {ended.noise:.3g} from the mean of its context; "
        f"1 % more measuring time lowers √(error² + noise²) by less than 0.05 %"
    )
    assert ended.advice in ended.describe()
    assert ended.as_dict()["stop"]["error"] == rest.error
    # a much larger budget hardly continues, and a smaller one is a beginning
    assert n <= len(plan_contexts(corners, "10h", levels=PLATFORM).runs) <= 1.25 * n
    little = plan_contexts(corners, "3s", levels=PLATFORM)
    assert little.advice == ""
    assert little.as_dict()["stop"] is None
    np.testing.assert_array_equal(little.contexts, ended.contexts[: len(little.runs)])


def test_a_plan_without_a_useful_row_is_empty_and_says_stop(tmp_path):
    rows = np.arange(4.0)[:, None]
    error = np.full(5, 1e-3)
    plan = Plan(("a",), rows, np.ones(4, int), np.ones(4), error, 0.1, True, spent=8.0)
    assert plan.pays == 0
    assert plan.advice.startswith("stop: 4 s more in 4 contexts would lower the expected error")
    rest = (Rest(4, 4.0, 1e-3),)
    none = replace(plan, contexts=rows[:0], runs=plan.runs[:0], seconds=plan.seconds[:0],
                   error=error[:1], rest=rest)  # fmt: skip
    assert none.advice == none.describe() == plan.advice
    none.write(tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text().splitlines() == [
        "a,runs,seconds,cumulative_seconds,expected_error"
    ]
    # before any measurement the noise is not known
    assert replace(plan, calibrated=False).advice == ""


def test_a_budget_of_contexts_has_no_repetitions():
    plan = plan_contexts(LEVELS, 1000)
    assert len(plan.contexts) == 20
    assert (plan.runs == 1).all()


@pytest.fixture(scope="module")
def corners():
    """A model of the eight corners of the platform, with two runs each."""
    trace = read_trace(TRACES / "gzip.nc")
    return fit_profiles(replay_trace(trace, platform_contexts("grid:2x2x2"), 2))


def test_plans_respect_the_largest_number_of_contexts(corners):
    model = corners
    plan = plan_contexts(model, "30s", most_contexts=10, levels=PLATFORM, whole_budget=True)
    known = {tuple(row) for row in model.distribution.contexts}
    assert len(known | {tuple(row) for row in plan.contexts}) == 10
    assert plan.runs.sum() > len(plan.runs)  # the rest goes to repetitions
    with pytest.raises(ArgumentError, match="no context is left"):
        plan_contexts(model, 3, most_contexts=8)
    with pytest.raises(ArgumentError, match="most_contexts is 0; a whole number ≥ 1"):
        plan_contexts(model, 3, most_contexts=0)


def test_groups_of_counters_alternate_in_rounds_of_runs(tmp_path):
    groups = [("a", "b"), ("a", "c"), ("a", "d")]
    plan = plan_contexts(LEVELS, "60s", run_seconds=0.4, overhead=2.0, groups=groups)
    whole = plan_contexts(LEVELS, "60s", run_seconds=1.2, overhead=2.0)  # as long as a round
    np.testing.assert_array_equal(plan.contexts, whole.contexts)
    np.testing.assert_array_equal(plan.runs, 3 * whole.runs)
    np.testing.assert_allclose(plan.seconds, whole.seconds)
    np.testing.assert_allclose(plan.error, whole.error)
    assert plan.describe().endswith("run 2, 5, … of each context: a, d")
    plan.write(tmp_path / "plan.csv")
    assert set(read_plan(tmp_path / "plan.csv", plan.resources).groups) == {tuple(groups)}


@given(st.integers(1, 10**6), st.sampled_from([("s", 1), ("min", 60), ("h", 3600)]))
def test_budgets_are_times_or_numbers(number, unit):
    name, seconds = unit
    assert parse_budget(f"{number}{name}") == Budget(seconds=number * seconds)
    assert parse_budget(f" {number / 2} {name} ").seconds == number / 2 * seconds
    assert parse_budget(number) == parse_budget(f" {number} ") == Budget(contexts=number)
    assert parse_budget(f"{number}s").is_time
    assert not parse_budget(number).is_time


@pytest.mark.parametrize(
    "budget", ["", "0", 0, -3, "-3s", "0s", "infs", "nans", "3.5", 3.5, "ten", "10 m", True]
)
def test_other_budgets_are_refused(budget):
    with pytest.raises(ArgumentError, match=r"budget is .*is wanted"):
        parse_budget(budget)


def test_levels_are_ranges_or_lists():
    levels = parse_levels("cache_ways=2:5,frequency=1.2:1.5:0.1, mode = 1/4/2")
    assert {name: list(values) for name, values in levels.items()} == {
        "cache_ways": [2, 3, 4, 5],
        "frequency": [1.2, 1.3, 1.4, 1.5],
        "mode": [1, 4, 2],
    }
    for text in ("cache_ways", "a=1:2:0", "a=2:1", "a=x", "a=1,a=2", "=1/2", "a=1:2:3:4"):
        with pytest.raises(ArgumentError, match="levels are"):
            parse_levels(text)


@pytest.mark.parametrize(
    ("source", "budget", "options", "message"),
    [
        (LEVELS, "10s", {}, "say how long a run takes"),
        (LEVELS, "0.1s", {"run_seconds": 1.0}, "the first context alone would take longer"),
        ({}, 3, {}, "levels are given for no resource"),
        ({"a": []}, 3, {}, "resource 'a' has no levels"),
        ({"a": [1.0, np.nan]}, 3, {}, "not finite"),
        ({"a": ["x"]}, 3, {}, "not finite"),
        (LEVELS, 3, {"overhead": -1.0}, "overhead is -1"),
        (LEVELS, 3, {"least_runs": 3, "most_runs": 2}, "1 ≤ least ≤ most"),
        ({"runs": [1, 2]}, 3, {}, "resource 'runs' is called as a column of plans is"),
        ({"a": range(200), "b": range(200)}, 3, {}, "the levels make 40000 contexts"),
        ({"a": [1e-300, 1e300]}, 3, {}, "at the lowest levels would take"),
        (LEVELS, 3, {"candidates": [[2.0]]}, "rows × 2 columns"),
        (LEVELS, 3, {"candidates": []}, "candidates have shape .*; one row or more × 2 columns"),
        (LEVELS, 3, {"run_seconds": -1.0}, "run_seconds is -1"),
        (LEVELS, 3, {"run_seconds": 0.0}, "run_seconds is 0.0; a positive number"),
        (LEVELS, 3, {"candidates": [[3.0, 1.0]]}, "which the platform cannot set"),
    ],
)
def test_impossible_plans_are_refused(source, budget, options, message):
    with pytest.raises(ArgumentError, match=message):
        plan_contexts(source, budget, **options)


@pytest.mark.usefixtures("coarse")
def test_models_without_levels_or_of_the_paper_are_refused(measured):
    with pytest.raises(ArgumentError, match="paper's preset"):
        plan_contexts(fit_profiles(measured, PAPER), 3)
    del measured["cache_ways"].attrs["levels"]
    model = fit_profiles(measured)
    with pytest.raises(MeasurementError, match=r"resource .cache_ways. has no attribute .levels"):
        plan_contexts(model, 3)
    given = plan_contexts(model, 3, levels=LEVELS)
    assert given.resources == ("cache_ways", "frequency")
    assert len(given.runs) == 3


def some_levels(model):
    """Levels of six measured contexts, the fifth and the sixth among them."""
    return dict(zip(model.resources, model.distribution.contexts[:6].T))


def test_a_faulty_run_beside_others_is_not_repeated_first(gzip):
    model = gzip[1]
    level = tuple(model.distribution.contexts[5].tolist())
    duration = np.full((len(model.distribution.contexts), 3), 1.0)
    place = {"contexts": (5,), "run": 1, "log_odds": 9.0, "levels": (level,)}
    stretched = StretchedRun(**place, begin=0.2, end=0.4)
    count = WrongCount(**place, interval=0, counter=0)

    def again(*faults):
        faulty = replace(
            model,
            distribution=replace(model.distribution, duration=duration),
            findings=Findings(faults),
        )
        return plan_contexts(faulty, 2, levels=some_levels(model)).again

    assert [again(stretched), again(count), again(stretched, count)] == [0, 0, 0]
    duration[5, [0, 2]] = np.nan
    assert [again(stretched), again(count), again(stretched, count)] == [1, 1, 1]
    duration[5] = np.nan
    with warnings.catch_warnings(action="error"):
        assert again(stretched) == 1


def test_faulty_contexts_are_repeated_first(gzip):
    model = gzip[1]
    levels = tuple(model.distribution.contexts[5].tolist())
    fault = SlowContext(contexts=(5,), factor=2.0, weight=0.5, log_odds=9.0, levels=(levels,))
    spoilt = replace(model, findings=Findings((fault,)))
    some = {"levels": some_levels(model), "whole_budget": True}
    plan = plan_contexts(spoilt, 6, **some)
    assert plan.again == 1
    assert plan.contexts[0].tolist() == list(levels)
    assert len(plan.contexts) == len(plan.runs) == len(plan.seconds) == len(plan.error) - 1 == 6
    assert "measure again" in plan.describe()
    marks = [row[-1] for row in plan.rows()]
    assert marks == ["again", 1, 0, 0, 0, 0, 0]
    whole = plan_contexts(model, 5, **some)
    assert np.array_equal(plan.contexts[1:], whole.contexts)
    assert whole.again == 0
    assert plan_contexts(spoilt, 1, **some).contexts.tolist() == [list(levels)]
