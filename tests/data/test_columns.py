"""Tables whose columns go by names, and maps of columns."""

from time import process_time

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data.columns import ColumnMap, Table, read_column_map

MAP = """
totals = ["events"]
separator = ";"
[columns]
"runtime [ms]" = "t"
"kind" = "name/variant"
"events [1e6]" = "E"
"""


def written(tmp_path, text, name="t.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_map_names_columns_gives_units_and_joins_texts(tmp_path):
    columns = read_column_map(
        written(tmp_path, MAP, "map.toml"), ("columns", "totals", "separator"), ("columns",)
    )
    assert columns.totals == ("events",)
    text = "name;t;left out;variant;E\na;2;x;small;3\n\nb;1e3;;large;\n"
    table = Table(written(tmp_path, text), columns, needed=("runtime",), joined=("kind",))
    assert table.names == ["runtime", "kind", "events"]
    assert table.lines == [2, 4]
    assert table.texts("kind") == ["a/small", "b/large"]
    np.testing.assert_allclose(table.seconds("runtime", 1e-9, 1e9), [2e-3, 1.0])
    assert table.unit("events") == "1e6"
    np.testing.assert_array_equal(table.numbers("events", empty=True), [3, np.nan])
    assert table.texts("node") == ["", ""]


REFUSED = {
    "line 1 is ''; a column 'a' is wanted": ("", {}),
    "a header and at least one row": ("a\n", {}),
    "line 2 has 2 cells, the header 1; as many": ("a\n1,2\n", {}),
    "column 'a' is there twice": ("a,a [s]\n1,2\n", {}),
    "line 1 has an unknown column 'b'; a, c are known": ("a,b\n1,2\n", {"known": ("a", "c")}),
    "line 1 is 'a,b'; a column 'a' is wanted in [columns] of the column map, which lists": (
        "a,b\n1,2\n",
        {"columns": ColumnMap(columns={"b": "b"})},
    ),
    "'aa' is no column; did you mean 'a'?": ("a\n1\n", {"columns": ColumnMap(columns={"a": "aa"})}),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_table_of_another_form_is_refused(tmp_path, sentence):
    text, more = REFUSED[sentence]
    with pytest.raises(ProfileError) as caught:
        Table(written(tmp_path, text), needed=("a",), **more)
    assert str(caught.value).startswith("t.csv: ")
    assert sentence in str(caught.value)


def test_resources_and_counters_of_a_map_may_keep_their_headers(tmp_path):
    (tmp_path / "t.csv").write_text("program,clock [MHz],ms,hits\nfft,400,3,9\n")
    given = ColumnMap(("clock",), ("hits",), {"kind": "program", "runtime [ms]": "ms"})
    table = Table(tmp_path / "t.csv", given)
    assert (table.unit("clock"), *table.numbers("clock"), *table.numbers("hits")) == ("MHz", 400, 9)


def test_many_columns_take_a_time_that_grows_with_their_number(tmp_path):
    names = [f"c{i}" for i in range(30_000)]
    path = written(tmp_path, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    before = process_time()
    assert Table(path).names == names
    assert process_time() - before < 3


@pytest.mark.parametrize("cell", ["x", "1_0", "inf", "1e999", "nan", ""])
def test_a_cell_that_is_no_number_is_refused_with_its_line(tmp_path, cell):
    table = Table(written(tmp_path, f"a,b\n1,1\n{cell},1\n"))
    with pytest.raises(ProfileError, match=f"line 3 has the a '{cell}'; a number is wanted"):
        table.numbers("a")


def test_times_need_a_known_unit_and_a_sensible_value(tmp_path):
    with pytest.raises(
        ProfileError, match=r"a has no known unit \('week'\); 'a \[s\]', or one of s"
    ):
        Table(written(tmp_path, "a [week]\n1\n")).seconds("a", 0.1, 10)
    with pytest.raises(ProfileError, match="line 2 has the a '50'; a positive number is wanted"):
        Table(written(tmp_path, "a [ms]\n50\n")).seconds("a", 0.1, 10)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"runtime [us]": "a [MHz]"}, "column 'a [MHz]' is in MHz, and the column map names it"),
        ({"power [W]": "b", "runtime [us]": "b"}, "column 'b' is named twice in the column map"),
    ],
)
def test_a_header_keeps_its_unit(tmp_path, columns, message):
    with pytest.raises(ProfileError) as caught:
        Table(written(tmp_path, "a [MHz],b\n1,2\n"), ColumnMap(columns=columns))
    assert message in str(caught.value)
    Table(written(tmp_path, "n\n1\n"), ColumnMap(columns={"rows": "n", "columns": "n"}))


@pytest.mark.parametrize(
    ("names", "message"),
    [("[]", "'resources' is empty; a name"), ('["a", "a"]', "'a' stands twice in 'resources'")],
)
def test_lists_of_names_without_a_name_or_with_one_twice_are_refused(tmp_path, names, message):
    path = written(tmp_path, f"resources = {names}", "map.toml")
    with pytest.raises(ProfileError, match=message):
        read_column_map(path, ("resources",), ("resources",))


@pytest.mark.parametrize(
    ("text", "separator", "sentence"),
    [
        ("t;A\n1;2\n", ",", "line 1 is one cell with ';': separator = \";\" in a column map is"),
        ("# made\nt\tA\n1\t2\n", ",", "line 2 is one cell with '\\t': separator = \"\\t\" in a"),
        ("t,A\n1,2\n", ";", "line 1 is one cell with ',': separator = \",\" in a column map is"),
    ],
)
def test_another_separator_is_named(tmp_path, text, separator, sentence):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ProfileError) as caught:
        Table(tmp_path / "t.csv", ColumnMap(separator=separator))
    assert sentence in str(caught.value)


def test_decimal_commas_are_read_where_they_separate_no_columns(tmp_path):
    (tmp_path / "t.csv").write_text("t;A;B\n0,5;1,25e3;1.5\n1;-7;2,5\n")
    table = Table(tmp_path / "t.csv", ColumnMap(separator=";"))
    assert table.numbers("t").tolist() == [0.5, 1]
    assert table.numbers("A").tolist() == [1250, -7]
    with pytest.raises(ProfileError, match="line 3 has the B '2,5'; a number is wanted"):
        table.numbers("B")  # both signs: the comma may separate thousands
    (tmp_path / "t.csv").write_text("t;A\n1;1,234,567\n")
    with pytest.raises(ProfileError, match="line 2 has the A '1,234,567'"):
        Table(tmp_path / "t.csv", ColumnMap(separator=";")).numbers("A")


@pytest.mark.parametrize("row", ["2;a;0,5;3", "2;0;0,5;3", "x;;n/a;3"])
def test_a_header_with_a_hash_may_stand_above_texts_gaps_and_decimal_commas(tmp_path, row):
    path = written(tmp_path, f"# tool 1.0\n#ways;run;time [s];items\n{row}\n")
    table = Table(path, ColumnMap(separator=";"))
    assert table.names == ["ways", "run", "time", "items"]
    assert table.numbers("items").tolist() == [3]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["7", "1,234", "2,234"], None),
        (["-1,234,567", "10,000"], None),
        (["0,250", "1,250"], [0.25, 1.25]),  # no group of thousands begins with 0
        (["1,234", "2,5"], [1.234, 2.5]),
        (["1,234e0", "2,234"], [1.234, 2.234]),
    ],
)
@pytest.mark.parametrize("separator", [";", "\t"])
def test_commas_that_may_separate_thousands_are_refused(tmp_path, cells, values, separator):
    rows = "".join(f"{cell}{separator}x\n" for cell in cells)
    table = Table(
        written(tmp_path, f"n{separator}t\n{rows}"), ColumnMap(separator=separator), needed=("n",)
    )
    if values is not None:
        assert table.numbers("n").tolist() == values
        return
    with pytest.raises(ProfileError) as caught:
        table.numbers("n")
    at = 0 if "," in cells[0] else 1
    assert str(caught.value) == (
        f"t.csv: line {at + 2} has the n '{cells[at]}'; write it without a separator of "
        f"thousands, or with a decimal point."
    )


@pytest.mark.parametrize("header", ["# tool 1.0\n# host a, b\nt,A\n", "# tool 1.0\n# t,A\n"])
def test_comments_above_the_header_are_left_out(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}1,2\nx,4\n")
    table = Table(tmp_path / "t.csv")
    assert table.names == ["t", "A"]
    assert table.numbers("A").tolist() == [2, 4]
    with pytest.raises(ProfileError, match=f"line {header.count(chr(10)) + 2} has the t 'x'"):
        table.numbers("t")
    (tmp_path / "t.csv").write_text("# host a, b\nt,A\nx,y\n")
    assert Table(tmp_path / "t.csv").names == ["t", "A"]
    (tmp_path / "t.csv").write_text("#t,A\n1,2\n")
    own = Table(tmp_path / "t.csv", ColumnMap(columns={"time": "#t"}))
    assert own.numbers("time").tolist() == [1]
