"""Records of a sweep's journal have all that resuming and restoring need."""

import json

import pytest

from msbgen.core.errors import ProfileError
from msbgen.measure.sweep.journal import SweepJournal, read_journal
from sweeping import HEAD, RUN

RUNS = [{**RUN, "slot": i, "outcome": "failed", "why": "ü\n\x00"} for i in range(3)]


@pytest.fixture
def journal(tmp_path):
    journal = SweepJournal(tmp_path / "j", new=True)
    for record in (HEAD, *RUNS):
        journal.append(record)
    journal.close()
    return journal.path


def test_what_was_added_is_read(journal):
    assert read_journal(journal) == [HEAD, *RUNS]


def without(record, key):
    return {k: v for k, v in record.items() if k != key}


CHANGE = {"event": "set", "path": "p", "reading": "plain", "before": "1", "wrote": "2"}
CHANGES = [
    CHANGE,
    {"event": "make", "path": "p"},
    {"event": "not made", "path": "p"},
    {"event": "read", "path": "p", "after": "3"},
]
EDITED = [
    *[without(RUN, key) for key in RUN],
    without({**RUN, "outcome": "cut"}, "wall"),
    *[without(RUNS[0], key) for key in RUNS[0] if key not in RUN],
    *[without(change, key) for change in CHANGES for key in change],
    {**RUN, "slot": "x"},
    {**RUN, "slot": True},
    {**RUN, "wall": -1.0},
    {**RUN, "cpu": float("inf")},
    {**RUN, "load": float("nan")},
    {**RUN, "wall": 10**400},
    {**RUN, "context": ["x"]},
    {**RUN, "achieved": {"cache_ways": None}},
    {**CHANGE, "reading": "none"},
]


@pytest.mark.parametrize("record", EDITED, ids=lambda r: str(r)[:60])
def test_a_record_that_lacks_what_is_relied_upon_is_none(journal, record):
    lines = journal.read_bytes().splitlines(keepends=True)
    for whole in (RUN, {**RUN, "outcome": "cut"}, *CHANGES):
        journal.write_bytes(lines[0] + json.dumps(whole).encode() + b"\n")
        assert read_journal(journal) == [HEAD, whole]
    journal.write_bytes(lines[0] + json.dumps(record).encode() + b"\n")
    with pytest.raises(ProfileError, match="j: line 2 is no record of a sweep; restore a copy"):
        read_journal(journal)


@pytest.mark.parametrize("key", HEAD)
def test_a_head_holds_what_restoring_and_resuming_need(journal, key):
    journal.write_text(json.dumps(without(HEAD, key)) + "\n")
    with pytest.raises(ProfileError, match="line 1 is no record of a sweep"):
        read_journal(journal)
