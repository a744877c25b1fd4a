import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays, floating_dtypes, integer_dtypes

from msbgen.core.draws import flags_of, numbers_of, real_array
from msbgen.core.errors import ArgumentError


@pytest.mark.parametrize(
    "values",
    [
        *("x", "1", b"1", True, None, 1j, 10**400, [["1"]], [[True, 1.0]], [[1], [1, 2]]),
        *(np.array([True]), np.array(["1"]), np.array([1, True], dtype=object), np.array([1j])),
        np.ma.masked_array([1.0, 2.0], [False, True]),
    ],
)
def test_what_are_no_numbers_is_refused(values):
    with pytest.raises(ArgumentError, match=r"^size is .*numbers are wanted"):
        numbers_of(values, "size")


@given(arrays(integer_dtypes(endianness="=") | floating_dtypes(endianness="="), st.integers(0, 4)))
def test_numbers_of_all_types_are_taken_as_they_are(values):
    for same in (values, values.tolist(), list(values), np.ma.masked_array(values)):
        np.testing.assert_array_equal(numbers_of(same, "sizes"), values.astype(float))
    assert real_array(values, "sizes").dtype == values.dtype


@pytest.mark.parametrize(
    "values",
    [[1, 0], ["yes"], [[True], [True, False]], None, np.ma.masked_array([True, True], [0, 1])],
)
def test_what_is_neither_true_nor_false_is_refused(values):
    with pytest.raises(ArgumentError, match=r"^suits are .*True or False is wanted everywhere"):
        flags_of(values, "suits")


@given(arrays(np.bool_, st.integers(0, 4)))
def test_truth_values_are_taken_as_they_are(values):
    for same in (values, values.tolist(), list(values), np.ma.masked_array(values)):
        np.testing.assert_array_equal(flags_of(same, "suits"), values)
