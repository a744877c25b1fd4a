"""``msbgen batch``: the whole work for many tasks, here or on a cluster, resumable."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "fit, generate, bound, evaluate, plan, report for many tasks"
    verb = shared.new_verb(verbs, "batch", run, text)
    verb.add_argument(
        "tasks",
        type=Path,
        metavar="TASKS.toml|DIR",
        help="tasks with what is wanted of each; or a folder of measured files (*.nc), a task a "
        "file, with *-truth.nc beside them",
    )
    shared.add_out(verb, "OUT", "folder of the results, a folder a task", required=True)
    verb.add_argument(
        "--resume", action="store_true", help="do what is missing or whose input has changed"
    )
    verb.add_argument(
        "--format",
        choices=("netcdf", "zarr"),
        default="netcdf",
        help="of generated profiles; workers write into one zarr store at once (%(default)s)",
    )
    verb.add_argument("--models", action="store_true", help="keep the fitted models, too")
    verb.add_argument(
        "--block",
        type=shared.count,
        metavar="N",
        help="contexts that are generated at a time; changes no result (a few seconds' worth)",
    )
    verb.add_argument(
        "--scheduler",
        default="",
        metavar="local:N|ADDRESS|FILE",
        help="N processes of this machine, or a Dask scheduler by its address or the file that it "
        "wrote (this process)",
    )
    verb.add_argument(
        "--retries",
        type=tries,
        default=2,
        metavar="N",
        help="times that a unit is begun again whose worker was lost (%(default)s)",
    )
    verb.add_argument(
        "--timeout",
        type=shared.duration,
        default=3600.0,
        metavar="TIME",
        help="longest time of a unit, as 90s or 10min (1h)",
    )
    verb.add_argument(
        "--memory",
        type=memory,
        default=math.inf,
        metavar="SIZE",
        help="most memory that a unit may take beyond what its process holds, as 500MB or 4GB",
    )


def tries(text: str) -> int:
    """Whole number from 0 on."""
    return 0 if text == "0" else shared.count(text)


def memory(text: str) -> float:
    """Memory [bytes], given as 500MB or 4GB."""
    number, unit = text[:-2], text[-2:]
    scale = {"MB": 1e6, "GB": 1e9}.get(unit)
    if scale is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no memory, as 500MB or 4GB")
    return shared.number(number) * scale


def run(options: argparse.Namespace) -> None:
    """Carry out every unit of every task; what failed is said last."""
    from importlib.util import find_spec

    from msbgen.batch import run as batches
    from msbgen.batch import tasks
    from msbgen.batch.execute import Orders
    from msbgen.batch.steps import STEPS

    if options.out.exists() and not options.out.is_dir():
        raise UsageError(f"{options.out}: is no folder; name another one.")
    wanted = tasks.read_tasks(options.tasks, steps=list(STEPS))
    steps = dict(STEPS)
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing and not any("report" in task.settings.steps for task in wanted):
        shared.say(f"no reports: {missing[0]} is not installed; install msbgen[report].")
        del steps["report"]
    orders = Orders(
        contexts_of, steps, options.timeout, options.memory, retries=options.retries
    )  # fmt: skip
    with Progress("tasks") as step:
        batch = batches.run_batch(
            wanted,
            options.out,
            orders,
            scheduler=options.scheduler,
            resume=options.resume,
            zarr=options.format == "zarr",
            models=options.models,
            block=options.block,
            progress=step,
        )
    shared.show(f"{options.out}: {batch.describe()}")
    batch.complete()


def contexts_of(source: str, measured: xr.Dataset) -> NDArray[np.float64]:
    """Contexts that a task wants, of what was measured."""
    from msbgen.core.errors import ProfileError

    levels = shared.levels_of(measured)
    unlisted = [name for name, values in levels.items() if not values]
    if unlisted and not shared.is_file(source):
        raise ProfileError(
            f"'{unlisted[0]}' lists no 'levels', so that '{source}' says nothing; a TOML of tasks "
            f"with 'contexts', a file of contexts (CSV: a column a resource), is wanted."
        )
    return shared.contexts(source, levels)
