"""A journal's lines are whole or not there."""

import errno
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forks import forked, status_of
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


def test_wherever_it_was_cut_the_whole_lines_are_kept_and_it_goes_on(journal):
    data = journal.read_bytes()
    first = data.index(b"\n") + 1
    for cut in [first, *range(first + 1, len(data), 31), len(data) - 1, len(data)]:
        journal.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        again = SweepJournal(journal, new=False)
        assert again.records == [HEAD, *RUNS][:whole]
        again.append({"event": "more"})
        again.close()
        assert read_journal(journal) == [*[HEAD, *RUNS][:whole], {"event": "more"}]


def test_a_damaged_line_in_the_middle_is_an_error_with_its_number(journal):
    lines = journal.read_bytes().splitlines(keepends=True)
    for bad in (b"{}\n", b"\xff\n", b"[" * 100_000 + b"\n", b'{"event": "ru\n', b"[1]\n"):
        journal.write_bytes(b"".join([*lines[:2], bad, *lines[2:]]))
        with pytest.raises(ProfileError, match="line 3 is no record"):
            read_journal(journal)


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


def test_a_journal_that_was_never_begun_is_begun(tmp_path):
    """Killed after the file was made, and before its first line was whole."""
    path = tmp_path / "j"
    for data in (b"", b"{", b'{"event": "sweep", "ver'):
        path.write_bytes(data)
        assert read_journal(path) == []
        again = SweepJournal(path, new=True)
        again.append(HEAD)
        again.close()
        assert read_journal(path) == [HEAD]
        path.write_bytes(data)
        again = SweepJournal(path, new=False)
        again.append(HEAD)
        again.close()
        assert read_journal(path) == [HEAD]


@settings(max_examples=15)
@given(st.binary(min_size=1, max_size=60).filter(lambda data: not data.startswith(b"{")))
def test_other_files_are_no_journals(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "x"
    path.write_bytes(data)
    with pytest.raises(ProfileError):
        read_journal(path)


def test_one_process_at_a_time(journal):
    mine = SweepJournal(journal, new=False)

    def another():
        try:
            SweepJournal(journal, new=False)
        except ProfileError as error:
            return 7 if "another process" in str(error) else 8

    assert status_of(forked(another)) == 7
    mine.close()
    SweepJournal(journal, new=False).close()


def test_a_journal_is_begun_once(journal):
    with pytest.raises(FileExistsError):
        SweepJournal(journal, new=True)
    with pytest.raises(OSError, match="there is no folder"):
        SweepJournal(journal.parent / "none" / "j", new=True)


def test_a_record_that_does_not_fit_leaves_nothing_behind(journal, monkeypatch):
    again = SweepJournal(journal, new=False)
    before = journal.read_bytes()
    write = os.write

    def half(handle, data):
        return write(handle, data[: len(data) // 2])

    monkeypatch.setattr("msbgen.data.journal.os.write", half)
    with pytest.raises(OSError, match="No space") as caught:
        again.append({**RUN, "slot": 4})
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(journal)
    monkeypatch.undo()
    assert journal.read_bytes() == before
    again.append({**RUN, "slot": 5})
    assert read_journal(journal)[-1]["slot"] == 5
    again.close()
