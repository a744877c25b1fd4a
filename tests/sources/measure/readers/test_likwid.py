"""The timeline of likwid-perfctr, among a program's own lines."""

import re

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.likwid import read_likwid
from msbgen.sources.measure.readers.recording import assemble

EVENTS = FIXTURES / "tables/likwid-events.txt"


def test_events_of_each_cpu_are_read():
    rows = read_likwid(EVENTS)
    one = assemble(rows, places=["CPU2"])
    assert one.events == ("INSTR_RETIRED_ANY", "L3_ACCESS", "DRAM_READS")
    assert one.times.tolist() == [0.1002, 0.2004, 0.3009]
    assert one.counts.tolist() == [
        [5e7, 90000, 7e5], [6e7, 91000, 7.1e5], [7e7, 92000, 7.2e5],
    ]  # fmt: skip
    both = assemble(rows)
    np.testing.assert_allclose(both.totals, [1.95e8, 516000, 2.13e6])
    assert "likwid measures CPUs, not tasks" in both.warnings[0]


def test_commas_are_read_as_well(tmp_path):
    text = EVENTS.read_text().replace("|", ",")
    rows = "\n".join(r.replace(" ", ",") if r[:2] == "1 " else r for r in text.splitlines())
    (tmp_path / "F").write_text(rows)
    assert assemble(read_likwid(tmp_path / "F")).totals.tolist() == [1.95e8, 516000, 2.13e6]


def test_metrics_are_refused():
    with pytest.raises(ProfileError, match="shows metrics of a group; record events"):
        read_likwid(FIXTURES / "tables/likwid-metrics.txt")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.replace("# GID", "GID"), "has no header '# GID...'"),
        (lambda t: t.replace(" 80000", ""), "line 4 has 9 cells where 3 events of 2 CPUs want 10"),
        (lambda t: t.replace(" 80000", " many"), "line 4 holds 'many'; a number is wanted"),
        (lambda t: t[: t.index("1 3 2")], "has a header and no rows"),
        (lambda t: t.replace("L3_ACCESS", "DRAM_READS"), "lists an event twice"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, sentence):
    (tmp_path / "F").write_text(change(EVENTS.read_text()))
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        read_likwid(tmp_path / "F")
