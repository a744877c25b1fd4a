"""Marks of tests that need a library, which is imported when the first of them runs."""

import importlib.util

import pytest


def _needs(library, reason):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=reason)


needs_torch = _needs("torch", "needs torch: pip install torch==2.13.0, or msbgen[kernels]")
needs_distributed = _needs("distributed", "needs dask: pip install msbgen[dist]")
needs_zarr = _needs("zarr", "needs zarr: pip install msbgen[dist]")
