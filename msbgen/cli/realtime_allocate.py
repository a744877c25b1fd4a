"""``msbgen realtime allocate``: contexts of the running tasks."""

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "allocate", run, "decide the contexts of running tasks once")
    verb.add_argument(
        "tables", type=Path, nargs="+", metavar="TABLE.nc", help="phase table of each running task"
    )
    text = "how much of its instructions each of them has retired, in [0, 1]"
    verb.add_argument("--progress", type=shared.shares, required=True, metavar="P,...", help=text)
    shared.add_capacity(verb)
    verb.add_argument(
        "--cores", type=shared.count, metavar="M", help="number of cores (one a running task)"
    )
    shared.add_allocator(verb)
    text = "loss of rate that lower clocks may cost, in [0, 1) (the highest clock)"
    verb.add_argument("--slack", type=shared.share, metavar="S", help=text)


def run(options: argparse.Namespace) -> None:
    """Decide once and print the contexts as CSV."""
    shared.check_files(options.tables)
    if len(options.progress) != len(options.tables):
        raise UsageError(
            f"--progress gives {len(options.progress)} values for {len(options.tables)} tables; "
            f"one each is wanted."
        )
    cores = options.cores or len(options.tables)
    if cores < len(options.tables):
        raise UsageError(f"--cores {cores} cannot run {len(options.tables)} tasks at once.")

    from msbgen.systems.phases.phases import read_phases
    from msbgen.systems.realtime.allocate import Allocator

    names = [str(path) for path in options.tables]
    allocator = Allocator(
        {name: read_phases(name) for name in dict.fromkeys(names)}, options.capacity, cores,
        method=options.allocator, objective=options.objective, slack=options.slack,
    )  # fmt: skip
    contexts = allocator.decide(names, options.progress)
    tasks = [path.stem for path in options.tables] + ["(idle)"] * (cores - len(names))
    rows = [[task, *(f"{x:.12g}" for x in context)] for task, context in zip(tasks, contexts)]
    shared.show_table([["task", *allocator.grid.names], *rows])
