"""Measurements of kernels: the schema, and what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelling import CLOCKS, made_kernels
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.kernels.dataset import (
    configurations_of,
    describe,
    family_of,
    join,
    kernels_of,
    make,
    measured_table,
    parameter_names,
    parameter_table,
    powers_of,
    read,
    runtimes_of,
    validate,
    write,
)
from msbgen.systems.kernels.workloads import (
    counts_of,
    one_workload,
    read_workload,
    workload_names,
    write_workload,
)
from msbgen.systems.kernels.workloads import (
    describe as describe_workload,
)


def test_a_file_holds_what_was_written(tmp_path):
    runs = made_kernels(noise=0.01)
    write(runs, tmp_path / "k.nc")
    again = read(tmp_path / "k.nc")
    np.testing.assert_array_equal(runtimes_of(again), runtimes_of(runs))
    np.testing.assert_array_equal(powers_of(again), powers_of(runs))
    assert list(again["clock"].attrs["levels"]) == CLOCKS.tolist()
    assert parameter_names(again) == ["m", "k", "n"]
    assert describe(again) == describe(runs)
    assert "7: 7 of matmul" in describe(again)
    assert "resource      clock [MHz]: 200 to 1000, 5 values of 5" in describe(again)


@given(st.data())
def test_a_table_has_the_median_of_every_kernel_in_every_configuration(data):
    n = data.draw(st.integers(1, 30))
    draw = lambda most: data.draw(st.lists(st.integers(0, most), min_size=n, max_size=n))  # noqa: E731
    kind, size, clock = ([f"k{i}" for i in draw(2)], draw(2), draw(3))
    times = 1.0 + np.array(draw(100), dtype=float)
    given_size = np.where(np.array(size) == 2, np.nan, size)
    runs = make(kind, times, parameters={"m": given_size}, resources={"clock": clock})
    kernels, (configurations, _) = kernels_of(runs), configurations_of(runs)
    table = measured_table(runs, times)
    assert table.shape == (len(kernels.kind), len(configurations))
    cells: dict[tuple, list[float]] = {}
    for row in range(n):
        key = kind[row], size[row], clock[row]
        cells.setdefault(key, []).append(times[row])
    assert np.isfinite(table).sum() == len(cells)
    firsts = list(dict.fromkeys((kind[r], size[r]) for r in range(n)))
    for (k, m, f), own in cells.items():
        column = configurations[:, 0].tolist().index(f)
        assert table[firsts.index((k, m)), column] == np.median(own)


def test_datasets_are_joined_whatever_parameters_they_have():
    one = made_kernels(sizes=(64,))
    other = make(
        ["relu"],
        [1e-5],
        parameters={"size": [10]},
        resources={"clock": [300]},
        units={"clock": "MHz"},
    )
    both = validate(join([one, other]))
    assert parameter_names(both) == ["m", "k", "n", "size"]
    assert np.isnan(both["m"].values[-1])
    assert np.isnan(both["power"].values[-1])
    assert both["size"].values[-1] == 10
    assert both["clock"].attrs["levels"] == sorted([*CLOCKS, 300.0])
    hertz = make(["relu"], [1e-5], resources={"clock": [3e8]}, units={"clock": "Hz"})
    with pytest.raises(ArgumentError, match="'clock' is in Hz; MHz is wanted"):
        join([one, hertz])
    with pytest.raises(ArgumentError, match="resources are threads; clock, as"):
        join([one, make(["relu"], [1.0], resources={"threads": [1]})])


def test_energy_without_power_is_refused():
    runs = made_kernels()
    for bare in (runs.drop_vars("power"), runs.assign(power=runs["power"] * np.nan)):
        with pytest.raises(ArgumentError, match="no measurement has a power, so that nothing"):
            powers_of(bare)


def test_families_and_reserved_names():
    assert family_of("shufflenetv2/adam") == "shufflenetv2"
    assert family_of("gemm") == "gemm"
    with pytest.raises(ArgumentError, match="'power', which is reserved"):
        make(["a"], [1.0], resources={"power": [1]})
    with pytest.raises(ArgumentError, match="'m', which is given twice"):
        make(["a"], [1.0], resources={"m": [1]}, parameters={"m": [1]})


def put(name, at, value):
    def change(runs):
        runs[name][at] = value
        return runs

    return change


BROKEN = {
    "'runtime' is 0 s at measurement 2 (matmul); a positive": put("runtime", 2, 0.0),
    "parameter 'm' is -3 at measurement 4": put("m", 4, -3),
    "resource 'clock' is 1e+09 in measurement 0, about 1e+06 times": lambda r: r.assign_coords(
        clock=r["clock"].copy(data=np.full(r.sizes["measurement"], 1e9))
    ),
    "resource 'clock' has no attribute 'levels'": lambda r: r.assign_coords(
        clock=r["clock"].assign_attrs(levels=[])
    ),
    "there is no coordinate with role 'resource'": lambda r: r.drop_vars("clock"),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_dataset_is_refused_with_one_sentence(message):
    with pytest.raises(ProfileError) as refused:
        validate(BROKEN[message](made_kernels()), source="k.nc")
    assert message in str(refused.value)
    assert len(refused.value.problems) == 1


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
