"""``msbgen realtime taskset``: a set of periodic tasks, from a table or drawn at random."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import UsageError, Verbs

if TYPE_CHECKING:
    import xarray as xr


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "write a set of periodic tasks, from a table or drawn at random"
    verb = shared.new_verb(verbs, "taskset", run, text)
    verb.add_argument(
        "measured",
        type=Path,
        nargs="+",
        metavar="PROFILES.nc",
        help="measured profiles of the tasks; utilisations refer to their longest execution in the "
        "largest context",
    )
    tasks = verb.add_mutually_exclusive_group(required=True)
    text = "the tasks: a table with the columns profile, period [s] and, optional, name"
    tasks.add_argument("--tasks", type=Path, metavar="TASKS.csv", help=text)
    text = "draw tasks at random, with this sum of reference execution time / period"
    tasks.add_argument("--utilisation", type=shared.number, metavar="U", help=text)
    shared.add_out(verb, "SET.toml", "the task set to write", required=True)
    verb.add_argument(
        "--cores", type=shared.count, default=4, metavar="M", help="number of cores (%(default)s)"
    )
    shared.add_capacity(verb, "the highest level in the files of every resource but the clock")
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Read or draw a task set and write it."""
    shared.check_files([*options.measured, options.tasks], [options.out], force=options.force)
    if equal := shared.equal_names(options.measured, "stem"):
        raise UsageError(f"{equal} have the same name, which identifies tasks; rename one.")

    from msbgen.core.words import number_of
    from msbgen.data import store
    from msbgen.systems.realtime import tasksets

    read = {path.stem: store.read_profiles(path) for path in options.measured}
    wcet = {name: tasksets.reference_wcet(profiles) for name, profiles in read.items()}
    capacity = options.capacity or tasksets.highest_levels([*read.values()])
    for path, profiles in zip(options.measured, read.values()):
        _check_capacity(capacity, options.cores, path, profiles)
    if options.tasks:
        tasks = tasksets.read_tasks(options.tasks, wcet)
        made = tasksets.TaskSet(options.cores, capacity, tasks)
    else:
        made = tasksets.draw_task_set(
            wcet, options.utilisation, cores=options.cores, capacity=capacity, rng=options.seed
        )
    made.write(options.out, overwrite=options.force)
    shared.show(
        f"{options.out}: {number_of(len(made.tasks), 'task')}, utilisation {made.utilisation:.6g}"
    )


def _check_capacity(
    capacity: Mapping[str, float], cores: int, path: Path, profiles: xr.Dataset
) -> None:
    """Raise where a shared resource is not in the profiles or smaller than all cores need."""
    from msbgen.data.profiles import Profiles

    record = Profiles.of(profiles)
    resources = list(record.resources)
    for name, amount in capacity.items():
        if name not in resources:
            raise UsageError(
                f"--capacity names '{name}', which is not a resource of {path}; its resources are "
                f"{', '.join(resources)}."
            )
        least = float(record.contexts[:, resources.index(name)].min())
        if amount < cores * least * (1 - 1e-9):
            raise UsageError(
                f"--capacity {name}={amount:g} is too little; at least {cores * least:g}, the "
                f"lowest level {least:g} in {path} for each of {cores} cores, is wanted."
            )
