"""Files hold what was written, whole or not at all, byte for byte the same each time."""

import hashlib
import os
import subprocess
import sys
import textwrap
import tracemalloc

import netCDF4
import numpy as np
import pytest
import xarray as xr

from broken import put
from msbgen.core.errors import ProfileError
from msbgen.data import store
from msbgen.data.build import join_profiles
from msbgen.data.store import load_netcdf, read_profiles, write_blocks, write_profiles


def test_round_trip_keeps_values_attributes_and_order(measured, tmp_path):
    path = tmp_path / "task.nc"
    write_profiles(measured, path)
    xr.testing.assert_identical(read_profiles(path).drop_encoding(), measured)


def test_names_that_are_no_text_are_those_of_files_too(measured, tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    for write, given in ((write_profiles, measured), (write_blocks, [measured])):
        path = folder / os.fsdecode(b"\xe9" + write.__name__.encode() + b".nc")
        write(given, path)
        read = read_profiles(path)
        assert read.encoding["source"] == str(path)
        xr.testing.assert_identical(read.drop_encoding(), measured)
    assert len(os.listdir(folder)) == 2


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


def test_an_invalid_dataset_is_not_written(measured, tmp_path):
    measured["duration"][0, 0] = -1.0
    with pytest.raises(ProfileError):
        write_profiles(measured, tmp_path / "out.nc")
    assert list(tmp_path.iterdir()) == []


def changed(path, change):
    """Change a file as only the netCDF library itself lets one change it."""
    with netCDF4.Dataset(path, "a") as file:
        change(file)


def put_attribute(name, attribute, value):
    return lambda file: file[name].setncattr(attribute, value)


def add_group(file):
    file.createGroup("inner").createDimension("context", 2)


def add_huge(file):
    for name in "abc":
        file.createDimension(name, 2_000_000)
    file.createVariable("huge", "f8", ("a", "b", "c"), chunksizes=(1, 1, 1000))


NUMBERS = np.array([1.0, 2.0])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put_attribute("cache_misses", "scale_factor", NUMBERS), "cannot be understood"),
        (put_attribute("cache_misses", "missing_value", "none"), ""),
        (put_attribute("cache_misses", "coordinates", 5), "cannot be understood"),
        (
            put_attribute("time", "units", "days since yesterday"),
            "has units 'days since yesterday'",
        ),
        (put_attribute("time", "units", "seconds since 2000-01-01"), "has units 'seconds since"),
        (add_huge, r"is too large (its arrays take 6.4e+10 GB, this machine has"),
        (add_group, ""),
    ],
)
def test_what_only_a_stranger_would_write_is_read_or_refused(measured, tmp_path, change, sentence):
    path = tmp_path / "task.nc"
    write_profiles(measured, path)
    changed(path, change)
    if not sentence:
        read = read_profiles(path)
        np.testing.assert_array_equal(read["cache_misses"], measured["cache_misses"])
        return
    with pytest.raises(ProfileError) as caught:
        read_profiles(path)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("task.nc: ")
    assert len(caught.value.problems) == 1


def test_packed_integers_are_unpacked(measured, tmp_path):
    packed = {"dtype": "i4", "scale_factor": 16.0, "_FillValue": -1}
    measured.to_netcdf(tmp_path / "task.nc", encoding={"instructions": packed})
    read = read_profiles(tmp_path / "task.nc")
    np.testing.assert_allclose(read["instructions"], measured["instructions"], atol=8)


def test_old_netcdf_is_read_too(measured, tmp_path):
    measured.to_netcdf(tmp_path / "task.nc", format="NETCDF3_64BIT")
    xr.testing.assert_equal(read_profiles(tmp_path / "task.nc"), measured)


@pytest.mark.parametrize("value", [None, {"a": 1}, True, object()])
def test_an_attribute_that_no_file_holds_is_refused(measured, tmp_path, value):
    measured["instructions"].attrs["remark"] = value
    with pytest.raises(ProfileError, match=r"out\.nc: cannot be stored as netCDF \("):
        write_profiles(measured, tmp_path / "out.nc")
    with pytest.raises(ProfileError, match=r"out\.nc: cannot be stored as netCDF \("):
        write_blocks([measured], tmp_path / "out.nc")
    assert list(tmp_path.iterdir()) == []


WRITTEN = textwrap.dedent(
    """
    import sys
    import xarray as xr
    from msbgen.data.store import read_profiles, write_blocks, write_profiles
    dataset = read_profiles(sys.argv[1])
    write_profiles(dataset, sys.argv[2] + "/whole.nc")
    halves = [dataset.isel(context=rows) for rows in (slice(0, 2), slice(2, None))]
    write_blocks(halves, sys.argv[2] + "/blocks.nc")
    """
)


def test_equal_datasets_give_equal_bytes(measured, tmp_path):
    """Some kinds of files hold when they were made: the processes start a second apart."""
    write_profiles(measured, tmp_path / "in.nc")
    seen = []
    for seed in ("1", "3"):  # of sets of texts, of which the order is another one
        folder = tmp_path / seed
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-c", WRITTEN, str(tmp_path / "in.nc"), str(folder)],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
        )  # fmt: skip
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == ["blocks.nc", "whole.nc"]
        seen.append([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("f8", {"fill_value": 0.0}),  # a coordinate of values that were never written
        ("f4", {"zlib": True}),
        ("i1", {"zlib": True}),  # larger once unpacked
        (str, {}),
    ],
)
@pytest.mark.parametrize("name", ["time", "other"])
def test_what_takes_more_than_its_file_can_hold_takes_no_memory(tmp_path, kind, settings, name):
    with netCDF4.Dataset(tmp_path / "bomb.nc", "w") as file:
        file.createDimension("time", 2**28 // (64 if kind is str else 8) + 1)
        stored = file.createVariable(name, kind, ("time",), chunksizes=(2**20,), **settings)
        if kind == "i1":
            stored.scale_factor = 2.0
    tracemalloc.start()
    try:
        with pytest.raises(ProfileError, match=r"take 0\.268 GB, which a file of .* cannot hold"):
            load_netcdf(tmp_path / "bomb.nc")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_file_of_zeros_is_read(tmp_path):
    xr.Dataset({"x": ("n", np.zeros(2**20))}).to_netcdf(
        tmp_path / "zeros.nc", encoding={"x": {"zlib": True, "complevel": 9}}
    )
    assert (tmp_path / "zeros.nc").stat().st_size < 2**15
    assert load_netcdf(tmp_path / "zeros.nc").sizes["n"] == 2**20


def test_a_name_that_netcdf_refuses_is_named(tmp_path):
    with pytest.raises(ProfileError, match=r"^x.nc: cannot be stored as netCDF .*'-0'.*rename"):
        store.save_netcdf(xr.Dataset({"-0": 1.0}), tmp_path / "x.nc")
    assert not [*tmp_path.iterdir()]
