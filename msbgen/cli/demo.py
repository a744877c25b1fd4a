"""``msbgen demo``: measure, generate and score a program that ships."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import xarray as xr

    from msbgen.answers.evaluate.scores import Method
    from msbgen.core.machine import OnProgress
    from msbgen.engine.generate.distribution import Kind

# Measured on the virtual platform: planned contexts and runs of each; held back for scoring: random
# contexts and runs of each.
PLANNED, RUNS, HELD_BACK, TRUTH_RUNS = 125, 5, 100, 30

_NAMES = (
    "measured.nc", "generated.nc", "scores.json", "profiles.png", "report.html", "report.json"
)  # fmt: skip


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(
        verbs, "demo", run, "measure a program that ships on the virtual platform, generate, score"
    )
    shared.add_out(
        verb,
        "DIR",
        "folder for measured.nc, generated.nc, scores.json, profiles.png and report.html "
        "(%(default)s)",
        default=Path("msbgen-demo"),
    )
    verb.add_argument("--task", default="zstd", help="program to measure (%(default)s)")
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Measure a program on the virtual platform, generate all its contexts, score."""
    from msbgen.data.shipped import shipped_folder

    traces = shipped_folder() / "traces"
    programs = sorted(path.stem for path in traces.glob("*.nc"))
    if options.task not in programs:
        raise UsageError(f"no program '{options.task}' ships; choose one of {', '.join(programs)}.")
    shared.check_folder([], options.out, _NAMES, force=options.force)

    from importlib.util import find_spec
    from typing import get_args

    from msbgen.answers.evaluate import baselines
    from msbgen.answers.evaluate import scores as evaluate
    from msbgen.data import schema, store
    from msbgen.data.profiles import Profiles
    from msbgen.engine.generate import ahead, distribution
    from msbgen.engine.generate import fit as fitting
    from msbgen.output.batch import report_data
    from msbgen.output.report import page, picture, table

    trace = traces / f"{options.task}.nc"
    with Progress("measuring") as step:
        train, truth = _measured_and_held_back(trace, step)
    profiles, unseen = Profiles.of(train), schema.context_table(truth)
    shared.show(
        f"{options.task} on the virtual platform: {train.sizes['context']} contexts measured, "
        f"{len(unseen)} held back"
    )
    compiled = ahead.paths_compiled(profiles, fitting.DEFAULT, "sample", shared.print_message)
    with Progress("fitting") as step, compiled:
        model = fitting.fit_model(profiles, progress=step)
    every = schema.all_contexts(train)
    with Progress("generating") as step:
        blocks = model.stream(every, kind="mean", progress=step)
        options.out.mkdir(parents=True, exist_ok=True)
        store.write_blocks(blocks, options.out / _NAMES[1], overwrite=options.force)
    measured = options.out / _NAMES[0]
    store.write_profiles(train, measured, overwrite=options.force)
    shared.show(f"generated mean profiles of all {len(every)} contexts of the platform\n")

    def fitted(kind: Kind) -> Method:
        return lambda _train, contexts: model.generate(contexts, kind=kind, rng=0)

    with Progress("solving the bridge") as step:
        model.prepare("sample", progress=step)
    methods = evaluate.methods()
    methods |= {f"default/{kind}": fitted(kind) for kind in get_args(distribution.Kind)}
    with Progress("scoring methods") as step:
        scores = evaluate.score_methods(train, truth, methods, progress=step)
    summary = evaluate.summarise(scores)
    shared.write_json(summary, options.out / _NAMES[2], force=options.force)
    written: list[str] = list(_NAMES[:3])
    if find_spec("matplotlib"):
        picture.plot_profiles(
            {
                "mean": model.generate(unseen, kind="mean"),
                "maximum likelihood": model.generate(unseen),
                "bracketing baseline": baselines.bracketing(train, unseen),
            },
            truth,
            picture.two_far_contexts(train, truth),
            options.out / _NAMES[3],
            overwrite=options.force,
        )
        written.append(_NAMES[3])
    else:
        shared.print_message("no picture: matplotlib is not installed; install msbgen[plot].")
    if find_spec("matplotlib") and find_spec("jinja2"):
        with Progress("writing the report") as step:
            data = report_data.collect_report_data(
                train,
                source=measured.name,
                path=str(measured),
                trace=str(trace),
                truth=truth,
                model=model,
                scores=scores,
                command=shlex.join(
                    ["msbgen", "demo", "--task", options.task, "-o", str(options.out)]
                ),
                progress=step,
            )
            page.write_report(options.out / _NAMES[4], data, overwrite=options.force)
        written += _NAMES[4:]
    else:
        shared.print_message(
            "no report: jinja2 or matplotlib is not installed; install msbgen[report]."
        )
    shared.show(table.score_table(summary))
    shared.show("written: " + ", ".join(str(options.out / name) for name in written))


def _measured_and_held_back(trace: Path, progress: OnProgress) -> tuple[xr.Dataset, xr.Dataset]:
    """Replay a program in planned contexts, and in random others to score against."""
    import numpy as np

    from msbgen.answers.plan.plan import plan_contexts
    from msbgen.sources import platform

    levels = platform.PlatformConfig().levels
    measured, every = plan_contexts(levels, PLANNED).contexts, shared.contexts("all", levels)
    others = every[~(every[:, None] == measured).all(axis=2).any(axis=1)]
    held_back = np.random.default_rng(0).choice(others, HELD_BACK, replace=False)
    number = np.repeat([RUNS, TRUTH_RUNS], [len(measured), HELD_BACK])
    both = platform.replay_trace(
        platform.read_trace(trace), np.concatenate([measured, held_back]), number, progress=progress
    )
    train = both.isel(context=slice(len(measured)), run=slice(RUNS))
    return train, both.isel(context=slice(len(measured), None))
