"""``msbgen plan``: the contexts to measure next."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


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
        help="measuring time, as 120s, 5min or 1h; or a number of contexts, as 40",
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
        help="least runs a context (%(default)s)",
    )
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Plan from what was measured, or from levels alone."""
    if not options.measured and not options.levels:
        raise UsageError("nothing measured and no --levels: say which levels there are.")
    shared.check_files([options.measured], [options.out], force=options.force)

    from msbgen.data import store, tables
    from msbgen.plan import plan

    levels = shared.levels(options.levels) if options.levels else {}
    source: Any = levels
    if options.measured:
        from msbgen.generate import model as generate

        measured = store.read_profiles(options.measured)
        with Progress("fitting") as step:
            source = generate.fit_profiles(measured, progress=step)
    planned = plan.plan_contexts(
        source,
        options.budget,
        levels=levels if options.measured else None,
        overhead=options.overhead,
        run_seconds=options.run_seconds,
        least_runs=options.least_runs,
        most_runs=max(options.least_runs, 20),
    )
    if options.out:
        planned.write(options.out, overwrite=options.force)
        shared.show(f"{options.out}: {planned.describe()}")
    else:
        shared.show_table(
            tables.plan_rows(
                planned.resources,
                planned.contexts,
                planned.runs,
                planned.seconds,
                planned.error[1:],
            )
        )
        shared.say(planned.describe())
