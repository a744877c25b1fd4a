"""Times of workloads on several machines, wide and long."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.sources.timings.matrices import is_matrix, read_matrix
from msbgen.systems.machines.readers import read_table as read_machines
from msbgen.systems.runtimes.readers import read_table as read_runtimes

WIDE = "app [ms],old,new\nsort,10,5\nscan,,3\nfft,8,n/a\n"
LONG = "Benchmark;Host;elapsed (ms)\nsort;old;10\nsort;old;11\nsort;new;5\nscan;new;3\nfft;old;8\n"


def written(folder, text):
    (folder / "m.csv").write_text(text)
    return folder / "m.csv"


def test_wide_and_long_tables_are_runtimes_and_runs_on_machines(tmp_path):
    path = written(tmp_path, WIDE)
    runtimes = read_runtimes(path)
    np.testing.assert_allclose(sorted(runtimes["runtime"].values), [3e-3, 5e-3, 8e-3, 10e-3])
    assert "2 of 6 cells are empty" in runtimes.encoding["taken"][1]
    assert read_machines(path).sizes == {"run": 3, "machine": 2}
    long = written(tmp_path, LONG)
    assert read_runtimes(long).sizes["observation"] == 5
    machines = read_machines(long)
    assert np.isfinite(machines["runtime"].values).sum() == 5
    assert machines["program"].values.tolist() == ["sort", "sort", "scan", "fft"]


def test_tables_of_the_readers_own_headers_are_theirs(tmp_path):
    path = written(tmp_path, "workload,platform,runtime [s]\na,b,1\n")
    assert not is_matrix(path, ("workload", "platform", "runtime"))
    assert is_matrix(path, ("program", "machine", "runtime"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("app,old,new\nsort,1,fast\n", "new hold words; names of workloads in the first column"),
        ("app,old\nsort,0\n", "line 2 has the old '0'; a time above 0"),
        ("host,time\nx,1\n", "one column of workloads and one of times are wanted"),
    ],
)
def test_other_tables_are_refused(tmp_path, text, sentence):
    path = written(tmp_path, text)
    with pytest.raises(ProfileError, match=r"^m\.csv: ") as caught:
        read_matrix(path)
    assert sentence in str(caught.value)
