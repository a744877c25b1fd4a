"""Reader of ``perf stat -I N -j``: one JSON object per line.

Decimal commas of a locale and commas before a closing brace are repaired.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.tables import shown
from msbgen.sources.measure.readers.perf_csv import program_lines_skipped
from msbgen.sources.measure.readers.recording import COUNTED, NOT_COUNTED, NOT_SUPPORTED, Rows

# Keys of the time (the manual has one, perf writes the other), and keys of places.
_TIMES = ("interval", "timestamp")
_PLACES = ("cpu", "core", "cluster", "cache", "die", "socket", "node", "thread", "cgroup")
# A number with a decimal comma; a comma between two members of an object is followed by a quote.
_COMMA = re.compile(r'(" *: *-?\d+),(\d+)(?= *[,}])')
# perf 6.13 writes a comma before the closing brace of an event without a metric.
_LAST_COMMA = re.compile(r", *\}")
# Metrics are not read; nan and inf are invalid JSON.
_METRIC = re.compile(r'"metric-value" *: *-?(?:nan|inf)')
# An object of perf's, behind an unfinished line of the program where there is one.
_FIRST_KEYS = (*_TIMES, *_PLACES, "counter-value", "event", "metric")
_OBJECT = re.compile(rf'\{{ *"(?:{"|".join(_FIRST_KEYS)})')
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?", re.ASCII)
_VALUES = re.compile(r"(?:(?:-?\d+(?:[.,]\d+)?|<not (?:counted|supported)>)\n)*", re.ASCII)
_TEXTS, _NUMERIC = ("counter-value", "unit", "event"), {int, float}
# All numbers are smaller, in any unit.
_LARGEST = 1e18
_STATES = {"<not counted>": NOT_COUNTED, "<not supported>": NOT_SUPPORTED}
# Characters of a value in a message.


def is_json(text: str) -> bool:
    """Whether a text has an object of perf's, among lines of a program perhaps."""
    data = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return next(data, "").lstrip().startswith("{") or any(map(_OBJECT.search, data))


def read_json(text: str, source: str) -> Rows:
    """Rows of a recording in perf's JSON format.

    Other lines are the program's, where perf wrote to its stderr: they are skipped, with a warning.
    ProfileError: a line is no JSON object of perf, or there are no counts or no times.
    """
    written = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    lines = [
        (number, line[found.start() :])
        for number, line in written
        if (found := _OBJECT.search(line))
    ]
    n_others = len(written) - len(lines)
    if '"counter-value"' not in text and "metric" in text:
        raise ProfileError(f"{source}: has metrics only; record without --metric-only.")
    objects = _objects(source, lines)
    rows, summary = [], {}
    for (number, _), one in zip(lines, objects):
        if "counter-value" not in one and any(key.startswith("metric") for key in one):
            continue  # another metric of the previous event, or the name of a group of metrics
        if "event" not in one or "counter-value" not in one:
            raise ProfileError(
                f"{source}: line {number} has no 'event' and 'counter-value'; a line of 'perf "
                f"stat -I 10 -j' is wanted."
            )
        rows.append((number, one))
    if not _are_counts([one for _, one in rows]):
        for number, one in rows:
            _refuse_odd(source, number, one)
    timed = [(number, one) for number, one in rows if "interval" in one or "timestamp" in one]
    for _, one in rows if len(timed) < len(rows) else ():
        if "interval" not in one and "timestamp" not in one and one["counter-value"] not in _STATES:
            event = one["event"]
            summary[event] = summary.get(event, 0.0) + _number(one["counter-value"])
    if not timed:
        raise ProfileError(f"{source}: has no times; record with 'perf stat -I 10 -j'.")
    values = [one["counter-value"] for _, one in timed]
    placed = any(key in one for _, one in timed for key in _PLACES)
    return Rows(
        source=source,
        lines=np.array([number for number, _ in timed]),
        times=np.array([float(one.get("interval", one.get("timestamp"))) for _, one in timed]),
        places=[_place(one) for _, one in timed] if placed else [""] * len(timed),
        events=[one["event"] for _, one in timed],
        units=[one["unit"] for _, one in timed],
        values=np.array([0.0 if v in _STATES else _number(v) for v in values]),
        states=np.array([_STATES.get(v, COUNTED) for v in values], dtype=np.int8),
        running=np.array([float(one["event-runtime"]) for _, one in timed]),
        share=np.array([float(one["pcnt-running"]) for _, one in timed]) / 100,
        summary=summary,
        warnings=program_lines_skipped(source, n_others),
    )


def _objects(source: str, lines: list[tuple[int, str]]) -> list[dict[str, Any]]:
    """JSON objects of the lines, parsed together; line by line only to name the one that fails."""
    whole = ",\n".join(line for _, line in lines)
    for repair in (str, _repaired):
        try:
            objects = json.loads(f"[{repair(whole)}]")
        except (ValueError, RecursionError):  # a ValueError: a number too long
            continue
        if len(objects) == len(lines) and all(isinstance(one, dict) for one in objects):
            return objects
    for number, line in lines:
        try:
            one = json.loads(_repaired(line))
        except (ValueError, RecursionError):  # a ValueError: a number too long
            one = None
        if not isinstance(one, dict):
            raise ProfileError(
                f"{source}: line {number} is {shown([line])}, which is no JSON object; measure "
                f"again, with 'LC_ALL=C perf stat -I 10 -j'."
            )
    raise ProfileError(f"{source}: is no list of JSON objects, one a line; measure again.")


def _repaired(text: str) -> str:
    """A text of perf's as JSON: without decimal commas, numbers that JSON lacks and last commas."""
    text = _METRIC.sub('"metric-value" : 0', _COMMA.sub(r"\1.\2", text))
    return _LAST_COMMA.sub("}", text)


def _are_counts(rows: list[dict[str, Any]]) -> bool:
    """Whether all members have the types and ranges that perf writes, checked together."""
    values, units, events = ([one.get(k) for one in rows] for k in _TEXTS)
    figures = [one.get(key) for one in rows for key in ("event-runtime", "pcnt-running")]
    figures += [one[key] for one in rows for key in _TIMES if key in one]
    if set(map(type, [*values, *units, *events])) - {str} or set(map(type, figures)) - _NUMERIC:
        return False
    try:
        sizes = np.array(figures, dtype=float)
    except OverflowError:
        return False
    return (
        bool(((sizes >= 0) & (sizes < _LARGEST)).all())
        and all(str(event).isprintable() and event for event in set(events))
        and _VALUES.fullmatch("".join(f"{value}\n" for value in set(values))) is not None
    )


def _refuse_odd(source: str, number: int, one: dict[str, Any]) -> None:
    """Raise :class:`ProfileError` for a member that perf does not write."""
    wanted: dict[str, tuple[type, ...]] = {
        "counter-value": (str,), "unit": (str,), "event": (str,),
        "event-runtime": (int, float), "pcnt-running": (int, float),
    }  # fmt: skip
    numbers = {key: (int, float) for key in _TIMES if key in one}
    for key, types in {**wanted, **numbers}.items():
        value = one.get(key)
        good = isinstance(value, types) and not isinstance(value, bool)
        if good and types != (str,):
            assert isinstance(value, (int, float))
            good = 0 <= value < _LARGEST
        if key == "counter-value" and good:
            assert isinstance(value, str)
            good = value in _STATES or _NUMBER.fullmatch(value) is not None
        if key == "event" and good:
            good = bool(value) and str(value).isprintable()
        if not good:
            raise ProfileError(
                f"{source}: line {number}: '{key}' is {quoted(value)}, which perf does not write; "
                f"measure again."
            )


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _place(one: dict[str, Any]) -> str:
    """Place of a row, written as in perf's CSV format."""
    return " ".join(f"CPU{one[k]}" if k == "cpu" else str(one[k]) for k in _PLACES if k in one)
