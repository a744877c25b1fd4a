"""Marks of tests that need a library, which is imported when the first of them runs."""

import importlib.util
import os
import shutil
import subprocess

import pytest


def _needs(library, reason):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=reason)


needs_torch = _needs("torch", "needs torch: pip install torch==2.13.0, or msbgen[kernels]")
needs_distributed = _needs("distributed", "needs dask: pip install msbgen[dist]")
needs_zarr = _needs("zarr", "needs zarr: pip install msbgen[dist]")

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("setpriv", "/usr/bin/python3"))),
    reason="needs root, setpriv and /usr/bin/python3",
)


def as_another_user(script, *arguments):
    """What a Python script prints that a user of another id runs."""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
    return subprocess.run(
        [*command, "-c", script, *map(str, arguments)],
        env={}, capture_output=True, text=True, timeout=60, check=True, cwd="/",
    ).stdout  # fmt: skip


# Tries to read and to change everything in a folder, and prints what succeeded.
_MEDDLE = """
import os, sys
folder, *names = sys.argv[1:]
def attempt(what, act):
    try:
        act()
        print(what)
    except OSError:
        pass
for name in names or sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    attempt(f"listed {name}", lambda: os.listdir(path))
    attempt(f"read {name}", lambda: open(path, "rb"))
    attempt(f"wrote {name}", lambda: open(path, "ab"))
    attempt(f"added to {name}", lambda: open(f"{path}/x", "wb"))
    attempt(f"renamed {name}", lambda: os.rename(path, f"{path}.x"))
    attempt(f"removed {name}", lambda: os.remove(path))
"""


def meddle(folder, *names):
    """What a user of another id can read and change of some names in a folder, or of all."""
    return as_another_user(_MEDDLE, folder, *names).splitlines()
