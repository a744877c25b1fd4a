"""``msbgen beside``: how programs run that share the cache and the bandwidth, and which to pair."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msbgen.cli import options as shared
from msbgen.cli.options import Progress, UsageError, Verbs

if TYPE_CHECKING:
    from msbgen.data.sharing import Sharing
    from msbgen.systems.beside.columns import Columns
    from msbgen.systems.beside.placement import Placement
    from msbgen.systems.beside.table import ProgramTable

_MOST_WAY = 1_000_000  # MiB
_SCHEMA_VERSION = 2
_MISCOVERAGE = 0.05
_times = shared.option(
    tuple[shared.DurationOrNone, ...], "a list of times from 0 on, such as 0s,100ms"
)
_durations = shared.option(tuple[shared.Duration, ...], "a list of times above 0, such as 1s,100ms")


def add(verbs: Verbs) -> None:
    """Add the verb's parts and their options."""
    from msbgen.data.sharing import OBJECTIVES

    text = "predict programs that share the cache and the bandwidth, and choose which to pair"
    parts = shared.new_group(verbs, "beside", text)

    text = "predict the course of each program beside the others"
    verb = _new_part(parts, "predict", run_predict, text)
    text = "ways of the shared cache, or of each partition (all of the measured ones)"
    verb.add_argument("--ways", type=shared.numbers, metavar="W,...", help=text)
    text = "bandwidth that is shared, or of each pool, in MB/s (no limit)"
    verb.add_argument("--bandwidth", type=shared.numbers, metavar="B,...", help=text)
    text = "partition of each program, counted from 0 (all share the first)"
    verb.add_argument("--cache", type=shared.groups, metavar="N,...", help=text)
    text = "pool of each program, counted from 0 (all share the first)"
    verb.add_argument("--memory", type=shared.groups, metavar="N,...", help=text)
    _add_starts(verb)
    shared.add_miscoverage(verb, "probability that a duration is outside its bounds", _MISCOVERAGE)
    text = "write a picture of both courses and their slowdowns (needs matplotlib)"
    verb.add_argument("--picture", type=_picture, metavar="FILE.png", help=text)
    shared.add_out(verb, "OUT.nc", "the courses to write: counters, ways and bandwidth over time")
    shared.add_seed(verb)

    text = "find the partition of the shared cache that repairs a bad group best"
    verb = _new_part(parts, "repair", run_repair, text)
    text = "ways of the shared cache, which are divided (all of the measured ones)"
    verb.add_argument("--ways", type=shared.count, metavar="W", help=text)
    _add_pool(verb, OBJECTIVES)
    _add_starts(verb)

    text = "choose which programs to put together on equal sockets"
    verb = _new_part(parts, "choose", run_choose, text)
    text = "ways of the cache of each socket (all of the measured ones)"
    verb.add_argument("--ways", type=shared.number, metavar="W", help=text)
    _add_pool(verb, OBJECTIVES)
    text = "number of sockets (half of the programs)"
    verb.add_argument("--sockets", type=shared.count, metavar="M", help=text)


def _new_part(
    parts: Verbs, name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    """A part with the options that all parts have."""
    from msbgen.data.sharing import CHANNELS

    verb = shared.new_verb(parts, name, run, text)
    text = "measured profiles, or a model, of each program"
    verb.add_argument("files", type=Path, nargs="+", metavar="FILE.nc", help=text)
    text = "core clock, or that of each program (the only one of its profiles)"
    verb.add_argument("--clock", type=shared.numbers, metavar="F,...", help=text)
    text = "how the bandwidth is shared (%(default)s)"
    verb.add_argument("--channel", choices=CHANNELS, default=CHANNELS[0], help=text)
    text = "programs start again until the slowest has ended"
    verb.add_argument("--loop", action="store_true", help=text)
    text = "size of a way in MiB (%(default)s): that of the last-level cache over its ways"
    verb.add_argument("--way-size", type=shared.number, default=1.0, metavar="MIB", help=text)
    text = "counter of last-level misses (%(default)s)"
    verb.add_argument("--misses", default="cache_misses", metavar="NAME", help=text)
    text = "write all results here, as JSON"
    verb.add_argument("--json", type=shared.output, metavar="FILE.json", help=text)
    shared.add_force(verb)
    return verb


def _add_starts(verb: argparse.ArgumentParser) -> None:
    text = "start of each program, such as 0s,100ms (0s)"
    verb.add_argument("--starts", type=_times, default=(0.0,), metavar="TIME,...", help=text)


def _add_pool(verb: argparse.ArgumentParser, objectives: Sequence[str]) -> None:
    """Options of the parts that compare ways to share one cache and one pool."""
    text = "bandwidth that is shared, in MB/s (no limit)"
    verb.add_argument("--bandwidth", type=shared.number, default=math.inf, metavar="B", help=text)
    text = "what is minimised (%(default)s)"
    verb.add_argument("--objective", choices=objectives, default=objectives[0], help=text)
    text = "longest duration of each program, such as 1s,500ms"
    verb.add_argument("--deadlines", type=_durations, metavar="TIME,...", help=text)
    shared.add_table_out(verb, "OUT.csv", "the table")


def run_predict(options: argparse.Namespace) -> None:
    """Predict the courses of programs."""
    _check_number(options.files)
    groups = [
        _group_of_each(len(options.files), given, amounts, names)
        for given, amounts, names in (
            (options.cache, options.ways, ("--cache", "--ways")),
            (options.memory, options.bandwidth, ("--memory", "--bandwidth")),
        )
    ]
    tables = _tables(options, [options.out, options.json, options.picture])

    from msbgen.data.sharing import Sharing

    sharing = Sharing(
        ways=tuple(options.ways or (_fewest_ways(tables),)),
        cache=groups[0],
        bandwidth=tuple(options.bandwidth or (math.inf,)),
        memory=groups[1],
        frequency=_clocks(tables),
        starts=tuple(_each(options.starts, len(tables), "--starts")),
        channel=options.channel,
        afterwards="loop" if options.loop else "idle",
    )
    _predict(options, tables, sharing)


def run_repair(options: argparse.Namespace) -> None:
    """Find and show the best partition of the cache."""
    deadlines = _deadlines(options)
    starts = _each(options.starts, len(options.files), "--starts")
    tables = _tables(options, [options.out, options.json])

    from msbgen.systems.beside import best_partition

    with Progress("comparing") as step:
        found = best_partition(
            tables, _one_socket(options, tables, starts),
            objective=options.objective, deadlines=deadlines, progress=step,
        )  # fmt: skip
    tasks = [table.task for table in tables]
    rows = [["task", "ways", "duration [s]", "slowdown", "deadline"]]
    for i, task in enumerate(tasks):
        ways = found.sharing.ways[found.sharing.cache[i]]
        rows.append([task, f"{ways:g}", *_outcome(found, i, deadlines)])
    _write_placement(found, tasks, options)
    shared.write_or_show_table(rows, options.out, force=options.force)
    shared.print_message(_repair_text(found))


def run_choose(options: argparse.Namespace) -> None:
    """Choose and show the placement."""
    deadlines = _deadlines(options)
    tables = _tables(options, [options.out, options.json])

    from msbgen.systems.beside import choose_placement

    sockets = options.sockets or math.ceil(len(tables) / 2)
    with Progress("comparing") as step:
        found = choose_placement(
            tables, sockets, _one_socket(options, tables),
            objective=options.objective, deadlines=deadlines, progress=step,
        )  # fmt: skip
    tasks = [table.task for table in tables]
    rows = [["socket", "task", "duration [s]", "slowdown", "deadline"]]
    for socket, group in enumerate(found.groups):
        rows += [[str(socket), tasks[i], *_outcome(found, i, deadlines)] for i in group]
    _write_placement(found, tasks, options)
    shared.write_or_show_table(rows, options.out, force=options.force)
    shared.print_message(
        f"{options.objective} {found.value:.4g}; the worst of {found.compared} placements has "
        f"{found.worst:.4g}."
    )


def _check_number(files: Sequence[Path]) -> None:
    if len(files) < 2:
        raise UsageError("1 file is named; two or more programs are wanted.")


def _deadlines(options: argparse.Namespace) -> list[float] | None:
    """The longest duration of each program [s], where they are given."""
    _check_number(options.files)
    if options.deadlines:
        return _each(options.deadlines, len(options.files), "--deadlines")
    if options.objective == "deadlines":
        raise UsageError("--objective deadlines wants --deadlines, the longest durations.")
    return None


def _tables(options: argparse.Namespace, outputs: Sequence[Path | None]) -> list[ProgramTable]:
    """What each program does alone, read once for each file and clock."""
    paths = options.files
    shared.check_files(list(dict.fromkeys(paths)), outputs, force=options.force)

    from msbgen.systems.beside.columns import Columns

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
    return tables


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
    from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
    from msbgen.data.profiles import Profiles
    from msbgen.engine.generate.fit import fit_model
    from msbgen.engine.generate.model import ProfileModel
    from msbgen.systems.beside.table import duration_spread, is_grid, program_table

    measured, model = shared.read_measured(path, ProfileModel.of_file)
    profiles = Profiles.of(measured)
    doubt = duration_spread(profiles)
    source: Any = measured if model is None else model
    if model is None and not is_grid(profiles, columns) and len(profiles.contexts) >= 4:
        if columns.misses not in profiles.counters:
            raise ProfileError(
                f"{path.name}: has no counter '{columns.misses}'; measure it, or name the counter "
                f"of misses that it has by --misses."
            )
        with Progress("fitting") as step:
            source = fit_model(profiles, progress=step)
    place = "" if source is measured else f"{path.name}: "
    try:
        return program_table(source, clock, columns=columns, doubt=doubt)
    except ArgumentError as error:  # only the clock is the user's
        raise UsageError(f"{place}{error}") from None
    except MeasurementError as error:
        raise ProfileError(f"{place}{error}") from None


def _fewest_ways(tables: Sequence[ProgramTable]) -> float:
    return float(min(table.most_ways for table in tables))


def _clocks(tables: Sequence[ProgramTable]) -> tuple[float, ...]:
    return tuple(1.0 if math.isnan(table.frequency) else table.frequency for table in tables)


def _one_socket(
    options: argparse.Namespace,
    tables: Sequence[ProgramTable],
    starts: Sequence[float] | float = 0.0,
) -> Sharing:
    """One cache and one pool for all programs."""
    from msbgen.data.sharing import shared_by_all

    return shared_by_all(
        len(tables), ways=float(options.ways or _fewest_ways(tables)),
        bandwidth=options.bandwidth, frequency=_clocks(tables), starts=starts,
        channel=options.channel, afterwards="loop" if options.loop else "idle",
    )  # fmt: skip


def _predict(options: argparse.Namespace, tables: Sequence[ProgramTable], sharing: Sharing) -> None:
    """Predict and show the courses."""
    from msbgen.systems.beside import duration_bounds, find_harm, play

    course = play(tables, sharing)
    level = 1 - options.miscoverage
    with Progress("drawing") as step:
        bounds = duration_bounds(tables, sharing, level, rng=options.seed, progress=step)
    harm = find_harm(tables, sharing)
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
        }  # fmt: skip
        shared.write_json(content, options.json, force=options.force)
    if options.out:
        from msbgen.data.store import save_netcdf
        from msbgen.systems.beside.course import course_dataset

        save_netcdf(course_dataset(course, bounds), options.out, overwrite=options.force)
    if options.picture:
        from msbgen.systems.beside.picture import draw_course

        draw_course(course, options.picture, overwrite=options.force)


def _outcome(found: Placement, i: int, deadlines: Sequence[float] | None) -> list[str]:
    """Duration, slowdown, and whether the deadline is kept, of one program."""
    kept = "missed" if i in found.missed else "kept" if deadlines else ""
    return [f"{found.durations[i]:.4g}", f"{found.slowdown[i]:.3f}", kept]


def _write_placement(found: Placement, tasks: Sequence[str], options: argparse.Namespace) -> None:
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


def _repair_text(found: Placement) -> str:
    """One line about the best partition."""
    from msbgen.core.words import number_of

    if found.compared == 1:
        return (
            f"nothing to compare; a cache of {number_of(found.sharing.ways[0], 'way')} has no "
            f"partition for {len(found.durations)} programs."
        )
    if len(found.sharing.ways) == 1:
        return f"none of {found.compared - 1} partitions is better than the shared cache."
    return (
        f"the best of {found.compared - 1} partitions and the shared cache; the worst has "
        f"{found.worst:.4g}, this one {found.value:.4g}."
    )


def _values(given: Sequence[float]) -> str:
    from msbgen.core.words import number_of

    return number_of(len(given), "value") if given else "no values"


def _each(values: Sequence[float], n: int, name: str) -> list[float]:
    """A value of each program; one value is that of all."""
    if len(values) not in (1, n):
        raise UsageError(f"{name} has {_values(values)}; one, or one for each of {n} programs.")
    return list(values) * (n if len(values) == 1 else 1)


def _picture(text: str) -> Path:
    """A picture to write."""
    if not text.lower().endswith(".png"):
        raise argparse.ArgumentTypeError(f"{text!r} is no PNG; end the name with .png")
    return shared.output(text)
