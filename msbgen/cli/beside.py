"""``msbgen beside``: how programs run that share the cache and the bandwidth, and which to pair."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    from msbgen.beside.columns import Columns
    from msbgen.beside.course import Course
    from msbgen.beside.placement import Placement
    from msbgen.beside.table import ProgramTable
    from msbgen.data.sharing import Sharing

CHANNELS = ("regulator", "queue")
OBJECTIVES = ("makespan", "slowdown", "deadlines")
_SCHEMA_VERSION = 1


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    text = "predict programs that share the cache and the bandwidth; 'beside choose': which to pair"
    verb = shared.new_verb(verbs, "beside", run, text)
    text = "'choose' for the best placement; then measured profiles, or models, of each program"
    verb.add_argument("files", nargs="+", metavar="[choose] FILE.nc", help=text)
    text = "ways of the shared cache, or of each partition (all of the measured ones)"
    verb.add_argument("--ways", type=_numbers, metavar="W,...", help=text)
    text = "bandwidth that is shared, or of each pool, in MB/s (no limit)"
    verb.add_argument("--bandwidth", type=_numbers, metavar="B,...", help=text)
    text = "partition of each program, counted from 0 (all share the first)"
    verb.add_argument("--cache", type=_numbers, metavar="N,...", help=text)
    text = "pool of each program, counted from 0 (all share the first)"
    verb.add_argument("--memory", type=_numbers, metavar="N,...", help=text)
    text = "core clock, or that of each program (the only one of its profiles)"
    verb.add_argument("--clock", type=_numbers, metavar="F,...", help=text)
    text = "start of each program, such as 0s,100ms (0s)"
    verb.add_argument("--starts", type=_times, metavar="TIME,...", help=text)
    text = "how the bandwidth is shared (%(default)s)"
    verb.add_argument("--channel", choices=CHANNELS, default=CHANNELS[0], help=text)
    text = "programs start again until the slowest has ended"
    verb.add_argument("--loop", action="store_true", help=text)
    text = "size of a way in MiB (%(default)s): that of the last-level cache over its ways"
    verb.add_argument("--way-size", type=float, default=1.0, metavar="MIB", help=text)
    text = "counter of last-level misses (%(default)s)"
    verb.add_argument("--misses", default="cache_misses", metavar="NAME", help=text)
    shared.add_miscoverage(verb, "probability that a duration is outside its bounds", 0.05)
    text = "also print the partition of the cache that repairs the group best"
    verb.add_argument("--repair", action="store_true", help=text)
    text = "with 'choose': number of sockets (half of the programs)"
    verb.add_argument("--sockets", type=shared.count, metavar="M", help=text)
    text = "with 'choose' and --repair: what is minimised (%(default)s)"
    verb.add_argument("--objective", choices=OBJECTIVES, default=OBJECTIVES[0], help=text)
    text = "longest duration of each program, such as 1s,500ms"
    verb.add_argument("--deadlines", type=_times, metavar="TIME,...", help=text)
    text = "write a picture of both courses and their slowdowns (needs matplotlib)"
    verb.add_argument("--picture", type=shared.output, metavar="FILE.png", help=text)
    text = "write all results here, as JSON"
    verb.add_argument("--json", type=shared.output, metavar="FILE.json", help=text)
    shared.add_out(verb, "OUT.nc", "the courses to write: counters, ways and bandwidth over time")
    shared.add_seed(verb)
    shared.add_force(verb)


def run(options: argparse.Namespace) -> None:
    """Predict the courses of programs, or choose their placement."""
    choose = options.files[0] == "choose"
    paths = [Path(file) for file in options.files[choose:]]
    if len(paths) < 2:
        raise UsageError(f"{len(paths)} file is named; two or more programs are wanted.")
    if choose and (options.out or options.picture):
        raise UsageError("'choose' writes no course; leave out -o and --picture.")
    outputs = [options.out, options.json, options.picture]
    shared.check_files(list(dict.fromkeys(paths)), outputs, force=options.force)

    from msbgen.beside.columns import Columns
    from msbgen.core.errors import ArgumentError

    try:
        columns = Columns(misses=options.misses, way_size=options.way_size * 2**20)
    except ArgumentError as error:
        raise UsageError(f"--way-size: {error}") from None
    clocks = _each(options.clock, len(paths), "--clock") if options.clock else [None] * len(paths)
    made: dict[tuple[Path, float | None], ProgramTable] = {}
    for key in zip(paths, clocks):
        if key not in made:
            made[key] = _table(*key, columns)
    tables = [made[key] for key in zip(paths, clocks)]
    sharing = _sharing(options, tables)
    if choose:
        _choose(options, tables, sharing)
    else:
        _play(options, tables, sharing)


def _table(path: Path, clock: float | None, columns: Columns) -> ProgramTable:
    """What a program does alone, from measured profiles that are a grid, or from a fitted model."""
    from msbgen.beside.table import duration_spread, is_grid, program_table
    from msbgen.core.errors import ProfileError
    from msbgen.generate.fit import fit_profiles
    from msbgen.generate.model import ProfileModel

    measured, model = shared.read_measured(path, ProfileModel.load)
    doubt = duration_spread(measured)
    if model is None and (is_grid(measured, columns) or measured.sizes["context"] < 4):
        return program_table(measured, clock, columns=columns, doubt=doubt)
    if model is None:
        if columns.misses not in measured:
            raise ProfileError(
                f"{path.name}: has no counter '{columns.misses}'; measure it, or name the counter "
                f"of misses that it has by --misses."
            )
        with Progress("fitting") as step:
            model = fit_profiles(measured, progress=step)
    with shared.errors_from(path.name):
        return program_table(model, clock, columns=columns, doubt=doubt)


def _sharing(options: argparse.Namespace, tables: Sequence[ProgramTable]) -> Sharing:
    """Who shares what."""
    from msbgen.data.sharing import Sharing

    n = len(tables)
    groups = [
        tuple(int(g) for g in _each(given, n, name)) if given else (0,) * n
        for name, given in (("--cache", options.cache), ("--memory", options.memory))
    ]
    return Sharing(
        ways=tuple(options.ways or (float(min(t.most_ways for t in tables)),)),
        cache=groups[0],
        bandwidth=tuple(options.bandwidth or (math.inf,)),
        memory=groups[1],
        frequency=tuple(1.0 if math.isnan(t.frequency) else t.frequency for t in tables),
        starts=tuple(_each(options.starts or (0.0,), n, "--starts")),
        channel=options.channel,
        afterwards="loop" if options.loop else "idle",
    )


def _play(options: argparse.Namespace, tables: Sequence[ProgramTable], sharing: Sharing) -> None:
    """Predict and show the courses."""
    from msbgen.beside import best_partition, duration_bounds, find_harm, play

    course = play(tables, sharing)
    level = 1 - options.miscoverage
    bounds = duration_bounds(tables, sharing, level, rng=options.seed)
    harm = find_harm(tables, sharing)
    repaired = None
    if options.repair:
        repaired = best_partition(
            tables, sharing, objective=options.objective, deadlines=options.deadlines
        )
    header = ["task", "alone [s]", "beside [s]", f"bounds {level:.0%} [s]", "slowdown"]
    header += ["worst segment", "by cache [s]", "by bandwidth [s]"]
    rows = [header + [f"by {i}: {task} [s]" for i, task in enumerate(course.tasks)]]
    for i, task in enumerate(course.tasks):
        by_progress = course.slowdown_by_progress[i]
        numbers = [course.alone[i], course.durations[i]]
        rows.append(
            [task, *(f"{x:.4g}" for x in numbers), f"{bounds[i, 0]:.4g} to {bounds[i, 1]:.4g}",
             f"{course.slowdown[i]:.3f}",
             f"{by_progress.max():.2f} at {100 * course.progress[i, by_progress.argmax()]:.0f} %",
             *(f"{x:.3g}" for x in (harm.cache[i], harm.bandwidth[i], *harm.by[i]))]
        )  # fmt: skip
    shared.show_table(rows)
    if repaired is not None:
        shared.show(_repair_text(repaired, course))
    if options.json:
        content = {
            "schema_version": _SCHEMA_VERSION,
            "programs": [
                {
                    "task": task, "alone": float(course.alone[i]),
                    "duration": float(course.durations[i]), "bounds": bounds[i].tolist(),
                    "level": level, "slowdown": float(course.slowdown[i]),
                    "slowdown_by_progress": course.slowdown_by_progress[i].tolist(),
                    "progress": course.progress[i].tolist(),
                    "harm": harm.by[i].tolist(), "cache": float(harm.cache[i]),
                    "bandwidth": float(harm.bandwidth[i]),
                }
                for i, task in enumerate(course.tasks)
            ],
            "repair": None if repaired is None else _plain(repaired, course.tasks),
        }  # fmt: skip
        shared.write_json(content, options.json, force=options.force)
    if options.out:
        from msbgen.beside.course import course_dataset
        from msbgen.data.store import save_netcdf

        save_netcdf(course_dataset(course, bounds), options.out, overwrite=options.force)
    if options.picture:
        from msbgen.beside.picture import draw_course

        draw_course(course, options.picture)


def _choose(options: argparse.Namespace, tables: Sequence[ProgramTable], sharing: Sharing) -> None:
    """Choose and show the placement."""
    from msbgen.beside import choose_placement

    sockets = options.sockets or math.ceil(len(tables) / 2)
    with Progress("comparing") as step:
        found = choose_placement(
            tables, sockets, sharing, objective=options.objective, deadlines=options.deadlines,
            progress=step,
        )  # fmt: skip
    tasks = [table.task for table in tables]
    rows = [["socket", "task", "duration [s]", "slowdown", "deadline"]]
    for socket, group in enumerate(found.groups):
        for i in group:
            kept = "missed" if i in found.missed else "kept" if options.deadlines else ""
            rows.append([str(socket), tasks[i], f"{found.durations[i]:.4g}",
                         f"{found.slowdown[i]:.3f}", kept])  # fmt: skip
    shared.show_table(rows)
    shared.print_message(
        f"{options.objective} {found.value:.4g}; the worst of {found.compared} placements has "
        f"{found.worst:.4g}."
    )
    if options.json:
        content = {"schema_version": _SCHEMA_VERSION, **_plain(found, tasks)}
        shared.write_json(content, options.json, force=options.force)


def _plain(found: Placement, tasks: Sequence[str]) -> dict[str, Any]:
    """A placement for JSON."""
    return {
        "groups": [[tasks[i] for i in group] for group in found.groups],
        "durations": found.durations.tolist(), "slowdown": found.slowdown.tolist(),
        "makespan": found.makespan, "missed": [tasks[i] for i in found.missed],
        "value": found.value, "worst": found.worst, "compared": found.compared,
        "ways": list(found.sharing.ways),
    }  # fmt: skip


def _repair_text(found: Placement, course: Course) -> str:
    """One line about the best partition."""
    if len(found.sharing.ways) == 1:
        return "repair: no partition is better than the shared cache"
    parts = ", ".join(
        f"{task} {ways:g} ways: {seconds:.4g} s"
        for task, ways, seconds in zip(course.tasks, found.sharing.ways, found.durations)
    )
    return f"repair: {parts}"


def _each(values: Sequence[float], n: int, name: str) -> list[float]:
    """A value of each program; one value is that of all."""
    if len(values) not in (1, n):
        raise UsageError(f"{name} has {len(values)} values; one, or one for each of {n} programs.")
    return list(values) * (n if len(values) == 1 else 1)


def _numbers(text: str) -> tuple[float, ...]:
    """Numbers between commas."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(math.isfinite(value) for value in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers, such as 12,8")
    return found


def _times(text: str) -> tuple[float, ...]:
    """Times between commas [s]."""
    from msbgen.core.durations import parse_seconds

    try:
        return tuple(parse_seconds(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of times, such as 0s,100ms"
        ) from None
