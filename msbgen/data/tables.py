"""CSV tables of contexts, plans and bounds."""

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError, printable, quoted
from msbgen.data.files import check_input, path_of, replace_file
from msbgen.data.schema import (
    AGAIN_COLUMN,
    BOUND_COLUMNS,
    DETECTABLE_COLUMN,
    ENERGY_BOUND,
    GROUPS_COLUMN,
    PLAN_COLUMNS,
    labels_of,
    level_text,
)

# What a spreadsheet takes for a formula; a quote in front makes it a text.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(inf|nan)", re.ASCII | re.IGNORECASE)
# More runs of one context are a mistake.
_MOST_RUNS = 1_000_000

# Counters that are measured together, for each of the runs that take turns.
Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class PlannedContexts:
    """Contexts and runs that a table plans to measure.

    For each context, `groups` has groups of counters: run r counts group r modulo their number;
    empty where every run counts all counters.
    """

    contexts: NDArray[np.float64]  # (n_contexts, n_resources)
    runs: NDArray[np.int64]  # (n_contexts,)
    groups: tuple[Groups, ...]
    lines: tuple[int, ...]  # of the file that hold them
    # (n_contexts,): whose new runs take the place of those measured before
    again: NDArray[np.bool_]


def read_contexts(
    path: str | os.PathLike[str],
    resources: Sequence[str],
    labels: Mapping[str, Sequence[str]] = {},
) -> NDArray[np.float64]:
    """Contexts (n_contexts, n_resources) from a CSV file whose header names the resources.

    Columns are in any order, those of a plan may stand beside them; errors as :func:`read_plan`.
    """
    return read_plan(path, resources, labels=labels).contexts


def read_plan(
    path: str | os.PathLike[str],
    resources: Sequence[str],
    runs: int = 1,
    labels: Mapping[str, Sequence[str]] = {},
) -> PlannedContexts:
    """Read contexts, their numbers of runs and groups of counters from a CSV file, such as a plan.

    A cell of the column ``counters`` has semicolons between groups and spaces within them; one of
    ``again`` has 1 where new runs take the place of old ones, else 0.  Without a column ``runs``
    every context has `runs`.  Columns of the contexts are in the order of `resources`; those with
    `labels` hold these words for 1, 2, ….

    ProfileError: no such file, another header, a line that is not numbers, a context that is listed
    twice, invalid groups, or no contexts.
    """
    name = path_of(path).name
    (first, header), *rest = read_lines(path) or [(1, [])]
    known = (*PLAN_COLUMNS, AGAIN_COLUMN, DETECTABLE_COLUMN, GROUPS_COLUMN)
    beside = [column for column in known if column in header]
    if sorted(header) != sorted([*resources, *beside]):
        raise ProfileError(
            f"{name}: line {first} is {shown(header)}; a header with the resources "
            f"'{','.join(resources)}', without units and separated by commas, is wanted."
        )
    seen: dict[tuple[float, ...], int] = {}
    wanted: list[int] = []
    groups: list[Groups] = []
    again: list[bool] = []
    numbers = [column for column in header if column != GROUPS_COLUMN]
    for line, cells in rest:
        check_width(f"{name}: line {line}", cells, len(header))
        given = dict(zip(header, cells))
        grouped = given.pop(GROUPS_COLUMN, "")
        for resource, words in labels.items():
            if words and resource in given:
                if given[resource] not in words:
                    raise ProfileError(
                        f"{name}: line {line} has {shown([given[resource]])} in '{resource}'; one "
                        f"of {', '.join(words)} is wanted."
                    )
                given[resource] = str(1 + list(words).index(given[resource]))
        values = _numbers(list(given.values()))
        if len(values) != len(numbers):
            raise ProfileError(
                f"{name}: line {line} is {shown(cells)}; {len(numbers)} finite numbers are wanted."
            )
        groups.append(_groups(grouped, f"{name}: line {line}"))
        row = dict(zip(numbers, values))
        context = tuple(row[resource] for resource in resources)
        if context in seen:
            raise ProfileError(
                f"{name}: line {line} repeats the context of line {seen[context]}; drop one."
            )
        seen[context] = line
        count = row.get("runs", runs)
        if not 1 <= count <= _MOST_RUNS or count != int(count):
            raise ProfileError(
                f"{name}: line {line} asks for {count:g} runs; a whole number from 1 to "
                f"{_MOST_RUNS} is wanted."
            )
        wanted.append(int(count))
        if row.get(AGAIN_COLUMN, 0) not in (0, 1):
            raise ProfileError(
                f"{name}: line {line} has {row[AGAIN_COLUMN]:g} in '{AGAIN_COLUMN}'; 1, where old "
                f"runs are to go, or 0 is wanted."
            )
        again.append(row.get(AGAIN_COLUMN) == 1)
    if not seen:
        raise ProfileError(f"{name}: there are no contexts below the header; list some.")
    return PlannedContexts(
        np.array(list(seen)),
        np.array(wanted, dtype=np.int64),
        tuple(groups),
        tuple(seen.values()),
        np.array(again),
    )


def _groups(cell: str, at: str) -> Groups:
    """Groups of counters as a plan's cell lists them; none where it is empty."""
    if not cell:
        return ()
    groups = tuple(tuple(part.split()) for part in cell.split(";"))
    if not all(group and len(set(group)) == len(group) for group in groups):
        raise ProfileError(
            f"{at} has counters {shown([cell])}; groups of distinct ones, as 'a b; a c', are "
            f"wanted."
        )
    return groups


def with_line(sentence: str, lines: Sequence[int]) -> str:
    """A sentence with the line of a table in place of the number of a run, context or row."""
    found = re.search(r"\b(?:run|context|row) (\d+)\b", sentence)
    if not found:
        return sentence
    return sentence.replace(found[0], f"line {lines[int(found[1])]}", 1)


@contextmanager
def rows_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an error about a row of a file into a ProfileError, with the line in a table."""
    path = path_of(path)
    try:
        yield
    except (ArgumentError, MeasurementError) as error:
        sentence = str(error)
        if path.suffix != ".nc":
            sentence = with_line(sentence, [line for line, _ in read_lines(path)[1:]])
        raise ProfileError(f"{path.name}: {sentence}") from None


def read_lines(path: str | os.PathLike[str], separator: str = ",") -> list[tuple[int, list[str]]]:
    """Number, counted from 1, and cells of each line of a CSV file that is not blank.

    The quote that marks a cell as a text, as :func:`cell_of` writes it, is left out.
    """
    path = check_input(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            table = csv.reader(stream, delimiter=separator)
            return [
                (table.line_num, [_unmarked(cell.strip()) for cell in cells])
                for cells in table
                if any(map(str.strip, cells))
            ]
    except UnicodeDecodeError:
        decoded = path.read_text(encoding="utf-8", errors="replace")
        line = decoded.partition("\ufffd")[0].count("\n") + 1
        raise ProfileError(f"{path}: line {line} is not UTF-8; save the table as UTF-8.") from None
    except (OSError, csv.Error) as error:
        raise ProfileError(f"{path}: cannot be read as a table ({error}).") from None


def check_separator(place: str, header: Sequence[str], separator: str, wanted: str) -> None:
    """Raise :class:`ProfileError` for a header of one cell in which another separator stands.

    `wanted` ends the sentence; ``SEPARATOR`` in it is the one that was found.
    """
    found = [mark for mark in ",;\t|" if mark != separator and mark in "".join(header)]
    if len(header) == 1 and found:
        mark = max(found, key=header[0].count)
        name = r"\t" if mark == "\t" else mark
        wanted = wanted.replace("SEPARATOR", f'"{name}"')
        raise ProfileError(f"{place} is one cell with '{name}': {wanted}.")


def check_width(place: str, cells: Sequence[str], header: int, least: int | None = None) -> None:
    """Raise :class:`ProfileError` for a line with another number of cells than its header.

    Lines of `least` cells or more are accepted where the last ones may be missing.
    """
    if not (header if least is None else least) <= len(cells) <= header:
        raise ProfileError(
            f"{place} has {len(cells)} cells, the header {header}; as many are wanted."
        )


def _numbers(cells: Sequence[str]) -> list[float]:
    """Cells as finite numbers; empty where one of them is not."""
    values = [float(cell) if _NUMBER.fullmatch(cell) else np.nan for cell in cells]
    return values if np.all(np.isfinite(values)) else []


def shown(cells: Sequence[str]) -> str:
    """A line quoted for a message: shortened, and with control characters escaped."""
    return quoted(",".join(cells))


def write_table(
    rows: Iterable[Sequence[Any]], path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write rows, the header first, as CSV, whole or not at all; errors as :func:`replace_file`."""
    with (
        replace_file(path, overwrite=overwrite) as partial,
        partial.open("w", newline="", encoding="utf-8") as stream,
    ):
        csv.writer(stream, lineterminator="\n").writerows(map(cell_of, row) for row in rows)


def cell_of(value: Any) -> Any:
    """A value for a cell of CSV: texts escaped, with a quote before what looks like a formula."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return printable(f"'{value}" if _FORMULA.match(value) else value)


def _unmarked(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


def plan_rows(
    resources: Mapping[str, Sequence[str]],
    contexts: NDArray[np.float64],
    runs: NDArray[np.int64],
    seconds: NDArray[np.float64],
    error: NDArray[np.float64],
    groups: Sequence[Sequence[str]] = (),
    again: int = 0,
) -> Iterator[list[Any]]:
    """Rows of a plan: context, runs, seconds, running total, expected error.

    Levels of `resources` with labels are written as words.  Where the first ones measure something
    `again`, a column says so.  Where counters are measured in groups these come last, the same in
    every row.
    """
    more = ["; ".join(map(" ".join, groups))] if groups else []
    marked = [AGAIN_COLUMN] if again else []
    yield [*resources, *PLAN_COLUMNS, *marked, *([GROUPS_COLUMN] if groups else [])]
    figures = zip(contexts, runs, seconds, np.cumsum(seconds), error)
    for i, (context, count, cost, total, left) in enumerate(figures):
        mark = [int(i < again)] if again else []
        numbers = count, f"{cost:.6g}", f"{total:.6g}", f"{left:.4g}"
        yield [*map(level_text, context, resources.values()), *numbers, *mark, *more]


def bound_rows(bounds: xr.Dataset) -> Iterator[list[Any]]:
    """Rows of bounds: each context, its bound [s], extrapolated, beyond.

    Where energy was counted its bound [J] comes last.
    """
    resources = [str(name) for name in bounds.coords]
    more = [ENERGY_BOUND] if ENERGY_BOUND in bounds else []
    yield [*resources, *BOUND_COLUMNS, *more]
    contexts = zip(*(bounds[name].values.tolist() for name in resources))
    labels = [labels_of(bounds[name].attrs) for name in resources]
    values = zip(*(bounds[name].values.tolist() for name in (*BOUND_COLUMNS, *more)))
    for levels, (bound, outside, beyond, *joules) in zip(contexts, values):
        energy = [f"{value:.6g}" for value in joules]
        yield [*map(level_text, levels, labels), f"{bound:.6g}", outside, beyond, *energy]
