"""``msbgen graph fit`` and ``predict``: files in, a model and a table out, or a sentence."""

import contextlib
import csv
import io
import shutil
from contextlib import redirect_stdout

import numpy as np
import pytest

from forks import anew
from msbgen.cli.main import main
from msbgen.data.shipped import shipped_file
from msbgen.data.store import write_profiles
from msbgen.systems.graphs.devices import shipped_device
from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.runs import read_runs as read_graph_runs
from msbgen.systems.graphs.runs import write_runs as write_graph_runs
from msbgen.systems.graphs.writers import write as write_graph
from toy_board import CYCLES, GRAPHS, profiles_of, runs_of

TX2 = shipped_device("tx2")
SOME = [name for name in GRAPHS if name.endswith("1") and len(name) == 8][:6]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs on a TX2, their graphs, the profiles of their kinds, and a model of both."""
    path = tmp_path_factory.mktemp("graphs")
    for part in ("graphs", "profiles"):
        (path / part).mkdir()
    profiles = {kind: profiles_of(kind, runs=1) for kind in CYCLES}
    for kind, dataset in profiles.items():
        write_profiles(dataset, path / "profiles" / f"{kind}.nc")
    for name in SOME:
        write_graph(GRAPHS[name], path / "graphs" / f"{name}.json")
    runs = runs_of(TX2, read_kinds(profiles), 120, names=tuple(SOME))
    write_graph_runs(runs, path / "runs.csv")
    write_graph_runs(runs, path / "runs.nc")
    return path


FIT = ("--graphs", "graphs", "--profiles", "profiles", "--device", "tx2")


@pytest.fixture(scope="module")
def fitted(folder):
    """The model of these runs, m.nc in the folder, and what the command printed."""
    with contextlib.chdir(folder), redirect_stdout(io.StringIO()) as out:
        assert main(["graph", "fit", "runs.csv", *FIT, "-o", "m.nc", "--folds", "3"]) == 0
    return out.getvalue()


@pytest.fixture
def here(folder, tmp_path):
    """A copy of it, where the command works."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_model_answers_in_every_context(msbgen, fitted, here):
    assert fitted == (
        "m.nc: 120 runs on tx2; intervals at a miscoverage of 0.1429 or more, from 6 families\n"
    )
    graph = f"graphs/{SOME[0]}.json"
    requested = ("m.nc", graph, "--device", "tx2", "--contexts", "grid:2x2x2x2x2x2")
    done = msbgen("graph", "predict", *requested, "--miscoverage", "0.2")
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert len(rows) == 48  # of 64 those with a core
    predictor = GraphPredictor.load(here / "m.nc")
    contexts = [[float(row[c]) for c in TX2.columns] for row in rows]
    message = predictor.predict(GRAPHS[SOME[0]], TX2, contexts)
    for k, output in enumerate(("time", "energy")):
        unit = "[s]" if output == "time" else "[J]"
        reported, low, high = (
            np.array([float(row[f"{output}{end} {unit}"]) for row in rows])
            for end in ("", " low", " high")
        )
        assert reported == pytest.approx(message[:, k], rel=1e-5)
        assert np.all((low < reported) & (reported < high))
    assert {row["extrapolated"] for row in rows} <= {"0", "1"}
    done = msbgen("graph", "predict", *requested, "-o", "out.csv", "--temperature", "45")
    assert done.stdout == "out.csv: 48 contexts of tx2\n"
    assert len((here / "out.csv").read_text().splitlines()) == 49


def test_what_cannot_be_bounded_or_found_is_said(msbgen, refused, here):
    lone = ("graph", "fit", "runs.nc", *FIT, "-o", "s.nc", "--schedule-only")
    refused(2, "--folds has no effect with --schedule-only", *lone, "--folds", 5)
    done = msbgen(*lone)
    assert done.stdout == "s.nc: 120 runs on tx2; no intervals\n"
    graph = f"graphs/{SOME[0]}.json"
    requested = ("graph", "predict", "s.nc", graph, "--contexts", "grid:2x2x2x2x2x2")
    refused(3, "(without --schedule-only)", *requested, "--device", "tx2", "--miscoverage", "0.1")
    other = (*requested[:4], "--contexts", "grid:2x2x1x1", "--device", "orin-nx")
    refused(3, "no run is of the device 'orin-nx'", *other, "--miscoverage", "0.1")
    done = msbgen(*other)
    assert done.returncode == 0
    assert done.stderr == (
        "msbgen: warning: no run is of orin-nx: the prediction relies on its data sheet.\n"
    )
    (here / "few").mkdir()
    fit = ("graph", "fit", "runs.nc", "--profiles", "profiles", "-o", "x.nc")
    refused(3, "few: has no graph", *fit, "--graphs", "few", "--device", "tx2")
    refused(3, "nodir: no such folder", *fit, "--graphs", "nodir", "--device", "tx2")
    sheets = ("--device", "tx2", "--device", "tx2")
    refused(2, "1 files of runs and 2 --device", *fit, "--graphs", "graphs", *sheets)
    named = ("graph", "fit", "runs.nc", *FIT, "-o", "model.txt")
    refused(2, "model.txt: is not a model file; end the name with .nc", *named)
    refused(3, "runs are of the device 'tx2'", *fit, "--graphs", "graphs", "--device", "rubik-pi")
    refused(3, "6 families for 9 folds", *fit, "--graphs", "graphs", *sheets[:2], "--folds", "9")
    refused(2, "is not a whole number", *fit, "--graphs", "graphs", *sheets[:2], "--folds", "1")


def test_parts_of_a_device_are_joined_and_their_order_is_learned_with(here, msbgen, refused):
    runs = read_graph_runs(here / "runs.nc", TX2)
    for name, order in (("a.csv", "heft"), ("b.nc", "heft"), ("c.csv", "arrival")):
        part = runs.isel(run=slice(0, 30)).assign_attrs(order=order)
        write_graph_runs(part, here / name)
    fit = (*FIT, "--schedule-only", "-o", "p.nc")
    done = msbgen("graph", "fit", "a.csv", "b.nc", *fit)
    assert done.stdout == "p.nc: 60 runs on tx2; no intervals\n"
    assert GraphPredictor.load(here / "p.nc").order == "heft"
    each = ("--device", "tx2", "--force")
    assert msbgen("graph", "fit", "a.csv", "b.nc", *fit, *each).returncode == 0
    refused(3, "in the orders arrival and heft", "graph", "fit", "a.csv", "c.csv", *fit, "--force")
    requested = ("graph", "fit", "c.csv", *fit, "--force", "--order", "heft")
    refused(3, "started in the order arrival, and the predictor's is heft", *requested)


@pytest.mark.usefixtures("fitted")
def test_a_sheet_that_is_not_the_fitted_one_is_named(here, refused):
    text = shipped_file("devices/tx2.toml").read_text()
    (here / "mine.toml").write_text(text.replace("base_power = 5.6", "base_power = 4.6"))
    requested = ("m.nc", f"graphs/{SOME[0]}.json", "--device", "mine.toml", "--contexts", "all")
    refused(
        3,
        "mine.toml: the sheet of 'tx2' differs from the fitted one",
        "graph",
        "predict",
        *requested,
    )


@pytest.mark.usefixtures("fitted")
def test_predict_needs_no_torch(here):
    requested = ["graph", "predict", "m.nc", f"graphs/{SOME[0]}.json", "--device", "tx2"]
    requested += ["--contexts", "grid:2x2x2x2x2x2", "--miscoverage", "0.2"]
    code = f"import os\nfrom msbgen.cli.main import main\nos.chdir({str(here)!r})\n"
    lines = anew(f"{code}print(main({requested}))", missing=("torch",))
    assert lines[0].startswith("cores_denver,")
    assert lines[-1] == "0"


def test_the_papers_network_is_a_choice_of_model(msbgen, refused, here):
    pytest.importorskip("torch")
    lines = (here / "runs.csv").read_text().splitlines()
    (here / "few.csv").write_text("\n".join(lines[:15]) + "\n")
    done = msbgen("graph", "fit", "few.csv", *FIT, "-o", "n.nc", "--model", "network")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a network trained on runs on tx2; intervals at a miscoverage of 0.05" in done.stdout
    requested = (
        "n.nc",
        f"graphs/{SOME[0]}.json",
        "--device",
        "tx2",
        "--contexts",
        "grid:2x2x2x2x1x1",
    )
    done = msbgen("graph", "predict", *requested, "--miscoverage", "0.05")
    assert (done.returncode, done.stderr) == (0, "")
    for row in csv.DictReader(done.stdout.splitlines()):
        assert float(row["time low [s]"]) < float(row["time [s]"]) < float(row["time high [s]"])
    refused(3, "0.05 is wanted", "graph", "predict", *requested, "--miscoverage", "0.1")
    fit = ("graph", "fit", "few.csv", *FIT, "-o", "o.nc", "--model", "network")
    for given in (["--schedule-only"], ["--order", "arrival"], ["--folds", 3]):
        refused(2, f"{given[0]} is for --model schedule; drop it.", *fit, *given)
