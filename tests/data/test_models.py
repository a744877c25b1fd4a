import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from msbgen.core.arrays import ModelArray, digest
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.models import label_errors, load_model, save_model, stored_count, stored_names
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


@pytest.mark.parametrize(
    "error", [KeyError("x"), TypeError("x"), ArgumentError("x"), OverflowError("x")]
)
def test_labels_that_lack_something_are_an_error_of_the_file(error):
    with (
        pytest.raises(ProfileError, match=r"m\.nc: attribute 'labels' is not that of a model"),
        label_errors("m.nc"),
    ):
        raise error


def test_what_a_check_said_is_kept():
    with pytest.raises(ProfileError, match=r"^said before$"), label_errors("m.nc"):
        raise ProfileError("said before")


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested too deep"),
        ('{"a": NaN}', "NaN is no finite number"),
        ("[]", "no table"),
        ("{", "is not that of a model"),
    ],
)
def test_labels_that_are_no_table_of_values_are_refused(saved, labels, sentence):
    dataset = load_netcdf(saved)
    attrs = {**dataset.attrs, "labels": labels, "digest": digest(ARRAYS, labels)}
    save_netcdf(dataset.assign_attrs(attrs), saved, overwrite=True)
    with pytest.raises(ProfileError, match=rf"^model\.nc: .*{sentence}.*fit it again\.$"):
        load_model(saved, schema=SCHEMA, what="toys")


@pytest.mark.parametrize("value", ["a", ["a", 1], ["a", "a"]])
def test_names_are_a_list_of_distinct_texts(value):
    assert stored_names(["a", "b"]) == ("a", "b")
    with pytest.raises((TypeError, ValueError)):
        stored_names(value)


@pytest.mark.parametrize("value", [True, 1.0, -1, 4, "1"])
def test_counts_are_whole_numbers_up_to_a_most(value):
    assert stored_count(3, 3) == 3
    with pytest.raises(ValueError, match="is no whole number from 0 to 3"):
        stored_count(value, 3)


shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@settings(max_examples=15, deadline=None)
@given(hnp.arrays(np.float64, shapes))
def test_any_numbers_survive(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("models") / "m.nc"
    save_model(path, {"array": array}, {}, schema=SCHEMA)
    stored, _ = load_model(path, schema=SCHEMA, what="toys")
    entry = ModelArray("array", array.shape, low=-np.inf, high=np.inf, missing=True)
    taken = stored.take([entry])["array"]
    assert taken.shape == array.shape
    assert np.array_equal(taken, array, equal_nan=True)
