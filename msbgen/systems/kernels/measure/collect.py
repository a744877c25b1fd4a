"""Datasets from the recordings of sessions: times of kernels and networks, launches of networks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from msbgen.sources.measure.actuators.actuator import Actuator
from msbgen.sources.measure.sweep.journal import Record
from msbgen.sources.measure.sweep.profiles import IncompleteError, describe_missing_runs, kept_runs
from msbgen.sources.measure.sweep.spec import Spec
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.kinds import PARAMETERS, Point
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.plan import MeasurementPlan
from msbgen.systems.kernels.measure.session import Session, read_session
from msbgen.systems.kernels.workloads import make_workload

# Prefix of the kinds of whole networks.
NETWORK = "network/"
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def collect(
    campaign: Campaign,
    plan: MeasurementPlan,
    spec: Spec,
    records: Sequence[Record],
    recordings: Path,
    actuators: Sequence[Actuator],
    header: Mapping[str, Any],
) -> xr.Dataset:
    """Measurements of the successful sessions.

    A kernel has a row for each session, the median of its repetitions; a network has one for each
    pass. Kinds of networks begin with ``network/``; `run` numbers the sessions of a configuration.
    :class:`IncompleteError` is raised where no session succeeded.
    """
    kept = sorted(kept_runs(records), key=lambda record: (record["context"], record["run"]))
    if not kept:
        raise IncompleteError(
            *describe_missing_runs(spec, records),
            "no session succeeded: there is nothing to write.",
        )
    sessions = [read_session(recordings / record["recording"], plan) for record in kept]
    rows: list[tuple[str, Mapping[str, int], float, Record]] = []
    for i, point in sorted(enumerate(plan.points), key=lambda pair: _order(pair[1])):
        for session, record in zip(sessions, kept):
            rows.append((point.kind, point.parameters, session.kernels[i], record))
    for i, one in enumerate(plan.passes):
        shape = {"batch": one.batch, "channels": 3, "height": one.side, "width": one.side}
        for session, record in zip(sessions, kept):
            rows += [(NETWORK + one.name, shape, time, record) for time in session.passes[i]]
    names = [resource.name for resource in spec.resources]
    return make_kernels(
        [kind for kind, *_ in rows],
        # seven digits are enough for any clock, and the file is half as large
        np.array([time for _, _, time, _ in rows], dtype=np.float32),
        parameters={
            name: [float(given.get(name, np.nan)) for _, given, *_ in rows] for name in PARAMETERS
        },
        resources={
            name: [record["context"][k] for *_, record in rows] for k, name in enumerate(names)
        },
        node=[campaign.node] * len(rows),
        run=[record["run"] for *_, record in rows],
        units={a.name: a.units for a in actuators},
        levels={resource.name: resource.levels for resource in spec.resources},
        attrs=provenance(spec, header, sessions[0]),
    )


def _order(point: Point) -> tuple[str, tuple[int, ...]]:
    """Sort key that puts similar kernels in adjacent rows; the file is smaller by half."""
    return point.kind, point.values


def provenance(spec: Spec, header: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Origin of the measurements, without names of the machine or of folders."""
    governor = _GOVERNOR.read_text().strip() if _GOVERNOR.exists() else "none to be seen"
    return {
        "source": "msbgen kernels measure",
        "platform": header["machine"],
        "cores": len(spec.cores),
        "governor": governor,
        "torch": session.torch,
        "precision": "float32",
        "date": session.date,
    }


def workloads_of(plan: MeasurementPlan) -> xr.Dataset:
    """Launches of each network; other kinds have torch's name and no parameters."""
    names: list[str] = []
    kinds: list[str] = []
    counts: list[int] = []
    rows: list[Mapping[str, int]] = []
    for one, launched in zip(plan.passes, plan.traces):
        kernels = [(point.kind, point.parameters, n) for point, n in launched.launches.items()]
        for kind, parameters, count in [
            *kernels,
            *((k, {}, n) for k, n in launched.others.items()),
        ]:
            names.append(one.name)
            kinds.append(kind)
            counts.append(count)
            rows.append(parameters)
    return make_workload(
        kinds,
        counts,
        parameters={name: [float(p.get(name, np.nan)) for p in rows] for name in PARAMETERS},
        workload=names,
    )
