"""Tables of times as people keep them, without a column map: one row a run, or runs side by side.

Columns are recognized by their names and units: the time, totals such as an energy, repeats, and
what is derived from times.  All others are settings.  Sentences name what was taken for what.
"""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from msbgen.core.durations import UNITS, time_unit
from msbgen.core.errors import ProfileError, quoted
from msbgen.data.columns import MISSING, NUMBER, ColumnMap, Table, bare_name
from msbgen.data.files import check_input
from msbgen.data.units import BYTES, HERTZ, JOULES, WATTS
from msbgen.sources.timings.timings import Column, Timings, column_of, resource_name

Floats = NDArray[np.float64]

# Names of the time, in the order in which one of several is taken, and of other columns.
_TIMES = (
    "time", "duration", "runtime", "run time", "execution time", "exec time", "elapsed",
    "elapsed time", "wall", "wall time", "walltime", "wall clock", "wallclock", "real",
    "real time", "latency", "makespan", "mean", "mean time", "avg time", "average time",
    "execution", "total time", "time to solution", "response time", "cpu time", "median",
)  # fmt: skip
_REPEATS = (
    "run", "rep", "repeat", "repetition", "replicate", "trial", "iteration", "iter", "sample",
    "seed", "index", "id", "no", "nr", "measurement", "attempt", "round", "", "unnamed: 0",
)  # fmt: skip
_DERIVED = (
    "std", "stdev", "stddev", "std dev", "sd", "sem", "ci", "error", "err", "stderr", "variance",
    "var", "min", "max", "p50", "p90", "p95", "p99", "q1", "q3", "iqr", "user", "system", "sys",
    "speedup", "speed up", "efficiency", "throughput", "gflops", "gflop/s", "mflops", "flops",
    "ipc", "date", "timestamp", "comment", "comments", "note", "notes", "exit code", "status",
    "ops", "rounds", "iterations", "outliers", "command",
)  # fmt: skip
_TOTALS = {
    "energy": "J", "joules": "J", "power": "W", "watts": "W", "peak memory": "B",
    "max memory": "B", "max rss": "B", "maxrss": "B", "rss": "B", "cost": "1",
}  # fmt: skip
# Cells of the time of runs that did not end.
_FAILED = (
    "timeout", "timed out", "failed", "fail", "error", "crash", "crashed", "oom", "killed", "dnf",
    "x", "inf", "did not finish", "abort", "aborted",
)  # fmt: skip
# A title with a unit in brackets of either kind, or as its last part.
_BRACKETS = re.compile(r"(.*?)\s*[\[(]\s*([^\[\]()]*?)\s*[\])]\s*")
_LAST_PART = re.compile(r"(.*?)(?:[_\s/.-]+|\s+in\s+)([^\W\d_]+)")
_KNOWN_UNITS = {**UNITS, **WATTS, **JOULES, **HERTZ, **BYTES}
# A repeat beside others: run1, rep 2, time_3, #4.
_NUMBERED = re.compile(r"(.*?)[\s_#.-]*(\d+)(?:st|nd|rd|th)?")
# Numbers with separators of thousands and decimal commas, and times of day as 1:23.4.
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:[,' \u00a0\u202f]\d{3})+(?:\.\d+)?")
_EUROPEAN = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})*,\d+")
_GROUPS_ONLY = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")
_MINUTES = re.compile(r"(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")
_WITH_UNIT = re.compile(r"(.*?\d)\s*([^\W\d_]+|%)")
# A line of a recording of perf: a time with nine decimals.
_STAMPED = re.compile(r" *\d+\.\d{9}\D")
# A time that grows by equal steps, up to this share of them, in as many rows, is a course in time.
_EQUAL, _COURSE = 0.3, 8
# A column with more different values than this share of its rows, no whole numbers, was measured.
_MEASURED, _FEW_ROWS = 0.5, 8


@dataclass(frozen=True)
class Roles:
    """Which columns are what, where names do not tell: `--setting`, `--time`, `--ignore`."""

    settings: tuple[str, ...] = ()
    time: str = ""
    ignored: tuple[str, ...] = ()


NO_ROLES = Roles()


@dataclass(frozen=True)
class Title:
    """A header's name in lower case, its unit, and the header itself."""

    name: str
    unit: str
    header: str


def read_times(path: str | os.PathLike[str], roles: Roles = NO_ROLES) -> Timings:
    """Durations and settings in a table (see the module), with sentences in `taken`.

    The table is CSV with any usual separator or Markdown, in UTF-8 or UTF-16.

    ProfileError: the file cannot be read; no column or several may be the time; a header is there
    twice; or a cell of the time is no positive number, with its line.
    """
    path = check_input(path)
    table, lines = table_of(path)
    titles = {header: title_of(header) for header in table.columns}
    for name in (*roles.settings, *roles.ignored, *filter(None, [roles.time])):
        _header(path.name, titles, name)
    return _timings(path, table, lines, titles, roles)


def is_table_of_times(text: str) -> bool:
    """Whether a text begins as a table whose header names a time, or runs side by side."""
    lines = [line for line in text.splitlines()[:50] if line.strip() and not line.startswith("#")]
    if len(lines) < 2 or lines[0].lstrip()[:1] in "{[<" or any(map(_STAMPED.match, lines)):
        return False
    separator = _separator(lines[0])
    header = _cells(lines[0], separator)
    if len(header) < 2 or any(NUMBER.fullmatch(cell) for cell in header):
        return False
    titles = {cell: title_of(cell) for cell in header}
    return bool(time_columns(titles)) or bool(_side_by_side(titles))


def _timings(
    path: Path, table: pd.DataFrame, lines: NDArray[np.int64], titles: Mapping[str, Title],
    roles: Roles,
) -> Timings:  # fmt: skip
    ignored = {_header(path.name, titles, name) for name in roles.ignored}
    settings = {_header(path.name, titles, name) for name in roles.settings}
    free = {h: t for h, t in titles.items() if h not in ignored | settings}
    beside = [] if roles.time else _side_by_side(free)
    taken: list[str] = []
    if beside:
        timed = beside
        unit, listed = _unit_of_time(free[timed[0]]), ", ".join(map(repr, timed))
        taken.append(f"times [{unit}]: {listed}, runs side by side")
    else:
        timed = [_time_column(path.name, free, table, roles.time, titles)]
        unit = _unit_of_time(titles[timed[0]])
        taken.append(
            f"time [{unit}]: {timed[0]!r}"
            + ("" if _has_time_unit(titles[timed[0]]) else ", which names no unit")
        )
        if not roles.time and not settings:
            _check_no_course(path.name, cells_of(table, timed[0]), timed[0])
    rest = [h for h in titles if h not in {*timed, *ignored}]
    columns: dict[str, Column] = {}
    totals: dict[str, tuple[Floats, str]] = {}
    left: list[str] = []
    names: dict[str, str] = {}
    seconds = np.concatenate(
        [seconds_of(path.name, cells_of(table, h), lines, titles[h]) for h in timed]
    )
    for header in rest:
        title = titles[header]
        chosen = header in settings
        another_time = not roles.time and title.name in _TIMES
        if not chosen and (title.name in _REPEATS or another_time):
            left.append(header)
        elif not chosen and (kind := _total_of(title)):
            values = numbers_of(cells_of(table, header))
            if values is None:
                left.append(header)
                continue
            factors = {**WATTS, **JOULES, **BYTES}
            values = np.tile(values * factors.get(title.unit, 1.0), len(timed))
            if kind == "W":
                name, values, kind = "energy", values * seconds, "J"
                taken.append(f"energy [J]: {header!r} times the time")
            else:
                name = resource_name(title.name)
                taken.append(f"{name} [{kind}], a total of each run: {header!r}")
            totals[name] = values, kind if kind == "J" else "1"
        elif not chosen and title.name in _DERIVED:
            left.append(header)
        else:
            column = _setting(cells_of(table, header), title.unit)
            if not chosen and _looks_measured(column, len(table)):
                left.append(header)
                continue
            plain = title.name.removeprefix("parameter ") or header  # of hyperfine's CSV
            name = resource_name(plain, list(columns))
            columns[name], names[name] = column, header
    if columns:
        shown = [_shown(name, columns[name]) for name in columns]
        taken.append(f"settings: {', '.join(shown)}")
    if left:
        taken.append(f"left out: {', '.join(map(repr, left))}")
    spread = {
        name: Column(np.tile(c.values, len(timed)), c.units, c.labels)
        for name, c in columns.items()
    }
    return Timings(path.name.partition(".")[0], path.name, seconds, spread, totals, tuple(taken))


def _check_no_course(file: str, cells: pd.Series, header: str) -> None:
    """Refuse a time that grows by equal steps: that of samples of one run, not of many runs."""
    values = numbers_of(cells)
    if values is None or len(values) < _COURSE or not np.isfinite(values).all():
        return
    steps = np.diff(values)
    if (steps > 0).all() and np.ptp(steps) <= _EQUAL * np.median(steps):
        raise ProfileError(
            f"{file}: {header!r} grows by equal steps, as the times of samples within one run; for "
            f"those --form table with --columns is wanted, for times of runs --time {header}."
        )


def read_mapped_times(path: str | os.PathLike[str], columns: ColumnMap) -> Timings:
    """Durations in a table whose map names resources and a ``duration``, and no time or events.

    Errors as :class:`msbgen.data.columns.Table`.
    """
    table = Table(path, columns, needed=(*columns.resources, "duration"))
    unit = table.unit("duration") or "s"
    if unit not in UNITS:
        raise ProfileError(
            f"{table.file}: 'duration' is in {quoted(unit)}; one of {', '.join(UNITS)} is wanted."
        )
    settings = {n: Column(table.numbers(n), table.unit(n) or "1") for n in columns.resources}
    seconds = UNITS[unit] * table.numbers("duration", empty=True)
    return Timings(table.file.partition(".")[0], table.file, seconds, settings)


def is_map_of_durations(content: Mapping[str, Any]) -> bool:
    """Whether the table of a column map names resources, a duration and neither time nor events."""
    resources, titles = content.get("resources"), content.get("columns")
    if not isinstance(resources, list) or not isinstance(titles, dict):
        return False
    names = {bare_name(str(title)) for title in titles}
    return "duration" in names and names <= {*map(str, resources), "duration", "run"}


def _shown(name: str, column: Column) -> str:
    """A setting with its unit or its words, for a sentence."""
    if column.labels:
        words = ", ".join(column.labels[:3]) + (", …" if len(column.labels) > 3 else "")
        return f"{name} (words {words})"
    return f"{name} [{column.units}]"


# --------------------------------------------------------------------------- roles of columns


def _header(file: str, titles: Mapping[str, Title], name: str) -> str:
    """The header that a name means; ProfileError where there is none."""
    wanted = " ".join(name.lower().replace("_", " ").split())
    for header, title in titles.items():
        if name == header or wanted == title.name or wanted == header.lower().replace("_", " "):
            return header
    raise ProfileError(f"{file}: there is no column {quoted(name)}; it has {', '.join(titles)}.")


def title_of(header: str) -> Title:
    """Name and unit of a header: ``Time (ms)``, ``time [ms]``, ``time_ms`` and ``ms``."""
    plain = " ".join(header.replace("_", " ").split())
    if found := _BRACKETS.fullmatch(header.strip()):
        name = " ".join(found[1].replace("_", " ").lower().split())
        return Title(name, time_unit(found[2]), header)
    if time_unit(plain) in UNITS:
        name = "min" if plain.lower() == "min" else "time"  # a least time, or minutes
        return Title(name, time_unit(plain), header)
    found = _LAST_PART.fullmatch(plain)
    if found:
        name, word = found[1].lower().strip(), found[2]
        units = [u for u in _KNOWN_UNITS if u.lower() == word.lower()]
        for unit in (word, time_unit(word), *units):
            if unit in _KNOWN_UNITS and (len(word) > 1 or unit == "s" or name in _TOTALS):
                return Title(name, unit, header)
    return Title(plain.lower(), "", header)


def _has_time_unit(title: Title) -> bool:
    return title.unit in UNITS


def _unit_of_time(title: Title) -> str:
    return title.unit if title.unit in UNITS else "s"


def time_columns(titles: Mapping[str, Title]) -> list[str]:
    """Headers that may be the time: the best kind of name that is there."""
    named = [h for h, t in titles.items() if t.name in _TIMES and (not t.unit or _has_time_unit(t))]
    if len(named) > 1:
        for word in _TIMES:  # the first words are the plainest
            first = [h for h in named if titles[h].name == word]
            if first:
                return first if len(first) == 1 else named
    if named:
        return named
    ending = [
        header for header, t in titles.items()
        if re.search(r"\b(time|duration|runtime|seconds)\b", t.name)
        and (not t.unit or _has_time_unit(t))
    ]  # fmt: skip
    return ending or [h for h, t in titles.items() if _has_time_unit(t)]


def _time_column(
    file: str, titles: Mapping[str, Title], table: pd.DataFrame, wanted: str,
    every: Mapping[str, Title],
) -> str:  # fmt: skip
    """The header of the time; ProfileError where none or several may be it."""
    if wanted:
        return _header(file, every, wanted)
    found = time_columns(titles)
    if not found:
        found = [
            h for h in titles
            if titles[h].name not in _DERIVED and not _total_of(titles[h])
            and _looks_measured(_setting(cells_of(table, h), ""), len(table))
        ]  # fmt: skip
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found or titles)
    state = f"{listed} may each be the time" if found else f"none of {listed} is named as a time"
    hint = "" if len(found) < 3 else "; 'msbgen runtime import' reads workloads × machines"
    raise ProfileError(f"{file}: {state}; name the column of the time (--time COLUMN){hint}.")


def _side_by_side(titles: Mapping[str, Title]) -> list[str]:
    """Headers of runs side by side: run1, run2, …; none if a column of the time is there."""
    stems: dict[str, list[str]] = {}
    for header, title in titles.items():
        found = _NUMBERED.fullmatch(title.name)
        if found:
            stem = found[1].strip()
            if (
                stem in _TIMES
                or (stem in _REPEATS and stem not in ("id", "seed", "index"))
                or stem in ("r", "t")
            ):
                stems.setdefault(stem, []).append(header)
    best = max(stems.values(), key=len, default=[])
    return best if len(best) > 1 else []


def _total_of(title: Title) -> str:
    """Unit of a total of each run: J, W or B, or 1; empty for other columns."""
    for unit, table in (("J", JOULES), ("W", WATTS)):
        if title.unit in table and (title.name in _TOTALS or title.unit in ("J", "W", "mW", "mJ")):
            return "" if re.search(r"limit|cap|budget|max|tdp", title.name) else unit
    if re.search(r"limit|cap|budget|tdp", title.name):
        return ""
    if title.name in _TOTALS:
        return _TOTALS[title.name]
    return ""


def _looks_measured(column: Column, rows: int) -> bool:
    """Whether a column holds measured numbers, not levels: many different ones, not all whole."""
    values = column.values[np.isfinite(column.values)]
    if column.labels or rows < _FEW_ROWS or not values.size:
        return False
    several = np.unique(values).size > _MEASURED * rows
    return several and bool((values != np.floor(values)).any())


# --------------------------------------------------------------------------- cells


def cells_of(table: pd.DataFrame, header: str) -> pd.Series:
    """Texts of a column."""
    return cast("pd.Series", table[header])


def _setting(cells: pd.Series, unit: str) -> Column:
    """A column of levels, by its different cells."""
    codes, texts = pd.factorize(cells)
    numbers = numbers_of(pd.Series(texts))
    if numbers is not None:
        return Column(numbers[codes], unit or "1")
    found = column_of([str(text) for text in texts], unit)
    return Column(found.values[codes], found.units, found.labels)


def numbers_of(cells: pd.Series) -> Floats | None:
    """Cells as numbers, NaN where one is missing; None where one is none."""
    fast = np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=float)
    if np.isfinite(fast).all():
        return fast
    texts = [text.strip() for text in cells]
    style = _decimal(texts)
    values = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        if text.lower() in MISSING:
            continue
        number = _plain(text, style)
        if number is None or not np.isfinite(number):
            return None
        values[i] = number
    return values


def _decimal(texts: Sequence[str]) -> str:
    """How a column writes commas: "," for decimal ones, "" for thousands; "?" where unclear."""
    commas = [text for text in texts if "," in text]
    if not commas:
        return ""
    if all(_THOUSANDS.fullmatch(text) for text in commas):
        points = any("." in text for text in texts)
        lone = all(_GROUPS_ONLY.fullmatch(text) for text in commas)
        return "" if points or lone or len(commas) < len(texts) else ","
    return "," if all(_EUROPEAN.fullmatch(t) or "." not in t for t in commas) else ""


def _plain(text: str, style: str) -> float | None:
    """A cell as a number; None where it is none."""
    if style == ",":
        text = text.replace(".", "").replace(",", ".") if "," in text else text
    elif _THOUSANDS.fullmatch(text):
        text = re.sub(r"[,' \u00a0\u202f]", "", text)
    return float(text) if NUMBER.fullmatch(text) else None


def seconds_of(
    file: str, cells: pd.Series, lines: NDArray[np.int64], title: Title, header: str = ""
) -> Floats:
    """Cells of a time in seconds, NaN where one is missing; ProfileError with the line."""
    header = header or title.header
    factor = UNITS[_unit_of_time(title)]
    values = numbers_of(cells)
    if values is None:
        style = _decimal([text.strip() for text in cells])
        values = np.array([_time_of(text.strip(), style, factor) for text in cells])
        bad = np.isinf(values)
        if bad.any():
            i = int(np.argmax(bad))
            raise ProfileError(
                f"{file}: line {lines[i]} has the {header} {quoted(cells.iloc[i])}; a number "
                f"is wanted."
            )
    else:
        values = values * factor
    bad = values <= 0
    if bad.any():
        i = int(np.argmax(bad))
        raise ProfileError(
            f"{file}: line {lines[i]} has the {header} {quoted(cells.iloc[i])}; a time above "
            f"0 is wanted: measure it in a finer unit, or drop the line."
        )
    return values


def _time_of(text: str, style: str, factor: float) -> float:
    """A cell in seconds, with a unit of its own or as 1:23.4; NaN if missing, inf if no time."""
    if text.lower() in MISSING or text.lower() in _FAILED:
        return np.nan
    if found := _MINUTES.fullmatch(text):
        return 3600.0 * int(found[1] or 0) + 60.0 * int(found[2]) + float(found[3])
    if (found := _WITH_UNIT.fullmatch(text)) and time_unit(found[2]) in UNITS:
        text, factor = found[1], UNITS[time_unit(found[2])]
    number = _plain(text, style)
    return np.inf if number is None else factor * number


# --------------------------------------------------------------------------- text


def table_of(path: Path) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Cells of a table as texts, and the number of the line of each row."""
    text = decoded(path)
    numbered = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not re.fullmatch(r"[\s|:+-]+", line)
    ]
    while (
        len(numbered) > 1 and numbered[0][1].startswith("#") and not numbered[1][1].startswith("#")
    ):
        below = numbered[1][1]
        if (
            len(_cells(numbered[0][1], _separator(below)))
            == len(_cells(below, _separator(below)))
            > 1
        ):
            break
        numbered.pop(0)
    numbered = [(n, line) for n, line in numbered[:1]] + [
        (n, line) for n, line in numbered[1:] if not line.startswith("#")
    ]
    if len(numbered) < 2:
        raise ProfileError(f"{path.name}: a header and at least one row below it are wanted.")
    first, head = numbered[0]
    head = head.lstrip("# ")
    separator = _separator(head)
    header = _cells(head, separator)
    if all(NUMBER.fullmatch(cell) for cell in header):
        raise ProfileError(
            f"{path.name}: line {first} is {quoted(head)}; a header with the names of the columns "
            f"is wanted above the numbers."
        )
    twice = [name for name, n in Counter(filter(None, header)).items() if n > 1]
    if twice:
        raise ProfileError(
            f"{path.name}: line {first}: column {quoted(twice[0])} is there twice; rename one."
        )
    body = "\n".join(line for _, line in numbered[1:])
    if separator == "|":
        body = "\n".join(line.strip().strip("|") for line in body.split("\n"))
    pattern = r"\s{2,}|\t" if separator == "  " else separator
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                io.StringIO(body), sep=pattern, header=None,
                names=range(len(header)), index_col=False, dtype=str, keep_default_na=False,
                na_filter=False, skip_blank_lines=False, skipinitialspace=True,
                engine="python" if separator == "  " else "c",
            )  # fmt: skip
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        raise ProfileError(_ragged(path.name, str(error), header, separator, numbered)) from None
    lines = np.array([number for number, _ in numbered[1:]])
    if len(table) != len(lines):  # a quoted cell goes on in the next line
        lines = np.arange(first + 1, first + 1 + len(table))
    table = table.fillna("")
    table.columns = [name or f"column {i + 1}" for i, name in enumerate(header)]
    empty = [i for i, name in enumerate(header) if not name]
    return table.drop(columns=[table.columns[i] for i in empty]), lines


def _ragged(
    file: str,
    error: str,
    header: Sequence[str],
    separator: str,
    numbered: Sequence[tuple[int, str]],
) -> str:
    """A sentence about the first line with more cells than the header, or else the error."""
    for number, line in numbered[1:]:
        width = len(_cells(line, separator))
        if width > len(header):
            return (
                f"{file}: line {number} has {width} cells, the header {len(header)}; as many are "
                f"wanted."
            )
    return f"{file}: cannot be read as a table ({error.splitlines()[0]})."


def header_line(path: Path) -> list[str]:
    """Cells of the first line of a table that is no comment."""
    lines = [line for line in decoded(path).splitlines() if line.strip() and line[0] != "#"]
    return _cells(lines[0], _separator(lines[0])) if lines else []


def decoded(path: Path) -> str:
    """The text of a file in UTF-8 or UTF-16; ProfileError for another one."""
    data = path.read_bytes()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ProfileError(
            f"{path.name}: line {line} is not UTF-8; save the table as UTF-8."
        ) from None


def _separator(line: str) -> str:
    """The separator of a header: the first of these that is in it."""
    if line.strip().startswith("|"):
        return "|"
    for mark in ("\t", ";", ","):
        if mark in line:
            return mark
    return "|" if "|" in line else "  "


def _cells(line: str, separator: str) -> list[str]:
    if separator == "  ":
        return [cell.strip() for cell in re.split(r"\s{2,}", line.strip())]
    if separator == "|":
        line = line.strip().strip("|")
    try:
        row = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        row = line.split(separator)
    return [cell.strip() for cell in row]
