from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from forged import forge
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.systems.graphs.devices import device_contexts
from msbgen.systems.graphs.predictor.network import NetworkSettings
from msbgen.systems.graphs.predictor.network_predictor import NetworkPredictor, load_predictor
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.predictor.training import NetworkTraining
from needing import needs_torch
from toy_board import GRAPHS, device_of, runs_of

pytestmark = needs_torch
SMALL = NetworkSettings(width=16, layers=1, heads=2)
BRIEF = NetworkTraining(epochs=15, evidential_epochs=2, rate=1e-2)


@pytest.fixture(scope="module")
def fitted(device, kinds, profiles):
    predictor = NetworkPredictor(network=SMALL, training=BRIEF, runs=120)
    runs = [runs_of(device, kinds, 150)]
    return predictor.fit(runs, devices=[device], graphs=GRAPHS, profiles=profiles)


def test_predictions_follow_the_runs_and_intervals_contain_them(fitted, device, kinds):
    runs = runs_of(device, kinds, 20, seed=5)
    contexts = np.column_stack([runs[column].values for column in device.columns])
    errors = []
    for i in range(20):
        graph = GRAPHS[str(runs["graph"].values[i])]
        start = float(runs["start_temperature"].values[i])
        predicted = fitted.predict(graph, device, contexts[[i]], temperature=start)
        low, high = fitted.predict_interval(graph, device, contexts[[i]], temperature=start)
        assert np.all((low < predicted) & (predicted < high))
        errors.append(np.log(predicted[0, 0] / float(runs["makespan"].values[i])))
    spread = np.log(runs["makespan"].values).std()
    assert np.sqrt(np.mean(np.square(errors))) < 0.6 * spread


def test_predictions_that_are_not_finite_are_refused(fitted, device):
    edited = copy(fitted)
    edited.network_ = replace(fitted.network_, tau=np.array([np.inf, 1.0]))
    requested = GRAPHS["family01"], device, [device.largest]
    with pytest.raises(MeasurementError, match="the upper end of time or energy of row 0"):
        edited.predict_interval(*requested)
    scaling = fitted.network_.scaling
    huge = replace(scaling, shift={**scaling.shift, "output": np.full(2, np.nan)})
    edited.network_ = replace(fitted.network_, scaling=huge)
    with pytest.raises(MeasurementError, match="time or energy of row 0 is predicted as nan"):
        edited.predict(*requested)


def test_a_network_survives_a_file(fitted, device, tmp_path):
    fitted.save(tmp_path / "network.nc")
    again = NetworkPredictor.load(tmp_path / "network.nc")
    assert isinstance(load_predictor(tmp_path / "network.nc"), NetworkPredictor)
    contexts, graph = device_contexts(device)[::9], GRAPHS["family01"]
    assert np.array_equal(
        again.predict(graph, device, contexts), fitted.predict(graph, device, contexts)
    )
    for one, other in zip(
        again.predict_interval(graph, device, contexts),
        fitted.predict_interval(graph, device, contexts),
    ):
        assert np.array_equal(one, other)
    assert again.devices_ == fitted.devices_
    with pytest.raises(ProfileError, match="schema"):
        GraphPredictor.load(tmp_path / "network.nc")


FORGED = [
    ("width", 2**40, "shape"),
    ("layers", 2**40, r"layers' is 1099511627776; parameters of each is wanted"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), FORGED)
def test_a_forged_network_takes_no_memory(fitted, tmp_path, name, value, sentence):
    fitted.save(tmp_path / "network.nc")
    forge(
        tmp_path / "network.nc",
        lambda _, labels: labels["network_"]["settings"].update({name: value}),
    )
    with pytest.raises(ProfileError, match=sentence):
        NetworkPredictor.load(tmp_path / "network.nc")


def test_what_a_network_cannot_do_is_refused(fitted, device, kinds, profiles):
    with pytest.raises(ArgumentError, match=r"miscoverage is 0.1; 0.05 is wanted"):
        fitted.predict_interval(GRAPHS["family01"], device, [device.largest], 0.1)
    bare = NetworkPredictor(runs=2)
    with pytest.raises(ArgumentError, match="not fitted"):
        bare.predict(GRAPHS["family01"], device, [device.largest])
    given = {"devices": [device], "graphs": GRAPHS, "profiles": profiles}
    with pytest.raises(ArgumentError, match="runs is 1"):
        NetworkPredictor(runs=1)
    with pytest.raises(ProfileError, match="whose sheet is not among toy"):
        NetworkPredictor().fit([runs_of(device_of("other"), kinds, 20)], **given)
