"""One reader for all formats of recordings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msbgen.core.errors import ProfileError
from msbgen.data.columns import ColumnMap
from msbgen.measure.readers.likwid import read_likwid
from msbgen.measure.readers.pcm import read_pcm
from msbgen.measure.readers.perf import read_perf
from msbgen.measure.readers.pqos import read_pqos
from msbgen.measure.readers.recording import Recording, Rows, assemble
from msbgen.measure.readers.table import read_table

FORMATS = ("perf", "likwid", "pqos", "pcm", "table")


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
        rows = self._rows(path)
        return assemble(rows, self.events, self._places(rows))

    def _rows(self, path: str | os.PathLike[str]) -> Rows:
        if self.format == "likwid":
            return read_likwid(path)
        if self.format == "pqos":
            return read_pqos(path, self.step)
        if self.format == "pcm":
            return read_pcm(path, self.step)
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
