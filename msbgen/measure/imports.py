"""From recordings and what is known of their runs to a profile dataset."""

from __future__ import annotations

import re
from collections.abc import Sequence

import xarray as xr

from msbgen.core.machine import OnProgress
from msbgen.data.schema import COMPLETE
from msbgen.measure.dataset import RUN_METADATA, Run, profile_dataset
from msbgen.measure.manifest import Manifest
from msbgen.measure.readers.formats import RecordingReader

# Numbers and names of files, in which sentences of one kind differ.
_OWN = re.compile(r"\d[\d.,]*")


def import_recordings(
    manifest: Manifest,
    reader: RecordingReader,
    *,
    interval: float | None = None,
    clock: str | None = None,
    progress: OnProgress | None = None,
) -> tuple[xr.Dataset, list[str]]:
    """Read the recordings of a manifest and put them together.

    Parameters
    ----------
    manifest : Manifest
    reader : RecordingReader
    interval, clock
        As :func:`msbgen.measure.dataset.profile_dataset`.
    progress : callback

    Returns
    -------
    dataset : xarray.Dataset
        Not validated.
    warnings : list of str
        What is to be known of it: one sentence of each kind.

    Raises
    ------
    ProfileError
        A recording that cannot be read, or recordings that do not fit together.
    """
    runs, warnings, guessed = [], [], []
    for done, entry in enumerate(manifest.entries):
        recording = reader.read(entry.path)
        warnings += recording.warnings
        duration = entry.known.get("duration")
        if duration is None:
            duration = recording.last_activity()
            guessed.append(float(recording.bins[-1]))
        notes = {name: value for name, value in entry.known.items() if name in RUN_METADATA}
        complete = entry.known.get(COMPLETE, 1.0) != 0.0
        runs.append(Run(entry.context, recording, duration, entry.achieved, notes, complete))
        if progress is not None:
            progress(done + 1, 2 * len(manifest.entries))
    if guessed:
        warnings.append(
            f"the durations of {len(guessed)} runs are those of their last stamps with a count, up "
            f"to {max(guessed):.2g} s behind the ends of the runs; a manifest's column 'duration' "
            f"tells them."
        )

    def second_half(done: int, total: int) -> None:
        if progress is not None:
            progress(total + done, 2 * total)

    dataset, said = profile_dataset(
        runs,
        manifest.resources,
        interval=interval,
        clock=clock,
        attrs={**manifest.attrs, "source": f"recorded by {reader.form}"},
        progress=second_half,
    )
    return dataset, merge_similar_messages([*warnings, *said])


def merge_similar_messages(sentences: Sequence[str]) -> list[str]:
    """The first of those sentences that differ in files and numbers only, and how many there are.

    Examples
    --------
    >>> merge_similar_messages(["a.csv: 3 bins.", "b.csv: 4 bins.", "c.csv: late."])
    ['a.csv: 3 bins (and so 1 more).', 'c.csv: late.']
    """
    kinds: dict[str, list[str]] = {}
    for sentence in sentences:
        text = sentence.partition(": ")[2] or sentence
        kinds.setdefault(_OWN.sub("#", text), []).append(sentence)
    return [
        same[0] if len(same) == 1 else f"{same[0].rstrip('.')} (and so {len(same) - 1} more)."
        for same in kinds.values()
    ]
