"""Readers of task graphs: netCDF, JSON, workflow traces (WfFormat), DOT, lists of parents."""

import os
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from msbgen.core.errors import ProfileError
from msbgen.core.words import number_of
from msbgen.data.files import check_input
from msbgen.data.json_files import json_object
from msbgen.data.tables import check_width, read_lines
from msbgen.systems.graphs.dataset import GRAPH_SCHEMA, SCHEMA, TASK_NUMBERS
from msbgen.systems.graphs.dot import read_dot
from msbgen.systems.graphs.records import (
    NUMBERS,
    GraphEdge,
    GraphRecords,
    GraphTask,
    checked,
    only,
    shown,
)

WFFORMAT = "1.5"
# Steps of the clocks by which workflow systems record times [s].
_STEPS = (1.0, 0.1, 0.01, 1e-3, 1e-6)
# Format of each ending of a file.
ENDINGS = {
    ".nc": "netCDF",
    ".json": "JSON or WfFormat",
    ".dot": "DOT",
    ".gv": "DOT",
    ".csv": "a list of parents",
    ".txt": "a list of parents",
}


def read(
    path: str | os.PathLike[str], *, tasks: str | os.PathLike[str] | None = None
) -> xr.Dataset:
    """Read a task graph from a file; the ending of its name gives the format.

    Parameters
    ----------
    path : str or path
        ``.nc`` (schema ``msbgen-graph/1``), ``.json`` (of msbgen, or a workflow in WfFormat 1.5),
        ``.dot`` or ``.gv``, ``.csv`` or ``.txt`` (a list of parents).
    tasks : str or path
        For lists of parents without kinds: a table with ``task``, ``kind`` and ``time [s]`` or
        ``work``.

    Returns
    -------
    xarray.Dataset
        Its ``encoding["doubts"]`` has sentences about times that a workflow recorded as 0.

    Raises
    ------
    ProfileError
        The file cannot be read in its format, or is no valid graph; the message names file and
        place.
    """
    path = check_input(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        endings = ", ".join(ENDINGS)
        raise ProfileError(f"{path.name}: ends like no graph; one of {endings} is wanted.")
    if tasks is not None and ENDINGS[ending] != "a list of parents":
        raise ProfileError(f"{path.name}: has its tasks in it; drop the table of tasks.")
    if ending == ".nc":
        return SCHEMA.read(path)
    if ENDINGS[ending] == "DOT":
        graph = read_dot(_text(path), path.name).graph()
    elif ending == ".json":
        document = json_object(_text(path), path.name, "a graph or a workflow")
        workflow = "workflow" in document
        records = (_workflow if workflow else _graph_json)(document, GraphRecords(path.name))
        graph = records.graph()
        graph.encoding["doubts"] = [f"{path.name}: {doubt}" for doubt in records.doubts]
    else:
        graph = _parents(path, tasks).graph()
    graph.encoding["source"] = str(path)
    return graph


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path.name}: cannot be read as text ({error}).") from None


def _graph_json(document: Mapping[str, Any], records: GraphRecords) -> GraphRecords:
    """Read JSON of msbgen: ``schema``, ``name``, ``family``, ``tasks`` and ``edges``."""
    if document.get("schema") != GRAPH_SCHEMA:
        raise records.error(
            f"'schema' is {shown(repr(document.get('schema')))}; a graph says '{GRAPH_SCHEMA}', a "
            f"workflow has 'workflow'"
        )
    only(list(document), ("schema", "name", "family", "tasks", "edges"), "the file", records)
    for key in ("name", "family"):
        setattr(records, key, _word(document.get(key, ""), f"'{key}'", records))
    for i, task in enumerate(_list(document, "tasks", records)):
        place = f"task {i}"
        checked(task, dict, "an object with name and kind", place, records.error)
        only(list(task), ("name", "kind", *NUMBERS), place, records)
        name = _word(task.get("name"), f"'name' of {place}", records)
        kind = _word(task.get("kind"), f"'kind' of {place}", records)
        numbers = {k: records.number(task[k], k, place) for k in NUMBERS if k in task}
        records.tasks.append(GraphTask(name, kind, numbers, place))
    for i, edge in enumerate(_list(document, "edges", records)):
        place = f"edge {i}"
        checked(edge, dict, "an object with source and target", place, records.error)
        only(list(edge), ("source", "target", "type", "bytes"), place, records)
        first = _word(edge.get("source"), f"'source' of {place}", records)
        second = _word(edge.get("target"), f"'target' of {place}", records)
        kind = records.edge_type(edge.get("type", "data"), place)
        amount = records.number(edge["bytes"], "bytes", place) if "bytes" in edge else None
        records.edges.append(GraphEdge(first, second, place, kind, amount))
    return records


def _workflow(document: Mapping[str, Any], records: GraphRecords) -> GraphRecords:
    """Read a workflow trace in WfFormat 1.5 (wfcommons.org).

    The kind of a task is its program, its time the ``runtimeInSeconds`` of its execution.  The data
    of an edge are the files that its source writes and its target reads.  A time of 0 is half of a
    step of the clock.
    """
    version = document.get("schemaVersion")
    if version != WFFORMAT:
        raise records.error(f"'schemaVersion' is {shown(repr(version))}; '{WFFORMAT}' is wanted")
    workflow = checked(document["workflow"], dict, "an object", "'workflow'", records.error)
    parts = {
        key: checked(workflow.get(key), dict, "an object", f"'workflow.{key}'", records.error)
        for key in ("specification", "execution")
    }
    records.name = _word(document.get("name", ""), "'name'", records)
    ran: dict[str, Mapping[str, Any]] = {}
    for i, task in enumerate(_list(parts["execution"], "tasks", records)):
        checked(task, dict, "an object", f"execution of task {i}", records.error)
        name = _word(task.get("id"), f"'id' of the execution of task {i}", records)
        if name in ran:
            raise records.error(f"task '{shown(name)}' was executed twice; one execution is wanted")
        ran[name] = task
    sizes: dict[str, float] = {}
    for i, file in enumerate(_list(parts["specification"], "files", records, optional=True)):
        checked(file, dict, "an object", f"file {i}", records.error)
        name = _word(file.get("id"), f"'id' of file {i}", records)
        if name in sizes:
            raise records.error(f"file {i}: '{shown(name)}' is there already; drop one of them")
        sizes[name] = records.number(
            file.get("sizeInBytes"), "sizeInBytes", f"file '{shown(name)}'"
        )
    written: dict[str, set[str]] = {}
    read: dict[str, set[str]] = {}
    ends: dict[tuple[str, str], str] = {}
    for i, task in enumerate(_list(parts["specification"], "tasks", records)):
        checked(task, dict, "an object", f"task {i}", records.error)
        name = _word(task.get("id"), f"'id' of task {i}", records)
        place = f"task '{shown(name)}'"
        if name in written:
            raise records.error(f"task {i}: {place} is there already; drop one of them")
        if name not in ran:
            raise records.error(f"{place} was not executed; its runtimeInSeconds is wanted")
        time = ran[name].get("runtimeInSeconds")
        if time is None:
            raise records.error(
                f"{place}: its runtimeInSeconds is missing; a positive one is wanted"
            )
        seconds = records.number(time, "runtimeInSeconds", place)
        if not seconds >= 0:
            raise records.error(
                f"{place}: its runtimeInSeconds is {seconds:g}; a number from 0 on is wanted"
            )
        kind = _program(task, ran[name], place, records)
        records.tasks.append(GraphTask(name, kind, {"time": seconds}, place))
        written[name], read[name] = (
            {
                _word(f, f"a file of {place}", records)
                for f in _list(task, key, records, optional=True)
            }
            for key in ("outputFiles", "inputFiles")
        )
        for parent in _list(task, "parents", records, optional=True):
            ends[_word(parent, f"a parent of {place}", records), name] = place
        for child in _list(task, "children", records, optional=True):
            ends[name, _word(child, f"a child of {place}", records)] = place
    for (source, target), place in ends.items():
        shared = written.get(source, set()) & read.get(target, set())
        amount = sum(sizes.get(file, 0.0) for file in sorted(shared)) if sizes else None
        records.edges.append(GraphEdge(source, target, place, amount=amount))
    return _without_zeros(records)


def _without_zeros(records: GraphRecords) -> GraphRecords:
    """The records with half of a step of the clock as the times that it recorded as 0.

    Workflow systems record whole seconds, or whole milliseconds: the step is the largest power of
    ten, at most 1 s, of which all times are multiples.
    """
    short = [task for task in records.tasks if task.numbers["time"] == 0]
    if not short:
        return records
    times = np.array([task.numbers["time"] for task in records.tasks])
    steps = [
        step for step in _STEPS if np.allclose(times / step, np.round(times / step), atol=1e-6)
    ]
    step = max(steps, default=min(_STEPS))
    for task in short:
        task.numbers["time"] = step / 2
    records.doubts.append(
        f"{len(short)} of {number_of(len(times), 'task')} took less than the clock's step of "
        f"{step:g} s; half of it was taken."
    )
    return records


def _program(
    task: Mapping[str, Any], execution: Mapping[str, Any], place: str, records: GraphRecords
) -> str:
    """Program of a task; if it is no single word, the first part of the task's name."""
    command = execution.get("command", {})
    program = command.get("program") if isinstance(command, dict) else None
    if isinstance(program, str) and program.split() == [program]:
        return posixpath.basename(program) or program
    name = _word(task.get("name", task.get("id")), f"'name' of {place}", records)
    return name.partition(" ")[0].rpartition(":")[2] or name


def _word(value: Any, what: str, records: GraphRecords) -> str:
    return checked(value, str, "a text", what, records.error)


def _list(
    document: Mapping[str, Any], key: str, records: GraphRecords, *, optional: bool = False
) -> list[Any]:
    value = document.get(key, [] if optional else None)
    return checked(value, list, "a list", f"'{key}'", records.error)


# --------------------------------------------------------------------------- lists of parents


def _parents(path: Path, table: str | os.PathLike[str] | None) -> GraphRecords:
    """Read a line for each task: its name, a comma, its predecessors with spaces in between.

    A header ``task,parents,kind,time [s]`` (or ``work``, and other numbers) may add columns.
    Without it, kinds and times are in a table of tasks.  A parent without a line is a task without
    predecessors.
    """
    records = GraphRecords(path.name)
    lines = read_lines(path)
    if not lines:
        raise records.error("is empty; a line a task is wanted")
    header = ["task", "parents"]
    if lines[0][1][0] == "task":
        header, lines = lines[0][1], lines[1:]
    titles = _titles(header, ("task", "parents"), records)
    inline = "kind" in titles
    if inline and table is not None:
        raise records.error("says kinds itself; drop the table of tasks")
    if not inline and table is None:
        raise records.error("says neither kinds nor times; a table of tasks with them is wanted")
    table_rows = {} if table is None else _table(Path(table))
    waits: dict[str, tuple[str, dict[str, str]]] = {}
    for line, cells in lines:
        place = f"line {line}"
        check_width(f"{path.name}: {place}", cells, len(header), least=0)
        row = dict(zip(titles, [*cells, *[""] * (len(header) - len(cells))]))
        name = row["task"]
        if name in waits:
            raise records.error(f"{place}: task '{shown(name)}' is there already, {waits[name][0]}")
        waits[name] = place, row
        records.edges += [GraphEdge(parent, name, place) for parent in row["parents"].split()]
    if inline:
        rows = {name: row for name, (_, row) in waits.items()}
        records.tasks += [_task(name, rows[name], waits[name][0], records) for name in waits]
        return records
    names = dict.fromkeys([*waits, *(edge.source for edge in records.edges)])
    for name in names:
        place = waits[name][0] if name in waits else f"parent '{shown(name)}'"
        if name not in table_rows:
            raise records.error(
                f"{place}: task '{shown(name)}' is not in the table of tasks; add it"
            )
        records.tasks.append(_task(name, table_rows[name], place, records))
    return records


def _table(path: Path) -> dict[str, dict[str, str]]:
    """Rows of a table of tasks, by name of the task."""
    records = GraphRecords(path.name)
    lines = read_lines(path)
    if not lines:
        raise records.error("is empty; a header 'task,kind,time [s]' and a row per task are wanted")
    header = lines[0][1]
    titles = _titles(header, ("task", "kind"), records)
    rows: dict[str, dict[str, str]] = {}
    for line, cells in lines[1:]:
        check_width(f"{path.name}: line {line}", cells, len(header))
        row = dict(zip(titles, cells))
        if row["task"] in rows:
            raise records.error(f"line {line}: task '{shown(row['task'])}' is there already")
        rows[row["task"]] = row
    return rows


def _titles(header: list[str], needed: tuple[str, ...], records: GraphRecords) -> list[str]:
    """Names of the columns, without units."""
    units = {n: v.unit for n, v in TASK_NUMBERS.items() if v.unit in ("s", "B")}
    columns = {f"{n} [{units[n]}]" if n in units else n: n for n in NUMBERS}
    columns |= {n: n for n in ("task", "parents", "kind")}
    for title in header:
        if title not in columns or header.count(title) > 1:
            state = "named twice" if title in columns else "no column of tasks"
            raise records.error(f"column '{shown(title)}' is {state}; {', '.join(columns)} are")
    for name in needed:
        if name not in header:
            raise records.error(f"column '{name}' is missing; add it")
    return [columns[title] for title in header]


def _task(name: str, row: Mapping[str, str], place: str, records: GraphRecords) -> GraphTask:
    numbers = {k: records.number(row[k], k, place) for k in NUMBERS if row.get(k, "")}
    return GraphTask(name, row["kind"], numbers, place)
