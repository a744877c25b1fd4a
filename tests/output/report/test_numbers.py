"""Every number of a report is the library's."""

from dataclasses import replace

import numpy as np
import pytest

import partials
from conftest import small_trace
from msbgen.answers.evaluate.baselines import BASELINES, mean_profiles
from msbgen.answers.evaluate.metrics import normalised_dtw
from msbgen.answers.evaluate.scores import score_halves, score_methods
from msbgen.answers.plan.plan import plan_contexts
from msbgen.data.profiles import Profiles
from msbgen.data.schema import all_contexts, context_table
from msbgen.output.report import numbers as numbers_module
from msbgen.output.report.data import ReportData, Unavailable
from msbgen.output.report.numbers import interval_of, is_simulated, numbers_of, worst_region
from msbgen.sources.platform import replay_trace


def test_they_are_what_the_library_says_when_it_is_asked_again(task, unseen, model, numbers):
    """Each wing by itself, on the files that the report was made from."""
    held, wanted = numbers["held_out"], context_table(unseen)
    kinds = {
        f"default/{kind}": lambda _, c, kind=kind: model.generate(c, kind=kind, rng=0)
        for kind in ("mean", "max_likelihood", "sample")
    }
    scores = score_methods(task, unseen, kinds | BASELINES)["score"]
    assert np.isfinite(scores.sel(metric="duration_error")).all()  # all contexts are compared
    assert list(held["scores"]) == [*kinds, *BASELINES]
    for method, row in held["scores"].items():
        for metric in ("ndtw_scaled", "ndtw", "duration_error", "energy_distance"):
            mean = scores.sel({"method": method, "metric": metric}).values.mean()
            assert row[metric] == pytest.approx(mean, rel=1e-12)
    assert held["error"] == pytest.approx(held["scores"]["default/mean"]["ndtw_scaled"])
    assert held["baseline"]["time"] == held["scores"]["bracketing"]["duration_error"]
    halves = score_halves(Profiles.of(task), Profiles.of(unseen))["score"][0].mean("context")
    for metric in ("ndtw_scaled", "duration_error", "energy_distance"):
        assert held["halves_scores"][metric] == pytest.approx(float(halves.sel(metric=metric)))
    error = scores.sel({"method": "default/mean", "metric": "ndtw_scaled"}).values
    np.testing.assert_array_equal(held["context_error"], error)
    assert held["halves"]["error"] == held["halves_scores"]["ndtw_scaled"]
    assert held["tail"]["error"] == {"p95": np.quantile(error, 0.95), "largest": error.max()}
    assert [held["shown"][i]["row"] for i in (0, 2)] == [error.argmin(), error.argmax()]

    durations, bound = unseen["duration"].values, model.duration_bound(wanted, 0.05)
    assert held["bound"] == bound.tolist()
    assert held["bounds"]["exceeded"] == (durations > bound[:, None]).sum()
    assert held["bounds"]["coverage"] == (durations <= bound[:, None]).mean()
    assert held["bounds"]["margin"] == np.median(bound / durations.mean(axis=1) - 1)
    assert held["duration"] == pytest.approx(durations.mean(axis=1))

    everywhere, every = numbers["everywhere"], all_contexts(task)
    mean = model.generate(every, kind="mean")
    assert everywhere["context"] == every.tolist()
    assert everywhere["duration"] == mean["duration"].values.tolist()
    assert everywhere["extrapolated"] == mean["extrapolated"].values.tolist()
    assert everywhere["bound"] == model.duration_bound(every, 0.05).tolist()
    assert (everywhere["shades"][0], everywhere["shades"][-1]) == (
        everywhere["shortest"], everywhere["longest"],
    )  # fmt: skip

    plan, following = plan_contexts(model, 12), numbers["next"]
    assert following["context"] == plan.contexts.tolist()
    assert following["runs"] == plan.runs.tolist()
    assert following["seconds"] == plan.seconds.tolist()
    assert following["error"] == plan.error.tolist()
    assert (following["pays"], following["advice"]) == (plan.pays, plan.advice)
    assert numbers["convergence"]["errors"] == model.distribution.chain.marginal_errors().tolist()

    measured = numbers["measured"]
    assert measured["duration"] == pytest.approx(task["duration"].values.mean(axis=1))
    assert measured["seconds"] == pytest.approx(task["duration"].values.sum())
    totals = task["instructions"].sum("time")
    assert measured["counters"][0]["most"] == pytest.approx(float(totals.max()))


def test_runs_over_bounds_are_told_among_and_outside_what_was_measured(report_inputs, numbers):
    assert numbers["held_out"]["bounds"]["exceeded_outside"] is None  # all lie among it
    held, durations = report_inputs.held_out, report_inputs.held_out.truth.duration
    outside = np.arange(len(durations)) % 3 == 0
    short = np.where(outside, 0.0, np.inf)
    bounds = replace(held.bounds, duration=short)
    reported = numbers_of(
        replace(report_inputs, held_out=replace(held, bounds=bounds, extrapolated=outside))
    )["held_out"]
    assert reported["outside"] == 4
    assert (reported["bounds"]["exceeded_among"], reported["bounds"]["exceeded_outside"]) == (
        0.0,
        1.0,
    )
    for where, over, runs in (("among", 0, 48), ("outside", 24, 24)):
        assert (reported["bounds"][f"over_{where}"], reported["bounds"][f"runs_{where}"]) == (
            over,
            runs,
        )
    assert sum(region["over"] for region in reported["regions"][:3]) == 24
    assert sum(region["runs"] for region in reported["regions"][:3]) == 72


def test_one_run_a_context_says_nothing_of_how_runs_differ(task, report_inputs):
    duration = task["duration"].values
    alone = task.isel(run=[0])
    reported = numbers_of(replace(report_inputs, measured=Profiles.of(alone)))["measured"]
    assert reported["spread_median"] is reported["spread_largest"] is None
    some = task.copy(deep=True)  # one run but in the first two contexts
    for name in some.data_vars:
        some[name].values[2:, 1:] = np.nan
    reported = numbers_of(replace(report_inputs, measured=Profiles.of(some)))["measured"]
    spread = np.ptp(duration[:2], axis=1) / duration[:2].mean(axis=1)
    assert reported["spread_median"] == pytest.approx(np.median(spread))


def test_errors_expected_are_beside_those_observed(report_inputs, numbers):
    own = numbers["held_out"]["error"]
    assert numbers["next"]["observed_over_expected"] == own / report_inputs.next.error[0]
    for next_ in (replace(report_inputs.next, calibrated=False), report_inputs.next):
        none = replace(report_inputs, next=next_, held_out=Unavailable("none."))
        reported = numbers_of(none if next_.calibrated else replace(report_inputs, next=next_))
        assert reported["next"]["observed_over_expected"] is None


def test_runs_that_were_cut_or_lack_a_counter_take_no_part():
    whole, spoilt = partials.whole(), partials.in_groups(partials.whole())
    spoilt = partials.cut(spoilt, [(0, 0), *((3, r) for r in range(4))], share=0.2)
    reported, plain = (
        numbers_module._measured(Profiles.of(spoilt)),
        numbers_module._measured(Profiles.of(whole)),
    )
    assert (reported["runs"], reported["runs_ended"], plain["runs_ended"]) == (36, 31, 36)
    kept = np.delete(whole["duration"].values, 3, axis=0)
    assert reported["shortest"] == kept.ravel()[1:].min()
    assert reported["spread_largest"] <= plain["spread_largest"]
    assert np.isnan([reported[f"duration{which}"][3] for which in ("", "_least", "_most")]).all()
    for counter, known in zip(reported["counters"], plain["counters"]):
        assert known["least"] <= counter["least"] <= counter["most"] <= known["most"]
    about = [part["about"] for part in reported["partial"]]
    assert about == ["groups", "group 1", "group 2", "cut", "cut", "coupled"]
    assert plain["partial"] == []


def test_bounds_are_judged_by_runs_that_were_not_cut(unseen, report_inputs):
    held = report_inputs.held_out
    before, bounds = numbers_of(report_inputs)["held_out"], held.bounds
    cut = partials.cut(unseen.copy(deep=True), [(c, 0) for c in range(12)], share=0.2)
    truth = Profiles.of(cut)
    reported = numbers_of(replace(report_inputs, held_out=replace(held, truth=truth)))["held_out"]
    assert reported["bounds"]["runs"] == before["bounds"]["runs"] - 12
    over = held.truth.duration[:, 1:] > bounds.duration[:, None]
    assert reported["bounds"]["coverage"] == pytest.approx(1 - over.mean())
    assert reported["context_exceeded"] == over.mean(axis=1).tolist()
    assert {region["runs"] for region in reported["regions"]} < {5 * n for n in range(13)}
    none = replace(bounds, duration=np.zeros(12))
    reported = numbers_of(replace(report_inputs, held_out=replace(held, truth=truth, bounds=none)))
    assert reported["held_out"]["bounds"]["coverage"] == 0


def test_replays_are_of_a_simulated_platform(task):
    profiles = replay_trace(small_trace(20), [[20, 1400, 2.3]], runs=1)
    assert is_simulated(Profiles.of(profiles))
    assert not is_simulated(Profiles.of(task))


def test_counters_are_judged_alone_and_beside_the_baseline(task, unseen, model, numbers):
    reported = numbers["held_out"]["counters"]
    profiles = {
        "error": model.generate(context_table(unseen), kind="mean"),
        "baseline": BASELINES["bracketing"](task, context_table(unseen)),
        "best": BASELINES[numbers["held_out"]["best"]["error"]["method"]](
            task, context_table(unseen)
        ),
    }
    truth = mean_profiles(unseen)
    for counter in reported:
        for name, generated in profiles.items():
            off = [
                normalised_dtw(mine[np.isfinite(mine)][:, None], own[np.isfinite(own)][:, None])
                for mine, own in zip(
                    generated[counter["name"]].values, truth[counter["name"]].values
                )
            ]
            assert counter[name] == pytest.approx(np.mean(off), rel=1e-6)
            if name == "error":
                assert counter["largest"] == pytest.approx(max(off), rel=1e-6)
                assert counter["p95"] == pytest.approx(np.quantile(off, 0.95), rel=1e-6)
    assert [counter["name"] for counter in reported] == [
        "instructions", "cache_requests", "cache_misses",
    ]  # fmt: skip


def test_methods_are_beside_the_best_simple_one_and_the_halves(report_inputs, numbers):
    held, reported = report_inputs.held_out, numbers["held_out"]
    methods = held.summary["methods"]
    simple = {n: methods[n] for n in BASELINES}
    for name, metric in (("error", "ndtw_scaled"), ("time", "duration_error")):
        best = reported["best"][name]
        assert best["value"] == simple[best["method"]][metric]
        assert best["value"] == min(row[metric] for row in simple.values())
    spread = methods["default/sample"]["energy_distance"] / held.halves["energy_distance"]
    assert reported["over_halves"]["spread"] == spread
    assert reported["over_halves"]["profile"] == reported["error"] / reported["halves"]["error"]
    assert reported["over_halves"]["duration"] == reported["time"] / reported["halves"]["time"]


def test_the_interval_of_a_share_is_exact_for_single_runs():
    from scipy.stats import binomtest

    for over in (0, 1, 5, 12):  # a context has one run: these are independent
        inside = np.repeat([0, 1], [over, 12 - over])
        low, high = interval_of(inside, np.ones(12, dtype=int))
        exact = binomtest(12 - over, 12).proportion_ci(method="exact")
        if over in (0, 12):
            assert (low, high) == pytest.approx((exact.low, exact.high))
        else:  # the variance is that of 11 runs, and both ends are as uncertain
            assert low <= exact.low < exact.high <= high
            assert high - low < 1.2 * (exact.high - exact.low)


@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("contexts", "share"), [(5, 0.8), (12, 0.95), (60, 0.9)])
def test_intervals_hold_the_share_however_alike_the_runs_of_a_context_are(contexts, share, alike):
    rng, runs, held = np.random.default_rng(0), np.full(contexts, 10), []
    for _ in range(400):
        whole = rng.random(contexts) < alike
        inside = np.where(whole, 10 * rng.binomial(1, share, contexts), 0)
        inside = np.where(whole, inside, rng.binomial(10, share, contexts))
        low, high = interval_of(inside, runs)
        held.append(low <= share <= high)
    assert np.mean(held) > 0.93


def test_the_interval_of_a_share_takes_the_runs_of_a_context_together():
    low, high = interval_of(np.repeat([10, 0], [15, 5]), np.full(20, 10))
    apart = interval_of(np.repeat([8, 7], 10), np.full(20, 10))
    assert low < 0.55 < 0.9 < high
    assert apart[1] - apart[0] < 0.5 * (high - low)
    assert interval_of(np.full(5, 1), np.full(5, 1)) == pytest.approx((0.478, 1.0), abs=1e-3)
    assert interval_of(np.full(5, 9), np.full(5, 9)) == interval_of(np.full(5, 1), np.full(5, 1))
    assert interval_of(np.array([9]), np.array([10]))[1] > 0.99


def test_regions_are_means_over_their_contexts(report_inputs, numbers):
    regions = numbers["held_out"]["regions"]
    ways = report_inputs.held_out.truth.contexts[:, 0]
    error = np.array(numbers["held_out"]["context_error"])
    for region in regions[:3]:
        inside = (ways >= region["low"]) & (ways <= region["high"])
        assert region["contexts"] == inside.sum()
        assert region["error"] == pytest.approx(error[inside].mean(), rel=1e-12)
    assert worst_region(numbers["held_out"]) == np.argmax([r["error"] for r in regions])


def test_what_is_missing_says_why(task, report_inputs):
    none = Unavailable("not done.")
    reported = numbers_of(
        ReportData("a.nc", Profiles.of(task), (), none, report_inputs.everywhere, none, none)
    )
    assert (
        reported["held_out"]
        == reported["next"]
        == reported["convergence"]
        == {"missing": "not done."}
    )
