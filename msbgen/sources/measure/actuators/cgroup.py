"""Limits of a program by its control group: CPU time, memory, reads and writes of a disk.

CPU quota: the group may run for ``quota`` microseconds in every ``period``.  It has the largest
weight, so that other tasks on its core take little from it.  The kernel's limits
(``kernel/sched/core.c``, tg_set_cfs_bandwidth): quota ≥ 1 ms, period from 1 ms to 1 s, and no group
above its parents' share.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from msbgen.core.machine import physical_memory
from msbgen.sources.measure.actuators.actuator import Actuator, Capability, SettingError, Usage
from msbgen.sources.measure.actuators.control_group import ControlGroup
from msbgen.sources.measure.actuators.kernel_files import KernelFiles

_SHORTEST = 1_000  # quota and period [µs]
_LONGEST = 1_000_000  # period [µs]
# File and value of the largest weight, by version.
_WEIGHT = {1: ("cpu.shares", "262144"), 2: ("cpu.weight", "10000")}
# A file's text for "no limit": version 1, version 2.
_UNLIMITED = ("-1", "max")
_MIB = 2**20
# Files of the limit, of swapping and of the processes killed, by version.
_MEMORY = {
    1: ("memory.limit_in_bytes", "memory.swappiness", "memory.oom_control"),
    2: ("memory.max", "memory.swap.max", "memory.events"),
}


class CpuQuota(Actuator):
    """Share of one core's time [percent], by the CPU quota of a control group.

    If the period of the quota [s] is the sampling interval, each sample holds one period.
    """

    units = "percent"
    long_name = "share of one core's time"

    def __init__(self, name: str, group: ControlGroup, period: float):
        self.name = name
        self.group = group
        self._period = round(period * 1e6)

    def capability(self) -> Capability:
        """Shares with a quota of at least 1 ms, up to the share of our own group."""
        problems = []
        period = self._period
        if not _SHORTEST <= period <= _LONGEST:
            problems.append(
                f"{self.name}: period is {period} us; 1 ms to 1 s, the kernel's range, is wanted "
                f"(without 'period' in the spec it is the interval)."
            )
            period = min(max(period, _SHORTEST), _LONGEST)
        place = self.group.place("cpu")
        if isinstance(place, str):
            return Capability("cgroup quota", 0.0, 100.0, 0.0, (*problems, f"{self.name}: {place}"))
        highest = min(
            [100.0 * (os.cpu_count() or 1)]
            + [s for up in place.above for s in _share_of(self.group.files, place.version, up)]
        )
        mechanism = f"cgroup v{place.version} quota, period {period} us"
        return Capability(mechanism, 100.0 * _SHORTEST / period, highest, 0.0, tuple(problems))

    def apply(self, level: float) -> None:
        """Set the quota and read it back."""
        quota = round(level / 100 * self._period)
        folder, version = self._create_group()
        highest = self.capability().highest
        remedy = (
            f"{level:g} % of {self._period} us must be 1 ms or more and no more than the group "
            f"above has ({highest:g} %)."
        )
        if version == 1:
            self.group.write(f"{folder}/cpu.cfs_quota_us", str(quota), remedy)
        else:
            self.group.write(f"{folder}/cpu.max", f"{quota} {self._period}", remedy)
        back = self.read()
        if abs(back - 100 * quota / self._period) > 1e-9 * back:
            raise SettingError(
                f"{self.name} is {back:g} % where {level:g} % was written: another process sets "
                f"{folder}; end that first."
            )

    def read(self) -> float:
        """Share that is set now [percent]."""
        folder, version = self._create_group()
        shares = list(_share_of(self.group.files, version, folder))
        return shares[0] if shares else 100.0 * (os.cpu_count() or 1)

    def place(self, pid: int) -> None:
        """Put a process into the group."""
        self._create_group()
        self.group.add(self.name, "cpu", pid)

    def achieved(self, usage: Usage) -> float:
        """CPU time per wall-clock time [percent]."""
        return 100.0 * usage.cpu / usage.wall

    def _create_group(self) -> tuple[str, int]:
        """Folder and version of the group, which gets the weight and the period once."""
        folder, version = self.group.open(self.name, "cpu")
        file, weight = _WEIGHT[version]
        if self.group.files.exists(f"{folder}/{file}"):
            self.group.ensure(f"{folder}/{file}", weight)
        if version == 1:
            self.group.ensure(f"{folder}/cpu.cfs_period_us", str(self._period))
        return folder, version


class MemoryLimit(Actuator):
    """Memory of a program with its page cache [MiB], by the limit of a control group.

    The group does not swap, so a program that needs more is killed (`failure`).
    """

    units = "MiB"
    long_name = "memory of the program, with its page cache"

    def __init__(self, name: str, group: ControlGroup):
        self.name = name
        self.group = group
        self._killed = 0

    def capability(self) -> Capability:
        """Whole pages, up to the limits of the groups above and the machine's memory."""
        place = self.group.place("memory")
        if isinstance(place, str):
            return Capability("cgroup memory", 0.0, 0.0, 0.0, (f"{self.name}: {place}",))
        file = _MEMORY[place.version][0]
        limits = [self._limit(f"{up}/{file}") for up in place.above]
        page = os.sysconf("SC_PAGESIZE") / _MIB
        highest = page * (min([physical_memory(), *limits]) // (page * _MIB))
        return Capability(f"cgroup v{place.version} memory limit", page, highest, page, ())

    def apply(self, level: float) -> None:
        """Set the limit, without swapping, and read it back."""
        folder, version = self.group.open(self.name, "memory")
        file, swap, _ = _MEMORY[version]
        remedy = f"a limit of {level:g} MiB that the machine has, and permission, are wanted."
        if self.group.files.exists(f"{folder}/{swap}"):
            self.group.write(f"{folder}/{swap}", "0", remedy)
        self.group.write(f"{folder}/{file}", str(round(level * _MIB)), remedy)
        if (back := self.read()) * _MIB != round(level * _MIB):
            raise SettingError(
                f"{self.name} is {back:g} MiB where {level:g} was written; use {back:g}."
            )

    def read(self) -> float:
        """The limit of the group [MiB]."""
        folder, version = self.group.open(self.name, "memory")
        return self._limit(f"{folder}/{_MEMORY[version][0]}") / _MIB

    def place(self, pid: int) -> None:
        """Put a process into the group, and note how many it has killed so far."""
        self.group.add(self.name, "memory", pid)
        self._killed = self._kills()

    def failure(self) -> str:
        """That the kernel killed processes of the run because of this limit."""
        return "needs more memory than that and was killed" if self._kills() > self._killed else ""

    def _limit(self, path: str) -> float:
        """A limit [B]; infinite without one."""
        text = self.group.files.read(path).strip() if self.group.files.exists(path) else "max"
        return float("inf") if text == "max" else float(text)

    def _kills(self) -> int:
        """Processes of the group that were killed for lack of memory."""
        folder, version = self.group.open(self.name, "memory")
        words = self.group.files.read(f"{folder}/{_MEMORY[version][2]}").split()
        return int(dict(zip(words[::2], words[1::2])).get("oom_kill", 0))


class DiskBandwidth(Actuator):
    """Bandwidth of a program at a disk [MB/s], by the limit of a control group.

    `direction` is "read" or "write".  `device` is a file of the disk, such as ``/dev/sda``, or a
    folder on it.
    """

    units = "MB s-1"
    long_name = "bandwidth at the disk"

    def __init__(self, name: str, group: ControlGroup, device: str, direction: str):
        self.name = name
        self.group = group
        self._device = device
        self._direction = direction

    def capability(self) -> Capability:
        """Whole bytes per second; the kernel knows no highest value."""
        place, disk = self.group.place("io"), self._disk()
        problems = [f"{self.name}: {place}"] if isinstance(place, str) else []
        if not disk:
            problems.append(
                f"{self.name}: '{self._device}' is on no disk; 'device = \"/dev/...\"' is wanted."
            )
        version = 2 if isinstance(place, str) else place.version
        mechanism = f"cgroup v{version} {self._direction} limit of disk {disk}"
        return Capability(mechanism, 0.001, 1e6, 0.0, tuple(problems))

    def apply(self, level: float) -> None:
        """Set the limit and read it back."""
        folder, version = self.group.open(self.name, "io")
        speed, disk = round(level * 1e6), self._disk()
        key = f"{self._direction[0]}bps="
        self.group.write(
            self._path(folder, version),
            f"{disk} {speed}" if version == 1 else f"{disk} {key}{speed}",
            "run as root, and name a whole disk.",
        )
        if (back := self.read()) != speed / 1e6:
            raise SettingError(
                f"{self.name} is {back:g} MB/s where {level:g} was written: another process sets "
                f"{folder}; end that first."
            )

    def read(self) -> float:
        """The limit of the group [MB/s]; infinite without one."""
        folder, version = self.group.open(self.name, "io")
        for line in self.group.files.read(self._path(folder, version)).splitlines():
            disk, *words = line.split()
            values = words if version == 1 else re.findall(f"{self._direction[0]}bps=(\\d+)", line)
            if disk == self._disk() and values:
                return int(values[0]) / 1e6
        return float("inf")

    def place(self, pid: int) -> None:
        """Put a process into the group."""
        self.group.add(self.name, "io", pid)

    def _path(self, folder: str, version: int) -> str:
        old = f"{folder}/blkio.throttle.{self._direction}_bps_device"
        return old if version == 1 else f"{folder}/io.max"

    def _disk(self) -> str:
        """Numbers of the whole disk, such as ``8:0``; empty if there is none."""
        try:
            found = os.stat(self._device)
        except OSError:
            return ""
        number = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
        folder = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        if os.path.exists(f"{folder}/partition"):
            folder = os.path.dirname(folder)
        file = Path(folder, "dev")
        return file.read_text().strip() if file.is_file() else ""


def _share_of(files: KernelFiles, version: int, folder: str) -> list[float]:
    """Share that a group may use [percent], as a list; empty if it has no limit."""
    if version == 1:
        names = [f"{folder}/cpu.cfs_quota_us", f"{folder}/cpu.cfs_period_us"]
        if not files.exists(names[0]):  # the root group
            return []
        quota, period = (files.read(name).strip() for name in names)
    else:
        if not files.exists(f"{folder}/cpu.max"):
            return []
        quota, period = files.read(f"{folder}/cpu.max").split()
    return [] if quota in _UNLIMITED else [100.0 * int(quota) / int(period)]
