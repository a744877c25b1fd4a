"""CPU share of a program: the CPU quota of a control group, version 1 or 2.

The group may run for ``quota`` microseconds in every ``period``.  It has the largest weight, so
that other tasks on its core take little from it.  The kernel's limits (``kernel/sched/core.c``,
tg_set_cfs_bandwidth): quota ≥ 1 ms, period from 1 ms to 1 s, and no group above its parents' share.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from msbgen.measure.actuators.actuator import Actuator, Capability, SettingError, Usage
from msbgen.measure.actuators.kernel_files import KernelFiles
from msbgen.measure.actuators.kernel_settings import KernelSettings

_SHORTEST = 1_000  # quota and period [µs]
_LONGEST = 1_000_000  # period [µs]
_MOUNTS, _OUR_GROUPS = "/proc/self/mounts", "/proc/self/cgroup"
# File and value of the largest weight, by version.
_WEIGHT = {1: ("cpu.shares", "262144"), 2: ("cpu.weight", "10000")}
# A file's text for "no limit": version 1, version 2.
_UNLIMITED = ("-1", "max")


@dataclass(frozen=True)
class _Place:
    """Where a group can be created."""

    version: int  # of control groups, 1 or 2
    parent: str  # parent folder of our group
    above: tuple[str, ...]  # the parent and its parents, up to the mount point


class CpuQuota(Actuator):
    """Share of one core's time [percent], by the CPU quota of a control group, the folder `group`.

    If the period of the quota [s] is the sampling interval, each sample holds one period.
    """

    units = "percent"
    long_name = "share of one core's time"

    def __init__(self, name: str, settings: KernelSettings, group: str, period: float):
        self.name = name
        self.settings = settings
        self._files = settings.files
        self._group = group
        self._period = round(period * 1e6)
        self._place: _Place | None = None
        self._folder = ""

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
        place = _find_place(self._files)
        if place is None:
            problems.append(
                f"{self.name}: no control group with the controller 'cpu' is mounted here; on a "
                f"machine of your own: mount -t cgroup2 none /sys/fs/cgroup"
            )
            return Capability("cgroup quota", 0.0, 100.0, 0.0, tuple(problems))
        if isinstance(place, str):
            return Capability("cgroup quota", 0.0, 100.0, 0.0, (*problems, f"{self.name}: {place}"))
        self._place = place
        highest = min(
            [100.0 * (os.cpu_count() or 1)]
            + [share for up in place.above for share in _share_of(self._files, place.version, up)]
        )
        mechanism = f"cgroup v{place.version} quota, period {period} us"
        return Capability(mechanism, 100.0 * _SHORTEST / period, highest, 0.0, tuple(problems))

    def apply(self, level: float) -> None:
        """Set the quota and read it back."""
        quota = round(level / 100 * self._period)
        place = self._create_group()
        if place.version == 1:
            self._write("cpu.cfs_quota_us", str(quota), level)
        else:
            self._write("cpu.max", f"{quota} {self._period}", level)
        back = self.read()
        if abs(back - 100 * quota / self._period) > 1e-9 * back:
            raise SettingError(
                f"{self.name} is {back:g} % where {level:g} % was written: another process sets "
                f"{self._folder}; end that first."
            )

    def read(self) -> float:
        """Share that is set now [percent]."""
        place = self._create_group()
        shares = list(_share_of(self._files, place.version, self._folder))
        return shares[0] if shares else 100.0 * (os.cpu_count() or 1)

    def place(self, pid: int) -> None:
        """Put a process into the group."""
        self._create_group()
        self._write("cgroup.procs", str(pid), 0.0)

    def achieved(self, usage: Usage) -> float:
        """CPU time per wall-clock time [percent]."""
        return 100.0 * usage.cpu / usage.wall

    def _create_group(self) -> _Place:
        """The place of the group, which is created if necessary."""
        if self._place is None:
            problems = self.capability().problems
            if problems or self._place is None:
                raise SettingError(*problems)
        place = self._place
        if not self._folder or not self._files.exists(self._folder):
            if place.version == 2:
                self._enable(place.parent)
            folder = f"{place.parent}/{self._group}"
            if not self._files.exists(folder):
                try:
                    self.settings.make(folder)
                except OSError as error:
                    raise SettingError(
                        f"{self.name}: group {folder} cannot be created ({error.strerror}); run "
                        f"as root, or delegate the folder to your user (systemd: Delegate=cpu)."
                    ) from None
            self._folder = folder
            file, weight = _WEIGHT[place.version]
            if self._files.exists(f"{folder}/{file}"):
                self._write(file, weight, 0.0)
            if place.version == 1:
                self._write("cpu.cfs_period_us", str(self._period), 0.0)
        return place

    def _enable(self, parent: str) -> None:
        """Enable the controller for the groups below."""
        file = f"{parent}/cgroup.subtree_control"
        if "cpu" not in self._files.read(file).split():
            try:
                self.settings.write(file, "+cpu", "controller")
            except OSError as error:
                raise SettingError(
                    f"{self.name}: controller 'cpu' cannot be enabled in {parent} "
                    f"({error.strerror}); run as root, or delegate it to your user (Delegate=cpu)."
                ) from None

    def _write(self, file: str, text: str, level: float) -> None:
        path = f"{self._folder}/{file}"
        try:
            self.settings.write(path, text)
        except OSError as error:
            raise SettingError(
                f"{path}: the kernel refused '{text}' ({error.strerror}); "
                + self._remedy(file, level)
            ) from None

    def _remedy(self, file: str, level: float) -> str:
        if file == "cgroup.procs":
            return "run as root, or as the owner of the process and of both its groups."
        capability = self.capability()
        return (
            f"{level:g} % of {self._period} us must be 1 ms or more and no more than the group "
            f"above has ({capability.highest:g} %)."
        )


def _find_place(files: KernelFiles) -> _Place | str | None:
    """Where a group with a quota can be created, or why it cannot; None without groups."""
    if not files.exists(_OUR_GROUPS):  # a kernel without control groups
        return None
    mounts = [line.split() for line in files.read(_MOUNTS).splitlines()]
    groups = [line.split(":", 2) for line in files.read(_OUR_GROUPS).splitlines()]
    for fields in mounts:
        if fields[2] == "cgroup" and "cpu" in fields[3].split(","):
            ours = next((path for _, names, path in groups if "cpu" in names.split(",")), "/")
            parent = _below(files, fields[1], ours)
            return _Place(1, parent, _up(fields[1], parent))
    for fields in mounts:
        if fields[2] == "cgroup2":
            root = fields[1]
            if "cpu" not in files.read(f"{root}/cgroup.controllers").split():
                continue
            ours = next((path for number, _, path in groups if number == "0"), "/")
            parent = _below(files, root, ours)
            # a group with processes cannot delegate controllers, except for the root
            for folder in _up(root, parent):
                file = f"{folder}/cgroup.subtree_control"
                if folder == root or "cpu" in files.read(file).split():
                    return _Place(2, folder, _up(root, folder))
            return f"no group above {parent} delegates 'cpu'; enable it (systemd: Delegate=cpu)."
    return None


def _below(files: KernelFiles, root: str, path: str) -> str:
    """Folder of our group; the mount point if the path is not visible, as in a container."""
    folder = root + path.rstrip("/")
    return folder if files.exists(folder) else root


def _up(root: str, folder: str) -> tuple[str, ...]:
    """A folder and its parents, up to the mount point."""
    folders = [folder]
    while folder != root:
        folder = folder.rpartition("/")[0]
        folders.append(folder)
    return tuple(folders)


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
