"""The context of each recording, from a manifest (CSV or TOML) or from the names of the files."""

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
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.records import check_keys
from msbgen.data.columns import ColumnMap
from msbgen.data.files import check_input
from msbgen.data.schema import COMPLETE, RESERVED, STARTED
from msbgen.data.tables import check_separator, check_width, read_lines, shown
from msbgen.data.toml import read_toml
from msbgen.sources.measure.dataset import RUN_METADATA
from msbgen.sources.measure.readers.column_map import MAP_KEYS, recording_map

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# "name [unit]", in headers of manifests and fields of patterns.
_TITLE = re.compile(r"([^\W\d]\w*)\s*(?:\[\s*([^\[\]]*?)\s*\])?")
# Parts of a file name with a resource: ways=04, bw=0500MBps.
_LEVEL = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,2})?"
_PART = re.compile(rf"([A-Za-z]\w*)=({_LEVEL})([A-Za-z%/]\w*)?", re.ASCII)
_ACHIEVED, _MECHANISM = "_achieved", "_mechanism"
# Columns of times. A resource with a name this similar to one of them is a typing error.
_TIMES = ("duration", "cpu_time", STARTED)
_SIMILAR = 0.85
_RESOURCE_KEYS = ("units", "long_name", "levels", "mechanism")


@dataclass(frozen=True)
class Entry:
    """One recording, with the context of its run.

    `metadata` has ``duration`` [s], ``complete`` (0 for a run that was cut), and variables of
    :data:`msbgen.measure.dataset.RUN_METADATA`; `achieved` has the levels that are known.
    """

    path: Path
    context: Mapping[str, float]
    achieved: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """All recordings of one task."""

    entries: tuple[Entry, ...]
    resources: Mapping[str, Mapping[str, Any]]  # attributes; at least ``units`` for each
    attrs: Mapping[str, str] = field(default_factory=dict)  # ``task`` and ``platform``, if known
    columns: ColumnMap | None = None  # of recordings that are tables


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest in a file: TOML if its name ends in ``.toml``, else CSV.

    Paths of recordings are relative to the folder of the manifest.

    **CSV**: a column ``file``; a column per resource, such as ``cpu_quota [%]`` (without a unit:
    ``[1]``); and optional columns: ``duration [s]``, ``cpu_quota_achieved [%]``,
    ``cpu_quota_mechanism``, ``cpu_time [s]``, ``load``, ``steal``, ``started [s]``, ``complete`` (0
    for a run that was cut), ``run``.

    **TOML**: ``task`` and ``platform``; ``[resources.cpu_quota]`` with ``units``, ``long_name``,
    ``levels``, ``mechanism``; ``[columns]``, a column map; and ``[[run]]`` with ``file`` and the
    names above except mechanisms, times in seconds.

    ``run`` distinguishes the runs of a context; it is checked, but not kept.

    Raises
    ------
    ProfileError
        The file cannot be read; a name is unknown; a value or unit is invalid; a recording or a run
        is listed twice; or a resource was set by several mechanisms.
    """
    path = check_input(path)
    manifest = _read_toml(path) if path.suffix == ".toml" else _read_csv(path)
    _refuse_same_files(f"{path.name}: ", manifest.entries)
    if not manifest.entries:
        raise ProfileError(f"{path.name}: lists no runs; one or more are wanted.")
    return manifest


def manifest_from_names(files: Sequence[str | os.PathLike[str]], pattern: str = "") -> Manifest:
    """Manifest from file names that contain the contexts.

    Without a pattern, two underscores separate the parts of a name, and the task comes first:
    ``gzip__ways=04__bw=0500MBps__run=03.perf.csv``.  A pattern is a name with fields:
    ``q{cpu_quota [%]}_r{run}.csv``; ``{task}`` and ``*`` match any text.

    Raises
    ------
    ArgumentError
        The pattern has no resource, or one twice.
    ProfileError
        A name does not match, the names have several tasks, or a file or run occurs twice.
    """
    parse = _pattern_parser(pattern) if pattern else _parse_parts
    entries, runs, units, tasks = [], [], {}, set()
    for file in map(Path, files):
        task, values, file_units = parse(file.name)
        if units and file_units != units:
            raise ProfileError(
                f"{file.name}: has {_titles(file_units)}, other names {_titles(units)}; the "
                f"same resources in the same units are wanted."
            )
        units = file_units
        tasks.add(task)
        runs.append(values.pop("run", float("inf")))
        entries.append(Entry(file, values))
    if len(tasks) > 1:
        raise ProfileError(f"the names have the tasks {', '.join(sorted(tasks))}; one is wanted.")
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
    """The manifest with levels added to its resources, and with this task unless it is empty."""
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
    """The column map in a TOML file."""
    path = check_input(path)
    return recording_map(read_toml(path)[1], path.name)


def _is_reserved(name: str) -> bool:
    """Whether a name has another meaning than a resource."""
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
    """Raise if a run of a context occurs twice; runs without a number (infinite) are distinct."""
    key = (*entry.context.values(), run)
    if np.isfinite(run) and key in seen:
        raise ProfileError(f"{place}: is run {run:g} of its context, as {seen[key]} is; drop one.")
    seen[key] = entry.path.name


def _titles(units: Mapping[str, str]) -> str:
    return ", ".join(f"{name} [{unit}]" for name, unit in units.items())


# --------------------------------------------------------------------------- names of files


def _parse_parts(name: str) -> tuple[str, dict[str, float], dict[str, str]]:
    """Task, values and units from the parts of a file name."""
    stem = re.sub(r"(\.[A-Za-z]\w*)+$", "", name)
    task, *parts = stem.split("__")
    values, units = {}, {}
    for part in parts:
        match = _PART.fullmatch(part)
        if not match or match[1] in values or (match[1] != "run" and _is_reserved(match[1])):
            raise ProfileError(
                f"{name}: {quoted(part)} is no resource with a level; names such as "
                f"'gzip__ways=04__bw=0500MBps__run=03.csv', a pattern or a manifest are wanted."
            )
        values[match[1]] = float(match[2])
        if match[1] != "run":
            units[match[1]] = match[3] or "1"
    if not units:
        raise ProfileError(
            f"{name}: has no context; a name such as 'gzip__ways=04__run=03.perf.csv', a pattern, "
            f"a manifest, or 'resources' in the --columns of a table of all runs is wanted."
        )
    return task, values, units


def _pattern_parser(pattern: str) -> Any:
    """Function that returns task, values and units of names that match a pattern."""
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
            if _is_reserved(title[1]):
                raise ArgumentError(
                    f"pattern has a field '{{{part}}}', a name that msbgen reserves; rename it."
                )
            units[title[1]] = title[2] or "1"
        expression += f"(?P<{title[1]}>{_LEVEL})"
    if not units:
        raise ArgumentError(
            f"pattern is {pattern!r}; one with a resource, such as "
            f"'q{{cpu_quota [%]}}_r{{run}}.csv', is wanted."
        )
    compiled = re.compile(expression, re.ASCII)

    def parse(name: str) -> tuple[str, dict[str, float], dict[str, str]]:
        match = compiled.fullmatch(name)
        if not match:
            raise ProfileError(
                f"{name}: does not match '{pattern}'; leave it out, or correct the pattern."
            )
        groups = match.groupdict()
        task = groups.pop("task", "")
        return task, {key: float(text) for key, text in groups.items()}, units

    return parse


# --------------------------------------------------------------------------- CSV


def _read_csv(path: Path) -> Manifest:
    (first, header), *body = read_lines(path) or [(1, [])]
    check_separator(f"{path.name}: line {first}", header, ",", "commas between columns are wanted")
    titles = [_title(path.name, first, cell) for cell in header]
    names = [name for name, _ in titles]
    if names.count("file") != 1 or len(set(names)) < len(names):
        raise ProfileError(
            f"{path.name}: line {first} is {shown(header)}; a header 'file,NAME "
            f"[unit],...' with each name once is wanted."
        )
    other_columns = {"file", "run", "duration", COMPLETE, *RUN_METADATA}
    resources = {
        name: {"units": unit or "1"}
        for name, unit in titles
        if name not in other_columns and not name.endswith((_ACHIEVED, _MECHANISM))
    }
    _check_columns(f"{path.name}: line {first}", titles, resources)
    entries, mechanisms, seen = [], {}, {}
    for line, cells in body:
        place = f"{path.name}: line {line}"
        check_width(place, cells, len(header))
        values: dict[str, Any] = {"file": cells[names.index("file")]}
        for (name, unit), cell in zip(titles, cells):
            if name.endswith(_MECHANISM):
                _check_mechanism(place, name, cell, mechanisms)
            elif name != "file" and (cell or name in resources):
                values[name] = _number(place, name, cell) * (
                    UNITS[unit or "s"] if name in _TIMES else 1.0
                )
        entries.append(_entry(path, place, values, list(resources), seen))
    for name, text in mechanisms.items():
        if name in resources and text:
            resources[name]["mechanism"] = text
    return _checked(path, Manifest(tuple(entries), resources))


def _title(source: str, line: int, cell: str) -> tuple[str, str]:
    match = _TITLE.fullmatch(cell)
    if not match:
        name, bracket, unit = cell.partition("[")
        plain = re.sub(r"\W+", "_", name.strip()).strip("_")
        wanted = "'name' or 'name [unit]'"
        if _TITLE.fullmatch(plain):
            wanted = f"'{plain}{bracket and ' ['}{unit}', without blanks or signs,"
        raise ProfileError(
            f"{source}: line {line}: column {quoted(cell)} is invalid; {wanted} is wanted."
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
        raise ProfileError(f"{place}: '{name}' is {quoted(str(cell))}; a number is wanted.")
    return value


def _check_columns(
    place: str, titles: Sequence[tuple[str, str]], resources: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise :class:`ProfileError` for unknown columns and wrong units."""
    for name, unit in titles:
        for suffix in (_ACHIEVED, _MECHANISM):
            if name.endswith(suffix) and name.removesuffix(suffix) not in resources:
                raise ProfileError(
                    f"{place}: '{name}' has no resource '{name.removesuffix(suffix)}'; "
                    f"one of {', '.join(resources)} is wanted."
                )
        near = difflib.get_close_matches(name, _TIMES, 1, _SIMILAR) if name in resources else []
        if near:
            raise ProfileError(f"{place}: '{name}' is unknown; '{near[0]}' is wanted.")
        if name in _TIMES:
            allowed, wanted = [*UNITS], f"one of {', '.join(UNITS)}"
        elif name in (COMPLETE, *RUN_METADATA):
            allowed, wanted = ["1"], "'1'"
        elif name.endswith(_ACHIEVED):
            resource_unit = resources[name.removesuffix(_ACHIEVED)]["units"]
            allowed, wanted = [resource_unit], f"'{resource_unit}'"
        else:
            continue
        if unit and unit not in allowed:
            raise ProfileError(f"{place}: '{name}' is in '{unit}'; {wanted} is wanted.")


def _check_mechanism(place: str, name: str, text: str, mechanisms: dict[str, str]) -> None:
    """Raise if a resource has two mechanisms, because their values are not comparable."""
    resource = name.removesuffix(_MECHANISM)
    if mechanisms.setdefault(resource, text) != text:
        raise ProfileError(
            f"{place}: '{resource}' was set by {quoted(text)}, before by "
            f"{quoted(mechanisms[resource])}; one mechanism a file is wanted."
        )


# --------------------------------------------------------------------------- TOML


def _read_toml(path: Path) -> Manifest:
    path, content = read_toml(path)
    check_keys(content, ("task", "platform", "resources", "run", *MAP_KEYS), (), path.name)
    resources = _table(path.name, "resources", content.get("resources", {}))
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
                raise ProfileError(
                    f"{path.name}: '{key}' of '{name}' is invalid; a text is wanted."
                )
    runs = content.get("run", [])
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise ProfileError(
            f"{path.name}: 'run' is no list; a table [[run]] for each run is wanted."
        )
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
    attrs = {key: content[key] for key in ("task", "platform") if key in content}
    for key, text in attrs.items():
        if not isinstance(text, str):
            raise ProfileError(f"{path.name}: '{key}' is invalid; a text is wanted.")
    map_keys = {key: content[key] for key in MAP_KEYS if key in content}
    columns = recording_map(map_keys, path.name) if map_keys else None
    return _checked(path, Manifest(tuple(entries), resources, attrs, columns))


def _table(source: str, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProfileError(f"{source}: '{name}' is no table; [{name}] is wanted.")
    return value


# --------------------------------------------------------------------------- both


def _entry(
    path: Path,
    place: str,
    values: Mapping[str, Any],
    resources: Sequence[str],
    seen: dict[tuple[float, ...], str],
) -> Entry:
    """Entry from values by name: the file, all resources and metadata."""
    file = values.get("file")
    if not isinstance(file, str) or not file or "\0" in file:
        raise ProfileError(f"{place}: has no 'file'; the recording is wanted.")
    for name in resources:
        if name not in values:
            raise ProfileError(f"{place}: '{name}' is missing; its value is wanted.")
    metadata = {
        name: values[name] for name in ("duration", COMPLETE, *RUN_METADATA) if name in values
    }
    if metadata.get("duration", 1.0) <= 0:
        raise ProfileError(f"{place}: 'duration' is {metadata['duration']:g}; seconds are wanted.")
    if metadata.get(COMPLETE, 1.0) not in (0.0, 1.0):
        raise ProfileError(
            f"{place}: '{COMPLETE}' is {metadata[COMPLETE]:g}; 1, or 0 for a run that was cut, is "
            f"wanted."
        )
    for name in RUN_METADATA:
        if metadata.get(name, 0.0) < 0:
            raise ProfileError(f"{place}: '{name}' is {metadata[name]:g}; 0 or more is wanted.")
    achieved = {
        name: values[f"{name}{_ACHIEVED}"] for name in resources if f"{name}{_ACHIEVED}" in values
    }
    context = {name: values[name] for name in resources}
    entry = Entry(path.parent / file, context, achieved, metadata)
    _refuse_same_run(place, entry, values.get("run", float("inf")), seen)
    return entry


def check_resources(source: str, names: Sequence[str]) -> None:
    """Raise :class:`ProfileError` for names that no resource may have."""
    for name in names:
        if not _TITLE.fullmatch(name) or "[" in name:
            raise ProfileError(
                f"{source}: resource {quoted(name)} is invalid; letters, digits and '_' are wanted."
            )
        if _is_reserved(name):
            raise ProfileError(f"{source}: '{name}' is a name that msbgen reserves; rename it.")


def _checked(path: Path, manifest: Manifest) -> Manifest:
    if not manifest.resources:
        raise ProfileError(
            f"{path.name}: has no resource; one or more, such as 'cpu_quota [%]', are wanted."
        )
    check_resources(path.name, list(manifest.resources))
    return manifest
