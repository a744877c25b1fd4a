"""What may come out of a file, and the sentences about the rest."""

import numpy as np
import pytest

from msbgen.core.arrays import (
    POSITIVE,
    Stored,
    StoredArrays,
    finite_predictions,
)
from msbgen.core.errors import MeasurementError, ProfileError

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


def test_an_array_comes_in_its_declared_type():
    for name, declared in {
        "whole": Stored(("n",), dtype="i4", below="limit"),
        "part_g": Stored(("n",), (0.0, 1.0)),
        "f": Stored(("n", 2), dtype="f4", missing=True),
        "i": Stored(None, dtype="i8"),
        "scalar": Stored((), dtype="i8"),
    }.items():
        array = STORED.array(name, declared, {"limit": 3, "n": 2})
        assert array.dtype == declared.dtype
        np.testing.assert_array_equal(array, ARRAYS[name])
    sizes = {}
    STORED.find_sizes("f", Stored(("n", 2)), sizes)
    assert sizes == {"n": 2}


@pytest.mark.parametrize(
    ("name", "declared", "sizes", "sentence"),
    [
        ("f", Stored(("n", "n"), missing=True), {"n": 3}, r"\(2, 2\); \(3, 3\) is wanted"),
        ("i", Stored(("n",), dtype="i4", below="n"), {}, "holds 3; 0 to 2"),
        ("i", Stored(("n",), (0.0, 1.0), "u1"), {}, "holds 3; 0 to 1"),
        ("i", Stored(("n",), dtype="bool"), {}, "holds 3; 0 to 1"),
        ("part_g", Stored((2,), (1.5, 2.0)), {}, "holds 1; numbers from 1.5"),
        ("part_g", Stored((2,), ascending=True), {}, "order of variable 'part_g' is another"),
        ("f", Stored(("n", 2)), {}, "holds nan"),
        ("half", Stored((1,), dtype="i4"), {}, "one of whole numbers"),
        ("huge", Stored((1,), dtype="f4"), {}, "holds 1e\\+60"),
        ("wide", Stored(("n", "n")), {}, r"shape of variable 'wide' is \(2, 3\); \(2, 2\)"),
    ],
)
def test_arrays_that_break_their_declaration_are_refused(name, declared, sizes, sentence):
    arrays = {**ARRAYS, "huge": np.array([1e60]), "wide": np.ones((2, 3))}
    with pytest.raises(ProfileError, match=f"^m.nc: .*{sentence}"):
        StoredArrays("m.nc", arrays).array(name, declared, sizes)


def test_predictions_that_are_not_finite_are_refused():
    assert finite_predictions(np.ones(2), "the runtime").tolist() == [1.0, 1.0]
    with pytest.raises(MeasurementError, match="the runtime of row 1 is predicted as inf"):
        finite_predictions(np.array([1.0, np.inf]), "the runtime")
