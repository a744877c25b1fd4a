"""Reader of ``perf stat -I N -x SEP``: one line per timestamp and event, any separator.

A line is ``time SEP [place SEP [number SEP]] value SEP unit SEP event SEP [group SEP] run-time SEP
percentage [SEP metric SEP unit]`` (perf-stat(1), "CSV FORMAT").  perf quotes nothing, so a locale
or an event may put the separator into a cell.  Such lines are repaired if only one reading fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from msbgen.core.errors import ProfileError
from msbgen.core.words import number_of
from msbgen.data.tables import shown
from msbgen.sources.measure.readers.recording import COUNTED, NOT_COUNTED, NOT_SUPPORTED, Rows

# Places as perf writes them: those followed by a number of CPUs, and those without.
_SEVERAL = r"(?:[SND]\d+(?:-(?:D|C|L|CLS|ID|N)\d+)*)"
_SINGLE = r"(?:CPU\d+|TEXT*-\d+)"
_STAMP = r"(\d+\.\d{9})"
_TIME = re.compile(rf" *{_STAMP}(?!\d)")
_STATES = {"<not counted>": NOT_COUNTED, "<not supported>": NOT_SUPPORTED}
# A time with a count, a place or an empty cell after it, behind other text.
_LATER_TIME = re.compile(rf"(?<![\d.]) {{2,}}{_STAMP}(?=\D{{1,8}}(?:\d|<not |[SND]\d|CPU\d))")
# Longest separator.
_LONGEST = 8
# Number of lines on which separators and layouts are tried first.
_TRIED = 30


@dataclass(frozen=True)
class Layout:
    """Format of a file's lines.

    `place` is "single" if a CPU or thread follows the time, "several" for a core or socket with its
    number of CPUs, else empty; `group` tells whether a control group follows the event.
    """

    separator: str
    place: str
    group: bool
    decimal: str

    @cache  # noqa: B019 - layouts are few, and patterns take long to compile
    def pattern(self, time: str = _STAMP) -> re.Pattern[str]:
        """Pattern of a count, with eight groups: time, place, value, unit, event, group, ns, %."""
        sep, text, place = self._parts()
        one = rf"(?:(?!{sep}|\d|<)[^\n])"  # no number begins with it
        point = re.escape(self.decimal)
        event = rf"((?:(?!{sep}|\d)[^\n/])(?:(?!{sep})[^\n/])*(?:/[^/\n]*/{text}*)?)"
        group = rf"({one}{text}*){sep}" if self.group else "()"
        return re.compile(
            rf"^ *{time}{place}(-?\d+(?:{point}\d+)?|<not (?:counted|supported)>){sep}"
            rf"((?:{one}{text}*)?){sep}{event}{sep}{group}(\d+){sep}(\d+{point}\d\d)"
            rf"(?:{sep}[^\n]*)?$",
            re.MULTILINE | re.ASCII,
        )

    @cache  # noqa: B019
    def metric(self) -> re.Pattern[str]:
        """Pattern of a line without a count: a metric, or the name of a group of metrics.

        Its value is empty, and no cell but the last has a name.
        """
        sep, text, place = self._parts()
        number = r"(?:-?\d+(?:[.,]\d+)?|-?nan|-?inf)?"
        return re.compile(
            rf"^ *{_STAMP}{place}{sep}(?:{number}{sep}){{2,}}(?!\d){text}*$", re.ASCII
        )

    @cache  # noqa: B019
    def tail(self) -> re.Pattern[str]:
        """Pattern of what a count has after its value, which no line of a program has."""
        sep, text, _ = self._parts()
        group = rf"{text}*{sep}" if self.group else ""
        return re.compile(
            rf"{sep}{text}*{sep}{text}+{sep}{group}\d+{sep}\d+{re.escape(self.decimal)}\d\d"
            rf"(?:{sep}|$)"
        )

    def _parts(self) -> tuple[str, str, str]:
        """Patterns of the separator, of a character in a cell, and of all text before the value."""
        sep = re.escape(self.separator)
        text = rf"(?:(?!{sep})[^\n])"
        place = {
            "": f"{sep}()",
            "single": rf"{sep}({_SINGLE.replace('TEXT', text)}){sep}",
            "several": rf"{sep}({_SEVERAL}){sep}\d+{sep}",
        }[self.place]
        return sep, text, place


def read_csv(text: str, source: str) -> Rows:
    """Rows of a recording in perf's CSV format.

    Other lines are the program's, where perf wrote to its stderr: they are skipped, with a warning.
    ProfileError: the file has no counts or no times, or its lines cannot be read.
    """
    lines = [
        (number, _from_time(line))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    timed = [(number, line) for number, line in lines if _TIME.match(line)]
    _refuse_other_formats(source, lines, timed)
    layout = _layout(source, [line for _, line in timed])
    found = layout.pattern().findall("\n".join(line for _, line in timed))
    if len(found) != len(timed):
        found, timed = _without_metrics(source, layout, timed)
    times, places, values, units, events, groups, running, shares = zip(*found)
    point = str.maketrans(layout.decimal, ".")
    if layout.decimal != ".":
        values = [value.translate(point) for value in values]
        shares = [share.translate(point) for share in shares]
    last = timed[-1][0]
    rest = [(number, line) for number, line in lines if not _TIME.match(line)]
    summary, n_others = _summary(source, layout, rest, last, point)
    if layout.group:
        places = [f"{p} {g}".strip() for p, g in zip(places, groups)]
    return Rows(
        source=source,
        lines=np.array([number for number, _ in timed]),
        times=_numbers(times),
        places=places,
        events=events,
        units=units,
        values=np.array([0.0 if v[0] == "<" else float(v) for v in values]),
        states=np.array([_STATES.get(v, COUNTED) for v in values], dtype=np.int8),
        running=_numbers(running),
        share=_numbers(shares) / 100,
        summary=summary,
        warnings=program_lines_skipped(source, n_others),
    )


def program_lines_skipped(source: str, number: int) -> tuple[str, ...]:
    """A warning about lines that are no lines of perf; none if there are none."""
    if not number:
        return ()
    lines = number_of(number, "line")
    return (
        f"{source}: {lines} {'is' if number == 1 else 'are'} not perf's, but the program's, and "
        f"{'was' if number == 1 else 'were'} skipped; 'perf stat -o FILE' keeps them apart.",
    )


def _from_time(line: str) -> str:
    """A line of perf from its time on, where a program's unfinished line stands before it."""
    found = None if _TIME.match(line) else _LATER_TIME.search(line)
    return line[found.start() :] if found else line


def _numbers(texts: Iterable[str]) -> np.ndarray:
    return np.array(list(map(float, texts)))


def _refuse_other_formats(
    source: str, lines: list[tuple[int, str]], timed: list[tuple[int, str]]
) -> None:
    """Raise :class:`ProfileError` for files that are no recordings of intervals."""
    if not lines:
        raise ProfileError(
            f"{source}: has only perf's header: perf refused to measure; run the command again "
            f"and read its messages."
        )
    if not timed:
        raise ProfileError(
            f"{source}: line {lines[0][0]} is {shown([lines[0][1].strip()])}, without a time; "
            f"record with 'perf stat -I 10 -x\\;'."
        )
    if lines[0][1].split()[:1] in (["time"], ["time,"]):  # a header, which only metrics have
        raise ProfileError(f"{source}: has metrics only; record without --metric-only.")


def _layout(source: str, lines: list[str]) -> Layout:
    """Layout of the lines, found from places, units and events, which do not begin like numbers."""
    first = next((line for line in lines if re.search(r"\d+.\d\d(?!\d)", line)), lines[0])
    rest = _TIME.sub("", first)
    tried = "\n".join(lines[:_TRIED])
    fitting: list[Layout] = []
    for length in range(1, min(len(rest), _LONGEST) + 1):
        fitting = fitting or [
            layout
            for place in ("", "several", "single")
            for group in (False, True)
            for decimal in (".", ",")
            for layout in [Layout(rest[:length], place, group, decimal)]
            if layout.pattern().search(tried)
        ]
    if not fitting:
        raise ProfileError(
            f"{source}: {shown([first.strip()])} is no line of perf; record with 'LC_ALL=C perf "
            f"stat -I 10 -x\\;'."
        )
    text = "\n".join(lines) if len(fitting) > 1 else ""
    return max(fitting, key=lambda layout: len(layout.pattern().findall(text)))


def _without_metrics(
    source: str, layout: Layout, timed: list[tuple[int, str]]
) -> tuple[list[tuple[str, ...]], list[tuple[int, str]]]:
    """Matches of the lines with counts; other lines may have a metric only."""
    pattern, metric = layout.pattern(), layout.metric()
    found, kept = [], []
    for number, line in timed:
        match = pattern.match(line)
        if match:
            found.append(match.groups())
            kept.append((number, line))
        elif not metric.match(line):
            raise ProfileError(
                f"{source}: line {number} is {shown([line.strip()])}, which cannot be read; "
                f"measure again, with 'LC_ALL=C perf stat -I 10 -x\\;'."
            )
    return found, kept


def _summary(
    source: str, layout: Layout, lines: list[tuple[int, str]], last: int, point: dict[int, int]
) -> tuple[dict[str, float], int]:
    """Totals of the events, from the summary lines after the last bin, and the number of others."""
    named = layout.pattern("(summary)")
    head = f"(summary){re.escape(layout.separator)}"
    bare = re.compile(named.pattern.replace(head, "()"), named.flags)
    totals: dict[str, float] = {}
    n_others = 0
    for number, line in lines:
        match = named.match(line) or bare.match(line)
        if match is None and not layout.tail().search(line):
            n_others += 1
            continue
        if match is None or number < last:
            raise ProfileError(
                f"{source}: line {number} is {shown([line.strip()])}, which is neither a count "
                f"nor a summary after all counts; measure again."
            )
        value, event = match[3], match[5]
        if value[0] != "<":
            totals[event] = totals.get(event, 0.0) + float(value.translate(point))
    return totals, n_others
