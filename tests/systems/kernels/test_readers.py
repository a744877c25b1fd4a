"""Measurements of kernels from tables, public sets and profiles."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.data.build import make_profiles
from msbgen.data.schema import resource_names
from msbgen.systems.kernels.dataset import (
    configurations_of,
    kernels_of,
    parameter_names,
    powers_of,
    runtimes_of,
    units_of,
)
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.readers import (
    ColumnMap,
    read_column_map,
    read_jetson,
    read_nv_dvfs,
    read_plain_table,
    read_zeus,
)
from msbgen.systems.kernels.readers import from_profiles as kernels_from_profiles
from msbgen.systems.kernels.readers import read_table as read_kernels_table
from msbgen.systems.kernels.variability import (
    compare_groups,
    describe_variability,
    repeatability,
    variability_rows,
)

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


def test_a_unit_may_stand_in_the_header_that_a_map_names(tmp_path):
    text = "what,t [us],f [MHz],watts [W]\na,3,500,7\n"
    columns = {"kind": "what", "runtime": "t [us]", "clock": "f [MHz]", "power": "watts [W]"}
    runs = read_kernels_table(file(tmp_path, text), ColumnMap(("clock",), columns=columns))
    assert runtimes_of(runs) == pytest.approx([3e-6])
    assert (powers_of(runs).tolist(), units_of(runs)) == ([7.0], {"clock": "MHz"})
    columns["power"] = "watts"
    bare = file(tmp_path, text.replace("watts [W]", "watts"))
    with pytest.raises(ProfileError, match=r"has no unit; watts are wanted: 'power \[W\]' in the"):
        read_kernels_table(bare, ColumnMap(("clock",), columns=columns))


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
    "has a column 'kind', and the map has one kind for all rows, 'conv'; drop one": (
        "kind,runtime [s],clock\na,1,1\n",
        ColumnMap(("clock",), kind="conv"),
    ),
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


GROUPS = st.lists(
    st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8), min_size=2, max_size=4
).filter(lambda groups: len({x for g in groups for x in g}) > 1)


def steps_apart(a, b):
    """Largest difference of two distribution functions, at every point there is."""
    return max(abs(np.mean(np.array(a) <= x) - np.mean(np.array(b) <= x)) for x in [*a, *b])


@settings(max_examples=20)
@given(GROUPS)
def test_figures_by_enumeration(groups):
    found = compare_groups(groups)
    medians = [sorted(g)[len(g) // 2] if len(g) % 2 else np.median(g) for g in groups]
    assert found.reference == pytest.approx(np.median(medians))
    every = [x / found.reference - 1 for g in groups for x in g]
    np.testing.assert_allclose(found.difference, every)
    assert found.between == pytest.approx((max(medians) - min(medians)) / found.reference)
    apart = max(steps_apart(a, b) for a, b in combinations(groups, 2))
    assert found.kolmogorov == pytest.approx(apart)
    assert 0 <= found.kolmogorov_p <= 1
    assert 0.001 <= found.anderson_p <= 0.25


def test_equal_laws_are_rarely_told_apart_and_other_ones_always():
    rng = np.random.default_rng(0)
    rejected = [
        [found.anderson_p < 0.05, found.kolmogorov_p < 0.05]
        for found in (compare_groups(np.exp(0.1 * rng.normal(size=(3, 40)))) for _ in range(200))
    ]
    assert (np.mean(rejected, axis=0) < 0.09).all()
    shifted = np.exp(0.1 * rng.normal(size=(3, 40)) + [[0.0], [0.0], [0.2]])
    found = compare_groups(shifted)
    assert found.anderson_p == 0.001
    assert found.kolmogorov_p < 1e-6
    assert found.between == pytest.approx(0.2, abs=0.06)
    assert found.within == pytest.approx(0.0674, abs=0.02)


def test_a_table_has_a_row_for_each_kernel_and_configuration():
    seconds = [1.0, 1.1, 2.0, 2.2, 5.0, 5.5, 5.0, 5.5, 9.0]
    dataset = make_kernels(
        ["a"] * 8 + ["b"],
        seconds,
        resources={"clock": [1, 1, 1, 1, 2, 2, 2, 2, 1]},
        node=["x", "x", "y", "y", "x", "x", "y", "y", "x"],
        run=[0, 0, 0, 0, 0, 0, 1, 1, 0],
    )
    rows = list(variability_rows(dataset))
    assert [(row["kind"], row["clock"]) for row in rows] == [("a", 1.0), ("a", 2.0)]
    assert rows[0]["between"] == pytest.approx(1.05 / 1.575)
    assert rows[1]["between"] == 0
    assert [row["kind"] for row in variability_rows(dataset, by="run")] == ["a"]
    with pytest.raises(ArgumentError, match="quantity is 'power', but no measurement"):
        list(variability_rows(dataset, quantity="power"))
    with pytest.raises(ArgumentError, match="by is 'day'; one of node, run"):
        list(variability_rows(dataset, by="day"))


def test_sessions_repeat_as_well_as_their_medians():
    assert repeatability([[1.0, 1.2, 1.1]]) == pytest.approx((0.1 / 1.1) * 2 / 3)
    with pytest.raises(MeasurementError, match="in two sessions"):
        repeatability([[1.0, np.nan]])


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(MeasurementError, match="groups of 3, 1 observations"):
        compare_groups([[1.0, 2.0, 3.0], [1.0]])
    with pytest.raises(MeasurementError, match="groups of no observations"):
        compare_groups([])
    with pytest.raises(ArgumentError, match="observation 1 of group 1 is 0"):
        compare_groups([[1.0, 2.0], [1.0, 0.0]])
    with pytest.raises(MeasurementError, match="all 4 observations are 2"):
        compare_groups([[2.0, 2.0], [2.0, 2.0]])


def test_a_file_is_described_by_how_it_repeats():
    def runs(seconds, **more):
        clock = [500.0, 500.0, 500.0, 700.0]
        return make_kernels(["a"] * 4, seconds, resources={"clock": clock}, **more)

    nodes = runs([1.0, 1.1, 1.2, 9.0], node=["x", "y", "z", "x"], power=[5.0, 5.0, np.nan, 5.0])
    assert describe_variability(nodes) == [
        "runtime       repeats to 6.1% between nodes: from -9.1% on x to +9.1% on z",
        "power         repeats to 0.0% between nodes: from +0.0% on x to +0.0% on x",
    ]
    [line] = describe_variability(runs([1.0, 1.0, 3.0, 9.0], run=[1, 1, 2, 3]))
    assert line == "runtime       repeats to 50.0% between runs: from -50.0% on 1 to +50.0% on 2"
    assert describe_variability(runs([1.0, 1.1, 1.2, 9.0])) == []
    assert describe_variability(runs([1.0, 1.1, 1.2, 9.0], node=["x", "x", "x", "y"])) == []


def test_a_table_of_times_needs_no_map(tmp_path):
    rows = "".join(f"{k},{n},{mhz},{n / mhz:.4f},{mhz / 10}\n"
                   for k in ("add", "mul") for n in (64, 128) for mhz in (500, 1000))  # fmt: skip
    (tmp_path / "t.csv").write_text("kernel,n,clock_mhz,time_ms,power_w\n" + rows)
    found = read_plain_table(tmp_path / "t.csv")
    assert sorted(set(found["kind"].values)) == ["add", "mul"]
    assert resource_names(found) == ["clock"]
    assert found["clock"].attrs["units"] == "MHz"
    assert parameter_names(found) == ["n"]
    np.testing.assert_allclose(found["power"], found["clock"] / 10)
    assert found.encoding["taken"][-1] == "resources: clock; parameters: n"
    (tmp_path / "t.csv").write_text("threads,block,seconds\n1,2,3\n2,2,3\n")
    assert resource_names(read_plain_table(tmp_path / "t.csv")) == ["threads"]
    (tmp_path / "t.csv").write_text("kernel,seconds\na,3\n")
    with pytest.raises(ProfileError, match="has no column of a setting in numbers"):
        read_plain_table(tmp_path / "t.csv")
