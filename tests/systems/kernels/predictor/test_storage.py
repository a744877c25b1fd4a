"""Models in files: what comes back, and files that were changed."""

import shutil

import numpy as np
import pytest

from forged import changed, forge
from kernelling import made_kernels
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.kernels.predictor import law_and_residual
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.systems.kernels.predictor.law_and_residual import ModelParts


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.nc"
    KernelPredictor().fit(made_kernels()).save(path)
    return path


@pytest.mark.parametrize("trees", [False, True])
def test_a_model_comes_back_to_the_bit(tmp_path, monkeypatch, trees):
    if trees:
        pytest.importorskip("sklearn")
        monkeypatch.setattr(law_and_residual, "FEWEST_FOR_TREES", 5)
        monkeypatch.setattr(law_and_residual, "_SHARES", (0.5,))
    runs = made_kernels(noise=0.01)
    predictor = KernelPredictor(random_state=3, parts=ModelParts(trees=trees)).fit(runs)
    predictor.calibrate(runs, folds=2)
    assert (predictor.kinds_["matmul"].runtime.model.share > 0) == trees
    predictor.save(tmp_path / "m.nc")
    again = KernelPredictor.load(tmp_path / "m.nc")
    new = made_kernels(sizes=(80, 300))
    np.testing.assert_array_equal(again.predict(new), predictor.predict(new))
    np.testing.assert_array_equal(again.predict_power(new), predictor.predict_power(new))
    for side, same in zip(again.predict_interval(new, 0.3), predictor.predict_interval(new, 0.3)):
        np.testing.assert_array_equal(side, same)
    assert again.get_params() == predictor.get_params()
    assert again.levels_ == predictor.levels_
    np.testing.assert_array_equal(again.extrapolates(new), predictor.extrapolates(new))


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ArgumentError, match="not fitted"):
        KernelPredictor().save(tmp_path / "m.nc")


def fewer(name):
    return lambda dataset, _: dataset.isel({f"{name}_0": slice(1)})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d, _: d.assign_attrs(schema="x"), "attribute 'schema' is 'x'"),
        (changed("kinds_.0.columns", 40), "'kinds_.0.columns' is 40; less than"),
        (changed("kinds_.0.runtime.works", 2_000_000_000), "works' is 2000000000; less"),
        (changed("kinds_.0.runtime.model.share", 0.5), "share' is 0.5; 0, without trees"),
        (changed("kinds_.0.runtime.model.process.scale", 0.0), "scale' holds 0"),
        (fewer("kinds_.0.runtime.model.weights"), r"model.weights' is of \d+; 0 or"),
        (lambda _, labels: labels["units_"].popitem(), "'units_' is without that of"),
        (lambda _, labels: labels["levels_"].update(clock=[]), r"'levels_' is \[\] of 'clock'"),
        (lambda _, labels: labels.update(random_state="x"), "'random_state' is 'x'"),
    ],
)
def test_forged_models_are_refused(stored, tmp_path, change, sentence):
    shutil.copy(stored, tmp_path / "m.nc")
    forge(tmp_path / "m.nc", change)
    with pytest.raises(ProfileError, match=f"^m.nc: .*{sentence}"):
        KernelPredictor.load(tmp_path / "m.nc")
