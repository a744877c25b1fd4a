"""Cache ways and memory bandwidth of a program, by resctrl (Intel RDT, AMD QoS, Arm MPAM).

One group of ``/sys/fs/resctrl`` holds the program.  Lines of its ``schemata`` assign ways of the
last-level cache (CAT) and limit the memory bandwidth (MBA).  The kernel gives the reason of most
refusals in ``info/last_cmd_status`` (``fs/resctrl/ctrlmondata.c``); this module explains the rest.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

from msbgen.sources.measure.actuators.actuator import Actuator, Capability, SettingError
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings

ROOT = "/sys/fs/resctrl"
_STATUS = f"{ROOT}/info/last_cmd_status"
_MOUNTS = "/proc/self/mounts"

# Remedies by a part of the kernel's reason, for refusals that a line or a task of ours can cause.
_REMEDIES = (
    ("Out of CLOSIDs", "remove unused groups: rmdir " + ROOT + "/GROUP"),
    ("Out of RMIDs", "remove unused groups, and wait until their lines have left the caches"),
    ("No space on", "other groups hold the cache exclusively: make one of them shareable"),
    ("exclusive group", "another group holds these ways exclusively: echo shareable > its 'mode'"),
    ("other group", "our group was made exclusive: leave its 'mode' shareable"),
    ("pseudo-lock", "a group has locked a part of the cache: remove it, or ask for other ways"),
    ("Pseudo-lock", "a group has locked a part of the cache: remove it, or ask for other ways"),
    ("uninitialized", "remove the group and measure again"),
    ("Mask out of range", "a number of ways between the cache's least and most is wanted"),
    ("Need at least", "ask for more ways"),
    ("out of range", "ask for a bandwidth in that range"),
    ("non-linear", "this processor's bandwidth cannot be set by the kernel"),
    (
        "Unknown or unsupported resource",
        "mount resctrl with what the processor has (cdp, mba_MBps)",
    ),
    ("No permission to move task", "run as root"),
    ("No task", "the program ended before it was placed: measure again"),
    ("different control group", "leave the task to its own group"),
    ("kernfs", "the kernel is out of memory: end something"),
    ("out of memory", "end something"),
)
# Remedies for refusals without a reason, by errno.
_WITHOUT_REASON = {
    errno.EINVAL: "no reason given; a whole line with the caches listed in 'schemata' is wanted",
    errno.EACCES: "run as root",
    errno.EPERM: "run as root",
    errno.EBUSY: "monitors of groups removed lately still count: wait a minute, or remove groups",
    errno.ENOSPC: "there are as many groups as the processor has: remove one",
    errno.ENOENT: "the group was removed meanwhile: measure again",
    errno.ESRCH: "the program ended before it was placed: measure again",
    errno.EROFS: "resctrl is mounted read-only: mount -o remount,rw " + ROOT,
}


class ResctrlGroup:
    """The resctrl group of a program; cache ways and bandwidth are lines of its schemata."""

    def __init__(self, settings: KernelSettings, name: str):
        self.settings = settings
        self.files = settings.files
        self.folder = f"{ROOT}/{name}"

    def problem(self) -> str | None:
        """Why resctrl is missing, with a remedy; None if it is there."""
        if self.files.exists(f"{ROOT}/schemata"):
            return None
        return (
            f"there is no {ROOT}/schemata; processors with RDT, QoS or MPAM have it after: "
            f"mount -t resctrl resctrl {ROOT}"
        )

    def lines(self, folder: str) -> dict[str, dict[str, str]]:
        """Values of a group by resource and cache, without the blanks that AMD pads with."""
        values: dict[str, dict[str, str]] = {}
        for line in self.files.read(f"{folder}/schemata").splitlines():
            resource, _, text = line.partition(":")
            pairs = (value.partition("=") for value in text.split(";"))
            values[resource.strip()] = {cache.strip(): value.strip() for cache, _, value in pairs}
        return values

    def options(self) -> list[str]:
        """Mount options of resctrl."""
        for line in self.files.read(_MOUNTS).splitlines():
            fields = line.split()
            if fields[1:3] == [ROOT, "resctrl"]:
                return fields[3].split(",")
        return []

    def number(self, path: str) -> int:
        """A decimal number from a file in ``info``."""
        return int(self.files.read(f"{ROOT}/info/{path}"))

    def set(self, what: str, resources: list[str], value: str) -> None:
        """Set the resources of the group to one value in every cache."""
        self.create(what)
        caches = self.lines(ROOT)
        for resource in resources:
            line = f"{resource}:" + ";".join(f"{cache}={value}" for cache in caches[resource])
            self._write(what, "schemata", line, line)

    def place(self, what: str, pid: int) -> None:
        """Move a process into the group."""
        self.create(what)
        self._write(what, "tasks", str(pid), f"task {pid}")
        if str(pid) not in self.files.read(f"{self.folder}/tasks").split():
            raise SettingError(
                f"{what}: task {pid} is missing from {self.folder}/tasks after it was written; "
                f"measure again."
            )

    def create(self, what: str) -> None:
        """Create the group if it does not exist; `what` begins the message of a refusal."""
        if not self.files.exists(self.folder):
            self._try(what, f"group {self.folder}", lambda: self.settings.make(self.folder))

    def _write(self, what: str, file: str, text: str, value: str) -> None:
        path = f"{self.folder}/{file}"
        self._try(what, value, lambda: self.settings.write(path, f"{text}\n"))

    def _try(self, what: str, value: str, act: Callable[[], object]) -> None:
        """Call `act`; turn a refusal into a sentence with value, reason and remedy."""
        try:
            act()
        except OSError as error:
            reason = self._refusal_reason()
            remedies = [text for part, text in _REMEDIES if part in reason]
            number = error.errno or errno.EINVAL
            remedy = (*remedies, _WITHOUT_REASON.get(number, "measure again"))[0]
            shown = f"'{reason}'" if reason else error.strerror
            raise SettingError(f"{what}: the kernel refused {value}: {shown}; {remedy}.") from None

    def _refusal_reason(self) -> str:
        """The kernel's reason of the last refusal; empty if it has none."""
        try:
            status = self.files.read(_STATUS).strip()
        except OSError:
            return ""
        return "" if status == "ok" else ", ".join(status.splitlines())


class CacheWays(Actuator):
    """Ways of the last-level cache that a program may fill [1], by CAT.

    Other programs on the machine may use the same ways.  A program's lines in other ways stay there
    after a change, so each run is a new process.
    """

    units = "1"
    long_name = "ways of the last-level cache"

    def __init__(self, name: str, group: ResctrlGroup):
        self.name = name
        self.group = group

    def capability(self) -> Capability:
        """From the fewest bits that a mask may have to all of them."""
        problem = self.group.problem()
        if problem is None and not self._resources():
            problem = "this processor cannot allocate its last-level cache (no L3 in 'schemata')."
        if problem is not None:
            return Capability("resctrl L3", 0.0, 0.0, 1.0, (f"{self.name}: {problem}",))
        info = self._resources()[0]
        ways = self._all().bit_count()
        least = self.group.number(f"{info}/min_cbm_bits")
        return Capability("resctrl L3", float(max(least, 1)), float(ways), 1.0, ())

    def apply(self, level: float) -> None:
        """Assign adjacent ways, if possible none of those that devices share."""
        mask = self._mask(round(level))
        self.group.set(f"{self.name} = {level:g}", self._resources(), f"{mask:x}")
        back = self.read()
        if back != round(level):
            raise SettingError(
                f"{self.name} is {back:g} where {level:g} was written; a number of ways that the "
                f"kernel accepts is wanted."
            )

    def read(self) -> float:
        """Ways of the group; the fewest if caches differ."""
        lines = self.group.lines(self.group.folder)
        masks = [int(m, 16) for resource in self._resources() for m in lines[resource].values()]
        return float(min(mask.bit_count() for mask in masks))

    def place(self, pid: int) -> None:
        """Move a process into the group."""
        self.group.place(self.name, pid)

    def _resources(self) -> list[str]:
        """Schemata lines of the cache: one, or two if code and data are apart."""
        return [name for name in self.group.lines(ROOT) if name in ("L3", "L3CODE", "L3DATA")]

    def _info(self, file: str) -> int:
        return int(self.group.files.read(f"{ROOT}/info/{self._resources()[0]}/{file}"), 16)

    def _all(self) -> int:
        return self._info("cbm_mask")

    def _mask(self, ways: int) -> int:
        whole, piece = self._all(), (1 << ways) - 1
        places = [piece << at for at in range(whole.bit_length()) if (piece << at) & ~whole == 0]
        shared = self._info("shareable_bits")
        return min(places, key=lambda mask: (mask & shared).bit_count(), default=piece)


class MemoryBandwidth(Actuator):
    """Memory bandwidth of a program, by MBA: percent, or MB/s by the kernel's software controller.

    The limit is approximate and not linear, and acts on a whole core with its sibling thread.  The
    achieved bandwidth is in the program's counters.
    """

    long_name = "memory bandwidth"

    def __init__(self, name: str, group: ResctrlGroup):
        self.name = name
        self.group = group
        lines = {} if group.problem() else group.lines(ROOT)
        whole = max(map(int, lines["MB"].values())) if "MB" in lines else 100
        self._megabytes = "MB" in lines and "mba_MBps" in group.options()
        if self._megabytes:  # the software controller counts mebibytes
            self.units, self._mechanism = "MiB s-1", "resctrl MB, software controller"
        elif whole > 100:  # AMD: eighths of a gigabyte per second
            self.units, self._mechanism = "0.125 GB s-1", "resctrl MB, absolute"
        else:
            self.units, self._mechanism = "percent", "resctrl MB"

    def capability(self) -> Capability:
        """Steps of the processor, from its lowest level."""
        problem = self.group.problem()
        if problem is None and "MB" not in self.group.lines(ROOT):
            problem = "this processor cannot throttle its memory bandwidth (no MB in 'schemata')."
        if problem is not None:
            return Capability(self._mechanism, 0.0, 0.0, 0.0, (f"{self.name}: {problem}",))
        least = float(self.group.number("MB/min_bandwidth"))
        step = float(self.group.number("MB/bandwidth_gran"))
        whole = max(map(float, self.group.lines(ROOT)["MB"].values()))
        if self._megabytes:
            return Capability(self._mechanism, 1.0, whole, 1.0, ())
        # the kernel rounds up to whole steps, counted from zero
        return Capability(self._mechanism, least, max(whole, least), step, ())

    def apply(self, level: float) -> None:
        """Set the limit and read it back, because the kernel rounds up to its steps."""
        self.group.set(f"{self.name} = {level:g}", ["MB"], f"{round(level)}")
        back = self.read()
        if back != round(level):
            raise SettingError(
                f"{self.name} is {back:g} where {level:g} was written: the kernel rounds up; "
                f"use {back:g}."
            )

    def read(self) -> float:
        """Limit of the group; the lowest if domains differ."""
        lines = self.group.lines(self.group.folder)
        return min(float(re.sub(r"\D", "", value)) for value in lines["MB"].values())

    def place(self, pid: int) -> None:
        """Move a process into the group."""
        self.group.place(self.name, pid)
