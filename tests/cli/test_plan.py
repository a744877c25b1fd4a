"""``msbgen plan``, and what is measured next by it."""

import argparse
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import xarray as xr

import partials
from msbgen.cli.options import print_results
from msbgen.cli.plan import _hint_at_groups, _show
from msbgen.data.schema import context_table
from msbgen.data.store import read_profiles
from msbgen.data.tables import read_plan
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings

TRACES = Path(__file__).resolve().parents[2] / "profiles" / "traces"
RESOURCES = ["cache_ways", "bandwidth", "frequency"]


def test_measure_plan_measure(tmp_path, msbgen):
    done = msbgen("plan", "--levels", "virtual", "--budget", "12", "-o", "first.csv")
    assert done.returncode == 0, done.stderr
    assert "first.csv: 12 contexts, 12 runs" in done.stdout
    replaying = ["platform", "replay", TRACES / "gzip.nc", "-o", "measured.nc"]
    done = msbgen(*replaying, "--contexts", "first.csv")
    assert done.returncode == 0, done.stderr
    measured = read_profiles(tmp_path / "measured.nc")
    assert (measured.sizes["context"], measured.sizes["run"]) == (12, 1)
    done = msbgen("plan", "measured.nc", "--budget", "5s", "-o", "next.csv")
    assert done.returncode == 0, done.stderr
    assert "expected error of profiles" in done.stdout
    planned = read_plan(tmp_path / "next.csv", RESOURCES).contexts
    assert not {tuple(r) for r in planned} & {tuple(r) for r in context_table(measured)}
    with_default_bins = ProgressSettings()
    fit_profiles(measured, with_default_bins).save(tmp_path / "model.nc")
    done = msbgen("plan", "model.nc", "--budget", "1h", "-o", "-", "--json", "plan.json")
    assert done.returncode == 0, done.stderr
    stop = json.loads((tmp_path / "plan.json").read_text())["stop"]
    assert stop["sentence"].startswith("stop after the first ")
    assert stop["sentence"] in done.stderr
    every = msbgen("plan", "model.nc", "--budget", "3min", "--whole-budget", "-o", "every.csv")
    assert every.returncode == 0, every.stderr
    whole = read_plan(tmp_path / "every.csv", RESOURCES)
    assert len(whole.contexts) >= done.stdout.count("\n") - 1


def test_plans_for_beside_have_few_ways_and_no_limit(tmp_path, msbgen):
    done = msbgen("plan", "--beside", "--levels", "virtual", "--budget", "12", "-o", "first.csv")
    assert done.returncode == 0, done.stderr
    planned = read_plan(tmp_path / "first.csv", RESOURCES).contexts
    assert set(planned[:, 1]) == {70, 280, 1e6}
    assert {2, 3} <= set(planned[:, 0])
    done = msbgen(
        "platform", "replay", TRACES / "gzip.nc", "-o", "measured.nc", "--contexts", "first.csv"
    )
    assert done.returncode == 0, done.stderr
    done = msbgen("plan", "--beside", "measured.nc", "--budget", "6", "-o", "next.csv")
    assert done.returncode == 0, done.stderr
    more = read_plan(tmp_path / "next.csv", RESOURCES).contexts
    assert set(more[:, 1]) <= {70, 280, 1e6}
    assert not {tuple(row) for row in planned} & {tuple(row) for row in more}


def test_plans_for_beside_name_missing_levels(tmp_path, msbgen, refused):
    replaying = ["platform", "replay", TRACES / "gzip.nc", "-o", "m.nc", "--contexts", "grid:2x2x1"]
    assert msbgen(*replaying, "--runs", 1).returncode == 0
    with xr.open_dataset(tmp_path / "m.nc") as measured:
        bare = measured.load()
    del bare["cache_ways"].attrs["levels"]
    bare.to_netcdf(tmp_path / "bare.nc")
    message = "bare.nc: resource 'cache_ways' has no attribute 'levels'; name those"
    refused(2, message, "plan", "--beside", "bare.nc", "--budget", "9", "-o", "plan.csv")
    bare["cache_ways"].attrs["levels"] = [0.0, 2.0]
    bare.to_netcdf(tmp_path / "odd.nc")
    message = "odd.nc: levels of 'cache_ways' are [0.0, 2.0]; numbers above 0 are wanted."
    refused(2, message, "plan", "--beside", "odd.nc", "--budget", "9", "-o", "plan.csv")


@pytest.mark.parametrize(("beside", "use"), [(True, "'msbgen beside'"), (False, "lower bounds")])
def test_an_early_end_names_who_needs_the_rest(capsys, beside, use):
    planned = SimpleNamespace(advice="stop", describe=lambda: "stop", rows=lambda: [["a"]])
    _show(planned, argparse.Namespace(whole_budget=False, out=None, beside=beside))
    print_results()
    assert f"--whole-budget plans the rest, too, as for {use}." in capsys.readouterr().err


def test_times_mean_the_same_in_every_unit_and_a_dash_is_stdout(tmp_path, msbgen):
    plans = [
        msbgen(
            "plan", "--levels", "virtual", "--budget", budget, "--run-seconds", run,
            "--overhead", overhead, "--least-runs", 2, "-o", "-",
        )
        for budget, run, overhead in (("1min", "300ms", "2s"), ("60s", "0.3", "2"))
    ]  # fmt: skip
    assert plans[0].returncode == 0, plans[0].stderr
    assert plans[0].stdout == plans[1].stdout
    (tmp_path / "p.csv").write_text(plans[0].stdout)
    runs = read_plan(tmp_path / "p.csv", RESOURCES).runs
    assert runs.min() >= 2
    assert f"msbgen: {len(runs)} contexts" in plans[0].stderr
    assert "\nmsbgen: expected error" in plans[0].stderr
    assert not (tmp_path / "-").exists()


def test_counters_that_do_not_fit_into_a_run_are_planned_in_groups(tmp_path, msbgen):
    planning = ["plan", "--levels", "virtual", "--budget", "3", "--at-once", "3", "-o", "p.csv"]
    counters = "cycles,cpu/event=1,umask=2/,task-clock,page-faults,branches"
    done = msbgen(*planning, "--counters", counters)
    assert done.returncode == 0, done.stderr
    assert "p.csv: 3 contexts, 6 runs" in done.stdout
    assert "run 1, 3, … of each context: task-clock, page-faults, branches" in done.stdout
    groups = ("task-clock", "cycles", "cpu/event=1,umask=2/"), (
        "task-clock", "page-faults", "branches",
    )  # fmt: skip
    assert read_plan(tmp_path / "p.csv", RESOURCES).groups == (groups,) * 3
    done = msbgen(*planning, "--counters", counters, "--clock", "cycles", "--force")
    assert "run 0, 2, … of each context: cycles, cpu/event" in done.stdout


def test_counters_that_were_measured_are_grouped_around_their_clock(tmp_path, msbgen):
    replaying = ["platform", "replay", TRACES / "gzip.nc", "-o", "m.nc", "--contexts", "grid:2x2x2"]
    assert msbgen(*replaying, "--runs", 1).returncode == 0
    done = msbgen("plan", "m.nc", "--budget", "2", "--at-once", "2", "-o", "p.csv")
    assert done.returncode == 0, done.stderr
    groups = read_plan(tmp_path / "p.csv", RESOURCES).groups[0]
    assert groups == (("instructions", "cache_requests"), ("instructions", "cache_misses"))


def test_who_counted_in_groups_is_told_how_to_plan_so(capsys):
    _hint_at_groups(partials.whole(), "m.nc")
    assert capsys.readouterr().err == ""
    _hint_at_groups(partials.in_groups(partials.whole()), "m.nc")
    (line,) = capsys.readouterr().err.splitlines()
    assert "up to 2 of 3 counters in a run" in line
    assert line.endswith("--at-once 2 plans groups.")


def test_runs_of_two_versions_are_planned(tmp_path, msbgen):
    done = msbgen("plan", "--compare", "1%", "--levels", "virtual", "-o", "p.csv")
    assert done.returncode == 0, done.stderr
    assert "they find a change of " in done.stdout
    assert "the noise is not known" in done.stdout
    replaying = ["platform", "replay", TRACES / "gzip.nc", "-o", "m.nc", "--runs", 3]
    assert msbgen(*replaying, "--contexts", "p.csv").returncode == 0
    done = msbgen("plan", "--compare", "0.5%", "m.nc", "-o", "next.csv")
    assert done.returncode == 0, done.stderr
    assert "not known" not in done.stdout
    planned = read_plan(tmp_path / "next.csv", RESOURCES)
    measured = {tuple(row) for row in context_table(read_profiles(tmp_path / "m.nc"))}
    assert {tuple(row) for row in planned.contexts} <= measured
    assert planned.runs.min() >= 2


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ("--levels virtual", 2, "one of --budget and --compare is wanted"),
        ("--levels virtual --budget 9 --compare 1%", 2, "one of --budget and --compare"),
        ("--levels virtual --compare 1", 2, "'1' is not a share above 0% and below 100%"),
        ("--levels virtual --budget 9 --noise 1%", 2, "--noise is for --compare; drop it"),
        (
            "--levels virtual --compare 1% --overhead 2s",
            2,
            "--overhead has no effect with --compare",
        ),
        ("--budget 12", 2, "--levels is needed"),
        ("--budget much --levels virtual", 2, "'much' is neither a time"),
        ("--budget 9s --levels virtual", 2, "say how long a run takes"),
        ("--budget 9 --levels ways", 2, "levels are 'ways'"),
        ("--budget 9 --beside --levels frequency=1/2", 2, "levels have no 'cache_ways'"),
        ("--budget 9 --levels virtual --least-runs 0", 2, "'0' is not a whole"),
        ("--budget 9 --levels virtual --counters a", 2, "need --at-once"),
        ("--budget 9 --levels virtual --at-once 4", 2, "--at-once needs --counters"),
        (
            "--budget 9 --levels virtual --at-once 1 --counters cycles,instructions",
            2,
            "at_once is 1; 2 or more",
        ),
        ("none.nc --budget 9", 3, "no such file"),
        (f"{TRACES}/gzip.nc --budget 9", 3, "a profile file says 'msbgen-profile/1'"),
    ],
)
def test_the_command_refuses(refused, arguments, code, sentence):
    refused(code, sentence, "plan", *arguments.split(), "-o", "plan.csv")


def test_a_plan_is_not_overwritten(tmp_path, refused):
    (tmp_path / "plan.csv").touch()
    refused(2, "exists", "plan", "--levels", "virtual", "--budget", "3", "-o", "plan.csv")
