"""Every table that is written is read back; every line that is none is named by its number."""

import csv

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from msbgen.core.errors import ProfileError
from msbgen.data.tables import plan_rows, read_contexts, read_lines, read_plan, shown, write_table
from strategies import texts

NAMES = ["ways", "clock"]
PLAIN = dict.fromkeys(NAMES, ())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "wanted.csv"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "line 1 is ''; a header with the resources 'ways,clock', without units and separated"),
        ("ways,clock\n1_0,2\n", "line 2 is '1_0,2'; 2 finite numbers"),
        ("ways,clock\n\uff11,2\n", "line 2 is '\uff11,2'; 2 finite numbers"),
        ("ways\n1\n", "line 1 is 'ways'; a header"),
        ("ways,clock,ways\n1,2,3\n", "line 1 is 'ways,clock,ways'; a header"),
        ("ways,clock,extra\n1,2,3\n", "line 1 is 'ways,clock,extra'; a header"),
        ("ways,clock\n", "no contexts below the header"),
        ("ways,clock\n2,1\n4,fast\n", "line 3 is '4,fast'; 2 finite numbers are wanted"),
        ("ways,clock\n2,1\n\n\n4\n", "line 5 has 1 cells, the header 2; as many"),
        ('"ways","clock"\n"2",1\n"4\n",x\n', "line 4 is '4,x'; 2 finite numbers"),
        ("ways,clock\n2,nan\n", "line 2 is '2,nan'; 2 finite numbers"),
        ("ways,clock\n2,1e999\n", "line 2 is '2,1e999'; 2 finite numbers"),
        ("ways,clock\n2,1\n4,1\n2.0,1.0\n", "line 4 repeats the context of line 2; drop one"),
        ("ways,clock,runs\n2,1,1e300\n", "line 2 asks for 1e+300 runs; a whole number from 1"),
        ("ways,clock,runs\n2,1,1e7\n", "line 2 asks for 1e+07 runs"),
        ("ways,clock,runs\n2,1,-1e300\n", "line 2 asks for -1e+300 runs"),
        ("ways,clock,runs\n2,1,3\n4,1,0\n", "line 3 asks for 0 runs"),
        ("ways,clock,runs\n2,1,1.5\n", "line 2 asks for 1.5 runs"),
        ("ways,clock\n2,\x1b[31m\n", r"line 2 is '2,\x1b[31m'; 2 finite numbers"),
        ("ways,clock,counters\n2,1,a;\n", "line 2 has counters 'a;'; groups of distinct ones"),
        ("ways,clock,counters\n2,1,a b a\n", "line 2 has counters 'a b a'; groups of distinct"),
        ("ways,clock,counters\n2,x,a\n", "line 2 is '2,x,a'; 2 finite numbers are wanted"),
        ("ways,clock,counters\n2,1\n", "line 2 has 2 cells, the header 3; as many are wanted"),
        ("ways,clock\n2,\x00\n", "line 2 is '2,"),
        ("ways,clock\n" + "9" * 1000 + ",1\n", f"line 2 is '{'9' * 56} ...'; 2 finite numbers"),
        ("ways,clock\n" + "9" * 200_000 + "\n", "cannot be read as a table (field larger"),
        (b"ways,clock\n2,\xff\n", "line 2 is not UTF-8; save the table as"),
        ("ways,clock\n1,2\n".encode("utf-16"), "line 1 is not UTF-8; save the table as"),
    ],
)
def test_a_table_that_is_none_gets_one_sentence(path, content, sentence):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ProfileError) as caught:
        read_contexts(path, NAMES)
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")
    assert str(caught.value).isprintable()
    assert "wanted.csv: " in str(caught.value)


def test_columns_come_in_any_order_and_blank_lines_count_for_nothing(path):
    path.write_text("\ufeffclock , ways\r\n\r\n1.5,2\r\n , \r\n2,4\r\n", encoding="utf-8")
    assert read_contexts(path, NAMES).tolist() == [[2.0, 1.5], [4.0, 2.0]]


def test_groups_are_of_each_context_and_what_names_none_counts_all(path):
    groups = (("a", "cpu/event=1,umask=2/"), ("a", "c"))
    numbers = np.ones(1), np.ones(1), np.ones(1)
    write_table(plan_rows(PLAIN, np.array([[2.0, 1.0]]), *numbers, groups), path)
    assert read_plan(path, NAMES).groups == (groups,)
    path.write_text("ways,counters,clock\n2,a b;a c,1\n\n4,,1\n")
    planned = read_plan(path, NAMES, 3)
    assert planned.groups == ((("a", "b"), ("a", "c")), ())
    assert planned.lines == (2, 4)
    assert planned.runs.tolist() == [3, 3]
    assert read_contexts(path, NAMES).tolist() == [[2, 1], [4, 1]]


def test_a_plan_says_whose_old_runs_are_to_go(path):
    contexts, ones, groups = (
        np.array([[2.0, 1.0], [4.0, 1.0]]),
        np.ones(2, dtype=int),
        (("a", "b"),),
    )
    write_table(plan_rows(PLAIN, contexts, ones, ones, ones, groups, again=1), path)
    planned = read_plan(path, NAMES)
    assert planned.again.tolist() == [True, False]
    assert planned.groups == (groups, groups)
    assert "again" not in ",".join(next(plan_rows(PLAIN, contexts, ones, ones, ones)))
    path.write_text("ways,clock,again\n2,1,1\n4,1,2\n")
    with pytest.raises(ProfileError, match="line 3 has 2 in 'again'; 1, where old runs are to go"):
        read_plan(path, NAMES)


levels = st.integers(-999, 999).map(lambda n: n / 8) | st.sampled_from([0.1 + 0.2, 1e-9, 1e15])


@given(arrays(float, st.tuples(st.integers(1, 6), st.just(2)), elements=levels), st.data())
def test_a_plan_that_is_written_is_read_back(tmp_path_factory, contexts, data):
    contexts = np.unique(contexts, axis=0)
    n = len(contexts)
    runs = data.draw(arrays(np.int64, n, elements=st.integers(1, 1_000_000)))
    seconds = data.draw(arrays(float, n, elements=st.floats(1e-3, 1e6)))
    path = tmp_path_factory.mktemp("plans") / "plan.csv"
    write_table(plan_rows(PLAIN, contexts, runs, seconds, np.full(n, 0.25)), path)
    planned = read_plan(path, NAMES)
    read, wanted = planned.contexts, planned.runs
    np.testing.assert_allclose(read, contexts, rtol=1e-14)
    np.testing.assert_array_equal(wanted, runs)
    with pytest.raises(FileExistsError):
        write_table([["ways"]], path)


@given(st.lists(texts().filter(str.isprintable), min_size=1, max_size=3))
@example(["=1+2", "+x", "-5e", "@a", "''=1", "'tis", "-1.5e-3", "-inf", "-inf(1)"])
def test_a_spreadsheet_takes_texts_for_texts_and_we_read_what_was_written(tmp_path_factory, texts):
    texts = [f".{text.strip()}" if not text.strip() else text.strip() for text in texts]
    path = tmp_path_factory.mktemp("cells") / "t.csv"
    write_table([texts], path)
    ((_, cells),) = read_lines(path)
    assert cells == texts
    with path.open(newline="", encoding="utf-8") as stream:
        for cell in next(csv.reader(stream)):
            assert cell[0] not in "=+-@\t\r" or np.isreal(float(cell))


def test_names_do_not_control_who_reads_a_table(tmp_path):
    write_table([["a\x1b[2J", "b\u202ec", "two\nlines", "\tx"]], tmp_path / "t.csv")
    written = (tmp_path / "t.csv").read_text(encoding="utf-8")
    assert written == r"a\x1b[2J,b\u202ec,two\nlines,'\tx" + "\n"


def test_cells_are_shown_short_and_without_what_a_terminal_obeys():
    assert shown(["a", "b c"]) == "'a,b c'"
    assert shown(["a\nb"]) == r"'a\nb'"
    assert len(shown(["x\n" * 500])) < 300
