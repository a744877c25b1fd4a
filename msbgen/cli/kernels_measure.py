"""``msbgen kernels measure``: kernels and networks timed on this machine."""

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the part and its options."""
    text = "time kernels and networks of torch on this machine"
    verb = shared.new_verb(verbs, "measure", run, text)
    text = "networks, images, threads, quotas, sessions; an empty file for all defaults"
    verb.add_argument("spec", type=Path, metavar="SPEC.toml", help=text)
    shared.add_out(
        verb,
        "OUT.nc",
        "kernels and networks to write; OUT.workloads.nc, journal and recordings are made beside "
        "it ('msbgen measure --restore' puts back what a killed one has changed)",
    )
    verb.add_argument("--resume", action="store_true", help="go on with what was begun")
    text = "begin no session after this time; what there is, is written (exit code 5)"
    verb.add_argument(
        "--within", type=shared.duration, default=float("inf"), metavar="T", help=text
    )
    verb.add_argument(
        "--dry-run", action="store_true", help="print what would be measured, changed and put back"
    )
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Measure, or say what would be."""
    out: Path | None = options.out
    if out is None and not options.dry_run:
        raise UsageError("-o OUT.nc is wanted, or --dry-run.")
    beside = [] if out is None else [out, out.with_suffix(".workloads.nc")]
    shared.check_files([options.spec], beside, force=options.force)

    from msbgen.systems.kernels import dataset as kernels
    from msbgen.systems.kernels.measure import campaign, run_campaign

    wanted = campaign.read_campaign(options.spec)
    if options.dry_run or out is None:
        for line in run_campaign.describe_kernels_dry_run(wanted):
            shared.show(line)
        return
    with Progress("measuring") as step:
        result = run_campaign.measure_kernels(
            wanted, out, resume=options.resume, overwrite=options.force, within=options.within,
            progress=step,
        )  # fmt: skip
    shared.show(f"{out}:\n{kernels.describe(result.kernels)}")
    shared.show(f"{run_campaign.workloads_path(out)}: {result.workloads.sizes['launch']} launches")
    result.check_complete()
