"""``msbgen export``: profiles in the formats of other tools."""

from __future__ import annotations

import argparse
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import UsageError, Verbs


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "write profiles as a trace for Perfetto or as metrics"
    verb = shared.new_verb(verbs, "export", run, text)
    text = "profiles, measured or generated; runs of one context are shown together"
    verb.add_argument("files", type=Path, nargs="+", metavar="FILE.nc", help=text)
    verb.add_argument(
        "--format",
        choices=("perfetto", "openmetrics"),
        required=True,
        help="counter tracks for ui.perfetto.dev, or OpenMetrics text for Prometheus",
    )
    shared.add_out(verb, "OUT", "the file to write, such as x.pftrace or x.txt", required=True)
    shared.add_contexts(verb, "the files (those that they hold)", required=False)
    text = "most runs of each context and file (all)"
    verb.add_argument("--runs", type=shared.count, metavar="N", help=text)
    text = "openmetrics: seconds since 1970 at which runs start, where files do not say (0)"
    verb.add_argument("--start", type=shared.number, metavar="SECONDS", help=text)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Read profiles and write them in another format."""
    if options.format != "openmetrics":
        shared.refuse_unused(options, "start", "is for --format openmetrics")
    names = {path: path.stem for path in options.files}
    if len(set(names.values())) < len(options.files):
        names = {path: str(path) for path in options.files}
    if len(names) < len(options.files):
        raise UsageError("a file is named twice; name each once.")
    inputs = [*options.files]
    if options.contexts:
        inputs.append(shared.file_of_contexts(options.contexts))
    shared.check_files(inputs, [options.out], force=options.force)

    import numpy as np

    from msbgen.core.words import number_of
    from msbgen.data import store
    from msbgen.data.profiles import Profiles
    from msbgen.data.schema import labels_of, same_contexts
    from msbgen.output.export.openmetrics import write_openmetrics
    from msbgen.output.export.perfetto import write_perfetto

    datasets = {}
    for path, name in names.items():
        dataset = store.read_profiles(path)
        profiles = Profiles.of(dataset)
        if options.contexts:
            labels = {name: labels_of(attrs) for name, attrs in profiles.resources.items()}
            wanted = shared.contexts(options.contexts, shared.levels_of(profiles), labels)
            near = np.flatnonzero(same_contexts(profiles.contexts, wanted) >= 0)
            dataset = dataset.isel(context=near)
        dim = profiles.replicate
        if options.runs and dim:
            dataset = dataset.isel({dim: slice(0, options.runs)})
        datasets[name] = dataset
    if not sum(dataset.sizes["context"] for dataset in datasets.values()):
        raise UsageError(f"no file holds contexts of {options.contexts}; name contexts of one.")
    if options.format == "perfetto":
        many = write_perfetto(datasets, options.out, overwrite=options.force)
        where = "open it at https://ui.perfetto.dev"
    else:
        many = write_openmetrics(
            datasets, options.out, start=options.start or 0.0, overwrite=options.force
        )
        where = "store it by 'promtool tsdb create-blocks-from openmetrics'"
    shared.show(f"{options.out}: {number_of(many, 'run')}; {where}")
