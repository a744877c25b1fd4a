"""Declarations of variables: what they make, write and refuse."""

import numpy as np
import pytest
import xarray as xr

from msbgen.core.errors import ProfileError
from msbgen.data.variables import POSITIVE, Schema, Variable


def _too_many(dataset):
    if dataset.sizes["row"] > 3:
        yield "there are more than 3 rows; drop some."


SCHEMA = Schema(
    "test/1",
    "a test",
    ("row",),
    (
        Variable("name", ("name",), "text", coordinate=True, distinct=True, filled=True),
        Variable("time", ("row",), "number", "s", "time", POSITIVE, 10, stored="float32"),
        Variable("which", ("row", "slot"), "whole", least=-1, index_of="name", any_order=True),
        Variable("share", ("row",), "number", "1", missing="not measured", optional=True),
        Variable("runs", ("row",), "count", least=1, optional=True, remedy="run it again"),
        Variable("extra", ("row", "name"), optional=True, optional_dim="name"),
        Variable("label", ("name",), "text", needed_with="extra"),
        Variable("", ("row",), role="counter", least=0, missing="not counted"),
    ),
    check=_too_many,
    label="time",
    remedy="measure it again",
)


def valid(**more):
    values = {"name": ["a", "b"], "time": [1, 2], "which": [[0, -1], [1, 0]], **more}
    return SCHEMA.dataset(values, {"task": "t"})


def test_arrays_get_the_declared_dimensions_types_and_units():
    made = SCHEMA.validate(valid(share=[0.5, np.nan], extra=[1, 2], label=["x", ""]))
    assert made["time"].dtype == float
    assert made["time"].attrs == {"units": "s", "long_name": "time"}
    assert made["which"].dtype == np.int64
    assert made["extra"].dims == ("row",)
    assert made.attrs == {"schema": "test/1", "task": "t"}
    assert "runs" not in made
    assert "name" in made.coords


def test_a_file_holds_the_same_in_the_stored_types(tmp_path):
    SCHEMA.write(valid(runs=[1, 2.0]), tmp_path / "t.nc")
    with pytest.raises(FileExistsError):
        SCHEMA.write(valid(), tmp_path / "t.nc")
    read = SCHEMA.read(tmp_path / "t.nc")
    assert read["time"].dtype == np.float32
    xr.testing.assert_equal(read.assign(time=read["time"].astype(float)), valid(runs=[1, 2]))


def with_values(**values):
    return lambda: valid(**values)


PROBLEMS = {
    "attribute 'schema' is None; 'test/1' is wanted for a test": lambda: valid().assign_attrs(
        schema=None
    ),
    "dimension 'row' is missing or empty": lambda: valid().isel(row=slice(0)),
    "variable 'time' is missing: measure it again": lambda: valid().drop_vars("time"),
    "coordinate 'name' is missing": lambda: valid().drop_vars("name"),
    "variable 'label' is missing": with_values(extra=[1, 2]),
    "variable 'time' has dimensions ['name']; ['row'] are wanted": lambda: valid().assign(
        time=("name", [1.0, 2.0], {"units": "s"})
    ),
    "variable 'time' holds <U1; numbers are wanted": lambda: valid().assign(
        time=("row", ["1", "2"], {"units": "s"})
    ),
    "variable 'time' has units [1, 2]; 's' is wanted": lambda: valid().assign(
        time=("row", [1.0, 2.0], {"units": np.array([1, 2])})
    ),
    "counter 'hits' has no units": lambda: valid().assign(
        hits=("row", [1, 2], {"role": "counter"})
    ),
    "counter 'hits' is -1 at row 1 (2.0); a number from 0 on, or NaN where not counted,": lambda: (
        valid().assign(hits=("row", [1, -1], {"role": "counter", "units": "1"}))
    ),
    "variable 'time' is 0 s at row 1 (0.0); a positive number up to 10 is": with_values(
        time=[1, 0]
    ),
    "variable 'time' is 1e-60 s at row 0": with_values(time=[1e-60, 1]),
    "variable 'time' is nan s at row 0": with_values(time=[np.nan, 1]),
    "variable 'share' is inf at row 0 (1.0); a finite number, or NaN where": with_values(
        share=[np.inf, 0]
    ),
    "variable 'runs' is 1.5 at row 0 (1.0); a whole number from 1 on is wanted: run it": (
        with_values(runs=[1.5, 2])
    ),
    "variable 'which' is 2 at row 1, slot 0 (2.0); an index from -1 to 1 is wanted": with_values(
        which=[[0, 0], [2, 0]]
    ),
    "name 'a' is named twice": with_values(name=["a", "a"]),
    "coordinate 'name' is empty at name ' '": with_values(name=["a", " "]),
    "there are more than 3 rows": lambda: xr.concat(
        [valid()] * 2, "row", data_vars="minimal", coords="minimal", compat="override"
    ),
}


@pytest.mark.parametrize("sentence", PROBLEMS)
def test_each_problem_is_one_sentence_with_its_place(sentence):
    with pytest.raises(ProfileError) as caught:
        SCHEMA.validate(PROBLEMS[sentence](), "t.nc")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(f"t.nc: {sentence}")


def test_dimensions_may_stand_in_any_order_where_that_is_declared():
    SCHEMA.validate(valid().transpose("slot", "row", "name"))


def test_an_invalid_dataset_is_not_written(tmp_path):
    with pytest.raises(ProfileError):
        SCHEMA.write(valid(time=[0, 0]), tmp_path / "t.nc")
    assert not list(tmp_path.iterdir())
