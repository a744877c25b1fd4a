"""Saved predictors."""

import numpy as np
import pytest
import xarray as xr

from machines import QUICK, made_runs
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.machines.predictor import RelativePredictor
from msbgen.machines.storage import load_relative, save_relative

NEW = made_runs(5, seed=9)


@pytest.mark.parametrize(
    "variant",
    [{}, {"parts": "trees"}, {"parts": "boosting"}, {"parts": "kriging"}, {"source_time": False}],
)
@pytest.mark.parametrize("per_machine", [False, True])
def test_a_saved_predictor_answers_alike_to_the_bit(tmp_path, variant, per_machine):
    runs = made_runs(10, per_machine=per_machine)
    new = made_runs(5, seed=9, per_machine=per_machine)
    predictor = RelativePredictor(**QUICK, **variant).fit(runs).calibrate(runs, folds=2)
    save_relative(predictor, tmp_path / "m.nc")
    again = load_relative(tmp_path / "m.nc")
    assert again.get_params() == predictor.get_params()
    for source in ("old", ["odd", "new"]):
        np.testing.assert_array_equal(again.predict(new, source), predictor.predict(new, source))
        for got, want in zip(
            again.predict_interval(new, source, 0.3), predictor.predict_interval(new, source, 0.3)
        ):
            np.testing.assert_array_equal(got, want)


@pytest.fixture
def saved(tmp_path):
    save_relative(RelativePredictor(**QUICK).fit(made_runs(8)), tmp_path / "m.nc")
    return tmp_path / "m.nc"


def test_without_calibration_there_are_predictions_only(saved):
    predictor = load_relative(saved)
    assert predictor.predict(NEW, "old").shape == (10, 3)
    with pytest.raises(ArgumentError, match="not calibrated"):
        predictor.predict_interval(NEW, "old")


def change(path, edit):
    with xr.open_dataset(path) as opened:
        dataset = opened.load()
    edit(dataset).to_netcdf(path)


CHANGES = {
    "'schema' is 'other/1'": lambda d: d.assign_attrs(schema="other/1"),
    "was changed since it was saved": lambda d: d.assign(covariance=2 * d["covariance"]),
}


@pytest.mark.parametrize("sentence", CHANGES)
def test_what_is_no_model_is_refused(saved, sentence):
    change(saved, CHANGES[sentence])
    with pytest.raises(ProfileError, match=sentence):
        load_relative(saved)


def test_trees_that_lead_back_are_refused_whoever_signed_them(saved):
    from msbgen.core.arrays import digest

    def edit(dataset):
        dataset["trees_left"][3] = 0
        arrays = {str(n): v.values for n, v in dataset.data_vars.items()}
        return dataset.assign_attrs(digest=digest(arrays, dataset.attrs["labels"]))

    change(saved, edit)
    with pytest.raises(ProfileError, match="leads back"):
        load_relative(saved)


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ArgumentError, match="not fitted"):
        save_relative(RelativePredictor(), tmp_path / "m.nc")
