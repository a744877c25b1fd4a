"""Tables with the runs of all contexts."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data.columns import ColumnMap
from msbgen.data.energy import energy_counters
from msbgen.sources.measure.imports import import_recordings
from msbgen.sources.measure.manifest import Entry, Manifest
from msbgen.sources.measure.readers.column_map import recording_map
from msbgen.sources.measure.readers.formats import RecordingReader
from msbgen.sources.measure.run_tables import read_run_tables

COLUMNS = {
    "ways": "Cache ways",
    "clock [GHz]": "GHz",
    "run": "no",
    "duration [ms]": "took",
    "time [s]": "t",
    "items": "n",
    "energy [J]": "E",
}
MAP = ColumnMap(("ways", "clock"), (), COLUMNS, totals=("items",))
HEADER = "Cache ways,GHz,no,t,n,E,took"


def rows_of(seed=0):
    """Rows of two or three runs of three contexts: context, run, time, items, energy, duration."""
    rng = np.random.default_rng(seed)
    for ways, clock, n in ((2, 1.2, 2), (8, 1.2, 3), (2, 2, 2)):
        for run in range(n):
            bins = int(rng.integers(3, 6))
            items = np.cumsum(rng.integers(1, 9, bins))
            for k in range(bins):
                yield ways, clock, f"r{run}", (k + 1) / 8, items[k], 2 * k + 1, 125 * bins


def written(path, rows, header=HEADER):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def imported(path, columns=MAP):
    reader = RecordingReader("table", columns=columns)
    manifest, recordings = read_run_tables([path], reader)
    return import_recordings(manifest, reader, recordings=recordings, clock="items")


def test_a_table_of_all_runs_is_that_of_single_recordings(tmp_path):
    """Also in any order of its rows."""
    rows = list(rows_of())
    found, warnings = imported(written(tmp_path / "all.csv", rows))
    assert warnings == []
    entries = []
    for key in dict.fromkeys(row[:3] for row in rows):
        own = [row for row in rows if row[:3] == key]
        path = written(tmp_path / "{}-{}-{}.csv".format(*key), own)
        known = {"duration": own[0][-1] / 1000}
        entries.append(Entry(path, {"ways": key[0], "clock": key[1]}, {}, known))
    of_one = {name: COLUMNS[name] for name in ("time [s]", "items", "energy [J]")}
    units = {"ways": {"units": "1"}, "clock": {"units": "GHz"}}
    reader = RecordingReader("table", columns=ColumnMap(columns=of_one, totals=("items",)))
    wanted, _ = import_recordings(Manifest(tuple(entries), units), reader, clock="items")
    assert found.identical(wanted)
    assert energy_counters(found) == ["energy"]
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    shuffled.sort(key=lambda row: row[2])  # the runs of a context stand in the order of the table
    assert imported(written(tmp_path / "mixed.csv", shuffled))[0].identical(found)


def test_headers_that_are_names_need_no_columns(tmp_path):
    """As pandas writes them, with an index and empty cells."""
    rows = "0,2,0,0.1,5,\n1,2,0,0.2,5,\n2,2,1,0.1,4,7\n3,4,0,0.1,9,8\n"
    (tmp_path / "t.csv").write_text(f",ways,run,time [s],items,misses\n{rows}")
    columns = recording_map({"resources": ["ways"]}, "map.toml")
    found, warnings = imported(tmp_path / "t.csv", columns)
    assert found.sizes == {"context": 2, "run": 2, "time": 2}
    assert np.isnan(found["misses"].values[0, 0]).all()  # not counted in that run
    assert any("misses has no number in the run" in text for text in warnings)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2,1,0,0.1,1,1,100\n2,1,0,0.2,2,1,90\n", "line 3 has the duration '90'; the duration of "
         "line 2, of the same run, is wanted"),
        ("2,1,0,0.1,1,1,0\n", "line 2 has the duration '0'; a time above 0 is wanted"),
        ("2,1,0,0.1,1,1,9000\n", "all.csv (ways=2 clock=1 run=0): ends at 0.1 s, but its run has"),
        ("x,1,0,0.1,1,1,100\n", "line 2 has the ways 'x'; a number is wanted"),
        ("2,1,0,0.1,1,1,200\n2,1,0,0.1,1,1,200\n2,1,0,0.2,1,1,200\n2,1,0,0.3,2,1,200\n",
         "line 3 repeats one; drop it"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_run_has_its_line(tmp_path, text, sentence):
    (tmp_path / "all.csv").write_text(f"{HEADER}\n{text}")
    with pytest.raises(ProfileError) as caught:
        imported(tmp_path / "all.csv")
    assert sentence in str(caught.value)


def test_times_that_go_back_need_numbers_of_runs(tmp_path):
    (tmp_path / "t.csv").write_text("ways,time [s],items\n2,0.1,3\n2,0.2,5\n4,0.1,9\n2,0.1,4\n")
    columns = recording_map({"resources": ["ways"]}, "map.toml")
    with pytest.raises(ProfileError) as caught:
        imported(tmp_path / "t.csv", columns)
    assert "line 5 has the time '0.1'; a later one than in line 3, of the same" in str(caught.value)
    assert "or a column 'run' that distinguishes its runs" in str(caught.value)


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        (["cores"], "a column 'cores' is wanted"),
        (["time"], "'time' is a name that msbgen reserves"),
        (["L2 ways"], "resource 'L2 ways' is invalid; letters, digits and '_' are wanted"),
    ],
)
def test_resources_that_are_none_are_refused(tmp_path, resources, sentence):
    (tmp_path / "t.csv").write_text("ways,L2 ways,time [s],items\n2,3,0.1,3\n")
    columns = recording_map({"resources": resources}, "map.toml")
    with pytest.raises(ProfileError, match=sentence):
        imported(tmp_path / "t.csv", columns)


def test_cycles_may_be_timed_by_a_resource_of_the_table(tmp_path):
    rows = [(freq, run, f"{freq}e8", 5) for freq in (1, 2) for run in (0, 1) for _ in range(2)]
    path = written(tmp_path / "t.csv", rows, "freq [GHz],run,cyc,items")
    content = {"resources": ["freq"], "cycles": "cyc", "clock": "freq"}
    found, _ = imported(path, recording_map(content, "map.toml"))
    np.testing.assert_allclose(found["duration"].values, np.full((2, 2), 0.2))


def test_cycles_need_numbers_of_runs(tmp_path):
    """Nothing else says where the second run of a context begins."""
    path = written(tmp_path / "t.csv", [(1, "1e8", 5)] * 4, "freq [GHz],cyc,items")
    content = {"resources": ["freq"], "cycles": "cyc", "clock": "freq"}
    with pytest.raises(ProfileError) as caught:
        imported(path, recording_map(content, "map.toml"))
    assert "t.csv: cycles do not tell where a run begins; a column 'run'" in str(caught.value)
