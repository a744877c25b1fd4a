"""Files hold what was written, whole or not at all, byte for byte the same each time."""

import pytest
import xarray as xr

from broken import put
from msbgen.data.schema import join_profiles
from msbgen.data.store import read_profiles, write_blocks, write_profiles
from msbgen.errors import ProfileError


def test_round_trip_keeps_values_attributes_and_order(measured, tmp_path):
    path = tmp_path / "task.nc"
    write_profiles(measured, path)
    xr.testing.assert_identical(read_profiles(path).drop_encoding(), measured)


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
