"""Runs of graphs: files and tables, and the mistakes that tables hold."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.graphs import runs as graph_runs
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.devices import device_contexts, shipped_device
from msbgen.systems.graphs.runs import make_runs as make_graph_runs
from msbgen.systems.graphs.runs import read_runs as read_graph_runs
from msbgen.systems.graphs.runs import validate_runs as validate_graph_runs

TX2 = shipped_device("tx2")
CONTEXTS = device_contexts(TX2, cores={"denver": 2, "a57": [0, 4]}, clocks=1, cache_ways=16)


def some(**given):
    n = len(CONTEXTS)
    values = {
        "graph": ["lu-5"] * n,
        "family": ["lu"] * n,
        "makespan": np.arange(1.0, n + 1),
        "energy": 8 * np.arange(1.0, n + 1),
        **given,
    }
    return make_graph_runs(TX2, CONTEXTS, **values)


@pytest.mark.parametrize("name", ["r.nc", "r.csv"])
def test_runs_survive_their_files(name, tmp_path):
    n = len(CONTEXTS)
    given = {"power": np.full(n, 8.1), "start_temperature": np.full(n, 31.0)}
    runs = some(**given, stretched=np.arange(n) % 2, attrs={"order": "heft"})
    graph_runs.write_runs(runs, tmp_path / name)
    xr.testing.assert_identical(read_graph_runs(tmp_path / name, TX2), runs)
    with pytest.raises(FileExistsError):
        graph_runs.write_runs(runs, tmp_path / name)
    graph_runs.write_runs(runs, tmp_path / name.upper())
    xr.testing.assert_identical(read_graph_runs(tmp_path / name.upper(), TX2), runs)


def test_runs_are_written_to_names_that_are_read_again(tmp_path):
    with pytest.raises(ArgumentError, match=r"ends like no runs; \.nc or \.csv is wanted"):
        graph_runs.write_runs(some(), tmp_path / "r.json")


def test_runs_of_one_device_are_joined():
    both = graph_runs.join_runs([some(), some(throttled=np.zeros(len(CONTEXTS)))])
    validate_graph_runs(both, TX2)
    assert both.sizes["run"] == 2 * len(CONTEXTS)
    assert "throttled" not in both
    np.testing.assert_array_equal(graph_runs.run_contexts(both, TX2)[: len(CONTEXTS)], CONTEXTS)
    with pytest.raises(ArgumentError, match="runs are of other and tx2"):
        graph_runs.join_runs([some(), some().assign_attrs(device="other")])
    with pytest.raises(ArgumentError, match="runs are none"):
        graph_runs.join_runs([])
    with pytest.raises(ProfileError, match="attribute 'schema' is None"):
        graph_runs.join_runs([xr.Dataset()])


def test_runs_of_one_order_are_joined_and_of_two_are_not():
    arrival, heft = (some(attrs={"order": order}) for order in ("arrival", "heft"))
    assert graph_runs.join_runs([some(), heft]).attrs["order"] == "heft"
    assert "order" not in graph_runs.join_runs([some(), some()]).attrs
    with pytest.raises(ArgumentError, match="in the orders arrival and heft; those of one"):
        graph_runs.join_runs([arrival, some(), heft])


def test_families_are_those_of_runs_or_else_of_graphs():
    graphs = {
        name: make_graph(["a"], [1.0], [], name=name, family=family)
        for name, family in (("x", "one"), ("y", ""), ("z", ""))
    }
    names = ["x", "y", "z"] * 2

    def families(*message):
        return graph_runs.runs_families(some(graph=names, family=message), graphs)

    assert families("", "", "", "one", "two", "") == ["one", "two", "z"] * 2
    with pytest.raises(ProfileError, match="'x' is 'two' in run 3 and 'one' in its graph; one of"):
        families("one", "", "", "two", "", "")
    with pytest.raises(ProfileError, match="'y' is 'b' in run 4 and 'a' in run 1; one of them"):
        families("", "a", "", "", "b", "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"makespan": [0.0] * 6}, "'makespan' is 0 s at run 0; a positive number"),
        ({"power": [8, 8, 800, 8, 8, 8]}, "'energy' is 24 J in run 2, 0.01 times power × time"),
        ({"watts": [1] * 6}, "'watts' is no number of a run"),
        ({"energy": [1, 2]}, "energy has shape (2,)"),
        ({"throttled": [-1] * 6}, "'throttled' is -1 s at run 0; a number from 0 to"),
        (
            {"start_temperature": [30, 301] * 3},
            "is 301 degC at run 1; a number from -100 to 250 is wanted: 0 °C are 273.15 K",
        ),
        (
            {"start_temperature": [40] * 6, "peak_temperature": [41, 39] * 3},
            "'start_temperature' is 40 in run 1 and 'peak_temperature' 39: above the highest temp",
        ),
        ({"throttled": [1, 2, 3.1, 0, 0, 0]}, "'throttled' is 3.1 in run 2 and 'makespan' 3: long"),
        ({"stretched": [0, 2, 0, 0, 0, 0]}, "'stretched' is 2 at run 1; a whole number from 0"),
        ({"attrs": {"order": "random"}}, "'order' is 'random'; arrival, heft, keys are known"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(given, message):
    with pytest.raises(ArgumentError) as caught:
        some(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda r: r.assign_attrs(schema="x"), "is wanted for runs of graphs"),
        (lambda r: r.drop_vars(list(r.coords)), "no resource found"),
        (lambda r: r.assign_attrs(device="orin-nx"), "those of 'tx2' are wanted"),
        (lambda r: r.drop_vars("clock_a57"), "runs do not say 'clock_a57'"),
        (lambda r: r.assign_coords(cache_ways=r["cache_ways"] * 2), "cache_ways is 32"),
    ],
)
def test_files_that_break_the_contract_are_refused(spoil, message):
    with pytest.raises(ProfileError) as caught:
        validate_graph_runs(spoil(some()), TX2, source="r.nc")
    assert message in str(caught.value)


HEADER = "graph,cores_denver,clock_denver,cores_a57,clock_a57,cache_ways,bandwidth"
GOOD = "lu,2,2.0352,4,2.0352,16,4200,1.5,12"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["makespan [s],energy [J]", "lu,2,2.0,4,2.0352,16,4200,1,8"],
            "clock_denver is 2 in line 3",
        ),
        (["makespan [s],energy [J]", "lu,0,2.0352,0,2.0352,16,4200,1,8"], "line 3 has no core"),
        (
            ["makespan [s],energy [J]", "lu,2,2.0352,4,2.0352,16,4200,x,8"],
            "line 3 has the makespan 'x'",
        ),
        (
            ["makespan [s],energy [J],order", "lu,2,2.0352,4,2.0352,16,4200,1,8,heft"],
            "'order' is 'heft' in line 3 and 'arrival' in line 2; runs of one order",
        ),
        (["makespan [ms],energy [J]"], "column 'makespan' is in 'ms'; 'makespan [s]'"),
        (["makespan [s]"], "a column 'energy' is wanted"),
    ],
)
def test_mistakes_in_tables_are_told_with_their_lines(lines, message, tmp_path):
    good = GOOD + (",arrival" if "order" in lines[0] else "")
    (tmp_path / "r.csv").write_text("\n".join([f"{HEADER},{lines[0]}", good, *lines[1:]]))
    with pytest.raises(ProfileError) as caught:
        read_graph_runs(tmp_path / "r.csv", TX2)
    assert message in str(caught.value)
    assert "r.csv" in str(caught.value)


def test_a_hundredfold_energy_of_a_published_set_is_found(tmp_path):
    """Big cores alone in the published measurements of the TX2: 31.32 J of 454 s at 6.3 W."""
    row = "ep,1,2.0352,0,2.0352,16,4200,454.26,31.32,6.315"
    (tmp_path / "r.csv").write_text(f"{HEADER},makespan [s],energy [J],power [W]\n{row}")
    with pytest.raises(ProfileError, match=r"31\.32 J in line 2, 0\.0109 times power × time"):
        read_graph_runs(tmp_path / "r.csv", TX2)
    text = (tmp_path / "r.csv").read_text().replace(",power [W]", "").replace(",6.315", "")
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(ProfileError, match=r"r\.csv: 'energy' of line 2 .* which is 0\.0689 W"):
        read_graph_runs(tmp_path / "r.csv", TX2)
    for empty in ("", f"{HEADER},makespan [s],energy [J]"):
        (tmp_path / "e.csv").write_text(empty)
        with pytest.raises(
            ProfileError, match=r"e\.csv: (line 1 is ''|a header and at least one row)"
        ):
            read_graph_runs(tmp_path / "e.csv", TX2)
