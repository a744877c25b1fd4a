"""Numbers as a person reads them."""

import math

import pytest

from msbgen.output.report.formatting import (
    Figure,
    Numbers,
    labelled_unit,
    plain,
    rounded,
    shortened,
    unit_of,
)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.0996, 2, "0.10"), (999.6, 3, "1,000"), (-0.5, 2, "-0.50"), (2e-7, 3, "2.00e-07"),
     (math.nan, 3, "–"), (0, 3, "0")],
)  # fmt: skip
def test_numbers_are_rounded_to_significant_digits(value, digits, text):
    assert rounded(value, digits) == text


def test_figures_know_their_place():
    number = Numbers({"a": {"b": [0.5, None]}, "n": 1234})
    assert number("a.b.0", "share") == Figure("50\u00a0%", 0.5, "a.b.0")
    assert number("n", "count").text == "1,234"
    assert number("a.b.1").text == "–"
    assert plain(("half: ", number("a.b.0", "rate"))) == "half: 50\u00a0%"


def test_names_fit_into_a_line():
    assert shortened("a\x1b[31m\tb") == "a [31m b"
    assert len(shortened("x" * 10_000)) == 80
    assert (unit_of("MB s-1"), unit_of("J"), unit_of("")) == ("\u00a0MB\u00a0s⁻¹", "\u00a0J", "")
    assert labelled_unit("GHz") == " [GHz]"
