"""The manifest of a batch: a line a unit that has ended, and how; it is what resuming goes by.

A journal (:mod:`msbgen.data.journal`): only ever added to, and half a last line is none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msbgen.batch.tasks import BatchTask
from msbgen.core.errors import ArgumentError
from msbgen.data.files import check_folder
from msbgen.data.journal import Form, Journal, Record

# How a unit ends: well, by an error that it would end with again, by the loss of its worker.
DONE, FAILED, LOST = "done", "failed", "lost"
VERSION = 1
NAME = "manifest.jsonl"
# What beside it, and the tasks' folders, a batch writes.
INDEX = "index.html"
# How options that are off, and on, are typed.
_TYPED = {
    "zarr": ("with --format netcdf", "with --format zarr"),
    "models": ("without --models", "with --models"),
}

_UNIT: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("task", "unit", "settings", "version", "host", "error"), str),
    **dict.fromkeys(("attempt", "bytes"), int),
    **dict.fromkeys(("files", "facts"), dict),
    "seconds": (int, float),
}


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    if record.get("event") == "batch":
        return isinstance(record.get("msbgen"), str) and isinstance(record.get("options"), dict)
    return (
        record.get("event") == "unit"
        and record.get("outcome") in (DONE, FAILED, LOST)
        and all(isinstance(record.get(key), kind) for key, kind in _UNIT.items())
    )


FORM = Form(
    "batch",
    VERSION,
    "a batch",
    "msbgen batch",
    "running a batch",
    "remove that line, and --resume makes up for it",
    _is_record,
)


def open_manifest(
    out: Path, tasks: Sequence[BatchTask], options: dict[str, bool], *, resume: bool
) -> Journal:
    """Begin the manifest of a batch, or go on with that of one that was begun.

    Parameters
    ----------
    out : Path
        Folder of the batch, which is made.
    tasks : sequence of BatchTask
    options : dict of str to bool
        What beyond the tasks' settings forms the results: "zarr" and "models".
    resume : bool

    Raises
    ------
    ArgumentError
        A batch was begun there, and is not to be resumed; or with other options, another version,
        or, in a task of which a unit is done, other settings; none was, and results would be
        written over files of others.
    ProfileError
        The manifest is damaged.
    OSError
        The folder cannot be made.
    """
    path = out / NAME
    if not path.exists():
        _check_free(out, tasks)
    if not out.is_dir():
        check_folder(out.parent, out)
        out.mkdir(exist_ok=True)
    if not resume:
        try:
            journal = Journal(path, FORM, new=True)
        except FileExistsError:
            raise ArgumentError(
                f"{path}: exists already; go on with --resume, or name another folder."
            ) from None
    else:
        journal = Journal(path, FORM, new=not path.exists())
    try:
        _check(journal, tasks, options)
    except BaseException:
        journal.close()
        raise
    return journal


def _check_free(out: Path, tasks: Sequence[BatchTask]) -> None:
    """Raise ArgumentError where a first batch would write over what it has not written."""
    for path in (out / INDEX, *(out / task.name for task in tasks)):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise ArgumentError(
                f"{path}: exists already, and is not of a batch that was begun there; name another "
                f"folder."
            )


def _check(journal: Journal, tasks: Sequence[BatchTask], options: dict[str, bool]) -> None:
    """See that a manifest goes on as it was begun; begin it if it was not."""
    now = version("msbgen")
    if not journal.records:
        head = {"event": "batch", "version": VERSION, "msbgen": now, "options": options}
        journal.append(head)
        return
    first = journal.records[0]
    if first["msbgen"] != now:
        raise ArgumentError(
            f"{journal.path}: was begun with msbgen {first['msbgen']}, this is {now}; name another "
            f"folder."
        )
    for key, value in options.items():
        if first["options"].get(key) != value:
            raise ArgumentError(
                f"{journal.path}: was begun {_TYPED[key][not value]}, not {_TYPED[key][value]}; "
                f"say so again, or name another folder."
            )
    wanted = {task.name: task.digest for task in tasks}
    begun: dict[str, dict[str, Any]] = {}
    for record in journal.records[1:]:
        if record["outcome"] != DONE:  # nothing was made with these settings: they may be mended
            continue
        begun[record["task"]] = record["facts"].get("wanted", begun.get(record["task"], {}))
        if record["settings"] != wanted.get(record["task"], record["settings"]):
            (task,) = (task for task in tasks if task.name == record["task"])
            raise ArgumentError(
                f"{journal.path}: task '{task.name}' was begun with "
                f"{_difference(begun[task.name], task.wanted)}; put that back, or name another "
                f"folder."
            )


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """In which settings a task was begun otherwise; nobody knows where its fit did not end."""
    changed = [key for key in now if key in before and before[key] != now[key]]
    told = [f"{key} {json.dumps(before[key])}, not {json.dumps(now[key])}" for key in changed]
    return " and ".join(told) or "other settings"


def unit_record(task: BatchTask, unit: str, outcome: str, facts: dict[str, Any]) -> Record:
    """The line of a unit that has ended."""
    return {
        "event": "unit",
        "task": task.name,
        "unit": unit,
        "outcome": outcome,
        "input": "",
        "settings": task.digest,
        "version": version("msbgen"),
        "attempt": 1,
        "seconds": 0.0,
        "host": "",
        "bytes": 0,
        "files": {},
        "facts": {},
        "error": "",
        **facts,
    }
