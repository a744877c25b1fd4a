"""Reader of ``perf stat -I``, in all of its formats."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msbgen.core.errors import ProfileError
from msbgen.data.files import check_input
from msbgen.sources.measure.readers.perf_csv import read_csv
from msbgen.sources.measure.readers.perf_json import is_json, read_json
from msbgen.sources.measure.readers.recording import Recording, assemble

# Larger files are no recordings of one run [B].
_LARGEST = 2**31


def read_perf(
    path: str | os.PathLike[str], events: Sequence[str] = (), places: Sequence[str] = ()
) -> Recording:
    """The recording in a file of ``perf stat -I``: CSV with any separator, or JSON lines.

    Metrics are not read, because perf computes them from counts newer than their timestamp.

    Parameters
    ----------
    path : str or path
    events, places : sequence of str
        Events, and CPUs, cores or threads, to read, in perf's names; empty for all.

    Raises
    ------
    ProfileError
        The file cannot be read, is no recording of intervals, or has an invalid count; the message
        gives the line and a remedy.
    """
    path = check_input(path)
    if path.stat().st_size > _LARGEST:
        raise ProfileError(f"{path.name}: is larger than 2 GB; one run a file is wanted.")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ProfileError(
            f"{path.name}: is no text file; a recording of perf is wanted."
        ) from None
    return parse_perf(text, path.name, events, places)


def parse_perf(
    text: str, source: str, events: Sequence[str] = (), places: Sequence[str] = ()
) -> Recording:
    """The recording in a text; see :func:`read_perf`."""
    read = read_json if is_json(text) else read_csv
    return assemble(read(text, source), events, places)
