"""Predictors in files: equal answers after loading, and refusals of forged files."""

import shutil

import numpy as np
import pytest

from forged import changed, forge
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.storage import load, save
from msbgen.systems.runtimes.towers import TowerSettings

WORKLOADS, PLATFORMS = ["sort", "hash", "fft", "söka"], ["pi", "xeon", "m1"]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    runs = np.array([(i, j, k) for i in range(4) for j in range(3) for k in (-1, 0, 1)] * 2)
    runtime = np.exp(rng.normal(size=len(runs)))
    features = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    towers = TowerSettings(rank=3, hidden=4, steps=5, quantiles=(0.9,))
    model = RuntimePredictor(*features, members=2, towers=towers).fit(runs, runtime)
    return model.calibrate(runs, runtime)


@pytest.fixture(scope="module")
def stored(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.nc"
    save(model, path, workloads=WORKLOADS, platforms=PLATFORMS)
    return path


@pytest.fixture
def saved(stored, tmp_path):
    """A copy of the model file that a test may change."""
    return shutil.copy(stored, tmp_path / "model.nc")


def test_what_is_read_back_answers_the_same(model, saved):
    again, workloads, platforms = load(saved)
    assert (workloads, platforms) == (WORKLOADS, PLATFORMS)
    runs = np.array([(0, 0, -1), (3, 2, 1), (2, 1, 0)])
    np.testing.assert_array_equal(again.predict(runs), model.predict(runs))
    np.testing.assert_array_equal(again.predict_bound(runs, 0.2), model.predict_bound(runs, 0.2))
    np.testing.assert_array_equal(again.extrapolates(runs), model.extrapolates(runs))
    for name, value in model.get_params().items():
        np.testing.assert_array_equal(again.get_params()[name], value)


def test_nothing_is_overwritten_and_names_must_fit(model, saved):
    with pytest.raises(FileExistsError):
        save(model, saved, workloads=WORKLOADS, platforms=PLATFORMS)
    with pytest.raises(ArgumentError, match="3 workloads and 3 platforms are named; 4 and 3"):
        save(model, saved, workloads=WORKLOADS[1:], platforms=PLATFORMS)


def labelled(**changes):
    return lambda _, labels: labels.update(changes)


def parameters(**changes):
    return lambda _, labels: labels["parameters"].update(changes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (labelled(pools=[7]), "'pool7_log_runtime' is missing"),
        (labelled(parameters={}), "of 'parameters' is missing"),
        (labelled(pools=[0, 0]), "'pools' is .*each number once"),
        (labelled(degree=-1), "'labels' is not that of a model .*whole number"),
        (labelled(workloads=["a", "b", "c"]), "shape of variable 'length'"),
        (labelled(platforms=["pi", "m1", "pi"]), "a name stands there twice"),
        (labelled(features=["cell_counts_"]), "'features' is"),
        (parameters(preset="quick"), "'preset' is quick"),
        (lambda ds, _: ds.isel(workload_embedding_0=slice(1)), "'platform_embedding' is"),
        (lambda ds, _: ds.isel(platform_embedding_1=slice(4)), "1 \\+ 2 types"),
        (changed("pool0_unit", 3), "an array that counts from 0"),
        (changed("range", 300.0), "'range' is .*an ascending one"),
        (changed("pool0_width", -1.0), "'pool0_width' holds -1"),
    ],
)
def test_a_forged_model_is_refused(saved, change, sentence):
    forge(saved, change)
    with pytest.raises(ProfileError, match=f"^model.nc: .*{sentence}"):
        load(saved)
