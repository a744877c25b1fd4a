"""Limits of memory and disks; sweeps set memory for real where there are groups."""

import os

import pytest

from fake_kernel import CGROUP, FakeKernel
from msbgen.sources.measure.actuators.cgroup import CpuQuota, DiskBandwidth, MemoryLimit
from msbgen.sources.measure.actuators.control_group import ControlGroup
from msbgen.sources.measure.actuators.kernel_files import SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from sweeping import tree

FOLDERS = {1: CGROUP + "/{}/msbgen-t", 2: CGROUP + "/msbgen-t"}


def group_of(files, *controllers, name="msbgen-t"):
    return ControlGroup(KernelSettings(files, lambda record: None), name, controllers)


@pytest.fixture(params=[1, 2])
def version(request):
    return request.param


@pytest.fixture
def kernel(tmp_path, version):
    kernel = FakeKernel(tmp_path / "kernel").with_cgroup(version)
    kernel.know(disks=[disk()])
    return kernel


def disk():
    """Numbers of the disk of this folder; none in some containers."""
    return DiskBandwidth("d", group_of(SystemFiles(), "io"), ".", "read")._disk() or "8:0"


def test_memory_is_limited_without_swapping_and_restored(kernel, version):
    before = tree(kernel)
    memory = MemoryLimit("memory", group_of(kernel, "memory"))
    memory.apply(64)
    folder = FOLDERS[version].format("memory")
    file, swap = ("limit_in_bytes", "swappiness") if version == 1 else ("max", "swap.max")
    assert kernel.read(f"{folder}/memory.{file}") == f"{64 * 2**20}\n"
    assert kernel.read(f"{folder}/memory.{swap}") == "0\n"
    assert memory.read() == 64
    assert f"v{version}" in memory.capability().mechanism
    assert memory.capability().level_problems("memory", [1e9], "MiB")
    memory.group.settings.restore()
    assert tree(kernel) == before


def test_a_run_that_the_limit_ended_is_told_apart(kernel, version):
    memory = MemoryLimit("memory", group_of(kernel, "memory"))
    memory.apply(64)
    memory.place(os.getpid())
    assert memory.failure() == ""
    file = "memory.oom_control" if version == 1 else "memory.events"
    kernel.put(f"{FOLDERS[version].format('memory')}/{file}", "oom_kill_disable 0\noom_kill 1\n")
    assert "needs more memory" in memory.failure()
    memory.place(os.getpid())  # of the next run
    assert memory.failure() == ""


@pytest.mark.parametrize("direction", ["read", "write"])
def test_the_bandwidth_of_a_disk_is_in_bytes_per_second(kernel, version, direction):
    bandwidth = DiskBandwidth("disk", group_of(kernel, "io"), os.getcwd(), direction)
    if bandwidth.capability().problems:
        pytest.skip("this folder is on no disk")
    bandwidth.apply(2.5)
    folder = FOLDERS[version].format("blkio")
    file = f"blkio.throttle.{direction}_bps_device" if version == 1 else "io.max"
    assert kernel.read(f"{folder}/{file}").split()[0] == disk()
    assert "2500000" in kernel.read(f"{folder}/{file}")
    assert bandwidth.read() == 2.5


def test_a_folder_on_no_disk_is_a_sentence(kernel):
    for place in ("/proc", "/none"):
        (problem,) = DiskBandwidth("d", group_of(kernel, "io"), place, "read").capability().problems
        assert f"'{place}' is on no disk" in problem


def test_two_limits_share_a_group_and_are_both_restored(kernel, version):
    if version == 2:  # delegates one of the two controllers: no place for both
        kernel.put(f"{CGROUP}/user/cgroup.subtree_control", "cpu\n")
    before = tree(kernel)
    group = group_of(kernel, "cpu", "memory")
    CpuQuota("share", group, 0.01).apply(50)
    MemoryLimit("memory", group).apply(64)
    made = [p for p in tree(kernel) if p.endswith("/msbgen-t")]
    assert len(made) == {1: 2, 2: 1}[version]
    if version == 2:
        assert not any("/user/" in path for path in made)
    group.settings.restore()
    assert tree(kernel) == before
