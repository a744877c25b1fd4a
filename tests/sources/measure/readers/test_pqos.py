"""Recordings of pqos."""

import re

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.pqos import read_pqos
from msbgen.sources.measure.readers.recording import assemble

CORES = FIXTURES / "tables/pqos.csv"


def test_misses_and_bandwidths_of_cores():
    rows = read_pqos(CORES, 0.1)
    one = assemble(rows, places=["Core 1"])
    assert one.events == ("LLC Misses", "LLC References", "MBL bytes")
    np.testing.assert_allclose(one.times, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(one.counts[:, 0], [1000, 1100, 1200])
    np.testing.assert_allclose(one.counts[:, 2], np.array([1.0, 2, 3]) * 2**20)
    assert "pqos measures cores, not tasks" in one.warnings[0]
    assert assemble(rows).totals[0] == 3300 + 153


def test_a_process_and_stamps_a_second_apart():
    found = assemble(read_pqos(FIXTURES / "tables/pqos-task.csv"))
    assert found.times.tolist() == [1, 2, 3]
    assert found.totals[:2] == pytest.approx([6000, 60 * 2**20])


def test_several_rows_of_one_second_need_the_step():
    with pytest.raises(ProfileError, match=r"the polling interval is wanted \(--step 100ms\)"):
        read_pqos(CORES)
    with pytest.raises(ProfileError, match="with steps of 5 s they would span 10 s"):
        read_pqos(CORES, 5.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.replace("Time,", "When,"), "has no header 'Time,Core,...'"),
        (lambda t: "".join(t.splitlines(True)[:2]), "has a header and no rows"),
        (lambda t: t.replace("Core", "Kern"), "has no column Core, PID or Socket"),
        (lambda t: t.replace(",48.0,0.5,", ",48.0,0.5", 1), "line 4 has 7 cells, the header 8"),
        (lambda t: t.replace(",1100,", ",many,"), "line 5: 'LLC Misses' is 'many'"),
        (
            lambda t: "\n".join(",".join(line.split(",")[:3]) for line in t.splitlines()[1:]),
            "has no counts; monitor misses or bandwidths",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, sentence):
    (tmp_path / "F").write_text(change(CORES.read_text()))
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        read_pqos(tmp_path / "F", 0.1)


def test_giants_of_counters_that_wrapped_are_refused(tmp_path):
    """As in intel-cmt-cat's issue 103."""
    (tmp_path / "F").write_text(CORES.read_text().replace(",1100,", ",18446744073709551600,"))
    with pytest.raises(ProfileError, match=r"event 'LLC Misses' is 1\.84467e\+19: a counter that"):
        assemble(read_pqos(tmp_path / "F", 0.1))
