"""``msbgen graph fit | predict``: time and energy of graphs in unmeasured contexts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msbgen.cli import graph as graph_options
from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import xarray as xr


# Folds of whole families.
_FOLDS = 5


def add(verbs: Verbs) -> None:
    """Add the parts and their options."""
    verb = shared.new_verb(verbs, "fit", run_fit, "fit a predictor to runs of graphs on devices")
    verb.add_argument("runs", type=Path, nargs="+", metavar="RUNS.nc|RUNS.csv")
    text = "data sheet of the device of the runs: one for all files, or one for each file in order"
    verb.add_argument(
        "--device", action="append", required=True, metavar="NAME|SHEET.toml", help=text
    )
    verb.add_argument(
        "--graphs",
        type=shared.folder,
        required=True,
        metavar="DIR",
        help="folder of the graphs, one file each, named as in the runs; families, which are "
        "held out as a whole, are those of the runs or graphs",
    )
    text = "folder of profiles of all contexts of a grid, KIND.nc for each kind of task"
    verb.add_argument("--profiles", type=shared.folder, required=True, metavar="DIR", help=text)
    shared.add_out(verb, "MODEL.nc", "model to write", required=True)
    verb.add_argument(
        "--model",
        choices=("schedule", "network"),
        default="schedule",
        help="a list schedule of the profiles with boosting, or the GraphPerf-RT network, whose "
        "errors are several times larger (%(default)s)",
    )
    text = "no boosting of the residuals of schedules and no intervals; needs few runs"
    verb.add_argument("--schedule-only", action="store_true", help=text)
    text = "order in which ready tasks started (as in the runs, else arrival)"
    verb.add_argument("--order", choices=("arrival", "heft"), help=text)
    text = f"folds of whole families ({_FOLDS})"
    verb.add_argument("--folds", type=shared.folds, metavar="K", help=text)
    shared.add_seed(verb)
    shared.add_force(verb)

    verb = shared.new_verb(verbs, "predict", run_predict, "predict a graph in contexts")
    graph_options.add_predicted(verb)
    text = "add intervals that miss a graph of a new family with this probability"
    shared.add_miscoverage(verb, text)
    shared.add_table_out(verb, "OUT.csv", "the predictions")
    shared.add_seed(verb)
    shared.add_force(verb)


def run_fit(options: argparse.Namespace) -> None:
    """Fit a predictor, and calibrate it unless --schedule-only."""
    sheets = [graph_options.sheet_file(name) for name in options.device]
    shared.check_files([*options.runs, *sheets], [options.out], force=options.force)
    if len(options.device) not in (1, len(options.runs)):
        raise UsageError(
            f"{len(options.runs)} files of runs and {len(options.device)} --device were "
            "given; give one "
            f"--device for all, or one for each file."
        )
    if options.out.suffix.lower() != ".nc":
        raise UsageError(f"{options.out}: is not a model file; end the name with .nc.")

    from msbgen.core.conformal import least_rate
    from msbgen.systems.graphs.predictor import predictor as graphs
    from msbgen.systems.graphs.predictor.network_predictor import NetworkPredictor
    from msbgen.systems.graphs.runs import join_runs as join_graph_runs
    from msbgen.systems.graphs.runs import read_runs as read_graph_runs
    from msbgen.systems.learn import extras

    network = options.model == "network"
    if network:
        shared.refuse_unused(options, "schedule_only order folds", "is for --model schedule")
        extras.load_library("torch", "graph", "networks of task graphs")
    elif options.schedule_only:
        shared.refuse_unused(options, "folds", "has no effect with --schedule-only")
    else:
        extras.check_libraries()
    sheet_of = {name: graph_options.read_device(name) for name in options.device}
    named = options.device * (len(options.runs) if len(options.device) == 1 else 1)
    parts: dict[str, list[xr.Dataset]] = {name: [] for name in sheet_of}
    for path, name in zip(options.runs, named):
        parts[name].append(read_graph_runs(path, sheet_of[name]))
    files = ", ".join(path.name for path in options.runs)
    with shared.errors_from(files):
        runs = [join_graph_runs(of_device) for of_device in parts.values()]
        devices = list(sheet_of.values())
        order = options.order or _order(runs)
    names = dict.fromkeys(str(name) for part in runs for name in part["graph"].values)
    found = {name: _graph(options.graphs, name) for name in names}
    profiles: dict[str, xr.Dataset] = {}
    for name, one in found.items():
        kinds = {str(kind) for kind in one["kind"].values} - profiles.keys()
        more = graph_options.read_profiles(options.profiles, sorted(kinds), name, tables=False)
        profiles.update(more)
    if network:
        learned = NetworkPredictor(random_state=options.seed)
        with Progress("training") as step, shared.errors_from(files):
            learned.fit(runs, devices=devices, graphs=found, profiles=profiles, progress=step)
        learned.save(options.out, overwrite=options.force)
        shared.show(
            f"{options.out}: a network trained on runs on {', '.join(learned.devices_)}; intervals "
            f"at a miscoverage of {learned.miscoverage:g}"
        )
        return
    predictor = graphs.GraphPredictor(
        residual=not options.schedule_only,
        order=order,
        folds=options.folds or _FOLDS,
        random_state=options.seed,
    )
    with Progress("fitting") as step, shared.errors_from(files):
        predictor.fit(runs, devices=devices, graphs=found, profiles=profiles, progress=step)
        if not options.schedule_only:
            predictor.calibrate()
    predictor.save(options.out, overwrite=options.force)
    total, families = sum(part.sizes["run"] for part in runs), len(predictor.families_)
    intervals = "no intervals"
    if not options.schedule_only:
        rate = least_rate(families)
        intervals = f"intervals at a miscoverage of {rate:g} or more, from {families} families"
    shared.show(f"{options.out}: {total} runs on {', '.join(predictor.devices_)}; {intervals}")


def run_predict(options: argparse.Namespace) -> None:
    """Predict time and energy of a graph, a row for each context."""
    graph_options.check_inputs(options, options.model)

    from msbgen.core.words import number_of
    from msbgen.systems.graphs.predictor.network_predictor import load_predictor

    predictor = load_predictor(options.model)
    device = graph_options.read_device(options.device)
    if options.miscoverage is not None:
        with shared.errors_from("--miscoverage"):
            predictor.check_interval(device, options.miscoverage)
    graph, table = graph_options.read_graph_in_contexts(options, device)
    with shared.errors_from(options.device):
        prepared = predictor.prepare(graph, device)
    rows = prepared.rows(table)
    predicted = prepared.predict(rows, options.temperature)
    ends = (
        prepared.interval(rows, options.miscoverage, options.temperature)[1:]
        if options.miscoverage is not None
        else ()
    )
    beyond = prepared.outside(rows)

    def predictions() -> Iterator[list[Any]]:
        limits = ("time low [s]", "time high [s]", "energy low [J]", "energy high [J]")
        more = limits if ends else ()
        yield [*device.columns, "time [s]", "energy [J]", *more, "extrapolated"]
        for k, context in enumerate(table):
            interval = [ends[end][k, output] for output in (0, 1) for end in (0, 1)] if ends else []
            numbers = [f"{value:.6g}" for value in (*predicted[k], *interval)]
            yield [*(f"{value:.15g}" for value in context), *numbers, int(beyond[k])]

    summary = f"{number_of(len(table), 'context')} of {device.name}"
    shared.write_or_show_table(predictions(), options.out, summary, force=options.force)
    if device.name not in predictor.devices_:
        shared.print_message(
            f"warning: no run is of {device.name}: the prediction relies on its data sheet."
        )


def _order(runs: Sequence[xr.Dataset]) -> Literal["arrival", "heft"]:
    """Start order of tasks in the runs; arrival where the runs have none."""
    from msbgen.core.errors import ProfileError

    orders = {str(part.attrs["order"]) for part in runs if "order" in part.attrs}
    if not orders <= {"arrival", "heft"} or len(orders) > 1:
        raise ProfileError(
            f"tasks started in the order {' and '.join(sorted(orders))}; all runs must "
            f"have one order, arrival or heft."
        )
    return "heft" if "heft" in orders else "arrival"


def _graph(folder: Path, name: str) -> xr.Dataset:
    """Read the graph of a name in the runs: a file of the folder, with or without ending."""
    from msbgen.core.errors import ProfileError, quoted
    from msbgen.systems.graphs import readers

    if not folder.is_dir():
        raise ProfileError(f"{folder}: no such folder; name the folder of the graphs.")
    ends = ("", *readers.ENDINGS)
    for path in (folder / f"{name}{end}" for end in ends):
        if os.path.isfile(path):  # False for a name that is too long
            with shared.errors_in(folder):
                return readers.read(path)
    raise ProfileError(
        f"{folder}: has no graph {quoted(name)}, which the runs name; put it there as a file."
    )
