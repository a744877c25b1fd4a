"""``msbgen plan``: the contexts to measure next."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import xarray as xr

    from msbgen.answers.compare.planning import ComparisonPlan
    from msbgen.answers.plan.plan import Plan
    from msbgen.data.tables import Groups


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "plan", run, "plan the contexts to measure next")
    text = "measurements so far, or a model of them (none)"
    verb.add_argument("measured", type=Path, nargs="?", metavar="MEASURED.nc|MODEL.nc", help=text)
    text = "measuring time, such as 120s, 5min or 1h; or a number of contexts, such as 40"
    verb.add_argument("--budget", type=shared.budget, metavar="TIME|N", help=text)
    text = "plan runs of two versions that find a change of the execution time 9 times in 10"
    verb.add_argument("--compare", type=shared.percentage, metavar="X%", help=text)
    text = "with --compare: relative deviation of a run (that in MEASURED.nc, else 2%%)"
    verb.add_argument("--noise", type=shared.percentage, metavar="X%", help=text)
    text = "the CSV file to write, '-' for stdout"
    shared.add_out(verb, "PLAN.csv", text, type=shared.csv_output, required=True)
    verb.add_argument(
        "--levels",
        type=shared.levels,
        metavar="LEVELS",
        help="levels, such as cache_ways=2:20,frequency=1.2:2.3:0.1,mode=1/2/4, or 'virtual' for "
        "the virtual platform (the levels in MEASURED.nc)",
    )
    text = "plan for 'msbgen beside': few ways, and a bandwidth without a limit"
    verb.add_argument("--beside", action="store_true", help=text)
    text = "without MEASURED.nc: approximate duration of a run at the highest levels"
    verb.add_argument("--run-seconds", type=shared.duration, metavar="TIME", help=text)
    text = "time to set a context, such as 2s or 500ms (0)"
    verb.add_argument("--overhead", type=shared.duration_or_none, metavar="TIME", help=text)
    text = "fewest runs of a context, or of each group with --at-once (%(default)s)"
    verb.add_argument("--least-runs", type=shared.count, default=1, metavar="R", help=text)
    text = "counters in one run, clock included; groups of counters take turns (all)"
    verb.add_argument("--at-once", type=shared.count, metavar="N", help=text)
    text = "counters to group, by their names in a file or in perf (those in MEASURED.nc)"
    verb.add_argument("--counters", metavar="A,B,…", help=text)
    verb.add_argument(
        "--clock",
        metavar="NAME",
        help="counter of progress, in every group, or 'time' (that of MEASURED.nc; "
        "instructions, else CPU time)",
    )
    text = "plan all of the budget, also where noise dominates and more runs change little"
    verb.add_argument("--whole-budget", action="store_true", help=text)
    text = "also write the plan, its errors and where to stop here, as JSON"
    verb.add_argument("--json", type=shared.output, metavar="FILE.json", help=text)
    shared.add_keep_all(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Plan from measurements, or from levels alone."""
    if not options.measured and not options.levels:
        raise UsageError("without MEASURED.nc, --levels is needed.")
    if options.at_once is None and (options.counters or options.clock):
        raise UsageError(
            "--counters and --clock need --at-once, the number of counters in one run."
        )
    if options.at_once is not None and not (options.counters or options.measured):
        raise UsageError("without MEASURED.nc, --at-once needs --counters.")
    if (options.budget is None) == (options.compare is None):
        raise UsageError("one of --budget and --compare is wanted.")
    if options.compare is None:
        shared.refuse_unused(options, "noise", "is for --compare")
    else:
        others = "at_once counters clock overhead whole_budget json beside"
        others += " levels" * (options.measured is not None)
        shared.refuse_unused(options, others, "has no effect with --compare")
    if options.measured:
        shared.refuse_unused(options, "run_seconds", "is for plans without measurements")
    else:
        shared.refuse_unused(options, "keep_all", "is for measured runs")
    shared.check_files([options.measured], [options.out, options.json], force=options.force)
    if options.compare is not None:
        _plan_comparison(options)
        return

    from msbgen.answers.plan import plan, sharing
    from msbgen.core.errors import ArgumentError

    levels = options.levels or {}
    source: Any = levels
    measured = None
    if options.measured:
        from msbgen.engine.generate import fit as fitting
        from msbgen.engine.generate.model import ProfileModel

        measured, source = shared.read_measured(
            options.measured, ProfileModel.of_file, keep_all=options.keep_all
        )
        if source is None:
            with Progress("fitting") as step:
                source = fitting.fit_profiles(measured, progress=step)
    groups = () if options.at_once is None else _groups(options, measured)
    given: dict[str, Any] = dict(
        overhead=options.overhead or 0.0, run_seconds=options.run_seconds,
        least_runs=options.least_runs, most_runs=max(options.least_runs, 20),
        groups=groups, whole_budget=options.whole_budget,
    )  # fmt: skip
    if options.beside and options.measured:
        import numpy as np

        known = {name: attrs.get("levels", ()) for name, attrs in source.resources.items()}
        unlisted = [name for name, listed in known.items() if not levels and np.size(listed) == 0]
        if unlisted:
            raise UsageError(
                f"{options.measured.name}: resource '{unlisted[0]}' has no attribute 'levels'; "
                f"name those that the platform can set by --levels."
            )
        try:
            levels = sharing.sharing_levels(levels or known)
        except ArgumentError as error:
            raise UsageError(
                f"{options.measured.name}: {error} Name those that the platform can set by "
                f"--levels."
            ) from None
        given["candidates"] = sharing.sharing_contexts(levels)
    with Progress("planning") as step:
        if options.beside and not options.measured:
            planned = sharing.plan_for_sharing(levels, options.budget, **given, progress=step)
        else:
            planned = plan.plan_contexts(
                source, options.budget, levels=levels if options.measured else None, **given,
                progress=step,
            )  # fmt: skip
    if options.json:
        shared.write_json(planned.as_dict(), options.json, force=options.force)
    _show(planned, options)
    if measured is not None and options.at_once is None:
        _hint_at_groups(measured, options.measured.name)


def _plan_comparison(options: argparse.Namespace) -> None:
    """Plan the runs of two versions."""
    from msbgen.answers.compare import planning

    if options.measured:
        source: Any = shared.read_runs(options.measured, keep_all=options.keep_all)
    else:
        source = options.levels
    planned = planning.plan_comparison(
        source, options.compare, noise=options.noise, run_seconds=options.run_seconds,
        least_runs=max(options.least_runs, 2),
    )  # fmt: skip
    _show(planned, options)


def _show(planned: Plan | ComparisonPlan, options: argparse.Namespace) -> None:
    summary = planned.describe()
    if getattr(planned, "advice", "") and not options.whole_budget:
        use = "'msbgen beside'" if options.beside else "lower bounds"
        summary += (
            f"\nthe plan stops for profiles; --whole-budget plans the rest, too, as for {use}."
        )
    if options.out:
        planned.write(options.out, overwrite=options.force)
        shared.show(f"{options.out}: {summary}")
    else:
        shared.show_table(planned.rows())
        for line in summary.splitlines():
            shared.print_message(line)


def _hint_at_groups(measured: xr.Dataset, source: str) -> None:
    """Print a hint where measured runs count groups of counters and the plan does not."""
    from msbgen.data.partial import most_at_once
    from msbgen.data.profiles import Profiles

    profiles = Profiles.of(measured)
    most, n = most_at_once(profiles), len(profiles.counters)
    if most < n:
        shared.print_message(
            f"{source} has groups of up to {most} of {n} counters in a run; the planned runs "
            f"count all; --at-once {most} plans groups."
        )


def _groups(options: argparse.Namespace, measured: xr.Dataset | None) -> Groups:
    """Groups of the named counters, else of the measured ones."""
    from msbgen.data.groups import clock_among, group_counters
    from msbgen.data.profiles import Profiles

    wanted = options.clock
    if options.counters:  # names of perf contain commas between slashes
        named = re.findall(r"(?:/[^/]*/|[^,/])+", options.counters)
        counters = [name.strip() for name in named]
    else:
        assert measured is not None
        counters = list(Profiles.of(measured).counters)
    if measured is not None:
        wanted = wanted or Profiles.of(measured).clock_name
    clock = clock_among(counters, wanted)
    return group_counters(counters, options.at_once, clock=clock)
