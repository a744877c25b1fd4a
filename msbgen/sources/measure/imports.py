"""Import recordings of other tools as a profile dataset."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import xarray as xr

from msbgen.core.errors import ProfileError
from msbgen.core.machine import OnProgress
from msbgen.data.schema import COMPLETE
from msbgen.sources.measure.dataset import RUN_METADATA, Run, profile_dataset
from msbgen.sources.measure.manifest import Manifest
from msbgen.sources.measure.readers.formats import RecordingReader
from msbgen.sources.measure.readers.recording import Recording

# A run and its recording differ in length by less than this factor, or by less than this [s].
_FACTOR, _SHORT = 2.0, 0.1
# Numbers, in which messages of one kind differ.
_NUMBER = re.compile(r"\d[\d.,]*")


def import_recordings(
    manifest: Manifest,
    reader: RecordingReader,
    *,
    recordings: Iterable[Recording] | None = None,
    interval: float | None = None,
    clock: str | None = None,
    progress: OnProgress | None = None,
) -> tuple[xr.Dataset, list[str]]:
    """Profile dataset of the recordings of a manifest, not validated, and one warning of each kind.

    `recordings` are those of its entries where they were read before, as from tables of all runs.
    For `interval` and `clock` see :func:`msbgen.measure.dataset.profile_dataset`.  ProfileError: a
    recording cannot be read, or the recordings do not fit together.
    """
    if recordings is None:
        recordings = _read(manifest, reader)
    runs, warnings, last_bins = [], [], []
    for done, (entry, recording) in enumerate(zip(manifest.entries, recordings, strict=True)):
        warnings += recording.warnings
        duration = entry.metadata.get("duration")
        if duration is None:
            duration = recording.last_activity()
            last_bins.append(float(recording.bins[-1]))
        else:
            _check_duration(duration, recording, cut=entry.metadata.get(COMPLETE) == 0.0)
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
            f"column 'duration' to the manifest or table."
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


def _read(manifest: Manifest, reader: RecordingReader) -> Iterator[Recording]:
    """The recordings of a manifest; errors name the folder where several files have one name."""
    names = Counter(entry.path.name for entry in manifest.entries)
    for entry in manifest.entries:
        try:
            yield reader.in_context(entry.context, manifest.resources).read(entry.path)
        except ProfileError as error:
            if names[entry.path.name] == 1:
                raise
            folder = entry.path.parent
            raise ProfileError(*(f"{folder}: {problem}" for problem in error.problems)) from None


def _check_duration(duration: float, recording: Recording, *, cut: bool) -> None:
    """Refuse a duration [s] far from the recording's, unless a run was cut before its last rows.

    Tools print the last timestamp after the end, and on a busy machine several bins late.
    """
    times, ends = recording.times, recording.last_activity()
    begins = float(times[times < ends][-1]) if (times < ends).any() else 0.0  # the last counts
    spare = max(_SHORT, 10 * recording.interval)
    long = duration > max(_FACTOR * times[-1], times[-1] + spare) and not cut
    short = begins > max(_FACTOR * duration, duration + spare)
    if long or short:
        state = f"ends at {times[-1]:.4g}" if long else f"counts until {ends:.4g}"
        raise ProfileError(
            f"{recording.source}: {state} s, but its run has a duration of {duration:.4g} s; "
            f"correct it, its unit in the header, such as 'duration [ms]' (s without one), or that "
            f"of the recording's time."
        )


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
