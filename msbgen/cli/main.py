"""The ``msbgen`` command.

Results go to stdout, messages and progress to stderr, progress only on a terminal.  Everything
heavy is imported inside the verbs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

DONE, INTERNAL, USAGE, BAD_DATA, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 3, 4, 130

_EPILOG = (
    "exit codes: 0 done, 1 internal error, 2 usage, 3 bad data, 4 not converged, 130 interrupted"
)


# What the demo measures on the virtual platform: contexts, and runs of each; others, drawn at
# random, that it holds back to score against, and runs of these.
_DEMO = ("grid:5x5x5", 10, 100, 30)


class UsageError(Exception):
    """The command line asks for something that cannot be done; the message says what to change."""


def command() -> int:
    """`main` as a process of its own.

    The libraries make a million objects that live until the end: the collector need not visit them
    again and again while they come, nor once more at the end; half a second of each start.
    """
    gc.set_threshold(50_000)
    try:
        return main()
    finally:
        gc.freeze()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    # Work is spread over the cores by threads of our own; a second team inside the linear
    # algebra would fight with them, badly so where the machine is busy.
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    logging.basicConfig(format="msbgen: %(levelname)s: %(message)s", level=logging.WARNING)
    logging.addLevelName(logging.WARNING, "warning")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        options = _parser().parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        _say("interrupted; no file was left half written.")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read the results has enough; keep the interpreter from flushing once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        return _explain(error)
    return DONE


def _terminate(number: int, frame: object) -> None:
    """Leave as after any failure, so that partial files are removed."""
    raise SystemExit(128 + number)


def _say(message: object) -> None:
    if sys.stderr is not None:
        print(f"msbgen: {message}", file=sys.stderr)


def _explain(error: Exception) -> int:
    from msbgen.bridge.solve import NotConvergedError
    from msbgen.errors import ProfileError

    if isinstance(error, ProfileError):
        for problem in error.problems:
            _say(problem)
        return BAD_DATA
    if isinstance(error, FileExistsError):
        _say(f"{error} (--force overwrites)")
        return USAGE
    if isinstance(error, (UsageError, OSError)):
        _say(error)
        return USAGE
    if isinstance(error, NotConvergedError):
        _say(f"{error.bridge.status}: raise --epsilon, or use the default preset.")
        return NOT_CONVERGED
    traceback.print_exception(error)
    _say("internal error; please report what is above.")
    return INTERNAL


# --------------------------------------------------------------------------- the command line


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="msbgen",
        description="Profiles of a task in every resource context from measurements in a few.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    demo = _verb(
        verbs,
        "demo",
        run_demo,
        "measure a program on the virtual platform, generate all its contexts, score",
    )
    demo.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("msbgen-demo"),
        metavar="DIR",
        help="folder for generated.nc, scores.json and profiles.png (%(default)s)",
    )
    demo.add_argument("--task", default="zstd", help="one of the programs that ship (%(default)s)")
    _add_force(demo)

    check = _verb(verbs, "check", run_check, "say what a profile file holds, and every problem")
    check.add_argument("file", type=Path, metavar="FILE")

    generate = _verb(verbs, "generate", run_generate, "generate the profiles of any contexts")
    generate.add_argument("measured", type=Path, metavar="MEASURED.nc")
    generate.add_argument("-o", "--out", type=Path, required=True, metavar="OUT.nc")
    generate.add_argument(
        "--contexts",
        required=True,
        metavar="all|FILE",
        help="all contexts of the platform, a CSV file with the resources as "
        "header, or the contexts of a profile file (.nc)",
    )
    generate.add_argument(
        "--kind", choices=("max_likelihood", "mean", "sample"), default="max_likelihood"
    )
    generate.add_argument(
        "--samples",
        type=_positive(int),
        default=10,
        metavar="N",
        help="random profiles a context, for --kind sample (%(default)s)",
    )
    generate.add_argument(
        "--interval",
        type=_positive(float),
        metavar="S",
        help="output interval in seconds (as measured)",
    )
    generate.add_argument("--preset", choices=("default", "paper"), default="default")
    generate.add_argument(
        "--epsilon",
        type=_positive(float),
        metavar="E",
        help="weight of the entropy, squared units of the scaled coordinates",
    )
    generate.add_argument(
        "--model", type=Path, metavar="MODEL.nc", help="also save the fitted model here"
    )
    _add_seed(generate)
    _add_force(generate)

    bound = _verb(verbs, "bound", run_bound, "bound the execution time in any contexts")
    bound.add_argument("measured", type=Path, metavar="MEASURED.nc")
    bound.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="OUT.nc|CSV",
        help="write the bounds here; without it they go to stdout as CSV",
    )
    bound.add_argument("--contexts", required=True, metavar="all|FILE", help="as for generate")
    bound.add_argument(
        "--miscoverage",
        type=_rate,
        default=0.05,
        metavar="A",
        help="share of runs in a new context that may take longer (%(default)s)",
    )
    bound.add_argument(
        "--model", type=Path, metavar="MODEL.nc", help="also save the calibrated model here"
    )
    _add_force(bound)

    evaluate = _verb(verbs, "evaluate", run_evaluate, "score methods on contexts not seen")
    evaluate.add_argument("measured", type=Path, metavar="MEASURED.nc")
    unseen = evaluate.add_mutually_exclusive_group(required=True)
    unseen.add_argument(
        "--truth", type=Path, metavar="TRUTH.nc", help="measured profiles of other contexts"
    )
    unseen.add_argument(
        "--leave-out",
        type=_positive(int),
        metavar="K",
        help="leave K of the measured contexts out at a time",
    )
    evaluate.add_argument(
        "--methods",
        metavar="NAME,...",
        help="methods to score: default/KIND, paper/KIND, or a baseline (all of them)",
    )
    evaluate.add_argument(
        "--generated",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.nc",
        help="score this generated file too (with --truth; may be repeated)",
    )
    evaluate.add_argument(
        "--fastdtw", action="store_true", help="report the paper's approximate DTW too (slow)"
    )
    evaluate.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for scores.nc (every context) and scores.json (means)",
    )
    _add_seed(evaluate)
    _add_force(evaluate)
    _add_plan(verbs)
    _add_platform(verbs)
    return parser


class _Version(argparse.Action):
    """Look the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"msbgen {version('msbgen')}")
        parser.exit()


def _add_plan(verbs: Any) -> None:
    plan = _verb(verbs, "plan", run_plan, "say which contexts to measure next, and how often")
    plan.add_argument(
        "measured",
        type=Path,
        nargs="?",
        metavar="MEASURED.nc",
        help="what was measured so far (nothing)",
    )
    plan.add_argument(
        "--budget", required=True, metavar="120s|40", help="measuring time (s, min, h), or contexts"
    )
    plan.add_argument("-o", "--out", type=Path, required=True, metavar="PLAN.csv")
    plan.add_argument(
        "--platform",
        metavar="LEVELS",
        help="levels as cache_ways=2:20,frequency=1.2:2.3:0.1,mode=1/2/4, or 'virtual' for the "
        "virtual platform (the levels in MEASURED.nc)",
    )
    plan.add_argument(
        "--run-seconds",
        type=_positive(float),
        default=0.0,
        metavar="S",
        help="with nothing measured: how long a run takes at the highest levels, about",
    )
    plan.add_argument(
        "--overhead",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="seconds to prepare a context, whatever its runs (0)",
    )
    plan.add_argument(
        "--runs",
        type=_positive(int),
        default=1,
        metavar="R",
        help="least runs a context (%(default)s)",
    )
    _add_force(plan)


def _add_platform(verbs: Any) -> None:
    text = "real programs on a virtual platform, for users without special hardware"
    platform = verbs.add_parser("platform", help=text, description=text.capitalize() + ".")
    parts = platform.add_subparsers(metavar="VERB", required=True)

    replay = _verb(parts, "replay", run_replay, "replay a trace in any contexts")
    replay.add_argument("trace", type=Path, metavar="TRACE.nc")
    replay.add_argument("-o", "--out", type=Path, required=True, metavar="OUT.nc")
    replay.add_argument(
        "--contexts",
        required=True,
        metavar="all|grid:AxBxC|CSV",
        help="all contexts, a grid of so many ways, bandwidths and clocks, or a CSV file with "
        "columns cache_ways, bandwidth, frequency",
    )
    replay.add_argument(
        "--runs",
        type=_positive(int),
        metavar="R",
        help="runs a context (what the CSV's column 'runs' says, else 10)",
    )
    replay.add_argument(
        "--interval",
        type=_positive(float),
        default=0.01,
        metavar="S",
        help="sampling interval in seconds (%(default)s)",
    )
    _add_seed(replay)
    _add_force(replay)

    record = _verb(parts, "record", run_record, "record a program's trace under qemu-user")
    record.add_argument("-o", "--out", type=Path, required=True, metavar="TRACE.nc")
    record.add_argument(
        "--stdin", type=Path, metavar="FILE", help="what the program reads (nothing)"
    )
    record.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="program and arguments"
    )
    _add_seed(record)
    _add_force(record)


def _verb(
    verbs: Any, name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=text, description=text.capitalize() + ".", epilog=_EPILOG)
    verb.set_defaults(run=run)
    return verb


def _add_force(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--force", action="store_true", help="overwrite existing files")


def _add_seed(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="seed of everything random (%(default)s)"
    )


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number ≥ 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds ≥ 0")
    return value


def _rate(text: str) -> float:
    value = _positive(float)(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return value


def _positive(kind: type) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
        return value

    return parse


# --------------------------------------------------------------------------- verbs


def run_demo(options: argparse.Namespace) -> None:
    """``msbgen demo``: the main job on data that ships."""
    traces = _shipped_profiles() / "traces"
    programs = sorted(path.stem for path in traces.glob("*.nc"))
    if options.task not in programs:
        raise UsageError(f"no task '{options.task}' ships; there are: {', '.join(programs)}.")
    names = ("generated.nc", "scores.json", "profiles.png")
    _check_folder([], options.out, names, options.force)

    from typing import get_args

    from msbgen.data import schema, store
    from msbgen.evaluate import baselines
    from msbgen.evaluate import scores as evaluate
    from msbgen.generate import model as generate
    from msbgen.report import picture, table

    with _Progress("measuring") as step:
        train, truth = _measured_and_held_back(traces / f"{options.task}.nc", step)
    unseen = schema.context_table(truth)
    print(
        f"{options.task} on the virtual platform: {train.sizes['context']} contexts measured, "
        f"{len(unseen)} held back",
        flush=True,
    )
    with _Progress("fitting") as step:
        model = generate.fit_profiles(train, progress=step)
    every = schema.all_contexts(train)
    with _Progress("generating") as step:
        blocks = model.stream(every, kind="mean", progress=step)
        options.out.mkdir(parents=True, exist_ok=True)
        store.write_blocks(blocks, options.out / names[0], overwrite=options.force)
    print(f"generated the mean profiles of all {len(every)} contexts of the platform\n", flush=True)

    def fitted(kind: generate.Kind) -> evaluate.Method:
        return lambda _train, contexts: model.generate(contexts, kind=kind, rng=0)

    methods = evaluate.methods()
    methods |= {f"default/{kind}": fitted(kind) for kind in get_args(generate.Kind)}
    with _Progress("scoring methods") as step:
        scores = evaluate.score_methods(train, truth, methods, progress=step)
    summary = evaluate.summarise(scores)
    print(table.score_table(summary))
    _write_json(summary, options.out / names[1], options.force)
    try:
        picture.plot_profiles(
            {
                "mean": model.generate(unseen, kind="mean"),
                "maximum likelihood": model.generate(unseen),
                "bracketing baseline": baselines.bracketing(train, unseen),
            },
            truth,
            picture.two_far_contexts(train, truth),
            options.out / names[2],
            overwrite=options.force,
        )
    except ModuleNotFoundError as error:
        _say(f"no picture: {error}; install msbgen[plot].")
        names = names[:2]
    print("written: " + ", ".join(str(options.out / n) for n in names))


def _measured_and_held_back(
    trace: Path, progress: Callable[[int, int], None]
) -> tuple[xr.Dataset, xr.Dataset]:
    """A program replayed in a grid of contexts, and in others drawn at random."""
    import numpy as np

    from msbgen import platform

    grid, runs, n_held_back, truth_runs = _DEMO
    measured, every = platform.platform_contexts(grid), platform.platform_contexts("all")
    others = every[~(every[:, None] == measured).all(axis=2).any(axis=1)]
    held_back = np.random.default_rng(0).choice(others, n_held_back, replace=False)
    number = np.repeat([runs, truth_runs], [len(measured), n_held_back])
    both = platform.replay(
        platform.read_trace(trace), np.concatenate([measured, held_back]), number, progress=progress
    )
    train = both.isel(context=slice(len(measured)), run=slice(runs))
    return train, both.isel(context=slice(len(measured), None))


def run_check(options: argparse.Namespace) -> None:
    """``msbgen check``: what a profile file holds, and every problem with it."""
    from msbgen.data import check, schema, store
    from msbgen.errors import ProfileError

    dataset = store.load_netcdf(options.file)
    findings = check.inspect_profiles(dataset, source=options.file.name)
    if not findings.errors:
        print(schema.describe_profiles(dataset))
    for sentence in findings.warnings:
        print(f"warning: {sentence}")
    if findings.errors:
        raise ProfileError(*findings.errors)
    print("no problem found" if not findings.warnings else "usable, with warnings")


def run_generate(options: argparse.Namespace) -> None:
    """``msbgen generate``: the profiles of any contexts."""
    outputs = [path for path in (options.out, options.model) if path]
    _check_outputs([options.measured, *_file(options.contexts)], outputs, options.force)

    import dataclasses

    import numpy as np

    from msbgen.data import store
    from msbgen.errors import ProfileError
    from msbgen.generate import model as generate

    measured = store.read_profiles(options.measured)
    contexts = _read_contexts(options.contexts, measured)
    _check_size(options, len(contexts), measured)
    settings = generate.PRESETS[options.preset]
    if options.epsilon:
        settings = dataclasses.replace(settings, epsilon=options.epsilon)
    fit_rng, sample_rng = np.random.default_rng(options.seed).spawn(2)
    with _Progress("fitting") as step:
        model = generate.fit_profiles(measured, settings, rng=fit_rng, progress=step)
    with _Progress("generating") as step:
        try:
            blocks = model.stream(
                contexts,
                kind=options.kind,
                times=options.interval,
                n_samples=options.samples,
                rng=sample_rng,
                progress=step,
            )
        except ValueError as error:
            raise ProfileError(f"{options.contexts}: {error}") from None
        beyond = 0

        def labelled() -> Iterator[xr.Dataset]:
            nonlocal beyond
            for block in blocks:
                beyond += int(block["extrapolated"].sum())
                yield block.assign_attrs(preset=options.preset, seed=options.seed)

        store.write_blocks(labelled(), options.out, overwrite=options.force)
    if options.model:
        model.save(options.model, overwrite=options.force)
    print(f"{options.out}: {len(contexts)} contexts, {beyond} of them extrapolated")


def run_bound(options: argparse.Namespace) -> None:
    """``msbgen bound``: execution times that new runs seldom exceed."""
    if options.out and options.out.suffix not in (".nc", ".csv"):
        raise UsageError(f"{options.out}: name a file that ends in .nc or .csv.")
    outputs = [path for path in (options.out, options.model) if path]
    _check_outputs([options.measured, *_file(options.contexts)], outputs, options.force)

    import csv

    from msbgen import conformal
    from msbgen.bounds import model as calibrate
    from msbgen.data import store, tables
    from msbgen.errors import ProfileError
    from msbgen.generate import model as generate

    measured = store.read_profiles(options.measured)
    contexts = _read_contexts(options.contexts, measured)
    runs = int(measured["duration"].notnull().sum())
    try:
        conformal.check_rate(options.miscoverage, measured.sizes["context"], runs)
    except ValueError as error:
        raise ProfileError(f"{options.measured.name}: {error}") from None
    with _Progress("fitting") as step:
        model = generate.fit_profiles(measured, progress=step)
    try:
        model.checked(contexts)
    except ValueError as error:
        raise ProfileError(f"{options.contexts}: {error}") from None
    with _Progress("calibrating") as step:
        try:
            calibrated = calibrate.calibrate_model(model, measured, progress=step)
        except ValueError as error:
            raise ProfileError(f"{options.measured.name}: {error}") from None
    bounds = calibrated.bounds(contexts, options.miscoverage)
    if options.model:
        calibrated.save(options.model, overwrite=options.force)
    if not options.out:
        csv.writer(sys.stdout, lineterminator="\n").writerows(tables.bound_rows(bounds))
        return
    if options.out.suffix == ".nc":
        store.save_netcdf(bounds, options.out, overwrite=options.force)
    else:
        tables.write_table(tables.bound_rows(bounds), options.out, overwrite=options.force)
    print(
        f"{options.out}: {len(contexts)} contexts, {int(bounds['extrapolated'].sum())} of them "
        f"extrapolated; a new run exceeds its bound with probability {options.miscoverage:g} "
        f"(shape of the margin: {bounds.attrs['margin_shape']})"
    )


def run_evaluate(options: argparse.Namespace) -> None:
    """``msbgen evaluate``: score methods on contexts they have not seen."""
    from msbgen.evaluate import scores as evaluate

    names = evaluate.METHODS
    if options.methods:
        names = tuple(name.strip() for name in options.methods.split(","))
    if options.generated and not options.truth:
        raise UsageError("--generated is scored against --truth; name a file of measurements.")
    unknown = [name for name in names if name not in evaluate.METHODS]
    if unknown:
        raise UsageError(f"no method '{unknown[0]}'; there are: {', '.join(evaluate.METHODS)}.")
    if options.out:
        inputs = [path for path in (options.measured, options.truth, *options.generated) if path]
        _check_folder(inputs, options.out, ("scores.nc", "scores.json"), options.force)

    import numpy as np

    from msbgen.data import store
    from msbgen.report import table

    measured = store.read_profiles(options.measured)
    warping = ("exact", "fastdtw") if options.fastdtw else ("exact",)
    with _Progress("scoring methods") as step:
        if options.truth:
            truth = store.read_profiles(options.truth)
            every = evaluate.methods()
            chosen = {name: every[name] for name in names}
            chosen |= {path.name: _generated(path) for path in options.generated}
            scores = evaluate.score_methods(measured, truth, chosen, warping=warping, progress=step)
        else:
            if options.leave_out >= measured.sizes["context"]:
                raise UsageError(
                    f"--leave-out {options.leave_out} leaves none of the "
                    f"{measured.sizes['context']} contexts to learn from."
                )
            rng = np.random.default_rng(options.seed)
            scores = evaluate.leave_contexts_out(
                measured, options.leave_out, names, rng=rng, warping=warping, progress=step
            )
    summary = evaluate.summarise(scores)
    print(table.score_table(summary))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        store.save_netcdf(scores, options.out / "scores.nc", overwrite=options.force)
        _write_json(summary, options.out / "scores.json", options.force)


def run_plan(options: argparse.Namespace) -> None:
    """``msbgen plan``: the contexts to measure next."""
    if not options.measured and not options.platform:
        raise UsageError("nothing measured and no --platform: say which levels there are.")
    inputs = [options.measured] if options.measured else []
    _check_outputs(inputs, [options.out], options.force)

    from msbgen.data import store
    from msbgen.errors import ProfileError
    from msbgen.plan import plan

    try:
        plan.parse_budget(options.budget)
        levels = _platform_levels(options.platform) if options.platform else {}
        source: Any = levels
        if options.measured:
            from msbgen.generate import model as generate

            measured = store.read_profiles(options.measured)
            with _Progress("fitting") as step:
                source = generate.fit_profiles(measured, progress=step)
        planned = plan.plan_contexts(
            source,
            options.budget,
            levels=levels if options.measured else {},
            overhead=options.overhead,
            run_seconds=options.run_seconds,
            least_runs=options.runs,
            most_runs=max(options.runs, 20),
        )
    except ProfileError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None
    planned.write(options.out, overwrite=options.force)
    print(f"{options.out}: {planned.describe()}")


def run_replay(options: argparse.Namespace) -> None:
    """``msbgen platform replay``: profiles of a recorded program in any contexts."""
    _check_outputs([options.trace, *_file(options.contexts)], [options.out], options.force)

    import numpy as np

    from msbgen import platform
    from msbgen.data import store, tables
    from msbgen.errors import ProfileError

    trace = platform.read_trace(options.trace)
    try:
        contexts = platform.platform_contexts(options.contexts)
        runs = np.full(len(contexts), options.runs or 10)
        if not options.runs and Path(options.contexts).is_file():
            _, runs = tables.read_planned_contexts(options.contexts, platform.RESOURCES, 10)
        with _Progress("replaying") as step:
            profiles = platform.replay(
                trace, contexts, runs, options.interval, options.seed, progress=step
            )
    except ProfileError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None
    store.write_profiles(profiles, options.out, overwrite=options.force)
    each = f"{runs[0]} runs each" if np.all(runs == runs[0]) else f"{runs.sum()} runs"
    print(f"{options.out}: {len(contexts)} contexts, {each}")


def run_record(options: argparse.Namespace) -> None:
    """``msbgen platform record``: the trace of a program."""
    command = options.command[options.command[:1] == ["--"] :]
    if not command:
        raise UsageError("no command to record; put it behind '--'.")
    _check_outputs(_file(options.stdin), [options.out], options.force)

    from msbgen import platform

    try:
        trace = platform.record_trace(
            command,
            options.out,
            stdin=options.stdin or os.devnull,
            rng=options.seed,
            overwrite=options.force,
        )
    except platform.RecordError as error:
        raise UsageError(str(error)) from None
    total = float(trace["instructions"].sum())
    print(f"{options.out}: {total:.4g} instructions in {trace.sizes['interval']} intervals")


# --------------------------------------------------------------------------- files and progress


def _shipped_profiles() -> Path:
    """Folder of the profiles that ship: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent.parent
    places = (package / "profiles", package.parent / "profiles")
    return next((place for place in places if place.is_dir()), places[0])


def _check_outputs(inputs: Sequence[Path], outputs: Sequence[Path], force: bool) -> None:
    """Refuse what could not be written, or would destroy an input, before the work is done."""
    from msbgen.data.files import check_output

    seen = {path.resolve(): path for path in inputs}
    for path in outputs:
        check_output(path, overwrite=force)
        if path.resolve() in seen:
            raise UsageError(f"{path}: is '{seen[path.resolve()]}' too; name another output.")
        seen[path.resolve()] = path


def _file(source: str | Path | None) -> list[Path]:
    """What a job reads beside its main input, where that is a file."""
    return [Path(source)] if source and Path(source).is_file() else []


def _check_folder(inputs: Sequence[Path], folder: Path, names: Sequence[str], force: bool) -> None:
    """`_check_outputs` for files in a folder that is made if need be."""
    from msbgen.data.files import check_folder

    if folder.is_dir():
        _check_outputs(inputs, [folder / name for name in names], force)
    elif folder.exists():
        raise UsageError(f"{folder}: is no folder; name another one.")
    else:
        check_folder(next(up for up in folder.resolve().parents if up.exists()), folder)


def _check_size(options: argparse.Namespace, n_contexts: int, measured: xr.Dataset) -> None:
    """Refuse a result that the disk, or a context of it that the memory, could never hold."""
    import shutil

    from msbgen.data import schema

    samples = options.samples if options.kind == "sample" else 1
    interval = options.interval or schema.sampling_interval(measured)
    n_counters = len(schema.counter_names(measured))
    each = 4.0 * samples * n_counters * float(measured["duration"].mean()) / interval
    # files come out at a third of the size of their counts or larger
    size, free = 0.25 * each * n_contexts, shutil.disk_usage(options.out.resolve().parent).free
    if size > free:
        raise UsageError(
            f"the result would take {size / 1e9:.3g} GB or more, there are {free / 1e9:.3g} GB "
            f"free beside {options.out}: ask for fewer contexts or samples, or a longer interval."
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if each > 0.05 * memory:
        raise UsageError(
            f"one context would take {each / 1e9:.3g} GB, this machine has {memory / 1e9:.3g} GB "
            f"of memory for several: ask for fewer samples, or a longer interval."
        )


def _write_json(content: Any, path: Path, force: bool) -> None:
    from msbgen.data.files import replace_file

    with replace_file(path, overwrite=force) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")


def _platform_levels(text: str) -> dict[str, Any]:
    """Levels by name, of the virtual platform or as the text lists them."""
    from msbgen.plan import plan

    if text != "virtual":
        return plan.parse_levels(text)
    from msbgen import platform

    return platform.PlatformConfig().levels


def _read_contexts(source: str, measured: xr.Dataset) -> np.ndarray:
    """Contexts by name: ``all``, a CSV file, or those of a profile file."""
    from msbgen.data import schema, store, tables

    if source == "all":
        return schema.all_contexts(measured)
    if source.endswith(".nc"):
        return schema.context_table(store.read_profiles(source))
    return tables.read_contexts(source, schema.resource_names(measured))


def _generated(path: Path) -> Callable[[xr.Dataset, Any], xr.Dataset]:
    """What a file holds, as a method: the profiles of the contexts asked for."""
    from msbgen.data import schema, store
    from msbgen.errors import ProfileError

    dataset = store.read_profiles(path)
    rows = {tuple(context): i for i, context in enumerate(schema.context_table(dataset))}

    def look_up(_train: xr.Dataset, contexts: Any) -> xr.Dataset:
        missing = [c for c in map(tuple, contexts) if c not in rows]
        if missing:
            raise ProfileError(
                f"{path.name}: lacks {len(missing)} contexts of the truth, first {missing[0]}; "
                f"generate them with --contexts TRUTH.nc."
            )
        return dataset.isel(context=[rows[c] for c in map(tuple, contexts)])

    return look_up


class _Progress:
    """A line on stderr that counts up, on a terminal only, and is gone when the work is done."""

    def __init__(self, label: str):
        self._label = label
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Callable[[int, int], None]:
        return self._step

    def _step(self, done: int, total: int) -> None:
        if self._shown:
            share = 100 * done // max(total, 1)
            print(f"\r{self._label}: {share:3d} %", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
