"""``msbgen graph``: time, energy and heat of task graphs on devices."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs
from msbgen.core.records import Name

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from numpy.typing import NDArray

    from msbgen.systems.graphs.devices import Device

# Parts that stand in files of their own beside this one, each with `add` and `run`.
PARTS: tuple[str, ...] = ("graph_predict", "graph_choose")

_GRAPH = "GRAPH|FAMILY:SIZE"
# Most digits of a size; families have lower limits of their own.
_DIGITS = 6

# profiles by the name of a kind
kinds = shared.option(dict[Name, Name], "a list of kinds, such as mProject=ffmpeg,mAdd=sort")


def add(verbs: Verbs) -> None:
    """Add the verb's parts and their options."""
    text = "check, simulate, predict and place task graphs"
    parts = shared.new_group(verbs, "graph", text)

    verb = shared.new_verb(parts, "check", run_check, "check a graph, or convert it")
    verb.add_argument(
        "graph",
        type=Path,
        metavar=_GRAPH,
        help="netCDF, JSON, WfFormat, DOT, a list of parents (.csv, .txt); or a family and its "
        "size, such as cholesky:6",
    )
    text = "for a list of parents: a table task,kind,'time [s]' (or work)"
    verb.add_argument("--tasks", type=Path, metavar="TASKS.csv", help=text)
    verb.add_argument(
        "--profiles",
        type=shared.folder,
        metavar="DIR",
        help="folder of profiles, KIND.nc for each kind: adds missing execution times, checks the "
        "others",
    )
    verb.add_argument(
        "--kinds",
        type=kinds,
        default={},
        metavar="NAME=PROFILE,…",
        help="keep measured times: each is divided by the profile's time of its kind "
        "(NAME=NAME), or by that of another profile",
    )
    text = "family of the written graph; training ('fit') leaves out whole families"
    verb.add_argument("--family", type=family, metavar="NAME", help=text)
    shared.add_out(verb, "OUT.nc|.json|.dot", "write the graph here")
    shared.add_seed(verb)
    shared.add_force(verb)

    verb = shared.new_verb(
        parts, "simulate", run_simulate, "simulate a graph in contexts of a device"
    )
    add_graph_in_contexts(verb)
    text = "folder of profiles or phase tables of all contexts, KIND.nc for each kind of task"
    verb.add_argument("--profiles", type=shared.folder, required=True, metavar="DIR", help=text)
    shared.add_out(
        verb, "RUNS.nc|RUNS.csv", "file of the runs: time, energy and heat", required=True
    )
    verb.add_argument(
        "--order",
        choices=("arrival", "heft"),
        default="arrival",
        help="order in which ready tasks start: as they become ready, or by their longest "
        "path to the end "
        "(%(default)s)",
    )
    text = "runs of each context (%(default)s)"
    verb.add_argument("--runs", type=shared.count, default=1, metavar="N", help=text)
    verb.add_argument("--no-noise", action="store_true", help="no run-to-run noise")
    shared.add_seed(verb)
    shared.add_force(verb)

    for name in PARTS:
        import_module(f"msbgen.cli.{name}").add(parts)


def add_graph_in_contexts(verb: argparse.ArgumentParser) -> None:
    """A graph, its device, the contexts of that, and the temperature at the start."""
    verb.add_argument("graph", type=Path, metavar=_GRAPH)
    text = "a shipped data sheet (tx2, orin-nx, rubik-pi) or a file"
    verb.add_argument("--device", required=True, metavar="NAME|SHEET.toml", help=text)
    shared.add_contexts(verb, "the device")
    text = "temperature at the start in °C (ambient)"
    verb.add_argument("--temperature", type=shared.degrees, metavar="T", help=text)


def add_predicted(verb: argparse.ArgumentParser) -> None:
    """A model, and the graph and contexts that it predicts."""
    verb.add_argument("model", type=Path, metavar="MODEL.nc", help="file of 'msbgen graph fit'")
    add_graph_in_contexts(verb)


def family(text: str) -> str:
    """Name of a family."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of a family")
    return text.strip()


def run_check(options: argparse.Namespace) -> None:
    """Check and describe a graph; write it with -o."""
    shared.check_files(
        [graph_file(options.graph), options.tasks], [options.out], force=options.force
    )
    if options.kinds and not options.profiles:
        raise UsageError("--kinds needs --profiles DIR.")
    if options.family and not options.out:
        raise UsageError("--family needs -o: the family is written with the graph.")

    from msbgen.core.errors import ProfileError
    from msbgen.systems.graphs import dataset as schema
    from msbgen.systems.graphs import writers

    if options.out and options.out.suffix.lower() not in writers.ENDINGS:
        known = ", ".join(writers.ENDINGS)
        raise UsageError(f"{options.out}: is not a graph file; end the name with one of {known}.")
    graph = read(options.graph, tasks=options.tasks, seed=options.seed)
    if options.family:
        graph = graph.assign_attrs(family=options.family)
    if options.profiles:
        if not options.kinds:
            warn_about_relative_times(graph)
        found = schema.kinds_of(graph)
        for name in options.kinds:
            if name not in found:
                raise UsageError(f"--kinds names '{name}', but {options.graph} has no such task.")
        names = [options.kinds.get(name, name) for name in found]
        profiles = read_profiles(options.profiles, names, options.graph.name, tables=False)
        with shared.errors_from(str(options.graph.name)):
            if options.kinds:
                graph = schema.with_profiles(graph, profiles, options.kinds)
            else:
                timed = schema.with_times(graph, profiles)
                limits = timed["bcet"].values, timed["wcet"].values
                problems = list(schema.other_time_unit(graph, *limits))
                if problems:
                    raise ProfileError(*problems)
                graph = timed
    if options.out:
        writers.write(graph, options.out, overwrite=options.force)
    shared.show(f"{options.out or options.graph}:\n{schema.describe(graph)}")


def run_simulate(options: argparse.Namespace) -> None:
    """Simulate a graph and write its runs."""
    check_inputs(options)

    from msbgen.systems.graphs import simulator
    from msbgen.systems.graphs.dataset import kinds_of
    from msbgen.systems.graphs.runs import check_ending
    from msbgen.systems.graphs.runs import write_runs as write_graph_runs

    check_ending(options.out)
    device = read_device(options.device)
    graph, table = read_graph_in_contexts(options, device)
    names = kinds_of(graph)
    profiles = read_profiles(options.profiles, names, options.graph.name)
    with shared.errors_in(options.profiles):
        simulated_device = simulator.Simulator(device, profiles)
    with Progress("simulating") as step:
        runs = simulator.label_runs(
            graph, simulated_device, table, order=options.order, runs=options.runs,
            temperature=options.temperature, noise=not options.no_noise, rng=options.seed,
            progress=step,
        )  # fmt: skip
    write_graph_runs(runs, options.out, overwrite=options.force)
    shared.show(f"{options.out}: {summary(runs, device)}")
    stretched = int(runs["stretched"].values.sum())
    if stretched:
        shared.print_message(
            f"warning: {stretched} of {runs.sizes['run']} runs use clocks beyond those of the "
            f"profiles, whose times were scaled (column 'stretched')."
        )


def summary(runs: xr.Dataset, device: Device) -> str:
    """Summary: the fastest context, the one with the least energy, and temperatures."""
    lines = [f"{runs.sizes['run']} runs on {device.name}"]
    for text, name in (("fastest", "makespan"), ("least energy", "energy")):
        row = runs.isel(run=int(runs[name].values.argmin()))
        context = device.describe([float(row[column]) for column in device.columns])
        seconds, joules = float(row["makespan"]), float(row["energy"])
        lines.append(f"  {text:<12} {seconds:.4g} s, {joules:.4g} J with {context}")
    hot = int((runs["throttled"].values > 0).sum())
    peak = float(runs["peak_temperature"].max())
    lines.append(f"  temperature  {peak:.1f} °C at most, clocks stepped down in {hot} runs")
    return "\n".join(lines)


# --------------------------------------------------------------------------- shared by the parts


def graph_file(path: Path) -> Path | None:
    """Path of a graph file; None for FAMILY:SIZE."""
    names_family = ":" in path.name and not path.suffix and not path.exists()
    return None if names_family else path


def read(path: Path, *, tasks: Path | None = None, seed: int = 0) -> xr.Dataset:
    """Read a graph from a file, or generate ``FAMILY:SIZE``."""
    from msbgen.systems.graphs import readers
    from msbgen.systems.graphs.families import catalogue as families

    if graph_file(path):
        graph = readers.read(path, tasks=tasks)
        for doubt in graph.encoding.get("doubts", ()):
            shared.print_message(f"warning: {doubt}")
        return graph
    family, _, size = str(path).partition(":")
    if tasks is not None:
        raise UsageError("--tasks needs a list of parents; drop it.")
    if size.isdigit() and len(size) > _DIGITS:
        raise UsageError(f"'{path}' is too large; a size of up to {_DIGITS} digits is wanted.")
    if not size.isascii() or not size.isdigit():
        raise UsageError(f"'{path}' is no family and size, such as cholesky:6, and no file.")
    return families.family_graph(family, int(size), rng=seed)


def check_inputs(options: argparse.Namespace, model: Path | None = None) -> None:
    """Check the files of the flags of :func:`add_graph_in_contexts`, and the output."""
    contexts = shared.file_of_contexts(options.contexts)
    inputs = [model, graph_file(options.graph), sheet_file(options.device), contexts]
    shared.check_files(inputs, [options.out], force=options.force)


def read_graph_in_contexts(
    options: argparse.Namespace, device: Device
) -> tuple[xr.Dataset, NDArray[np.float64]]:
    """Return the graph, and its contexts (n, n_resources)."""
    graph = read(options.graph, seed=options.seed)
    warn_about_relative_times(graph)
    return graph, _device_contexts(device, options.contexts)


def warn_about_relative_times(graph: xr.Dataset) -> None:
    """Warn where only ratios of given times within a kind are used, not the times themselves."""
    from msbgen.systems.graphs.dataset import graph_name, times_are_shares

    if times_are_shares(graph):
        shared.print_message(
            f"warning: {graph_name(graph)}: only ratios of times within a kind are used, because "
            f"the kinds' profiles set the scale; to keep the times, use 'msbgen graph check "
            f"--profiles DIR --kinds NAME=NAME'."
        )


def sheet_file(device: str) -> Path | None:
    """Path of a data sheet; None for a shipped one."""
    return Path(device) if device.endswith(".toml") or "/" in device else None


def read_device(device: str) -> Device:
    """Read a shipped data sheet by name, or a file."""
    from msbgen.systems.graphs import devices

    path = sheet_file(device)
    return devices.read_device(path) if path else devices.shipped_device(device)


def _device_contexts(device: Device, source: str) -> NDArray[np.float64]:
    """Contexts of a source; contexts without a core are dropped, but in a file they are errors."""
    from msbgen.data import tables
    from msbgen.systems.graphs import devices

    table = shared.contexts(source, device.levels)
    if shared.is_file(source):
        with tables.rows_of(source):
            return devices.check_contexts(device, table)
    cores = table[:, : 2 * len(device.clusters) : 2]  # cores and clock of each cluster come first
    return devices.check_contexts(device, table[cores.any(axis=1)])


def read_profiles(
    folder: Path, names: Sequence[str], graph: str, *, tables: bool = True
) -> dict[str, xr.Dataset]:
    """Read profiles or phase tables of the kinds of a graph, KIND.nc in a folder."""
    from msbgen.core.errors import ProfileError
    from msbgen.data import check, store
    from msbgen.systems.phases import phases

    for name in names:
        if Path(name).name != name:
            raise ProfileError(f"{graph}: kind '{name}' is a path; rename the kind.")
    paths = {n: shared.profile_file(folder, n, graph) for n in dict.fromkeys(names)}
    found = {}
    with shared.errors_in(folder):
        for name, path in paths.items():
            dataset = store.load_netcdf(path)
            if tables and str(dataset.attrs.get("schema")) == phases.PHASES_SCHEMA:
                found[name] = phases.validate_phases(dataset, source=path.name)
            else:
                found[name] = check.validate_profiles(dataset, source=path.name)
    return found
