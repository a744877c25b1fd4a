"""A journal's lines are whole or not there."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.errors import ProfileError
from msbgen.measure.sweep.journal import VERSION, Journal, read_journal
from sweeping import forked, status_of

HEAD = {"event": "sweep", "version": VERSION, "tag": "t"}
RUNS = [{"event": "run", "slot": i, "why": "ü\n\x00"} for i in range(3)]


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "j", new=True)
    for record in (HEAD, *RUNS):
        journal.append(record)
    journal.close()
    return journal.path


def test_what_was_added_is_read(journal):
    assert read_journal(journal) == [HEAD, *RUNS]


def test_wherever_it_was_cut_the_whole_lines_are_kept_and_it_goes_on(journal):
    data = journal.read_bytes()
    first = data.index(b"\n") + 1
    for cut in [first, *range(first + 1, len(data), 7), len(data) - 1, len(data)]:
        journal.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        again = Journal(journal, new=False)
        assert again.records == [HEAD, *RUNS][:whole]
        again.append({"event": "more"})
        again.close()
        assert read_journal(journal) == [*[HEAD, *RUNS][:whole], {"event": "more"}]


def test_a_damaged_line_in_the_middle_is_an_error_with_its_number(journal):
    lines = journal.read_bytes().splitlines(keepends=True)
    for bad in (b"{}\n", b"\xff\n", b'{"event": "ru\n', b"[1]\n"):
        journal.write_bytes(b"".join([*lines[:2], bad, *lines[2:]]))
        with pytest.raises(ProfileError, match="line 3 is no record"):
            read_journal(journal)


def test_a_journal_that_was_never_begun_is_begun(tmp_path):
    """Killed after the file was made, and before its first line was whole."""
    path = tmp_path / "j"
    for data in (b"", b"{", b'{"event": "sweep", "ver'):
        path.write_bytes(data)
        assert read_journal(path) == []
        again = Journal(path, new=True)
        again.append(HEAD)
        again.close()
        assert read_journal(path) == [HEAD]
        path.write_bytes(data)
        again = Journal(path, new=False)
        again.append(HEAD)
        again.close()
        assert read_journal(path) == [HEAD]


@given(st.binary(min_size=1, max_size=60).filter(lambda data: not data.startswith(b"{")))
def test_other_files_are_no_journals(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("j") / "x"
    path.write_bytes(data)
    with pytest.raises(ProfileError):
        read_journal(path)


def test_one_process_at_a_time(journal):
    mine = Journal(journal, new=False)

    def another():
        try:
            Journal(journal, new=False)
        except ProfileError as error:
            return 7 if "another process" in str(error) else 8

    assert status_of(forked(another)) == 7
    mine.close()
    Journal(journal, new=False).close()


def test_a_journal_is_begun_once(journal):
    with pytest.raises(FileExistsError):
        Journal(journal, new=True)
    with pytest.raises(OSError, match="there is no folder"):
        Journal(journal.parent / "none" / "j", new=True)


def test_a_record_that_does_not_fit_leaves_nothing_behind(journal, monkeypatch):
    again = Journal(journal, new=False)
    before = journal.read_bytes()
    write = os.write

    def half(handle, data):
        return write(handle, data[: len(data) // 2])

    monkeypatch.setattr("msbgen.measure.sweep.journal.os.write", half)
    with pytest.raises(OSError, match="No space") as caught:
        again.append({"event": "run", "slot": 4})
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(journal)
    monkeypatch.undo()
    assert journal.read_bytes() == before
    again.append({"event": "run", "slot": 5})
    assert read_journal(journal)[-1]["slot"] == 5
    again.close()
