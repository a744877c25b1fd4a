"""``msbgen import``: recordings of real machines into one profile file."""

import argparse
from dataclasses import replace
from pathlib import Path

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

# Formats with times in whole seconds.
_WITH_STEP = ("pqos", "pcm")


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(verbs, "import", run, "read recordings of perf and other tools")
    text = "recordings with contexts in their names, such as gzip__ways=4__run=3.csv"
    verb.add_argument("recordings", nargs="*", type=Path, metavar="FILE", help=text)
    shared.add_out(verb, "OUT.nc", "the profile file to write", required=True)
    text = "instead of FILEs: a table of recordings (column file), contexts, durations"
    verb.add_argument("--manifest", type=Path, metavar="RUNS.csv|.toml", help=text)
    text = "pattern of contexts in names, such as 'q{cpu_quota [%%]}_r{run}.csv'"
    verb.add_argument("--names", metavar="PATTERN", help=text)
    verb.add_argument(
        "--form",
        choices=("perf", "likwid", "pqos", "pcm", "sadf", "prometheus", "table"),
        default="perf",
        help="format: perf stat -I as CSV or JSON lines, likwid-perfctr -t, pqos -u csv, "
        "pcm -csv, sadf -d, a range query of Prometheus (JSON), or a table with the columns of "
        "--columns (%(default)s)",
    )
    verb.add_argument(
        "--events", type=names, metavar="E;...", help="events to take, as recorded (all)"
    )
    verb.add_argument(
        "--places", type=names, metavar="P;...", help="CPUs, cores, threads to take (all, added)"
    )
    text = "columns of a table: 'time [ms]' = 'header' in [columns], totals, rates, separator; "
    text += "resources, if FILEs are tables of all runs"
    verb.add_argument("--columns", type=Path, metavar="MAP.toml", help=text)
    text = "without --columns: column of a table whose cycles measure the time"
    verb.add_argument("--cycles", metavar="COLUMN", help=text)
    text = "clock of --cycles, such as 2.4GHz, or the resource that is the clock"
    verb.add_argument("--at", metavar="CLOCK", help=text)
    text = "polling interval of pqos or PCM, such as 100ms"
    verb.add_argument("--step", type=shared.duration, metavar="TIME", help=text)
    text = "sampling interval of the profiles (as recorded)"
    verb.add_argument("--interval", type=shared.duration, metavar="TIME", help=text)
    text = "counter that measures the progress of a run (instructions, else CPU time, else time)"
    verb.add_argument("--clock", metavar="NAME", help=text)
    text = "levels that the platform can set, such as cpu_quota=10:100:10"
    verb.add_argument("--levels", type=shared.levels, metavar="NAME=A:B:STEP,...", help=text)
    verb.add_argument("--task", metavar="NAME", help="name of the program")
    shared.add_force(verb)


def names(text: str) -> tuple[str, ...]:
    """Names between semicolons; some events contain commas."""
    found = tuple(part.strip() for part in text.split(";"))
    if not all(found):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of names, such as instructions;cycles"
        )
    return found


def run(options: argparse.Namespace) -> None:
    """Read recordings and write their profiles."""
    if bool(options.recordings) == bool(options.manifest):
        raise UsageError("name either recordings or a --manifest.")
    if options.manifest and options.names:
        raise UsageError("--names is for recordings without --manifest; drop one of the two.")
    if bool(options.cycles) != bool(options.at) or (options.cycles and options.columns):
        raise UsageError("--cycles and --at go together, in the place of --columns.")
    if options.form != "table":
        shared.refuse_unused(options, "columns cycles", "needs --form table", "add it")
    if options.form not in _WITH_STEP:
        shared.refuse_unused(options, "step", f"is for --form {' or '.join(_WITH_STEP)}")
    inputs = [*options.recordings, options.manifest, options.columns]
    shared.check_files(inputs, [options.out], force=options.force)

    from msbgen.data import partial, store
    from msbgen.data.columns import ColumnMap
    from msbgen.data.profiles import Profiles
    from msbgen.sources.measure import imports, manifest, progress_counters, run_tables
    from msbgen.sources.measure.readers.formats import RecordingReader

    columns = manifest.read_columns(options.columns) if options.columns else None
    if options.cycles:
        columns = ColumnMap(cycles=options.cycles, clock=options.at)
    reader = RecordingReader(
        options.form, options.events or (), options.places or (), options.step, columns
    )
    recordings = None
    if columns is not None and columns.resources:
        if options.manifest or options.names:
            raise UsageError(
                "--columns lists 'resources', of tables of all runs; drop --manifest or --names."
            )
        planned, recordings = run_tables.read_run_tables(options.recordings, reader)
    elif options.manifest:
        planned = manifest.read_manifest(options.manifest)
        reader = replace(reader, columns=columns or planned.columns)
    else:
        planned = manifest.manifest_from_names(options.recordings, options.names or "")
    planned = manifest.with_levels_and_task(
        planned, levels=options.levels or {}, task=options.task or ""
    )
    with Progress("reading") as step:
        dataset, warnings = imports.import_recordings(
            planned, reader, recordings=recordings, interval=options.interval, clock=options.clock,
            progress=step,
        )  # fmt: skip
    store.write_profiles(dataset, options.out, overwrite=options.force)
    for sentence in warnings:
        shared.print_message(f"warning: {sentence}")
    profiles = Profiles.of(dataset)
    shared.show(f"{options.out}:\n{profiles.describe()}")
    shared.show_lines(partial.describe_partial(profiles))
    shared.show_lines(progress_counters.describe_progress_counters(profiles))
