"""Tables with a column map."""

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.data.columns import ColumnMap
from msbgen.data.energy import energy_counters
from msbgen.data.partial import describe_partial
from msbgen.data.profiles import Profiles
from msbgen.sources.measure.dataset import Run, profile_dataset
from msbgen.sources.measure.readers.column_map import recording_map
from msbgen.sources.measure.readers.formats import RecordingReader
from msbgen.sources.measure.readers.recording import assemble
from msbgen.sources.measure.readers.table import read_table

OWN = {
    "columns": {
        "time [ms]": "t [ms]",
        "place": "core",
        "instructions": "INST",
        "misses": "misses so far",
        "bytes [1e6]": "MB/s",
    },
    "totals": ["misses"],
    "rates": ["bytes"],
}


def test_counts_totals_and_rates_become_events_of_each_bin():
    rows = read_table(FIXTURES / "tables/own.csv", recording_map(OWN, "map.toml"))
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


PLAIN = ColumnMap(columns={"time [s]": "t", "a": "A"})


BY_CYCLES = {
    "columns": {"clock [MHz]": "MHz", "cycles": "CYCLES", "instructions": "INST"},
    "cycles": "cycles",
    "clock": "clock",
}


def test_cycles_at_a_clock_are_the_time():
    path = FIXTURES / "tables/cycles.csv"
    rows = read_table(path, recording_map(BY_CYCLES, "map.toml"))
    found = assemble(rows)
    np.testing.assert_allclose(found.times, [0.01, 0.02, 0.035])
    assert found.events == ("cycles", "instructions")
    assert found.totals.tolist() == [6e7, 5.5e7]
    fixed = ColumnMap(columns={"cycles [1e3]": "CYCLES"}, cycles="cycles", clock="2 GHz")
    np.testing.assert_allclose(assemble(read_table(path, fixed)).times, [5, 15, 30])
    own_headers = ColumnMap(cycles="CYCLES", clock="1000MHz", totals=("CYCLES",))
    np.testing.assert_allclose(assemble(read_table(path, own_headers)).times, [0.01, 0.02, 0.03])


def test_the_clock_of_the_cycles_may_be_that_of_the_context():
    columns = ColumnMap(columns={"cycles": "CYCLES"}, cycles="cycles", clock="frequency")
    reader = RecordingReader("table", columns=columns)
    path = FIXTURES / "tables/cycles.csv"
    there = reader.in_context(
        {"frequency": 0.5, "x": 1.0}, {"frequency": {"units": "GHz"}, "x": {}}
    )
    np.testing.assert_allclose(there.read(path).times, [0.02, 0.06, 0.12])
    with pytest.raises(ProfileError, match=r"'clock' is 'frequency'; a clock such as '2\.4 GHz'"):
        reader.read(path)
    with pytest.raises(ProfileError, match="line 2 has the cycles '0'; cycles above 0 are wanted"):
        read_table(path, ColumnMap(columns={"cycles": "core"}, cycles="cycles", clock="1 GHz"))


def test_rows_are_taken_in_the_order_of_their_times(tmp_path):
    rows = read_table(written(tmp_path, "t,A\n0.2,5\n0.1,3\n"), PLAIN)
    assert assemble(rows).counts[:, 0].tolist() == [3, 5]


def test_another_separator(tmp_path):
    columns = ColumnMap(columns=PLAIN.columns, separator=";")
    rows = read_table(written(tmp_path, "t;A\n0.1;3\n"), columns)
    assert assemble(rows).totals.tolist() == [3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("t,B\n0.1,3\n", "'A' is no column; 't,B' are."),
        ("t,A2\n0.1,3\n", "'A' is no column; did you mean 'A2'?"),
        ("t,A,A\n0.1,3,4\n", "'A' is there twice; drop one"),
        ("t,A\n0.1\n", "line 2 has 1 cells, the header 2; as many are wanted"),
        ("t,A\n0.1,x\n", "line 2 has the a 'x'; a number is wanted"),
        ("t,A\n0.1,nan\n", "no event has a number in a run"),
        ("t,A\n0.1,1\n0.2,2\n0.3,4\n0.2,3\n", "line 5 repeats one; drop it"),
        ("t,A\n0.1,1_0\n", "line 2 has the a '1_0'"),
        ("t,A\n", "a header and at least one row"),
        ("", "'t' is no column"),
        ("t,A\n0.1,-3\n", "line 2: event 'a' is -3: a counter that wrapped"),
        ("t,A\n0,3\n", "line 2 has the a '3'; ends of bins as times, or no count at 0 s, are"),
        ("t,A\n-1,3\n", "time -1.000000000 s does not increase"),
        ("t,A\n0,0\n", "there are no counts in it"),
        ("t,A\n0.1,1e30\n", "event 'a' is 1e+30"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, text, sentence):
    with pytest.raises(ProfileError) as caught:
        assemble(read_table(written(tmp_path, text), PLAIN))
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("own.csv: ")


def test_products_without_end_are_refused(tmp_path):
    columns = ColumnMap(columns=PLAIN.columns, rates=("a",))
    with pytest.raises(ProfileError, match=r"line 2 .*a count of fewer digits is wanted"):
        read_table(written(tmp_path, "t,A\n1e10,1e305\n"), columns)


def test_totals_that_fall_are_a_counter_that_was_reset(tmp_path):
    path = written(tmp_path, "t,A\n0.1,30\n0.2,20\n")
    with pytest.raises(ProfileError, match="line 3: event 'a' is -10: a counter that wrapped"):
        assemble(read_table(path, ColumnMap(columns=PLAIN.columns, totals=("a",))))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"total": ["a"]}, "'total' is no known key; did you mean 'totals'?"),
        ({"columns": "INST"}, "'columns' is no table of names"),
        ({"columns": {"time [s]": "t"}}, "events are none; one or more"),
        ({"columns": {"a": "A"}}, "'time' is missing or has no known unit"),
        ({"columns": {"time": "t", "a": "A"}}, "'time' is missing or has no known unit"),
        ({"columns": {"time [s]": "t", "a": "A", "a [1]": "B"}}, "each once, are wanted"),
        ({"columns": {"time [s]": "t", "a [W]": "A"}}, "the unit of 'a' is 'W'; the number"),
        ({"columns": {"time [s]": "t", "a [-1]": "A"}}, "the unit of 'a' is '-1'"),
        ({"totals": ["x"]}, "'x' is no event; one of instructions, misses, bytes is"),
        ({"totals": ["bytes"]}, "'bytes' stands in 'totals' and 'rates'"),
        ({**BY_CYCLES, "clock": "2.4"}, "'clock' is '2.4'; a clock such as '2.4 GHz', a resource"),
        ({**BY_CYCLES, "cycles": "x"}, "'cycles' is 'x'; the name of a column of counts ("),
        ({**OWN, "cycles": "instructions", "clock": "1 GHz"}, "no column 'time', are wanted"),
        ({"separator": "::"}, "separator is '::'; one character is wanted"),
    ],
)
def test_a_map_that_is_not_valid_is_refused(change, sentence):
    content = {**OWN, **change}
    if "columns" in change:
        content = change
    with pytest.raises(ProfileError) as caught:
        recording_map(content, "map.toml")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("map.toml: ")


def test_energy_and_bytes_have_units(tmp_path):
    path = written(tmp_path, "t,mJ,P [W],KiB\n0.5,2000,4,1\n1,1000,6,2\n")
    titles = {"time [s]": "t", "energy [mJ]": "mJ", "socket": "P [W]", "read [KiB]": "KiB"}
    found = assemble(read_table(path, ColumnMap(columns=titles, rates=("socket",))))
    np.testing.assert_allclose(found.counts, [[2, 2, 1024], [1, 3, 2048]])
    assert found.units == ("J", "J", "")
    own = written(tmp_path, "time [ms],power [kW]\n100,2\n")
    np.testing.assert_allclose(assemble(read_table(own, ColumnMap(rates=("power",)))).totals, [200])
    dataset, _ = profile_dataset([Run({"x": 1.0}, found, 1.0)], {"x": {"units": "1"}})
    assert energy_counters(dataset) == ["energy", "socket"]
    assert dataset["read"].attrs["units"] == "1"


def test_a_first_row_at_the_start_counts_nothing(tmp_path):
    path = written(tmp_path, "t,A,B\n0,0,500\n0.1,3,510\n0.2,5,540\n")
    columns = ColumnMap(columns={"time [s]": "t", "a": "A", "b": "B"}, totals=("b",))
    found = assemble(read_table(path, columns))
    assert found.times.tolist() == [0.1, 0.2]
    assert found.counts.tolist() == [[3, 10], [5, 30]]
    power = ColumnMap(columns={"time [s]": "t", "a": "A", "b": "B"}, rates=("b",))
    assert assemble(read_table(path, power)).counts[:, 1].tolist() == pytest.approx([51, 54])


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("0,\n1,1000010\n2,1000020\n", [np.nan, 10]),
        ("0,\n1,\n2,1000020\n3,\n4,1000040\n", [np.nan, np.nan, 10, 10]),
        ("0,7\n1,\n2,27\n", [10, 10]),
        ("1,\n2,20\n", [10, 10]),  # without a row at 0 s, totals begin at 0
    ],
)
def test_a_total_that_is_missing_at_the_start_leaves_the_first_count_open(tmp_path, text, counts):
    columns = ColumnMap(columns=PLAIN.columns, totals=("a",))
    rows = read_table(written(tmp_path, f"t,A\n{text}"), columns)
    np.testing.assert_allclose(assemble(rows).counts[:, 0], counts)
    gaps = any("counts are missing there, as gaps" in sentence for sentence in rows.warnings)
    assert gaps == np.isnan(counts).any()


def test_a_single_empty_cell_is_said_in_the_singular(tmp_path):
    columns = ColumnMap(columns={"time [s]": "t", "a": "A", "b": "B"}, totals=("b",))
    rows = read_table(written(tmp_path, "t,A,B\n0.1,1,\n0.2,,20\n"), columns)
    assert rows.warnings == (
        "own.csv: 1 cell of a is empty: counts are missing there, as gaps.",
        "own.csv: 1 cell of b is empty: totals were interpolated there.",
    )


def test_cells_without_a_number_are_gaps_and_totals_go_on(tmp_path):
    text = "t,A,B,C\n0.1,1,,\n0.2,n/a,20,\n0.3,NaN,,\n0.4,4,50,\n0.5,5,,\n"
    columns = ColumnMap(columns={"time [s]": "t", "a": "A", "b": "B", "c": "C"}, totals=("b",))
    rows = read_table(written(tmp_path, text), columns)
    assert rows.warnings == (
        "own.csv: 3 cells of a, b are empty: counts are missing there, as gaps.",
        "own.csv: 2 cells of b are empty: totals were interpolated there.",
        "own.csv: c has no number in the run: it was not counted there.",
    )
    found = assemble(rows)
    np.testing.assert_allclose(found.counts[:, 0], [1, np.nan, np.nan, 4, 5])
    np.testing.assert_allclose(found.counts[:, 1], [10, 10, 15, 15, np.nan])
    assert found.totals.tolist() == [10, 50]
    several = [Run({"x": float(x)}, found, 0.5) for x in (1, 2)]
    dataset, _ = profile_dataset(several, {"x": {"units": "1"}})
    np.testing.assert_allclose(dataset["a"].values[0, 0], [1, np.nan, np.nan, 4, 5], rtol=1e-6)
    assert dataset["a"].attrs["gaps"] == "lost"
    assert inspect_profiles(dataset).errors == []
    assert "gaps" in " ".join(describe_partial(Profiles.of(dataset)))


@pytest.mark.parametrize(
    "stamps",
    [
        ["1767000000.5", "1767000000.75", "1767000001.25"],
        ["2026-03-01T10:00:59.5+01:00", "2026-03-01T10:00:59.75+01:00", "2026-03-01T09:01:00.25Z"],
        ["2026/03/01 23:59:59.5", "2026/03/01 23:59:59.75", "2026/03/02 00:00:00.25"],
        ["23:59:59.5", "23:59:59.75", "00:00:00.25"],
    ],
)
def test_a_run_with_absolute_times_begins_at_its_first_row(tmp_path, stamps):
    text = "t,A\n" + "".join(f"{stamp},{i + 1}\n" for i, stamp in enumerate(stamps))
    found = assemble(read_table(written(tmp_path, text), PLAIN))
    np.testing.assert_allclose(found.times, [0.25, 0.75])
    assert found.counts[:, 0].tolist() == [2, 3]
    assert "the run begins at its first row, whose counts are left out" in found.warnings[0]


def test_a_long_first_bin_is_doubted(tmp_path):
    text = "t,A\n" + "".join(f"{3 + i / 10},5\n" for i in range(5))
    found = assemble(read_table(written(tmp_path, text), PLAIN))
    assert found.times[0] == 3
    assert "the first bin is 3 s long, the others 0.1 s" in found.warnings[0]


def test_cells_have_units_and_marks_of_missing_ones(tmp_path):
    text = "timestamp, draw [W], temp\n9:00:01.0, 40 W, 71 °C\n9:00:02.0, 2500 mW, 72 °C\n"
    text += "9:00:04.0, [N/A], [Not Supported]\n"
    columns = {"columns": {"time [s]": "timestamp", "energy [W]": "draw [W]"}, "rates": ["energy"]}
    found = assemble(read_table(written(tmp_path, text), recording_map(columns, "map")))
    assert found.counts[0, 0] == 2.5
    assert np.isnan(found.counts[1, 0])
    with pytest.raises(ProfileError, match="line 3 has the energy '2500 V'; a number in 'W' is"):
        read_table(written(tmp_path, text.replace("mW", "V")), recording_map(columns, "map"))
