"""Times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.durations import UNITS, has_unit, parse_seconds
from msbgen.core.errors import ArgumentError

FACTORS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "": 1, "min": 60, "h": 3600}


@given(st.floats(0, 1e9), st.sampled_from([*FACTORS]), st.sampled_from(["", " "]))
def test_times_are_read_as_they_are_written(value, unit, space):
    text = f"{space}{value!r}{space}{unit}{space}"
    assert parse_seconds(text) == pytest.approx(value * FACTORS[unit])
    assert has_unit(text) == bool(unit)


NO_TIMES = ["", "s", "fast", "-1s", "nan", "inf", "infs", "1 day", "2m", "1e999", "--", "1_0s"]


@pytest.mark.parametrize("text", [*NO_TIMES, "٣s", "1,5s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ArgumentError, match="with its unit"):
        parse_seconds(text)


def test_units_of_files_are_those_of_the_command_line():
    assert [parse_seconds(f"2{unit}") for unit in UNITS] == [2 * unit for unit in UNITS.values()]
    assert (UNITS["min"], UNITS["h"], UNITS["d"]) == (60, 3600, 86400)
