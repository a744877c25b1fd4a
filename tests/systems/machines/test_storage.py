"""Saved predictors."""

import shutil
import warnings

import numpy as np
import pytest

from forged import FORGED_TREES, changed, forge
from machines import QUICK, made_runs
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.systems.machines.predictor import RelativePredictor


@pytest.mark.parametrize(
    ("variant", "per_machine"),
    [
        ({}, True),
        ({"parts": "trees"}, True),
        ({"parts": "kriging"}, False),
    ],
)
def test_a_saved_predictor_predicts_alike_to_the_bit(tmp_path, variant, per_machine):
    runs = made_runs(10, per_machine=per_machine)
    new = made_runs(5, seed=9, per_machine=per_machine)
    predictor = RelativePredictor(**QUICK, **variant).fit(runs).calibrate(runs, folds=2)
    predictor.save(tmp_path / "m.nc")
    again = RelativePredictor.load(tmp_path / "m.nc")
    assert again.get_params() == predictor.get_params()
    for source in ("old", ["odd", "new"]):
        np.testing.assert_array_equal(again.predict(new, source), predictor.predict(new, source))
        for got, want in zip(
            again.predict_interval(new, source, 0.3), predictor.predict_interval(new, source, 0.3)
        ):
            np.testing.assert_array_equal(got, want)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.nc"
    RelativePredictor(**QUICK).fit(made_runs(8)).save(path)
    return path


@pytest.fixture
def saved(model, tmp_path):
    return shutil.copy(model, tmp_path / "m.nc")


def fewer_columns(labels, part):
    trees = labels["trees_"] if part == "trees" else labels["boosting_"][0]
    trees["nodes"]["n_features"] = 1


@pytest.mark.parametrize(
    ("part", "trees"), [("trees", "trees_.nodes."), ("boosting", "boosting_.0.nodes.")]
)
def test_forged_trees_are_refused(tmp_path, part, trees):
    saved = tmp_path / "m.nc"
    RelativePredictor(**QUICK, parts=part).fit(made_runs(8)).save(saved)
    for name, (value, sentence) in FORGED_TREES.items():
        copy = shutil.copy(saved, tmp_path / "copy.nc")
        forge(copy, changed(f"{trees}{name}", value))
        with pytest.raises(ProfileError, match=rf"{trees}{name}' {sentence}"):
            RelativePredictor.load(copy)
    forge(saved, lambda _, labels: fewer_columns(labels, part))
    with pytest.raises(ProfileError, match=r"nodes\.feature' is \d+; less than 1 is wanted"):
        RelativePredictor.load(saved)
    RelativePredictor(**QUICK, parts=part).fit(made_runs(8)).save(saved, overwrite=True)
    forge(saved, changed(f"{trees}left", 0, at=3))
    with pytest.raises(ProfileError, match="leads back"):
        RelativePredictor.load(saved)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda _, labels: labels["machines_"].pop(), "shape of variable 'trees_.value'"),
        (lambda _, labels: labels["features_"].update(work="odd"), "work' is 'odd'"),
        (lambda _, labels: labels["kriging_"][0].update(fields=[]), "every machine once"),
        (lambda _, labels: labels.update(parts="none"), "'parts' is 'none'"),
        (
            lambda ds, _: ds.assign(covariance_=0 * ds["covariance_"] + 1),
            "'covariance_' is another matr",
        ),
        (changed("kriging_.0.fields.0.outputs", 9), r"'kriging_' is of outputs .*9\]"),
        (changed("kriging_.0.fields.0.training.configuration", 99), "configuration' holds 99"),
    ],
)
def test_forged_models_are_refused(saved, change, sentence):
    forge(saved, change)
    with pytest.raises(ProfileError, match=f"^m.nc: .*{sentence}"):
        RelativePredictor.load(saved)


@pytest.mark.parametrize("name", ["kriging_.0.fields.0.weights", "kriging_.0.fields.0.middle"])
def test_a_prediction_that_overflows_is_an_error_without_warnings(saved, name):
    forge(saved, lambda dataset, _: dataset.assign({name: 0 * dataset[name] + 1e99}))
    predictor = RelativePredictor.load(saved)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(MeasurementError, match=r"as (-?inf|nan)"),
    ):
        predictor.predict(made_runs(5, seed=9), "old")


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ArgumentError, match="not fitted"):
        RelativePredictor().save(tmp_path / "m.nc")
