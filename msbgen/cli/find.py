"""``msbgen find``: the cheapest context that keeps a deadline, from a program to the answer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import xarray as xr

# Files of the folder.
_DATA, _MODEL, _ANSWER, _BOUNDS, _QUESTION = (
    "data.nc", "model.nc", "answer.json", "bounds.csv", "question.json"
)  # fmt: skip


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "measure, fit and choose until a deadline is kept at the least cost"
    verb = shared.new_verb(verbs, "find", run, text)
    text = "command, resources and their levels, as for 'msbgen measure'"
    verb.add_argument("spec", type=Path, nargs="?", metavar="SPEC.toml", help=text)
    text = "instead of SPEC.toml: take the runs of this profile file, as if they were measured now"
    verb.add_argument("--on", type=Path, metavar="FILE.nc", help=text)
    text = "longest time of a run, such as 1.2s"
    verb.add_argument("--deadline", type=shared.duration, required=True, metavar="TIME", help=text)
    text = "price per unit of each resource, as cache_ways=1,bandwidth=0.01/MBps; others are free"
    verb.add_argument("--cost", required=True, metavar="NAME=X[/UNIT],...", help=text)
    text = (
        "measuring time, such as 10min, or number of runs; a fifth is for fresh runs of the choice"
    )
    verb.add_argument("--budget", type=shared.budget, required=True, metavar="TIME|N", help=text)
    text = "levels that stay as they are, as size=400"
    verb.add_argument("--fix", type=shared.amounts, default={}, metavar="NAME=X,...", help=text)
    shared.add_miscoverage(verb, "probability that a run is late", 0.1)
    text = "folder of data, model, bounds and answer; the same question goes on where it stopped"
    verb.add_argument("-o", "--out", type=shared.folder, required=True, metavar="FOLDER", help=text)


def run(options: argparse.Namespace) -> None:
    """Find the context, and leave data, model, bounds and answer in a folder."""
    if (options.spec is None) == (options.on is None):
        raise UsageError("one of SPEC.toml and --on FILE.nc is wanted.")
    source_file: Path = options.spec or options.on
    out: Path = options.out
    asked = {
        "source": str(source_file), "deadline": options.deadline, "cost": options.cost,
        "budget": str(options.budget), "fix": options.fix, "miscoverage": options.miscoverage,
    }  # fmt: skip
    shared.check_folder([source_file], out, [], force=True)

    from msbgen.data.files import check_private_folder

    there = out.is_dir()
    if there:  # runs and question of an earlier call are read from it
        check_private_folder(out)
        _check_question(out / _QUESTION, asked)

    from msbgen.answers.plan.plan import parse_budget
    from msbgen.core.choice import InfeasibleError
    from msbgen.data import store, tables
    from msbgen.output.find.search import Question, find_context
    from msbgen.output.find.sources import Machine, Source, Table

    source: Source
    if options.on is not None:
        source = Table(shared.read_runs(options.on, keep_all=False), options.fix)
    else:
        from msbgen.sources.measure.sweep import requirements
        from msbgen.sources.measure.sweep import spec as specs

        spec = specs.read_spec(options.spec)
        shared.print_message(requirements.describe_progress(spec))
        source = Machine(spec, out, options.fix)
    if not there:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.mkdir(0o700)
    if not (out / _QUESTION).exists():
        shared.write_json(asked, out / _QUESTION, force=False)
    budget = parse_budget(options.budget)

    def save(data: xr.Dataset) -> None:
        store.write_profiles(data, out / _DATA, overwrite=True)

    question = Question(options.deadline, options.cost, budget, options.miscoverage)
    with Progress("finding") as step, shared.errors_from(source_file.name):
        found = find_context(source, question, save=save, progress=step)
    found.model.for_choices().save(out / _MODEL, overwrite=True)
    shared.write_json(found.as_dict(), out / _ANSWER, force=True)
    tables.write_table(tables.bound_rows(found.bounds), out / _BOUNDS, overwrite=True)
    shared.show_lines(found.describe().splitlines())
    if not found.choice:
        raise InfeasibleError(f"{source_file.name}: {found.reason}")


def _check_question(path: Path, asked: dict[str, Any]) -> None:
    """UsageError where the folder holds the answer to another question."""
    import json

    if not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    if before != asked:
        raise UsageError(
            f"{path}: the folder is of another question; name another folder, or ask the same."
        )
