"""torch is asked for when it is needed, with a sentence where it is missing."""

import subprocess
import sys

import pytest

from counted_networks import needs_torch
from msbgen.core.errors import ArgumentError
from msbgen.kernels.measure import torch_import


def test_without_torch_the_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ArgumentError, match=r"torch is not installed; 'pip install msbgen\[kernels\]"
    ):
        torch_import.load_torch()


def test_a_version_is_told_without_an_import(monkeypatch):
    def missing(name):
        raise torch_import.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(torch_import.metadata, "version", missing)
    assert torch_import.torch_version() is None


@needs_torch
def test_the_version_is_that_of_the_library():
    assert torch_import.load_torch().__version__.startswith(
        str(torch_import.torch_version()).split("+")[0]
    )


def test_reading_what_to_measure_does_not_import_it():
    code = (
        "import sys, msbgen.kernels.measure.run_campaign, msbgen.kernels.measure.session;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
