"""Zarr stores: filled in any order they hold what netCDF files do."""

import numpy as np
import pytest
import xarray as xr

from conftest import synthetic_task
from msbgen.core.errors import ArgumentError
from msbgen.output.batch.zarr_store import CHUNK, create_store, finish_store, write_region
from needing import needs_zarr

pytestmark = needs_zarr
N = CHUNK + 30


@pytest.fixture(scope="module")
def profiles():
    contexts = np.column_stack([np.linspace(2, 8, N), np.full(N, 1.5)])
    return synthetic_task(contexts, n_runs=2).rename(run="sample")


def test_regions_in_any_order_make_the_whole(profiles, tmp_path):
    path, final = tmp_path / "part.zarr", tmp_path / "new" / "whole.zarr"
    for _ in range(2):  # a store that is there is made anew
        create_store(path, profiles.isel(context=slice(1)), N, profiles.sizes["time"] + 9)
        for start in (CHUNK, 0, 0):  # and again, as whoever is begun again does
            block = profiles.isel(context=slice(start, start + CHUNK))
            write_region(path, block, start)
        finish_store(path, final, profiles.sizes["time"])
        assert not path.exists()
        found = xr.open_zarr(final, consolidated=False, decode_times=False).load()
        xr.testing.assert_identical(found, profiles)


def test_what_is_missing_without_the_extra(profiles, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    with pytest.raises(ArgumentError, match=r"'pip install msbgen\[dist\]' is wanted"):
        create_store(tmp_path / "a", profiles, N, 9)
