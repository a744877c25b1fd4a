"""CSV tables of contexts, plans and bounds."""

import csv
import math
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
    if not rest:
        raise ProfileError(f"{name}: there are no contexts below the header; list some.")
    lines = [line for line, _ in rest]
    for line, cells in rest:
        if len(cells) != len(header):
            check_width(f"{name}: line {line}", cells, len(header))
    texts = {column: [cells[k] for _, cells in rest] for k, column in enumerate(header)}
    grouped = texts.pop(GROUPS_COLUMN, [""] * len(rest))
    for resource, words in labels.items():
        if words and resource in texts:
            codes = {word: str(code) for code, word in enumerate(words, 1)}
            for line, word in zip(lines, texts[resource]):
                if word not in codes:
                    raise ProfileError(
                        f"{name}: line {line} has {shown([word])} in '{resource}'; one "
                        f"of {', '.join(words)} is wanted."
                    )
            texts[resource] = [codes[word] for word in texts[resource]]
    numbers = {column: np.array([_number(cell) for cell in texts[column]]) for column in texts}
    finite = np.all([np.isfinite(column) for column in numbers.values()], axis=0)
    if not finite.all():
        line, cells = rest[int(np.argmin(finite))]
        raise ProfileError(
            f"{name}: line {line} is {shown(cells)}; {len(numbers)} finite numbers are wanted."
        )
    groups = [
        _groups(cell, f"{name}: line {line}") if cell else () for line, cell in zip(lines, grouped)
    ]
    contexts = np.column_stack([numbers[resource] for resource in resources])
    seen: dict[tuple[float, ...], int] = {}
    for line, context in zip(lines, map(tuple, contexts.tolist())):
        if seen.setdefault(context, line) != line:
            raise ProfileError(
                f"{name}: line {line} repeats the context of line {seen[context]}; drop one."
            )
    wanted = numbers.get("runs", np.full(len(rest), float(runs)))
    counted = (wanted >= 1) & (wanted <= _MOST_RUNS) & (wanted == np.floor(wanted))
    if not counted.all():
        i = int(np.argmin(counted))
        raise ProfileError(
            f"{name}: line {lines[i]} asks for {wanted[i]:g} runs; a whole number from 1 to "
            f"{_MOST_RUNS} is wanted."
        )
    again = numbers.get(AGAIN_COLUMN, np.zeros(len(rest)))
    marked = np.isin(again, (0, 1))
    if not marked.all():
        i = int(np.argmin(marked))
        raise ProfileError(
            f"{name}: line {lines[i]} has {again[i]:g} in '{AGAIN_COLUMN}'; 1, where old runs are "
            f"to go, or 0 is wanted."
        )
    return PlannedContexts(
        contexts, wanted.astype(np.int64), tuple(groups), tuple(lines), again == 1
    )


def _groups(cell: str, at: str) -> Groups:
    """Groups of counters as a plan's cell, which is not empty, lists them."""
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
                (table.line_num, stripped)
                for cells in table
                if any(stripped := [_unmarked(cell.strip()) for cell in cells])
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


def _number(cell: str) -> float:
    """A cell as a number; NaN where it is none."""
    return float(cell) if _NUMBER.fullmatch(cell) else math.nan


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
