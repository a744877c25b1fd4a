"""Kernels run where their cache on the disk cannot be used, and say so once."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

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
sys.path.insert(0, sys.argv[1])
logging.basicConfig(format="%(message)s")
import numpy as np
import numba, msbgen.core.compiled
if len(sys.argv) > 2:
    numba.njit(lambda a: a.sum())(np.ones(3))  # imports what another user may not read
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
import small_kernels
print(small_kernels.total(np.ones(3)))
print(small_kernels.total(np.ones(3, "f4")))
"""


def run(folder, *user, **variables):
    """What a process prints and reports that compiles kernels in a folder."""
    (folder / "small_kernels.py").write_text(KERNELS, encoding="utf-8")
    folder.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "NUMBA_CACHE_DIR")}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), *user],
        env=environment | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "3.0\n3.0\n"), done.stderr
    return done.stderr


def assert_reported(messages, reason):
    assert messages.startswith(f"kernels are compiled without a cache ({reason}")
    assert messages.endswith("; name a writable folder in NUMBA_CACHE_DIR.\n")
    assert messages.count("\n") == 1


def test_a_full_disk_under_the_cache(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs a disk of its own")
    try:
        messages = run(tmp_path, NUMBA_CACHE_DIR=str(disk))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert_reported(messages, "[Errno 28] No space left on device")


def test_no_folder_of_a_user_without_rights():
    if os.getuid():
        pytest.skip("only the superuser can become another one")
    # another session of pytest takes the rights to the parents of `tmp_path` away
    with tempfile.TemporaryDirectory() as name:
        assert_reported(run(Path(name), "another", HOME="/proc"), "cannot cache function")


def test_a_damaged_file_of_the_cache(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(tmp_path, NUMBA_CACHE_DIR=str(cache)) == ""
    for file in cache.rglob("*.nbi"):
        file.write_bytes(b"")
    assert_reported(run(tmp_path, NUMBA_CACHE_DIR=str(cache)), "Ran out of input")


def test_what_the_cache_lacks_is_compiled_beside_what_it_has(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(tmp_path, NUMBA_CACHE_DIR=str(cache)) == ""
    (second,) = cache.rglob("*total*.2.nbc")
    second.unlink()
    assert run(tmp_path, NUMBA_CACHE_DIR=str(cache)) == ""
    assert second.exists()
