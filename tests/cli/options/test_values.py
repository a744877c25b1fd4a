"""Text to values."""

import argparse

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.cli import options


def refuses(parse, text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        parse(text)
    assert repr(text) in str(caught.value)


@given(st.floats(1e-9, 1e9), st.sampled_from([("ms", 1e-3), ("s", 1), ("min", 60), ("h", 3600)]))
def test_times_are_read_as_they_are_written(value, unit):
    name, factor = unit
    assert options.duration(f"{value!r}{name}") == pytest.approx(value * factor)


@pytest.mark.parametrize(
    "text", ["", "s", "ms", "fast", "-1s", "nan", "inf", "infs", "1 day", "2m", "1e999", "--"]
)
def test_what_is_no_time_is_refused(text):
    refuses(options.duration, text)
    refuses(options.duration_or_none, text)
    refuses(options.budget, text)


def test_no_time_at_all_is_a_time_for_overheads_only():
    assert options.duration_or_none("0") == options.duration_or_none("0ms") == 0
    refuses(options.duration, "0")
    refuses(options.budget, "0s")


def test_a_budget_is_a_time_with_its_unit_or_a_number_of_contexts():
    assert options.budget("40") == 40
    assert options.budget("2min") == "2min"
    for text in ("0", "1.5", "1e3", "forty", "²"):
        refuses(options.budget, text)


def test_shares_are_numbers_or_percentages():
    for parse in (options.percentage, options.share, options.slack):
        assert [parse(text) for text in ("0.05", "5%", "7%", ".5 %")] == [0.05, 0.05, 0.07, 0.005]
        for text in ("1", "100%", "5", "-1%", "1.5", "nan", "%", "x%", "5%%"):
            refuses(parse, text)
    assert options.share("0") == options.slack("0%") == 0
    assert options.slack("reference") == "reference"
    refuses(options.percentage, "0")


def test_whole_numbers_and_positive_numbers():
    assert (options.count("7"), options.seed("0")) == (7, 0)
    assert options.seed(str(2**63 - 1)) == 2**63 - 1  # as large as a file's attribute holds
    assert options.number("1e-3") == 1e-3
    assert options.folds("2") == 2
    assert (options.degrees("45.5"), options.degrees("-20")) == (45.5, -20)
    for parse, texts in {
        options.degrees: ("", "hot", "301", "-101", "nan", "45C"),
        options.count: ("0", "-1", "1.5", "²", "", "1_0", "9" * 30),
        options.folds: ("1", "0", "2.5", "two"),
        options.seed: ("-1", "0.5", "", str(2**63), "9" * 40),
        options.number: ("0", "-1", "inf", "nan", "x"),
    }.items():
        for text in texts:
            refuses(parse, text)


def test_a_dash_is_stdout_for_tables_only():
    assert options.table_output("-") is None
    assert options.csv_output("-") is None
    refuses(options.output, "-")
    refuses(options.output, "")
    assert str(options.output("o.nc")) == str(options.table_output("o.nc")) == "o.nc"


def test_a_table_does_not_end_as_netcdf():
    assert str(options.csv_output("o.csv")) == "o.csv"
    refuses(options.csv_output, "o.nc")


def test_levels_are_listed_or_those_of_the_virtual_platform():
    given = options.levels("a=1:3,b=1/4")
    assert {name: list(np.asarray(v)) for name, v in given.items()} == {"a": [1, 2, 3], "b": [1, 4]}
    assert list(options.levels("virtual")) == ["cache_ways", "bandwidth", "frequency"]
