"""Lines of perf's CSV, by all that a user can do to them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.perf_csv import read_csv
from msbgen.sources.measure.readers.recording import COUNTED, NOT_COUNTED

LINES = [
    ("0.010100000", "9.99", "msec", "task-clock", "9990001", "100.00", "0.999", "CPUs utilized"),
    ("0.010100000", "17", "", "page-faults", "9990001", "100.00", "1.7", "K/sec"),
    ("0.020300000", "<not counted>", "msec", "task-clock", "0", "100.00", "", ""),
    ("0.020300000", "<not counted>", "", "page-faults", "0", "100.00", "", ""),
]


def written(separator, *, place=(), decimal=".", lines=LINES):
    def point(cell):
        return cell.replace(".", decimal) if cell.replace(".", "").isdigit() else cell

    return "# started on Sun Nov 22 12:00:00 2026\n\n" + "".join(
        "     " + separator.join([time, *place, *map(point, cells)]) + "\n"
        for time, *cells in lines
    )


PLACES = [(), ("CPU3",), ("S0-D0-C1", "1"), ("S1", "8"), ("N0", "16"), ("S0-D1", "4"),
          ("worker-12",), ("S0-D0-L3-ID2", "8"), ("a b/c-7",)]  # fmt: skip


@given(
    st.one_of(
        st.sampled_from(
            [";", ",", "\t", " ", "::", "|", "x", ";;", "@", "%", "$^", "_", "<>", "]["]
        ),
        st.text(st.sampled_from(";,|!~#&@ =+"), min_size=1, max_size=4),
    ),
    st.sampled_from(PLACES),
)
def test_any_separator_and_aggregation_says_the_same(separator, place):
    if any(separator in cell for cell in (*place, *itertools.chain(*LINES))):
        place = ("CPU3",) if place else ()
    found = read_csv(written(separator, place=place), "f")
    assert list(found.times) == [0.0101, 0.0101, 0.0203, 0.0203]
    assert list(found.values) == [9.99, 17, 0, 0]
    assert list(found.states) == [COUNTED, COUNTED, NOT_COUNTED, NOT_COUNTED]
    assert list(found.events) == ["task-clock", "page-faults"] * 2
    assert list(found.units) == ["msec", ""] * 2
    assert list(found.running) == [9990001, 9990001, 0, 0]
    assert list(found.share) == [1, 1, 1, 1]
    assert list(found.places) == [place[0] if place else ""] * 4
    assert list(found.lines) == [3, 4, 5, 6]


@pytest.mark.parametrize("separator", [",", ";", " "])
@pytest.mark.parametrize("place", PLACES[:-1])
def test_decimal_commas_are_repaired(separator, place):
    same = read_csv(written(separator, place=place), "f")
    found = read_csv(written(separator, place=place, decimal=","), "f")
    np.testing.assert_array_equal(found.values, same.values)
    np.testing.assert_array_equal(found.share, same.share)
    np.testing.assert_array_equal(found.running, same.running)


def test_events_with_the_separator_in_their_name():
    name = "cpu/event=0xc0,umask=0x1,name=a b/uk"
    lines = [(*line[:3], name, *line[4:]) for line in LINES if line[3] == "page-faults"]
    assert set(read_csv(written(",", lines=lines), "f").events) == {name}


def test_a_control_group_is_a_place():
    lines = [(*line[:4], "/user.slice/a b", *line[4:]) for line in LINES]
    assert set(read_csv(written(";", lines=lines), "f").places) == {"/user.slice/a b"}
    assert set(read_csv(written(";", place=("CPU0",), lines=lines), "f").places) == {
        "CPU0 /user.slice/a b"
    }


def test_lines_of_metrics_alone_are_passed_over():
    text = written(";").replace(
        "K/sec\n", "K/sec\n     0.010100000;;;;;;0.52;stalled cycles per insn\n"
    )
    assert len(read_csv(text, "f").values) == 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda t: t[: t.rindex("100.00")],
            "line 6 is '0.020300000;<not counted>;;page-faults;0;'",
        ),
        (lambda t: t.replace("17;", "seventeen;"), "line 4 is"),
        (lambda t: t.replace("17;", ";"), "line 4 is"),
        (lambda t: t.replace(";100.00;1.7", ";100;1.7"), "line 4 is"),
        (lambda t: t.replace("0.010100000;17", "     17"), "is neither a count nor a summary"),
        (lambda t: t.replace("0.0", "0.x"), "without a time"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(change, sentence):
    with pytest.raises(ProfileError) as caught:
        read_csv(change(written(";")), "run.csv")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("run.csv: ")


def test_summaries_are_no_bins():
    for name in ("perf-6.1.187/summary.csv", "perf-6.1.192/summary-without-word.csv"):
        found = read_csv((FIXTURES / name).read_text(), name)
        for event, total in found.summary.items():
            own = np.array([e == event for e in found.events])
            slack = 0.005 * own.sum() if event == "task-clock" else 0
            assert found.values[own].sum() == pytest.approx(total, rel=0, abs=slack + 1e-9)
        assert len(found.summary) >= 3


@pytest.mark.parametrize(
    "line",
    [
        "     0.010100000;;9990001;100.00;;;;TopdownL1",
        "     0.010100000;;;;;;;%  tma_bad_speculation",
        "     0.010100000;;9990001;64.00;;;34.1;%  tma_retiring",
        "     0.010100000;;;;;;nan;",
    ],
)
def test_groups_of_metrics_hold_no_count(line):
    own = written(";")
    for text in (
        f"{line}\n{own}",
        f"{own}{line}\n",
        own.replace("     0.02", f"{line}\n     0.02"),
    ):
        found = read_csv(text, "f")
        assert len(found.values) == 4
        assert found.warnings == ()
    placed = line.replace("00;", "00;S0-D0-C1;2;", 1)
    found = read_csv(f"{placed}\n" + written(";", place=("S0-D0-C1", "2")), "f")
    assert len(found.values) == 4


def test_lines_of_the_program_are_skipped_with_a_warning():
    lines = written(",").splitlines(keepends=True)
    text = (
        f"reading, 3 files\n{lines[2]}progress: 10 % {lines[3]}0.5,done\n{''.join(lines[4:])}end\n"
    )
    found = read_csv(text, "f")
    assert list(found.values) == [9.99, 17, 0, 0]
    assert found.warnings == (
        "f: 3 lines are not perf's, but the program's, and were skipped; "
        "'perf stat -o FILE' keeps them apart.",
    )
