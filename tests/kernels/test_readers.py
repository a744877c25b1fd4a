"""Measurements of kernels from tables, public sets and profiles."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.schema import make_profiles
from msbgen.kernels.dataset import (
    configurations_of,
    kernels_of,
    parameter_names,
    powers_of,
    runtimes_of,
    units_of,
)
from msbgen.kernels.readers import ColumnMap, read_column_map, read_jetson, read_nv_dvfs, read_zeus
from msbgen.kernels.readers import from_profiles as kernels_from_profiles
from msbgen.kernels.readers import read_table as read_kernels_table

TABLE = """kind,runtime [ms],power [W],clock [MHz],m,node,run
matmul,2,10,500,64,a,0
matmul,1,,1000,64,b,1
relu,0.5,5,500,,a,0
"""
OWN = ColumnMap(resources=("clock",))


def file(tmp_path, text=TABLE, name="k.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_table_by_its_own_names(tmp_path):
    runs = read_kernels_table(file(tmp_path), OWN)
    np.testing.assert_allclose(runtimes_of(runs), [2e-3, 1e-3, 5e-4])
    np.testing.assert_array_equal(powers_of(runs), [10, np.nan, 5])
    np.testing.assert_array_equal(runs["m"].values, [64, 64, np.nan])
    assert units_of(runs) == {"clock": "MHz", "m": "1"}
    assert list(runs["node"].values) == ["a", "b", "a"]
    assert list(runs["run"].values) == [0, 1, 0]


def test_a_table_by_a_map(tmp_path):
    text = "f,name,variant,t,left out\n500,a,x,3,7\n"
    path = file(
        tmp_path,
        "resources = ['clock']\ncounters = ['hits']\n"
        "[columns]\nkind = 'name/variant'\n'runtime [us]' = 't'\n"
        "'clock [MHz]' = 'f'\n'hits [1]' = 'left out'\n",
        "map.toml",
    )
    runs = read_kernels_table(file(tmp_path, text), read_column_map(path))
    assert list(runs["kind"].values) == ["a/x"]
    np.testing.assert_allclose(runtimes_of(runs), [3e-6])
    assert runs["hits"].attrs["role"] == "counter"
    assert parameter_names(runs) == []


BAD = {
    "a column 'runtime' is wanted": ("kind,clock\na,1\n", OWN),
    "the runtime has no known unit": ("kind,runtime,clock\na,1,1\n", OWN),
    "the power is in 'mW'; watts": ("kind,runtime [s],power [mW],clock\na,1,1,1\n", OWN),
    "line 2 has the runtime '0'; a positive number is wanted, from": (
        "kind,runtime [s],clock\na,0,1\n",
        OWN,
    ),
    "line 2 has the clock '0'; a positive": ("kind,runtime [s],clock\na,1,0\n", OWN),
    "line 2 has the clock '-4'; a positive": ("kind,runtime [s],clock\na,1,-4\n", OWN),
    "line 2 has the clock '1e120'; a pos": ("kind,runtime [s],clock\na,1,1e120\n", OWN),
    "line 2 has the m '1e300'; a number": ("kind,runtime [s],clock,m\na,1,1,1e300\n", OWN),
    "line 2 has the run '9e9'; a whole": ("kind,runtime [s],clock,run\na,1,1,9e9\n", OWN),
    "column 'energy' has a reserved": ("kind,runtime [s],clock,energy\na,1,1,9\n", OWN),
    "a column is called 'a/b', which": ("kind,runtime [s],clock,a/b\na,1,1,9\n", OWN),
    "column 'run' has a reserved": ("kind,runtime [s],run\na,1,1\n", ColumnMap(("run",))),
}


@pytest.mark.parametrize("message", BAD)
def test_a_broken_table_is_refused_with_one_sentence(tmp_path, message):
    text, columns = BAD[message]
    with pytest.raises(ProfileError) as refused:
        read_kernels_table(file(tmp_path, text), columns)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("message", "text"),
    {
        "'resources' is 'clock'; a list": "resources = 'clock'\n",
        "'f' stands in 'resources' and 'counters'": "resources = ['f']\ncounters = ['f']\n",
        "'columns' is no table of names": "resources = []\ncolumns = 3\n",
        "'colums' is no known key; did you mean 'columns'?": "resources = []\ncolums = 3\n",
    }.items(),
)
def test_a_broken_map_is_refused(tmp_path, message, text):
    with pytest.raises(ProfileError, match=message.replace("?", r"\?")):
        read_column_map(file(tmp_path, text, "map.toml"))


def test_public_sets(tmp_path):
    head = "device,design,rows,columns,gpu_clock_mhz,runtime_s,power_mean_w,power_median_w\n"
    rows = "AGX,sq,64,64,500,1e-3,10,10\nAGX,nonsq,64,8,900,2e-3,12,12\nNano,sq,64,64,70,1,3,3\n"
    file(tmp_path, head + rows, "gemm.csv")
    square = read_jetson(tmp_path, "square", "AGX")
    assert list(square["kind"].values) == ["gemm"]
    assert square["gpu_clock"].attrs["levels"] == [500.0]
    assert read_jetson(tmp_path, "rectangular", "AGX")["columns"].values.tolist() == [8]
    with pytest.raises(ProfileError, match="there is no measurement of 'Nano'"):
        read_jetson(tmp_path, "rectangular", "Nano")
    with pytest.raises(ArgumentError, match="what is 'round'"):
        read_jetson(tmp_path, "round", "AGX")
    head = "device,batch,gpu_clock_mhz,power_mean_w,latency_p50_ms\n"
    file(tmp_path, head + "AGX,2,500,11,30\n", "mobilenet.csv")
    network = read_jetson(tmp_path, "mobilenet", "AGX")
    np.testing.assert_allclose(runtimes_of(network) * powers_of(network), [0.33])
    assert configurations_of(network)[0].tolist() == [[500, 2]]

    names = "DRAMA,FP16A,FP32A,FP64A,SMACT,SMOCC,TENSO,argNo,average_power,benchmark"
    head = f"{names},core_frequency,kernel,memory_frequency,time\n"
    for part in ("microbenchmark", "real"):
        text = head + f"1,0,0,0,1,1,0,input000,90,{part},405,fast,877,2\n"
        file(tmp_path, text, f"v100-dvfs-{part}-profile.csv")
    micro, applications = read_nv_dvfs(tmp_path, "V100")
    assert list(micro["kind"].values) == ["microbenchmark/fast/input000"]
    assert applications["DRAMA"].attrs["role"] == "counter"
    with pytest.raises(ArgumentError, match="gpu is 'K80'; one of V100, RTX 8000"):
        read_nv_dvfs(tmp_path, "K80")

    head = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
    file(tmp_path, head + "cifar,net,32,adam,100,7,90\n", "summary_power_a40.csv")
    assert kernels_of(read_zeus(tmp_path, "A40")).kind.tolist() == ["net/adam"]
    with pytest.raises(ArgumentError, match="gpu is 'K80'; one of A40"):
        read_zeus(tmp_path, "K80")


def test_profiles_become_a_kernel_each():
    counts = np.full((2, 2, 3, 2), np.nan)
    counts[0, 0] = [[1, 2], [1, 2], [1, 2]]
    counts[1, 1, :2] = [[5, 1], [6, 1]]
    made = make_profiles(
        counts,
        [[3.0, np.nan], [np.nan, 1.5]],
        [[1.0], [2.0]],
        interval=1.0,
        resources={"clock": {"units": "GHz", "levels": [1.0, 1.5, 2.0]}},
        counters={"instructions": {}, "energy_used": {"units": "J"}},
        attrs={"task": "sort"},
    )
    runs = kernels_from_profiles([made])
    assert list(runs["kind"].values) == ["sort", "sort"]
    np.testing.assert_allclose(runtimes_of(runs) * powers_of(runs), [6.0, 2.0])
    assert runs["instructions"].values.tolist() == [3, 11]
    assert runs["run"].values.tolist() == [0, 1]
    assert runs["clock"].attrs["levels"] == [1.0, 1.5, 2.0]
    named = made.assign(core=made["energy_used"] / 2).rename(energy_used="energy")
    named["core"].attrs.update(named["energy"].attrs)
    again = kernels_from_profiles([named])
    np.testing.assert_allclose(runtimes_of(again) * powers_of(again), [6.0, 2.0])
    with pytest.raises(ArgumentError, match="are in joules; one counter of energy per interval"):
        kernels_from_profiles([named.rename(energy="package")])
    del made.attrs["task"]
    with pytest.raises(ArgumentError, match="no attribute 'task'"):
        kernels_from_profiles([made])
    with pytest.raises(ArgumentError, match="datasets holds none"):
        kernels_from_profiles([])
