"""CPU quotas against the kernel's rules; sweeps set them for real where there are groups."""

import os
import subprocess

import pytest

from fake_kernel import CGROUP, FakeKernel
from msbgen.sources.measure.actuators.actuator import SettingError, Usage
from msbgen.sources.measure.actuators.cgroup import CpuQuota
from msbgen.sources.measure.actuators.control_group import ControlGroup
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings


def quota(kernel, period=0.01, group="msbgen-t"):
    return CpuQuota("cpu_share", control_group(kernel, group), period)


def control_group(kernel, name="msbgen-t", controllers=("cpu",)):
    return ControlGroup(KernelSettings(kernel, lambda record: None), name, controllers)


@pytest.fixture(params=[1, 2])
def version(request):
    return request.param


@pytest.fixture
def kernel(tmp_path, version):
    return FakeKernel(tmp_path / "kernel").with_cgroup(version)


def folder(kernel, version):
    """Where our group is: below us in version 1, below the root in 2, where we have processes."""
    return f"{CGROUP}/cpu/user/msbgen-t" if version == 1 else f"{CGROUP}/msbgen-t"


def shown(kernel, version):
    group = folder(kernel, version)
    if version == 2:
        return kernel.read(f"{group}/cpu.max").split()
    return [kernel.read(f"{group}/cpu.cfs_{n}_us").strip() for n in ("quota", "period")]


def test_a_share_is_so_many_microseconds_of_each_period(kernel, version):
    actuator = quota(kernel)
    for level, microseconds in ((35, "3500"), (10, "1000"), (100, "10000")):
        actuator.apply(level)
        assert shown(kernel, version) == [microseconds, "10000"]
        assert actuator.read() == pytest.approx(level)
    assert f"v{version}" in actuator.capability().mechanism


def test_others_on_its_core_get_what_the_quota_leaves(kernel, version):
    quota(kernel).apply(50)
    file, weight = {1: ("cpu.shares", "262144"), 2: ("cpu.weight", "10000")}[version]
    assert kernel.read(f"{folder(kernel, version)}/{file}") == f"{weight}\n"


def test_everything_is_as_before_after_restoring(kernel, version):
    def tree():
        return {p: p.read_text() for p in (kernel.root / "tree").rglob("*") if p.is_file()}

    before = tree()
    actuator = quota(kernel)
    actuator.apply(50)
    assert tree() != before
    actuator.group.settings.restore()
    assert tree() == before
    actuator.apply(20)  # and it can be used again
    actuator.group.settings.restore()
    assert tree() == before


def test_processes_are_placed_and_die_with_the_group(kernel, version):
    actuator = quota(kernel)
    actuator.apply(50)
    child = subprocess.Popen(["sleep", "60"])
    actuator.place(child.pid)
    assert kernel.read(f"{folder(kernel, version)}/cgroup.procs") == f"{child.pid}\n"
    actuator.group.settings.restore()
    assert child.wait() == -9


def test_the_kernels_limits_are_known_beforehand(kernel):
    capability = quota(kernel).capability()
    assert capability.lowest == pytest.approx(10)  # a millisecond of ten
    assert quota(kernel, 0.1).capability().lowest == pytest.approx(1)
    assert "5 percent" in capability.level_problems("cpu_share", [5], "percent")[0]
    for period in (0.0005, 2.0):
        assert "1 ms to 1 s" in quota(kernel, period).capability().problems[0]


def test_what_the_kernel_refuses_is_a_sentence_with_value_and_remedy(kernel):
    with pytest.raises(SettingError) as caught:
        quota(kernel).apply(5)
    assert "refused '500" in str(caught.value)
    assert "(invalid argument)" in str(caught.value)
    assert "1 ms or more" in str(caught.value)


def test_no_group_is_above_its_parent(tmp_path, version):
    kernel = FakeKernel(tmp_path / "k").with_cgroup(version, limit=50)
    if version == 2:  # where the group above gives the controller, ours is below it
        kernel.put(f"{CGROUP}/user/cgroup.subtree_control", "cpu\n")
    actuator = quota(kernel)
    assert actuator.capability().highest == 50
    actuator.apply(50)
    if version == 1:  # version 2 takes it, and gives no more than the parent has
        with pytest.raises(SettingError, match=r"no more than the group above has \(50 %\)"):
            actuator.apply(51)


def test_without_permission_the_sentence_says_who_may(kernel, version):
    kernel.deny(CGROUP)
    with pytest.raises(SettingError, match="run as root"):
        quota(kernel).apply(50)
    kernel.know(denied=[])
    actuator = quota(kernel)
    actuator.apply(50)
    kernel.deny(CGROUP)  # lost meanwhile
    with pytest.raises(SettingError, match="permission denied"):
        actuator.apply(60)
    with pytest.raises(SettingError, match="run as root, or as the owner"):
        actuator.place(os.getpid())


def test_without_control_groups_the_lack_is_said(tmp_path):
    kernel = FakeKernel(tmp_path)
    kernel.put("/proc/self/mounts", "proc /proc proc rw 0 0\n")
    kernel.put("/proc/self/cgroup", "0::/\n")
    (lack,) = quota(kernel).capability().problems
    assert "mount -t cgroup2" in lack
    with pytest.raises(SettingError, match="no control group"):
        quota(kernel).apply(50)


def test_a_container_sees_its_own_root(tmp_path):
    kernel = FakeKernel(tmp_path).with_cgroup(1)
    kernel.put("/proc/self/cgroup", "3:cpu,cpuacct:/docker/abc\n")
    quota(kernel).apply(50)
    assert kernel.exists(f"{CGROUP}/cpu/msbgen-t")


def test_another_hand_on_the_group_is_noticed(kernel, version):
    actuator = quota(kernel)
    actuator.apply(50)
    write = kernel.write

    def meddle(path, text):
        write(path, text)
        if "quota" in path or path.endswith("cpu.max"):
            kernel.put(path, text.replace("6000", "9000"))

    kernel.write = meddle
    with pytest.raises(SettingError, match="is 90 % where 60 % was written"):
        actuator.apply(60)


def test_the_share_achieved_is_cpu_time_per_time(kernel):
    assert quota(kernel).achieved(Usage(wall=2.0, cpu=0.5)) == 25.0
