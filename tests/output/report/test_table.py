"""The table says what the figures say."""

import re

import pytest

from msbgen.answers.evaluate.scores import score_methods, summarise
from msbgen.output.report.table import COLUMNS, score_table

CHEAP = ("bracketing", "nearest_context", "multilinear")
CELL = re.compile(r"([\d.]+)( %)?(?: \(\s*([+-]\d+) %\))?")


def read(text):
    """Read a table back: heads of the columns, and (figure, gain) by method and head."""
    head, rule, *rows, foot = text.splitlines()
    assert set(rule) == {"-"}
    assert len({len(line) for line in (head, rule, *rows)}) == 1
    heads = re.split(r"\s{2,}", head.strip())[1:]
    cells = {}
    for row in rows:
        name, rest = row.split(maxsplit=1)
        found = CELL.findall(rest)
        assert len(found) == len(heads)
        cells[name] = {
            h: (float(value) / (100 if share else 1), float(gain) / 100 if gain else None)
            for h, (value, share, gain) in zip(heads, found)
        }
    return heads, cells, foot


@pytest.mark.parametrize("warping", [("exact",), ("exact", "fastdtw")])
def test_numbers_are_those_of_the_summary(measured, truth, warping):
    summary = summarise(score_methods(measured, truth, CHEAP, warping=warping))
    heads, cells, foot = read(score_table(summary))
    shown = [m for m in COLUMNS if "fastdtw" in warping or "fastdtw" not in m]
    assert heads == [COLUMNS[m] for m in shown]
    assert list(cells) == list(CHEAP)
    for method, row in summary["methods"].items():
        for metric in shown:
            figure, gain = cells[method][COLUMNS[metric]]
            assert figure == pytest.approx(row[metric], abs=5.1e-4)
            assert gain == pytest.approx(row["improvement"][metric], abs=5.1e-3)
    assert foot == (
        "Lower is better; means over 2 contexts; in brackets the improvement over 'bracketing'."
    )


def test_without_a_baseline_there_are_no_brackets(measured, truth):
    summary = summarise(score_methods(measured, truth, ["multilinear"]))
    _, cells, foot = read(score_table(summary))
    assert {gain for _, gain in cells["multilinear"].values()} == {None}
    assert foot == "Lower is better; means over 2 contexts."


def test_contexts_that_were_left_out_are_said():
    summary = {"n_contexts": 3, "n_contexts_undefined": 4, "methods": {"a": {"ndtw": 0.5}}}
    assert "means over 3 contexts (4 where a method is not defined are left out)" in score_table(
        summary
    )


def test_worse_is_negative_and_long_names_keep_the_columns_straight():
    rows = {
        "a": {"ndtw": 0.1, "improvement": {"ndtw": 0.0}},
        "a-name-of-some-length": {"ndtw": 12.5, "improvement": {"ndtw": -124.0}},
    }
    text = score_table(
        {"n_contexts": 1, "n_contexts_undefined": 0, "baseline": "a", "methods": rows}
    )
    _, cells, _ = read(text)
    assert cells["a-name-of-some-length"]["nDTW raw"] == (12.5, -124.0)
