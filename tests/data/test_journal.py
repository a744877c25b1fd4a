"""Journals of any form: lines are whole or not there, and of one process."""

import errno
import os
from dataclasses import replace

import pytest

from forks import forked, status_of
from msbgen.core.errors import ProfileError
from msbgen.data.journal import Journal, JournalFormat, read_journal


def is_record(record):
    return isinstance(record, dict) and isinstance(record.get("event"), str)


FORMAT = JournalFormat("walk", 2, "a walk", "go", "walking", "walk that step again", is_record)
HEAD = {"event": "walk", "version": 2}
STEPS = [{"event": "step", "to": i} for i in range(3)]


@pytest.fixture
def path(tmp_path):
    journal = Journal(tmp_path / "j", FORMAT, new=True)
    for record in (HEAD, *STEPS):
        journal.append(record)
    journal.close()
    return journal.path


def test_half_a_line_is_cut_off_and_the_journal_goes_on(path):
    data = path.read_bytes()
    for cut in [*range(data.index(b"\n") + 1, len(data), 5), len(data) - 1, len(data)]:
        path.write_bytes(data[:cut])
        kept = [HEAD, *STEPS][: data[:cut].count(b"\n")]
        assert read_journal(path, FORMAT) == kept
        journal = Journal(path, FORMAT, new=False)
        assert journal.records == kept
        journal.append({"event": "step", "to": "ü"})
        journal.close()
        assert read_journal(path, FORMAT) == [*kept, {"event": "step", "to": "ü"}]


@pytest.mark.parametrize("bad", [b"{}", b"\xff", b"[" * 100_000, b'{"event": "st', b"[1]"])
@pytest.mark.parametrize(
    ("number", "remedy"), [(0, "begin again elsewhere"), (2, "walk that step again")]
)
def test_a_damaged_line_is_named_with_what_to_do(path, number, remedy, bad):
    lines = path.read_bytes().splitlines()
    lines[number] = bad
    path.write_bytes(b"\n".join(lines) + b"\n")
    message = f"j: line {number + 1} is no record of a walk; restore a copy, or {remedy}."
    with pytest.raises(ProfileError, match=f"{message}$"):
        read_journal(path, FORMAT)


def test_a_second_first_record_is_refused(path):
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(ProfileError, match="line 5 is a second first record of a walk; restore"):
        read_journal(path, FORMAT)


def test_other_forms_and_versions_are_no_such_journal(path):
    for head in ({**HEAD, "version": 1}, {**HEAD, "event": "run"}):
        other = replace(FORMAT, event="run", content="a run")
        with pytest.raises(ProfileError, match="is no journal of 'go'"):
            read_journal(path, other)
        path.write_text(f'{{"event": "{head["event"]}", "version": {head["version"]}}}\n')
        with pytest.raises(ProfileError, match="is no journal of 'go'"):
            read_journal(path, FORMAT)
        path.write_text('{"event": "walk", "version": 2}\n')


def test_one_process_at_a_time(path):
    mine = Journal(path, FORMAT, new=False)

    def another():
        try:
            Journal(path, FORMAT, new=False)
        except ProfileError as error:
            return 7 if "another process is walking" in str(error) else 8

    assert status_of(forked(another)) == 7
    mine.close()


def test_a_journal_that_is_missing_or_there_already(path):
    with pytest.raises(ProfileError, match="no such file"):
        Journal(path.parent / "none", FORMAT, new=False)
    with pytest.raises(FileExistsError):
        Journal(path, FORMAT, new=True)
    with pytest.raises(OSError, match="there is no folder"):
        Journal(path.parent / "none" / "j", FORMAT, new=True)


def test_a_journal_that_was_never_begun_is_begun(tmp_path):
    """Killed after the file was made, and before its first line was whole."""
    path = tmp_path / "j"
    for data in (b"", b"{", b'{"event": "walk", "ver'):
        path.write_bytes(data)
        assert read_journal(path, FORMAT) == []
        again = Journal(path, FORMAT, new=True)
        again.append(HEAD)
        again.close()
        assert read_journal(path, FORMAT) == [HEAD]
        path.write_bytes(data)
        again = Journal(path, FORMAT, new=False)
        again.append(HEAD)
        again.close()
        assert read_journal(path, FORMAT) == [HEAD]


def test_a_record_that_does_not_fit_leaves_nothing_behind(path, monkeypatch):
    again = Journal(path, FORMAT, new=False)
    before = path.read_bytes()
    write = os.write

    def half(handle, data):
        return write(handle, data[: len(data) // 2])

    monkeypatch.setattr("msbgen.data.journal.os.write", half)
    with pytest.raises(OSError, match="No space left on device; make room, then") as caught:
        again.append({"event": "step", "to": 4})
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    again.append(STEPS[0])
    assert read_journal(path, FORMAT)[-1] == STEPS[0]
    again.close()
