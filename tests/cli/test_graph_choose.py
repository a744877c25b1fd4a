"""``msbgen graph choose``: a model and a graph in, one context out, or what is within reach."""

import csv
from copy import copy

import numpy as np
import pytest

from msbgen.systems.graphs.devices import shipped_device
from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.predictor.forecaster import GraphForecaster
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.writers import write as write_graph
from toy_board import CYCLES, FEW, GRAPHS, profiles_of, runs_of

TX2 = shipped_device("tx2")
SOME = [name for name in GRAPHS if name.endswith("1") and len(name) == 8][:6]
ASKED = ("m.nc", "g.json", "--device", "tx2", "--contexts", "grid:2x2x2x2x2x2")
CHOOSE = ("graph", "choose", *ASKED, "--miscoverage", "0.2")


@pytest.fixture(scope="module")
def model():
    profiles = {kind: profiles_of(kind, runs=1) for kind in CYCLES}
    runs = runs_of(TX2, read_kinds(profiles), 120, names=tuple(SOME))
    predictor = GraphPredictor(boosting=FEW, folds=3)
    return predictor.fit([runs], devices=[TX2], graphs=GRAPHS, profiles=profiles).calibrate()


@pytest.fixture
def here(model, tmp_path):
    model.save(tmp_path / "m.nc")
    write_graph(GRAPHS[SOME[0]], tmp_path / "g.json")
    return tmp_path


def rows_of(text):
    return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(text.splitlines())]


def every(here, msbgen):
    """All contexts, and what a forecaster says of them."""
    done = msbgen("graph", "predict", *ASKED)
    table = np.array([[row[c] for c in TX2.columns] for row in rows_of(done.stdout)])
    forecaster = GraphForecaster(GraphPredictor.load(here / "m.nc"), TX2, 0.2)
    return table, forecaster.forecast(GRAPHS[SOME[0]], table, 40.0)


def test_the_choice_is_the_cheapest_that_keeps_the_limits(msbgen, here):
    table, message = every(here, msbgen)
    deadline, cap = np.median(message.time_bound), np.median(message.peak_bound)
    limits = ("--latency", f"{deadline:.9g}s", "--cap", f"{cap:.9g}", "--temperature", "40")
    done = msbgen(*CHOOSE, *limits)
    assert done.returncode == 0
    (row,) = rows_of(done.stdout)
    kept = (message.time_bound <= deadline * (1 + 1e-8)) & (message.peak_bound <= cap)
    best = int(np.where(kept, message.energy, np.inf).argmin())
    assert [row[c] for c in TX2.columns] == table[best].tolist()
    assert row["energy [J]"] == pytest.approx(message.energy[best], rel=1e-5)
    assert row["time at most [s]"] == pytest.approx(message.time_bound[best], rel=1e-5)
    assert row["temperature at most [degC]"] == pytest.approx(
        message.temperature_bound[best], rel=1e-5
    )
    beyond = GraphPredictor.load(here / "m.nc").extrapolated(GRAPHS[SOME[0]], TX2, table)
    assert row["extrapolated"] == beyond[best]
    assert ("outside of their profiles" in done.stderr) == beyond[best]
    by_time = msbgen(*CHOOSE, "--objective", "time", "--temperature", "40", "-o", "o.csv")
    assert by_time.stdout.startswith("o.csv: cores_denver=")
    (row,) = rows_of((here / "o.csv").read_text())
    assert row["time [s]"] == pytest.approx(message.time.min(), rel=1e-5)
    (cost,) = rows_of(msbgen(*CHOOSE, "--objective", "cost", "--temperature", "60").stdout)
    assert cost["temperature at most [degC]"] < 60


def test_what_is_out_of_reach_is_said_with_what_is_not(msbgen, refused, here):
    table, message = every(here, msbgen)
    cores = table[message.time_bound.argmin(), 0]
    fastest = f"s or more is wanted, the lowest bound (cores_denver={cores:g}, "
    refused(6, fastest, *CHOOSE, "--latency", "1us", "--temperature", "40")
    refused(6, "the lowest bound (cores_denver=", *CHOOSE, "--power", "0.5")
    refused(6, "which no context keeps", *CHOOSE, "--cap", "20")
    refused(3, "--miscoverage: miscoverage is 0.01; at least 99 runs", *CHOOSE[:-1], "0.01")
    other = ("graph", "choose", "m.nc", "g.json", "--contexts", "grid:2x2x1x1")
    refused(3, "no run is of the device 'orin-nx'", *other, "--device", "orin-nx")


def test_a_rate_that_nobody_gave_is_one_that_the_model_supports(msbgen, here, model):
    limit = ("--latency", "100s", "--temperature", "40")
    done = msbgen("graph", "choose", *ASKED, *limit)  # six families support 1 in 7
    given = msbgen("graph", "choose", *ASKED, *limit, "--miscoverage", "0.1429")
    assert (done.returncode, done.stdout) == (0, given.stdout)
    assert "has 6 families, so that bounds are at a miscoverage of 0.1429" in done.stderr


def test_a_schedule_alone_chooses_by_its_predictions(msbgen, refused, here, model):
    schedule = copy(model)
    schedule.residual, schedule.residual_, schedule.calibration_ = False, [], []
    schedule.save(here / "m.nc", overwrite=True)
    done = msbgen("graph", "choose", *ASKED, "--objective", "time", "--temperature", "40")
    assert (done.returncode, "has no intervals" in done.stderr) == (0, True)
    (row,) = rows_of(done.stdout)
    table = rows_of(msbgen("graph", "predict", *ASKED, "--temperature", "40").stdout)
    assert row["time [s]"] == row["time at most [s]"] == min(one["time [s]"] for one in table)
    refused(3, "--miscoverage: the model is a schedule alone", *CHOOSE)
