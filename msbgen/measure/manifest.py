"""Which recording is of which context: a manifest (CSV, TOML), or the names of the files."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from msbgen.core.durations import UNITS
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.files import check_input
from msbgen.data.schema import COMPLETE, RESERVED, STARTED
from msbgen.data.tables import read_lines
from msbgen.data.toml import check_keys, read_toml
from msbgen.measure.dataset import RUN_METADATA
from msbgen.measure.readers.table import ColumnMap, column_map

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# "name [unit]" as columns of manifests and fields of patterns say it.
_TITLE = re.compile(r"([^\W\d]\w*)\s*(?:\[\s*([^\[\]]*?)\s*\])?")
# Parts of a file name that say a resource: ways=04, bw=0500MBps.
_PART = re.compile(r"([A-Za-z]\w*)=([-+]?\d+(?:\.\d+)?)([A-Za-z%/]\w*)?", re.ASCII)
_ACHIEVED, _MECHANISM = "_achieved", "_mechanism"
# Columns of times; a resource of nearly such a name is a slip.
_TIMES = ("duration", "cpu_time", STARTED)
_NEARLY = 0.85
_RESOURCE_KEYS = ("units", "long_name", "levels", "mechanism")
_SHOWN = 60


@dataclass(frozen=True)
class Entry:
    """One recording, and what is known of its run.

    Attributes
    ----------
    path : Path
    context : mapping of str to float
    achieved : mapping of str to float
        Of the resources, where it is known.
    known : mapping of str to float
        ``duration`` [s], ``complete`` (0 for a run that was cut), and of the names in
        :data:`msbgen.measure.dataset.RUN_METADATA`.
    """

    path: Path
    context: Mapping[str, float]
    achieved: Mapping[str, float] = field(default_factory=dict)
    known: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """All recordings of one task.

    Attributes
    ----------
    entries : tuple of Entry
    resources : mapping of str to attributes
        ``units`` at least.
    attrs : mapping of str to str
        ``task`` and ``platform``, where they are given.
    columns : ColumnMap, optional
        What the columns of tables are.
    """

    entries: tuple[Entry, ...]
    resources: Mapping[str, Mapping[str, Any]]
    attrs: Mapping[str, str] = field(default_factory=dict)
    columns: ColumnMap | None = None


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest: TOML where the name ends so, else CSV.

    Files are found from the folder of the manifest.

    **CSV**: a column ``file``; a column a resource, ``cpu_quota [%]``, ``[1]`` where no unit is
    given; and what else is known of a run: ``duration [s]``, ``cpu_quota_achieved [%]``,
    ``cpu_quota_mechanism``, ``cpu_time [s]``, ``load``, ``steal``, ``started [s]``, ``complete`` (0
    for a run that was cut), ``run``.

    **TOML**: ``task`` and ``platform``; ``[resources.cpu_quota]`` with ``units``, ``long_name``,
    ``levels``, ``mechanism``; ``[columns]``, a column map; and ``[[run]]`` with ``file`` and the
    names above but for mechanisms, times in seconds.

    ``run`` tells the runs of a context apart; it is checked, and not kept.

    Raises
    ------
    ProfileError
        The file cannot be read, a name is unknown, a value is none, a unit is another than its
        resource's, a recording or a run is listed twice, a resource was set by several mechanisms.
    """
    path = check_input(path)
    manifest = _read_toml(path) if path.suffix == ".toml" else _read_csv(path)
    _refuse_same_files(f"{path.name}: ", manifest.entries)
    if not manifest.entries:
        raise ProfileError(f"{path.name}: lists no runs; one or more are wanted.")
    return manifest


def manifest_from_names(files: Sequence[str | os.PathLike[str]], pattern: str = "") -> Manifest:
    """What file names say of their contexts.

    Without a pattern a name is parts between two underscores, the first the task:
    ``gzip__ways=04__bw=0500MBps__run=03.perf.csv``.  A pattern is a name with fields:
    ``q{cpu_quota [%]}_r{run}.csv``; ``{task}`` and ``*`` stand for any text.

    Raises
    ------
    ArgumentError
        A pattern without a resource, or with one twice.
    ProfileError
        A name that does not fit, names of several tasks, one file or run of a context twice.
    """
    match = _pattern(pattern) if pattern else _parts_of_name
    entries, runs, units, tasks = [], [], {}, set()
    for file in map(Path, files):
        task, values, given = match(file.name)
        if units and given != units:
            raise ProfileError(
                f"{file.name}: says {_titles(given)}, other names {_titles(units)}; the same "
                f"resources in the same units are wanted."
            )
        units = given
        tasks.add(task)
        runs.append(values.pop("run", float("inf")))
        entries.append(Entry(file, values))
    if len(tasks) > 1:
        raise ProfileError(f"names are of the tasks {', '.join(sorted(tasks))}; one is wanted.")
    _refuse_same_files("", entries)
    seen: dict[tuple[float, ...], str] = {}
    for entry, run in zip(entries, runs):
        _refuse_same_run(entry.path.name, entry, run, seen)
    order = sorted(range(len(entries)), key=lambda i: (runs[i], str(entries[i].path)))
    return Manifest(
        tuple(entries[i] for i in order),
        {name: {"units": unit} for name, unit in units.items()},
        {"task": task} if (task := next(iter(tasks), "")) else {},
    )


def with_levels_and_task(manifest: Manifest, *, levels: Mapping[str, Any], task: str) -> Manifest:
    """The manifest with levels of its resources, and with a task where it names none.

    Raises
    ------
    ArgumentError
        Levels of what is no resource.
    """
    for name in levels:
        if name not in manifest.resources:
            raise ArgumentError(
                f"levels are of '{name}'; one of {', '.join(manifest.resources)} is wanted."
            )
    resources = {
        name: {**attrs, "levels": np.asarray(levels[name], dtype=float).tolist()}
        if name in levels
        else attrs
        for name, attrs in manifest.resources.items()
    }
    attrs = {**manifest.attrs, "task": task} if task else manifest.attrs
    return Manifest(manifest.entries, resources, attrs, manifest.columns)


def read_columns(path: str | os.PathLike[str]) -> ColumnMap:
    """Read a column map from a TOML file of its own.

    Raises
    ------
    ProfileError
        The file cannot be read, or is no column map.
    """
    path = check_input(path)
    return column_map(read_toml(path)[1], path.name)


def _is_own(name: str) -> bool:
    """Whether a name means something else than a resource."""
    return name in {*RESERVED, *RUN_METADATA, "file"} or name.endswith((_ACHIEVED, _MECHANISM))


def _refuse_same_files(where: str, entries: Sequence[Entry]) -> None:
    seen: dict[Path, int] = {}
    for i, entry in enumerate(entries, 1):
        path = entry.path.resolve()
        if path in seen:
            raise ProfileError(
                f"{where}run {i} is '{entry.path.name}', as is run {seen[path]}; each recording "
                f"once is wanted."
            )
        seen[path] = i


def _refuse_same_run(
    place: str, entry: Entry, run: float, seen: dict[tuple[float, ...], str]
) -> None:
    """Runs without a number are infinite: they are all different."""
    key = (*entry.context.values(), run)
    if np.isfinite(run) and key in seen:
        raise ProfileError(f"{place}: is run {run:g} of its context, as is {seen[key]}; drop one.")
    seen[key] = entry.path.name


def _titles(units: Mapping[str, str]) -> str:
    return ", ".join(f"{name} [{unit}]" for name, unit in units.items())


# --------------------------------------------------------------------------- names of files


def _parts_of_name(name: str) -> tuple[str, dict[str, float], dict[str, str]]:
    """Task, values and units that a name says in its parts."""
    stem = re.sub(r"(\.[A-Za-z]\w*)+$", "", name)
    task, *parts = stem.split("__")
    values, units = {}, {}
    for part in parts:
        match = _PART.fullmatch(part)
        if not match or match[1] in values or (match[1] != "run" and _is_own(match[1])):
            raise ProfileError(
                f"{name}: '{part[:_SHOWN]}' says no resource of its own; names as "
                f"'gzip__ways=04__bw=0500MBps__run=03.csv', a pattern or a manifest are wanted."
            )
        values[match[1]] = float(match[2])
        if match[1] != "run":
            units[match[1]] = match[3] or "1"
    if not units:
        raise ProfileError(
            f"{name}: says no context; a name as 'gzip__ways=04__run=03.perf.csv', a pattern or a "
            f"manifest is wanted."
        )
    return task, values, units


def _pattern(pattern: str) -> Any:
    """A function as :func:`_parts_of_name` of names that fit a pattern."""
    units: dict[str, str] = {}
    expression, seen = "", set()
    for i, part in enumerate(re.split(r"\{([^{}]*)\}", pattern)):
        if i % 2 == 0:
            expression += ".*?".join(map(re.escape, part.split("*")))
            continue
        title = _TITLE.fullmatch(part.strip())
        if not title or title[1] in seen:
            raise ArgumentError(
                f"pattern has a field '{{{part}}}'; '{{name}}' or '{{name [unit]}}', each once, is "
                f"wanted."
            )
        seen.add(title[1])
        if title[1] == "task":
            expression += "(?P<task>.*?)"
            continue
        if title[1] != "run":
            if _is_own(title[1]):
                raise ArgumentError(
                    f"pattern has a field '{{{part}}}', a name of msbgen's own; rename it."
                )
            units[title[1]] = title[2] or "1"
        expression += rf"(?P<{title[1]}>[-+]?\d+(?:\.\d+)?)"
    if not units:
        raise ArgumentError(
            f"pattern is {pattern!r}; one with a resource, as 'q{{cpu_quota [%]}}_r{{run}}.csv', "
            f"is wanted."
        )
    compiled = re.compile(expression, re.ASCII)

    def match(name: str) -> tuple[str, dict[str, float], dict[str, str]]:
        found = compiled.fullmatch(name)
        if not found:
            raise ProfileError(f"{name}: does not fit '{pattern}'; leave it out, or mend that.")
        groups = found.groupdict()
        task = groups.pop("task", "")
        return task, {key: float(text) for key, text in groups.items()}, units

    return match


# --------------------------------------------------------------------------- CSV


def _read_csv(path: Path) -> Manifest:
    (first, header), *body = read_lines(path) or [(1, [])]
    titles = [_title(path.name, first, cell) for cell in header]
    names = [name for name, _ in titles]
    if names.count("file") != 1 or len(set(names)) < len(names):
        raise ProfileError(
            f"{path.name}: line {first} is {','.join(header)[:_SHOWN]!r}; a header 'file,NAME "
            f"[unit],...' with each name once is wanted."
        )
    beside = {"file", "run", "duration", COMPLETE, *RUN_METADATA}
    resources = {
        name: {"units": unit or "1"}
        for name, unit in titles
        if name not in beside and not name.endswith((_ACHIEVED, _MECHANISM))
    }
    _check_columns(f"{path.name}: line {first}", titles, resources)
    entries, mechanisms, seen = [], {}, {}
    for line, cells in body:
        place = f"{path.name}: line {line}"
        if len(cells) != len(header):
            raise ProfileError(
                f"{place} has {len(cells)} cells, the header {len(header)}; as many are wanted."
            )
        given: dict[str, Any] = {"file": cells[names.index("file")]}
        for (name, unit), cell in zip(titles, cells):
            if name.endswith(_MECHANISM):
                _one_mechanism(place, name, cell, mechanisms)
            elif name != "file" and (cell or name in resources):
                given[name] = _number(place, name, cell) * (
                    UNITS[unit or "s"] if name in _TIMES else 1.0
                )
        entries.append(_entry(path, place, given, list(resources), seen))
    for name, text in mechanisms.items():
        if name in resources and text:
            resources[name]["mechanism"] = text
    return _checked(path, Manifest(tuple(entries), resources))


def _title(source: str, line: int, cell: str) -> tuple[str, str]:
    match = _TITLE.fullmatch(cell)
    if not match:
        raise ProfileError(
            f"{source}: line {line}: column {cell[:_SHOWN]!r} is no name; 'name' or 'name [unit]' "
            f"is wanted."
        )
    return match[1], match[2] or ""


def _number(place: str, name: str, cell: Any) -> float:
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        try:
            value = float(cell)
        except OverflowError:
            value = float("inf")
    else:
        text = cell if isinstance(cell, str) else ""
        value = float(text) if _NUMBER.fullmatch(text) else float("nan")
    if not np.isfinite(value):
        raise ProfileError(f"{place}: '{name}' is {str(cell)[:_SHOWN]!r}; a number is wanted.")
    return value


def _check_columns(
    place: str, titles: Sequence[tuple[str, str]], resources: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise :class:`ProfileError` for columns of no resource, and for units that are not theirs."""
    for name, unit in titles:
        for suffix in (_ACHIEVED, _MECHANISM):
            if name.endswith(suffix) and name.removesuffix(suffix) not in resources:
                raise ProfileError(
                    f"{place}: there is no resource '{name.removesuffix(suffix)}' for '{name}'; "
                    f"one of {', '.join(resources)} is wanted."
                )
        near = difflib.get_close_matches(name, _TIMES, 1, _NEARLY) if name in resources else []
        if near:
            raise ProfileError(f"{place}: '{name}' is no resource; '{near[0]}' is wanted.")
        if name in _TIMES:
            known, wanted = [*UNITS], f"one of {', '.join(UNITS)}"
        elif name in (COMPLETE, *RUN_METADATA):
            known, wanted = ["1"], "'1'"
        elif name.endswith(_ACHIEVED):
            own = resources[name.removesuffix(_ACHIEVED)]["units"]
            known, wanted = [own], f"'{own}'"
        else:
            continue
        if unit and unit not in known:
            raise ProfileError(f"{place}: '{name}' is in '{unit}'; {wanted} is wanted.")


def _one_mechanism(place: str, name: str, text: str, found: dict[str, str]) -> None:
    """Values of two mechanisms are not comparable: they never share an axis."""
    resource = name.removesuffix(_MECHANISM)
    if found.setdefault(resource, text) != text:
        raise ProfileError(
            f"{place}: '{resource}' was set by '{text[:_SHOWN]}', before by '{found[resource]}'; "
            f"one mechanism a file is wanted."
        )


# --------------------------------------------------------------------------- TOML


def _read_toml(path: Path) -> Manifest:
    path, given = read_toml(path)
    check_keys(given, ("task", "platform", "resources", "columns", "run"), (), path.name)
    resources = _table(path.name, "resources", given.get("resources", {}))
    for name, attrs in resources.items():
        place = f"{path.name}: resource '{name}'"
        check_keys(_table(path.name, name, attrs), _RESOURCE_KEYS, (), place)
        if not isinstance(attrs.get("units"), str):
            raise ProfileError(
                f"{path.name}: resource '{name}' has no units; add them ('1' for a plain number)."
            )
        levels = attrs.get("levels", [0.0])
        if not isinstance(levels, list) or not levels:
            raise ProfileError(f"{path.name}: resource '{name}' has no levels; a list is wanted.")
        if "levels" in attrs:
            attrs["levels"] = [_number(path.name, "levels", level) for level in levels]
        for key in ("long_name", "mechanism"):
            if not isinstance(attrs.get(key, ""), str):
                raise ProfileError(f"{path.name}: '{key}' of '{name}' is no text; one is wanted.")
    runs = given.get("run", [])
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise ProfileError(f"{path.name}: 'run' is no list; [[run]] begins each.")
    allowed = [
        "file",
        "run",
        "duration",
        COMPLETE,
        *RUN_METADATA,
        *resources,
        *(f"{name}{_ACHIEVED}" for name in resources),
    ]
    entries, seen = [], {}
    for i, run in enumerate(runs, 1):
        place = f"{path.name}: run {i}"
        check_keys(run, allowed, (), place)
        numbers = {key: _number(place, key, run[key]) for key in run if key != "file"}
        entries.append(_entry(path, place, {**run, **numbers}, list(resources), seen))
    attrs = {key: given[key] for key in ("task", "platform") if key in given}
    for key, text in attrs.items():
        if not isinstance(text, str):
            raise ProfileError(f"{path.name}: '{key}' is no text; one is wanted.")
    columns = None
    if "columns" in given:
        columns = column_map(_table(path.name, "columns", given["columns"]), path.name)
    return _checked(path, Manifest(tuple(entries), resources, attrs, columns))


def _table(source: str, name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ProfileError(f"{source}: '{name}' is no table; [{name}] begins one.")
    return given


# --------------------------------------------------------------------------- both


def _entry(
    path: Path,
    place: str,
    given: Mapping[str, Any],
    resources: Sequence[str],
    seen: dict[tuple[float, ...], str],
) -> Entry:
    """An entry from values by name: all resources, and what else is known."""
    file = given.get("file")
    if not isinstance(file, str) or not file or "\0" in file:
        raise ProfileError(f"{place}: has no 'file'; the recording is wanted.")
    for name in resources:
        if name not in given:
            raise ProfileError(f"{place}: '{name}' is missing; its value is wanted.")
    known = {name: given[name] for name in ("duration", COMPLETE, *RUN_METADATA) if name in given}
    if known.get("duration", 1.0) <= 0:
        raise ProfileError(f"{place}: 'duration' is {known['duration']:g}; seconds are wanted.")
    if known.get(COMPLETE, 1.0) not in (0.0, 1.0):
        raise ProfileError(
            f"{place}: '{COMPLETE}' is {known[COMPLETE]:g}; 1, or 0 for a run that was cut, is "
            f"wanted."
        )
    achieved = {
        name: given[f"{name}{_ACHIEVED}"] for name in resources if f"{name}{_ACHIEVED}" in given
    }
    context = {name: given[name] for name in resources}
    entry = Entry(path.parent / file, context, achieved, known)
    _refuse_same_run(place, entry, given.get("run", float("inf")), seen)
    return entry


def _checked(path: Path, manifest: Manifest) -> Manifest:
    if not manifest.resources:
        raise ProfileError(
            f"{path.name}: names no resource; one or more, as 'cpu_quota [%]', are wanted."
        )
    for name in manifest.resources:
        if _is_own(name):
            raise ProfileError(f"{path.name}: '{name}' is a name of msbgen's own; rename it.")
    return manifest
