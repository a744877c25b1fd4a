"""``msbgen kernels``: runtime and power of kernels and networks at any clock."""

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

# Parts that stand in files of their own beside this one, each with `add` and `run`.
PARTS: tuple[str, ...] = ("kernels_measure", "kernels_choose")


def add(verbs: Verbs) -> None:
    """Add the verb's parts and their options."""
    text = "predict runtime and power of kernels over clocks; choose a clock"
    parts = shared.new_group(verbs, "kernels", text)
    for name in PARTS:
        import_module(f"msbgen.cli.{name}").add(parts)

    verb = shared.new_verb(parts, "import", run_import, "read measurements of kernels")
    text = "a table, or the cache or T4 results (.json, .json.gz) of an auto-tuner"
    verb.add_argument("source", type=Path, metavar="TABLE.csv|TUNED.json[.gz]", help=text)
    text = "of a table with other headers: resources = ['clock'], counters, kind, [columns]"
    verb.add_argument("--columns", type=Path, metavar="MAP.toml", help=text)
    shared.add_out(verb, "KERNELS.nc", "measurements to write", required=True)
    shared.add_force(verb)

    verb = shared.new_verb(parts, "fit", run_fit, "fit a predictor and calibrate its intervals")
    verb.add_argument("runs", type=Path, metavar="KERNELS.nc")
    shared.add_out(verb, "MODEL.nc", "model to write", required=True)
    shared.add_folds(verb, 5, "folds of whole kernels for the calibration")
    shared.add_seed(verb)
    shared.add_force(verb)

    text = "predict runtime, power and energy of a network in configurations"
    verb = shared.new_verb(parts, "predict", run_predict, text)
    verb.add_argument("model", type=Path, metavar="MODEL.nc")
    text = "launches of the network: a table kind,count,… or the file of 'kernels measure'"
    verb.add_argument("--workload", type=Path, required=True, metavar="W.csv|W.nc", help=text)
    verb.add_argument("--network", metavar="NAME", help="the network, if the file holds several")
    text = "configurations: all levels measured, a grid of them, or a table (%(default)s)"
    verb.add_argument("--contexts", default="all", metavar="all|grid:AxB|FILE", help=text)
    shared.add_table_out(verb, "OUT.csv", "the predictions")
    shared.add_force(verb)

    text = "score on held-out kernels"
    verb = shared.new_verb(parts, "evaluate", run_evaluate, text)
    verb.add_argument("runs", type=Path, metavar="KERNELS.nc")
    shared.add_folds(verb, 5, "parts")
    shared.add_table_out(verb, "SCORES.csv", "a row for each method, kind and quantity")
    shared.add_seed(verb)
    shared.add_force(verb)


def run_import(options: argparse.Namespace) -> None:
    """Read measurements of kernels and write them as one dataset."""
    tuned = options.source.name.removesuffix(".gz").endswith(".json")
    if tuned and options.columns:
        raise UsageError("--columns is for tables; the results of an auto-tuner have none.")
    shared.check_files([options.source, options.columns], [options.out], force=options.force)

    from msbgen.systems.kernels import dataset as kernels
    from msbgen.systems.kernels import readers as kernels_readers
    from msbgen.systems.kernels import tuning

    if tuned:
        runs = tuning.read_tuning(options.source)
    elif options.columns:
        columns = kernels_readers.read_column_map(options.columns)
        runs = kernels_readers.read_table(options.source, columns)
    else:
        runs = kernels_readers.read_plain_table(options.source)
    kernels.write(runs, options.out, overwrite=options.force)
    for sentence in runs.encoding.get("taken", ()):
        shared.print_message(sentence)
    shared.show(f"{options.out}:\n{kernels.describe(runs)}")


def run_fit(options: argparse.Namespace) -> None:
    """Fit and calibrate a predictor."""
    shared.check_files([options.runs], [options.out], force=options.force)

    from msbgen.systems.kernels import dataset as kernels
    from msbgen.systems.kernels.predictor import kernel_predictor as kernel

    runs = kernels.read(options.runs)
    predictor = kernel.KernelPredictor(random_state=options.seed)
    with Progress("fitting") as step, shared.errors_from(options.runs.name):
        predictor.fit(runs)
        predictor.calibrate(runs, folds=options.folds, progress=step)
    predictor.save(options.out, overwrite=options.force)
    quantities = (
        "runtime and power" if any(k.power for k in predictor.kinds_.values()) else "runtime"
    )
    shared.show(
        f"{options.out}: {quantities} of {', '.join(predictor.kinds_)} over "
        f"{', '.join(predictor.resources_)}"
    )


def run_predict(options: argparse.Namespace) -> None:
    """Predict runtime, power and energy of a workload in configurations."""
    contexts_file = shared.file_of_contexts(options.contexts)
    inputs = [options.model, options.workload, contexts_file]
    shared.check_files(inputs, [options.out], force=options.force)

    from msbgen.systems.kernels import workloads
    from msbgen.systems.kernels.predictor import kernel_predictor as kernel
    from msbgen.systems.kernels.predictor import networks

    predictor = kernel.KernelPredictor.load(options.model)
    workload = workloads.read_workload(options.workload)
    names = workloads.workload_names(workload)
    if options.network is None and len(names) > 1:
        some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise shared.UsageError(f"--network is missing; one of {some} is wanted.")
    name = names[0] if options.network is None else options.network
    table = shared.contexts(options.contexts, predictor.levels_)
    with shared.errors_of_contexts(options.contexts):
        far = predictor.beyond(table)
    with shared.errors_from(options.workload.name):
        launches = workloads.one_workload(workload, name)
        outside = predictor.extrapolates(launches)
        seconds, joules = networks.predict_network(predictor, launches, table)
    count = workloads.counts_of(launches)
    share = count[outside].sum() / count.sum()
    if share:
        shared.print_message(
            f"warning: {share:.1%} of the launches are extrapolated beyond the measured kernels; "
            f"measure similar ones."
        )
    far |= bool(share)

    def rows() -> Iterator[list[Any]]:
        head = [f"{n} [{predictor.units_.get(n, '1')}]" for n in predictor.resources_]
        yield ["kind", *head, "runtime [s]", "power [W]", "energy [J]", "extrapolated"]
        for context, t, e, out in zip(table, seconds, joules, far):
            watts = [f"{e / t:.6g}", f"{e:.6g}"] if e == e else ["", ""]
            yield [name, *(f"{level:.15g}" for level in context), f"{t:.6g}", *watts, int(out)]

    summary = f"{len(table)} configurations"
    shared.write_or_show_table(rows(), options.out, summary, force=options.force)


def run_evaluate(options: argparse.Namespace) -> None:
    """Score predictions of held-out kernels."""
    shared.check_files([options.runs], [options.out], force=options.force)

    from msbgen.systems.kernels import dataset as kernels
    from msbgen.systems.kernels.predictor import evaluation
    from msbgen.systems.kernels.predictor import kernel_predictor as kernel

    runs = kernels.read(options.runs)
    predictor = kernel.KernelPredictor(random_state=options.seed)
    shared.write_scores(
        evaluation.evaluate, runs, options, folds=options.folds, predictor=predictor
    )
