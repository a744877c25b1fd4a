"""CSV tables whose columns go by names with units, and maps of columns for tables of other tools.

Every reader of a table takes names with the unit in brackets: ``runtime [ms]``, ``read [B]``; no
unit is a number, ``[1]``.  A table with other headers is read through a *column map*, a TOML file:

.. code-block:: toml

    resources = ["gpu_clock"]          # columns with the settings of the machine
    counters = ["hits"]                # kernels: columns with events; all others are parameters
    kind = "mobilenet"                 # kernels: kind of all rows, where no column has it
    totals = ["misses"]                # recordings: events since the start, not since the last row
    rates = ["bytes"]                  # recordings: events per second
    cycles = "cycles"                  # recordings without a time: the event that measures it
    clock = "2.4 GHz"                  # recordings: of the cycles; or a resource's name
    separator = ";"                    # a comma where it is left out

    [columns]                          # "name [unit]" = "header in the file"
    "runtime [ms]" = "latency_p50_ms"
    "gpu_clock [MHz]" = "clk"
    "kind" = "network/optimiser"       # two columns of words, joined by a stroke
    "time [ms]" = "t"                  # recordings: end of each bin since the start
    "place" = "core"                   # recordings: core or thread of the row
    "bytes [1e6]" = "MB/s"             # recordings: the number of events, or J or B with a prefix

The unit may stand in the header alone: ``power = "watts [W]"``.  Columns that a map does not list
are left out.  Without ``[columns]`` all columns go by their own
headers.
"""

import difflib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from msbgen.core.durations import UNITS, time_unit
from msbgen.core.errors import ProfileError, quoted
from msbgen.core.records import check_keys
from msbgen.data.files import path_of
from msbgen.data.tables import check_separator, check_width, read_lines, shown
from msbgen.data.toml import read_toml
from msbgen.data.units import BYTES, HERTZ, JOULES, WATTS
from msbgen.data.variables import Variable

Floats = NDArray[np.float64]

NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# Groups of thousands, or a decimal comma and three digits; a group does not begin with 0.
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)
# Cells without a value, in lower case.
MISSING = ("", "nan", "na", "n/a", "<na>", "null", "none", "-", "[n/a]", "[not supported]")
# A number with its unit, as nvidia-smi writes it: 208.36 W, 97 %.
_WITH_UNIT = re.compile(rf"({NUMBER.pattern}) ?([^\W\d_][^\s\d,;]*|%)")
# Factors of units within a quantity.
_FACTORS = (UNITS, WATTS, JOULES, HERTZ, BYTES)
_LISTS = ("resources", "counters", "totals", "rates")
# Quantities by unit: a map may correct the unit of a header, but not the quantity.
_QUANTITIES = {
    **dict.fromkeys(UNITS, "time"),
    **dict.fromkeys(WATTS, "power"),
    **dict.fromkeys(JOULES, "energy"),
    **dict.fromkeys(HERTZ, "frequency"),
}
_TEXTS = ("kind", "separator", "cycles", "clock")


@dataclass(frozen=True)
class ColumnMap:
    """Which columns of a table hold which quantities."""

    resources: tuple[str, ...] = ()  # settings of the machine
    counters: tuple[str, ...] = ()  # events; of kernels
    # header in the file by name with unit; empty: own headers
    columns: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""  # of all rows, where no column has it; of kernels
    totals: tuple[str, ...] = ()  # events counted since the start; of recordings
    rates: tuple[str, ...] = ()  # events per second; of recordings
    separator: str = ","
    cycles: str = ""  # event that measures the time; of recordings without stamps
    clock: str = ""  # of these cycles, as "2.4 GHz"; a resource; or "clock", a column


def read_column_map(
    path: str | os.PathLike[str], known: Sequence[str], needed: Sequence[str] = ()
) -> ColumnMap:
    """Column map from a TOML file with the keys `known`, the keys `needed` among them."""
    path, content = read_toml(path)
    return column_map(content, path.name, known, needed)


def column_map(
    content: Mapping[str, Any], source: str, known: Sequence[str], needed: Sequence[str] = ()
) -> ColumnMap:
    """Column map from a table of a TOML file; errors as :func:`read_column_map`."""
    check_keys(content, known, needed, source)
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key in _LISTS:
            if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
                raise ProfileError(
                    f"{source}: '{key}' is {quoted(value)}; a list of names is wanted."
                )
            if len(set(value)) < len(value):
                twice = max(value, key=value.count)
                raise ProfileError(f"{source}: {quoted(twice)} stands twice in '{key}'; drop one.")
            values[key] = tuple(value)
        elif key in _TEXTS:
            if not isinstance(value, str):
                raise ProfileError(f"{source}: '{key}' is {quoted(value)}; a text is wanted.")
            values[key] = value
        else:
            if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
                raise ProfileError(f"{source}: '{key}' is no table of names; '[{key}]' is wanted.")
            values[key] = value
    if values.get("resources", True) == ():
        raise ProfileError(f"{source}: 'resources' is empty; a name or more is wanted.")
    for first, second in (("resources", "counters"), ("totals", "rates")):
        both = set(values.get(first, ())) & set(values.get(second, ()))
        if both:
            raise ProfileError(
                f"{source}: '{min(both)}' stands in '{first}' and '{second}'; one is wanted."
            )
    separator = values.get("separator", ",")
    if len(separator) != 1 or separator in '\r\n"':
        raise ProfileError(f"{source}: separator is {separator!r}; one character is wanted.")
    return ColumnMap(**values)


def bare_name(title: str) -> str:
    """The name in a title: ``runtime [ms]`` is the runtime."""
    return title.partition("[")[0].strip()


def unit_of(title: str) -> str:
    """The unit in a title, ``ms`` in ``runtime [ms]``; empty where there is none."""
    return time_unit(title.partition("[")[2].rstrip("] ").strip())


def _check_units(file: str, titles: Mapping[str, str]) -> None:
    """Refuse a header that is of another quantity than its name in a map, or serves two units."""
    named: dict[str, str] = {}
    for title, header in titles.items():
        ours, theirs = unit_of(title), unit_of(header)
        quantity = _QUANTITIES.get(ours)
        if quantity and quantity != _QUANTITIES.get(theirs, quantity):
            raise ProfileError(
                f"{file}: column {shown([header])} is in {theirs}, and the column map names it "
                f"{shown([title])}; a column of the {quantity} is wanted."
            )
        other = named.setdefault(header, title)
        if (unit_of(other) or theirs) != (ours or theirs):
            raise ProfileError(
                f"{file}: column {shown([header])} is named twice in the column map, {other!r} and "
                f"{title!r}; one unit is wanted."
            )


def _without_comments(
    lines: list[tuple[int, list[str]]], headers: Sequence[str]
) -> list[tuple[int, list[str]]]:
    """Lines from the header on, which may begin with '#': one of `headers`, or above numbers.

    Below a header are numbers only, or as many cells as it has, at least two, and a number among
    them.
    """
    comments = list(
        takewhile(lambda line: line[1][0].startswith("#") and line[1][0] not in headers, lines)
    )
    rest = lines[len(comments) :]
    if not comments:
        return rest
    number, cells = comments[-1]
    below = rest[0][1] if rest else []
    numbers = [bool(NUMBER.fullmatch(cell.replace(",", ".", 1))) for cell in below]
    if all(numbers) or (len(below) == len(cells) > 1 and any(numbers)):
        return [(number, [cells[0].lstrip("# "), *cells[1:]]), *rest]
    return rest


class Table:
    """A CSV file whose columns go by names.

    Columns `needed` must be there; only those `known` may be, unless it is empty.  A map may join
    the texts of the columns `joined` from several.  ProfileError: no such file, no rows, a column
    that is missing, unknown or there twice, or a row of another length than the header.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: ColumnMap = ColumnMap(),
        *,
        needed: Sequence[str] = (),
        known: Sequence[str] = (),
        joined: Sequence[str] = (),
    ) -> None:
        self.file = path_of(path).name
        lines = read_lines(path, columns.separator)
        (first, header), *body = _without_comments(lines, [*columns.columns.values()]) or [(1, [])]
        wanted = "separator = SEPARATOR in a column map is wanted"
        check_separator(f"{self.file}: line {first}", header, columns.separator, wanted)
        self.header = tuple(header)
        self._decimal_commas = columns.separator != ","
        named = [title for title in header if title or known]  # an index has none
        titles = dict(columns.columns) or {title: title for title in named}
        mapped = [bare_name(title) for title in titles]
        for name in (*columns.resources, *columns.counters):  # those listed keep their own header
            own = [title for title in header if bare_name(title) == name]
            if name not in mapped and len(own) == 1:
                titles[own[0]] = own[0]
        self.names = [bare_name(title) for title in titles]
        often, there = Counter(self.names), Counter(header)
        for name in self.names:
            if often[name] > 1:
                raise ProfileError(f"{self.file}: column {shown([name])} is there twice; drop one.")
            if known and name not in known:
                raise ProfileError(
                    f"{self.file}: line {first} has an unknown column {shown([name])}; "
                    f"{', '.join(known)} are known."
                )
        if missing := [name for name in needed if name not in self.names]:
            one = len(missing) == 1
            remedy = ""
            if columns.columns:
                remedy = " in [columns] of the column map, which lists every column that is read"
            elif joined:
                remedy = f", or {'its header' if one else 'their headers'} in the column map"
            raise ProfileError(
                f"{self.file}: line {first} is {shown(header)}; "
                f"{'a column' if one else 'columns'} {shown(missing)} {'is' if one else 'are'} "
                f"wanted{remedy}."
            )
        _check_units(self.file, titles)
        self._units = {bare_name(t): unit_of(t) or unit_of(theirs) for t, theirs in titles.items()}
        self._at: dict[str, list[int]] = {}
        place = {title: i for i, title in enumerate(header)}
        for name, theirs in zip(self.names, titles.values()):
            parts = theirs.split("/") if name in joined and theirs not in there else [theirs]
            for part in parts:
                if there[part] != 1:
                    near = difflib.get_close_matches(part, header, 1)
                    hint = f"did you mean '{near[0]}'?" if near else f"{shown(header)} are."
                    state = (
                        "is there twice; drop one." if part in there else f"is no column; {hint}"
                    )
                    raise ProfileError(f"{self.file}: '{part}' {state}")
            self._at[name] = [place[part] for part in parts]
        if not body:
            raise ProfileError(f"{self.file}: a header and at least one row below it are wanted.")
        for line, cells in body:
            check_width(f"{self.file}: line {line}", cells, len(header))
        self.lines = [line for line, _ in body]
        self._cells = [cells for _, cells in body]

    def unit(self, name: str) -> str:
        """The unit of a column; empty where it has none."""
        return self._units[name]

    def texts(self, name: str) -> list[str]:
        """Cells of a column, of several that make one joined by strokes; empty without it."""
        return ["/".join(cells[at] for at in self._at.get(name, ())) for cells in self._cells]

    def refuse(self, name: str, row: int, wanted: str) -> NoReturn:
        """Raise :class:`ProfileError` about a cell: the sentence ends with what is wanted."""
        raise ProfileError(
            f"{self.file}: line {self.lines[row]} has the {name} {shown([self.texts(name)[row]])}; "
            f"{wanted}."
        )

    def numbers(self, name: str, *, empty: bool = False) -> Floats:
        """Cells of a column; NaN where one is empty or 'NaN', if cells may be `empty`.

        Numbers may have decimal commas where these do not separate columns, and where not all of
        a column may be separators of thousands.  They may have units, which become that of the
        column.
        """
        values = np.full(len(self.lines), np.nan)
        cells = self.texts(name)
        if self._decimal_commas and not any("." in cell for cell in cells):
            commas = [row for row, cell in enumerate(cells) if "," in cell]
            if commas and all(_THOUSANDS.fullmatch(cells[row]) for row in commas):
                wanted = "write it without a separator of thousands, or with a decimal point"
                self.refuse(name, commas[0], wanted)
            cells = [cell.replace(",", ".", 1) for cell in cells]
        for row, cell in enumerate(cells):
            if empty and cell.lower() in MISSING:
                continue
            factor = 1.0
            found = None if NUMBER.fullmatch(cell) else _WITH_UNIT.fullmatch(cell)
            if found is not None:
                cell, factor = found[1], self._factor(name, row, found[2])
            if not NUMBER.fullmatch(cell) or not np.isfinite(float(cell)):
                self.refuse(name, row, "a number is wanted")
            values[row] = factor * float(cell)
        return values

    def _factor(self, name: str, row: int, unit: str) -> float:
        """Units of a column in the unit of a cell; refuses a cell of another quantity."""
        unit, own = time_unit(unit), self._units[name] or unit
        if unit == own:
            return 1.0
        for factors in _FACTORS:
            if unit in factors and own in factors:
                return factors[unit] / factors[own]
        return self.refuse(name, row, f"a number in '{own}' is wanted")

    def range(
        self,
        name: str,
        least: float,
        most: float,
        wanted: str,
        *,
        empty: bool = False,
        whole: bool = False,
    ) -> Floats:
        """Numbers of a column from `least` to `most`; `wanted` says so and what else to do."""
        values = self.numbers(name, empty=empty)
        good = (values >= least) & (values <= most) | np.isnan(values)
        if whole:
            good &= (values == np.floor(values)) | np.isnan(values)
        if not good.all():
            self.refuse(name, int(np.argmin(good)), wanted)
        return values

    def declared(self, name: str, variable: Variable) -> Floats:
        """Numbers of a column in the range of a variable, which says whether cells may be empty."""
        wanted = variable.wanted().replace("NaN", "an empty cell")
        remedy = f": {variable.remedy}" if variable.remedy else ""
        return self.range(
            name,
            variable.least,
            variable.most,
            f"{wanted} is wanted{remedy}",
            empty=bool(variable.missing),
        )

    def seconds(self, name: str, least: float, most: float) -> Floats:
        """Positive times of a column in seconds, from the unit in its title."""
        unit = self.unit(name)
        if unit not in UNITS:
            raise ProfileError(
                f"{self.file}: the {name} has no known unit ('{unit}'); '{name} [s]', or one of "
                f"{', '.join(UNITS)} in its place, is wanted, in the header or as the name in a "
                f"column map."
            )
        seconds = UNITS[unit] * self.numbers(name)
        good = (seconds >= least) & (seconds <= most)
        if not good.all():
            self.refuse(
                name,
                int(np.argmin(good)),
                f"a positive number is wanted, from {least:g} to {most:g} s: measure it again or "
                f"drop the line",
            )
        return seconds
