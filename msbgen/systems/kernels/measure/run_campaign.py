"""Measure a campaign of kernels and networks: sessions, journal, datasets."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from msbgen.core.machine import OnProgress
from msbgen.data.files import check_output, private_folder
from msbgen.sources.measure.actuators.kernel_files import KernelFiles, SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.dry_run import describe_dry_run
from msbgen.sources.measure.sweep.journal import Record
from msbgen.sources.measure.sweep.order import run_order
from msbgen.sources.measure.sweep.profiles import IncompleteError, describe_missing_runs
from msbgen.sources.measure.sweep.spec import Spec
from msbgen.sources.measure.sweep.sweep import SweepPaths, sweep
from msbgen.systems.kernels.dataset import write as write_kernels
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.collect import collect, workloads_of
from msbgen.systems.kernels.measure.plan import make_plan
from msbgen.systems.kernels.measure.recorder import SessionRecorder
from msbgen.systems.kernels.workloads import write_workload


@dataclass(frozen=True)
class CampaignResult:
    """Datasets of kernels and of workloads, and a sentence for each session without a result."""

    kernels: xr.Dataset
    workloads: xr.Dataset
    missing: list[str]

    def check_complete(self) -> None:
        """Raise :class:`IncompleteError` where sessions are missing."""
        if self.missing:
            raise IncompleteError(*self.missing)


def workloads_path(out: Path) -> Path:
    """Path of the workloads of an output."""
    return out.with_suffix(".workloads.nc")


def measure_kernels(
    campaign: Campaign,
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    overwrite: bool = False,
    within: float = math.inf,
    files: KernelFiles | None = None,
    progress: OnProgress | None = None,
) -> CampaignResult:
    """Time kernels and networks on this machine and write their datasets.

    The measurements are written to `out`, and ``OUT.workloads.nc``, ``OUT.journal`` and
    ``OUT.recordings`` beside it. With `resume` an interrupted campaign continues. No session starts
    after `within` [s]; the finished ones are written, and the others can be run later with `resume`
    and `overwrite`. `files` are those of the operating system's kernel, by default of the running
    one. `progress` is called after each session.

    Errors are those of :func:`msbgen.measure.sweep.sweep.sweep`, before anything is changed or with
    everything put back, and :class:`IncompleteError` where no session succeeded.
    """
    out = Path(out)
    places = SweepPaths.beside(out)
    for path in (out, workloads_path(out)):
        check_output(path, overwrite=overwrite)
    files = files or SystemFiles()
    plan, spec = make_plan(campaign), campaign.spec()
    records = sweep(
        spec, out, resume=resume, overwrite=overwrite, files=files,
        recorder=SessionRecorder(spec, plan), within=within, progress=progress,
    )  # fmt: skip
    runs = [record for record in records if record["event"] == "run"]
    actuators = make_actuators(spec, KernelSettings(files, lambda record: None), "msbgen")
    with private_folder(places.recordings, new=False) as folder:
        kernels = collect(campaign, plan, spec, runs, folder, actuators, records[0])
    workloads = workloads_of(plan)
    write_workload(workloads, workloads_path(out), overwrite=overwrite)
    write_kernels(kernels, out, overwrite=overwrite)
    return CampaignResult(
        kernels, workloads, [*describe_missing_runs(spec, runs), *_not_begun(spec, runs)]
    )


def _not_begun(spec: Spec, runs: Sequence[Record]) -> Iterator[str]:
    """A sentence if the time did not suffice for all sessions."""
    wanted, begun = len(run_order(spec).slots), len({record["slot"] for record in runs})
    if begun < wanted:
        yield f"{wanted - begun} of {wanted} sessions did not start; use --resume --force."


def describe_kernels_dry_run(campaign: Campaign, files: KernelFiles | None = None) -> Iterator[str]:
    """Lines with the plan, its time, and the changes to the machine; see `describe_dry_run`."""
    plan, spec = make_plan(campaign), campaign.spec()
    yield from describe_dry_run(spec, files, SessionRecorder(spec, plan))
