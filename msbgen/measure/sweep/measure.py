"""From a spec to a profile file: the sweep, its profiles, and profiles measured before."""

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
from msbgen.measure.actuators.kernel_files import KernelFiles, SystemFiles
from msbgen.measure.actuators.kernel_settings import KernelSettings
from msbgen.measure.progress_counters import describe_progress_counters
from msbgen.measure.sweep.actuators import make_actuators
from msbgen.measure.sweep.order import run_order
from msbgen.measure.sweep.profiles import (
    IncompleteError,
    describe_missing_runs,
    profiles_of_sweep,
    resource_labels,
)
from msbgen.measure.sweep.spec import Spec
from msbgen.measure.sweep.sweep import SweepPaths, sweep


@dataclass(frozen=True)
class SweepResult:
    """Result of a sweep: profiles, a sentence for each run that never succeeded, and warnings."""

    dataset: xr.Dataset
    missing: list[str]
    warnings: list[str]

    def raise_if_incomplete(self) -> None:
        """Raise :class:`IncompleteError` if runs are missing."""
        if self.missing:
            raise IncompleteError(*self.missing)

    def describe(self) -> list[str]:
        """Lines with the size, groups of counters, incomplete runs and progress counters."""
        runs = int(self.dataset["duration"].notnull().sum())
        head = f"{self.dataset.sizes['context']} contexts, {runs} runs"
        return [head, *describe_partial(self.dataset), *describe_progress_counters(self.dataset)]


def measure(
    spec: Spec,
    out: str | os.PathLike[str],
    *,
    first: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    files: KernelFiles | None = None,
    progress: OnProgress | None = None,
) -> SweepResult:
    """Measure a program in contexts of this machine and write its profiles to `out`.

    ``OUT.journal`` and ``OUT.recordings`` are created beside it and kept.  Runs of `first`,
    profiles measured before with the same actuators, are written, too.  `resume` continues an
    interrupted sweep; `overwrite` replaces `out`, and an interrupted sweep.  By default, `files`
    are those of the running kernel.  `progress` is called after each run.

    Raises
    ------
    ProfileError, RequirementError, SettingError, OSError
        See :func:`msbgen.measure.sweep.sweep.sweep`; all settings are restored.
    ArgumentError
        The output has the name of its own journal.
    IncompleteError
        No run succeeded.
    """
    out = Path(out)
    check_output(out, overwrite=overwrite)
    recordings = SweepPaths.beside(out).recordings
    files = files or SystemFiles()
    actuators = make_actuators(spec, KernelSettings(files, lambda record: None), "msbgen")
    labels = resource_labels(spec, actuators)
    before = None if first is None else read_profiles(first)
    if before is not None:
        check_batch(before, labels, spec.interval, str(first))
    records = sweep(spec, out, resume=resume, overwrite=overwrite, files=files, progress=progress)
    runs = [record for record in records if record["event"] == "run"]
    dataset, warnings = profiles_of_sweep(spec, runs, recordings, labels, records[0])
    if before is not None:
        order, names = run_order(spec), [resource.name for resource in spec.resources]
        before = without_replaced(before, dataset, names, order.contexts[order.again])
        try:
            dataset = join_batches(before, dataset, str(first))
        except ProfileError as error:
            remedy = "The new runs are kept: --resume without --with writes them."
            raise ProfileError(f"{error} {remedy}") from None
    write_profiles(dataset, out, overwrite=overwrite)
    return SweepResult(dataset, describe_missing_runs(spec, runs), warnings)
