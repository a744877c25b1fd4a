"""Readers of runtimes: archives, tables, and what is refused."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.runtimes.dataset import features_of, run_table
from msbgen.runtimes.readers import import_archives
from msbgen.runtimes.readers import read_queries as read_wanted
from msbgen.runtimes.readers import read_table as read_runtime_table


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
    assert remarks == ["1 rows are exact copies of others; dropped."]
    assert list(dataset["platform"].values) == ["pi", "xeon", "m1"]
    np.testing.assert_allclose(features_of(dataset, "workload"), np.log1p([[10, 20], [30, 40]]))
    together = dict(zip(dataset["runtime"].values, dataset["run"].values))
    assert together[4.0] == together[5.0] != together[6.0] == together[7.0]
    assert len({together[t] for t in (1.0, 2.0, 3.5, 4.0, 6.0)}) == 5


def test_every_observation_keeps_what_it_was(archives):
    dataset, _ = import_archives(archives)
    rows = {(t, *row) for t, row in zip(dataset["runtime"].values, map(tuple, run_table(dataset)))}
    assert {(1.0, 0, 0, -1), (3.5, 0, 2, -1), (5.0, 1, 0, 0), (6.0, 0, 1, 1)} <= rows


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
    ("name", "values", "sentence"),
    [
        ("t", np.array(["1", "2", "3"]), "array 't' holds <U1"),
        ("i_workload", np.array([0.0, np.nan, 0.0]), "array 'i_workload' holds float64"),
        ("i_platform", np.zeros((3, 1), dtype=int), r"'i_platform' holds int64 of shape \(3, 1\)"),
        ("t", np.ones(2), r"arrays of \[2, 3\] runs"),
        ("d_platform", np.ones((2, 1)), r"'d_platform' .* shape \(2, 1\); .* shape \(3, 1\)"),
        ("f_workload", np.array(["x20"]), r"'d_workload' .* shape \(2, 1\) are wanted"),
    ],
)
def test_archives_of_other_arrays_are_refused(archives, name, values, sentence):
    with np.load(archives / "data.npz") as stored:
        arrays = {**stored, name: values}
    np.savez(archives / "data.npz", **arrays)
    with pytest.raises(ProfileError, match=rf"data.npz: .*{sentence}"):
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
        ((",2000", ",-2"), "line 3 has the runtime '-2'; a positive number"),
        (("hash,pi,,", ",pi,,"), "line 3 has the workload ''; a name without '.', which joins"),
        (("hash,pi,,", "hash, ,,"), "line 3 has the platform ''"),
        (("hash,pi,,", "hash|fft,pi,,"), "line 3 has the workload 'hash.fft'"),
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


@pytest.mark.parametrize("time", ["1e308", "1e-308"])
def test_times_that_a_file_could_not_hold_are_refused_with_their_line(tmp_path, time):
    (tmp_path / "runs.csv").write_text(TABLE.replace("1500", time))
    with pytest.raises(ProfileError, match="line 2 has the runtime"):
        read_runtime_table(tmp_path / "runs.csv")
