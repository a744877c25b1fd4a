"""Recordings and manifests for :mod:`mutate`: imported with their totals, or refused.

Recordings are those of the tests, in every form. A form that is new is included once the tests have
a recording of it.
"""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mutate_answers import DoubtError, doubt, one_sentence

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.data.columns import ColumnMap
from msbgen.sources.measure.imports import import_recordings
from msbgen.sources.measure.manifest import Entry, Manifest, read_manifest
from msbgen.sources.measure.readers.formats import RecordingReader

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "sources" / "measure" / "fixtures"
# A time in the wrong unit makes more intervals than this; a day at 10 ms.
LONG = 1e5
OWN = ColumnMap(
    columns={
        "time [ms]": "t [ms]",
        "place": "core",
        "instructions": "INST",
        "misses": "misses so far",
        "bytes [1e6]": "MB/s",
    },
    totals=("misses",),
    rates=("bytes",),
)
CYCLES = ColumnMap(
    columns={"place": "core", "clock [MHz]": "MHz", "cycles": "CYCLES", "instructions": "INST"},
    cycles="cycles",
    clock="clock",
)
_CORE = ("Core1 (Socket 0)",)
_OTHERS = {
    "likwid-events.txt": RecordingReader("likwid"),
    "pqos.csv": RecordingReader("pqos", step=0.1),
    "pqos-task.csv": RecordingReader("pqos"),
    "pcm.csv": RecordingReader("pcm", places=_CORE),
    "pcm-semicolon.csv": RecordingReader("pcm", places=_CORE),
    "own.csv": RecordingReader("table", columns=OWN),
    "cycles.csv": RecordingReader("table", columns=CYCLES),
    "sadf.csv": RecordingReader("sadf"),
    "prometheus.json": RecordingReader("prometheus"),
}


@dataclass(frozen=True)
class Recording:
    """A recording, or a manifest of recordings, and its reader."""

    name: str
    reader: RecordingReader
    manifest: bool = False

    def read(self, path: Path) -> None:
        """Import it and compare totals; errors in contexts of a manifest refuse it."""
        if self.manifest:
            manifest = read_manifest(path)
        else:
            manifest = Manifest((Entry(path, {"x": 1.0}),), {"x": {"units": "1"}})
        recordings = [self.reader.read(entry.path) for entry in manifest.entries]
        if any(r.times[-1] > LONG * r.interval for r in recordings):
            return
        dataset, warnings_found = import_recordings(manifest, self.reader)
        odd = [text for text in warnings_found if not one_sentence(text)]
        errors = inspect_profiles(dataset, source=path.name).errors
        if errors and self.manifest:  # contexts of its own making, which writing refuses
            raise ProfileError("\n".join(errors))
        if odd or errors:
            raise DoubtError("; ".join([*odd, *errors]))
        doubt(dataset)
        self._compare(dataset, recordings)

    def _compare(self, dataset: Any, recordings: list[Any]) -> None:
        variables = dataset.data_vars.values()
        for variable in (v for v in variables if "event" in v.attrs):
            event = variable.attrs["event"]
            wanted = sum(r.totals[r.events.index(event)] for r in recordings)
            found = float(variable.sum(dtype=float))
            if abs(found - wanted) > 1e-5 * wanted:
                raise DoubtError(
                    f"'{event}' adds up to {found:.9g}, its recordings to {wanted:.9g}"
                )


@cache
def recordings() -> list[Recording]:
    """Every recording that can be read, and manifests."""
    found = [Recording(f"tables-{name}", reader) for name, reader in _OTHERS.items()]
    found += [Recording(f"runs{ending}", RecordingReader(), True) for ending in (".csv", ".toml")]
    for path in sorted(FIXTURES.glob("perf*/*")) + sorted(FIXTURES.glob("constructed/*")):
        recording = Recording(f"{path.parent.name}-{path.name}", RecordingReader())
        with suppress(ProfileError, ArgumentError):
            recording.read(path)
            found.append(recording)
    return found


def make_originals(folder: Path) -> None:
    """Copy recordings into a folder, and write manifests of two."""
    folder.mkdir()
    for path in FIXTURES.glob("*/*"):
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    for name in ("q020_r0.csv", "q100_r0.csv"):
        shutil.copy(FIXTURES / "sweep-quota" / name, folder / name)
    (folder / "runs.csv").write_text(
        "file,run,cpu_quota [%],duration [ms],cpu_quota_achieved [%],cpu_quota_mechanism,load\n"
        "q020_r0.csv,0,20,3000.2,20.1,cgroup v1,0.3\nq100_r0.csv,0,100,648.05,98,cgroup v1,0.1\n"
    )
    (folder / "runs.toml").write_text(
        'task = "sqlite"\n[resources.cpu_quota]\nunits = "%"\nlevels = [20, 100]\n'
        '[[run]]\nfile = "q020_r0.csv"\ncpu_quota = 20\nduration = 3.0002\n'
        '[[run]]\nfile = "q100_r0.csv"\ncpu_quota = 100\ncpu_quota_achieved = 98.0\n'
    )
