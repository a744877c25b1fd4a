"""Traces and their files."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings

from conftest import small_trace
from msbgen.errors import ProfileError
from msbgen.platform.trace import TraceError, make_trace, read_trace, validate_trace, write_trace
from strategies import recorded_runs

PROFILES = Path(__file__).parents[2] / "profiles"


@settings(max_examples=20)
@given(arrays=recorded_runs())
def test_a_trace_survives_its_file(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "a.nc"
    trace = make_trace(*arrays, attrs={"program": "p"})
    write_trace(trace, path)
    xr.testing.assert_identical(read_trace(path), trace)
    with pytest.raises(FileExistsError):
        write_trace(trace, path)
    write_trace(trace, path, overwrite=True)


def test_shipped_traces_are_valid_and_small():
    paths = sorted((PROFILES / "traces").glob("*.nc"))
    assert len(paths) >= 11
    for path in paths:
        trace = read_trace(path)
        assert path.stat().st_size < 1_000_000
        assert trace.attrs["program"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.assign_attrs(schema="msbgen-profile/1"), "another kind of file"),
        (lambda t: t.drop_vars("core_cycles"), "'core_cycles' is missing"),
        (lambda t: t.drop_vars("stream"), "'stream'"),
        (lambda t: t.isel(depth=slice(1)), "'depth' has one entry"),
        (lambda t: t.isel(interval=slice(0)), "empty"),
        (lambda t: t.assign(instructions=0 * t.instructions), "'instructions'"),
        (lambda t: t.assign(fixed_time=t.fixed_time.assign_attrs(units="s")), "units 's'"),
        (
            lambda t: t.assign(
                core_cycles=t.core_cycles.where(t.interval_number != 3).assign_attrs(units="1")
            ),
            "'core_cycles' is nan in interval 3",
        ),
        (
            lambda t: t.assign(
                distance_histogram=(t.distance_histogram * (t.colouring_number + 1)).assign_attrs(
                    units="1"
                )
            ),
            "differ between colourings",
        ),
    ],
)
def test_bad_traces_are_refused(spoil, message):
    trace = small_trace(10)
    numbered = trace.assign_coords(
        interval_number=("interval", np.arange(10)), colouring_number=("colouring", [0, 1])
    )
    with pytest.raises(TraceError, match=message):
        validate_trace(spoil(numbered))


def test_a_profile_is_no_trace():
    with pytest.raises(ProfileError, match=r"gzip\.nc: attribute 'schema'"):
        read_trace(PROFILES / "gzip.nc")
