"""The manifest of a batch: one line for each unit that ended; a resumed batch reads it.

It is a journal (:mod:`msbgen.data.journal`): lines are only appended, and a partial
last line is ignored.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msbgen.core.errors import ArgumentError
from msbgen.data.files import check_folder, check_private_folder, private_folder
from msbgen.data.journal import Journal, JournalFormat, Record
from msbgen.output.batch.job import SCRATCH
from msbgen.output.batch.tasks import BatchTask

# Outcomes of a unit: success, an error that would repeat, loss of its worker.
DONE, FAILED, LOST = "done", "failed", "lost"
VERSION = 1
NAME = "manifest.jsonl"
# The page beside the manifest.
INDEX = "index.html"
# Options on the command line when off and on.
_TYPED = {
    "zarr": ("with --format netcdf", "with --format zarr"),
    "models": ("without --models", "with --models"),
}

# Types of the fields of a unit, and of the facts of a fit and of a generated block that are done.
_UNIT = {
    **dict.fromkeys(("task", "unit", "settings", "version", "host", "error"), str),
    **dict.fromkeys(("attempt", "bytes"), int),
    **dict.fromkeys(("files", "facts"), dict),
    "seconds": float,
}
_FIT = {
    "input": str, "stat": list, "wanted": dict, "contexts": int, "blocks": dict, "within": dict,
    "model_bytes": int,
}  # fmt: skip
_BLOCK = {"rows": int, "part_bytes": int}
# All numbers in a manifest are smaller.
_LARGEST = 1e18
# Digits of the number of a context, and blocks of a task, are no more.
_MOST_DIGITS, _MOST_BLOCKS = 18, 10**7


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    if record.get("event") == "batch":
        return isinstance(record.get("msbgen"), str) and isinstance(record.get("options"), dict)
    return (
        record.get("event") == "unit"
        and record.get("outcome") in (DONE, FAILED, LOST)
        and _has(_UNIT, record)
        and _is_name(record["task"])
        and all(_has_type(int, size) for size in record["files"].values())
        and (record["outcome"] != DONE or _has_facts(record["unit"], record["facts"]))
    )


def _has_facts(unit: str, facts: dict[str, Any]) -> bool:
    """Whether a unit that is done has the facts on which later units depend."""
    name, *parts = unit.split("/")
    if unit == "fit":
        return _has(_FIT, facts) and _is_fit(facts)
    if name == "generate":
        is_number = len(parts) == 2 and parts[1].isdecimal() and len(parts[1]) <= _MOST_DIGITS
        return is_number and _has(_BLOCK, facts)
    figures = facts.get("figures", {})
    return isinstance(figures, dict) and all(_has_type(float, x) for x in figures.values())


def _is_fit(facts: dict[str, Any]) -> bool:
    lists = [facts["wanted"].get(key) for key in ("kinds", "steps")]
    if not all(isinstance(one, list) and all(type(x) is str for x in one) for one in lists):
        return False
    sizes = [facts[key].get(kind) for key in ("blocks", "within") for kind in lists[0]]
    if not all(_has_type(int, size) and size > 0 for size in (*sizes, facts["contexts"])):
        return False
    return all(facts["contexts"] <= _MOST_BLOCKS * size for size in sizes)


def _has(types: Mapping[str, type], values: Mapping[str, Any]) -> bool:
    return all(_has_type(kind, values.get(key)) for key, kind in types.items())


def _has_type(kind: type, value: Any) -> bool:
    """Whether a value has this type; int stands for numbers ≥ 0, float for finite ones."""
    if kind is float:
        return type(value) in (int, float) and abs(value) < _LARGEST
    return type(value) is kind and (kind is not int or 0 <= value < _LARGEST)


def _is_name(task: str) -> bool:
    """Whether a text is the name of a folder in the batch."""
    return task.isprintable() and "/" not in task and task not in ("", ".", "..")


FORMAT = JournalFormat(
    "batch", VERSION, "a batch", "msbgen batch", "running a batch",
    "remove that line; --resume repeats its unit", _is_record,
)  # fmt: skip


def open_manifest(
    out: Path, tasks: Sequence[BatchTask], options: dict[str, bool], *, resume: bool
) -> Journal:
    """Create the manifest of a batch, or open that of an interrupted one.

    The folders of the results and of intermediate files are created if needed, for this user only;
    others must not be able to write them.  The options "zarr" and "models" affect the results, too.
    Raises where a batch exists there and `resume` is false, where it has other options, another
    version, or other settings of a task with finished units, and where other files would be
    overwritten or removed.
    """
    path = out / NAME
    if not path.exists():
        _check_free(out, tasks)
    if not out.is_dir():
        check_folder(out.parent, out)
        out.mkdir(0o700, exist_ok=True)
    check_private_folder(out)
    if not resume:
        try:
            journal = Journal(path, FORMAT, new=True)
        except FileExistsError:
            raise ArgumentError(
                f"{path}: exists already; continue with --resume, or name another folder."
            ) from None
    else:
        journal = Journal(path, FORMAT, new=not path.exists())
    try:
        _check(journal, tasks, options)
        with private_folder(out / SCRATCH, new=False):
            pass
    except BaseException:
        journal.close()
        raise
    return journal


def _check_free(out: Path, tasks: Sequence[BatchTask]) -> None:
    """Raise :class:`ArgumentError` where a new batch would overwrite other files."""
    for path in (out / INDEX, out / SCRATCH, *(out / task.name for task in tasks)):
        if path.is_symlink() or (path.exists() and not _is_empty_folder(path)):
            raise ArgumentError(
                f"{path}: exists already and is not of a batch; name another folder."
            )


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _check(journal: Journal, tasks: Sequence[BatchTask], options: dict[str, bool]) -> None:
    """Check that a manifest matches the present options; write its head if it is new."""
    now = version("msbgen")
    if not journal.records:
        head = {"event": "batch", "version": VERSION, "msbgen": now, "options": options}
        journal.append(head)
        return
    first = journal.records[0]
    if first["msbgen"] != now:
        raise ArgumentError(
            f"{journal.path}: was written by msbgen {first['msbgen']}, this is {now}; name another "
            f"folder."
        )
    for key, value in options.items():
        if first["options"].get(key) != value:
            raise ArgumentError(
                f"{journal.path}: was started {_TYPED[key][not value]}, not {_TYPED[key][value]}; "
                f"use the same option, or name another folder."
            )
    digests = {task.name: task.digest for task in tasks}
    begun: dict[str, dict[str, Any]] = {}
    for record in journal.records[1:]:
        if record["outcome"] != DONE:  # a failed unit left no results: its settings may change
            continue
        begun[record["task"]] = record["facts"].get("wanted", begun.get(record["task"], {}))
        if record["settings"] != digests.get(record["task"], record["settings"]):
            (task,) = (task for task in tasks if task.name == record["task"])
            raise ArgumentError(
                f"{journal.path}: task '{task.name}' was started with "
                f"{_difference(begun[task.name], task.wanted)}; restore that, or name another "
                f"folder."
            )


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Describe changed settings; unknown where the fit did not end."""
    changed = [key for key in now if key in before and before[key] != now[key]]
    changes = [f"{key} {json.dumps(before[key])}, not {json.dumps(now[key])}" for key in changed]
    return " and ".join(changes) or "other settings"


def unit_record(task: BatchTask, unit: str, outcome: str, facts: dict[str, Any]) -> Record:
    """Line of a unit that ended."""
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
