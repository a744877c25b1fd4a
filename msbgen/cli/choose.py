"""``msbgen choose``: the cheapest contexts that keep deadlines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import xarray as xr

    from msbgen.answers.choose.allotment import Allotment
    from msbgen.answers.choose.context import ContextChoice

_SCHEMA_VERSION = 1
_WITH_CACHES = ("resctrl", "pqos", "goresctrl")
_FORMS = (*_WITH_CACHES, "cgroup", "cpufreq")


@dataclass(frozen=True)
class _Wanted:
    """A task with its deadline [s]."""

    path: Path
    deadline: float
    weight: float


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "choose the cheapest context that keeps a deadline"
    verb = shared.new_verb(verbs, "choose", run, text)
    text = "measured profiles, generated samples, or calibrated models (msbgen bound --model)"
    verb.add_argument("files", type=Path, nargs="*", metavar="FILE.nc", help=text)
    text = "longest time of a run, such as 1.2s; or 1.1x, of the shortest expected time"
    verb.add_argument("--deadline", type=shared.duration_or_factor, metavar="TIME|Nx", help=text)
    text = "instead of FILEs: a table of tasks with the columns file, deadline [s] and weight (1)"
    verb.add_argument("--deadlines", type=Path, metavar="FILE.csv", help=text)
    text = "price per unit of each resource, as cache_ways=1,bandwidth=0.01/MBps; others are free"
    verb.add_argument("--cost", required=True, metavar="NAME=X[/UNIT],...", help=text)
    text = "what the tasks share, as cache_ways=20,bandwidth=1400: the cheapest joint allotment"
    verb.add_argument("--total", type=shared.amounts, metavar="NAME=X,...", help=text)
    shared.add_miscoverage(verb, "probability that a run takes longer than its bound", 0.05)
    verb.add_argument(
        "--contexts",
        default="all",
        metavar="all|grid:AxB…|FILE",
        help="contexts to choose from, as for 'msbgen bound' (%(default)s)",
    )
    text = "also choose contexts beyond the measured ones, whose bounds were not tested"
    verb.add_argument("--untested", action="store_true", help=text)
    text = "add the Pareto front of cost and bound to the table"
    verb.add_argument("--front", action="store_true", help=text)
    text = "print commands or a configuration that set the choice, to review"
    verb.add_argument("--apply", choices=_FORMS, help=text)
    text = "with --apply: numbers of the caches, as in /sys/fs/resctrl/schemata (0)"
    verb.add_argument("--caches", type=shared.groups, metavar="N,...", help=text)
    text = "write the chosen context here, for 'msbgen measure SPEC --contexts', and a cheaper one "
    text += "that only its bound refuses; with one FILE"
    verb.add_argument("--measure", type=shared.output, metavar="NEXT.csv", help=text)
    text = "write all results here, as JSON"
    verb.add_argument("--json", type=shared.output, metavar="FILE.json", help=text)
    shared.add_table_out(verb, "OUT.csv", "the choice, and what one level more buys,")
    shared.add_keep_all(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Bound the durations of each task, choose, and write the answer."""
    if bool(options.files) == bool(options.deadlines):
        raise UsageError("name either files with --deadline, or --deadlines.")
    if bool(options.files) != (options.deadline is not None):
        raise UsageError("files need --deadline; --deadlines has one for each task.")
    if options.measure and len(options.files) != 1:
        raise UsageError("--measure is for one file; choose for one task at a time.")
    if options.apply not in _WITH_CACHES:
        *forms, last = _WITH_CACHES
        shared.refuse_unused(options, "caches", f"is for --apply {', '.join(forms)} or {last}")
    if options.apply and not options.out and not options.json:
        needed = "needs -o or --json with --apply"
        shared.refuse_unused(options, "front", needed, "add one of them")
    outputs = [options.out, options.json, options.measure]
    table = [options.deadlines, shared.file_of_contexts(options.contexts)]
    shared.check_files([*options.files, *table], outputs, force=options.force)
    if options.deadlines:
        wanted = _read_deadlines(options.deadlines)
        shared.check_files(
            [*(each.path for each in wanted), *table], outputs,
            force=options.force,
        )  # fmt: skip
    else:
        seconds = shared.seconds_of(options.deadline, 1.0)
        wanted = [_Wanted(path, seconds, 1.0) for path in options.files]

    from msbgen.answers.choose import allotment, context

    found = {path: _bounds(path, options) for path in dict.fromkeys(w.path for w in wanted)}
    bounds = [found[each.path] for each in wanted]
    if isinstance(options.deadline, shared.TimesFastest):
        wanted = [
            _Wanted(each.path, shared.seconds_of(options.deadline, _fastest(b, options)), 1.0)
            for each, b in zip(wanted, bounds)
        ]
    joint: Allotment | None = None
    if options.total:
        joint = allotment.share_resources(
            bounds, [each.deadline for each in wanted], options.cost, options.total,
            weights=[each.weight for each in wanted], untested=options.untested,
        )  # fmt: skip
        choices = list(joint.choices)
    else:
        with _hopes(options, bounds, wanted):
            choices = [
                context.choose_context(b, w.deadline, options.cost, untested=options.untested)
                for b, w in zip(bounds, wanted)
            ]
    rows = list(_rows(bounds, choices, wanted, options))
    # before any file is written, as not every form can set every resource
    settings = _settings(options, bounds, choices) if options.apply else ""
    if options.json:
        content = _content(bounds, choices, wanted, joint, options.cost)
        shared.write_json(content, options.json, force=options.force)
    if options.measure:
        refused = _refused(bounds[0], choices[0], options)
        cheaper = [] if refused is None else [refused]
        _write_contexts(bounds[0], [choices[0].row, *cheaper], options)
    if not options.apply or options.out:
        shared.write_or_show_table(rows, options.out, _summary(choices), force=options.force)
    if options.apply:
        shared.show(settings)
    if joint is not None:
        _describe(joint)
    else:
        for each, choice in zip(bounds, choices):
            _hint(each, choice, options)


def _write_contexts(bounds: xr.Dataset, rows: Sequence[int], options: argparse.Namespace) -> None:
    """Write contexts to measure next."""
    from msbgen.data.tables import write_table

    levels = [_levels(bounds, row) for row in rows]
    content = [[*levels[0]], *([*each.values()] for each in levels)]
    write_table(content, options.measure, overwrite=options.force)


@contextmanager
def _hopes(
    options: argparse.Namespace, bounds: Sequence[xr.Dataset], wanted: Sequence[_Wanted]
) -> Iterator[None]:
    """Add to a refusal the cheapest context that is expected to keep the deadline, to measure."""
    from msbgen.answers.choose.context import PricedContexts
    from msbgen.core.choice import InfeasibleError

    try:
        yield
    except InfeasibleError as error:
        if len(bounds) > 1:
            raise
        contexts = PricedContexts(bounds[0], options.cost, untested=options.untested)
        row = contexts.cheapest_expected(wanted[0].deadline)
        if row is None:
            raise
        if options.measure:
            _write_contexts(bounds[0], [row], options)
        hint = f"{options.measure} has it" if options.measure else "--measure NEXT.csv writes it"
        raise InfeasibleError(
            f"{error} {contexts.describe(row)} is expected to take {contexts.expected[row]:.4g} s; "
            f"measure it and choose again ({hint})."
        ) from None


def _fastest(bounds: xr.Dataset, options: argparse.Namespace) -> float:
    """Shortest expected time of the contexts to choose from [s]."""
    from msbgen.answers.choose.context import PricedContexts

    contexts = PricedContexts(bounds, options.cost, untested=options.untested)
    return float(contexts.expected[contexts.rows].min())


def _refused(bounds: xr.Dataset, choice: ContextChoice, options: argparse.Namespace) -> int | None:
    """Row of the cheapest context whose expected time keeps the deadline, but not its bound.

    None where no such context is cheaper than the choice.
    """
    from msbgen.answers.choose.context import PricedContexts

    contexts = PricedContexts(bounds, options.cost, untested=options.untested)
    return contexts.cheapest_expected(choice.deadline, choice.cost)


def _hint(bounds: xr.Dataset, choice: ContextChoice, options: argparse.Namespace) -> None:
    """Print whether the choice was measured, and which cheaper context might do."""
    from msbgen.answers.choose.context import PricedContexts

    row, known = _refused(bounds, choice, options), bool(bounds["measured"].values[choice.row])
    if row is None and known:
        return
    contexts, parts = PricedContexts(bounds, options.cost, untested=True), []
    if not known:
        parts.append("the choice has no measured run")
    if row is not None:
        parts.append(
            f"{contexts.describe(row)} would cost {contexts.cost[row]:g} and is expected to take "
            f"{contexts.expected[row]:.4g} s, but its bound is {contexts.bound[row]:.4g} s"
        )
    hint = "" if options.measure else " (--measure NEXT.csv writes what to measure)"
    text = f"{choice.task}: {'; '.join(parts)}; measure it and choose again{hint}."
    # beside a summary it is part of that; a table on stdout must stay a table
    (shared.show if options.out and not options.apply else shared.print_message)(text)


def _bounds(path: Path, options: argparse.Namespace) -> xr.Dataset:
    """Bounds of one task in the contexts to choose from."""

    from msbgen.answers.choose.costs import context_costs
    from msbgen.data.build import array_variable
    from msbgen.data.profiles import Profiles
    from msbgen.data.schema import same_contexts
    from msbgen.engine.bounds import model as calibrate
    from msbgen.engine.generate import fit as fitting

    measured, calibrated = shared.read_measured(
        path, calibrate.CalibratedModel.of_file, keep_all=options.keep_all
    )
    profiles = Profiles.of(measured)
    contexts = shared.contexts_like(profiles, options.contexts)
    context_costs(measured, options.cost)  # refuses unknown resources before a fit
    if calibrated is None:
        calibrate.check_has_runs(profiles)
        with Progress("fitting") as step:
            model = fitting.fit_model(profiles, progress=step)
        with Progress("calibrating") as step, shared.errors_from(path.name):
            calibrated = calibrate.calibrate(model, profiles, progress=step)
    with shared.errors_from(path.name):
        rate = calibrated.supported_rate(contexts, options.miscoverage)
        bounds = calibrated.bounds(contexts, rate, chosen=True)
    found = same_contexts(contexts, profiles.contexts) >= 0
    return bounds.assign(measured=array_variable("context", found))


def _read_deadlines(path: Path) -> list[_Wanted]:
    """Tasks of a table; files are relative to it."""
    from msbgen.data.columns import Table

    names = ("file", "deadline", "weight")
    table = Table(path, needed=names[:2], known=names)
    seconds = table.seconds("deadline", 1e-12, 1e12).tolist()
    weights = [1.0] * len(seconds)
    if "weight" in table.names:
        wanted = "a number above 0 and at most 1e12 is wanted"
        weights = table.range("weight", 1e-12, 1e12, wanted).tolist()
    files = [path.parent / file for file in table.texts("file")]
    return [_Wanted(*each) for each in zip(files, seconds, weights)]


def _rows(
    bounds: Sequence[xr.Dataset],
    choices: Sequence[ContextChoice],
    wanted: Sequence[_Wanted],
    options: argparse.Namespace,
) -> Iterator[list[Any]]:
    """Rows of the table: the choice, one level more of each resource, and the front."""
    from msbgen.answers.choose.context import ROUNDING, PricedContexts

    every = list(dict.fromkeys(str(name) for each in bounds for name in each.coords))
    yield ["task", "row", *every, "cost", "duration_bound [s]", "deadline [s]", "untested"]
    for each, choice, want in zip(bounds, choices, wanted):
        contexts = PricedContexts(each, options.cost, untested=True)
        lines = [("choice", choice.row)]
        lines += [(f"more {more.resource}", more.row) for more in choice.more]
        for row in choice.front if options.front else ():
            late = contexts.bound[row] > want.deadline * (1 + ROUNDING)
            lines.append(("front, late" if late else "front", int(row)))
        for what, row in lines:
            levels = _levels(each, row)
            numbers = [f"{x:.6g}" for x in (contexts.cost[row], contexts.bound[row], want.deadline)]
            untested = int(each["extrapolated"].values[row] or each["beyond"].values[row])
            yield [choice.task, what, *(levels.get(n, "") for n in every), *numbers, untested]


def _levels(bounds: xr.Dataset, row: int) -> dict[str, str]:
    """Levels of a context as text, words among them."""
    from msbgen.data.schema import labels_of, level_text

    return {
        str(name): level_text(float(bounds[name].values[row]), labels_of(bounds[name].attrs))
        for name in bounds.coords
    }


def _content(
    bounds: Sequence[xr.Dataset],
    choices: Sequence[ContextChoice],
    wanted: Sequence[_Wanted],
    joint: Allotment | None,
    costs: str,
) -> dict[str, Any]:
    """Everything, for JSON."""
    from msbgen.answers.choose.context import PricedContexts

    tasks = []
    for each, choice, want in zip(bounds, choices, wanted):
        contexts = PricedContexts(each, costs, untested=True)

        def point(
            row: int, each: xr.Dataset = each, contexts: PricedContexts = contexts
        ) -> dict[str, Any]:
            cost, bound = float(contexts.cost[row]), float(contexts.bound[row])
            return {"context": _levels(each, row), "cost": cost, "bound": bound}

        tasks.append(
            {
                "task": choice.task, "file": str(want.path), "deadline": want.deadline,
                "weight": want.weight, "miscoverage": float(each.attrs["miscoverage"]),
                **point(choice.row),
                "more": [{"resource": m.resource, **point(m.row)} for m in choice.more],
                "front": [point(int(row)) for row in choice.front],
            }
        )  # fmt: skip
    content: dict[str, Any] = {"schema_version": _SCHEMA_VERSION, "costs": costs, "tasks": tasks}
    if joint is not None:
        content["cost"] = joint.cost
        content["total"], content["used"] = joint.total, joint.used
        content["more"] = [vars(more) for more in joint.more]
    return content


def _settings(
    options: argparse.Namespace, bounds: Sequence[xr.Dataset], choices: Sequence[ContextChoice]
) -> str:
    """Text that sets the choice."""
    from msbgen.answers.choose.apply import TaskLevels, apply_text

    tasks = []
    for each, choice in zip(bounds, choices):
        attrs = {str(name): dict(each[name].attrs) for name in each.coords}
        tasks.append(TaskLevels(choice.task, dict(zip(attrs, choice.context.tolist())), attrs))
    return apply_text(options.apply, tasks, caches=options.caches or (0,)).rstrip("\n")


def _summary(choices: Sequence[ContextChoice]) -> str:
    return ", ".join(
        f"{choice.task} costs {choice.cost:g}, bound {choice.bound:.4g} s" for choice in choices
    )


def _describe(found: Allotment) -> None:
    """Print what is used, and what one step more of each total buys."""
    used = ", ".join(f"{n}={found.used[n]:g} of {total:g}" for n, total in found.total.items())
    more = ", ".join(f"{m.cost:g} with {m.resource}={m.total:g}" for m in found.more)
    more = f"; it would cost {more}" if more else ""
    shared.print_message(f"the allotment costs {found.cost:g} and uses {used}{more}.")
