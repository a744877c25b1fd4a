"""From what is to be measured to a dataset of kernels: sessions, journal, and all put back."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from msbgen.core.machine import OnProgress
from msbgen.data.files import check_output
from msbgen.kernels.dataset import write as write_kernels
from msbgen.kernels.measure.campaign import Campaign
from msbgen.kernels.measure.harvest import harvest, workloads_of
from msbgen.kernels.measure.plan import make_plan
from msbgen.kernels.measure.recorder import SessionRecorder
from msbgen.kernels.workloads import write_workload
from msbgen.measure.actuators.kernel_files import KernelFiles, SystemFiles
from msbgen.measure.actuators.kernel_settings import KernelSettings
from msbgen.measure.sweep.actuators import make_actuators
from msbgen.measure.sweep.dry_run import describe_dry_run
from msbgen.measure.sweep.journal import Record
from msbgen.measure.sweep.order import run_order
from msbgen.measure.sweep.profiles import IncompleteError, describe_missing_runs
from msbgen.measure.sweep.spec import Spec
from msbgen.measure.sweep.sweep import SweepPaths, sweep


@dataclass(frozen=True)
class Measured:
    """What a campaign gave.

    Attributes
    ----------
    kernels : xarray.Dataset
        Measurements, as they were written.
    workloads : xarray.Dataset
        What each network launches, as it was written.
    missing : list of str
        Sessions that never succeeded, a sentence each.
    """

    kernels: xr.Dataset
    workloads: xr.Dataset
    missing: list[str]

    def complete(self) -> None:
        """Raise :class:`IncompleteError` where sessions are missing."""
        if self.missing:
            raise IncompleteError(*self.missing)


def workloads_beside(out: Path) -> Path:
    """Where the workloads of an output are written."""
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
) -> Measured:
    """Time kernels and networks on this machine and write them.

    Parameters
    ----------
    campaign : Campaign
    out : path
        The dataset of kernels; ``OUT.workloads.nc``, ``OUT.journal`` and ``OUT.recordings`` are
        made beside it.
    resume : bool
        Go on with what was begun.
    overwrite : bool
        Whether what is there may be replaced.
    within : float
        After this time no further session is begun [s]; those that there are, are written, and
        the others can be made later, with `resume` and `overwrite`.
    files : KernelFiles, optional
        Of the kernel that runs, where none are given.
    progress : callback
        Told of each session.

    Returns
    -------
    Measured

    Raises
    ------
    ProfileError, RequirementError, SettingError, OSError
        As :func:`msbgen.measure.sweep.sweep.sweep`; before anything is changed, or with everything
        put back.
    ArgumentError
        torch is not installed, or an output that is named as its own journal.
    IncompleteError
        Not one session succeeded.
    """
    out = Path(out)
    places = SweepPaths.beside(out)
    for path in (out, workloads_beside(out)):
        check_output(path, overwrite=overwrite)
    files = files or SystemFiles()
    plan, spec = make_plan(campaign), campaign.spec()
    records = sweep(
        spec,
        out,
        resume=resume,
        overwrite=overwrite,
        files=files,
        recorder=SessionRecorder(spec, plan),
        within=within,
        progress=progress,
    )
    runs = [record for record in records if record["event"] == "run"]
    actuators = make_actuators(spec, KernelSettings(files, lambda record: None), "msbgen")
    kernels = harvest(campaign, plan, spec, runs, places.recordings, actuators, records[0])
    workloads = workloads_of(plan)
    write_workload(workloads, workloads_beside(out), overwrite=overwrite)
    write_kernels(kernels, out, overwrite=overwrite)
    return Measured(
        kernels, workloads, [*describe_missing_runs(spec, runs), *_not_begun(spec, runs)]
    )


def _not_begun(spec: Spec, runs: Sequence[Record]) -> Iterator[str]:
    """A sentence where the time did not suffice for all sessions."""
    wanted, begun = len(run_order(spec).slots), len({record["slot"] for record in runs})
    if begun < wanted:
        yield f"{wanted - begun} of {wanted} sessions were not begun; go on with --resume --force."


def rehearse_kernels(campaign: Campaign, files: KernelFiles | None = None) -> Iterator[str]:
    """Plan, time, changes and what takes them back, in lines; see :func:`describe_dry_run`."""
    plan, spec = make_plan(campaign), campaign.spec()
    yield from describe_dry_run(spec, files, SessionRecorder(spec, plan))
