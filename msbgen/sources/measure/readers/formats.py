"""One reader for all formats of recordings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msbgen.core.errors import ProfileError
from msbgen.data.columns import ColumnMap
from msbgen.data.files import check_input
from msbgen.sources.measure.readers.column_map import with_clock_of
from msbgen.sources.measure.readers.likwid import read_likwid
from msbgen.sources.measure.readers.pcm import read_pcm
from msbgen.sources.measure.readers.perf import read_perf
from msbgen.sources.measure.readers.power_log import is_power_log, read_power_log
from msbgen.sources.measure.readers.pqos import read_pqos
from msbgen.sources.measure.readers.prometheus import read_prometheus
from msbgen.sources.measure.readers.recording import Recording, Rows, assemble
from msbgen.sources.measure.readers.sadf import read_sadf
from msbgen.sources.measure.readers.table import read_table

FORMATS = ("perf", "likwid", "pqos", "pcm", "sadf", "prometheus", "power", "table")


# What only the first lines of one format have.
_MARKS = {
    "likwid": re.compile(r"^# ?(GID|CORES|HWThreads)\b", re.M),
    "pqos": re.compile(r"^Time,(Core|PID|Socket)", re.M),
    "sadf": re.compile(r"^# hostname;interval;timestamp", re.M),
    "pcm": re.compile(r"^System[;,].*\r?\n.*Date[;,]Time[;,]", re.M),
    "prometheus": re.compile(r'"resultType"\s*:'),
}


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a recording by its first lines; perf's where no other one has them."""
    with check_input(path).open("rb") as stream:
        text = stream.read(2**16).decode("utf-8", "replace")
    found = next((name for name, mark in _MARKS.items() if mark.search(text)), "perf")
    return "power" if found == "perf" and is_power_log(text) else found


@dataclass(frozen=True)
class RecordingReader:
    """Reads recordings of one format."""

    format: str = "perf"
    events: tuple[str, ...] = ()  # to read; empty for all
    places: tuple[str, ...] = ()  # CPUs, cores or threads to read; empty for all
    step: float | None = None  # polling interval [s], for timestamps in whole seconds
    columns: ColumnMap | None = None  # of a table

    def read(self, path: str | os.PathLike[str]) -> Recording:
        """The recording in a file; ProfileError if it cannot be read, or has another format."""
        if self.format == "perf":
            return read_perf(path, self.events, self.places)
        return self.assemble(self._rows(path))

    def assemble(self, rows: Rows) -> Recording:
        """The recording of rows; ProfileError as :meth:`read`."""
        return assemble(rows, self.events, self._places(rows))

    def in_context(
        self, context: Mapping[str, float], resources: Mapping[str, Mapping[str, Any]]
    ) -> RecordingReader:
        """The reader of a recording in a context, whose clock may be that of its cycles."""
        if self.columns is None or not self.columns.clock:
            return self
        units = {name: str(attrs.get("units", "1")) for name, attrs in resources.items()}
        return replace(self, columns=with_clock_of(self.columns, context, units))

    def _rows(self, path: str | os.PathLike[str]) -> Rows:
        if self.format == "likwid":
            return read_likwid(path)
        if self.format == "pqos":
            return read_pqos(path, self.step)
        if self.format == "pcm":
            return read_pcm(path, self.step)
        if self.format == "power":
            return read_power_log(path, self.step)
        if self.format == "sadf":
            return read_sadf(path)
        if self.format == "prometheus":
            return read_prometheus(path)
        if self.columns is None:
            raise ProfileError(
                f"{Path(path).name}: a table needs a column map; give one (--columns)."
            )
        return read_table(path, self.columns)

    def _places(self, rows: Rows) -> Sequence[str]:
        """Places to read; for PCM they are required, because its places contain each other."""
        if self.format == "pcm" and not self.places:
            places = ", ".join(dict.fromkeys(rows.places))
            raise ProfileError(
                f"{rows.source}: counts {places}, which contain each other; choose some of them "
                f"(--places)."
            )
        return self.places
