"""Predictors in files: equal answers after loading, and refusals of forged files."""

import shutil
from copy import copy

import numpy as np
import pytest

from forged import changed, forge
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.towers import TowerSettings

WORKLOADS, PLATFORMS = ("sort", "hash", "fft", "söka"), ("pi", "xeon", "m1")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    runs = np.array([(i, j, k) for i in range(4) for j in range(3) for k in (-1, 0, 1)] * 2)
    runtime = np.exp(rng.normal(size=len(runs)))
    features = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    towers = TowerSettings(rank=3, hidden=4, steps=5, quantiles=(0.9,))
    model = RuntimePredictor(*features, members=2, towers=towers).fit(runs, runtime)
    model.names_ = WORKLOADS, PLATFORMS
    return model.calibrate(runs, runtime)


@pytest.fixture(scope="module")
def stored(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.nc"
    model.save(path)
    return path


@pytest.fixture
def saved(stored, tmp_path):
    """A copy of the model file that a test may change."""
    return shutil.copy(stored, tmp_path / "model.nc")


def test_what_is_read_back_answers_the_same(model, saved):
    again = RuntimePredictor.load(saved)
    assert again.names_ == (WORKLOADS, PLATFORMS)
    runs = np.array([(0, 0, -1), (3, 2, 1), (2, 1, 0)])
    np.testing.assert_array_equal(again.predict(runs), model.predict(runs))
    np.testing.assert_array_equal(again.predict_bound(runs, 0.2), model.predict_bound(runs, 0.2))
    np.testing.assert_array_equal(again.extrapolates(runs), model.extrapolates(runs))
    for name, value in model.get_params().items():
        np.testing.assert_array_equal(again.get_params()[name], value)


def test_nothing_is_overwritten_and_only_what_is_fitted_is_saved(model, saved, tmp_path):
    with pytest.raises(FileExistsError):
        model.save(saved)
    with pytest.raises(ArgumentError, match="not fitted"):
        RuntimePredictor().save(tmp_path / "other.nc")


def test_names_are_optional(model, tmp_path):
    model = copy(model)
    model.names_ = None
    model.save(tmp_path / "m.nc")
    assert RuntimePredictor.load(tmp_path / "m.nc").names_ is None


def fitted(**changes):
    return lambda _, labels: labels.update(changes)


def some(name, axis, stop):
    return lambda ds, _: ds.isel({f"{name}_{axis}": slice(stop)})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda _, labels: labels["pools_"].update(x={}), r"'x'\]; a whole number"),
        (lambda _, labels: labels.pop("preset"), "'preset' is missing"),
        (fitted(most_neighbours_=-1), "'most_neighbours_' is -1"),
        (fitted(names_=[["a", "b", "c"], ["pi", "m1", "xeon"]]), "'names_' is 3, or a name twice"),
        (fitted(names_=[list(WORKLOADS), ["pi", "m1", "pi"]]), "'names_' is 3, or a name twice"),
        (fitted(preset="quick"), "'preset' is 'quick'"),
        (some("members_.workload", 0, 1), "'members_.platform' is"),
        (some("members_.platform", 1, 4), r"1 \+ 2 types"),
        (changed("pools_.0.unit", 3), "an array that counts from 0"),
        (fitted(range_=[300.0, 1.0]), "'range_' is .*an ascending one"),
        (changed("pools_.0.width", -1.0), "'pools_.0.width' holds -1"),
    ],
)
def test_a_forged_model_is_refused(saved, change, sentence):
    forge(saved, change)
    with pytest.raises(ProfileError, match=f"^model.nc: .*{sentence}"):
        RuntimePredictor.load(saved)
