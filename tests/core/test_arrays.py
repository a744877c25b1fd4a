"""What may come out of a file, and the sentences about the rest."""

from dataclasses import dataclass

import numpy as np
import pytest

from msbgen.core.arrays import POSITIVE, StoredArrays
from msbgen.core.errors import ProfileError, check_positive

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
    with pytest.raises(ProfileError, match=f"^m.nc: .*{sentence}.*: make it again.$"):
        ask(STORED)


@dataclass(frozen=True)
class Record:
    share: float = 0.5
    size: int = 3
    name: str | None = None

    def __post_init__(self):
        check_positive(self, "share")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "settings is None; a table"),
        ({"share": 1.0, "size": 2}, "'name' of settings is missing"),
        ({"share": 1.0, "size": 2, "name": None, "odd": 1}, "'odd' of settings is unknown"),
        ({"share": "1", "size": 2, "name": None}, "'share' of settings is '1'; a number is"),
        ({"share": 1.0, "size": 2.0, "name": None}, "'size' of settings is 2.0; a whole number"),
        ({"share": 1.0, "size": True, "name": None}, "'size' of settings is True"),
        ({"share": 1.0, "size": 2, "name": 5}, "'name' of settings is 5; text is wanted"),
        ({"share": -1.0, "size": 2, "name": None}, "settings: share is -1.0; a positive number"),
    ],
)
def test_settings_are_those_of_the_dataclass(given, sentence):
    good = {"share": 1, "size": 2, "name": "a"}
    assert STORED.record(Record, good, "settings") == Record(1, 2, "a")
    with pytest.raises(ProfileError, match=sentence):
        STORED.record(Record, given, "settings")
