"""Runs on several machines from tables, runtimes and profiles."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.build import make_profiles
from msbgen.systems.machines.dataset import counters_of, machines_of, runtimes_of, words_of
from msbgen.systems.machines.readers import from_profiles as relative_from_profiles
from msbgen.systems.machines.readers import from_runtimes as relative_from_runtimes
from msbgen.systems.machines.readers import read_table as read_relative_table
from msbgen.systems.runtimes.dataset import make as make_runtimes

TABLE = """program,input,machine,runtime [ms],instructions [1],read [B]
sort,big,old,2000,1e9,5
sort,big,new,1000,2e9,
sort,small,old,20,1e7,5
join,big,new,500,3e8,7
"""


def table(tmp_path, text=TABLE):
    (tmp_path / "runs.csv").write_text(text)
    return tmp_path / "runs.csv"


def test_rows_of_a_table_that_differ_in_the_machine_are_one_run(tmp_path):
    runs = read_relative_table(table(tmp_path))
    assert machines_of(runs) == ["old", "new"]
    np.testing.assert_allclose(runtimes_of(runs), [[2.0, 1.0], [0.02, np.nan], [np.nan, 0.5]])
    assert list(words_of(runs, "program")) == ["sort", "sort", "join"]
    np.testing.assert_array_equal(
        counters_of(runs, "new"), [[2e9, np.nan], [np.nan, np.nan], [3e8, 7]]
    )
    assert list(runs["units"].values) == ["1", "B"]
    assert runs.attrs["work"] == "instructions"


def test_counters_that_are_the_same_everywhere_are_stored_once(tmp_path):
    runs = read_relative_table(table(tmp_path, TABLE.replace("2e9", "1e9")))
    assert runs["counters"].dims == ("run", "counter")
    np.testing.assert_array_equal(counters_of(runs, "old")[:, 0], [1e9, 1e7, 3e8])


def test_repetitions_are_numbered(tmp_path):
    text = "program,machine,run,runtime [s]\np,a,1,1\np,b,1,2\np,a,2,3\n"
    runs = read_relative_table(table(tmp_path, text))
    np.testing.assert_array_equal(runtimes_of(runs), [[1, 2], [3, np.nan]])
    assert "counters" not in runs


BAD = {
    "line 3 repeats the run of line 2 on machine 'a'; number": "program,machine,runtime [s]\n"
    "p,a,1\np,a,2\n",
    "line 3 has the runtime '0'; a positive": "program,machine,runtime [s]\np,a,1\np,b,0\n",
    "line 3 has the loads '1e31'": "program,machine,runtime [s],loads [1]\np,a,1,1\np,b,1,1e31\n",
    "column 'loads' has no unit; one in brackets is wanted, as 'loads [1]'": "program,machine,"
    "runtime [s],loads\np,a,1,1\n",
    "the runtime has no known unit ('fortnights')": "program,machine,runtime [fortnights]\np,a,1\n",
    "line 2 has the machine ''; a name": "program,machine,runtime [s]\np,,1\n",
    "line 2 has the loads '-1'": "program,machine,runtime [s],loads [1]\np,a,1,-1\n",
}


@pytest.mark.parametrize("sentence", BAD)
def test_a_bad_table_is_refused_with_its_line(tmp_path, sentence):
    with pytest.raises(ProfileError) as caught:
        read_relative_table(table(tmp_path, BAD[sentence]))
    assert sentence in str(caught.value)


def runtimes():
    """Two workloads at two sizes and one without, two runtimes of WebAssembly, two devices."""
    workloads = ["suite/mini/gemm", "suite/small/gemm", "other/sort_l", "lone"]
    platforms = ["fast:hc-1", "slow:hc-1", "fast:hc-2", "slow:hc-2"]
    w, p = np.divmod(np.arange(16), 4)
    seconds = 2.0**w * (1 + p)
    counts = np.array([[10.0, 5.0], [100.0, 50.0], [1.0, 1.0], [7.0, 0.0]])
    return make_runtimes(
        np.append(seconds[:-1], [9.0, 4.0]), np.append(w[:-1], [0, 0]), np.append(p[:-1], [0, 0]),
        np.append(np.full(15, -1), [1, -1])[:, None], np.arange(17),
        workloads=workloads, platforms=platforms,
        workload_features={"x28": np.log1p(counts[:, 0]), "xA0": np.log1p(counts[:, 1])},
    )  # fmt: skip


def test_runtimes_of_platforms_become_runs_on_machines():
    runs = relative_from_runtimes(runtimes(), {"laptop": "hc-1", "board": "hc-2"})
    assert machines_of(runs) == ["laptop", "board"]
    programs = ["suite/gemm", "suite/gemm", "other/sort", "lone"]
    assert list(words_of(runs, "program")[::2]) == programs
    assert list(words_of(runs, "scale")[::2]) == ["small", "medium", "large", ""]
    assert list(words_of(runs, "configuration")[:2]) == ["fast", "slow"]
    # beside another does not count, twice alone is the mean in log
    np.testing.assert_allclose(runtimes_of(runs)[0], [np.sqrt(1.0 * 4.0), 3.0])
    np.testing.assert_allclose(runtimes_of(runs)[7], [16.0, np.nan])
    np.testing.assert_allclose(counters_of(runs, "board")[0], [15, 10, 5], rtol=1e-6)
    assert dict(zip(runs["counter"].values, runs["group"].values)) == {
        "instructions": "instructions", "x28": "load", "xA0": "double",
    }  # fmt: skip
    with pytest.raises(ArgumentError, match="'x' is 'hc-3'; one of hc-1, hc-2"):
        relative_from_runtimes(runtimes(), {"x": "hc-3"})
    assert machines_of(relative_from_runtimes(runtimes())) == ["hc-1", "hc-2"]


def profiles(factor, ways=(2.0, 4.0)):
    counts = np.ones((len(ways), 2, 3, 1)) * np.array([[[[5.0]]]])
    made = make_profiles(
        counts, np.full((len(ways), 2), 0.3 * factor), np.array(ways)[:, None], interval=0.1,
        resources={"ways": {"units": "1"}}, counters={"instructions": {}}, attrs={"task": "t"},
    )  # fmt: skip
    assert isinstance(made, xr.Dataset)
    return made


def test_profiles_are_summed_over_time_and_matched_by_context():
    runs = relative_from_profiles({"a": [profiles(1.0)], "b": [profiles(2.0, (4.0, 8.0))]})
    assert list(words_of(runs, "input")) == ["ways=2", "ways=4", "ways=8"]
    np.testing.assert_allclose(runtimes_of(runs), [[0.3, np.nan], [0.3, 0.6], [np.nan, 0.6]])
    np.testing.assert_allclose(counters_of(runs, "a"), np.full((3, 1), 15.0))


def test_profiles_without_a_task_or_with_a_context_twice_are_refused():
    nameless = profiles(1.0)
    del nameless.attrs["task"]
    with pytest.raises(ArgumentError, match="machine 'a' have no attribute 'task'"):
        relative_from_profiles({"a": [nameless]})
    with pytest.raises(ArgumentError, match="'t' in context 'ways=2' twice"):
        relative_from_profiles({"a": [profiles(1.0), profiles(1.0)]})
    with pytest.raises(ArgumentError, match="profiles holds none"):
        relative_from_profiles({})
