"""Readers of runtimes: archives, tables, and what is refused."""

import warnings
from zipfile import ZipFile

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ProfileError
from msbgen.systems.runtimes import readers
from msbgen.systems.runtimes.dataset import (
    describe,
    features_of,
    make,
    read,
    run_table,
    validate,
    write,
)
from msbgen.systems.runtimes.readers import import_archives
from msbgen.systems.runtimes.readers import read_queries as read_wanted
from msbgen.systems.runtimes.readers import read_table as read_runtime_table


@pytest.fixture
def archives(tmp_path):
    """A folder as it is published: two workloads, three platforms, two runs of two, one copied."""
    alone = {
        "t": np.array([1e6, 2e6, 3.5e6], dtype=np.float32),
        "i_workload": np.array([0, 1, 0]),
        "i_platform": np.array([0, 0, 2]),
        "n_workload": np.array(["sort", "hash"]),
        "n_platform": np.array(["pi", "xeon", "m1"]),
        "f_workload": np.array(["x20", "x6A"]),
        "f_platform": np.array(["cores"]),
        "d_workload": np.log1p([[10.0, 20.0], [30.0, 40.0]]),
        "d_platform": np.array([[4.0], [32.0], [8.0]]),
    }
    beside = {
        "t": np.array([4e6, 5e6, 6e6, 7e6, 6e6]),
        "i_workload": np.array([0, 1, 0, 1, 0]),
        "i_platform": np.array([0, 0, 1, 1, 1]),
        "i_interference0": np.array([1, 0, 1, 0, 1]),
    }
    np.savez(tmp_path / "data.npz", **alone)
    np.savez(tmp_path / "if2.npz", **beside)
    return tmp_path


def test_archives_are_in_microseconds_and_lose_their_copies(archives):
    dataset, remarks = import_archives(archives)
    assert sorted(dataset["runtime"].values) == [1.0, 2.0, 3.5, 4.0, 5.0, 6.0, 7.0]
    rows = {(t, *row) for t, row in zip(dataset["runtime"].values, map(tuple, run_table(dataset)))}
    assert {(1.0, 0, 0, -1), (3.5, 0, 2, -1), (5.0, 1, 0, 0), (6.0, 0, 1, 1)} <= rows
    assert remarks == ["1 rows are exact copies of others; dropped."]
    assert list(dataset["platform"].values) == ["pi", "xeon", "m1"]
    np.testing.assert_allclose(features_of(dataset, "workload"), np.log1p([[10, 20], [30, 40]]))
    together = dict(zip(dataset["runtime"].values, dataset["run"].values))
    assert together[4.0] == together[5.0] != together[6.0] == together[7.0]
    assert len({together[t] for t in (1.0, 2.0, 3.5, 4.0, 6.0)}) == 5


def test_folders_without_archives_are_refused(tmp_path, archives):
    with pytest.raises(ProfileError, match=r"data.npz: no such file; a folder with data.npz"):
        import_archives(tmp_path / "nowhere")
    (archives / "if2.npz").write_bytes(b"PK nonsense")
    with pytest.raises(ProfileError, match=r"if2.npz: cannot be read as an npz archive"):
        import_archives(archives)
    np.savez(archives / "if2.npz", t=np.ones(2))
    with pytest.raises(ProfileError, match="no array 'i_workload'"):
        import_archives(archives)
    (archives / "if2.npz").write_bytes(b"")
    with pytest.raises(ProfileError, match=r"if2.npz: cannot be read as an npz archive"):
        import_archives(archives)


@pytest.mark.parametrize(
    ("record", "offset", "reason"),
    [
        (b"PK\1\2", 8, "encrypted"),
        (b"PK\1\2", 10, "compression method"),
        (b"PK\3\4", 60, "decompressing"),
    ],
)
def test_archives_that_zipfile_cannot_read_are_refused(archives, record, offset, reason):
    np.savez_compressed(archives / "if2.npz", t=np.arange(500.0))
    data = bytearray((archives / "if2.npz").read_bytes())
    data[data.index(record) + offset] ^= 0x07
    (archives / "if2.npz").write_bytes(data)
    with pytest.raises(
        ProfileError, match=rf"if2.npz: cannot be read .*({reason}).*write it again"
    ):
        import_archives(archives)


def test_archives_larger_than_the_memory_are_refused(archives, monkeypatch):
    header = np.lib.format.magic(1, 0) + b"\x76\0"
    claim = b"{'descr': '|i1', 'fortran_order': False, 'shape': (9000000000000000,), }"
    with ZipFile(archives / "if2.npz", "w") as archive:
        archive.writestr("t.npy", header + claim.ljust(117) + b"\n" + bytes(9))
    with pytest.raises(ProfileError, match=r"if2.npz: is too large .*allocate.*another machine"):
        import_archives(archives)
    monkeypatch.setattr(readers, "physical_memory", lambda: 1000)
    with pytest.raises(ProfileError, match=r"data.npz: is too large .*this machine's memory"):
        import_archives(archives)


@pytest.mark.parametrize(
    ("name", "values", "sentence"),
    [
        ("i_workload", np.array([0.0, np.nan, 0.0]), "array 'i_workload' holds float64"),
        ("i_platform", np.zeros((3, 1), dtype=int), r"'i_platform' holds int64 of shape \(3, 1\)"),
        ("t", np.ones(2), r"arrays of \[2, 3\] runs"),
        ("d_platform", np.ones((2, 1)), r"'d_platform' .* shape \(2, 1\); .* shape \(3, 1\)"),
        ("n_workload", np.array([["sort", "hash"]]), r"'n_workload' has shape \(1, 2\); a list of"),
        ("f_platform", np.array("cores"), r"'f_platform' has shape \(\); a list of"),
        ("f_workload", np.array(["x20"]), r"'d_workload' .* shape \(2, 1\) are wanted"),
    ],
)
def test_archives_of_other_arrays_are_refused(archives, name, values, sentence):
    with np.load(archives / "data.npz") as stored:
        arrays = {**stored, name: values}
    np.savez(archives / "data.npz", **arrays)
    with pytest.raises(ProfileError, match=rf"data.npz: .*{sentence}"):
        import_archives(archives)


def test_features_beyond_single_precision_are_refused_without_a_warning(archives):
    with np.load(archives / "data.npz") as stored:
        arrays = {**stored, "d_platform": np.full((3, 1), 1e300)}
    np.savez(archives / "data.npz", **arrays)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(ProfileError, match="'platform_features' is inf at platform 'pi'"),
    ):
        import_archives(archives)


TABLE = """workload,platform,beside,runtime [ms]
sort , pi,,1500
hash,pi,,2000
sort,pi,hash,1800
sort,xeon,hash|fft,900
"""


def test_tables_say_their_unit_and_join_neighbours(tmp_path):
    (tmp_path / "runs.csv").write_text(TABLE)
    dataset = read_runtime_table(tmp_path / "runs.csv")
    np.testing.assert_allclose(dataset["runtime"], [1.5, 2.0, 1.8, 0.9])
    names = dataset["workload"].values
    assert [names[i] for i in dataset["workload_index"].values] == ["sort", "hash", "sort", "sort"]
    assert [names[k] for k in dataset["beside"].values[3]] == ["hash", "fft"]
    assert dataset["beside"].values[0].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("runtime [ms]", "runtime"), "has no known unit"),
        (("workload,", "task,"), "line 1 has an unknown column 'task'"),
        (("platform,beside", "beside,run"), "line 1 is 'workload,beside,run"),
        (("hash,pi,,", ",pi,,"), "line 3 has the workload ''; a name without '.', which joins"),
        (("hash,pi,,", "hash|fft,pi,,"), "line 3 has the workload 'hash.fft'"),
        (("hash|fft", "hash| "), "line 5 has the beside 'hash..; a name on each side of '.' is"),
        (("hash|fft", "|||"), "line 5 has the beside '....; a name on each side"),
    ],
)
def test_bad_tables_get_a_sentence_with_the_line(tmp_path, change, sentence):
    (tmp_path / "runs.csv").write_text(TABLE.replace(*change))
    with pytest.raises(ProfileError, match=f"^runs.csv: .*{sentence.replace('[', '.')}"):
        read_runtime_table(tmp_path / "runs.csv")


def test_runs_have_names_of_their_own(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("workload,platform,run,runtime [s]\na,p,line 4,1\nb,p,line 4,1\na,p,,1\n")
    run = read_runtime_table(path)["run"].values
    assert run[0] == run[1] != run[2]


def test_wanted_runs_are_found_by_name_and_the_nearest_name_is_told(tmp_path):
    path = tmp_path / "wanted.csv"
    path.write_text("platform,workload,beside\nxeon,sort,\npi,fft,sort|hash\n")
    wanted = read_wanted(path, ["sort", "hash", "fft"], ["pi", "xeon"])
    assert wanted.tolist() == [[0, 1, -1, -1], [2, 0, 0, 1]]
    path.write_text("workload,platform\nsorted,pi\n")
    with pytest.raises(ProfileError, match=r"line 2 has the workload 'sorted'.*nearest.*'sort'"):
        read_wanted(path, ["sort", "hash"], ["pi"])


def whole():
    return make(
        [1.0, 2.0], [0, 1], [0, 0], [[-1], [0]], [0, 0], workloads=["a", "b"], platforms=["p"],
        workload_features={"f": [1.0, 2.0]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda ds: ds.assign(beside=ds["beside"] + 3), "'beside' is 2 at observation 0"),
        (lambda ds: ds.assign(workload_index=ds["workload_index"] - 1), "'workload_index' is -1"),
        (lambda ds: ds.assign_coords(workload=["a", "a|b"]), "'a.b' has no usable name"),
        (lambda ds: ds.assign_coords(platform=[" "]), "platform ' ' has no usable name"),
        (
            lambda ds: ds.assign(
                workload_features=ds["workload_features"].copy(data=[[np.nan], [1.0]])
            ),
            "'workload_features' is nan at workload 'a', workload_feature 'f'; a finite number",
        ),
    ],
)
def test_broken_datasets_get_a_sentence(change, sentence):
    assert validate(whole()) is not None
    with xr.set_options(keep_attrs=False), pytest.raises(ProfileError, match=sentence):
        validate(change(whole()), source="runs.nc")


@pytest.mark.parametrize("time", [1e308, 1e-308])
def test_times_that_a_file_could_not_hold_are_refused(time):
    with pytest.raises(ProfileError, match=r"'runtime' is .* at observation 1"):
        write(whole().assign(runtime=whole()["runtime"].copy(data=[1.0, time])), "o")


def test_a_file_holds_the_same_and_equal_bytes(tmp_path):
    for name in ("one.nc", "two.nc"):
        write(whole(), tmp_path / name)
    assert (tmp_path / "one.nc").read_bytes() == (tmp_path / "two.nc").read_bytes()
    again = read(tmp_path / "one.nc")
    np.testing.assert_array_equal(run_table(again), run_table(whole()))
    np.testing.assert_allclose(again["runtime"], whole()["runtime"], rtol=1e-6)
    assert "1 of each workload" in describe(again)
