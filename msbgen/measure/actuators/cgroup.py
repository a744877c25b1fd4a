"""A share of the CPU for a program: the quota of a control group, version 1 or 2.

The group may run for ``quota`` microseconds of every ``period``, and has the largest weight, so
that others on its core take little from it.  Limits are the kernel's
(``kernel/sched/core.c``, tg_set_cfs_bandwidth): a quota of 1 ms or more, a period from 1 ms to 1 s,
and no group above the share of those that it is in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from msbgen.measure.actuators.actuator import Capability, SettingError, Usage
from msbgen.measure.actuators.kernel_files import KernelFiles
from msbgen.measure.actuators.kernel_settings import KernelSettings

_LEAST = 1_000  # microseconds, of a quota and of a period
_LONGEST = 1_000_000  # microseconds, of a period
_MOUNTS, _OWN = "/proc/self/mounts", "/proc/self/cgroup"
# The largest weight that a group can have: others on its core get what the quota leaves them.
_WEIGHT = {1: ("cpu.shares", "262144"), 2: ("cpu.weight", "10000")}
# What a kernel's file calls no limit: version 1, version 2.
_UNLIMITED = ("-1", "max")


@dataclass(frozen=True)
class _Place:
    """Where a group can be made.

    Attributes
    ----------
    version : int
        Of control groups, 1 or 2.
    parent : str
        Folder in which our group is made.
    above : tuple of str
        It and the folders that it is in, up to the mount.
    """

    version: int
    parent: str
    above: tuple[str, ...]


class CpuQuota:
    """Share of one core's time in percent, by the CPU quota of a control group.

    Parameters
    ----------
    name : str
    settings : KernelSettings
    group : str
        Name of the group's folder.
    period : float
        Period of the quota [s]; the sampling interval is a good one: each sample has one period.
    """

    units = "percent"
    long_name = "share of one core's time"

    def __init__(self, name: str, settings: KernelSettings, group: str, period: float):
        self.name = name
        self._settings = settings
        self._files = settings.files
        self._group = group
        self._period = round(period * 1e6)
        self._place: _Place | None = None
        self._folder = ""

    def capability(self) -> Capability:
        """Shares that give a quota of at least a millisecond, up to what we have ourselves."""
        problems = []
        period = self._period
        if not _LEAST <= period <= _LONGEST:
            problems.append(
                f"{self.name}: period is {period} us; 1 ms to 1 s, the kernel's range, is wanted "
                f"(without 'period' in the spec it is the interval)."
            )
            period = min(max(period, _LEAST), _LONGEST)
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
        return Capability(mechanism, 100.0 * _LEAST / period, highest, 0.0, tuple(problems))

    def apply(self, level: float) -> None:
        """Set the quota and read it back."""
        quota = round(level / 100 * self._period)
        place = self._made()
        if place.version == 1:
            self._write("cpu.cfs_quota_us", str(quota), level)
        else:
            self._write("cpu.max", f"{quota} {self._period}", level)
        back = self.read()
        if abs(back - 100 * quota / self._period) > 1e-9 * back:
            raise SettingError(
                f"{self.name} is {back:g} % where {level:g} % was written: somebody else sets "
                f"{self._folder}; end that first."
            )

    def read(self) -> float:
        """Share that the group has now [percent]."""
        place = self._made()
        shares = list(_share_of(self._files, place.version, self._folder))
        return shares[0] if shares else 100.0 * (os.cpu_count() or 1)

    def place(self, pid: int) -> None:
        """Put a process into the group."""
        self._made()
        self._write("cgroup.procs", str(pid), 0.0)

    def watch(self) -> None:
        """Nothing to see while a program runs."""

    def achieved(self, usage: Usage) -> float:
        """CPU time per time [percent]."""
        return 100.0 * usage.cpu / usage.wall

    def throttled(self) -> tuple[int, int]:
        """Periods in which the group was active, and in which it was stopped, since it was made."""
        self._made()
        words = self._files.read(f"{self._folder}/cpu.stat").split()
        said = dict(zip(words[::2], words[1::2]))
        return int(said.get("nr_periods", 0)), int(said.get("nr_throttled", 0))

    def restore(self) -> None:
        """Remove the group."""
        _restore(self._settings)
        self._folder = ""

    def _made(self) -> _Place:
        """The place, with the group in it."""
        if self._place is None:
            problems = self.capability().problems
            if problems or self._place is None:
                raise SettingError(*problems)
        place = self._place
        if not self._folder:
            if place.version == 2:
                self._enable(place.parent)
            folder = f"{place.parent}/{self._group}"
            if not self._files.exists(folder):
                try:
                    self._settings.make(folder)
                except OSError as error:
                    raise SettingError(
                        f"{self.name}: group {folder} cannot be made ({error.strerror}); run as "
                        f"root, or have the folder given to you (systemd: Delegate=cpu)."
                    ) from None
            self._folder = folder
            file, weight = _WEIGHT[place.version]
            if self._files.exists(f"{folder}/{file}"):
                self._write(file, weight, 0.0)
            if place.version == 1:
                self._write("cpu.cfs_period_us", str(self._period), 0.0)
        return place

    def _enable(self, parent: str) -> None:
        """Have the groups below use the controller."""
        file = f"{parent}/cgroup.subtree_control"
        if "cpu" not in self._files.read(file).split():
            try:
                self._settings.write(file, "+cpu", "controller")
            except OSError as error:
                raise SettingError(
                    f"{self.name}: controller 'cpu' cannot be given to groups in {parent} "
                    f"({error.strerror}); run as root, or have it given to you (Delegate=cpu)."
                ) from None

    def _write(self, file: str, text: str, level: float) -> None:
        path = f"{self._folder}/{file}"
        try:
            self._settings.write(path, text)
        except OSError as error:
            raise SettingError(
                f"{path}: the kernel refused '{text}' ({error.strerror}); "
                + self._remedy(file, level)
            ) from None

    def _remedy(self, file: str, level: float) -> str:
        if file == "cgroup.procs":
            return "run as root, or as the owner of the process and of both its groups."
        can = self.capability()
        return (
            f"{level:g} % of {self._period} us must be 1 ms or more and no more than the group "
            f"above has ({can.highest:g} %)."
        )


def _restore(settings: KernelSettings) -> None:
    """Take back what was changed, and say what could not be."""
    outcome = settings.restore()
    if outcome.failed:
        raise SettingError(*outcome.failed)


def _find_place(files: KernelFiles) -> _Place | str | None:
    """Where a group with a quota can be made, or why it cannot."""
    if not files.exists(_OWN):  # a kernel without control groups
        return None
    mounts = [line.split() for line in files.read(_MOUNTS).splitlines()]
    own = [line.split(":", 2) for line in files.read(_OWN).splitlines()]
    for fields in mounts:
        if fields[2] == "cgroup" and "cpu" in fields[3].split(","):
            mine = next((path for _, names, path in own if "cpu" in names.split(",")), "/")
            parent = _below(files, fields[1], mine)
            return _Place(1, parent, _up(fields[1], parent))
    for fields in mounts:
        if fields[2] == "cgroup2":
            root = fields[1]
            if "cpu" not in files.read(f"{root}/cgroup.controllers").split():
                continue
            mine = next((path for number, _, path in own if number == "0"), "/")
            parent = _below(files, root, mine)
            # groups with processes in them give nothing to groups below, but for the root
            for folder in _up(root, parent):
                file = f"{folder}/cgroup.subtree_control"
                if folder == root or "cpu" in files.read(file).split():
                    return _Place(2, folder, _up(root, folder))
            return f"no group above {parent} gives 'cpu' to those in it; have it given (Delegate)."
    return None


def _below(files: KernelFiles, root: str, path: str) -> str:
    """Our group's folder; in a container its path may be another's, then what is mounted."""
    folder = root + path.rstrip("/")
    return folder if files.exists(folder) else root


def _up(root: str, folder: str) -> tuple[str, ...]:
    """A folder and those that it is in, up to the mount."""
    found = [folder]
    while folder != root:
        folder = folder.rpartition("/")[0]
        found.append(folder)
    return tuple(found)


def _share_of(files: KernelFiles, version: int, folder: str) -> list[float]:
    """Share that a group may use [percent]; nothing where it has no limit."""
    if version == 1:
        names = [f"{folder}/cpu.cfs_quota_us", f"{folder}/cpu.cfs_period_us"]
        if not files.exists(names[0]):  # the root of everything
            return []
        quota, period = (files.read(name).strip() for name in names)
    else:
        if not files.exists(f"{folder}/cpu.max"):
            return []
        quota, period = files.read(f"{folder}/cpu.max").split()
    return [] if quota in _UNLIMITED else [100.0 * int(quota) / int(period)]
