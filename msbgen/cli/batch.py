"""``msbgen batch``: fit, generate, bound, score, plan and report many tasks, resumable."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from msbgen.data.profiles import Profiles


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "fit, generate, bound, evaluate, plan, report for many tasks"
    verb = shared.new_verb(verbs, "batch", run, text)
    verb.add_argument(
        "tasks",
        type=Path,
        metavar="TASKS.toml|DIR",
        help="the tasks and their settings; or a folder of measured files, TASK.nc with "
        "TASK-truth.nc beside it",
    )
    shared.add_out(
        verb, "OUT", "folder of the results, with one folder for each task", required=True
    )
    text = "continue a batch: do what is missing or has changed inputs"
    verb.add_argument("--resume", action="store_true", help=text)
    text = "format of generated profiles; a zarr store is written by all workers (%(default)s)"
    verb.add_argument("--format", choices=("netcdf", "zarr"), default="netcdf", help=text)
    verb.add_argument("--models", action="store_true", help="keep the fitted models")
    text = "contexts in a unit of work; no effect on results (a few seconds of work)"
    verb.add_argument("--block", type=shared.count, metavar="N", help=text)
    text = "N processes of this machine, or the address or file of a Dask scheduler (this process)"
    verb.add_argument("--scheduler", default="", metavar="local:N|ADDRESS|FILE", help=text)
    text = "how often a unit is repeated after its worker was lost (%(default)s)"
    verb.add_argument("--retries", type=tries, default=2, metavar="N", help=text)
    text = "time limit of a unit, such as 90s or 10min (1h)"
    verb.add_argument("--timeout", type=shared.duration, default=3600.0, metavar="TIME", help=text)
    text = "memory limit of a unit beyond that of its idle process, such as 500MB or 4GB"
    verb.add_argument("--memory", type=memory, default=math.inf, metavar="SIZE", help=text)


def tries(text: str) -> int:
    """Whole number from 0 on."""
    return 0 if text == "0" else shared.count(text)


def memory(text: str) -> float:
    """Memory [bytes], written as 500MB or 4GB."""
    number, unit = text[:-2], text[-2:]
    scale = {"MB": 1e6, "GB": 1e9}.get(unit)
    if scale is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of memory, such as 500MB or 4GB")
    return shared.number(number) * scale


def run(options: argparse.Namespace) -> None:
    """Run the batch; failures are reported last."""
    from importlib.util import find_spec

    from msbgen.output.batch import run as batches
    from msbgen.output.batch import tasks
    from msbgen.output.batch.execute import ExecutionConfig
    from msbgen.output.batch.steps import STEPS

    if (options.out.exists() or options.out.is_symlink()) and not options.out.is_dir():
        raise UsageError(f"{options.out}: is not a folder; name another one.")
    wanted = tasks.read_tasks(options.tasks, steps=list(STEPS))
    steps = dict(STEPS)
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing and not any("report" in task.settings.steps for task in wanted):
        shared.print_message(f"no reports: {missing[0]} is not installed; install msbgen[report].")
        del steps["report"]
    config = ExecutionConfig(
        contexts_of, steps, options.timeout, options.memory, retries=options.retries
    )  # fmt: skip
    with Progress("tasks") as step:
        batch = batches.run_batch(
            wanted, options.out, config, scheduler=options.scheduler, resume=options.resume,
            zarr=options.format == "zarr", models=options.models, block=options.block,
            progress=step,
        )  # fmt: skip
    shared.show(f"{options.out}: {batch.describe()}")
    batch.complete()


def contexts_of(source: str, measured: Profiles) -> NDArray[np.float64]:
    """Contexts of a task, by the resources of its measurements."""
    from msbgen.core.errors import ProfileError

    levels = shared.levels_of(measured)
    unlisted = [name for name, values in levels.items() if not values]
    if unlisted and not shared.is_file(source):
        raise ProfileError(
            f"'{unlisted[0]}' lists no 'levels', which '{source}' needs; name a file of "
            "contexts (CSV: "
            f"one column for each resource) as 'contexts' in a TOML of tasks."
        )
    return shared.contexts_like(measured, source)
