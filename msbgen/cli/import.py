"""``msbgen import``: recordings, results of benchmark tools and tables of times as profiles."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

# Forms of recordings, and the one of durations.
_FORMS = ("perf", "likwid", "pqos", "pcm", "sadf", "prometheus", "power", "table", "times")
# Formats with times in whole seconds.
_WITH_STEP = ("pqos", "pcm", "power")


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    verb = shared.new_verb(
        verbs, "import", run, "read recordings, benchmark results and tables of times"
    )
    text = "results of a benchmark tool (hyperfine, pyperf, …); a table of times; or recordings "
    text += "with contexts in their names, such as gzip__ways=4__run=3.csv"
    verb.add_argument("recordings", nargs="*", type=Path, metavar="FILE", help=text)
    text = "the profile file to write; of several benchmarks OUT-NAME.nc for each"
    shared.add_out(verb, "OUT.nc", text)
    text = "print what would be read, and what would be left out; write nothing"
    verb.add_argument("--dry-run", action="store_true", help=text)
    text = "instead of FILEs: a table of recordings (column file), contexts, durations"
    verb.add_argument("--manifest", type=Path, metavar="RUNS.csv|.toml", help=text)
    text = "pattern of contexts in names, such as 'q{cpu_quota [%%]}_r{run}.csv'"
    verb.add_argument("--names", metavar="PATTERN", help=text)
    verb.add_argument(
        "--form",
        choices=_FORMS,
        help="format, if the content does not tell: perf stat -I as CSV or JSON lines, "
        "likwid-perfctr -t, pqos -u csv, pcm -csv, sadf -d, a range query of Prometheus (JSON), a "
        "log of nvidia-smi, turbostat or tegrastats (power), a table with the columns of "
        "--columns, or times of runs",
    )
    text = "of a table of times: columns that are settings, though they do not look so"
    verb.add_argument("--setting", type=columns_of, metavar="COLUMN,...", help=text)
    text = "of a table of times: the column of the time"
    verb.add_argument("--time", metavar="COLUMN", help=text)
    text = "of a table of times: columns to leave out"
    verb.add_argument("--ignore", type=columns_of, metavar="COLUMN,...", help=text)
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
    text = "polling interval of pqos, PCM or a log of power, such as 100ms"
    verb.add_argument("--step", type=shared.duration, metavar="TIME", help=text)
    text = "sampling interval of the profiles (as recorded)"
    verb.add_argument("--interval", type=shared.duration, metavar="TIME", help=text)
    text = "counter that measures the progress of a run (instructions, else CPU time, else time)"
    verb.add_argument("--clock", metavar="NAME", help=text)
    text = "levels that the platform can set, such as cpu_quota=10:100:10"
    verb.add_argument("--levels", type=shared.levels, metavar="NAME=A:B:STEP,...", help=text)
    text = "name of the program; of several benchmarks the one to take"
    verb.add_argument("--task", metavar="NAME", help=text)
    shared.add_force(verb)


def names(text: str) -> tuple[str, ...]:
    """Names between semicolons; some events contain commas."""
    found = tuple(part.strip() for part in text.split(";"))
    if not all(found):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of names, such as instructions;cycles"
        )
    return found


def columns_of(text: str) -> tuple[str, ...]:
    """Headers between commas."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of columns, such as threads,size")
    return found


def run(options: argparse.Namespace) -> None:
    """Read recordings or durations and write their profiles."""
    if bool(options.out) == bool(options.dry_run):
        raise UsageError("one of -o and --dry-run is wanted.")
    if bool(options.recordings) == bool(options.manifest):
        raise UsageError("name either recordings or a --manifest.")
    if options.manifest and options.names:
        raise UsageError("--names is for recordings without --manifest; drop one of the two.")
    if bool(options.cycles) != bool(options.at) or (options.cycles and options.columns):
        raise UsageError("--cycles and --at go together, in the place of --columns.")
    if _are_times(options):
        _import_times(options)
        return
    shared.refuse_unused(options, "setting time ignore", "is for tables of times")
    options.form = options.form or _form_of(options)
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
    if options.out:
        store.write_profiles(dataset, options.out, overwrite=options.force)
    for sentence in warnings:
        shared.print_message(f"warning: {sentence}")
    place = options.out or f"read as recordings of the form {options.form}; nothing is written"
    profiles = Profiles.of(dataset)
    shared.show(f"{place}:\n{profiles.describe()}")
    shared.show_lines(partial.describe_partial(profiles))
    shared.show_lines(progress_counters.describe_progress_counters(profiles))


# Options of recordings, with which files are no tables of times.
_OF_RECORDINGS = ("manifest", "names", "columns", "cycles", "events", "places", "step", "clock")


def _are_times(options: argparse.Namespace) -> bool:
    """Whether the files hold durations: as `--form` says, or as their content does."""
    if options.form == "table" and options.columns and options.recordings:
        from msbgen.data.toml import read_toml
        from msbgen.sources.timings.tables import is_map_of_durations

        return is_map_of_durations(read_toml(options.columns)[1])
    if options.form:
        return bool(options.form == "times")
    if any(getattr(options, name) for name in (*_OF_RECORDINGS, "interval")):
        return False
    if options.setting or options.time or options.ignore:
        return True
    from msbgen.sources.measure.readers.formats import format_of
    from msbgen.sources.timings.read import holds_timings

    return all(format_of(path) == "perf" and holds_timings(path) for path in options.recordings)


def _form_of(options: argparse.Namespace) -> str:
    """Form of the recordings, by the content of the first."""
    if options.columns or options.cycles:
        return "table"
    from msbgen.sources.measure.readers.formats import format_of

    return format_of(options.recordings[0]) if options.recordings else "perf"


def _map_of(path: Path) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Content, name and known keys of a column map of durations."""
    from msbgen.data.toml import read_toml

    return read_toml(path)[1], path.name, ("resources", "columns", "separator")


def _import_times(options: argparse.Namespace) -> None:
    """Read durations and write the profiles of each task."""
    if not options.recordings:
        raise UsageError("times are read from FILEs; name one or more.")
    others = " ".join(name for name in (*_OF_RECORDINGS, "interval") if name != "columns")
    shared.refuse_unused(options, others, "is for recordings, not for times")
    shared.check_files(options.recordings, [options.out], force=options.force)

    from msbgen.core.words import number_of
    from msbgen.data import check, store
    from msbgen.data.columns import column_map
    from msbgen.data.profiles import Profiles
    from msbgen.sources.timings.read import file_name_of, read_timings
    from msbgen.sources.timings.tables import Roles, read_mapped_times
    from msbgen.sources.timings.timings import profiles_of

    roles = Roles(options.setting or (), options.time or "", options.ignore or ())
    if options.columns:
        columns = column_map(*_map_of(options.columns))
        found = [read_mapped_times(path, columns) for path in options.recordings]
    else:
        found = read_timings(options.recordings, roles)
    if options.task and len(found) > 1:
        named = [one for one in found if options.task in (one.task, file_name_of(one.task))]
        if not named:
            tasks = ", ".join(one.task for one in found)
            raise UsageError(
                f"--task is {options.task!r}; one of the benchmarks {tasks} is wanted."
            )
        found = named
    elif options.task:
        found = [replace(found[0], task=options.task)]
    outputs = [options.out]
    if len(found) > 1 and options.out:
        names = [f"{options.out.stem}-{file_name_of(one.task)}" for one in found]
        outputs = [options.out.with_name(f"{name}{options.out.suffix}") for name in names]
        shared.check_files(options.recordings, outputs, force=options.force)
    said = dict.fromkeys(sentence for one in found for sentence in one.taken)
    for sentence in said:
        shared.print_message(sentence)
    for one, out in zip(found, outputs * (1 if options.out else len(found))):
        dataset, sentences = profiles_of(one, options.levels)
        for sentence in sentences:
            shared.print_message(sentence)
        if out:
            store.write_profiles(dataset, out, overwrite=options.force)
        else:
            check.validate_profiles(dataset, source=one.source)
        place = out or f"{number_of(len(one.seconds), 'run')}; nothing is written"
        shared.show(f"{place}:\n{Profiles.of(dataset).describe()}")
