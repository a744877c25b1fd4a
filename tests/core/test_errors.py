"""Errors and their words: escaped, cut, and with every problem."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import (
    ArgumentError,
    MeasurementError,
    ProfileError,
    printable,
    quoted,
)
from strategies import texts


def test_a_profile_error_holds_every_problem():
    error = ProfileError("one.", "two.")
    assert error.problems == ("one.", "two.")
    assert str(error) == "one.\ntwo."


@pytest.mark.parametrize("kind", [ArgumentError, MeasurementError, ProfileError])
@pytest.mark.parametrize(
    "outside",
    ["\x1b]0;title\x07", "a\nmsbgen: done", "\x9b2J", "\u202egnp.exe", "\udcff", "9" * 5000],
)
def test_what_a_message_quotes_controls_nothing(kind, outside):
    for error in (
        kind(f"cell is {outside}; give another."),
        pickle.loads(pickle.dumps(kind(outside))),
    ):
        assert str(error).isprintable()
        assert len(str(error)) <= 1000
    assert str(kind(f"cell is {outside}; give another.")).startswith("cell is ")
    assert str(kind(f"cell is {outside}; give another.")).endswith("; give another.")
    assert quoted(outside).isprintable()
    assert len(quoted(outside)) <= 62


@given(texts(max_size=80), st.integers(20, 60))
def test_what_is_printable_stays_and_what_is_cut_keeps_both_ends(text, most):
    line = printable(text)
    assert all(c.isprintable() or (c.isspace() and c > "\xa0") or c == "\xa0" for c in line)
    assert line == text or not text.isprintable()
    cut = printable("a" + text.replace("\n", " ") + "z", most)
    assert cut[0] + cut[-1] == "az"


def test_spaces_and_what_is_kept_stay():
    assert printable("5\u00a0%\n\tx", keep="\n\t") == "5\u00a0%\n\tx"
