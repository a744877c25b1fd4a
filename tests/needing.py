"""Marks of tests that need a library."""

import importlib.util

import pytest

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="needs torch: pip install torch==2.13.0, or msbgen[kernels]",
)
