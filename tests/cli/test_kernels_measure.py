"""``msbgen kernels measure``: what users type and see; real torch, a network of a layer."""

import pytest

from msbgen.systems.kernels.dataset import read as read_kernels
from needing import needs_torch

NETS = "from torch import nn\ndef build():\n    return nn.Conv2d(3, 4, 3)\n"
SPEC = """
networks = ["nets_of_the_shell:build"]
images = [[1, 32]]
random = 0
sessions = 1
repetitions = 2
passes = 2
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "nets_of_the_shell.py").write_text(NETS)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


@needs_torch
def test_from_a_spec_to_kernels_networks_and_workloads(msbgen, spec):
    done = msbgen("kernels", "measure", "spec.toml", "-o", "k.nc")
    assert done.returncode == 0, done.stderr
    assert "kernels       2: 1 of conv2d, 1 of network/nets_of_the_shell.build-1x32" in done.stdout
    assert "k.workloads.nc: 1 launches" in done.stdout
    assert read_kernels(spec / "k.nc").attrs["source"] == "msbgen kernels measure"
    assert msbgen("check", "k.nc").returncode == 0
    assert msbgen("measure", "--restore", "k.journal").returncode == 0
    again = msbgen("kernels", "measure", "spec.toml", "-o", "k.nc", "--resume")
    assert (again.returncode, "k.nc: exists already" in again.stderr) == (2, True)


@needs_torch
def test_a_dry_run_measures_nothing(msbgen, spec):
    done = msbgen("kernels", "measure", "spec.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "each run is a session: 1 kernels of networks" in done.stdout
    assert not (spec / "k.nc").exists()


def test_what_is_wrong_is_a_sentence(refused, spec):
    refused(2, "-o OUT.nc is wanted, or --dry-run.", "kernels", "measure", "spec.toml")
    (spec / "spec.toml").write_text("session = 3")
    message = "spec.toml: 'session' is no known key; did you mean 'sessions'?"
    refused(3, message, "kernels", "measure", "spec.toml", "-o", "k.nc")


def test_workloads_that_are_there_are_not_overwritten(refused, spec):
    (spec / "k.workloads.nc").touch()
    message = "k.workloads.nc: exists already"
    refused(2, message, "kernels", "measure", "spec.toml", "-o", "k.nc")
