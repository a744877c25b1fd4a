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

    from msbgen.data.tables import Groups


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "plan", run, "say which contexts to measure next, how often")
    verb.add_argument(
        "measured",
        type=Path,
        nargs="?",
        metavar="MEASURED.nc",
        help="what was measured so far (nothing)",
    )
    verb.add_argument(
        "--budget",
        type=shared.budget,
        required=True,
        metavar="TIME|N",
        help="measuring time, as 120s, 5min or 1h; or a number of contexts, as 40, whatever each "
        "takes",
    )
    text = "the CSV file to write, '-' for stdout"
    shared.add_out(verb, "PLAN.csv", text, type=shared.csv_output, required=True)
    verb.add_argument(
        "--levels",
        metavar="LEVELS",
        help="levels as cache_ways=2:20,frequency=1.2:2.3:0.1,mode=1/2/4, or 'virtual' for the "
        "virtual platform (the levels in MEASURED.nc)",
    )
    verb.add_argument(
        "--run-seconds",
        type=shared.duration,
        metavar="TIME",
        help="with nothing measured: how long a run takes at the highest levels, about",
    )
    verb.add_argument(
        "--overhead",
        type=shared.duration_or_none,
        default=0.0,
        metavar="TIME",
        help="time to prepare a context, whatever its runs, as 2s or 500ms (0)",
    )
    verb.add_argument(
        "--least-runs",
        type=shared.count,
        default=1,
        metavar="R",
        help="least runs a context (%(default)s); of each group, with --at-once",
    )
    verb.add_argument(
        "--at-once",
        type=shared.count,
        metavar="N",
        help="counters that fit into a run, the clock among them: groups of them take turns (all)",
    )
    verb.add_argument(
        "--counters",
        metavar="A,B,…",
        help="counters to put into groups, as a file or perf names them (those in MEASURED.nc)",
    )
    verb.add_argument(
        "--clock",
        metavar="NAME",
        help="the counter in every group, which tells the progress of a run, or 'time' (that of "
        "MEASURED.nc; instructions where they are among the counters, else CPU time)",
    )
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Plan from what was measured, or from levels alone."""
    if not options.measured and not options.levels:
        raise UsageError("nothing measured and no --levels: say which levels there are.")
    if options.at_once is None and (options.counters or options.clock):
        raise UsageError("--counters and --clock want --at-once: say how many fit into a run.")
    if options.at_once is not None and not (options.counters or options.measured):
        raise UsageError("--at-once, and nothing measured: say which --counters.")
    shared.check_files([options.measured], [options.out], force=options.force)

    from msbgen.data import store
    from msbgen.plan import plan

    levels = shared.levels(options.levels) if options.levels else {}
    source: Any = levels
    measured = None
    if options.measured:
        from msbgen.generate import model as generate

        measured = store.read_profiles(options.measured)
        with Progress("fitting") as step:
            source = generate.fit_profiles(measured, progress=step)
    groups = () if options.at_once is None else _groups(options, measured)
    planned = plan.plan_contexts(
        source,
        options.budget,
        levels=levels if options.measured else None,
        overhead=options.overhead,
        run_seconds=options.run_seconds,
        least_runs=options.least_runs,
        most_runs=max(options.least_runs, 20),
        groups=groups,
    )
    if options.out:
        planned.write(options.out, overwrite=options.force)
        shared.show(f"{options.out}: {planned.describe()}")
    else:
        shared.show_table(planned.rows())
        shared.say(planned.describe())
    if measured is not None and options.at_once is None:
        _say_groups(measured, options.measured.name)


def _say_groups(measured: xr.Dataset, source: str) -> None:
    """That known runs count a part of the counters each, which a plan without groups does not."""
    from msbgen.data.partial import most_at_once
    from msbgen.data.schema import counter_names

    most, n = most_at_once(measured), len(counter_names(measured))
    if most < n:
        shared.say(
            f"{source} was counted in groups, up to {most} of {n} counters a run; the planned runs "
            f"count all: --at-once {most} plans groups."
        )


def _groups(options: argparse.Namespace, measured: xr.Dataset | None) -> Groups:
    """Counters in groups: those that are named, or those that were measured."""
    from msbgen.data.groups import clock_among, group_counters
    from msbgen.data.schema import clock_name, counter_names

    if options.counters:  # commas also stand in perf's names, between slashes
        named = re.findall(r"(?:/[^/]*/|[^,/])+", options.counters)
        counters = [name.strip() for name in named]
    else:
        assert measured is not None
        counters = counter_names(measured)
    wanted = options.clock or (None if measured is None else clock_name(measured))
    clock = clock_among(counters, wanted)
    return group_counters(counters, options.at_once, clock=clock)
