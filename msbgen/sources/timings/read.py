"""Timings of any file of durations, by its content: a benchmark tool's, or a table of people."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from msbgen.core.errors import ProfileError
from msbgen.data.files import check_input
from msbgen.sources.timings.benchmarks import is_benchmark, read_benchmarks
from msbgen.sources.timings.tables import NO_ROLES, Roles, decoded, is_table_of_times, read_times
from msbgen.sources.timings.timings import Column, Timings, column_of, resource_name

# A setting in the name of a file: sort__threads=2.json.
_PART = re.compile(r"([^\W\d]\w*)=([^=]+?)(?:\.\w+)*")


def holds_timings(path: str | os.PathLike[str]) -> bool:
    """Whether a file has durations that :func:`read_timings` reads, by its content."""
    path = check_input(path)
    try:
        return is_benchmark(path) or is_table_of_times(decoded(path))
    except ProfileError:
        return False


def read_timings(paths: Sequence[str | os.PathLike[str]], roles: Roles = NO_ROLES) -> list[Timings]:
    """Timings of the tasks in some files, one for each task.

    Settings may stand in the names of the files, as in ``sort__threads=2.json``; runs of one task
    in several files are put together.  ProfileError: a file cannot be read, or is of no known form;
    the files are of several forms; or the runs of a task have different settings.
    """
    files = [check_input(path) for path in paths]
    extra = {file.name: settings_in_name(file.name) for file in files}
    tools = [is_benchmark(file) for file in files]
    if all(tools):
        return read_benchmarks(files, extra)
    if any(tools):
        one, other = files[tools.index(True)], files[tools.index(False)]
        raise ProfileError(
            f"{one.name} is of a benchmark tool, {other.name} is none; files of one form are "
            f"wanted: import them one by one."
        )
    found: dict[str, list[Timings]] = {}
    for file in files:
        own = _with_settings(read_times(file, roles), extra[file.name])
        found.setdefault(own.task, []).append(own)
    return [_joined(parts) for parts in found.values()]


def settings_in_name(name: str) -> dict[str, str]:
    """Settings in a file's name, between two underscores each: ``sort__threads=2.json``.

    Examples
    --------
    >>> settings_in_name("sort__threads=2__size=4KiB__run=1.json")
    {'threads': '2', 'size': '4KiB'}
    """
    parts = map(_PART.fullmatch, name.split("__")[1:])
    return {part[1]: part[2] for part in parts if part and part[1] != "run"}


def file_name_of(task: str) -> str:
    """The name of a task as a part of a file's name."""
    return re.sub(r"[^\w.=-]+", "-", task).strip("-.")[:80] or "task"


def _with_settings(timings: Timings, settings: dict[str, str]) -> Timings:
    n = len(timings.seconds)
    more = {resource_name(name): column_of([value] * n) for name, value in settings.items()}
    task = timings.task.partition("__")[0] if settings else timings.task
    return replace(timings, task=task, settings={**timings.settings, **more})


def _joined(parts: Sequence[Timings]) -> Timings:
    """Timings of one task in several tables."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for other in parts:
        same_units = {n: c.units for n, c in first.settings.items()} == {
            n: c.units for n, c in other.settings.items()
        }
        if not same_units or set(other.totals) != set(first.totals):
            raise ProfileError(
                f"{other.source}: has {', '.join([*other.settings, *other.totals])}, "
                f"{first.source} has {', '.join([*first.settings, *first.totals])}; the same "
                f"columns in the same units are wanted."
            )
    settings = {name: _stacked([p.settings[name] for p in parts]) for name in first.settings}
    return replace(
        first,
        seconds=np.concatenate([part.seconds for part in parts]),
        settings=settings,
        totals={
            name: (np.concatenate([part.totals[name][0] for part in parts]), units)
            for name, (_, units) in first.totals.items()
        },
        taken=tuple(dict.fromkeys(sentence for part in parts for sentence in part.taken)),
    )


def _stacked(columns: Sequence[Column]) -> Column:
    """Columns of one setting below each other, with the words of all."""
    if not any(column.labels for column in columns):
        return replace(columns[0], values=np.concatenate([c.values for c in columns]))
    cells: list[object] = []
    for column in columns:
        for value in column.values.tolist():
            whole = column.labels and value == value
            cells.append(column.labels[int(value) - 1] if whole else f"{value:.15g}")
    return column_of(cells)
