"""The profile file of a sweep, from its journal's runs and their recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from msbgen.core.machine import OnProgress
from msbgen.data.schema import STARTED
from msbgen.measure.actuators.actuator import Actuator
from msbgen.measure.dataset import Run, profile_dataset
from msbgen.measure.readers.perf import read_perf
from msbgen.measure.sweep.executor import describe_failure
from msbgen.measure.sweep.journal import DONE, Record, is_kept
from msbgen.measure.sweep.spec import Spec

# Shares of the CPU that runs had may be so many points from what was asked for.
_POINTS = 2.0


class IncompleteError(RuntimeError):
    """Some runs are missing: they failed as often as the spec allows.

    Attributes
    ----------
    problems : tuple of str
        A sentence each.
    """

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


def profiles_of_sweep(
    spec: Spec,
    records: Sequence[Record],
    recordings: Path,
    resources: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, str],
    *,
    progress: OnProgress | None = None,
) -> tuple[xr.Dataset, list[str]]:
    """Profiles of the runs that were kept.

    Parameters
    ----------
    spec : Spec
    records : sequence of dict
        Every run of the journal.
    recordings : Path
        Where their recordings are.
    resources : mapping of str to attributes
        As :func:`resource_labels` gives them.
    about : mapping
        ``machine`` and ``perf``, as the journal has them.
    progress : callback

    Returns
    -------
    dataset : xarray.Dataset
        Not validated.
    warnings : list of str
        What is to be known of it.

    Raises
    ------
    IncompleteError
        Not one run was kept.
    ProfileError
        Recordings that do not go together.
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
            notes=_notes(record),
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
            "platform": about["machine"],
            "source": f"msbgen measure, perf {about['perf']} stat -I {1000 * spec.interval:g}",
        },
        progress=progress,
    )
    return dataset, [*warnings, *_shares_missed(spec, kept)]


def _notes(record: Record) -> dict[str, float]:
    """What is known of a run beside its counts; older journals do not say when it began."""
    notes = {"cpu_time": record["cpu"], "load": record["load"], "steal": record["steal"]}
    return {**notes, STARTED: record["began"]} if "began" in record else notes


def kept_runs(records: Sequence[Record]) -> list[Record]:
    """The last run of each slot, where it is one to keep."""
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
    """Attributes of each resource, with the mechanism that sets it."""
    return {
        resource.name: {
            "units": actuator.units,
            "long_name": actuator.long_name,
            "levels": list(resource.levels),
            "mechanism": actuator.capability().mechanism,
        }
        for resource, actuator in zip(spec.resources, actuators)
    }


def _shares_missed(spec: Spec, kept: Sequence[Record]) -> list[str]:
    """Contexts whose runs had other shares of the CPU than were asked for."""
    said = []
    for at, resource in enumerate(spec.resources):
        if resource.by != "quota":
            continue
        for level in sorted({record["context"][at] for record in kept}):
            had = [r["achieved"][resource.name] for r in kept if r["context"][at] == level]
            missed = [share for share in had if abs(share - level) > _POINTS]
            if missed:
                said.append(
                    f"{resource.name} = {level:g} percent: {len(missed)} of {len(had)} runs had "
                    f"{min(missed):.3g} to {max(missed):.3g}: the program itself waits, others are "
                    f"on its core, or its runs are short beside the quota's period."
                )
    return said
