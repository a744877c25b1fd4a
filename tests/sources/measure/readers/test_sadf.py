"""Recordings of sar, as ``sadf -d`` prints them."""

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.recording import assemble
from msbgen.sources.measure.readers.sadf import read_sadf

HEAD = "# hostname;interval;timestamp;CPU;%user\n"


def test_rates_shares_and_levels_become_amounts_of_each_interval():
    found = assemble(read_sadf(FIXTURES / "tables/sadf.csv"))
    np.testing.assert_allclose(found.times, [1, 2, 4])
    columns = {event: found.counts[:, i].tolist() for i, event in enumerate(found.events)}
    assert columns["user"] == [0.5, 0.25, 0.2]  # seconds
    assert columns["pgpgin"] == [100, 50, 0]
    assert columns["majflt"] == [0, 0, 1]
    assert columns["kbmemused"] == [300, 400, 1000]
    units = dict(zip(found.events, found.units))
    assert [units[n] for n in ("user", "pgpgin", "kbmemused")] == ["s", "", "kbmemused s"]
    assert "sar measures the machine, not a task" in found.warnings[0]


def test_single_cpus_are_places_and_their_mean_is_left_out(tmp_path):
    cells = [("-1", 50), ("0", 100), ("1", 0), ("-1", 50), ("0", 50), ("1", 50)]
    rows = [f"box;1;t;{cpu};{share}\n" for cpu, share in cells]
    (tmp_path / "s.csv").write_text(HEAD + "".join(rows))
    both = read_sadf(tmp_path / "s.csv")
    np.testing.assert_allclose(assemble(both).counts[:, 0], [1, 1])
    np.testing.assert_allclose(assemble(both, places=["CPU 0"]).counts[:, 0], [1, 0.5])


def test_a_start_before_the_first_record_is_skipped(tmp_path):
    start = "box;-1;t;LINUX-RESTART (2 CPU)\n"
    (tmp_path / "s.csv").write_text(start + HEAD + "box;1;t;-1;50\nbox;1;t;-1;20\n")
    assert assemble(read_sadf(tmp_path / "s.csv")).counts[:, 0].tolist() == [0.5, 0.2]


def test_tables_of_any_number_of_columns_are_left_out(tmp_path):
    more = "# hostname;interval;timestamp;DEV;IN*\nbox;1;t;sda;1;2;3\nbox;1;t;sdb;1;2\n"
    (tmp_path / "s.csv").write_text(more + HEAD + "box;1;t;-1;50\n" + more)
    found = assemble(read_sadf(tmp_path / "s.csv"))
    assert found.events == ("user",)
    assert "s.csv: table 'DEV;IN*' was left out." in found.warnings


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no rows of numbers"),
        (HEAD, "has no rows of numbers"),
        ("box;1;t;-1;50\n", "line 1 is no header '# hostname;interval;timestamp;...'"),
        ("# a;b;c;d\n", "line 1 is no header"),
        (
            HEAD + "box;1;t;0;9\nbox;-1;t;LINUX-RESTART (2 CPU);\n",
            "line 3: the machine was started again",
        ),
        (HEAD + "box;1;t;-1\n", "line 2 has 4 cells, the header 5"),
        (HEAD + "box;0;t;-1;50\n", "line 2: 'interval' is 0; seconds above 0"),
        (HEAD + f"box;{'9' * 400};t;-1;0\n", "a number is wanted"),
        (HEAD + "box;1;t;-1;x\n", "line 2: '%user' is 'x'; a number is wanted"),
    ],
)
def test_what_is_no_recording_of_sar_is_refused(tmp_path, text, sentence):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(ProfileError) as caught:
        read_sadf(tmp_path / "s.csv")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("s.csv: ")
