from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from forged import sealed
from msbgen.core.arrays import Stored
from msbgen.core.errors import ProfileError
from msbgen.data.models import content_of, load_part, save_part
from msbgen.data.store import load_netcdf, save_netcdf

SCHEMA = "msbgen-toy-model/1"


@dataclass(frozen=True, eq=False)
class Toy:
    machines: tuple[str, ...]
    slope: Annotated[Any, Stored(None, (-np.inf, np.inf), missing=True)]
    work: str | None = None


SLOPE = np.array([[1.5, -2.0], [0.0, np.nan]])


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.nc"
    save_part(Toy(("a", "β"), SLOPE), path, schema=SCHEMA)
    return path


def load(path, schema=SCHEMA):
    return load_part(Toy, path, schema=schema, what="toys")


def test_arrays_and_labels_survive(saved):
    again = load(saved)
    assert (again.machines, again.work) == (("a", "β"), None)
    np.testing.assert_array_equal(again.slope, SLOPE)
    with pytest.raises(FileExistsError):
        save_part(again, saved, schema=SCHEMA)


def test_large_arrays_are_compressed(tmp_path):
    save_part(Toy((), np.zeros(10**6)), tmp_path / "large.nc", schema=SCHEMA)
    assert (tmp_path / "large.nc").stat().st_size < 10**5
    np.testing.assert_array_equal(load(tmp_path / "large.nc").slope, np.zeros(10**6))


def test_another_model_is_refused(saved):
    with pytest.raises(ProfileError, match=r"model\.nc.*'msbgen-toy-model/1'; a model of toys"):
        load(saved, "msbgen-cat-model/1")


@pytest.mark.parametrize("change", ["array", "labels"])
def test_what_was_changed_is_refused(saved, change):
    dataset = load_netcdf(saved)
    if change == "array":
        dataset["slope"][0, 0] = 1.25
    else:
        dataset.attrs["labels"] = dataset.attrs["labels"].replace("a", "b")
    save_netcdf(dataset, saved, overwrite=True)
    with pytest.raises(ProfileError, match="was changed since it was saved"):
        load(saved)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("[" * 100_000 + "]" * 100_000, "attribute 'labels' is"),
        ("[]", "the table of the model is"),
        ("{", "attribute 'labels' is"),
    ],
)
def test_labels_that_are_no_table_of_values_are_refused(saved, labels, sentence):
    dataset = sealed(load_netcdf(saved).assign_attrs(labels=labels))
    save_netcdf(dataset, saved, overwrite=True)
    with pytest.raises(ProfileError, match=rf"^model\.nc: {sentence}.*fit it again\.$"):
        load(saved)


def test_values_of_numpy_are_those_of_json():
    content = content_of(Toy((), SLOPE, work=np.array([1, 2])), schema=SCHEMA)
    assert '"work": [1, 2]' in content.attrs["labels"]


shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@settings(max_examples=15, deadline=None)
@given(hnp.arrays(np.float64, shapes, elements={"allow_infinity": False}))
def test_any_numbers_survive(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("models") / "m.nc"
    save_part(Toy((), array), path, schema=SCHEMA)
    taken = load(path).slope
    assert taken.shape == array.shape
    assert np.array_equal(taken, array, equal_nan=True)
