"""``msbgen graph check`` and ``simulate``: files in, files out, or a sentence with its place."""

import json

import numpy as np
import pytest
import xarray as xr

import soc
from msbgen.cli import graph as verb
from msbgen.data.shipped import shipped_file
from msbgen.data.store import read_profiles, write_profiles
from msbgen.systems.graphs.devices import shipped_device
from msbgen.systems.graphs.readers import read as read_graph
from msbgen.systems.graphs.runs import read_runs as read_graph_runs
from msbgen.systems.phases.phases import write_phases

TX2 = shipped_device("tx2")


@pytest.fixture
def kinds(tmp_path):
    """A folder with phase tables of two kinds."""
    folder = tmp_path / "kinds"
    folder.mkdir()
    write_phases(soc.toy_table(((1.0, 0.8, 0.3, 4.0),)), folder / "bzip2.nc")
    write_phases(soc.toy_table(((0.3, 0.2, 0.3, 4.0), (0.7, 0.5, 0.1, 1.0))), folder / "gzip.nc")
    return folder


def test_a_graph_is_drawn_described_and_written(msbgen, tmp_path):
    done = msbgen("graph", "check", "layers:6", "-o", "g.json", "--seed", 3)
    assert done.returncode == 0, done.stderr
    assert "of 3 kinds" in done.stdout
    again = msbgen("graph", "check", "g.json", "-o", "g.dot")
    assert again.stdout.partition(":")[2] == done.stdout.partition(":")[2]
    xr.testing.assert_identical(read_graph(tmp_path / "g.dot"), read_graph(tmp_path / "g.json"))
    assert msbgen("graph", "check", "layers:6", "-o", "h.json").returncode == 0
    assert (tmp_path / "h.json").read_text() != (tmp_path / "g.json").read_text()


def test_times_come_from_profiles_and_kinds_can_be_chosen(msbgen, refused, tmp_path):
    (tmp_path / "p").mkdir()
    write_profiles(read_profiles(shipped_file("gzip.nc")).isel(run=[0]), tmp_path / "p" / "gzip.nc")
    (tmp_path / "w.csv").write_text("task,parents,kind,time [s]\na,,tar,1\nb,a,tar,3\n")
    done = msbgen("graph", "check", "w.csv", "--profiles", "p", "--kinds", "tar=gzip", "-o", "w.nc")
    assert done.returncode == 0, done.stderr
    graph = read_graph(tmp_path / "w.nc")
    assert graph["kind"].values.tolist() == ["gzip", "gzip"]
    np.testing.assert_allclose(graph["time"], [1, 3])
    assert graph["wcet"].values[0] > 1
    assert msbgen("graph", "check", "w.nc", "--profiles", "p").returncode == 0
    (tmp_path / "ms.csv").write_text("task,parents,kind,time [s]\na,,gzip,400\n")
    refused(3, "seconds are wanted", "graph", "check", "ms.csv", "--profiles", "p")
    kept = ("graph", "check", "ms.csv", "--profiles", "p", "--kinds")
    refused(3, "ms.csv: 'time' of task 'a' is 400 s, and all tasks' about", *kept, "gzip=gzip")
    refused(3, "runs 'tar', but there is no file", "graph", "check", "w.csv", "--profiles", "p")
    outside = ("graph", "check", "w.csv", "--profiles", "p", "--kinds", "tar=../gzip")
    refused(3, "kind '../gzip' is a path; rename the kind", *outside)
    refused(2, "--kinds needs --profiles DIR", "graph", "check", "w.csv", "--kinds", "tar=gzip")
    requested = ("graph", "check", "w.csv", "--profiles", "p", "--kinds", "zip=gzip")
    refused(2, "--kinds names 'zip', but w.csv has no such task", *requested)


def test_measured_times_that_are_taken_as_shares_are_told(msbgen, kinds, tmp_path):
    (tmp_path / "w.csv").write_text("task,parents,kind,time [s]\na,,gzip,1\nb,a,gzip,3\n")
    simulate = ("graph", "simulate", "w.csv", "--device", "tx2", "--profiles", "kinds")
    done = msbgen(*simulate, "--contexts", "grid:2x1x1x1x1x1", "-o", "r.nc")
    assert done.returncode == 0
    assert "w.csv: only ratios of times within a kind are used" in done.stderr
    assert "--kinds NAME=NAME" in done.stderr


def test_a_family_is_shown_and_given(msbgen, refused, tmp_path):
    (tmp_path / "w.csv").write_text("task,parents,kind,work\na,,gzip,1\n")
    assert "family     none" in msbgen("graph", "check", "w.csv").stdout
    done = msbgen("graph", "check", "w.csv", "--family", "lu", "-o", "w.dot")
    assert "family     lu\n" in done.stdout
    assert read_graph(tmp_path / "w.dot").attrs["family"] == "lu"
    refused(2, "--family needs -o", "graph", "check", "w.csv", "--family", "lu")
    refused(
        2, "is not a name of a family", "graph", "check", "w.csv", "--family", " ", "-o", "x.nc"
    )


def test_a_list_of_parents_with_a_table_of_tasks(msbgen, refused, tmp_path):
    (tmp_path / "p.txt").write_text("2,1\n")
    (tmp_path / "t.csv").write_text("task,kind,work\n1,a,1\n2,b,2\n")
    assert msbgen("graph", "check", "p.txt", "--tasks", "t.csv", "-o", "g.nc").returncode == 0
    assert read_graph(tmp_path / "g.nc").sizes == {"task": 2, "edge": 1}
    refused(3, "says neither kinds nor times", "graph", "check", "p.txt")
    refused(2, "--tasks needs a list", "graph", "check", "lu:3", "--tasks", "t.csv")


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        (("choleski:3",), 2, "did you mean 'cholesky'?"),
        (("lu:x",), 2, "'lu:x' is no family and size"),
        (("lu:0",), 2, "size is 0"),
        (("lu",), 3, "lu: no such file"),
        (("lu:3", "-o", "g.txt"), 2, "g.txt: is not a graph file"),
        (("lu:3", "--kinds", "a"), 2, "is not a list of kinds"),
        (("bad.json",), 3, "bad.json: tasks wait for each other in a circle: a → b → a"),
    ],
)
def test_what_check_refuses(given, code, sentence, refused, tmp_path):
    tasks = [{"name": name, "kind": "k", "work": 1} for name in "ab"]
    edges = [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}]
    text = json.dumps({"schema": "msbgen-graph/1", "tasks": tasks, "edges": edges})
    (tmp_path / "bad.json").write_text(text)
    refused(code, sentence, "graph", "check", *given)


ASKED = ("graph", "simulate", "wavefront:4", "--device", "tx2", "--profiles", "kinds")


def test_runs_as_a_table_and_as_netcdf(msbgen, refused, kinds, tmp_path):
    columns = ",".join(TX2.columns)
    (tmp_path / "c.csv").write_text(f"{columns}\n2,2.0352,4,2.0352,16,4200\n1,0.96,0,0.96,8,1050\n")
    for name in ("r.csv", "r.nc"):
        done = msbgen(*ASKED, "--contexts", "c.csv", "--runs", 3, "-o", name)
        assert done.returncode == 0, done.stderr
        assert "6 runs on tx2" in done.stdout
        assert "fastest" in done.stdout
    table, netcdf = (read_graph_runs(tmp_path / name, TX2) for name in ("r.csv", "r.nc"))
    np.testing.assert_allclose(table["makespan"], netcdf["makespan"], rtol=1e-9)
    assert netcdf["family"].values[0] == "wavefront"
    assert np.all(netcdf["makespan"][3:] > netcdf["makespan"][:3].max())
    done = msbgen(*ASKED, "--contexts", "c.csv", "--no-noise", "--temperature", 45, "-o", "q.nc")
    quiet = read_graph_runs(tmp_path / "q.nc", TX2)
    assert quiet["start_temperature"].values.tolist() == [45, 45]
    refused(2, "exists already", *ASKED, "--contexts", "c.csv", "-o", "q.nc")
    again = msbgen(*ASKED, "--contexts", "c.csv", "--runs", 3, "-o", "s.nc")
    assert again.returncode == 0
    assert (tmp_path / "s.nc").read_bytes() == (tmp_path / "r.nc").read_bytes()


def test_all_contexts_have_a_core_and_heft_is_an_order(msbgen, kinds, tmp_path):
    done = msbgen(*ASKED, "--contexts", "grid:3x2x3x2x1x1", "--order", "heft", "-o", "r.nc")
    assert done.returncode == 0, done.stderr
    runs = read_graph_runs(tmp_path / "r.nc", TX2)
    assert runs.sizes["run"] == (3 * 3 - 1) * 4
    assert np.all(runs["cores_denver"] + runs["cores_a57"] > 0)


def test_clocks_beyond_the_profiles_are_told(msbgen, kinds, tmp_path):
    narrow = soc.toy_table().isel(frequency=slice(2, 4))
    write_phases(narrow, kinds / "bzip2.nc", overwrite=True)
    done = msbgen(*ASKED, "--contexts", "grid:2x2x1x2x1x1", "-o", "r.nc")
    assert "runs use clocks beyond those of the profiles" in done.stderr


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        ({"--device": "tx3"}, 2, "device is 'tx3'; one of orin-nx"),
        ({"--device": "none.toml"}, 3, "none.toml: no such file"),
        ({"--device": "bad.toml"}, 3, "bad.toml: 'nme' is no known key; did you mean 'name'?"),
        ({"--contexts": "bad.csv"}, 3, "bad.csv: clock_a57 is 3 in line 3, no level of tx2"),
        ({"--contexts": "idle.csv"}, 3, "idle.csv: line 2 has no core"),
        ({"--contexts": "grid:2x2"}, 2, "2"),
        ({"--profiles": "empty"}, 3, "runs 'bzip2', but there is no file"),
        ({"--profiles": "spoilt"}, 3, "have no 'bandwidth'"),
        ({"--temperature": "hot"}, 2, "'hot' is not a temperature"),
        ({"--runs": "0"}, 2, "'0' is not a whole number"),
        ({"--runs": "10000000000"}, 2, "take about"),
        ({"-o": "r.weird"}, 2, "r.weird: ends like no runs; .nc or .csv is wanted"),
    ],
)
def test_what_simulate_refuses(change, code, sentence, refused, kinds, tmp_path):
    for name in ("empty", "spoilt"):
        (tmp_path / name).mkdir()
    one = soc.toy_table().isel(bandwidth=0, drop=True)
    write_phases(one, tmp_path / "spoilt" / "bzip2.nc")
    (tmp_path / "bad.toml").write_text('nme = "x"\n')
    columns = ",".join(TX2.columns)
    (tmp_path / "bad.csv").write_text(f"{columns}\n\n2,2.0352,4,3,16,4200\n")
    (tmp_path / "idle.csv").write_text(f"{columns}\n0,2.0352,0,2.0352,16,4200\n")
    given = {"--device": "tx2", "--profiles": "kinds", "--contexts": "all", "-o": "r.nc", **change}
    words = [word for pair in given.items() for word in pair]
    refused(code, sentence, "graph", "simulate", "wavefront:3", *words)


def test_a_family_is_told_from_a_file(tmp_path):
    assert verb.graph_file(tmp_path / "lu:3") is None
    (tmp_path / "lu:3").touch()
    assert verb.graph_file(tmp_path / "lu:3") == tmp_path / "lu:3"
    assert verb.graph_file(tmp_path / "a:b.json") == tmp_path / "a:b.json"
