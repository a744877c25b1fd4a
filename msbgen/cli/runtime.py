"""``msbgen runtime``: predict runtimes of any workload on any platform."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb's parts and their options."""
    text = "predict unmeasured runtimes: workload × platform × neighbours"
    parts = shared.new_group(verbs, "runtime", text)

    verb = shared.new_verb(parts, "import", run_import, "read runtimes into one file")
    text = "a folder of npz archives, or a table workload,platform,beside,'runtime [s]'"
    verb.add_argument("source", type=Path, metavar="FOLDER|RUNS.csv", help=text)
    shared.add_out(verb, "RUNS.nc", "runtimes to write", required=True)
    shared.add_force(verb)

    verb = shared.new_verb(parts, "fit", run_fit, "fit a predictor and calibrate its bounds")
    verb.add_argument("runs", type=Path, metavar="RUNS.nc")
    shared.add_out(verb, "MODEL.nc", "model to write", required=True)
    _add_fit_options(verb)
    shared.add_force(verb)

    verb = shared.new_verb(parts, "predict", run_predict, "predict runtimes")
    _add_wanted(verb)

    verb = shared.new_verb(parts, "bound", run_bound, "bound runtimes")
    _add_wanted(verb)
    shared.add_miscoverage(verb, "probability that a new run takes longer", 0.05)

    text = "score on held-out cells: all runs of a workload on a platform"
    verb = shared.new_verb(parts, "evaluate", run_evaluate, text)
    verb.add_argument("runs", type=Path, metavar="RUNS.nc")
    text = "share of the cells for training (%(default)s)"
    verb.add_argument("--train", type=shared.percentage, default=0.5, metavar="F", help=text)
    verb.add_argument(
        "--replicates", type=shared.count, default=5, metavar="R", help="repetitions (%(default)s)"
    )
    shared.add_table_out(verb, "SCORES.csv", "a row for each replicate and number of neighbours")
    _add_fit_options(verb)
    shared.add_force(verb)


def _add_fit_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--preset", choices=("default", "paper"), default="default")
    shared.add_seed(verb)


def _add_wanted(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, metavar="MODEL.nc")
    text = "columns workload, platform, and beside: names joined by '|'"
    verb.add_argument("--wanted", type=Path, required=True, metavar="WANTED.csv", help=text)
    shared.add_table_out(verb, "OUT.csv", "the predictions")
    shared.add_force(verb)


def run_import(options: argparse.Namespace) -> None:
    """Read runtimes and write them as one dataset."""
    inputs = [] if options.source.is_dir() else [options.source]
    shared.check_files(inputs, [options.out], force=options.force)

    from msbgen.systems.runtimes import dataset as runtimes
    from msbgen.systems.runtimes import readers as runtimes_readers

    if options.source.is_dir():
        dataset, remarks = runtimes_readers.import_archives(options.source)
    else:
        dataset = runtimes_readers.read_table(options.source)
        remarks = dataset.encoding.get("taken", [])
    runtimes.write(dataset, options.out, overwrite=options.force)
    for remark in remarks:
        shared.show(f"{options.source}: {remark}")
    shared.show(f"{options.out}:\n{runtimes.describe(dataset)}")


def run_fit(options: argparse.Namespace) -> None:
    """Fit and calibrate a predictor."""
    shared.check_files([options.runs], [options.out], force=options.force)

    from msbgen.systems.runtimes import dataset as runtimes
    from msbgen.systems.runtimes import fitting

    dataset = runtimes.read(options.runs)
    with Progress("fitting") as step, shared.errors_from(options.runs.name):
        predictor = fitting.fit(dataset, preset=options.preset, rng=options.seed, progress=step)
    predictor.save(options.out, overwrite=options.force)
    sizes = dataset.sizes
    shared.show(f"{options.out}: {sizes['workload']} workloads on {sizes['platform']} platforms")
    for degree, pool in sorted(predictor.pools_.items()):
        beside = f"beside {degree}" if degree else "alone"
        shared.show(f"bounds {beside}: at a miscoverage of {pool.least_rate:g} or more")
    if not predictor.pools_:
        shared.show("bounds: none, as every cell is needed to connect workloads and platforms")


def run_predict(options: argparse.Namespace) -> None:
    """Predict the listed runtimes."""
    _predict(options, "runtime", lambda predictor, runs: predictor.predict(runs))


def run_bound(options: argparse.Namespace) -> None:
    """Bound the listed runtimes."""

    def bound(predictor: Any, runs: Any) -> Any:
        rate = predictor.supported_rate(runs, options.miscoverage)
        if rate != options.miscoverage:
            shared.print_message(
                f"warning: bounds are for a miscoverage of {rate:g}, not of "
                f"{options.miscoverage:g}, which the measured cells (a workload on a platform) "
                f"are too few for: measure more."
            )
        return predictor.predict_bound(runs, rate)

    _predict(options, "runtime_bound", bound)


def _predict(options: argparse.Namespace, column: str, predict: Any) -> None:
    shared.check_files([options.model, options.wanted], [options.out], force=options.force)

    from msbgen.core.errors import ProfileError
    from msbgen.core.words import number_of
    from msbgen.data.tables import rows_of
    from msbgen.systems.runtimes import readers as runtimes_readers
    from msbgen.systems.runtimes.predictor import RuntimePredictor

    predictor = RuntimePredictor.load(options.model)
    if predictor.names_ is None:
        raise ProfileError(f"{options.model}: was fitted to indices without names; fit it again.")
    workloads, platforms = map(list, predictor.names_)
    runs = runtimes_readers.read_queries(options.wanted, workloads, platforms)
    placed = predictor.answers(runs)
    if not placed.all():
        workload, platform = runs[placed.argmin(), :2]
        raise ProfileError(
            f"{options.wanted.name}: workload '{workloads[workload]}' on platform "
            f"'{platforms[platform]}' cannot be predicted: one of them has no run alone; "
            "remove the row "
            f"or fit with such a run."
        )
    with rows_of(options.wanted):
        predictions, extrapolated = predict(predictor, runs), predictor.extrapolates(runs)

    def rows() -> Iterator[list[Any]]:
        yield ["workload", "platform", "beside", f"{column} [s]", "extrapolated"]
        for (workload, platform, *beside), value, flag in zip(runs, predictions, extrapolated):
            neighbours = "|".join(workloads[k] for k in beside if k >= 0)
            yield [workloads[workload], platforms[platform], neighbours, f"{value:.6g}", int(flag)]

    summary = f"{number_of(len(runs), 'run')}, {int(extrapolated.sum())} of them extrapolated"
    shared.write_or_show_table(rows(), options.out, summary, force=options.force)


def run_evaluate(options: argparse.Namespace) -> None:
    """Score predictions and bounds on held-out runtimes."""
    shared.check_files([options.runs], [options.out], force=options.force)

    from msbgen.systems.runtimes import dataset as runtimes
    from msbgen.systems.runtimes import evaluation

    dataset = runtimes.read(options.runs)
    settings = {key: getattr(options, key) for key in ("train", "replicates", "preset")}
    shared.write_scores(evaluation.evaluate, dataset, options, **settings, rng=options.seed)
