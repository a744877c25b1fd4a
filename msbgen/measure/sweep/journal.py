"""The journal of a sweep: what the machine was set to, and every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msbgen.data import journal
from msbgen.data.journal import Record
from msbgen.measure.actuators.kernel_settings import NORMALISERS

VERSION = 1
# How runs end that are kept: by themselves, or by the timeout where the spec says so.
DONE, CUT = "done", "cut"
# No number in a journal is as large.
_MOST = 1e18
# What may take recordings; the first line names one, with its version.
_RECORDERS = ("perf", "torch")
# What is relied upon of each kind of record.
_HELD: dict[str, dict[str, type]] = {
    "sweep": {
        "version": int,
        **dict.fromkeys(("tag", "digest", "task", "boot", "machine"), str),
    },
    "make": {"path": str},
    "not made": {"path": str},
    "set": dict.fromkeys(("path", "before", "wrote"), str),
    "read": dict.fromkeys(("path", "after"), str),
    "run": {"slot": int, "attempt": int, "run": int, "recording": str, "context": list},
}
_KEPT: dict[str, type] = {
    "digest": str, "wall": float, "cpu": float, "load": float, "steal": float, "achieved": dict,
}  # fmt: skip


class SweepJournal(journal.Journal):
    """The journal of a sweep that is being written; see :class:`msbgen.data.journal.Journal`.

    Parameters
    ----------
    path : Path
    new : bool
        Whether it is begun, and must not exist; otherwise it is continued.
    """

    def __init__(self, path: Path, *, new: bool):
        super().__init__(path, _FORM, new=new)


def read_journal(path: Path) -> list[Record]:
    """Records of a sweep's journal; see :func:`msbgen.data.journal.read_journal`."""
    return journal.read_journal(path, _FORM)


def is_kept(record: Record) -> bool:
    """Whether the record of a run is of one that is kept."""
    return record.get("outcome") in (DONE, CUT)


def _is_record(record: Any) -> bool:
    """Whether a line holds all that is relied upon of its kind."""
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return False
    held = _HELD.get(record["event"], {})
    if record["event"] == "set" and record.get("reading") not in NORMALISERS:
        return False
    if record["event"] == "run":
        held = {**held, **(_KEPT if is_kept(record) else {"outcome": str, "why": str})}
        held |= {"began": float} if "began" in record else {}
    if record["event"] == "sweep" and not any(_is_a(str, record.get(r)) for r in _RECORDERS):
        return False
    return all(_is_a(kind, record.get(key)) for key, kind in held.items())


def _is_a(kind: type, value: Any) -> bool:
    """Whether a value is of a kind; numbers are not below zero, lists of numbers."""
    if kind is float:
        return type(value) in (int, float) and 0 <= value < _MOST
    if kind is list and isinstance(value, list):
        return all(_is_a(float, part) for part in value)
    if kind is dict and isinstance(value, dict):
        return all(_is_a(float, part) for part in value.values())
    return type(value) is kind


_FORM = journal.Form(
    "sweep",
    VERSION,
    "a sweep",
    "msbgen measure",
    "measuring",
    "remove that line if it tells of a run, and --resume makes up for it",
    _is_record,
)
