"""One way to ask for recordings of any form."""

import pytest

from measure_fixtures import FIXTURES
from msbgen.core.errors import ProfileError
from msbgen.measure.readers.forms import FORMS, Reader
from msbgen.measure.readers.table import ColumnMap

TABLES = FIXTURES / "tables"
EACH = {
    "perf": (Reader(), FIXTURES / "sweep-quota/q100_r0.csv"),
    "likwid": (Reader("likwid"), TABLES / "likwid-events.txt"),
    "pqos": (Reader("pqos", step=0.1), TABLES / "pqos.csv"),
    "pcm": (Reader("pcm", places=("Core1 (Socket 0)",)), TABLES / "pcm.csv"),
    "table": (
        Reader("table", columns=ColumnMap("t [ms]", {"a": "INST"}, place="core")),
        TABLES / "own.csv",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(form):
    reader, path = EACH[form]
    found = reader.read(path)
    assert found.totals.min() > 0
    assert found.source == path.name


def test_events_and_places_may_be_chosen():
    reader = Reader(events=("instructions",), places=("CPU1",))
    found = reader.read(FIXTURES / "perf-6.1.192/A.csv")
    both = Reader(events=("instructions",)).read(FIXTURES / "perf-6.1.192/A.csv")
    assert 0 < found.totals[0] < both.totals[0]
    with pytest.raises(ProfileError, match="there is no place 'CPU7'; it has CPU0, CPU1"):
        Reader(places=("CPU7",)).read(FIXTURES / "perf-6.1.192/A.csv")
    with pytest.raises(ProfileError, match="there is no place 'CPU0'; it has none"):
        Reader(places=("CPU0",)).read(FIXTURES / "perf-6.1.192/tab.csv")


def test_what_cannot_be_told_is_asked_for():
    with pytest.raises(ProfileError, match=r"one inside the other; the places to take are wanted"):
        Reader("pcm").read(TABLES / "pcm.csv")
    with pytest.raises(ProfileError, match="no column map tells the columns"):
        Reader("table").read(TABLES / "own.csv")
