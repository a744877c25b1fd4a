"""``msbgen report``: one page on the accuracy of generated profiles."""

import argparse
import shlex
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    from msbgen.output.batch import BUDGET, MISCOVERAGE

    verb = shared.new_verb(
        verbs, "report", run, "write a page on the accuracy of generated profiles"
    )
    text = "measured profiles, or a saved model (--model), which needs no fit"
    verb.add_argument("measured", type=Path, metavar="MEASURED.nc|MODEL.nc", help=text)
    text = "the page to write; its numbers are written beside it, to REPORT.json"
    shared.add_out(verb, "REPORT.html", text, required=True)
    shared.add_held_out(verb, "(a quarter)")
    shared.add_contexts(verb, "the platform, if the file lists levels (all)", required=False)
    shared.add_miscoverage(verb, "probability that a new run exceeds its bound", MISCOVERAGE)
    verb.add_argument(
        "--budget",
        type=shared.budget,
        default=BUDGET,
        metavar="TIME|N",
        help="budget of the plan: measuring time, such as 120s, 5min or 1h, or a number of "
        "contexts "
        "(%(default)s)",
    )
    shared.add_seed(verb)
    shared.add_keep_all(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Compute the data of a report and write it."""
    generated = shared.generated_files(options)

    from msbgen.output.report import page

    inputs = [options.measured, options.truth, *options.generated]
    source = options.contexts or "all"
    inputs.append(shared.file_of_contexts(source))
    shared.check_files(inputs, page.report_files(options.out), force=options.force)
    page.check_extra()

    from msbgen.data import store
    from msbgen.data.profiles import Profiles
    from msbgen.engine.bounds.model import CalibratedModel
    from msbgen.output.batch import report_data

    measured, model = shared.read_measured(
        options.measured, CalibratedModel.any_of_file, keep_all=options.keep_all
    )
    if model and (options.truth or options.leave_out):
        raise UsageError(
            f"{options.measured} is a fitted model; --truth and --leave-out need the measured "
            f"profiles."
        )
    truth = None
    if options.truth:
        truth = shared.read_runs(options.truth, keep_all=options.keep_all)
    shared.check_leave_out(options, measured)
    wanted = None
    if options.contexts and options.contexts != "all":
        wanted = shared.contexts_like(Profiles.of(measured), options.contexts)
    with Progress("computing the report") as step:
        data = report_data.collect_report_data(
            measured, source=options.measured.name, path=str(options.measured), truth=truth,
            generated={name: store.read_profiles(path) for name, path in generated.items()},
            leave_out=options.leave_out, contexts=wanted, model=model, has_runs=model is None,
            miscoverage=options.miscoverage, budget=options.budget, seed=options.seed,
            command=_command(options), progress=step,
        )  # fmt: skip
    written = page.write_report(options.out, data, overwrite=options.force)
    for sentence in page.verdict(data):
        shared.show(sentence)
    shared.show("written: " + ", ".join(map(str, written)))


def _command(options: argparse.Namespace) -> str:
    """Return the command that makes this report again."""
    from msbgen.output.batch import BUDGET, MISCOVERAGE

    defaults = {"miscoverage": MISCOVERAGE, "budget": BUDGET}
    words = ["msbgen", "report", str(options.measured)]
    for name in ("truth", "generated", "leave_out", "contexts", "miscoverage", "budget"):
        value = getattr(options, name)
        if value and value != defaults.get(name):
            flag = f"--{name.replace('_', '-')}"
            several = value if isinstance(value, list) else [value]
            words += [word for one in several for word in (flag, str(one))]
    words += ["--keep-all"] if options.keep_all else []
    return shlex.join([*words, "--seed", str(options.seed), "-o", str(options.out)])
