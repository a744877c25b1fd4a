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

_MOST_WAY = 1_000_000  # MiB
_SCHEMA_VERSION = 1
_MISCOVERAGE = 0.05


def add(verbs: Verbs) -> None:
    """Add the verb and its options."""
    from msbgen.data.sharing import CHANNELS, OBJECTIVES

    text = "predict programs that share the cache and the bandwidth; 'beside choose': which to pair"
    verb = shared.new_verb(verbs, "beside", run, text)
    text = "'choose' for the best placement; then measured profiles, or models, of each program"
    verb.add_argument("files", nargs="+", metavar="[choose] FILE.nc", help=text)
    text = "ways of the shared cache, or of each partition (all of the measured ones)"
    verb.add_argument("--ways", type=_amounts, metavar="W,...", help=text)
    text = "bandwidth that is shared, or of each pool, in MB/s (no limit)"
    verb.add_argument("--bandwidth", type=_amounts, metavar="B,...", help=text)
    text = "partition of each program, counted from 0 (all share the first)"
    verb.add_argument("--cache", type=_groups, metavar="N,...", help=text)
    text = "pool of each program, counted from 0 (all share the first)"
    verb.add_argument("--memory", type=_groups, metavar="N,...", help=text)
    text = "core clock, or that of each program (the only one of its profiles)"
    verb.add_argument("--clock", type=_amounts, metavar="F,...", help=text)
    text = "start of each program, such as 0s,100ms (0s)"
    verb.add_argument("--starts", type=_times, metavar="TIME,...", help=text)
    text = "how the bandwidth is shared (%(default)s)"
    verb.add_argument("--channel", choices=CHANNELS, default=CHANNELS[0], help=text)
    text = "programs start again until the slowest has ended"
    verb.add_argument("--loop", action="store_true", help=text)
    text = "size of a way in MiB (%(default)s): that of the last-level cache over its ways"
    verb.add_argument("--way-size", type=shared.number, default=1.0, metavar="MIB", help=text)
    text = "counter of last-level misses (%(default)s)"
    verb.add_argument("--misses", default="cache_misses", metavar="NAME", help=text)
    shared.add_miscoverage(verb, "probability that a duration is outside its bounds", _MISCOVERAGE)
    text = "also print the partition of the cache that repairs the group best"
    verb.add_argument("--repair", action="store_true", help=text)
    text = "with 'choose': number of sockets (half of the programs)"
    verb.add_argument("--sockets", type=shared.count, metavar="M", help=text)
    text = f"with 'choose' and --repair: what is minimised ({OBJECTIVES[0]})"
    verb.add_argument("--objective", choices=OBJECTIVES, help=text)
    text = "with 'choose' and --repair: longest duration of each program, such as 1s,500ms"
    verb.add_argument("--deadlines", type=_durations, metavar="TIME,...", help=text)
    text = "write a picture of both courses and their slowdowns (needs matplotlib)"
    verb.add_argument("--picture", type=_picture, metavar="FILE.png", help=text)
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
        many = "1 file is" if paths else "no file is"
        raise UsageError(f"{many} named; two or more programs are wanted.")
    _check_used(options, choose)
    groups = [
        _group_of_each(len(paths), given, amounts, names)
        for given, amounts, names in (
            (options.cache, options.ways, ("--cache", "--ways")),
            (options.memory, options.bandwidth, ("--memory", "--bandwidth")),
        )
    ]
    if options.deadlines:
        options.deadlines = _each(options.deadlines, len(paths), "--deadlines")
    outputs = [options.out, options.json, options.picture]
    shared.check_files(list(dict.fromkeys(paths)), outputs, force=options.force)

    from msbgen.beside.columns import Columns
    from msbgen.data.sharing import OBJECTIVES

    options.objective = options.objective or OBJECTIVES[0]
    if options.misses in (Columns.instructions, Columns.requests):
        raise UsageError(f"--misses: '{options.misses}' is no counter of misses; name one.")
    if options.way_size > _MOST_WAY:
        raise UsageError(
            f"--way-size is {options.way_size:g} MiB; a number up to {_MOST_WAY} is wanted."
        )
    columns = Columns(misses=options.misses, way_size=options.way_size * 2**20)
    clocks = _each(options.clock, len(paths), "--clock") if options.clock else [None] * len(paths)
    made: dict[tuple[Path, float | None], ProgramTable] = {}
    for key in zip(paths, clocks):
        if key not in made:
            made[key] = _table(*key, columns)
    tables = [made[key] for key in zip(paths, clocks)]
    _check_one_cache(paths, tables)
    sharing = _sharing(options, tables, groups)
    if choose:
        _choose(options, tables, sharing)
    else:
        _play(options, tables, sharing)


def _check_used(options: argparse.Namespace, choose: bool) -> None:
    """Refuse options that would have no effect."""
    apart = bool(options.cache or options.memory)
    part = bool(options.ways) and options.ways[0] % 1 > 0
    untimed = options.objective == "deadlines" and not options.deadlines
    defaults = {"miscoverage": _MISCOVERAGE, "seed": 0}
    refused = (
        (choose, "out picture", "has no effect: 'choose' writes no course"),
        (choose, "cache memory starts repair miscoverage seed", "has no effect with 'choose'"),
        (not choose, "sockets", "is for 'choose'"),
        (not (choose or options.repair), "objective deadlines", "is for 'choose' and --repair"),
        (apart, "repair", "divides what all programs share: leave out --cache and --memory"),
        (part, "repair", "wants a whole number of --ways"),
        (untimed, "objective", "deadlines wants --deadlines, the longest durations"),
    )
    for wrong, names, why in refused:
        for name in names.split():
            value = getattr(options, name)
            if wrong and value and value != defaults.get(name):
                raise UsageError(f"--{name} {why}.")


def _group_of_each(
    n: int,
    given: Sequence[int] | None,
    amounts: Sequence[float] | None,
    names: tuple[str, str],
) -> tuple[int, ...]:
    """The partition or pool of each program; each is used, and has its amount."""
    if given is not None and len(given) != n:
        raise UsageError(
            f"{names[0]} has {_values(given)}; one for each of {n} programs is wanted."
        )
    groups = tuple(given or (0,) * n)
    many = 1 if amounts is None else len(amounts)
    if set(groups) != set(range(many)):
        named = ", ".join(str(g) for g in sorted(set(groups)))
        raise UsageError(
            f"{names[1]} has {_values(amounts or ())}, and {names[0]} the numbers {named}; one "
            f"value for each number, counted from 0, is wanted."
        )
    return groups


def _check_one_cache(paths: Sequence[Path], tables: Sequence[ProgramTable]) -> None:
    """Refuse programs that were measured with other numbers of ways."""
    from msbgen.core.errors import ProfileError

    for path, table in zip(paths, tables):
        if table.most_ways != tables[0].most_ways:
            raise ProfileError(
                f"{path.name}: was measured with up to {table.most_ways} ways of the cache, and "
                f"{paths[0].name} with up to {tables[0].most_ways}; measure both with all ways of "
                f"one cache."
            )


def _table(path: Path, clock: float | None, columns: Columns) -> ProgramTable:
    """What a program does alone, from measured profiles that are a grid, or from a fitted model."""
    from msbgen.beside.table import duration_spread, is_grid, program_table
    from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
    from msbgen.generate.fit import fit_profiles
    from msbgen.generate.model import ProfileModel

    measured, model = shared.read_measured(path, ProfileModel.of_file)
    doubt = duration_spread(measured)
    source: Any = measured if model is None else model
    if model is None and not is_grid(measured, columns) and measured.sizes["context"] >= 4:
        if columns.misses not in measured:
            raise ProfileError(
                f"{path.name}: has no counter '{columns.misses}'; measure it, or name the counter "
                f"of misses that it has by --misses."
            )
        with Progress("fitting") as step:
            source = fit_profiles(measured, progress=step)
    place = "" if source is measured else f"{path.name}: "
    try:
        return program_table(source, clock, columns=columns, doubt=doubt)
    except ArgumentError as error:  # only the clock is the user's
        raise UsageError(f"{place}{error}") from None
    except MeasurementError as error:
        raise ProfileError(f"{place}{error}") from None


def _sharing(
    options: argparse.Namespace, tables: Sequence[ProgramTable], groups: Sequence[tuple[int, ...]]
) -> Sharing:
    """Who shares what."""
    from msbgen.data.sharing import Sharing

    n = len(tables)
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
    with Progress("drawing") as step:
        bounds = duration_bounds(tables, sharing, level, rng=options.seed, progress=step)
    harm = find_harm(tables, sharing)
    repaired = None
    if options.repair:
        with Progress("comparing") as step:
            repaired = best_partition(
                tables, sharing, deadlines=options.deadlines, objective=options.objective,
                progress=step,
            )  # fmt: skip
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

        draw_course(course, options.picture, overwrite=options.force)


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
    from msbgen.core.words import number_of

    if found.compared == 1:
        ways = number_of(found.sharing.ways[0], "way")
        return (
            f"repair: nothing to compare; a cache of {ways} has no partition for "
            f"{len(course.tasks)} programs"
        )
    if len(found.sharing.ways) == 1:
        return "repair: no partition is better than the shared cache"
    parts = ", ".join(
        f"{task} {number_of(ways, 'way')}: {seconds:.4g} s"
        for task, ways, seconds in zip(course.tasks, found.sharing.ways, found.durations)
    )
    return f"repair: {parts}"


def _values(given: Sequence[float]) -> str:
    from msbgen.core.words import number_of

    return number_of(len(given), "value") if given else "no values"


def _each(values: Sequence[float], n: int, name: str) -> list[float]:
    """A value of each program; one value is that of all."""
    if len(values) not in (1, n):
        raise UsageError(f"{name} has {_values(values)}; one, or one for each of {n} programs.")
    return list(values) * (n if len(values) == 1 else 1)


def _amounts(text: str) -> tuple[float, ...]:
    """Numbers above 0 between commas."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(0 < value < math.inf for value in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers > 0, such as 12,8")
    return found


def _groups(text: str) -> tuple[int, ...]:
    """Numbers of groups between commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers, such as 0,1")
    return tuple(int(part) for part in parts)


def _picture(text: str) -> Path:
    """A picture to write."""
    if not text.lower().endswith(".png"):
        raise argparse.ArgumentTypeError(f"{text!r} is no PNG; end the name with .png")
    return shared.output(text)


def _durations(text: str) -> tuple[float, ...]:
    """Times above 0 between commas [s]."""
    found = _times(text)
    if not min(found) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} has a time of 0 s; longer ones are wanted")
    return found


def _times(text: str) -> tuple[float, ...]:
    """Times between commas [s]."""
    from msbgen.core.durations import parse_seconds

    try:
        return tuple(parse_seconds(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of times from 0 on, such as 0s,100ms"
        ) from None
