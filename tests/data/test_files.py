"""Outputs appear whole or not at all, whoever kills us; inputs are files indeed."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

import pytest

from msbgen.data.files import check_input, check_output, replace_file
from msbgen.data.store import read_profiles, write_profiles
from msbgen.data.tables import read_contexts
from msbgen.errors import ProfileError


def test_a_result_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with replace_file(tmp_path / "result") as partial:
        partial.write_text("x")
    modes = [(tmp_path / name).stat().st_mode for name in ("plain", "result")]
    assert modes[0] == modes[1]


def test_a_folder_that_takes_no_files_is_found_before_the_work():
    with pytest.raises(OSError, match="nothing can be written into '/proc'"):
        check_output(Path("/proc/x.nc"))


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SystemExit: 143")]
)
def test_a_signal_in_the_middle_of_writing_waits_for_the_library_and_discards(
    measured, tmp_path, number, said
):
    script = textwrap.dedent(
        """
        import os, signal, sys, threading, time
        import xarray as xr
        from msbgen.data.store import read_profiles, write_profiles
        def terminate(number, frame):
            raise SystemExit(f"SystemExit: {128 + number}")
        signal.signal(signal.SIGTERM, terminate)
        dataset = read_profiles(sys.argv[1])
        write = xr.Dataset.to_netcdf
        def slow(self, *args, **kwargs):
            print("writing", flush=True)
            time.sleep(1)
            return write(self, *args, **kwargs)
        xr.Dataset.to_netcdf = slow
        write_profiles(dataset, sys.argv[2])
        """
    )
    write_profiles(measured, tmp_path / "in.nc")
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "in.nc"), str(tmp_path / "out.nc")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(number)
    _, messages = process.communicate(timeout=30)
    assert said in messages
    assert [path.name for path in tmp_path.iterdir()] == ["in.nc"]


def test_a_file_that_appears_while_writing_is_kept(tmp_path):
    path = tmp_path / "out.nc"

    def overtaken(content, *, overwrite):
        with replace_file(path, overwrite=overwrite) as partial:
            partial.write_text("ours")
            path.write_text(content)

    with pytest.raises(FileExistsError, match="exists already"):
        overtaken("theirs", overwrite=False)
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]
    overtaken("theirs again", overwrite=True)
    assert path.read_text() == "ours"


def test_a_failure_while_writing_leaves_nothing(tmp_path):
    path = tmp_path / "out.nc"

    def fail_halfway():
        with replace_file(path) as partial:
            partial.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail_halfway()
    assert list(tmp_path.iterdir()) == []


HALF_WRITTEN = textwrap.dedent(
    """
    import sys, time
    from msbgen.data.files import replace_file
    with replace_file(sys.argv[1], overwrite=True) as partial:
        partial.write_bytes(b"half")
        print("writing", flush=True)
        time.sleep(60)
    """
)


@contextmanager
def writing(path):
    """Another process in the middle of writing `path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF_WRITTEN, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "writing\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_kill_in_the_middle_of_writing_leaves_the_old_file_and_the_next_run_tidies_up(tmp_path):
    path = tmp_path / "out.nc"
    path.write_bytes(b"old and whole")
    with writing(path) as process:
        process.send_signal(signal.SIGKILL)
    assert path.read_bytes() == b"old and whole"
    assert len(list(tmp_path.glob(".out.nc.*.partial/out.nc"))) == 1
    with replace_file(tmp_path / "another.nc") as partial:  # what it left is none of theirs
        partial.write_text("x")
    assert len(list(tmp_path.glob(".out.nc.*.partial"))) == 1
    with replace_file(path, overwrite=True) as partial:
        partial.write_text("new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["another.nc", "out.nc"]


def test_a_neighbour_that_lives_keeps_its_partial_file(tmp_path):
    path = tmp_path / "out.nc"
    with writing(path):
        with replace_file(path) as partial:
            partial.write_text("ours")
        (theirs,) = tmp_path.glob(".out.nc.*.partial/out.nc")
        assert theirs.read_bytes() == b"half"
    assert path.read_text() == "ours"


def test_the_longest_name_has_room_for_its_partial_file(tmp_path):
    path = tmp_path / ("n" * 250 + ".nc")
    with replace_file(path) as partial:
        partial.write_text("x")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (make_fifo, "is a pipe; a regular file is wanted."),
        (make_socket, "is a socket; a regular file is wanted."),
        (Path.mkdir, "is a folder; a regular file is wanted."),
        (lambda path: path.symlink_to("/dev/zero"), "is a device; a regular file is wanted."),
        (lambda path: path.symlink_to(path), "cannot be read (too many levels of symbolic links)."),
        (lambda path: None, "no such file."),
    ],
)
@pytest.mark.parametrize("read", [read_profiles, lambda path: read_contexts(path, ["a"])])
def test_only_files_are_opened(tmp_path, monkeypatch, make, sentence, read):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(Path("in"))
    with pytest.raises(ProfileError) as caught:  # a pipe without a writer would block for ever
        read(Path("in"))
    assert str(caught.value) == f"in: {sentence}"


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "mine.nc"
    path.touch(mode=0o000)

    def refuse(self, *args, **kwargs):  # the superuser may read everything
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    if os.access(path, os.R_OK):
        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ProfileError, match=r"/mine\.nc: cannot be read \(permission denied\)\.$"):
        check_input(path)


LIMITED = textwrap.dedent(
    """
    import resource, sys
    import numpy as np
    from msbgen.data import store, tables
    dataset = store.read_profiles(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
    halves = (dataset.isel(context=rows) for rows in (slice(0, 2), slice(2, None)))
    try:
        if sys.argv[4] == "blocks":
            store.write_blocks(halves, sys.argv[2])
        elif sys.argv[4] == "whole":
            store.write_profiles(dataset, sys.argv[2])
        else:
            tables.write_table(([i] * 100 for i in range(100_000)), sys.argv[2])
    except OSError as error:
        print(error)
    """
)


def told(source, output, room, writer):
    """What a process says that writes `output` under a limit [bytes] on the size of files."""
    arguments = [str(source), str(output), str(room), writer]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.parametrize("writer", ["blocks", "whole", "table"])
@pytest.mark.parametrize("room", [0, 1000, 20_000])
def test_a_file_that_outgrows_its_room_is_one_sentence(measured, tmp_path, writer, room):
    write_profiles(measured, tmp_path / "in.nc")
    output = tmp_path / "out.nc"
    said = told(tmp_path / "in.nc", output, room, writer)
    reason = "(file too large); make room or name another output."
    assert said == f"{output}: cannot be written {reason}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.nc"]


@pytest.mark.parametrize("writer", ["blocks", "whole", "table"])
def test_a_full_disk_is_one_sentence(measured, tmp_path, writer):
    write_profiles(measured, tmp_path / "in.nc")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs a disk of its own")
    try:
        said = told(tmp_path / "in.nc", disk / "out.nc", 2**30, writer)
        reason = "(no space left on device); make room or name another output."
        assert said == f"{disk / 'out.nc'}: cannot be written {reason}\n"
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_library_that_says_nothing_is_asked_after(measured, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("NetCDF: HDF error")

    monkeypatch.setattr(type(measured), "to_netcdf", fail)
    sentence = r"out\.nc: cannot be written \(netCDF: HDF error\); try again"
    with pytest.raises(OSError, match=sentence):
        write_profiles(measured, tmp_path / "out.nc")
    assert list(tmp_path.iterdir()) == []
