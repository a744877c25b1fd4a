"""The journal of a sweep: every changed setting and every run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msbgen.data import journal
from msbgen.data.journal import Record
from msbgen.sources.measure.actuators.kernel_settings import NORMALISERS

VERSION = 1
# Outcomes of runs that are kept: the program ended, or the timeout ended it and the spec allows it.
DONE, CUT = "done", "cut"
# Outcome of runs that a memory limit ended: they are not repeated, as the next would end so, too.
OUT_OF_MEMORY = "out of memory"
# All numbers in a journal are smaller.
_LARGEST = 1e18
# Names of recorders; the first record has one of them as a key, with the version.
_RECORDERS = ("perf", "torch")
# The tag of a sweep, by which its processes are found and ended.
_TAG = re.compile("[0-9a-f]{16}")
# Required keys of each kind of record, and their types.
_REQUIRED: dict[str, dict[str, type]] = {
    "sweep": {"version": int, **dict.fromkeys(("tag", "digest", "task", "boot", "machine"), str)},
    "make": {"path": str},
    "not made": {"path": str},
    "set": dict.fromkeys(("path", "before", "wrote"), str),
    "read": dict.fromkeys(("path", "after"), str),
    "run": {"slot": int, "attempt": int, "run": int, "recording": str, "context": list},
}
_REQUIRED_IF_KEPT: dict[str, type] = {
    "digest": str, "wall": float, "cpu": float, "load": float, "steal": float, "achieved": dict,
}  # fmt: skip


class SweepJournal(journal.Journal):
    """The journal of a sweep, open for writing; see :class:`msbgen.data.journal.Journal`."""

    def __init__(self, path: Path, *, new: bool):
        super().__init__(path, _FORMAT, new=new)


def read_journal(path: Path) -> list[Record]:
    """Records of a sweep's journal; see :func:`msbgen.data.journal.read_journal`."""
    return journal.read_journal(path, _FORMAT)


def is_kept(record: Record) -> bool:
    """Whether the run of a record is kept."""
    return record.get("outcome") in (DONE, CUT)


def is_settled(record: Record) -> bool:
    """Whether the run of a record is not repeated: it is kept, or ended for lack of memory."""
    return is_kept(record) or record.get("outcome") == OUT_OF_MEMORY


def _is_record(record: Any) -> bool:
    """Whether a line has all required keys of its kind."""
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return False
    required = _REQUIRED.get(record["event"], {})
    if record["event"] == "set" and record.get("reading") not in NORMALISERS:
        return False
    if record["event"] == "run":
        kept = is_kept(record)
        required = {**required, **(_REQUIRED_IF_KEPT if kept else {"outcome": str, "why": str})}
        added = {"began": float, "variant": str}  # later versions write them
        required |= {key: kind for key, kind in added.items() if key in record}
    if record["event"] == "sweep" and not (
        any(_has_type(str, record.get(name)) for name in _RECORDERS)
        and _TAG.fullmatch(str(record.get("tag")))
    ):
        return False
    return all(_has_type(kind, record.get(key)) for key, kind in required.items())


def _has_type(kind: type, value: Any) -> bool:
    """Whether a value has this type; float stands for numbers ≥ 0, list and dict for levels."""
    if kind is float:
        return type(value) in (int, float) and 0 <= value < _LARGEST
    if kind in (list, dict) and isinstance(value, kind):
        levels = value.values() if isinstance(value, dict) else value
        return all(type(level) in (int, float) and abs(level) < _LARGEST for level in levels)
    return type(value) is kind


_FORMAT = journal.JournalFormat(
    "sweep",
    VERSION,
    "a sweep",
    "msbgen measure",
    "measuring",
    "if it records a run, remove it; --resume repeats the run",
    _is_record,
)
