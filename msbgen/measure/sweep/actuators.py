"""The actuators of a spec, and the cores for the program and for perf."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msbgen.measure.actuators.actuator import Actuator
from msbgen.measure.actuators.cgroup import CpuQuota
from msbgen.measure.actuators.cpufreq import CoreClock
from msbgen.measure.actuators.kernel_settings import KernelSettings
from msbgen.measure.actuators.memguard import MemGuard
from msbgen.measure.actuators.resctrl import CacheWays, MemoryBandwidth, ResctrlGroup
from msbgen.measure.actuators.threads import Threads
from msbgen.measure.sweep.spec import ResourceSpec, Spec


def make_actuators(spec: Spec, settings: KernelSettings, group_name: str) -> list[Actuator]:
    """One actuator per resource, in the order of the spec.

    `settings` records and restores their changes; control groups get the name `group_name`.
    """
    cores = program_cores(spec)
    group = ResctrlGroup(settings, group_name)

    def actuator(resource: ResourceSpec) -> Actuator:
        if resource.by == "quota":
            period = resource.period or spec.interval
            return CpuQuota(resource.name, settings, group_name, period)
        if resource.by == "ways":
            return CacheWays(resource.name, group)
        if resource.by == "bandwidth":
            return MemoryBandwidth(resource.name, group)
        if resource.by == "clock":
            return CoreClock(resource.name, settings, cores)
        if resource.by == "threads":  # for programs that read their context, as kernels do
            return Threads(resource.name, cores)
        return MemGuard(resource.name, settings, cores, resource.direction)

    return [actuator(resource) for resource in spec.resources]


def program_cores(spec: Spec) -> list[int]:
    """Cores that the program is pinned to: those of the spec, or the last one that we may use."""
    return list(spec.cores) or [max(os.sched_getaffinity(0))]


def other_cores(cores: Sequence[int]) -> list[int]:
    """Cores for perf and msbgen: all but the program's, or all if there are no others."""
    ours = os.sched_getaffinity(0)
    return sorted(ours - set(cores)) or sorted(ours)
