"""``msbgen check``: contents and problems of any file of msbgen."""

from __future__ import annotations

import argparse
from pathlib import Path

from msbgen.cli.options import Verbs, check_files, new_verb, show


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = new_verb(verbs, "check", run, "describe a file and list its problems")
    verb.add_argument("file", type=Path, metavar="FILE")


def run(options: argparse.Namespace) -> None:
    """Describe a file; raises all problems found."""
    check_files([options.file])

    from msbgen.core.errors import ProfileError
    from msbgen.data import check, partial, quality, schema, store
    from msbgen.generate import faults
    from msbgen.kernels import dataset as kernels
    from msbgen.kernels import variability, workloads
    from msbgen.machines import dataset as relative
    from msbgen.measure import progress_counters
    from msbgen.runtimes import dataset as runtimes

    dataset = store.load_netcdf(options.file)
    if str(dataset.attrs.get("schema")) == runtimes.RUNTIMES_SCHEMA:
        runtimes.validate(dataset, source=options.file.name)
        show(f"{runtimes.describe(dataset)}\nno problem found")
        return
    if str(dataset.attrs.get("schema")) == relative.RELATIVE_SCHEMA:
        relative.validate(dataset, source=options.file.name)
        show(f"{relative.describe(dataset)}\nno problem found")
        return
    if str(dataset.attrs.get("schema")) == kernels.KERNELS_SCHEMA:
        kernels.validate(dataset, source=options.file.name)
        for line in (
            kernels.describe(dataset),
            *variability.describe_variability(dataset),
            "no problem found",
        ):
            show(line)
        return
    if str(dataset.attrs.get("schema")) == workloads.WORKLOAD_SCHEMA:
        workloads.validate_workload(dataset, source=options.file.name)
        show(f"{workloads.describe_workload(dataset)}\nno problem found")
        return
    findings = check.inspect_profiles(dataset, source=options.file.name)
    warnings, notes = list(findings.warnings), []
    if not findings.errors:
        show(schema.describe_profiles(dataset))
        found = faults.known_faults(dataset)
        sound = faults.without_absurd_counts(dataset, found)  # reported below
        for line in (
            *partial.describe_partial(dataset),
            *progress_counters.describe_progress_counters(sound),
        ):
            show(line)
        warnings += quality.doubt_measurements(sound, source=options.file.name)
        named = faults.describe_faults(dataset, found)
        warnings += [f"{options.file.name}: {sentence}" for sentence in named]
        notes = quality.note_design(dataset, source=options.file.name)
    for sentence in warnings:
        show(f"warning: {sentence}")
    for sentence in notes:
        show(f"note: {sentence}")
    if findings.errors:
        raise ProfileError(*findings.errors)
    show("no problem found" if not warnings else "usable, with warnings")
