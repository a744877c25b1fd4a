"""``msbgen graph fit | predict``: time and energy of graphs in contexts that nobody tried."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msbgen.cli import graph as whole
from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    import xarray as xr


def add(verbs: Verbs) -> None:
    """Add the parts and their options."""
    verb = shared.new_verb(verbs, "fit", run_fit, "learn from runs of graphs on devices")
    verb.add_argument("runs", type=Path, nargs="+", metavar="RUNS.nc|RUNS.csv")
    verb.add_argument(
        "--device",
        action="append",
        required=True,
        metavar="NAME|SHEET.toml",
        help="the sheet of the device that the runs are of: one for all files, or one for each in "
        "their order",
    )
    verb.add_argument(
        "--graphs",
        type=shared.folder,
        required=True,
        metavar="DIR",
        help="folder of the graphs that ran, a file each, named as the runs name them; families, "
        "which are held back as a whole, are those that runs or graphs name",
    )
    verb.add_argument(
        "--profiles",
        type=shared.folder,
        required=True,
        metavar="DIR",
        help="folder of profiles of every context of a grid, KIND.nc for each kind of task",
    )
    shared.add_out(verb, "MODEL.nc", "model to write", required=True)
    verb.add_argument(
        "--schedule-only",
        action="store_true",
        help="no boosting of what schedules leave, and no intervals: a few runs do",
    )
    verb.add_argument(
        "--order",
        choices=("arrival", "heft"),
        help="which task that is ready started first (what the runs say, or arrival)",
    )
    shared.add_folds(verb, 5, "parts in which whole families of graphs are left out")
    shared.add_seed(verb)
    shared.add_force(verb)

    verb = shared.new_verb(verbs, "predict", run_predict, "predict a graph in contexts")
    verb.add_argument("model", type=Path, metavar="MODEL.nc")
    verb.add_argument("graph", type=Path, metavar="GRAPH|FAMILY:SIZE")
    whole.add_device(verb)
    shared.add_contexts(verb, "the device")
    verb.add_argument(
        "--miscoverage",
        type=shared.rate,
        metavar="A",
        help="add intervals that miss this share of runs of graphs of new families",
    )
    verb.add_argument(
        "--temperature", type=shared.degrees, metavar="T", help="at the start, in °C (ambient)"
    )
    shared.add_table_out(verb, "OUT.csv", "the answers")
    shared.add_seed(verb)
    shared.add_force(verb)


def run_fit(options: argparse.Namespace) -> None:
    """Fit, and calibrate unless only a schedule is wanted."""
    sheets = [whole.sheet_file(name) for name in options.device]
    shared.check_files([*options.runs, *sheets], [options.out], force=options.force)
    if len(options.device) not in (1, len(options.runs)):
        raise UsageError(
            f"{len(options.runs)} files of runs and {len(options.device)} --device are given; one "
            f"for all, or one each, is wanted."
        )
    if options.out.suffix.lower() != ".nc":
        raise UsageError(f"{options.out}: ends like no model; .nc is wanted.")

    from msbgen.core.conformal import least_rate
    from msbgen.graphs.predictor import predictor as graphs
    from msbgen.graphs.predictor import storage
    from msbgen.graphs.runs import join_graph_runs, read_graph_runs
    from msbgen.learn import extras

    if not options.schedule_only:
        extras.check_libraries()
    sheet_of = {name: whole.read_device(name) for name in options.device}
    named = options.device * (len(options.runs) if len(options.device) == 1 else 1)
    parts: dict[str, list[xr.Dataset]] = {name: [] for name in sheet_of}
    for path, name in zip(options.runs, named):
        parts[name].append(read_graph_runs(path, sheet_of[name]))
    files = ", ".join(path.name for path in options.runs)
    with shared.about(files):
        runs = [join_graph_runs(of_device) for of_device in parts.values()]
        devices = list(sheet_of.values())
        order = options.order or _order(runs)
    names = dict.fromkeys(str(name) for part in runs for name in part["graph"].values)
    found = {name: _graph(options.graphs, name) for name in names}
    profiles: dict[str, xr.Dataset] = {}
    for name, one in found.items():
        kinds = {str(kind) for kind in one["kind"].values} - profiles.keys()
        more = whole.read_profiles(options.profiles, sorted(kinds), name, tables=False)
        profiles.update(more)
    predictor = graphs.GraphPredictor(
        residual=not options.schedule_only,
        order=order,
        folds=options.folds,
        random_state=options.seed,
    )
    with Progress("fitting") as step, shared.about(files):
        predictor.fit(runs, devices=devices, graphs=found, profiles=profiles, progress=step)
        if not options.schedule_only:
            predictor.calibrate()
    storage.save_graph_model(predictor, options.out, overwrite=options.force)
    total, many = sum(part.sizes["run"] for part in runs), len(predictor.families_)
    said = "no intervals"
    if not options.schedule_only:
        said = f"intervals at a miscoverage of {least_rate(many):g} or more, from {many} families"
    shared.show(f"{options.out}: {total} runs on {', '.join(predictor.devices_)}; {said}")


def run_predict(options: argparse.Namespace) -> None:
    """Predict time and energy of a graph, a row for each context."""
    contexts = shared.contexts_file(options.contexts)
    inputs = [options.model, whole.graph_file(options.graph), contexts]
    shared.check_files(
        [*inputs, whole.sheet_file(options.device)], [options.out], force=options.force
    )

    from msbgen.graphs.predictor import storage

    predictor = storage.load_graph_model(options.model)
    device = whole.read_device(options.device)
    if options.miscoverage is not None:
        with shared.about("--miscoverage"):
            predictor.check_interval(device, options.miscoverage)
    graph = whole.read(options.graph, seed=options.seed)
    whole.tell_shares(graph)
    table = whole.device_contexts(device, options.contexts)
    with shared.about(options.device):
        asked = predictor.prepare(graph, device)
    rows = asked.rows(table)
    said = asked.predict(rows, options.temperature)
    ends = (
        asked.interval(rows, options.miscoverage, options.temperature)[1:]
        if options.miscoverage is not None
        else ()
    )
    beyond = asked.fitted.board.outside(asked.graph, rows)

    def answers() -> Iterator[list[Any]]:
        limits = ("time low [s]", "time high [s]", "energy low [J]", "energy high [J]")
        more = limits if ends else ()
        yield [*device.columns, "time [s]", "energy [J]", *more, "extrapolated"]
        for k, context in enumerate(table):
            interval = [ends[end][k, output] for output in (0, 1) for end in (0, 1)] if ends else []
            numbers = [f"{value:.6g}" for value in (*said[k], *interval)]
            yield [*(f"{value:.15g}" for value in context), *numbers, int(beyond[k])]

    said_of = f"{len(table)} contexts of {device.name}"
    shared.give_table(answers(), options.out, said_of, force=options.force)
    if device.name not in predictor.devices_:
        shared.say(f"warning: no run is of {device.name}: its sheet is taken at its word.")


def _order(runs: Sequence[xr.Dataset]) -> Literal["arrival", "heft"]:
    """The order that runs say their tasks started in, arrival where none says any."""
    from msbgen.core.errors import ProfileError

    said = {str(part.attrs["order"]) for part in runs if "order" in part.attrs}
    if not said <= {"arrival", "heft"} or len(said) > 1:
        raise ProfileError(
            f"tasks started in the order {' and '.join(sorted(said))}; arrival or heft, one of "
            f"them for all runs, is wanted."
        )
    return "heft" if "heft" in said else "arrival"


def _graph(folder: Path, name: str) -> xr.Dataset:
    """The graph that runs call so: a file of a folder with or without its ending."""
    from msbgen.core.errors import ProfileError
    from msbgen.graphs import readers

    if not folder.is_dir():
        raise ProfileError(f"{folder}: no such folder; that of the graphs that ran is wanted.")
    ends = ("", *readers.ENDINGS)
    for path in (folder / f"{name}{end}" for end in ends):
        if path.is_file():
            with shared.inside(folder):
                return readers.read_graph(path)
    raise ProfileError(
        f"{folder}: has no graph '{name}', of which there are runs; {name}.nc is wanted."
    )
