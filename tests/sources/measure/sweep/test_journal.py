"""Records of a sweep's journal have all that resuming and restoring need."""

import json

import pytest

from msbgen.core.errors import ProfileError
from msbgen.sources.measure.sweep.journal import SweepJournal, read_journal
from sweeping import HEAD, RUN

FAILED = {**RUN, "outcome": "failed", "why": "ü\n\x00"}


@pytest.fixture
def journal(tmp_path):
    journal = SweepJournal(tmp_path / "j", new=True)
    journal.append(HEAD)
    journal.close()
    return journal.path


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
    without(FAILED, "why"),
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


def test_whole_records_are_read(tmp_path):
    journal = SweepJournal(tmp_path / "j", new=True)
    whole = [HEAD, RUN, FAILED, {**RUN, "outcome": "cut"}, *CHANGES]
    for record in whole:
        journal.append(record)
    journal.close()
    assert read_journal(journal.path) == whole


@pytest.mark.parametrize("record", EDITED, ids=lambda r: str(r)[:60])
def test_a_record_that_lacks_what_is_relied_upon_is_none(journal, record):
    with journal.open("a") as stream:
        stream.write(json.dumps(record) + "\n")
    with pytest.raises(ProfileError, match="j: line 2 is no record of a sweep; restore a copy"):
        read_journal(journal)


@pytest.mark.parametrize("key", HEAD)
def test_a_head_holds_what_restoring_and_resuming_need(journal, key):
    journal.write_text(json.dumps(without(HEAD, key)) + "\n")
    with pytest.raises(ProfileError, match="line 1 is no record of a sweep"):
        read_journal(journal)
