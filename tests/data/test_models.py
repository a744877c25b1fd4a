import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.models import byte_array, load_model, save_model, stored_bytes, told_labels
from msbgen.data.store import load_netcdf, save_netcdf

SCHEMA = "msbgen-toy-model/1"
ARRAYS = {"slope": np.array([[1.5, -2.0], [0.0, np.nan]]), "rank": np.array([3, 1, 2])}
LABELS = {"machines": ["a", "β"], "work": None}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.nc"
    save_model(path, ARRAYS, LABELS, schema=SCHEMA)
    return path


def test_arrays_and_labels_survive(saved):
    stored, labels = load_model(saved, schema=SCHEMA, what="toys")
    assert labels == LABELS
    assert stored.source == "model.nc"
    assert set(stored.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert np.array_equal(stored.arrays[name], array, equal_nan=array.dtype.kind == "f")


def test_equal_models_give_equal_bytes(saved, tmp_path):
    save_model(tmp_path / "again.nc", ARRAYS, LABELS, schema=SCHEMA)
    assert (tmp_path / "again.nc").read_bytes() == saved.read_bytes()


def test_arrays_of_no_elements_are_left_out(tmp_path):
    save_model(tmp_path / "m.nc", {**ARRAYS, "none": np.empty((0, 3))}, LABELS, schema=SCHEMA)
    stored, _ = load_model(tmp_path / "m.nc", schema=SCHEMA, what="toys")
    assert "none" not in stored.arrays


def test_another_model_is_refused(saved):
    with pytest.raises(ProfileError, match=r"model\.nc.*'msbgen-toy-model/1'; a model of cats"):
        load_model(saved, schema="msbgen-cat-model/1", what="cats")


@pytest.mark.parametrize("change", ["array", "labels"])
def test_what_was_changed_is_refused(saved, change):
    dataset = load_netcdf(saved)
    if change == "array":
        dataset["slope"][0, 0] = 1.25
    else:
        dataset.attrs["labels"] = '{"machines": ["b", "a"]}'
    save_netcdf(dataset, saved, overwrite=True)
    with pytest.raises(ProfileError, match="was changed since it was saved"):
        load_model(saved, schema=SCHEMA, what="toys")


def test_a_file_that_is_there_stays(saved):
    before = saved.read_bytes()
    with pytest.raises(FileExistsError):
        save_model(saved, {}, {}, schema=SCHEMA)
    assert saved.read_bytes() == before


@pytest.mark.parametrize(
    "error", [KeyError("x"), TypeError("x"), ArgumentError("x"), AttributeError("x")]
)
def test_labels_that_lack_something_are_an_error_of_the_file(error):
    with (
        pytest.raises(ProfileError, match=r"m\.nc: attribute 'labels' is not that of a model"),
        told_labels("m.nc"),
    ):
        raise error


def test_what_a_check_said_is_kept():
    with pytest.raises(ProfileError, match=r"^said before$"), told_labels("m.nc"):
        raise ProfileError("said before")


@settings(max_examples=15, deadline=None)
@given(st.binary(min_size=1, max_size=300))
def test_bytes_of_other_libraries_survive(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("models") / "m.nc"
    save_model(path, {"booster": byte_array(content)}, {}, schema=SCHEMA)
    stored, _ = load_model(path, schema=SCHEMA, what="toys")
    assert stored_bytes(stored, "booster") == content


@settings(max_examples=15, deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=4)))
def test_any_numbers_survive(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("models") / "m.nc"
    save_model(path, {"array": array}, {}, schema=SCHEMA)
    stored, _ = load_model(path, schema=SCHEMA, what="toys")
    assert np.array_equal(stored.arrays["array"], array, equal_nan=True)
