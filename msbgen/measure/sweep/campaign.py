"""From a spec to a profile file: the sweep, its harvest, and what was measured before."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from msbgen.core.errors import ProfileError
from msbgen.core.machine import OnProgress
from msbgen.data.files import check_output
from msbgen.data.merge import check_batch, join_batches, without_replaced
from msbgen.data.partial import describe_partial
from msbgen.data.store import read_profiles, write_profiles
from msbgen.measure.actuators.kernelfs import KernelFiles, SystemFiles
from msbgen.measure.actuators.settings import Settings
from msbgen.measure.clocks import describe_clocks
from msbgen.measure.sweep.actuators import actuators_of
from msbgen.measure.sweep.harvest import IncompleteError, harvest, left_out, resource_labels
from msbgen.measure.sweep.order import order_of
from msbgen.measure.sweep.spec import Spec
from msbgen.measure.sweep.sweep import Places, sweep


@dataclass(frozen=True)
class Measured:
    """What a campaign gave.

    Attributes
    ----------
    dataset : xarray.Dataset
        As it was written.
    missing : list of str
        Runs that never succeeded, a sentence each.
    warnings : list of str
        What is to be known of the others.
    """

    dataset: xr.Dataset
    missing: list[str]
    warnings: list[str]

    def complete(self) -> None:
        """Raise :class:`IncompleteError` where runs are missing."""
        if self.missing:
            raise IncompleteError(*self.missing)

    def describe(self) -> list[str]:
        """What it gave, in which groups, what was cut, and how counters would do as clocks."""
        runs = int(self.dataset["duration"].notnull().sum())
        head = f"{self.dataset.sizes['context']} contexts, {runs} runs"
        return [head, *describe_partial(self.dataset), *describe_clocks(self.dataset)]


def measure(
    spec: Spec,
    out: str | os.PathLike[str],
    *,
    first: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    files: KernelFiles | None = None,
    progress: OnProgress | None = None,
) -> Measured:
    """Measure a program in contexts of this machine and write its profiles.

    Parameters
    ----------
    spec : Spec
    out : path
        The profile file; ``OUT.journal`` and ``OUT.recordings`` are made beside it, and stay.
    first : path, optional
        Profiles measured before by the same means, whose runs are written, too.
    resume : bool
        Go on with what was begun.
    overwrite : bool
        Whether `out`, and a sweep that was begun, may be replaced.
    files : KernelFiles, optional
        Of the kernel that runs, where none are given.
    progress : callback
        Told of each run.

    Returns
    -------
    Measured

    Raises
    ------
    ProfileError, LackError, SettingError, OSError
        As :func:`msbgen.measure.sweep.sweep.sweep`; before anything is changed, or with everything
        put back.
    ArgumentError
        An output that is named as its own journal.
    IncompleteError
        Not one run succeeded.
    """
    out = Path(out)
    check_output(out, overwrite=overwrite)
    recordings = Places.beside(out).recordings
    files = files or SystemFiles()
    actuators = actuators_of(spec, Settings(files, lambda record: None), "msbgen")
    labels = resource_labels(spec, actuators)
    before = None if first is None else read_profiles(first)
    if before is not None:
        check_batch(before, labels, spec.interval, str(first))
    records = sweep(spec, out, resume=resume, overwrite=overwrite, files=files, progress=progress)
    runs = [record for record in records if record["event"] == "run"]
    dataset, warnings = harvest(spec, runs, recordings, labels, records[0])
    if before is not None:
        order, names = order_of(spec), [resource.name for resource in spec.resources]
        before = without_replaced(before, dataset, names, order.contexts[order.again])
        try:
            dataset = join_batches(before, dataset, str(first))
        except ProfileError as error:
            kept = "The new runs are kept: --resume without --with writes them."
            raise ProfileError(f"{error} {kept}") from None
    write_profiles(dataset, out, overwrite=overwrite)
    return Measured(dataset, left_out(spec, runs), warnings)
