"""``perf stat -I N -j``: one JSON object a line; a locale's decimal commas are repaired."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from msbgen.errors import ProfileError
from msbgen.measure.recording import COUNTED, NOT_COUNTED, NOT_SUPPORTED, Rows

# Keys of the time (the manual says one, perf writes the other) and of what a row is of.
_TIMES = ("interval", "timestamp")
_PLACES = ("cpu", "core", "cluster", "cache", "die", "socket", "node", "thread", "cgroup")
_METRICS = {*_TIMES, *_PLACES, "metric-value", "metric-unit", "metric-threshold"}
# A number with a decimal comma: between two members of an object a quote follows.
_COMMA = re.compile(r'(" *: *-?\d+),(\d+)(?= *[,}])')
# Metrics are not read, and are no JSON where they are no numbers.
_METRIC = re.compile(r'"metric-value" *: *-?(?:nan|inf)')
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?", re.ASCII)
_STATES = {"<not counted>": NOT_COUNTED, "<not supported>": NOT_SUPPORTED}
# Characters of a line that a sentence shows.
_SHOWN = 60


def read_json(text: str, source: str) -> Rows:
    """Rows of a recording in perf's JSON format.

    Raises
    ------
    ProfileError
        A line that is no object of perf's, no counts, no times.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if '"counter-value"' not in text and "metric" in text:
        raise ProfileError(f"{source}: has metrics only; record without --metric-only.")
    objects = _objects(source, lines)
    timed, summary = [], {}
    for (number, _), one in zip(lines, objects):
        if "event" not in one or "counter-value" not in one:
            if set(one) - _METRICS:
                raise ProfileError(
                    f"{source}: line {number} has no 'event' and 'counter-value'; a line of 'perf "
                    f"stat -I 10 -j' is wanted."
                )
            continue  # a further metric of the event before
        _refuse_odd(source, number, one)
        if any(key in one for key in _TIMES):
            timed.append((number, one))
        elif one["counter-value"] not in _STATES:
            event = one["event"]
            summary[event] = summary.get(event, 0.0) + _number(one["counter-value"])
    if not timed:
        raise ProfileError(f"{source}: has no times; record with 'perf stat -I 10 -j'.")
    values = [one["counter-value"] for _, one in timed]
    return Rows(
        source=source,
        lines=np.array([number for number, _ in timed]),
        times=np.array([float(one.get("interval", one.get("timestamp"))) for _, one in timed]),
        places=[_place(one) for _, one in timed],
        events=[one["event"] for _, one in timed],
        units=[one["unit"] for _, one in timed],
        values=np.array([0.0 if v in _STATES else _number(v) for v in values]),
        states=np.array([_STATES.get(v, COUNTED) for v in values], dtype=np.int8),
        running=np.array([float(one["event-runtime"]) for _, one in timed]),
        share=np.array([float(one["pcnt-running"]) for _, one in timed]) / 100,
        summary=summary,
    )


def _objects(source: str, lines: list[tuple[int, str]]) -> list[dict[str, Any]]:
    """What the lines hold, all in one go, or line after line to say which cannot be read."""
    whole = ",\n".join(line for _, line in lines)
    for repair in (str, lambda text: _METRIC.sub('"metric-value" : 0', _COMMA.sub(r"\1.\2", text))):
        try:
            found = json.loads(f"[{repair(whole)}]")
        except (json.JSONDecodeError, RecursionError):
            continue
        if len(found) == len(lines) and all(isinstance(one, dict) for one in found):
            return found
    for number, line in lines:
        try:
            one = json.loads(_METRIC.sub('"metric-value" : 0', _COMMA.sub(r"\1.\2", line)))
        except (json.JSONDecodeError, RecursionError):
            one = None
        if not isinstance(one, dict):
            text = line if len(line) <= _SHOWN else f"{line[: _SHOWN - 4]} ..."
            raise ProfileError(
                f"{source}: line {number} is {text!r}, which is no JSON object; measure again, "
                f"with 'LC_ALL=C perf stat -I 10 -j'."
            )
    raise ProfileError(f"{source}: is no list of JSON objects, one a line; measure again.")


def _refuse_odd(source: str, number: int, one: dict[str, Any]) -> None:
    """Refuse a count whose members are not what perf writes."""
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
            good = 0 <= value < 1e18
        if key == "counter-value" and good:
            assert isinstance(value, str)
            good = value in _STATES or _NUMBER.fullmatch(value) is not None
        if key == "event" and good:
            good = bool(value) and str(value).isprintable()
        if not good:
            shown = repr(value)[:_SHOWN]
            raise ProfileError(
                f"{source}: line {number}: '{key}' is {shown}, which perf does not write; measure "
                f"again."
            )


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _place(one: dict[str, Any]) -> str:
    """As the CSV says it."""
    return " ".join(f"CPU{one[k]}" if k == "cpu" else str(one[k]) for k in _PLACES if k in one)
