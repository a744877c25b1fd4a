"""``msbgen machines queue``: simulate queues of jobs on several machines."""

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, Verbs

_NAMES = ("queue.csv", "queue.json", "queue.png")
_SCHEMA = "msbgen-queue/1"
# Columns of the table that are no words.
_TITLES = {
    "makespan": "makespan [s]",
    "bound": "least makespan [s]",
    "makespan_over_bound": "makespan / least",
    "slowdown_against_fastest": "slowdown against the fastest machine",
    "wait": "mean wait [s]",
}


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "queue", run, "simulate queues of jobs on several machines")
    text = "machines, jobs (a table or a log in the standard workload format), arrivals, placements"
    verb.add_argument("file", type=Path, metavar="SIM.toml", help=text)
    text = f"folder for {_NAMES[0]} (a row each), {_NAMES[1]} and the picture"
    shared.add_out(verb, "FOLDER", text, required=True)
    text = "also write the outcome of every job in the standard workload format"
    verb.add_argument("--swf", action="store_true", help=text)
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Simulate a scenario and write the results."""
    shared.check_folder([options.file], options.out, _NAMES, force=options.force)

    from importlib.util import find_spec

    from msbgen.data import tables
    from msbgen.systems.machines.queue import compare, scenario, workload
    from msbgen.systems.machines.queue import picture as queues

    inputs = [options.file, *scenario.scenario_files(options.file)]
    shared.check_folder(inputs, options.out, _NAMES, force=options.force)
    setup = scenario.read_scenario(options.file)
    wanted = compare.variants(setup.jobs, setup.arrivals, setup.placements, setup.queues)
    logs = [f"{choice.name}.swf" for choice in wanted] if options.swf else []
    shared.check_folder(inputs, options.out, [*_NAMES, *logs], force=options.force)
    rows, written = [], {}
    with Progress("simulating") as step, shared.errors_from(options.file.name):
        for result in compare.simulate_variants(
            setup.jobs, setup.machines, wanted, rng=options.seed
        ):
            rows.append(result.row)
            step(len(rows), len(wanted))
            if options.swf:
                log = workload.workload_of(result.jobs, result.schedule, setup.machines)
                written[f"{result.variant.name}.swf"] = log
    options.out.mkdir(parents=True, exist_ok=True)
    for name, log in written.items():
        workload.write_workload(log, options.out / name, overwrite=options.force)
    content = [[_TITLES.get(name, name) for name in rows[0]], *(list(row.values()) for row in rows)]
    tables.write_table(content, options.out / _NAMES[0], overwrite=options.force)
    summary = {"schema": _SCHEMA, "machines": setup.machines, "jobs": len(setup.jobs), "rows": rows}
    shared.write_json(summary, options.out / _NAMES[1], force=options.force)
    names = [*_NAMES[:2]]
    if find_spec("matplotlib"):
        queues.plot_queues(rows, options.out / _NAMES[2], overwrite=options.force)
        names.append(_NAMES[2])
    else:
        shared.print_message("no picture: matplotlib is not installed; install msbgen[plot].")
    shared.show(queues.queue_table(rows))
    logs_written = f", {len(logs)} logs" if logs else ""
    shared.show("written: " + ", ".join(str(options.out / name) for name in names) + logs_written)
