"""Recordings of a manifest as a dataset."""

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.data.columns import ColumnMap
from msbgen.sources.measure.imports import import_recordings, merge_similar_messages
from msbgen.sources.measure.manifest import Entry, Manifest
from msbgen.sources.measure.readers.formats import RecordingReader
from msbgen.sources.measure.readers.perf import read_perf

SWEEP = FIXTURES / "sweep-quota"
QUOTA = {"cpu_quota": {"units": "%", "levels": [20.0, 100.0]}}


def manifest(*known):
    files = (("q100_r0.csv", 100.0), ("q020_r0.csv", 20.0))
    return Manifest(
        tuple(
            Entry(SWEEP / name, {"cpu_quota": quota}, {"cpu_quota": quota - 1}, dict(more))
            for (name, quota), more in zip(files, known)
        ),
        QUOTA,
        {"task": "sqlite"},
    )


def test_recordings_become_profiles_that_keep_their_totals():
    steps = []
    dataset, warnings = import_recordings(
        manifest({"duration": 0.6480501, "steal": 0.02}, {"duration": 3.0002066}),
        RecordingReader(),
        progress=lambda done, total: steps.append((done, total)),
    )
    assert warnings == []
    assert inspect_profiles(dataset).errors == []
    assert dataset.attrs["task"] == "sqlite"
    assert dataset.attrs["source"] == "recorded by perf"
    np.testing.assert_allclose(dataset["duration"].values[:, 0], [3.0002066, 0.6480501])
    np.testing.assert_array_equal(dataset["cpu_quota_achieved"].values[:, 0], [19, 99])
    np.testing.assert_array_equal(dataset["steal"].values[:, 0], [np.nan, 0.02])
    for i, name in enumerate(("q020_r0.csv", "q100_r0.csv")):
        recording = read_perf(SWEEP / name)
        for event, total in zip(("task_clock", "page_faults"), recording.totals):
            found = dataset[event].isel(context=i).sum(dtype=float)
            assert float(found) == pytest.approx(total, rel=1e-6)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_durations_that_are_not_known_are_said():
    dataset, warnings = import_recordings(manifest({"duration": 0.6480501}, {}), RecordingReader())
    (message,) = warnings
    assert message.startswith("the duration of 1 run is that of its last stamp with a count")
    assert dataset["duration"].values[0, 0] == read_perf(SWEEP / "q020_r0.csv").last_activity()


@pytest.mark.parametrize(
    ("of_run", "sentence"),
    [
        ({"duration": 648.0}, "q100_r0.csv: ends at 0.6577 s, but its run has a duration of 648 s"),
        ({"duration": 0.000648}, "q100_r0.csv: counts until 0.6476 s, but its run has a duration"),
        ({"duration": 648.0, "complete": 0.0}, None),  # the recorder may have been killed before
        ({"duration": 1.25}, None),
    ],
)
def test_a_duration_in_another_unit_is_refused(of_run, sentence):
    given = manifest(of_run, {"duration": 3.0002066})
    if sentence is None:
        import_recordings(given, RecordingReader(), interval=0.1)
        return
    with pytest.raises(ProfileError) as caught:
        import_recordings(given, RecordingReader())
    assert sentence in str(caught.value)
    assert "its unit in the header, such as 'duration [ms]'" in str(caught.value)


def test_warnings_of_one_kind_are_said_once():
    found = merge_similar_messages(
        ["a.csv: 3 of 10 bins are late.", "b.csv: 12 of 10 bins are late.", "odd.", "c.csv: gone."]
    )
    assert found == ["a.csv: 3 of 10 bins are late (and 1 more like it).", "odd.", "c.csv: gone."]


def test_errors_name_the_folder_of_files_with_one_name(tmp_path):
    entries = []
    for level, text in ((1.0, "t,A\n0.1,3\n"), (2.0, "t,A\n0.1,x\n")):
        (tmp_path / f"{level:g}").mkdir()
        path = tmp_path / f"{level:g}" / "own.csv"
        path.write_text(text)
        entries.append(Entry(path, {"x": level}))
    reader = RecordingReader("table", columns=ColumnMap(columns={"time [s]": "t", "a": "A"}))
    units = {"x": {"units": "1"}}
    with pytest.raises(ProfileError, match=r"2: own\.csv: line 2 has the a 'x'"):
        import_recordings(Manifest(tuple(entries), units), reader)
    with pytest.raises(ProfileError, match=r"^own\.csv: line 2"):
        import_recordings(Manifest(tuple(entries[1:]), units), reader)
