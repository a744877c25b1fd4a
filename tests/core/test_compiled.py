"""Kernels run where their cache on the disk cannot be used, and say so once."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from forks import anew

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
print(small_kernels.total(np.ones(3)))
print(small_kernels.total(np.ones(3, "f4")))
"""


def run(folder, cache="", *, another_user=False):
    """What a process reports that compiles kernels in a folder."""
    file = folder / "small_kernels.py"
    if not file.exists():
        file.write_text(KERNELS, encoding="utf-8")
    folder.chmod(0o755)
    lines = anew(CODE.format(folder=str(folder), cache=str(cache), another_user=another_user))
    messages = [line for line in lines if line != "3.0"]
    assert lines.count("3.0") == 2
    return messages


def assert_reported(messages, reason):
    (message,) = messages
    assert message.startswith(f"kernels are compiled without a cache ({reason}")
    assert message.endswith("; name a writable folder in NUMBA_CACHE_DIR.")


def test_a_full_disk_under_the_cache(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs a disk of its own")
    try:
        messages = run(tmp_path, disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert_reported(messages, "[Errno 28] No space left on device")


def test_no_folder_of_a_user_without_rights():
    if os.getuid():
        pytest.skip("only the superuser can become another one")
    # another session of pytest takes the rights to the parents of `tmp_path` away
    with tempfile.TemporaryDirectory() as name:
        assert_reported(run(Path(name), another_user=True), "cannot cache function")


def test_a_damaged_file_of_the_cache(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(tmp_path, cache) == []
    for file in cache.rglob("*.nbi"):
        file.write_bytes(b"")
    assert_reported(run(tmp_path, cache), "Ran out of input")


def test_what_the_cache_lacks_is_compiled_beside_what_it_has(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(tmp_path, cache) == []
    (second,) = cache.rglob("*total*.2.nbc")
    second.unlink()
    assert run(tmp_path, cache) == []
    assert second.exists()
