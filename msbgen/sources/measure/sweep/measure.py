"""From a spec to a profile file: the sweep, its profiles, and profiles measured before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from msbgen.core.errors import ProfileError
from msbgen.core.machine import OnProgress
from msbgen.core.words import number_of
from msbgen.data.files import check_output, private_folder
from msbgen.data.merge import check_batch, join_batches, without_replaced
from msbgen.data.partial import describe_partial
from msbgen.data.profiles import Profiles
from msbgen.data.store import read_profiles, write_profiles
from msbgen.sources.measure.actuators.kernel_files import KernelFiles, SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.progress_counters import describe_progress_counters
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.order import run_order
from msbgen.sources.measure.sweep.profiles import (
    IncompleteError,
    describe_missing_runs,
    profiles_of_sweep,
    resource_labels,
)
from msbgen.sources.measure.sweep.spec import Spec
from msbgen.sources.measure.sweep.sweep import SweepPaths, sweep


@dataclass(frozen=True)
class SweepResult:
    """Result of a sweep.

    Attributes
    ----------
    datasets : dict of Path to xarray.Dataset
        Profiles by the file that holds them, one for each variant.
    missing : list of str
        A sentence for each run that never succeeded.
    warnings : list of str
    """

    datasets: dict[Path, xr.Dataset]
    missing: list[str]
    warnings: list[str]

    def raise_if_incomplete(self) -> None:
        """Raise :class:`IncompleteError` if runs are missing."""
        if self.missing:
            raise IncompleteError(*self.missing)

    def describe(self) -> Iterator[str]:
        """Lines with the size, groups of counters, incomplete runs and progress counters."""
        for path, dataset in self.datasets.items():
            runs = int(dataset["duration"].notnull().sum())
            contexts = number_of(dataset.sizes["context"], "context")
            yield f"{path}: {contexts}, {number_of(runs, 'run')}"
            profiles = Profiles.of(dataset)
            yield from describe_partial(profiles)
            yield from describe_progress_counters(profiles)


def file_of_each(spec: Spec, path: Path) -> dict[str, Path]:
    """The profile file of each variant: ``out-NAME.nc`` for ``out.nc``, which is that of none."""
    return {
        name: path.with_stem(f"{path.stem}-{name}") if name else path for name in spec.programs()
    }


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
    profiles measured before with the same actuators, are written, too.  Each variant has a file of
    its own (:func:`file_of_each`), with the attributes ``variant`` and ``sweep``, which is the same
    for runs that were interleaved.  `resume` continues an
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
    outputs = file_of_each(spec, out)
    for path in outputs.values():
        check_output(path, overwrite=overwrite)
    recordings = SweepPaths.beside(out).recordings
    files = files or SystemFiles()
    actuators = make_actuators(spec, KernelSettings(files, lambda record: None), "msbgen")
    labels = resource_labels(spec, actuators)
    earlier = {} if first is None else file_of_each(spec, Path(first))
    before = {variant: read_profiles(path) for variant, path in earlier.items()}
    for variant, dataset in before.items():
        check_batch(dataset, labels, spec.interval, str(earlier[variant]))
    records = sweep(spec, out, resume=resume, overwrite=overwrite, files=files, progress=progress)
    runs = [record for record in records if record["event"] == "run"]
    datasets: dict[Path, xr.Dataset] = {}
    warnings: list[str] = []
    with private_folder(recordings, new=False) as folder:
        for variant, path in outputs.items():
            own = [record for record in runs if record.get("variant", "") == variant]
            dataset, sentences = profiles_of_sweep(spec, own, folder, labels, records[0])
            warnings += [f"{path}: {sentence}" if variant else sentence for sentence in sentences]
            if variant:
                dataset.attrs |= {"variant": variant, "sweep": records[0]["tag"]}
            if variant in before:
                dataset = _joined(before[variant], dataset, spec, str(earlier[variant]))
            datasets[path] = dataset
    for path, dataset in datasets.items():
        write_profiles(dataset, path, overwrite=overwrite)
    return SweepResult(datasets, describe_missing_runs(spec, runs), warnings)


def _joined(before: xr.Dataset, dataset: xr.Dataset, spec: Spec, source: str) -> xr.Dataset:
    """Runs measured before and new ones, which replace those that a plan measures again."""
    order, names = run_order(spec), [resource.name for resource in spec.resources]
    kept = without_replaced(before, dataset, names, order.contexts[order.again])
    try:
        joined = join_batches(kept, dataset, source)
    except ProfileError as error:
        remedy = "The new runs are kept: --resume without --with writes them."
        raise ProfileError(f"{error} {remedy}") from None
    # variants were interleaved if all of their runs were
    sweeps = [part.attrs["sweep"] for part in (before, dataset) if "sweep" in part.attrs]
    joined.attrs.pop("sweep", None)
    return joined.assign_attrs(sweep=" ".join(sweeps)) if len(sweeps) == 2 else joined
