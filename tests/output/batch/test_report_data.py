"""Everything of a task: equal to what each part of the library says by itself."""

import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import msbgen
import partials
from batches import BETWEEN, GRID, small_task
from conftest import cliff_task
from msbgen.answers.plan.plan import plan_contexts
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.profiles import Profiles
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings
from msbgen.output.batch import report_data
from msbgen.output.batch.report_data import collect_report_data, thinned
from msbgen.output.report.data import Unavailable


def test_the_band_is_from_the_least_to_the_largest_of_ten_random_runs(model, report_inputs):
    table = report_inputs.everywhere.profiles.contexts
    runs = model.generate(table, kind="sample", n_samples=10, rng=0)
    spread, times = report_inputs.everywhere.spread, report_inputs.everywhere.profiles.n_times
    assert spread.runs == 10
    for k, name in enumerate(("instructions", "cache_requests", "cache_misses")):
        counts = runs[name].fillna(0).isel(time=slice(times))
        shown = slice(counts.sizes["time"])
        np.testing.assert_array_equal(spread.lowest[:, shown, k], counts.min("sample"))
        np.testing.assert_array_equal(spread.highest[:, shown, k], counts.max("sample"))


def test_commands_name_the_trace_that_ships_or_say_what_stands_for_one(task):
    replayed = task.assign_attrs(platform="simulated", task="gzip -6 of 5.5 MB")
    shipped = str(msbgen.shipped_file("traces/gzip.nc"))
    command, message = report_data._command_to_measure(Profiles.of(replayed), "")
    assert command == f"platform replay {shlex.quote(shipped)}"
    assert message == "The trace of gzip ships with msbgen."
    assert report_data._command_to_measure(Profiles.of(replayed), "a b.nc") == (
        "platform replay 'a b.nc'",
        "",
    )
    for name in ("", "own", "../gzip"):
        command, message = report_data._command_to_measure(
            Profiles.of(replayed.assign_attrs(task=name)), ""
        )
        assert command == "platform replay TRACE.nc"
        assert "recorded trace of these replays (msbgen platform record" in message
    assert (
        "SPEC.toml is the specification"
        in report_data._command_to_measure(Profiles.of(task), "")[1]
    )


def test_commands_find_the_file_and_fit_its_platform(model):
    path = "a b/task.nc"
    assert report_data._planned(model, 12, path, report_data._MEASURE).commands == (
        "msbgen plan 'a b/task.nc' --budget 12 -o next.csv",
        "msbgen measure SPEC.toml --contexts next.csv --with 'a b/task.nc' -o more.nc",
    )


def test_what_was_measured_in_groups_is_planned_in_groups(model):
    assert report_data._groups(Profiles.of(partials.whole())) == ()
    groups = report_data._groups(Profiles.of(partials.in_groups(partials.whole())))
    assert groups == (("instructions", "cache_requests"), ("instructions", "cache_misses"))
    planned = report_data._planned(model, 4, "task.nc", report_data._MEASURE, groups=groups)
    assert planned.commands[0] == "msbgen plan task.nc --budget 4 --at-once 2 -o next.csv"
    assert planned.groups == groups
    assert (planned.runs % 2 == 0).all()


def test_bounds_and_plan_are_what_is_asked_for(task, unseen, model, report_inputs):
    known = {"truth": unseen, "model": model, "scores": report_inputs.held_out.scores}
    task = task.assign_attrs(platform="simulated")
    requested = {"contexts": GRID[:3], "miscoverage": 0.2, "budget": "2s", "trace": "a b.nc"}
    found = collect_report_data(task, **known, **requested)
    for bounds, contexts in ((found.everywhere.bounds, GRID[:3]), (found.held_out.bounds, BETWEEN)):
        np.testing.assert_array_equal(bounds.duration, model.duration_bound(contexts, 0.2))
        assert bounds.miscoverage == 0.2
    np.testing.assert_array_equal(found.next.contexts, plan_contexts(model, "2s").contexts)
    assert found.next.commands == (
        "msbgen plan measured.nc --budget 2s -o next.csv",
        "msbgen platform replay 'a b.nc' --contexts next.csv --with measured.nc -o more.nc",
    )
    assert not any("miscoverage" in warning for warning in found.warnings)


def test_bounds_of_another_rate_than_the_one_asked_for_are_said_to_be(model, report_inputs):
    held, bounds = report_inputs.held_out, report_inputs.everywhere.bounds
    larger = replace(held, bounds=replace(held.bounds, miscoverage=0.1))
    assert [*report_data._other_rates(0.05, report_inputs.everywhere, held)] == []
    (message,) = report_data._other_rates(0.05, report_inputs.everywhere, larger)
    assert message.startswith("Bounds are scored at a miscoverage of 10\u00a0%, not of 5\u00a0%: ")
    everywhere = replace(report_inputs.everywhere, bounds=replace(bounds, miscoverage=0.1))
    (message,) = report_data._other_rates(0.025, everywhere, larger)
    assert message.startswith(
        "Bounds are for a miscoverage of 10\u00a0%, not of 2.5\u00a0%: too few"
    )


def test_guesses_are_told_by_the_levels_where_most_are(report_inputs):
    profiles = report_inputs.everywhere.profiles
    highest = profiles.contexts[:, 1] == 2.5  # alone in its third of four levels
    assert (
        report_data._most_of(profiles, highest) == "; most at frequency 2.5\u00a0GHz, 4 of 4 there"
    )
    assert report_data._most_of(profiles, np.ones(len(highest), dtype=bool)) == ""


def test_the_bridge_is_solved_to_its_tolerance(model, report_inputs):
    convergence = report_inputs.convergence
    assert convergence.status.startswith("converged")
    assert convergence.errors.max() <= convergence.tol == model.distribution.settings.tol
    assert len(convergence.errors) == model.distribution.settings.segments - 1


def test_a_bridge_of_other_points_is_refused(model):
    chain, settings = model.distribution.chain, model.distribution.settings
    other = SimpleNamespace(chain=replace(chain, points=chain.points * 1.5), settings=settings)
    edited = SimpleNamespace(prepare=lambda kind: None, distribution=other)
    with pytest.raises(MeasurementError, match="bridge of the model misses its marginals by"):
        report_data._convergence(edited)


def test_without_listed_levels_the_measured_ones_are_taken(task, unseen):
    bare = task.copy()
    for name in ("cache_ways", "frequency"):
        bare[name].attrs.pop("levels")
    few = bare.isel(context=slice(0, 10))
    found = collect_report_data(few, source="a b.nc", truth=unseen.isel(context=[0]))
    assert len(found.everywhere.profiles.contexts) == 2 * 5
    assert "does not list the levels of cache_ways, frequency" in found.everywhere.notes[0]
    # every product of them is measured, so there is nothing left to plan
    assert isinstance(found.next, Unavailable)
    message = (
        "--budget 12 --levels cache_ways=FIRST:LAST:STEP,frequency=FIRST:LAST:STEP -o next.csv"
    )
    assert f"msbgen plan 'a b.nc' {message}" in found.next.why


def test_a_single_context_makes_a_report_that_says_what_is_missing():
    found = collect_report_data(small_task(GRID[:1]), contexts=[[2.0, 1.5]])
    assert "too few for leave-out scores" in found.held_out.why
    assert "No bounds" in found.everywhere.bounds.why


def test_what_makes_no_report_is_refused(task, model):
    with pytest.raises(
        ArgumentError, match="leave_out is 25; a number from 1 to 24 of the 25 contexts"
    ):
        collect_report_data(task, model=model, leave_out=25)
    with pytest.raises(ArgumentError, match="rows × 2 columns"):
        collect_report_data(task, model=model, contexts=[[1.0]])
    with pytest.raises(ArgumentError, match="budget is 'much'"):
        collect_report_data(task, model=model, budget="much")


def test_large_platforms_are_thinned_and_it_is_said(
    task, unseen, model, report_inputs, monkeypatch
):
    monkeypatch.setattr(report_data, "most_contexts", lambda n_counters: 2 * n_counters)
    known = report_inputs.held_out.scores
    found = collect_report_data(task, truth=unseen, model=model, scores=known)
    assert len(found.everywhere.profiles.contexts) == 6
    assert "has 16 contexts; 6 are shown" in found.everywhere.notes[0]


def test_thinned_levels_keep_the_ends_and_what_was_measured():
    axes = [np.arange(1.0, 101.0), np.array([1.0, 2.0, 3.0]), np.array([5.0])]
    measured = [[1.0, 37.0, 100.0], [1.0, 3.0], [5.0]]
    kept = thinned(axes, measured, 60)
    assert [len(axis) for axis in kept] == [20, 3, 1]
    assert {1.0, 37.0, 100.0} <= set(kept[0])
    assert [axis.tolist() for axis in thinned(axes, measured, 3)][2] == [5.0]
    assert np.prod([len(axis) for axis in thinned(axes, measured, 3)]) <= 3


def test_contexts_between_levels_that_may_hide_a_cliff_are_counted():
    task = cliff_task()
    model = fit_profiles(task, ProgressSettings(bins=20, segments=5, deconvolutions=1))

    def warnings(contexts):
        found = collect_report_data(task, model=model, has_runs=False, contexts=contexts)
        return [sentence for sentence in found.warnings if "it is not known where" in sentence]

    (sentence,) = warnings([[4.0, 1.4], [9.0, 1.4], [2.0, 1.0]])
    assert sentence.startswith("cache_misses changes by a factor of 1")
    assert "between cache_ways 2 and 6, and it is not known where" in sentence
    assert sentence.endswith(" 1 of the 3 contexts lie in such gaps.")
    assert warnings([[9.0, 1.4], [2.0, 1.0]]) == []
