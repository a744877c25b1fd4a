"""One way to ask for recordings of any form."""

import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.data.columns import ColumnMap
from msbgen.sources.measure.readers.formats import FORMATS, RecordingReader

TABLES = FIXTURES / "tables"
EACH = {
    "perf": (RecordingReader(), FIXTURES / "sweep-quota/q100_r0.csv"),
    "likwid": (RecordingReader("likwid"), TABLES / "likwid-events.txt"),
    "pqos": (RecordingReader("pqos", step=0.1), TABLES / "pqos.csv"),
    "pcm": (RecordingReader("pcm", places=("Core1 (Socket 0)",)), TABLES / "pcm.csv"),
    "sadf": (RecordingReader("sadf", events=("user", "kbmemused", "pgpgin")), TABLES / "sadf.csv"),
    "prometheus": (RecordingReader("prometheus"), TABLES / "prometheus.json"),
    "power": (RecordingReader("power"), TABLES / "nvidia-smi.csv"),
    "table": (
        RecordingReader(
            "table", columns=ColumnMap(columns={"time [s]": "t [ms]", "a": "INST", "place": "core"})
        ),
        TABLES / "own.csv",
    ),
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_is_read(form):
    reader, path = EACH[form]
    found = reader.read(path)
    assert found.totals.min() > 0
    assert found.source == path.name


def test_events_and_places_may_be_chosen():
    reader = RecordingReader(events=("instructions",), places=("CPU1",))
    found = reader.read(FIXTURES / "perf-6.1.192/A.csv")
    both = RecordingReader(events=("instructions",)).read(FIXTURES / "perf-6.1.192/A.csv")
    assert 0 < found.totals[0] < both.totals[0]
    with pytest.raises(ProfileError, match="there is no place 'CPU7'; it has CPU0, CPU1"):
        RecordingReader(places=("CPU7",)).read(FIXTURES / "perf-6.1.192/A.csv")
    with pytest.raises(ProfileError, match="there is no place 'CPU0'; it has none"):
        RecordingReader(places=("CPU0",)).read(FIXTURES / "perf-6.1.192/tab.csv")


def test_what_cannot_be_told_is_asked_for():
    with pytest.raises(ProfileError, match=r"which contain each other; choose some of them"):
        RecordingReader("pcm").read(TABLES / "pcm.csv")
    with pytest.raises(ProfileError, match="a table needs a column map"):
        RecordingReader("table").read(TABLES / "own.csv")


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [("likwid", "has no header"), ("pcm", "has no two rows"), ("pqos", "has no header")],
)
def test_the_refusal_of_a_machine_without_counters_is_no_recording(tool, sentence):
    with pytest.raises(ProfileError, match=sentence):
        RecordingReader(tool, step=0.1).read(FIXTURES / f"refused/{tool}-no-hardware.txt")
