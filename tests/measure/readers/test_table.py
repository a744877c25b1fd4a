"""Tables with a column map."""

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.measure.readers.recording import assemble
from msbgen.measure.readers.table import ColumnMap, column_map, read_table

OWN = {
    "time": "t [ms]",
    "seconds": 1e-3,
    "place": "core",
    "counts": {"instructions": "INST"},
    "totals": {"misses": "misses so far"},
    "rates": {"bytes": "MB/s"},
    "factors": {"bytes": 1e6},
}


def test_counts_totals_and_rates_become_events_of_each_bin():
    rows = read_table(FIXTURES / "tables/own.csv", column_map(OWN, "map.toml"))
    found = assemble(rows, places=["0"])
    assert found.events == ("instructions", "misses", "bytes")
    np.testing.assert_allclose(found.times, [0.01, 0.025])
    np.testing.assert_allclose(found.counts, [[1000, 5, 1e6], [1500, 4, 3e6]])
    both = assemble(rows)
    np.testing.assert_allclose(both.totals, [2525, 10, 4e6 + 25e3])
    assert "counts of 2 places (0, 1) were added" in both.warnings[0]


def written(tmp_path, text):
    (tmp_path / "own.csv").write_text(text)
    return tmp_path / "own.csv"


PLAIN = ColumnMap("t", {"a": "A"})


def test_rows_are_taken_in_the_order_of_their_times(tmp_path):
    rows = read_table(written(tmp_path, "t,A\n0.2,5\n0.1,3\n"), PLAIN)
    assert assemble(rows).counts[:, 0].tolist() == [3, 5]


def test_another_separator(tmp_path):
    columns = ColumnMap("t", {"a": "A"}, separator=";")
    rows = read_table(written(tmp_path, "t;A\n0.1;3\n"), columns)
    assert assemble(rows).totals.tolist() == [3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("t,B\n0.1,3\n", "column 'A' is missing in the header, which has 't, B'; one is wanted."),
        ("t,A2\n0.1,3\n", "column 'A' is missing in the header, which has 'A2'; one is wanted."),
        ("t,A,A\n0.1,3,4\n", "column 'A' stands twice in the header"),
        ("t,A\n0.1\n", "line 2 has 1 cells, the header 2"),
        ("t,A\n0.1,x\n", "line 2: 'A' is 'x'; a number is wanted"),
        ("t,A\n0.1,nan\n", "line 2: 'A' is 'nan'"),
        ("t,A\n0.1,1_0\n", "line 2: 'A' is '1_0'"),
        ("t,A\n", "there are no counts in it"),
        ("", "column 't' is missing"),
        ("t,A\n0.1,-3\n", "line 2: event 'a' is -3: a counter that wrapped"),
        ("t,A\n0,3\n", "time 0.000000000 s does not increase"),
        ("t,A\n0.1,1e30\n", "event 'a' is 1e+30"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, text, sentence):
    with pytest.raises(ProfileError) as caught:
        assemble(read_table(written(tmp_path, text), PLAIN))
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("own.csv: ")


def test_totals_that_fall_are_a_counter_that_was_reset(tmp_path):
    path = written(tmp_path, "t,A\n0.1,30\n0.2,20\n")
    with pytest.raises(ProfileError, match="line 3: event 'a' is -10: a counter that wrapped"):
        assemble(read_table(path, ColumnMap("t", totals={"a": "A"})))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tim": "t"}, "'tim' is no part of a column map; 'time' is wanted"),
        ({"colour": "t"}, "'colour' is no part of a column map; "),
        ({"counts": "INST"}, "'counts' is 'INST'; a table of names is wanted"),
        ({"counts": {"a": 3}}, "a table of names is wanted"),
        ({"seconds": "ms"}, "'seconds' is 'ms'; a value is wanted"),
        ({"seconds": True}, "'seconds' is 'True'"),
        ({"seconds": 0}, "seconds is 0; a positive number is wanted"),
        ({"seconds": 10**400}, "0; a positive number is wanted"),
        ({"separator": "::"}, "separator is '::'; one character is wanted"),
        ({"factors": {"x": 2.0}}, "factor of 'x' is 2.0; a positive one of instructions"),
        ({"totals": {"instructions": "X"}}, "each once, are wanted"),
    ],
)
def test_a_map_that_is_none_is_refused(change, sentence):
    with pytest.raises(ProfileError) as caught:
        column_map({**OWN, **change}, "map.toml")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("map.toml: ")


def test_a_map_without_time_or_events():
    with pytest.raises(ProfileError, match="'time' is missing"):
        column_map({"counts": {"a": "A"}}, "map.toml")
    with pytest.raises(ArgumentError, match="events are none"):
        ColumnMap("t")
