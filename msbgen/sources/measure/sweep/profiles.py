"""The profile dataset of a sweep, from the journal's runs and their recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from msbgen.core.machine import OnProgress
from msbgen.data.schema import STARTED
from msbgen.sources.measure.actuators.actuator import Actuator
from msbgen.sources.measure.dataset import Run, profile_dataset
from msbgen.sources.measure.readers.perf import read_perf
from msbgen.sources.measure.sweep.executor import describe_failure
from msbgen.sources.measure.sweep.journal import DONE, Record, is_kept
from msbgen.sources.measure.sweep.spec import Spec

# Larger differences between achieved and set CPU shares give a warning [percentage points].
_SHARE_TOLERANCE = 2.0


class IncompleteError(RuntimeError):
    """Runs are missing: they failed as often as the spec allows; `problems` has a sentence each."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


def profiles_of_sweep(
    spec: Spec,
    records: Sequence[Record],
    recordings: Path,
    resources: Mapping[str, Mapping[str, Any]],
    head: Mapping[str, str],
    *,
    progress: OnProgress | None = None,
) -> tuple[xr.Dataset, list[str]]:
    """Profile dataset of the runs that were kept, not validated, and warnings about it.

    `records` are those of all runs in the journal, `recordings` is the folder of their recordings,
    `resources` the result of :func:`resource_labels`, and `head` the first record of the journal,
    with ``machine`` and ``perf``.  IncompleteError: no run was kept.  ProfileError: the recordings
    do not fit together.
    """
    kept = sorted(kept_runs(records), key=lambda record: (record["context"], record["run"]))
    if not kept:
        raise IncompleteError(
            *describe_missing_runs(spec, records), "no run succeeded: there is nothing to write."
        )
    names = [resource.name for resource in spec.resources]
    runs = [
        Run(
            context=dict(zip(names, record["context"])),
            recording=read_perf(recordings / record["recording"]),
            duration=record["wall"],
            achieved=record["achieved"],
            metadata=_metadata(record),
            complete=record["outcome"] == DONE,
        )
        for record in kept
    ]
    dataset, warnings = profile_dataset(
        runs,
        resources,
        interval=spec.interval,
        clock=spec.progress,
        attrs={
            "task": spec.task,
            "platform": head["machine"],
            "source": f"msbgen measure, perf {head['perf']} stat -I {1000 * spec.interval:g}",
        },
        progress=progress,
    )
    return dataset, [*warnings, *_missed_shares(spec, kept)]


def _metadata(record: Record) -> dict[str, float]:
    """CPU time, interference and start of a run; old journals do not have the start."""
    metadata = {"cpu_time": record["cpu"], "load": record["load"], "steal": record["steal"]}
    return {**metadata, STARTED: record["began"]} if "began" in record else metadata


def kept_runs(records: Sequence[Record]) -> list[Record]:
    """The last record of each slot, if that run was kept."""
    last = {record["slot"]: record for record in records}
    return [record for record in last.values() if is_kept(record)]


def describe_missing_runs(spec: Spec, records: Sequence[Record]) -> list[str]:
    """A sentence for each run that never succeeded."""
    last = {record["slot"]: record for record in records}
    failed = [record for record in last.values() if not is_kept(record)]
    return [
        f"left out after {record['attempt'] + 1} attempts: {describe_failure(spec, record)}"
        for record in sorted(failed, key=lambda record: (record["context"], record["run"]))
    ]


def resource_labels(spec: Spec, actuators: Sequence[Actuator]) -> dict[str, dict[str, Any]]:
    """Attributes of each resource, including the mechanism that sets it."""
    return {
        resource.name: {
            "units": actuator.units,
            "long_name": actuator.long_name,
            "levels": list(resource.levels),
            "mechanism": actuator.capability().mechanism,
            **({"labels": list(resource.labels)} if resource.labels else {}),
        }
        for resource, actuator in zip(spec.resources, actuators)
    }


def _missed_shares(spec: Spec, kept: Sequence[Record]) -> list[str]:
    """A warning for each CPU share that runs did not achieve."""
    warnings = []
    for column, resource in enumerate(spec.resources):
        if resource.by != "quota":
            continue
        for level in sorted({record["context"][column] for record in kept}):
            runs = [record for record in kept if record["context"][column] == level]
            shares = [record["achieved"][resource.name] for record in runs]
            missed = [share for share in shares if abs(share - level) > _SHARE_TOLERANCE]
            if missed:
                warnings.append(
                    f"{resource.name} = {level:g} percent: {len(missed)} of {len(shares)} runs had "
                    f"{min(missed):.3g} to {max(missed):.3g}: the program waits, other tasks use "
                    f"its core, or its runs are short compared with the quota's period."
                )
    return warnings
