"""A predictor read back answers as the one that was written; what is spoilt is refused."""

import json

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.runtimes.predictor import RuntimePredictor
from msbgen.runtimes.storage import load_predictor, save_predictor
from msbgen.runtimes.towers import TowerSettings

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


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.nc"
    save_predictor(model, path, workloads=WORKLOADS, platforms=PLATFORMS)
    return path


def test_what_is_read_back_answers_the_same(model, saved):
    again, workloads, platforms = load_predictor(saved)
    assert (workloads, platforms) == (WORKLOADS, PLATFORMS)
    runs = np.array([(0, 0, -1), (3, 2, 1), (2, 1, 0)])
    np.testing.assert_array_equal(again.predict(runs), model.predict(runs))
    np.testing.assert_array_equal(again.predict_bound(runs, 0.2), model.predict_bound(runs, 0.2))
    np.testing.assert_array_equal(again.extrapolates(runs), model.extrapolates(runs))
    for name, value in model.get_params().items():
        np.testing.assert_array_equal(again.get_params()[name], value)


def test_equal_predictors_make_equal_files(model, saved, tmp_path):
    save_predictor(model, tmp_path / "again.nc", workloads=WORKLOADS, platforms=PLATFORMS)
    assert saved.read_bytes() == (tmp_path / "again.nc").read_bytes()


def test_nothing_is_overwritten_and_names_must_fit(model, saved):
    with pytest.raises(FileExistsError):
        save_predictor(model, saved, workloads=WORKLOADS, platforms=PLATFORMS)
    with pytest.raises(ArgumentError, match="3 workloads and 3 platforms are named; 4 and 3"):
        save_predictor(model, saved, workloads=WORKLOADS[1:], platforms=PLATFORMS)


def spoilt(path, change):
    with xr.open_dataset(path) as stored:
        dataset = stored.load()
    change(dataset).to_netcdf(path)


def labels(ds, **changes):
    return ds.assign_attrs(labels=json.dumps({**json.loads(ds.attrs["labels"]), **changes}))


def parameters(ds, **changes):
    known = json.loads(ds.attrs["labels"])["parameters"]
    return labels(ds, parameters={**known, **changes})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda ds: ds.assign_attrs(schema="other/1"), "'schema' is 'other/1'"),
        (lambda ds: ds.assign_attrs(schema=[1, 2]), "'schema' is"),
        (lambda ds: ds.assign_attrs(labels="{"), "'labels' is not that of a model"),
        (lambda ds: labels(ds, pools=[7]), "'pool7_log_runtime' is missing"),
        (lambda ds: labels(ds, parameters={}), "'labels' is not that of a model"),
        (lambda ds: ds.drop_vars("length"), "'length' is missing"),
        (
            lambda ds: ds.assign(workload_embedding=ds["workload_embedding"].isel(member=0)),
            "'workload_embedding' is",
        ),
        (lambda ds: ds.assign(cell_field=ds["cell_field"] * np.nan), "'cell_field' holds no fini"),
        (
            lambda ds: ds.assign(platform_embedding=ds["platform_embedding"].astype(int)),
            "'platform_embedding' holds int",
        ),
        (lambda ds: ds.assign(pool0_unit=ds["pool0_unit"] + 3), "does not count from 0"),
        (lambda ds: ds.assign(pool0_unit=ds["pool0_unit"] - 3), "'pool0_unit' is negative"),
        (lambda ds: ds.assign(pool0_unit=ds["pool0_unit"] + 10**13), "does not count from 0"),
        (lambda ds: labels(ds, level=np.nan), "'labels' is not that of a model .*not finite"),
        (lambda ds: labels(ds, range=[3, -3]), "'labels' is not that of a model .*range"),
        (lambda ds: labels(ds, pools=[0, 0]), "'labels' is not that of a model .*there twice"),
        (lambda ds: labels(ds, degree=-1), "'labels' is not that of a model .*negative"),
        (lambda ds: parameters(ds, preset="quick"), "'labels' is not that of a model .*quick"),
        (lambda ds: ds.assign(pool0_width=-ds["pool0_width"]), "'pool0_width' is not positive"),
        (lambda ds: ds.drop_vars("workload"), "coordinate 'workload' is missing"),
        (
            lambda ds: ds.assign_coords(platform=np.arange(3)),
            "coordinate 'platform' is missing, no",
        ),
        (lambda ds: ds.assign_coords(platform=["pi", "m1", "pi"]), "or names one twice"),
        (lambda ds: ds.isel(direction=slice(4)), "'direction' is even"),
        (lambda ds: ds.assign(length=ds["length"] * np.inf), "'length' holds no finite"),
        (
            lambda ds: ds.assign(workload_embedding=ds["workload_embedding"].astype(float) * 1e60),
            "'workload_embedding' holds no finite",
        ),
    ],
)
def test_what_is_spoilt_is_refused(saved, change, sentence):
    spoilt(saved, change)
    with pytest.raises(ProfileError, match=f"^model.nc: .*{sentence}"):
        load_predictor(saved)
