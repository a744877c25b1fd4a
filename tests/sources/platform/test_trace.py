"""Traces and their files."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings

from conftest import small_trace
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.sources.platform.replay import replay_trace
from msbgen.sources.platform.trace import (
    TraceError,
    make_trace,
    read_trace,
    validate_trace,
    write_trace,
)
from strategies import recorded_runs

PROFILES = Path(__file__).parents[3] / "profiles"


@settings(max_examples=8)
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
        (lambda t: t.assign_attrs(schema="msbgen-profile/1"), "record or download one"),
        (lambda t: t.drop_vars("core_cycles"), "'core_cycles' is missing"),
        (lambda t: t.drop_vars("stream"), "'stream'"),
        (lambda t: t.isel(depth=slice(1)), "'depth' has one entry"),
        (lambda t: t.isel(interval=slice(0)), "empty"),
        (lambda t: t.assign(instructions=0 * t.instructions), "'instructions'"),
        (lambda t: t.assign(fixed_time=t.fixed_time.assign_attrs(units="s")), "units 's'"),
        (
            lambda t: t.assign(
                distance_histogram=(t.distance_histogram * xr.DataArray([1, 2], dims="colouring"))
                .transpose(*t.distance_histogram.dims)
                .assign_attrs(units="1")
            ),
            "differ between colourings",
        ),
    ],
)
def test_bad_traces_are_refused(spoil, message):
    with pytest.raises(TraceError, match=message):
        validate_trace(spoil(small_trace(10)))


VARIABLES = ("instructions", "core_cycles", "fixed_time", "distance_histogram")
VALUES = (0, -1, 0.5, 1e10, 1e300, -1e300, np.nan, np.inf, 1e-300, 2.0**32, 2.0**31)
TYPES = ("f2", "f4", "f8", "i1", "i8", "u8", "c16", "?", "U8", "m8[s]", "M8[s]", "O")


def with_value(trace, rng):
    """One value, an interval or a whole variable of another kind."""
    name = rng.choice(VARIABLES)
    values = trace[name].values.astype(float)
    index = tuple(int(rng.integers(n)) for n in values.shape)
    where = (index, index[-1:], ..., index[:1])[rng.integers(4)]
    values[where] = rng.choice(VALUES)
    return trace.assign({name: (trace[name].dims, values, trace[name].attrs)})


def with_type(trace, rng):
    name = rng.choice(VARIABLES)
    return trace.assign({name: trace[name].astype(rng.choice(TYPES), keep_attrs=True)})


def with_dims(trace, rng):
    """Dimensions called otherwise, swapped, cut, repeated, left out or new."""
    name, dim = rng.choice(VARIABLES), rng.choice(list(trace.dims))
    variable = trace[name]
    change = rng.integers(7)
    if change == 0:
        return trace.rename({dim: rng.choice(["Interval", "ways", "x", ""])})
    if change == 1:
        return trace.assign({name: variable.transpose(*rng.permutation(variable.dims))})
    if change == 2:
        return trace.isel({dim: slice(int(rng.integers(3)))})
    if change == 3:
        return trace.isel({dim: rng.integers(trace.sizes[dim], size=int(rng.integers(9)))})
    if change == 4:
        return trace.assign({name: variable.isel({variable.dims[0]: 0})})
    if change == 5:
        return trace.assign({name: variable.expand_dims(other=int(rng.integers(3)))})
    return trace.drop_vars(name)


SPOIL = (with_value, with_type, with_dims)
CONTEXTS = [[2.0, 70.0, 1.2], [3.0, 1400.0, 2.3]]


def answer(trace):
    """Say whether a trace is refused with sentences, or replayed to a valid dataset."""
    try:
        profiles = replay_trace(trace, CONTEXTS, 2, 0.01, threads=1)
    except (ProfileError, ArgumentError) as error:
        sentences = str(error).splitlines()
        return "refused" if all(s.endswith(".") for s in sentences) and sentences else str(error)
    problems = [p for p in inspect_profiles(profiles).errors if "zero everywhere" not in p]
    assert problems == []
    total = profiles["instructions"].sum("time", dtype=float)
    np.testing.assert_allclose(total, float(trace["instructions"].astype(float).sum()))
    requests = trace["distance_histogram"].isel(colouring=0).astype(float).sum()
    total = profiles["cache_requests"].sum("time", dtype=float)
    np.testing.assert_allclose(total, float(requests))
    return "replayed"


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("spoil", SPOIL, ids=lambda spoil: spoil.__name__)
def test_spoilt_traces_are_refused_or_replayed_to_valid_profiles(spoil):
    whole, answers = small_trace(6), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        answers.append(answer(spoil(whole.copy(deep=True), rng)))
    assert {"refused"} <= set(answers) <= {"refused", "replayed"}


def test_files_with_bytes_changed_are_refused_or_replayed(tmp_path):
    whole = tmp_path / "whole.nc"
    write_trace(small_trace(6), whole)
    given = np.fromfile(whole, np.uint8)
    answers = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        spoilt = given.copy()
        if seed % 4 == 0:
            spoilt = spoilt[: rng.integers(len(spoilt))]
        else:
            at = rng.integers(len(spoilt), size=int(rng.integers(1, 30)))
            spoilt[at] = rng.integers(256, size=len(at))
        path = tmp_path / "spoilt.nc"
        spoilt.tofile(path)
        try:
            trace = read_trace(path)
        except ProfileError as error:
            answers.append("refused" if "spoilt.nc" in str(error) else str(error))
        else:
            answers.append(answer(trace))
    assert set(answers) == {"refused", "replayed"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instructions": [1e5, -1.0]}, "'instructions' is -1 at interval 1; a whole number"),
        ({"instructions": [1e5, 2.0**32]}, "'instructions' is 4294967296 at interval 1"),
        ({"core_cycles": [np.nan, 1.0]}, "'core_cycles' is nan at interval 0; a positive number"),
        ({"fixed_time": [0.0, -1.0]}, "'fixed_time' is -1 ns at interval 1"),
        ({"instructions": [1e5, 1e5, 1e5]}, "intervals; one number of them is wanted"),
        ({"instructions": [[1e5, 1e5]]}, r"'instructions' has shape \(1, 2\); 1 dimensions"),
        ({"core_cycles": ["a", "b"]}, "'core_cycles' holds other things than numbers"),
        ({"fixed_time": [[1.0], [1.0, 2.0]]}, "'fixed_time' holds other things than numbers"),
        ({"distance_histogram": np.ones((3, 2, 1, 3))}, "'stream' has 3 entries"),
        ({"distance_histogram": np.full((3, 2, 1, 2), 0.5)}, "'distance_histogram' is 0.5"),
    ],
)
def test_arrays_that_make_no_trace_are_refused(change, message):
    """None of them is wrapped or rounded into a trace that says something else."""
    arrays = {
        "instructions": [1e5, 1e5],
        "core_cycles": [1e5, 1e5],
        "fixed_time": [0.0, 10.0],
        "distance_histogram": np.ones((3, 2, 1, 2)),
    }
    make_trace(**arrays, attrs={})
    with pytest.raises(TraceError, match=message):
        make_trace(**{**arrays, **change}, attrs={})
