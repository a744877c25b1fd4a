"""The actuators of a spec, and the cores for the program and for perf."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from msbgen.sources.measure.actuators.actuator import Actuator, Capability
from msbgen.sources.measure.actuators.cgroup import CpuQuota, DiskBandwidth, MemoryLimit
from msbgen.sources.measure.actuators.control_group import ControlGroup
from msbgen.sources.measure.actuators.cpufreq import CoreClock
from msbgen.sources.measure.actuators.hook import Hook
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.actuators.memguard import MemGuard
from msbgen.sources.measure.actuators.pressure import Pressure, Stressors
from msbgen.sources.measure.actuators.program import Cores, Priority, ProgramInput
from msbgen.sources.measure.actuators.resctrl import CacheWays, MemoryBandwidth, ResctrlGroup
from msbgen.sources.measure.sweep.spec import ResourceSpec, Spec

# Controllers of control groups that actuators need.
_CONTROLLERS = {"quota": "cpu", "memory": "memory", "io": "io"}


def make_actuators(spec: Spec, settings: KernelSettings, group_name: str) -> list[Actuator]:
    """One actuator per resource, in the order of the spec.

    `settings` records and restores their changes; control groups get the name `group_name`.
    """
    cores = program_cores(spec)
    resctrl = ResctrlGroup(settings, group_name)
    kinds = [resource.by for resource in spec.resources]
    controllers = [name for by, name in _CONTROLLERS.items() if by in kinds]
    group = ControlGroup(settings, group_name, controllers)
    stressors = Stressors(stressor_cores(spec), cores, group_name.removeprefix("msbgen-"))
    return [
        Pressure(resource.name, stressors, resource.target)
        if resource.by == "pressure"
        else _actuator(resource, spec, cores, resctrl, group)
        for resource in spec.resources
    ]


def _actuator(
    resource: ResourceSpec,
    spec: Spec,
    cores: Sequence[int],
    resctrl: ResctrlGroup,
    group: ControlGroup,
) -> Actuator:
    name, settings, any_level = resource.name, group.settings, (-math.inf, math.inf, 0.0, ())
    match resource.by:
        case "quota":
            return CpuQuota(name, group, resource.period or spec.interval)
        case "memory":
            return MemoryLimit(name, group)
        case "io":
            return DiskBandwidth(name, group, resource.target, resource.direction)
        case "ways":
            return CacheWays(name, resctrl)
        case "bandwidth":
            return MemoryBandwidth(name, resctrl)
        case "clock":
            return CoreClock(name, settings, cores)
        case "memguard":
            return MemGuard(name, settings, cores, resource.direction)
        case "argument":
            return ProgramInput(name, Capability("argument", *any_level), resource.units)
        case "environment":
            capability = Capability(f"variable {resource.target}", *any_level)
            return ProgramInput(name, capability, resource.units)
        case "cores":
            sets = resource.core_sets() or {n: cores[: int(n)] for n in resource.levels}
            highest = float(len(resource.labels) or len(cores))
            return Cores(name, Capability("CPU affinity", 1.0, highest, 1.0, ()), sets)
        case "priority":
            return Priority(name, resource.labels)
        case "threads":  # for programs that read their context, as kernels do
            capability = Capability("number of threads", 1.0, float(len(cores)), 1.0, ())
            return ProgramInput(name, capability, "1", "threads of the program")
    texts = {level: resource.text(level) for level in resource.levels}
    return Hook(name, settings, resource.target, texts, resource.units)


def program_cores(spec: Spec) -> list[int]:
    """Cores that the program is pinned to: those of the spec, or the last one that we may use.

    By default, a resource that varies the cores has all that we may use.
    """
    varied = next((resource for resource in spec.resources if resource.by == "cores"), None)
    if varied is not None and varied.labels:
        return sorted({core for cores in varied.core_sets().values() for core in cores})
    ours = sorted(os.sched_getaffinity(0))
    return list(spec.cores) or (ours if varied is not None else ours[-1:])


def stressor_cores(spec: Spec) -> list[int]:
    """Cores of the stressors: those of the resource, or the first that the program has not."""
    given = [core for resource in spec.resources for core in resource.beside]
    apart = sorted(os.sched_getaffinity(0) - set(program_cores(spec)))
    return sorted(set(given)) or apart[:1]


def other_cores(cores: Sequence[int]) -> list[int]:
    """Cores for perf and msbgen: all but the program's, or all if there are no others."""
    ours = os.sched_getaffinity(0)
    return sorted(ours - set(cores)) or sorted(ours)
