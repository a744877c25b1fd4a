"""Runs of graphs: files and tables, and the mistakes that tables hold."""

import numpy as np
import pytest
import xarray as xr

from msbgen.data.devices import device_contexts, shipped_device
from msbgen.data.graphs import runs as graph_runs
from msbgen.data.graphs.runs import make_graph_runs, read_graph_runs, validate_graph_runs
from msbgen.errors import ArgumentError, ProfileError

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
    runs = some(power=np.full(len(CONTEXTS), 8.1), start_temperature=np.full(len(CONTEXTS), 31.0))
    graph_runs.write_graph_runs(runs, tmp_path / name)
    xr.testing.assert_identical(read_graph_runs(tmp_path / name, TX2), runs)
    with pytest.raises(FileExistsError):
        graph_runs.write_graph_runs(runs, tmp_path / name)


def test_runs_of_one_device_are_joined():
    both = graph_runs.join_graph_runs([some(), some(throttled=np.zeros(len(CONTEXTS)))])
    validate_graph_runs(both, TX2)
    assert both.sizes["run"] == 2 * len(CONTEXTS)
    assert "throttled" not in both
    np.testing.assert_array_equal(graph_runs.run_contexts(both, TX2)[: len(CONTEXTS)], CONTEXTS)
    with pytest.raises(ArgumentError, match="runs are of other and tx2"):
        graph_runs.join_graph_runs([some(), some().assign_attrs(device="other")])
    with pytest.raises(ArgumentError, match="runs are none"):
        graph_runs.join_graph_runs([])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"makespan": [0.0] * 6}, "'makespan' is 0 in run 0; a positive number"),
        ({"energy": [1, 1, np.nan, 1, 1, 1]}, "'energy' is missing in run 2"),
        ({"power": [8, 8, 800, 8, 8, 8]}, "'energy' is 24 J in run 2, 0.01 times power × time"),
        ({"watts": [1] * 6}, "'watts' is no number of a run"),
        ({"energy": [1, 2]}, "energy has shape (2,)"),
        ({"throttled": [-1] * 6}, "'throttled' is -1 in run 0; a number from 0 on"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(given, said):
    with pytest.raises(ArgumentError) as caught:
        some(**given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda r: r.assign_attrs(schema="x"), "runs of graphs say"),
        (lambda r: r.drop_vars("energy"), "variable 'energy' is missing"),
        (lambda r: r.drop_vars(list(r.coords)), "no resource found"),
        (lambda r: r.assign_attrs(device="orin-nx"), "those of 'tx2' are wanted"),
        (lambda r: r.drop_vars("clock_a57"), "runs do not say 'clock_a57'"),
        (lambda r: r.assign(makespan=("run", r["makespan"].values, {"units": "ms"})), "units 'ms'"),
        (lambda r: r.isel(run=slice(0)), "'run' is missing or empty"),
        (
            lambda r: r.assign_coords(cache_ways=("x", [16.0], r["cache_ways"].attrs)),
            "coordinate 'cache_ways' holds float64; a number for each run",
        ),
        (lambda r: r.assign_coords(cache_ways=r["cache_ways"] * 2), "cache_ways is 32"),
    ],
)
def test_files_that_break_the_contract_are_refused(spoil, said):
    with pytest.raises(ProfileError) as caught:
        validate_graph_runs(spoil(some()), TX2, source="r.nc")
    assert said in str(caught.value)


HEADER = "graph,cores_denver,clock_denver,cores_a57,clock_a57,cache_ways,bandwidth"
GOOD = "lu,2,2.0352,4,2.0352,16,4200,1.5,12"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["makespan [s],energy [J]", "lu,2,2.0,4,2.0352,16,4200,1,8"],
            "clock_denver is 2 in line 3",
        ),
        (["makespan [s],energy [J]", "lu,0,2.0352,0,2.0352,16,4200,1,8"], "line 3 has no core"),
        (["makespan [s],energy [J]", "lu,2,2.0352,4,2.0352,16,4200,x,8"], "line 3, column 'make"),
        (["makespan [s],energy [J]", "lu,2,2.0352,4,2.0352,16,4200,1"], "line 3 has 8 cells"),
        (
            ["makespan [s],energy [J]", "lu,2,2.0352,4,2.0352,16,4200,0,8"],
            "'makespan' is 0 in line 3",
        ),
        (["makespan [ms],energy [J]"], "column 'makespan [ms]' is no column of runs"),
        (["makespan [s],makespan [s]"], "is named twice"),
        (["makespan [s]"], "column 'energy [J]' is missing"),
    ],
)
def test_mistakes_in_tables_are_told_with_their_lines(lines, said, tmp_path):
    (tmp_path / "r.csv").write_text("\n".join([f"{HEADER},{lines[0]}", GOOD, *lines[1:]]))
    with pytest.raises(ProfileError) as caught:
        read_graph_runs(tmp_path / "r.csv", TX2)
    assert said in str(caught.value)
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
        with pytest.raises(ProfileError, match=r"e\.csv: (is empty|there are no runs)"):
            read_graph_runs(tmp_path / "e.csv", TX2)
