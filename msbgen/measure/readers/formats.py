"""Every form of recording by its name: one way to ask for any of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msbgen.core.errors import ProfileError
from msbgen.measure.readers.likwid import read_likwid
from msbgen.measure.readers.pcm import read_pcm
from msbgen.measure.readers.perf import read_perf
from msbgen.measure.readers.pqos import read_pqos
from msbgen.measure.readers.recording import Recording, Rows, assemble
from msbgen.measure.readers.table import ColumnMap, read_table

FORMATS = ("perf", "likwid", "pqos", "pcm", "table")


@dataclass(frozen=True)
class RecordingReader:
    """How recordings are read.

    Attributes
    ----------
    form : {"perf", "likwid", "pqos", "pcm", "table"}
    events, places : tuple of str
        What to take; all of it where it is empty.
    step : float, optional
        Polling interval [s], for tools whose stamps have whole seconds.
    columns : ColumnMap, optional
        What the columns of a table are.
    """

    form: str = "perf"
    events: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    step: float | None = None
    columns: ColumnMap | None = None

    def read(self, path: str | os.PathLike[str]) -> Recording:
        """Read one recording.

        Raises
        ------
        ProfileError
            The file cannot be read, or holds what no recording of this form does.
        """
        if self.form == "perf":
            return read_perf(path, self.events, self.places)
        rows = self._rows(path)
        return assemble(rows, self.events, self._places(rows))

    def _rows(self, path: str | os.PathLike[str]) -> Rows:
        if self.form == "likwid":
            return read_likwid(path)
        if self.form == "pqos":
            return read_pqos(path, self.step)
        if self.form == "pcm":
            return read_pcm(path, self.step)
        if self.columns is None:
            raise ProfileError(
                f"{Path(path).name}: is a table of which no column map tells the columns; give one."
            )
        return read_table(path, self.columns)

    def _places(self, rows: Rows) -> Sequence[str]:
        """Of PCM one place or more must be named: the system's counts are those of its cores."""
        if self.form == "pcm" and not self.places:
            known = ", ".join(dict.fromkeys(rows.places))
            raise ProfileError(
                f"{rows.source}: counts {known}, one inside the other; the places to take are "
                f"wanted (--places)."
            )
        return self.places
