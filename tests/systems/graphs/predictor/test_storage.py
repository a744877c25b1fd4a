from copy import deepcopy

import numpy as np
import pytest

from forged import forge
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.graphs.devices import device_contexts
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from toy_board import GRAPHS, device_of, runs_of


def test_a_predictor_survives_a_file(fitted, two, tmp_path, kinds):
    fitted = deepcopy(fitted)
    fitted.save(tmp_path / "model.nc")
    again = GraphPredictor.load(tmp_path / "model.nc")
    assert again.get_params() == fitted.get_params()
    new = device_of("new", base_power=3.0)
    for device in (*two, new):
        requested = GRAPHS["family31"], device, device_contexts(device)[::7]
        assert np.array_equal(again.predict(*requested), fitted.predict(*requested))
        assert np.array_equal(again.extrapolated(*requested), fitted.extrapolated(*requested))
    requested = GRAPHS["family31"], two[1], device_contexts(two[1])[::7]
    for one, other in zip(again.predict_interval(*requested), fitted.predict_interval(*requested)):
        assert np.array_equal(one, other)
    some = runs_of(new, kinds, 20)
    for predictor in (fitted, again):
        predictor.adapt(some, device=new, graphs=GRAPHS)
    requested = GRAPHS["family31"], new, [new.largest]
    assert np.array_equal(again.predict(*requested), fitted.predict(*requested))
    again.save(tmp_path / "adapted.nc")
    adapted = GraphPredictor.load(tmp_path / "adapted.nc")
    for one, other in zip(
        adapted.predict_interval(*requested), fitted.predict_interval(*requested)
    ):
        assert np.array_equal(one, other)


def test_one_without_residual_survives_too(tmp_path, kinds, profiles, device):
    plain = GraphPredictor(residual=False)
    plain.fit([runs_of(device, kinds, 40)], devices=[device], graphs=GRAPHS, profiles=profiles)
    plain.save(tmp_path / "plain.nc")
    again = GraphPredictor.load(tmp_path / "plain.nc")
    requested = GRAPHS["family31"], device, [device.largest]
    assert np.array_equal(again.predict(*requested), plain.predict(*requested))
    with pytest.raises(ArgumentError, match="schedule alone"):
        again.predict_interval(*requested)


def test_what_is_not_fitted_and_what_exists_is_not_written(fitted, tmp_path):
    with pytest.raises(ArgumentError, match="not fitted"):
        GraphPredictor().save(tmp_path / "model.nc")
    fitted.save(tmp_path / "model.nc")
    with pytest.raises(FileExistsError):
        fitted.save(tmp_path / "model.nc")


CLOCK, WEIGHT, FAMILY = "kinds_.0.levels.2", "residual_.0.weight", "calibration_.0.family"


def device_label(labels):
    return next(iter(labels["devices_"].values()))["board"]["device"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d, s: s.pop("devices_") and None, "'devices_' is missing"),
        (lambda d, s: device_label(s).update(cap=-300.0), r"'devices_\.0\.board\.device': .*cap"),
        (lambda d, s: s["boosting"].update(rounds=0), "'boosting'"),
        (lambda d, s: d.assign({CLOCK: -d[CLOCK]}), f"'{CLOCK}' holds -0.5"),
        (lambda d, s: d.assign({CLOCK: d[CLOCK][::-1]}), f"'{CLOCK}' is another"),
        (lambda d, s: d.assign({WEIGHT: d[WEIGHT] + 5}), "weight' holds"),
        (lambda d, s: d.assign({FAMILY: d[FAMILY] + 99}), "family' is .* one of the families"),
        (lambda d, s: s["residual_"][0]["boosting"]["nodes"].update(n_features=999), "features"),
    ],
)
def test_a_spoilt_file_is_refused_in_a_sentence(fitted, tmp_path, change, sentence):
    path = tmp_path / "model.nc"
    fitted.save(path)
    forge(path, change)
    with pytest.raises(ProfileError, match=sentence):
        GraphPredictor.load(path)
