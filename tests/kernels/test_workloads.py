"""Workloads: the schema, and tables of launches."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.kernels.dataset import parameter_table
from msbgen.kernels.workloads import (
    counts_of,
    describe_workload,
    one_workload,
    read_workload,
    workload_names,
    write_workload,
)

TABLE = """workload,kind,count,m [1],size [1]
net,matmul,3,64,
net,relu,2,,1000
other,relu,1,,10
"""


def table(tmp_path, text=TABLE):
    (tmp_path / "launches.csv").write_text(text)
    return tmp_path / "launches.csv"


def test_a_table_of_launches_becomes_a_file_and_comes_back(tmp_path):
    read = read_workload(table(tmp_path))
    write_workload(read, tmp_path / "w.nc")
    again = read_workload(tmp_path / "w.nc")
    assert workload_names(again) == ["net", "other"]
    net = one_workload(again, "net")
    assert counts_of(net).tolist() == [3, 2]
    np.testing.assert_array_equal(parameter_table(net), [[64, np.nan], [np.nan, 1000]])
    assert describe_workload(again).splitlines() == [
        "net: 5 launches of 2 kernels (matmul, relu)",
        "other: 1 launches of 1 kernels (relu)",
    ]
    with pytest.raises(ProfileError, match="'count' is 0 at launch 0"):
        write_workload(again.assign(count=again["count"] * 0), tmp_path / "none.nc")
    with pytest.raises(ArgumentError, match="workload is 'nets'; did you mean 'net'"):
        one_workload(again, "nets")


BAD = {
    "line 1 is 'kind,m'; a column 'count'": "kind,m\nrelu,1\n",
    "line 3 has the count '0'; a whole number": "kind,count\nrelu,1\nrelu,0\n",
    "column 'power' is no parameter": "kind,count,power\nrelu,1,3\n",
    "line 2 has the m '-3'; a number from 0 to 1e+15": "kind,count,m\nrelu,1,-3\n",
    "line 3 has the m '1e300'; a number": "kind,count,m\nrelu,1,\nrelu,1,1e300\n",
}


@pytest.mark.parametrize("message", BAD)
def test_a_broken_table_is_refused_with_one_sentence(tmp_path, message):
    with pytest.raises(ProfileError) as refused:
        read_workload(table(tmp_path, BAD[message]))
    assert message in str(refused.value)
