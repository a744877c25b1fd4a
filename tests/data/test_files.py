"""Outputs appear whole or not at all, whoever kills us; inputs are files indeed."""

import errno
import functools
import gzip
import os
import resource
import signal
import socket
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from xarray.backends import NetCDF4DataStore

from forks import beside
from msbgen.core.errors import ProfileError
from msbgen.data.files import check_input, check_output, read_text, replace_file, write_json
from msbgen.data.store import read_profiles, write_blocks, write_profiles
from msbgen.data.tables import read_contexts, write_table
from needing import needs_root


def test_a_result_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with replace_file(tmp_path / "result") as partial:
        partial.write_text("x")
    modes = [(tmp_path / name).stat().st_mode for name in ("plain", "result")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("name", ["loop", "loop/new.nc"])
def test_a_loop_of_links_is_no_output(tmp_path, name):
    (tmp_path / "loop").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "loop")
    for overwrite in (False, True):
        with pytest.raises(OSError, match=rf"{name}: its symbolic links form a loop; name another"):
            check_output(tmp_path / name, overwrite=overwrite)


def test_a_folder_that_was_removed_is_named(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(OSError, match=r"^x\.nc: the current folder was removed; change to another"):
        check_output(Path("x.nc"))


def test_a_file_that_may_not_be_replaced_is_named(tmp_path, monkeypatch):
    def refuse(*names):
        raise PermissionError(errno.EPERM, "Operation not permitted", *names)

    (tmp_path / "x.csv").touch()
    monkeypatch.setattr(os, "replace", refuse)
    with (
        pytest.raises(OSError, match=r"x\.csv: cannot be written \(operation not permitted\); try"),
        replace_file(tmp_path / "x.csv", overwrite=True) as partial,
    ):
        partial.touch()


def test_a_folder_that_takes_no_files_is_found_before_the_work():
    with pytest.raises(OSError, match="nothing can be written into '/proc'"):
        check_output(Path("/proc/x.nc"))


@pytest.mark.parametrize(
    ("number", "message"),
    [(signal.SIGINT, "KeyboardInterrupt()"), (signal.SIGTERM, "SystemExit(143)")],
)
def test_a_signal_in_the_middle_of_writing_waits_for_the_library_and_discards(
    measured, tmp_path, number, message
):
    path, output = tmp_path / "in.nc", tmp_path / "out.nc"
    write_profiles(measured, path)
    write = NetCDF4DataStore.store

    def slow(store, *arguments, say):
        say("writing")
        time.sleep(0.5)
        return write(store, *arguments)

    def terminate(number, frame):
        raise SystemExit(128 + number)

    def work(say):
        signal.signal(signal.SIGTERM, terminate)
        NetCDF4DataStore.store = functools.partialmethod(slow, say=say)
        try:
            write_profiles(read_profiles(path), output)
        except BaseException as error:
            say(repr(error))

    with beside(work) as (process, lines):
        assert next(lines) == "writing"
        os.kill(process, number)
        assert next(lines) == message
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


@contextmanager
def writing(path):
    """Another process in the middle of writing `path`."""

    def work(say):
        with replace_file(path, overwrite=True) as partial:
            partial.write_bytes(b"half")
            say("writing")
            time.sleep(60)

    with beside(work) as (process, lines):
        assert next(lines) == "writing"
        yield process


def test_kill_in_the_middle_of_writing_leaves_the_old_file_and_the_next_run_tidies_up(tmp_path):
    path = tmp_path / "out.nc"
    path.write_bytes(b"old and whole")
    with writing(path) as process:
        os.kill(process, signal.SIGKILL)
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


def reported(dataset, output, room, writer):
    """What a process says that writes `output` under a limit [bytes] on the size of files."""

    def work(say):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            if writer == "blocks":
                rows = (slice(0, 2), slice(2, None))
                write_blocks((dataset.isel(context=some) for some in rows), output)
            elif writer == "whole":
                write_profiles(dataset, output)
            else:
                write_table(([i] * 100 for i in range(100_000)), output)
        except OSError as error:
            say(error)

    with beside(work) as (_, lines):
        return list(lines)


@pytest.mark.parametrize("writer", ["blocks", "whole", "table"])
@pytest.mark.parametrize("room", [0, 1000, 20_000])
def test_a_file_that_outgrows_its_room_is_one_sentence(measured, tmp_path, writer, room):
    output = tmp_path / "out.nc"
    reason = "(file too large); make room or name another output."
    assert reported(measured, output, room, writer) == [f"{output}: cannot be written {reason}"]
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_says_nothing_is_asked_after(measured, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("NetCDF: HDF error")

    monkeypatch.setattr(NetCDF4DataStore, "store", fail)
    sentence = r"out\.nc: cannot be written \(netCDF: HDF error\); try again"
    with pytest.raises(OSError, match=sentence):
        write_profiles(measured, tmp_path / "out.nc")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_name_of_an_input_is_called_so():
    with pytest.raises(ProfileError, match="the name of the file is empty"):
        check_input("")


@needs_root
def test_links_of_other_users_are_not_followed(tmp_path):
    victim, link, own = (tmp_path / name for name in ("victim", "link", "own"))
    victim.write_text("precious")
    link.symlink_to(victim)
    own.symlink_to(link)
    for owner in (12345, 0):
        os.lchown(link, owner, owner)
        for path in (link, own):
            if owner:
                with pytest.raises(OSError, match="is a link of another user; remove it, or name"):
                    check_output(path, overwrite=True)
                with pytest.raises(OSError, match="is a link of another user"):
                    write_json({}, path, overwrite=True)
                assert victim.read_text() == "precious"
            else:
                write_json({}, path, overwrite=True)
                assert path.is_symlink()
                assert victim.read_text() != "precious"


def test_a_small_file_of_much_text_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"0" * 10**6))
    assert path.stat().st_size < 10**4
    assert read_text(path) == "0" * 10**6
    with pytest.raises(
        ProfileError, match=r"log\.gz: has more than .* GiB of text; less is wanted"
    ):
        read_text(path, most=10**5)


def test_a_folder_that_was_given_the_name_of_a_partial_file_is_kept(tmp_path):
    """As another user can name it who can write the folder around it."""
    renamed = tmp_path / ".a.nc.12345678.partial"
    renamed.mkdir()
    (renamed / "a.nc").write_text("precious")
    with replace_file(tmp_path / "a.nc") as partial:
        partial.write_text("new")
        exchanged = partial.parent
        exchanged.rename(tmp_path / "moved")
        precious = exchanged
        precious.mkdir()
        (precious / "a.nc").write_text("x")
        (precious / "b.nc").write_text("precious")
    assert (renamed / "a.nc").read_text() == "precious"
    assert (precious / "b.nc").read_text() == "precious"
    assert not list((tmp_path / "moved").iterdir())
