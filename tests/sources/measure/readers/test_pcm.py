"""Recordings of Intel PCM."""

import re

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.pcm import read_pcm
from msbgen.sources.measure.readers.recording import assemble

CORES = FIXTURES / "tables/pcm.csv"


@pytest.mark.parametrize("name", ["pcm.csv", "pcm-semicolon.csv"])
def test_millions_of_each_core(name):
    rows = read_pcm(FIXTURES / "tables" / name)
    found = assemble(rows, places=["Core0 (Socket 0)"])
    assert found.events == ("L3MISS", "L2MISS", "INST")
    np.testing.assert_allclose(found.times, [0.1005, 0.2005, 0.3015], atol=1e-9)
    np.testing.assert_allclose(found.counts[:, 0], [1.25e6, 1.5e6, 1.75e6])
    # instructions a nominal cycle, times these
    np.testing.assert_allclose(found.counts[:, 2], [180e6, 160e6, 141.4e6])
    assert "PCM measures cores and sockets, not tasks" in found.warnings[0]


def test_the_system_and_sockets_are_places_of_their_own():
    rows = read_pcm(CORES)
    system = assemble(rows, ["INST", "ACYC"], ["System"])
    np.testing.assert_allclose(system.totals, [630e6, 690e6])
    socket = assemble(rows, ["READ"], ["Socket0"])
    np.testing.assert_allclose(socket.totals, [60e6])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.replace("Date,Time", "Day,Hour"), "has no two rows of headers"),
        (lambda t: t.partition("\n")[2], "has no two rows of headers"),
        (lambda t: t.replace(",0.2,0.5", ""), "line 4 has 14 cells, the header 16"),
        (lambda t: t.replace(",1.7,", ",much,", 1), "line 4: 'L3MISS' is 'much'"),
        (lambda t: t.replace("12:00:00.200", "12:00:00.100"), "several rows have one time"),
        (
            lambda t: t.replace("L3MISS", "x").replace("L2MISS", "x").replace("INST", "x")
            .replace("EXEC", "x").replace("READ", "x").replace("ACYC", "x"),
            "has no counts",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, change, sentence):
    (tmp_path / "F").write_text(change(CORES.read_text()))
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        read_pcm(tmp_path / "F")
