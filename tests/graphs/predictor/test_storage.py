from copy import deepcopy

import numpy as np
import pytest
import xarray as xr

from forged import FORGED_TREES, changed, forge
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.graphs.devices import device_contexts
from msbgen.graphs.predictor.predictor import GraphPredictor
from msbgen.graphs.predictor.storage import load, save
from toy_board import GRAPHS, device_of, runs_of


def test_a_predictor_survives_a_file(fitted, two, tmp_path, kinds):
    fitted = deepcopy(fitted)
    save(fitted, tmp_path / "model.nc")
    again = load(tmp_path / "model.nc")
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
    save(again, tmp_path / "adapted.nc")
    adapted = load(tmp_path / "adapted.nc")
    for one, other in zip(
        adapted.predict_interval(*requested), fitted.predict_interval(*requested)
    ):
        assert np.array_equal(one, other)


def test_equal_predictors_give_equal_bytes(fitted, tmp_path):
    for name in ("a.nc", "b.nc"):
        save(fitted, tmp_path / name)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_one_without_residual_survives_too(tmp_path, kinds, profiles, device):
    plain = GraphPredictor(residual=False)
    plain.fit([runs_of(device, kinds, 40)], devices=[device], graphs=GRAPHS, profiles=profiles)
    save(plain, tmp_path / "plain.nc")
    again = load(tmp_path / "plain.nc")
    requested = GRAPHS["family31"], device, [device.largest]
    assert np.array_equal(again.predict(*requested), plain.predict(*requested))
    with pytest.raises(ArgumentError, match="schedule alone"):
        again.predict_interval(*requested)


def test_what_is_not_fitted_and_what_exists_is_not_written(fitted, tmp_path):
    with pytest.raises(ArgumentError, match="not fitted"):
        save(GraphPredictor(), tmp_path / "model.nc")
    save(fitted, tmp_path / "model.nc")
    with pytest.raises(FileExistsError):
        save(fitted, tmp_path / "model.nc")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d, s: d.drop_vars("kind0_seconds"), "'kind0_seconds' is missing"),
        (lambda d, s: s.pop("devices") and None, "attribute 'labels'"),
        (lambda d, s: s["devices"][0].update(cap=-300.0), "'devices': .*cap"),
        (lambda d, s: s["parameters"]["boosting"].update(rounds=0), "'boosting'"),
        (lambda d, s: d.assign(kind0_clock=-d["kind0_clock"]), "'kind0_clock' holds -0.5"),
        (lambda d, s: d.assign(kind0_clock=d["kind0_clock"][::-1]), "'kind0_clock' is another"),
        (lambda d, s: d.assign(residual_weight=d["residual_weight"] + 5), "weight' holds"),
        (lambda d, s: d.assign(calibration_family=d["calibration_family"] + 99), "calibration_fam"),
        (lambda d, s: d.isel(device0_factors_0=slice(2)), "shape of variable 'device0_factors'"),
    ],
)
def test_a_spoilt_file_is_refused_in_a_sentence(fitted, tmp_path, change, sentence):
    path = tmp_path / "model.nc"
    save(fitted, path)
    forge(path, change)
    with pytest.raises(ProfileError, match=sentence):
        load(path)


@pytest.mark.parametrize("trees", ["residual_boosting_", "width_boosting_"])
def test_forged_trees_are_refused(fitted, tmp_path, trees):
    save(fitted, tmp_path / "model.nc")
    good = (tmp_path / "model.nc").read_bytes()
    for name, (value, sentence) in FORGED_TREES.items():
        (tmp_path / "model.nc").write_bytes(good)
        forge(tmp_path / "model.nc", changed(f"{trees}{name}", value))
        with pytest.raises(ProfileError, match=f"{trees}{name}' {sentence}"):
            load(tmp_path / "model.nc")


def test_another_file_and_one_changed_since_are_refused(fitted, tmp_path):
    path = tmp_path / "model.nc"
    save_netcdf(xr.Dataset(attrs={"schema": "other/1"}), path)
    with pytest.raises(ProfileError, match="a model of graphs of this version"):
        load(path)
    save(fitted, path, overwrite=True)
    dataset = load_netcdf(path)
    save_netcdf(
        dataset.assign(device0_factors=dataset["device0_factors"] + 1), path, overwrite=True
    )
    with pytest.raises(ProfileError, match="was changed since it was saved"):
        load(path)
