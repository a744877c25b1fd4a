import tracemalloc

import numpy as np
import pytest
import xarray as xr

from broken import BROKEN, in_time, put
from msbgen.data.check import inspect_profiles, validate_profiles
from msbgen.data.schema import (
    all_contexts,
    context_table,
    counter_names,
    join_profiles,
    make_profiles,
    resource_names,
)
from msbgen.data.store import read_profiles, write_blocks, write_profiles
from msbgen.errors import ProfileError


def test_round_trip_keeps_values_attributes_and_order(measured, tmp_path):
    path = tmp_path / "task.nc"
    write_profiles(measured, path)
    xr.testing.assert_identical(read_profiles(path).drop_encoding(), measured)


def test_names_and_table_follow_the_dataset(measured):
    assert resource_names(measured) == ["cache_ways", "frequency"]
    assert counter_names(measured) == ["instructions", "cache_requests", "cache_misses"]
    assert context_table(measured)[3].tolist() == [4.0, 2.0]
    everything = all_contexts(measured)
    assert everything.shape == (12, 2)
    assert len(np.unique(everything, axis=0)) == 12


def test_all_contexts_needs_levels(measured):
    del measured["frequency"].attrs["levels"]
    with pytest.raises(ProfileError, match="'frequency' has no attribute 'levels'"):
        all_contexts(measured)


def test_profiles_without_a_replicate_dimension_are_valid(measured):
    mean = measured.isel(run=0)
    assert validate_profiles(mean) is mean


def test_a_missing_run_is_allowed(measured):
    measured["duration"][2, 1] = np.nan
    for name in counter_names(measured):
        measured[name][2, 1] = np.nan
    assert inspect_profiles(measured).errors == []


@pytest.mark.parametrize("case", BROKEN)
def test_every_broken_dataset_gets_its_sentence(measured, monkeypatch, case):
    change, sentence = BROKEN[case]
    fresh = measured.copy(deep=True)
    with pytest.raises(ProfileError) as caught:
        validate_profiles(change(measured), source="task.nc")
    matching = [p for p in caught.value.problems if sentence in p]
    assert matching, caught.value.problems
    assert matching[0].startswith("task.nc: ")
    assert matching[0].endswith(".")
    # context by context the sentences are the same, with the same places
    monkeypatch.setattr("msbgen.data.check._CHECKED_AT_ONCE", 1)
    assert set(inspect_profiles(change(fresh), source="task.nc").errors) == set(
        caught.value.problems
    )


def test_a_trace_is_to_be_replayed_and_nothing_else_is_said_of_it(measured):
    measured.attrs["schema"] = "msbgen-trace/1"
    said = inspect_profiles(measured.drop_vars("duration")).errors
    assert len(said) == 2
    assert "replay it first (msbgen platform replay)" in said[1]


def test_places_are_counted_over_the_whole_file(measured, monkeypatch):
    monkeypatch.setattr("msbgen.data.check._CHECKED_AT_ONCE", 1)
    for place in ((1, 2, 3), (1, 2, 5), (4, 0, 1)):
        measured["cache_misses"][place] = -5.0
    (error,) = inspect_profiles(measured).errors
    assert "context 1 (cache_ways=2, frequency=2 GHz), run 2, row 3 (0.04 s)" in error
    assert "and 2 more places: a wrapped" in error


def test_validation_takes_little_memory_beside_the_dataset(measured, monkeypatch):
    monkeypatch.setattr("msbgen.data.check._CHECKED_AT_ONCE", 2**14)
    attrs = {name: dict(measured[name].attrs) for name in resource_names(measured)}
    grid = np.array([(w, f) for w in range(1, 51) for f in range(1, 11)], dtype=float)
    big = make_profiles(
        np.ones((500, 10, 200, 3)),
        np.full((500, 10), 2.0),
        grid,
        interval=0.01,
        resources={n: {**a, "levels": np.unique(grid).tolist()} for n, a in attrs.items()},
        counters={name: dict(measured[name].attrs) for name in counter_names(measured)},
    )
    validate_profiles(big.isel(context=slice(2)))
    tracemalloc.start()
    validate_profiles(big)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.15 * big.nbytes


@pytest.mark.parametrize("row", [0, 5, -1])
def test_time_may_jitter_by_rounding_only(measured, row):
    def shifted(by):
        def shift(values):
            values[row] += by * values[-1]
            return values

        return inspect_profiles(in_time(shift)(measured)).errors

    assert shifted(1e-7) == []
    assert "resample the counts" in shifted(1e-4)[0]


def test_more_misses_than_requests_is_a_warning(measured, caplog):
    measured["cache_misses"][0, 0, 3] = 2 * measured["cache_requests"][0, 0, 3] + 10
    validate_profiles(measured)
    assert "'cache_misses' is above 'cache_requests' in context 0" in caplog.text


def test_what_looks_like_a_counter_or_a_resource_but_does_not_say_so_is_a_warning(measured, caplog):
    del measured["cache_misses"].attrs["role"]
    validate_profiles(measured.assign_coords(slot=("context", np.arange(6.0))))
    assert "variable 'cache_misses' has no role" in caplog.text
    assert "coordinate 'slot' has no role" in caplog.text


def test_very_short_runs_are_a_warning(measured, caplog):
    short = measured.isel(time=slice(1)).assign(duration=measured["duration"] * 0 + 0.008)
    short["duration"].attrs = measured["duration"].attrs
    validate_profiles(short)
    assert "no run has two whole sampling intervals" in caplog.text


def test_a_resource_off_its_levels_is_a_warning(measured, caplog):
    measured["frequency"].attrs["levels"] = [1.0, 1.5]
    validate_profiles(measured)
    assert "'frequency' is none of the platform's 'levels' in context 1 (" in caplog.text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", "the file is empty"), (b"a,b\n1,2\n", "not a netCDF file"), (None, "no such file")],
)
def test_files_that_are_not_profiles(tmp_path, content, sentence):
    path = tmp_path / "bad.nc"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProfileError, match=sentence):
        read_profiles(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_file_is_named(measured, tmp_path, share):
    path = tmp_path / "task.nc"
    write_profiles(measured, path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ProfileError, match=r"task\.nc: cannot be read whole"):
        read_profiles(path)


def test_blocks_make_the_file_that_the_whole_makes(measured, tmp_path):
    write_profiles(measured, tmp_path / "whole.nc")
    rows = [slice(0, 2), slice(2, 3), slice(3, 6)]
    blocks = []
    for some in rows:  # each only as long as its own longest run
        block = measured.isel(context=some)
        blocks.append(block.isel(time=block["instructions"].notnull().any(["context", "run"])))
    lengths = [block.sizes["time"] for block in blocks]
    assert lengths[0] > lengths[1]
    for order in ([0, 1, 2], [2, 0, 1]):  # the longest first, and not
        write_blocks((blocks[i] for i in order), tmp_path / "blocks.nc", overwrite=True)
        contexts = [c for i in order for c in range(6)[rows[i]]]
        read = read_profiles(tmp_path / "blocks.nc")
        xr.testing.assert_identical(read.drop_encoding(), measured.isel(context=contexts))
        xr.testing.assert_identical(join_profiles([blocks[i] for i in order]), read)


def test_blocks_that_do_not_fit_are_refused_and_nothing_is_written(measured, tmp_path):
    def write(*blocks):
        write_blocks(iter(blocks), tmp_path / "out.nc")

    first, second = measured.isel(context=slice(2)), measured.isel(context=slice(2, 4))
    with pytest.raises(ProfileError, match=r"out\.nc: there are no profiles"):
        write()
    with pytest.raises(ProfileError, match=r"from context 2: \(2\.0, 1\.0\) is listed again"):
        write(first, first)
    with pytest.raises(ProfileError, match="not those of the first"):
        write(first, second.assign_attrs(task="another"))
    with pytest.raises(ProfileError, match="from context 2: counter 'cache_misses' is negative"):
        write(first, put("cache_misses", (1, 2, 3), -5.0)(second.copy(deep=True)))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_between_blocks_leaves_nothing(measured, tmp_path):
    def blocks():
        yield measured.isel(context=slice(2))
        assert [p.stat().st_size > 0 for p in tmp_path.iterdir()] == [True]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_blocks(blocks(), tmp_path / "out.nc")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_only_replaced_when_asked(measured, tmp_path):
    path = tmp_path / "task.nc"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="exists already"):
        write_profiles(measured, path)
    assert path.read_text() == "precious"
    write_profiles(measured, path, overwrite=True)
    assert read_profiles(path).sizes == measured.sizes


def test_an_invalid_dataset_is_not_written(measured, tmp_path):
    measured["duration"][0, 0] = -1.0
    with pytest.raises(ProfileError):
        write_profiles(measured, tmp_path / "out.nc")
    assert list(tmp_path.iterdir()) == []
