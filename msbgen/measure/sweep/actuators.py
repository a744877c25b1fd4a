"""The actuators that a spec names, on the cores that its program gets."""

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


def make_actuators(spec: Spec, settings: KernelSettings, name: str) -> list[Actuator]:
    """One actuator a resource, in the spec's order.

    Parameters
    ----------
    spec : Spec
    settings : KernelSettings
        Where their changes are noted.
    name : str
        Of the groups that they make.
    """
    cores = program_cores(spec)
    group = ResctrlGroup(settings, name)

    def one(resource: ResourceSpec) -> Actuator:
        if resource.by == "quota":
            return CpuQuota(resource.name, settings, name, resource.period or spec.interval)
        if resource.by == "ways":
            return CacheWays(resource.name, group)
        if resource.by == "bandwidth":
            return MemoryBandwidth(resource.name, group)
        if resource.by == "clock":
            return CoreClock(resource.name, settings, cores)
        if resource.by == "threads":  # of programs that read their context: kernels
            return Threads(resource.name, cores)
        return MemGuard(resource.name, settings, cores, resource.direction)

    return [one(resource) for resource in spec.resources]


def program_cores(spec: Spec) -> list[int]:
    """Cores that the program is pinned to: the spec's, or the last one of ours."""
    return list(spec.cores) or [max(os.sched_getaffinity(0))]


def other_cores(cores: Sequence[int]) -> list[int]:
    """Cores for perf and ourselves: all but the program's, or all if there are no others."""
    ours = os.sched_getaffinity(0)
    return sorted(ours - set(cores)) or sorted(ours)
