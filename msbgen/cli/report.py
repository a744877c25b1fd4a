"""``msbgen report``: one page on the accuracy of generated profiles."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    from msbgen.batch import BUDGET, MISCOVERAGE

    verb = shared.new_verb(
        verbs, "report", run, "write a page on the accuracy of generated profiles"
    )
    verb.add_argument("measured", type=Path, metavar="MEASURED.nc")
    text = "the page to write; its numbers are written beside it, to REPORT.json"
    shared.add_out(verb, "REPORT.html", text, required=True)
    unseen = verb.add_mutually_exclusive_group()
    unseen.add_argument(
        "--truth",
        type=Path,
        metavar="TRUTH.nc",
        help="score against measured runs of other contexts",
    )
    unseen.add_argument(
        "--leave-out",
        type=shared.count,
        metavar="K",
        help="leave out K of the measured contexts at a time (a quarter)",
    )
    verb.add_argument(
        "--generated",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.nc",
        help="score this generated file (with --truth; repeatable)",
    )
    shared.add_contexts(verb, "the platform, if the file lists levels (all)", required=False)
    verb.add_argument(
        "--miscoverage",
        type=shared.rate,
        default=MISCOVERAGE,
        metavar="A",
        help="probability that a new run exceeds its bound (%(default)s)",
    )
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
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Compute the data of a report and write it."""
    if options.generated and not options.truth:
        raise UsageError("--generated needs --truth; name a file of measured profiles.")
    names = [path.name for path in options.generated]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"--generated names '{twice}' twice; use files of different names.")

    from msbgen.report import page

    inputs = [options.measured, options.truth, *options.generated]
    source = options.contexts or "all"
    inputs.append(shared.file_of_contexts(source))
    shared.check_files(inputs, page.report_files(options.out), force=options.force)
    page.check_extra()

    from msbgen.batch import report_data
    from msbgen.data import store

    measured = store.read_profiles(options.measured)
    truth = store.read_profiles(options.truth) if options.truth else None
    if options.leave_out and options.leave_out >= measured.sizes["context"]:
        raise UsageError(
            f"--leave-out {options.leave_out} leaves none of the "
            f"{measured.sizes['context']} contexts for the fit; choose fewer."
        )
    wanted = None
    if options.contexts and options.contexts != "all":
        wanted = shared.contexts(options.contexts, shared.levels_of(measured))
    with Progress("computing the report") as step:
        data = report_data.collect_report_data(
            measured,
            source=options.measured.name,
            path=str(options.measured),
            truth=truth,
            generated={path.name: store.read_profiles(path) for path in options.generated},
            leave_out=options.leave_out,
            contexts=wanted,
            miscoverage=options.miscoverage,
            budget=options.budget,
            seed=options.seed,
            command=_command(options),
            progress=step,
        )
    written = page.write_report(options.out, data, overwrite=options.force)
    for sentence in page.verdict(data):
        shared.show(sentence)
    shared.show("written: " + ", ".join(map(str, written)))


def _command(options: argparse.Namespace) -> str:
    """Return the command that makes this report again."""
    from msbgen.batch import BUDGET, MISCOVERAGE

    words = ["msbgen", "report", str(options.measured)]
    if options.truth:
        words += ["--truth", str(options.truth)]
    for path in options.generated:
        words += ["--generated", str(path)]
    if options.leave_out:
        words += ["--leave-out", str(options.leave_out)]
    if options.contexts:
        words += ["--contexts", str(options.contexts)]
    if options.miscoverage != MISCOVERAGE:
        words += ["--miscoverage", str(options.miscoverage)]
    if options.budget != BUDGET:
        words += ["--budget", str(options.budget)]
    return shlex.join([*words, "--seed", str(options.seed), "-o", str(options.out)])
