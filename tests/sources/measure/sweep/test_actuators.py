"""Which actuator a word of a spec stands for."""

import os

from fake_kernel import FakeKernel
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import make_actuators, other_cores, program_cores
from msbgen.sources.measure.sweep.spec import ACTUATOR_KINDS, ResourceSpec
from sweeping import spec


def test_every_word_has_its_actuator_with_its_resources_name(tmp_path):
    kernel = FakeKernel(tmp_path).with_resctrl()
    resources = tuple(ResourceSpec(f"r_{by}", by, (10.0,)) for by in ACTUATOR_KINDS)
    settings = KernelSettings(kernel, lambda record: None)
    actuators = make_actuators(spec(resources=resources), settings, "msbgen-t")
    assert [a.name for a in actuators] == [r.name for r in resources]
    assert [type(a).__name__ for a in actuators] == [
        "CpuQuota", "CacheWays", "MemoryBandwidth", "CoreClock", "MemGuard", "ProgramInput",
        "ProgramInput", "Cores", "MemoryLimit", "DiskBandwidth", "Priority", "Hook", "Pressure",
    ]  # fmt: skip
    units = ["percent", "1", "percent", "MHz", "MB s-1", "", "", "1", "MiB", "MB s-1", "1", ""]
    units.append("MB s-1")
    assert [a.units for a in actuators] == units


def test_ways_and_bandwidth_share_a_group(tmp_path):
    kernel = FakeKernel(tmp_path).with_resctrl()
    two = (ResourceSpec("w", "ways", (2.0,)), ResourceSpec("b", "bandwidth", (10.0,)))
    settings = KernelSettings(kernel, lambda record: None)
    for actuator, level in zip(make_actuators(spec(resources=two), settings, "msbgen-t"), (2, 10)):
        actuator.apply(level)
    assert len(kernel.groups()) == 2


def test_the_quotas_period_is_the_sampling_interval_unless_it_is_said(tmp_path):
    kernel = FakeKernel(tmp_path).with_cgroup(2)
    settings = KernelSettings(kernel, lambda record: None)
    for period, wanted in ((None, "5000 us"), (0.02, "20000 us")):
        share = ResourceSpec("s", "quota", (50.0,), period)
        (actuator,) = make_actuators(spec(resources=(share,)), settings, "msbgen-t")
        assert wanted in actuator.capability().mechanism


def test_the_program_has_its_cores_and_all_else_the_others():
    ours = sorted(os.sched_getaffinity(0))
    assert program_cores(spec()) == [ours[-1]]
    assert program_cores(spec(cores=(0,))) == [0]
    number = ResourceSpec("n", "cores", (1.0, 2.0))
    assert program_cores(spec(resources=(number,))) == ours
    assert program_cores(spec(resources=(number,), cores=(3, 1))) == [3, 1]
    which = ResourceSpec("n", "cores", (1.0, 2.0), labels=("5,2-3", "3"))
    assert program_cores(spec(resources=(which,))) == [2, 3, 5]
    assert other_cores(ours) == ours  # nowhere else to go
    if len(ours) > 1:
        assert other_cores([ours[0]]) == ours[1:]
