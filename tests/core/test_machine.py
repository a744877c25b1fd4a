"""Cores and memory as the process may use them."""

import os
import subprocess
import sys

import pytest

import msbgen.core.machine
from msbgen.core.machine import available_cores, limit_cores, physical_memory


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux's affinities")
def test_cores_are_those_of_the_affinity_not_of_the_machine():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert available_cores() == len(before)


def test_memory_is_that_of_a_real_machine():
    assert 2**27 < physical_memory() < 2**50


@pytest.mark.parametrize(("message", "wanted"), [("1048576\n", 2**20), ("max\n", None), ("", None)])
def test_memory_is_no_more_than_the_container_may_use(monkeypatch, tmp_path, message, wanted):
    monkeypatch.setattr(msbgen.core.machine, "_MEMORY_LIMITS", (tmp_path / "none",))
    whole = physical_memory()
    (tmp_path / "memory.max").write_text(message)
    monkeypatch.setattr(
        msbgen.core.machine, "_MEMORY_LIMITS", (tmp_path / "none", tmp_path / "memory.max")
    )
    assert physical_memory() == (wanted or whole)


def test_cores_may_be_left_to_others():
    there = available_cores()
    limit_cores(1)
    try:
        assert available_cores() == 1
    finally:
        limit_cores(None)
    assert available_cores() == there
    limit_cores(there + 5)
    assert available_cores() == there
    limit_cores(None)


def test_pictures_are_drawn_whatever_windows_the_environment_names():
    code = "from msbgen.core.machine import load_library as load; import os; "
    code += "load('matplotlib.figure').Figure(); print(os.environ['MPLBACKEND'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "MPLBACKEND": "nonsense"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "nonsense"
