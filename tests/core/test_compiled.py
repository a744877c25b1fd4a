"""Kernels are cached on the disk, and run where there is no folder for that."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from numba import config, njit
from numba.core import caching

from forks import anew
from msbgen.cli import main
from msbgen.core.compiled import cached

# A small file of kernels, and what compiles two of them that were never compiled here.
KERNELS = """
from numba import njit
from msbgen.core.compiled import cached
def total(a):
    out = 0.0
    for i in range(len(a)):
        out += a[i]
    return out
total = cached(njit, total, {"nogil": True})
"""
CODE = """
import logging, os, sys
import numba
import numpy as np
sys.path.insert(0, {folder!r})
logging.basicConfig(format="%(message)s", stream=sys.stdout, force=True)
numba.config.CACHE_DIR = {cache!r}
if {another_user!r}:
    numba.njit(lambda a: a.sum())(np.ones(3))  # imports what another user may not read
    os.environ["HOME"] = "/proc"
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
import small_kernels
from msbgen.core.compiled import cache_failed, is_compiled
print("before", is_compiled(small_kernels.total))
try:
    print(small_kernels.total(np.ones(3)), small_kernels.total(np.ones(3, "f4")))
except Exception as error:
    print(cache_failed(error), error)
print("after", is_compiled(small_kernels.total))
"""


def run(folder, cache="", *, another_user=False):
    """What a process prints that compiles kernels in a folder."""
    file = folder / "small_kernels.py"
    if not file.exists():
        file.write_text(KERNELS, encoding="utf-8")
    folder.chmod(0o755)
    return anew(CODE.format(folder=str(folder), cache=str(cache), another_user=another_user))


def test_a_full_disk_under_the_cache_is_named_as_such(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs a disk of its own")
    try:
        lines = run(tmp_path, disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert lines[:2] == ["before False", "True [Errno 28] No space left on device"]


def test_no_folder_of_a_user_without_rights():
    if os.getuid():
        pytest.skip("only the superuser can become another one")
    # another session of pytest takes the rights to the parents of `tmp_path` away
    with tempfile.TemporaryDirectory() as name:
        message, *lines = run(Path(name), another_user=True)
    assert message.startswith("kernels are compiled without a cache (cannot cache function")
    assert message.endswith("; name a writable folder in NUMBA_CACHE_DIR.")
    assert lines == ["before True", "3.0 3.0", "after True"]


def test_a_damaged_file_of_the_cache_is_named_as_such(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(tmp_path, cache) == ["before False", "3.0 3.0", "after True"]
    for file in cache.rglob("*.nbi"):
        file.write_bytes(b"")
    assert run(tmp_path, cache)[1] == "True Ran out of input"


def test_edited_kernels_and_what_the_cache_lacks_are_compiled(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(tmp_path, cache) == ["before False", "3.0 3.0", "after True"]
    (second,) = cache.rglob("*total*.2.nbc")
    second.unlink()
    assert run(tmp_path, cache) == ["before True", "3.0 3.0", "after True"]
    assert second.exists()
    os.utime(tmp_path / "small_kernels.py", (2e9, 2e9))
    assert run(tmp_path, cache)[0] == "before False"


def test_the_command_says_what_to_do_about_a_damaged_cache(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", fail)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def verb(options):
        cached(njit, lambda a: a + 1, {})(1)

    monkeypatch.setattr(main, "_run", lambda arguments, options: verb(options))
    assert main.main(["check"]) == main.USAGE
    assert capsys.readouterr().err == (
        "msbgen: the cache of compiled kernels cannot be used ([Errno 28] No space left on "
        "device); name another folder in NUMBA_CACHE_DIR.\n"
    )
