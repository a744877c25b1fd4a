"""Rows of recordings from columns of numbers, as several tools print them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from msbgen.core.errors import ProfileError, quoted
from msbgen.sources.measure.readers.recording import Rows

_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# No number is as large.
_LARGEST = 1e100


def rows_of(
    source: str,
    lines: Sequence[int],
    times: np.ndarray,
    places: Sequence[str],
    values: Mapping[str, np.ndarray],
    warnings: tuple[str, ...] = (),
    units: Mapping[str, str] = {},
) -> Rows:
    """Rows from columns: one array (n_lines,) an event, in the order of their times.

    `units` has those of events that are no plain counts.
    """
    order = np.argsort(times, kind="stable")
    n = len(order)
    events = list(values)
    return Rows(
        source=source,
        lines=np.repeat(np.asarray(lines, dtype=np.int64)[order], len(events)),
        times=np.repeat(times[order], len(events)),
        places=[str(places[i]) for i in order.tolist() for _ in events],
        events=events * n,
        units=[units.get(event, "") for event in events] * n,
        values=np.stack([values[e][order] for e in events], axis=1).ravel() if n else np.empty(0),
        states=np.zeros(n * len(events), dtype=np.int8),
        running=np.zeros(n * len(events)),
        share=np.ones(n * len(events)),
        summary={},
        warnings=warnings,
    )


def joined(parts: Sequence[Rows], warnings: tuple[str, ...] = ()) -> Rows:
    """Rows of several parts of one recording, in the order of their times."""
    order = np.argsort(np.concatenate([part.times for part in parts]), kind="stable")

    def arrays(field: str) -> np.ndarray:
        return np.concatenate([getattr(part, field) for part in parts])[order]

    def lists(field: str) -> list[str]:
        values = [text for part in parts for text in getattr(part, field)]
        return [values[i] for i in order.tolist()]

    return Rows(
        source=parts[0].source, lines=arrays("lines"), times=arrays("times"),
        places=lists("places"), events=lists("events"), units=lists("units"),
        values=arrays("values"), states=arrays("states"), running=arrays("running"),
        share=arrays("share"), summary={}, warnings=warnings,
    )  # fmt: skip


def numbers(source: str, column: str, lines: Sequence[int], cells: Iterable[str]) -> np.ndarray:
    """Cells of a column as numbers; ProfileError, with the line, for a cell that is none.

    Products of two of them are finite.
    """
    values = np.empty(len(lines))
    for i, (line, cell) in enumerate(zip(lines, cells)):
        if not _NUMBER.fullmatch(cell) or abs(float(cell)) > _LARGEST:
            raise ProfileError(
                f"{source}: line {line}: '{column}' is {quoted(cell)}; a number is wanted."
            )
        values[i] = float(cell)
    return values
