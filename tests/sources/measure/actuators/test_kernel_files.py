"""KernelSettings are written in one call, and failures are the kernel's."""

import errno

import pytest

from msbgen.sources.measure.actuators.kernel_files import DryRunFiles, SystemFiles


def test_a_text_is_written_in_one_call_over_what_was_there(tmp_path):
    files, path = SystemFiles(), str(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        files.write(path, "5")  # settings exist: nothing is made by writing
    (tmp_path / "f").write_text("0")
    files.write(path, "5")
    assert files.read(path) == "5"


def test_a_refused_write_fails_at_once():
    """/dev/full refuses when it is written, not when a buffer is flushed."""
    with pytest.raises(OSError, match="No space") as caught:
        SystemFiles().write("/dev/full", "5")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")


def test_folders_are_made_removed_and_listed(tmp_path):
    files, path = SystemFiles(), str(tmp_path / "g")
    files.make(path)
    assert files.exists(path)
    assert files.names(str(tmp_path)) == ["g"]
    with pytest.raises(FileExistsError):
        files.make(path)
    files.remove(path)
    assert not files.exists(path)
    assert files.names(path) == []


def test_a_dry_run_changes_nothing_and_says_what_a_shell_would_do(tmp_path):
    (tmp_path / "f").write_text("old")
    files = DryRunFiles(SystemFiles())
    path, group = str(tmp_path / "f"), str(tmp_path / "g")
    assert files.read(path) == "old"
    files.make(group)
    files.write(path, "new\n")
    files.write(f"{group}/quota", "7")
    assert (files.read(path), files.read(f"{group}/quota")) == ("new\n", "7")
    assert files.exists(group)
    with pytest.raises(FileExistsError):
        files.make(group)
    files.remove(group)
    assert not files.exists(group)
    assert files.commands == [
        f"mkdir {group}",
        f"echo 'new' > {path}",
        f"echo '7' > {group}/quota",
        f"rmdir {group}",
    ]
    assert (tmp_path / "f").read_text() == "old"
    assert files.names(str(tmp_path)) == ["f"]
