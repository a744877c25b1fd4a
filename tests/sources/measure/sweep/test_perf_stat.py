"""perf counts from the release on, or says why it does not."""

import os
import subprocess
import tempfile
from contextlib import contextmanager

import pytest

from msbgen.sources.measure.readers.perf import read_perf
from msbgen.sources.measure.sweep.perf_stat import PerfError, counting, error_text, perf_command
from msbgen.sources.measure.sweep.process import paused_process
from sweeping import WORK, needs_perf, processes


@contextmanager
def hold(*command):
    with tempfile.TemporaryDirectory() as folder:
        streams = {"stdin": os.devnull, "stderr": f"{folder}/err"}
        with paused_process(command, folder="/", environment={}, tag="attach", **streams) as child:
            yield child


def count(child, path, events=("task-clock", "page-faults"), interval=0.005):
    return counting(
        child.pid, path, events=events, interval=interval,
        cores=sorted(os.sched_getaffinity(0)), tag="attach",
    )  # fmt: skip


@needs_perf
def test_what_is_counted_is_the_program(tmp_path):
    path = tmp_path / "r.csv"
    with hold(*WORK) as child, count(child, path):
        ended = child.run(20)
    recording = read_perf(path)
    clock, faults = recording.totals
    # a shell becomes the program under perf's eyes; the wait before the release was not counted
    assert clock / 1e9 == pytest.approx(ended.cpu, rel=0.25, abs=0.004)
    assert faults > 20
    assert recording.times[-1] > ended.wall - 0.005
    assert os.listdir(tmp_path) == ["r.csv"]


@needs_perf
def test_a_refusal_is_told_in_perfs_own_words(tmp_path):
    def attach(event):
        with hold("true") as child, count(child, tmp_path / "r.csv", (event,)):
            pass

    with pytest.raises(PerfError, match="no-such-event"):
        attach("no-such-event")
    assert not processes("no-such-event")


@needs_perf
def test_a_program_that_is_gone_is_no_reason_to_hang(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(PerfError), count(gone, tmp_path / "r.csv"):
        pass


@needs_perf
def test_an_error_in_the_block_ends_perf(tmp_path):
    def interrupted():
        with hold(*WORK) as child, count(child, tmp_path / "r.csv"):
            assert processes(str(tmp_path))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not processes(str(tmp_path))


def test_perf_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    """A stand-in for perf, in the path before it."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "perf"
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("msbgen.sources.measure.sweep.perf_stat._ATTACH_TIMEOUT", 0.2)
    monkeypatch.setattr("msbgen.sources.measure.sweep.perf_stat._END_TIMEOUT", 0.2)
    fake.write_text("#!/bin/sh\nexec sleep 64.5\n")
    fake.chmod(0o755)

    def attach():
        with hold("true") as child, count(child, tmp_path / "r.csv"):
            pass

    with pytest.raises(PerfError, match="did not count within"):
        attach()
    assert not processes("64.5")
    fake.write_text("#!/bin/sh\necho 'Error:' >&2\necho 'No permission.' >&2\nexit 3\n")
    with pytest.raises(PerfError, match=r"^No permission$"):
        attach()


def test_the_command_is_that_of_the_recorded_fixtures():
    words = perf_command(["task-clock", "a:b"], 0.01, "f.csv", 12)
    assert " ".join(words) == (
        "perf stat -I 10 -x ; -e task-clock,a:b -o f.csv -D -1 -p 12 --control"
    )


def test_last_words_are_one_line_of_what_matters(tmp_path):
    path = tmp_path / "e"
    path.write_bytes(b"Events disabled\nError:\nAccess is \xff limited.\n\nSee the manual.\n")
    assert error_text(path) == "Access is � limited. See the manual"
    path.write_bytes(b"")
    assert error_text(path) == ""
