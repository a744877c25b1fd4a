"""``msbgen machines``: times on every machine from one run on one of them; queues of jobs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, Verbs

if TYPE_CHECKING:
    import xarray as xr

# Parts that stand in files of their own beside this one, each with `add` and `run`.
PARTS: tuple[str, ...] = ("machines_queue",)


# Folds of the calibration, where there are as many programs.
_FOLDS = 5
# Programs of runs left out that a message names.
_NAMED = 5


def add(verbs: Verbs) -> None:
    """Add the verb's parts and their options."""
    text = "predict which machine runs a program best, from one run on one of them"
    parts = shared.new_group(verbs, "machines", text)

    verb = shared.new_verb(parts, "import", run_import, "read runs on several machines")
    text = "a table program,machine,'runtime [s]',… or the runtimes of many platforms"
    verb.add_argument("source", type=Path, metavar="RUNS.csv|RUNTIMES.nc", help=text)
    text = "devices to take from runtimes of platforms (all of them)"
    verb.add_argument("--machines", type=machines, metavar="NAME=DEVICE,…", help=text)
    shared.add_out(verb, "RUNS.nc", "runs to write", required=True)
    shared.add_force(verb)

    verb = shared.new_verb(parts, "fit", run_fit, "fit a predictor and calibrate its intervals")
    verb.add_argument("runs", type=Path, metavar="RUNS.nc|RUNS.csv")
    shared.add_out(verb, "MODEL.nc", "model to write", required=True)
    text = "folds of whole programs for the calibration of intervals (5, or one for each program)"
    verb.add_argument("--folds", type=shared.folds, metavar="K", help=text)
    shared.add_seed(verb)
    shared.add_force(verb)

    verb = shared.new_verb(parts, "predict", run_predict, "predict times on every machine")
    verb.add_argument("model", type=Path, metavar="MODEL.nc")
    verb.add_argument("--runs", type=Path, required=True, metavar="NEW.csv|NEW.nc")
    text = "the machine that the runs were measured on, or several"
    verb.add_argument(
        "--source", type=shared.names, required=True, metavar="NAME[,NAME]", help=text
    )
    text = "add intervals that miss the time of a new run with this probability"
    shared.add_miscoverage(verb, text)
    shared.add_table_out(verb, "OUT.csv", "the predictions")
    shared.add_force(verb)

    verb = shared.new_verb(parts, "evaluate", run_evaluate, "score on held-out runs")
    verb.add_argument("runs", type=Path, metavar="RUNS.nc|RUNS.csv")
    verb.add_argument(
        "--split",
        choices=("programs", "runs", "scales", "rows"),
        default="programs",
        help="unit that is held out as a whole; rows leak: the run on another machine is in "
        "the training set (%(default)s)",
    )
    shared.add_folds(verb, 10, "parts")
    shared.add_table_out(verb, "SCORES.csv", "a row for each method and source")
    shared.add_seed(verb)
    shared.add_force(verb)

    for name in PARTS:
        import_module(f"msbgen.cli.{name}").add(parts)


def machines(text: str) -> dict[str, str]:
    """Devices by machine name; without a machine name, by the name of the device."""
    parts = [part.partition("=") for part in text.split(",")]
    found = {name.strip(): (device or name).strip() for name, _, device in parts}
    if len(found) < len(parts) or not all(name and device for name, device in found.items()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of machines, such as laptop=hc-31,hc-10"
        )
    return found


def run_import(options: argparse.Namespace) -> None:
    """Read runs on several machines and write them as one dataset."""
    shared.check_files([options.source], [options.out], force=options.force)
    if options.machines and options.source.suffix != ".nc":
        raise shared.UsageError("--machines takes devices from runtimes (.nc); drop it for tables.")

    from msbgen.systems.machines import dataset as relative
    from msbgen.systems.machines import readers as relative_readers
    from msbgen.systems.runtimes import dataset as runtimes

    if options.source.suffix == ".nc":
        dataset = runtimes.read(options.source)
        runs = relative_readers.from_runtimes(dataset, options.machines)
    else:
        runs = relative_readers.read_table(options.source)
    relative.write(runs, options.out, overwrite=options.force)
    for sentence in runs.encoding.get("taken", ()):
        shared.show(f"{options.source}: {sentence}")
    shared.show(f"{options.out}:\n{relative.describe(runs)}")


def run_fit(options: argparse.Namespace) -> None:
    """Fit and calibrate a predictor."""
    shared.check_files([options.runs], [options.out], force=options.force)

    from msbgen.core.errors import MeasurementError
    from msbgen.systems.learn import extras
    from msbgen.systems.machines import predictor as relative

    extras.check_libraries()
    runs = _read(options.runs)
    predictor = relative.RelativePredictor(random_state=options.seed)
    programs = len(set(map(str, runs["program"].values)))
    with Progress("fitting") as step, shared.errors_from(options.runs.name):
        predictor.fit(runs)
        intervals = f"intervals from {programs} programs"
        try:
            folds = options.folds or min(_FOLDS, programs)
            predictor.calibrate(runs, folds=folds, progress=step)
        except MeasurementError as problem:  # few runs are enough for predictions
            if options.folds:
                raise
            intervals = f"no intervals: {problem}"
    predictor.save(options.out, overwrite=options.force)
    shared.show(
        f"{options.out}: {runs.sizes['run']} runs on {', '.join(predictor.machines_)}; {intervals}"
    )


def run_predict(options: argparse.Namespace) -> None:
    """Predict the runtimes on every machine."""
    shared.check_files([options.model, options.runs], [options.out], force=options.force)

    from msbgen.core.errors import ProfileError, quoted
    from msbgen.core.words import number_of
    from msbgen.systems.learn import extras
    from msbgen.systems.machines.predictor import RelativePredictor

    predictor = RelativePredictor.load(options.model)
    predictor.check_source(options.source)
    if predictor.boosting_:
        extras.load_library("xgboost")
    if options.miscoverage is not None and not predictor.calibration_:
        raise ProfileError(
            f"{options.model}: has no intervals, as the fit had too few programs; run more of them "
            f"on every two machines and fit again, or drop --miscoverage."
        )
    every = _read(options.runs)
    timed = predictor.timed_on(every, options.source)
    # without any, the predictor names the first
    runs = every.isel(run=timed.nonzero()[0]) if timed.any() else every
    with shared.errors_from(options.runs.name):
        seconds = predictor.predict(runs, options.source)
        unlike = predictor.extrapolates(runs, options.source)
    with shared.errors_from(options.model.name):  # refuses rates that the model does not support
        limits = (
            predictor.predict_interval(runs, options.source, options.miscoverage)
            if options.miscoverage is not None
            else ()
        )

    def rows() -> Iterator[list[Any]]:
        words = ("program", "input", "scale", "configuration")
        more = ["low [s]", "high [s]"] if limits else []
        yield [*words, "machine", "runtime [s]", "relative", *more, "fastest", "extrapolated"]
        first = predictor.machines_.index(options.source[0])
        for r, times in enumerate(seconds):
            for m, machine in enumerate(predictor.machines_):
                yield [
                    *(str(runs[word].values[r]) for word in words),
                    machine,
                    f"{times[m]:.6g}",
                    f"{times[m] / times[first]:.4g}",
                    *(f"{limit[r, m]:.6g}" for limit in limits),
                    int(m == times.argmin()),
                    int(unlike[r]),
                ]

    machines = number_of(len(predictor.machines_), "machine")
    runs_shown = f"{number_of(len(seconds), 'run')}, {unlike.sum()} of them extrapolated"
    shared.write_or_show_table(
        rows(), options.out, f"{runs_shown}, on {machines}", force=options.force
    )
    if not timed.all():
        left = every["program"].values[~timed]
        some = ", ".join(map(quoted, dict.fromkeys(map(str, left[:_NAMED]))))
        raise shared.PartialResultError(
            f"{options.runs.name}: {len(left)} of {len(timed)} runs have no time on "
            f"{','.join(options.source)} and are left out, the first of program {some}; run them "
            f"there or name another source."
        )


def run_evaluate(options: argparse.Namespace) -> None:
    """Score predictions of held-out runs."""
    shared.check_files([options.runs], [options.out], force=options.force)

    from msbgen.systems.learn import extras
    from msbgen.systems.machines import evaluation as relative_evaluation
    from msbgen.systems.machines import predictor as relative

    extras.check_libraries()
    runs = _read(options.runs)
    predictor = relative.RelativePredictor(random_state=options.seed)
    settings = {"split": options.split, "folds": options.folds, "predictor": predictor}
    shared.write_scores(relative_evaluation.evaluate, runs, options, **settings)
    if options.split == "rows":
        shared.print_message(
            "warning: split by rows is leaky: a run's row of another machine is known."
        )


def _read(path: Path) -> xr.Dataset:
    """Read runs from a netCDF file or a table."""
    from msbgen.systems.machines import dataset as relative
    from msbgen.systems.machines import readers as relative_readers

    if path.suffix == ".nc":
        return relative.read(path)
    return relative_readers.read_table(path)
