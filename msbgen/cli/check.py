"""``msbgen check``: contents and problems of any file of msbgen."""

import argparse
from importlib import import_module
from pathlib import Path

from msbgen.cli.options import (
    Progress,
    UsageError,
    Verbs,
    check_files,
    duration,
    new_verb,
    show,
    show_lines,
)

# Datasets besides profiles: the attribute ``schema``, and the module whose SCHEMA declares it.
CONTENTS = {
    "msbgen-graph/1": "msbgen.systems.graphs.dataset",
    "msbgen-graph-runs/1": "msbgen.systems.graphs.runs",
    "msbgen-job-log/1": "msbgen.systems.machines.queue.workload",
    "msbgen-kernels/1": "msbgen.systems.kernels.dataset",
    "msbgen-phases/1": "msbgen.systems.phases.phases",
    "msbgen-relative/1": "msbgen.systems.machines.dataset",
    "msbgen-runtimes/1": "msbgen.systems.runtimes.dataset",
    "msbgen-stream/1": "msbgen.sources.platform.stream",
    "msbgen-trace/1": "msbgen.sources.platform.trace",
    "msbgen-workload/1": "msbgen.systems.kernels.workloads",
}


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = new_verb(verbs, "check", run, "describe a file and list its problems")
    verb.add_argument("file", type=Path, metavar="FILE")
    text = "of profiles: count the runs of each context that take longer, such as 500ms"
    verb.add_argument("--deadline", type=duration, metavar="TIME", help=text)


def run(options: argparse.Namespace) -> None:
    """Describe a file; raises all problems found."""
    check_files([options.file])

    from msbgen.core.errors import ProfileError
    from msbgen.data import check, partial, quality, store
    from msbgen.data.profiles import Profiles
    from msbgen.engine.generate import detection
    from msbgen.sources.measure import progress_counters
    from msbgen.systems.kernels import dataset as kernels
    from msbgen.systems.kernels import variability

    if options.file.suffix in (".csv", ".json"):
        raise ProfileError(
            f"{options.file.name}: is no netCDF file; write one by 'msbgen import', or by 'import' "
            f"of kernels, machines or runtime."
        )
    dataset = store.load_netcdf(options.file)
    if module := CONTENTS.get(str(dataset.attrs.get("schema"))):
        if options.deadline:
            raise UsageError(f"{options.file} holds no profiles; --deadline counts their runs.")
        content = import_module(module)
        content.SCHEMA.validate(dataset, options.file.name)
        show(getattr(content, "describe", content.SCHEMA.describe)(dataset))
        if content is kernels:
            show_lines(variability.describe_variability(dataset))
        show("no problem found")
        return
    findings = check.inspect_profiles(dataset, source=options.file.name)
    warnings, notes = list(findings.warnings), []
    if not findings.errors:
        profiles = Profiles.of(dataset)
        show(profiles.describe())
        with Progress("looking for faults") as step:
            found = detection.known_faults(profiles, step)
        sound = detection.without_absurd_counts(profiles, found)  # reported below
        show_lines(partial.describe_partial(profiles))
        clocks = progress_counters.describe_progress_counters(sound)
        show_lines(clocks if profiles.is_timed else ())
        show_lines(quality.describe_late(profiles, options.deadline) if options.deadline else ())
        warnings += quality.doubt_measurements(sound, source=options.file.name)
        named = detection.describe_faults(profiles, found)
        warnings += [f"{options.file.name}: {sentence}" for sentence in named]
        notes = [
            note for of in (quality.note_generated, quality.note_design)
            for note in of(profiles, source=options.file.name)
        ]  # fmt: skip
    show_lines(f"warning: {sentence}" for sentence in warnings)
    show_lines(f"note: {sentence}" for sentence in notes)
    if findings.errors:
        raise ProfileError(*findings.errors)
    show("no problem found" if not warnings else "usable, with warnings")
