"""What may come out of a file, and the sentences about the rest."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from msbgen.core.arrays import POSITIVE, ModelArray, StoredArrays, finite_predictions, record_arrays
from msbgen.core.errors import MeasurementError, ProfileError, check_positive

ARRAYS = {
    "f": np.array([[1.0, 2.0], [3.0, np.nan]]),
    "i": np.array([0, 3, 1], dtype=np.int32),
    "whole": np.array([0.0, 2.0]),
    "half": np.array([0.5]),
    "text": np.array(["a"]),
    "scalar": np.array(2),
    "part_g": np.ones(2),
}
STORED = StoredArrays("m.nc", ARRAYS)


def test_arrays_come_as_kernels_want_them():
    numbers = STORED.numbers("f", (None, 2), missing=True)
    np.testing.assert_array_equal(numbers, ARRAYS["f"])
    assert STORED.numbers("i", (3,)).dtype == np.float64
    indices = STORED.indices("i", (3,), below=4)
    assert indices.dtype == np.int64
    assert indices.tolist() == [0, 3, 1]
    assert STORED.indices("whole", (None,), below=3).dtype == np.int64
    assert STORED.indices("scalar", (), below=3).shape == ()
    backwards = StoredArrays("m.nc", {"f": np.arange(6.0).reshape(2, 3).T})
    assert backwards.numbers("f", (3, 2)).flags.c_contiguous


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda s: s.numbers("g", (2,)), "variable 'g' is missing; a whole file is wanted"),
        (lambda s: s.numbers("f", (2, 3)), r"shape of variable 'f' is \(2, 2\); \(2, 3\) is"),
        (lambda s: s.numbers("f", (None,)), r"is \(2, 2\); \(n,\) is wanted"),
        (lambda s: s.numbers("f", (2, 2)), "variable 'f' holds nan; numbers from"),
        (lambda s: s.numbers("text", (1,)), "type of variable 'text' is <U1; numbers is wanted"),
        (lambda s: s.numbers("i", (3,), within=POSITIVE), "holds 0; numbers from 1e-300"),
        (lambda s: s.indices("i", (3,), below=3), "variable 'i' holds 3; 0 to 2 are wanted"),
        (lambda s: s.indices("half", (1,), below=3), "is float64; one of whole numbers"),
        (lambda s: s.part("part_").numbers("g", (3,)), r"'part_g' is \(2,\); \(3,\) is wanted"),
        (lambda s: s.part("part_").numbers("f", (3,)), "'part_f' is missing"),
    ],
)
def test_what_is_not_wanted_is_named(ask, sentence):
    with pytest.raises(ProfileError, match=f"^m.nc: .*{sentence}.*: fit it again.$"):
        ask(STORED)


TABLE = (
    ModelArray("whole", ("n",), "i4", high="limit"),
    ModelArray("part_g", ("n",), low=0.0, high=1.0),
    ModelArray("f", ("n", 2), "f4", missing=True),
)


def test_a_table_gives_arrays_in_its_types():
    taken = STORED.take(TABLE, limit=3)
    assert {name: array.dtype.str[1:] for name, array in taken.items()} == {
        "whole": "i4", "part_g": "f8", "f": "f4"
    }  # fmt: skip
    assert STORED.take([ModelArray("scalar", (), "i8")])["scalar"] == 2
    assert record_arrays(Record(), [ModelArray("size")], "a.") == {"a.size": 3}


@pytest.mark.parametrize(
    ("entry", "sizes", "sentence"),
    [
        (ModelArray("f", ("n", "n"), missing=True), {"n": 3}, r"\(2, 2\); \(3, 3\) is wanted"),
        (ModelArray("i", ("n",), "i4", high="n"), {}, "holds 3; 0 to 2"),
        (ModelArray("part_g", (2,), low=1.5), {}, "holds 1; numbers from 1.5"),
        (ModelArray("part_g", (2,), ascending=True), {}, "order of variable 'part_g' is another"),
        (ModelArray("f", ("n", 2)), {}, "holds nan"),
        (ModelArray("half", (1,), "i4"), {}, "one of whole numbers"),
        (ModelArray("huge", (1,), "f4"), {}, "holds 1e\\+60"),
        (ModelArray("wide", ("n", "n")), {}, "size of variable 'wide' is 3; 2"),
    ],
)
def test_arrays_that_break_their_table_are_refused(entry, sizes, sentence):
    arrays = {**ARRAYS, "huge": np.array([1e60]), "wide": np.ones((2, 3))}
    with pytest.raises(ProfileError, match=f"^m.nc: .*{sentence}"):
        StoredArrays("m.nc", arrays).take([entry], **sizes)


def test_predictions_that_are_not_finite_are_refused():
    assert finite_predictions(np.ones(2), "the runtime").tolist() == [1.0, 1.0]
    with pytest.raises(MeasurementError, match="the runtime of row 1 is predicted as inf"):
        finite_predictions(np.array([1.0, np.inf]), "the runtime")


@dataclass(frozen=True)
class Record:
    share: float = 0.5
    size: int = 3
    name: str | None = None
    method: Literal["a", "b"] = "a"
    span: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self):
        check_positive(self, "share")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "settings is None; a table"),
        ({"size": None, "odd": 1}, "'odd' of settings is unknown"),
        ({"share": "1"}, "'share' of settings is '1'; a number is"),
        ({"share": float("inf")}, "'share' of settings is inf; a finite number"),
        ({"size": 2.0}, "'size' of settings is 2.0; a whole number"),
        ({"size": True}, "'size' of settings is True"),
        ({"name": 5}, "'name' of settings is 5; text is wanted"),
        ({"method": "c"}, "'method' of settings is 'c'; one of a, b is"),
        ({"span": 3}, "'span' of settings is 3; a list"),
        ({"span": [3.0]}, "length of 'span' of settings is 1; 2"),
        ({"span": [3.0, "x"]}, "'span' of settings is 'x'; a number"),
        ({"share": -1.0}, "settings: share is -1.0; a positive number"),
    ],
)
def test_settings_are_those_of_the_dataclass(given, sentence):
    good = {"share": 1, "size": 2, "name": "a", "method": "b", "span": [1, 2]}
    assert STORED.record(Record, good, "settings") == Record(1, 2, "a", "b", (1, 2))
    with pytest.raises(ProfileError, match=sentence):
        STORED.record(Record, given and {**good, **given}, "settings")
    with pytest.raises(ProfileError, match="'name' of settings is missing"):
        STORED.record(Record, {"share": 1, "size": 2}, "settings")
