"""Import recordings of other tools as a profile dataset."""

from __future__ import annotations

import re
from collections.abc import Sequence

import xarray as xr

from msbgen.core.machine import OnProgress
from msbgen.data.schema import COMPLETE
from msbgen.measure.dataset import RUN_METADATA, Run, profile_dataset
from msbgen.measure.manifest import Manifest
from msbgen.measure.readers.formats import RecordingReader

# Numbers, in which messages of one kind differ.
_NUMBER = re.compile(r"\d[\d.,]*")


def import_recordings(
    manifest: Manifest,
    reader: RecordingReader,
    *,
    interval: float | None = None,
    clock: str | None = None,
    progress: OnProgress | None = None,
) -> tuple[xr.Dataset, list[str]]:
    """Profile dataset of the recordings of a manifest, not validated, and one warning of each kind.

    For `interval` and `clock` see :func:`msbgen.measure.dataset.profile_dataset`.  ProfileError: a
    recording cannot be read, or the recordings do not fit together.
    """
    runs, warnings, last_bins = [], [], []
    for done, entry in enumerate(manifest.entries):
        recording = reader.in_context(entry.context, manifest.resources).read(entry.path)
        warnings += recording.warnings
        duration = entry.metadata.get("duration")
        if duration is None:
            duration = recording.last_activity()
            last_bins.append(float(recording.bins[-1]))
        metadata = {key: value for key, value in entry.metadata.items() if key in RUN_METADATA}
        complete = entry.metadata.get(COMPLETE, 1.0) != 0.0
        runs.append(Run(entry.context, recording, duration, entry.achieved, metadata, complete))
        if progress is not None:
            progress(done + 1, 2 * len(manifest.entries))
    if last_bins:
        what = "the duration of 1 run is that of its last stamp"
        if len(last_bins) > 1:
            what = f"the durations of {len(last_bins)} runs are those of their last stamps"
        warnings.append(
            f"{what} with a count, up to {max(last_bins):.2g} s after the end of the run; add a "
            f"column 'duration' to the manifest."
        )

    def second_half(done: int, total: int) -> None:
        if progress is not None:
            progress(total + done, 2 * total)

    dataset, more_warnings = profile_dataset(
        runs,
        manifest.resources,
        interval=interval,
        clock=clock,
        attrs={**manifest.attrs, "source": f"recorded by {reader.format}"},
        progress=second_half,
    )
    return dataset, merge_similar_messages([*warnings, *more_warnings])


def merge_similar_messages(sentences: Sequence[str]) -> list[str]:
    """One message of each kind, with the number of others that differ in file and numbers only.

    Examples
    --------
    >>> merge_similar_messages(["a.csv: 3 bins.", "b.csv: 4 bins.", "c.csv: late."])
    ['a.csv: 3 bins (and 1 more like it).', 'c.csv: late.']
    """
    kinds: dict[str, list[str]] = {}
    for sentence in sentences:
        text = sentence.partition(": ")[2] or sentence
        kinds.setdefault(_NUMBER.sub("#", text), []).append(sentence)
    return [
        same[0] if len(same) == 1 else f"{same[0].rstrip('.')} (and {len(same) - 1} more like it)."
        for same in kinds.values()
    ]
