"""The program waits, runs alone, and leaves nothing behind."""

import os
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager

import pytest

from forks import forked, status_of
from msbgen.sources.measure.sweep import process
from msbgen.sources.measure.sweep.process import Watchdog, paused_process
from sweeping import await_that, processes, work

TAG = f"test-{os.getpid()}"


@contextmanager
def hold(*command, **given):
    given = {"folder": "/", "stdin": os.devnull, "environment": {}, "tag": TAG} | given
    with (
        tempfile.TemporaryDirectory() as folder,
        paused_process(command, stderr=f"{folder}/err", **given) as child,
    ):
        yield child


def test_nothing_of_the_program_happens_before_its_release(tmp_path):
    mark = tmp_path / "mark"
    with hold("/bin/sh", "-c", f"echo x > {mark}") as child:
        time.sleep(0.1)
        assert not mark.exists()
        ended = child.run(10)
    assert mark.exists()
    assert (ended.status, ended.in_time) == (0, True)


def test_it_is_paused_where_its_shell_has_started(tmp_path, monkeypatch):
    """On a busy machine a shell starts later than what counts it."""
    mark = tmp_path / "mark"
    late = f"sleep 0.2; : > {mark}; {process._PAUSE_THEN_EXEC}"
    monkeypatch.setattr(process, "_PAUSE_THEN_EXEC", late)
    with hold("/bin/sh", "-c", "exit 3") as child:
        assert mark.exists()
        assert child.run(10).status == 3


def test_time_and_cpu_time_are_those_of_the_run():
    with hold(*work(12000)) as child:
        time.sleep(0.2)  # not counted, nor what it took to be there
        start = time.monotonic()
        ended = child.run(10)
        wall = time.monotonic() - start
    assert 0.005 < ended.cpu <= ended.wall + 0.01
    assert ended.wall <= wall < ended.wall + 0.2


def test_folder_input_and_environment_are_as_asked(tmp_path):
    (tmp_path / "in").write_text("hello\n")
    script = 'read -r x; [ "$x" = hello ] && [ "$A" = "b c" ] && echo "$PWD" > out'
    with hold(
        "/bin/sh", "-c", script, folder=tmp_path, stdin=tmp_path / "in", environment={"A": "b c"}
    ) as child:
        assert child.run(10).status == 0
    assert (tmp_path / "out").read_text() == f"{tmp_path}\n"


def test_arguments_reach_the_program_as_they_are(tmp_path):
    words = ["a b", "$HOME", "'", '"', "*", "", "-n", "\\", "ü"]
    out = tmp_path / "out"
    script = f'for w in "$@"; do printf "%s\\n" "$w"; done > {out}'
    with hold("/bin/sh", "-c", script, "sh", *words) as child:
        assert child.run(10).status == 0
    assert out.read_text() == "".join(f"{w}\n" for w in words)


def test_a_program_that_is_never_released_never_runs(tmp_path):
    with hold("/bin/sh", "-c", f"echo x > {tmp_path}/mark") as child:
        pid = child.pid
    time.sleep(0.05)
    assert not (tmp_path / "mark").exists()
    assert not os.path.exists(f"/proc/{pid}")


def test_it_is_watched_while_it_runs():
    seen = []
    with hold("sleep", "0.45") as child:
        child.run(10, lambda: seen.append(1))
    assert 2 <= len(seen) <= 5


@pytest.mark.parametrize("released", [False, True])
def test_the_program_dies_with_us_and_so_does_what_it_started(released):
    """Even if we are killed in a way that nothing survives."""
    word = f"63.{os.getpid()}{int(released)}"

    def measure():
        guard = Watchdog()
        with hold("/bin/sh", "-c", f"sleep {word} & sleep {word}; true") as child:
            guard.watch_group(child.pid)
            if released:
                child.run(30)
            time.sleep(30)

    pid = forked(measure)
    await_that(lambda: len(processes(word)) >= (3 if released else 1))
    os.kill(pid, signal.SIGKILL)
    assert status_of(pid) == -9
    await_that(lambda: not processes(word))


def test_a_guard_that_is_dismissed_kills_nobody():
    guard = Watchdog()
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    guard.watch_group(child.pid)
    guard.stop()
    assert child.poll() is None
    child.kill()
    child.wait()
