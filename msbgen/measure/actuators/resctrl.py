"""Cache ways and memory bandwidth of a program, by resctrl (Intel RDT, AMD QoS, Arm MPAM).

One group of ``/sys/fs/resctrl`` holds the program; lines of its ``schemata`` give it ways of the
last-level cache (CAT) and a share of the memory bandwidth (MBA).  Where the kernel refuses, it says
why in ``info/last_cmd_status``, but not always (``fs/resctrl/ctrlmondata.c``): refusals
without a word are explained here.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

from msbgen.measure.actuators.actuator import Capability, SettingError, Usage
from msbgen.measure.actuators.kernel_settings import KernelSettings

ROOT = "/sys/fs/resctrl"
_STATUS = f"{ROOT}/info/last_cmd_status"
_MOUNTS = "/proc/self/mounts"

# What helps, by the kernel's word.
_REMEDIES = (
    ("Out of CLOSIDs", "remove groups that nobody needs: rmdir " + ROOT + "/GROUP"),
    ("Out of RMIDs", "remove groups that nobody needs, and wait until the caches forget theirs"),
    ("No space on", "other groups hold the cache exclusively: make one of them shareable"),
    ("exclusive group", "another group holds these ways exclusively: echo shareable > its 'mode'"),
    ("other group", "our group was made exclusive: leave its 'mode' shareable"),
    ("pseudo-lock", "a group has locked a part of the cache: remove it, or ask for other ways"),
    ("Pseudo-lock", "a group has locked a part of the cache: remove it, or ask for other ways"),
    ("uninitialized", "remove the group and measure again"),
    ("Mask out of range", "as many ways as the cache has, and no fewer than it can, are wanted"),
    ("Need at least", "ask for more ways"),
    ("non-consecutive", "ways in one piece are wanted"),
    ("Non-hex", "a mask in hexadecimal digits is wanted"),
    ("out of range", "ask for a bandwidth in that range"),
    ("MB value", "a whole number is wanted"),
    ("non-linear", "this processor's bandwidth cannot be set by the kernel"),
    ("Duplicate domain", "one value a cache is wanted"),
    ("Missing", "a line as 'L3:0=ff;1=ff' is wanted"),
    (
        "Unknown or unsupported resource",
        "mount resctrl with what the processor has (cdp, mba_MBps)",
    ),
    ("No permission to move task", "run as root"),
    ("No task", "the program ended before it was placed: measure again"),
    ("Invalid pid", "a process number is wanted"),
    ("Task list parsing", "a process number is wanted"),
    ("different control group", "leave the task to its own group"),
    ("Error while processing task", "measure again"),
    ("kernfs", "the kernel is out of memory: end something"),
    ("out of memory", "end something"),
    ("Failed to initialize", "measure again"),
)
# What helps where the kernel refuses without a word.
_SILENT = {
    errno.EINVAL: "it did not say why; caches that 'schemata' lists, in a whole line, are wanted",
    errno.EACCES: "run as root",
    errno.EPERM: "run as root",
    errno.EBUSY: "monitors of groups removed lately still count: wait a minute, or remove groups",
    errno.ENOSPC: "there are as many groups as the processor has: remove one",
    errno.ENOENT: "the group was removed meanwhile: measure again",
    errno.ESRCH: "the program ended before it was placed: measure again",
    errno.EROFS: "resctrl is mounted read-only: mount -o remount,rw " + ROOT,
}


class ResctrlGroup:
    """The group that one program runs in; both resources are lines of its schemata.

    Parameters
    ----------
    settings : KernelSettings
    name : str
        Name of the group's folder.
    """

    def __init__(self, settings: KernelSettings, name: str):
        self.settings = settings
        self.files = settings.files
        self.folder = f"{ROOT}/{name}"

    def lack(self) -> str | None:
        """Why there is no resctrl here, with its remedy."""
        if self.files.exists(f"{ROOT}/schemata"):
            return None
        return (
            f"there is no {ROOT}/schemata; processors with RDT, QoS or MPAM have it after: "
            f"mount -t resctrl resctrl {ROOT}"
        )

    def lines(self, folder: str) -> dict[str, dict[str, str]]:
        """Values of a group by resource and cache, blanks stripped: AMD pads with them."""
        found: dict[str, dict[str, str]] = {}
        for line in self.files.read(f"{folder}/schemata").splitlines():
            resource, _, values = line.partition(":")
            pairs = (value.partition("=") for value in values.split(";"))
            found[resource.strip()] = {cache.strip(): value.strip() for cache, _, value in pairs}
        return found

    def options(self) -> list[str]:
        """Options that resctrl is mounted with."""
        for line in self.files.read(_MOUNTS).splitlines():
            fields = line.split()
            if fields[1:3] == [ROOT, "resctrl"]:
                return fields[3].split(",")
        return []

    def number(self, path: str) -> int:
        """A decimal number of ``info``."""
        return int(self.files.read(f"{ROOT}/info/{path}"))

    def set(self, what: str, resources: list[str], value: str) -> None:
        """Give the group one value of resources in every cache."""
        self._make(what)
        caches = self.lines(ROOT)
        for resource in resources:
            line = f"{resource}:" + ";".join(f"{cache}={value}" for cache in caches[resource])
            self._write(what, "schemata", line, line)

    def place(self, what: str, pid: int) -> None:
        """Move a process into the group."""
        self._make(what)
        self._write(what, "tasks", str(pid), f"task {pid}")
        if str(pid) not in self.files.read(f"{self.folder}/tasks").split():
            raise SettingError(
                f"{what}: task {pid} is not in {self.folder}/tasks after it was written; measure "
                f"again."
            )

    def restore(self) -> None:
        """Remove the group: the kernel gives its tasks back to the default one."""
        outcome = self.settings.restore()
        if outcome.failed:
            raise SettingError(*outcome.failed)

    def _make(self, what: str) -> None:
        if not self.files.exists(self.folder):
            self._try(what, f"group {self.folder}", lambda: self.settings.make(self.folder))

    def _write(self, what: str, file: str, text: str, value: str) -> None:
        path = f"{self.folder}/{file}"
        self._try(what, value, lambda: self.settings.write(path, f"{text}\n"))

    def _try(self, what: str, value: str, act: Callable[[], object]) -> None:
        """Do it; a refusal becomes a sentence with the kernel's word, the value and a remedy."""
        try:
            act()
        except OSError as error:
            said = self._status()
            remedies = [text for word, text in _REMEDIES if word in said]
            number = error.errno or errno.EINVAL
            remedy = (*remedies, _SILENT.get(number, "measure again"))[0]
            word = f"'{said}'" if said else error.strerror
            raise SettingError(f"{what}: the kernel refused {value}: {word}; {remedy}.") from None

    def _status(self) -> str:
        """The kernel's word about the last refusal; none where it has none."""
        try:
            said = self.files.read(_STATUS).strip()
        except OSError:
            return ""
        return "" if said == "ok" else ", ".join(said.splitlines())


class CacheWays:
    """Ways of the last-level cache that a program may fill [1], by CAT.

    Programs elsewhere on the machine may share these ways: what they do is not bounded.  Lines that
    a program left in other ways stay there, so that each run is a new process.

    Parameters
    ----------
    name : str
    group : ResctrlGroup
    """

    units = "1"
    long_name = "ways of the last-level cache"

    def __init__(self, name: str, group: ResctrlGroup):
        self.name = name
        self._group = group

    def capability(self) -> Capability:
        """From the fewest bits of a mask to all of them."""
        lack = self._group.lack()
        if lack is None and not self._resources():
            lack = "this processor cannot allocate its last-level cache (no L3 in 'schemata')."
        if lack is not None:
            return Capability("resctrl L3", 0.0, 0.0, 1.0, (f"{self.name}: {lack}",))
        info = self._resources()[0]
        ways = self._all().bit_count()
        least = self._group.number(f"{info}/min_cbm_bits")
        return Capability("resctrl L3", float(max(least, 1)), float(ways), 1.0, ())

    def apply(self, level: float) -> None:
        """Give so many ways in one piece, apart from those of devices where there is room."""
        mask = self._mask(round(level))
        self._group.set(f"{self.name} = {level:g}", self._resources(), f"{mask:x}")
        back = self.read()
        if back != round(level):
            raise SettingError(
                f"{self.name} is {back:g} where {level:g} was written; as many ways as the kernel "
                f"gives are wanted."
            )

    def read(self) -> float:
        """Ways that the group has in every cache; the fewest, if they differ."""
        lines = self._group.lines(self._group.folder)
        masks = [int(m, 16) for resource in self._resources() for m in lines[resource].values()]
        return float(min(mask.bit_count() for mask in masks))

    def place(self, pid: int) -> None:
        """Move a process into the group."""
        self._group.place(self.name, pid)

    def watch(self) -> None:
        """Nothing to see while a program runs."""

    def achieved(self, usage: Usage) -> float:
        """The ways, read again."""
        return self.read()

    def restore(self) -> None:
        """Remove the group."""
        self._group.restore()

    def _resources(self) -> list[str]:
        """Lines of the cache; with code and data apart there are two."""
        return [name for name in self._group.lines(ROOT) if name in ("L3", "L3CODE", "L3DATA")]

    def _info(self, file: str) -> int:
        return int(self._group.files.read(f"{ROOT}/info/{self._resources()[0]}/{file}"), 16)

    def _all(self) -> int:
        return self._info("cbm_mask")

    def _mask(self, ways: int) -> int:
        whole, piece = self._all(), (1 << ways) - 1
        places = [piece << at for at in range(whole.bit_length()) if (piece << at) & ~whole == 0]
        shared = self._info("shareable_bits")
        return min(places, key=lambda mask: (mask & shared).bit_count(), default=piece)


class MemoryBandwidth:
    """Memory bandwidth of a program, by MBA: percent, or MB/s by the kernel's software controller.

    The throttle is approximate, acts on a whole core with its sibling, and is not linear: the
    achieved bandwidth is what the program's counters say.

    Parameters
    ----------
    name : str
    group : ResctrlGroup
    """

    long_name = "memory bandwidth"

    def __init__(self, name: str, group: ResctrlGroup):
        self.name = name
        self._group = group
        lines = {} if group.lack() else group.lines(ROOT)
        whole = max(map(int, lines["MB"].values())) if "MB" in lines else 100
        self._megabytes = "MB" in lines and "mba_MBps" in group.options()
        if self._megabytes:  # the software controller counts mebibytes
            self.units, self._mechanism = "MiB s-1", "resctrl MB, software controller"
        elif whole > 100:  # AMD: eighths of a gigabyte per second
            self.units, self._mechanism = "0.125 GB s-1", "resctrl MB, absolute"
        else:
            self.units, self._mechanism = "percent", "resctrl MB"

    def capability(self) -> Capability:
        """Steps of the processor, from its least on."""
        lack = self._group.lack()
        if lack is None and "MB" not in self._group.lines(ROOT):
            lack = "this processor cannot throttle its memory bandwidth (no MB in 'schemata')."
        if lack is not None:
            return Capability(self._mechanism, 0.0, 0.0, 0.0, (f"{self.name}: {lack}",))
        least = float(self._group.number("MB/min_bandwidth"))
        step = float(self._group.number("MB/bandwidth_gran"))
        whole = max(map(float, self._group.lines(ROOT)["MB"].values()))
        if self._megabytes:
            return Capability(self._mechanism, 1.0, whole, 1.0, ())
        # the kernel rounds up to whole steps from zero on
        return Capability(self._mechanism, least, max(whole, least), step, ())

    def apply(self, level: float) -> None:
        """Throttle, and read back: the kernel rounds up to its steps."""
        self._group.set(f"{self.name} = {level:g}", ["MB"], f"{round(level)}")
        back = self.read()
        if back != round(level):
            raise SettingError(
                f"{self.name} is {back:g} where {level:g} was written: the kernel rounds up; ask "
                f"for {back:g}."
            )

    def read(self) -> float:
        """Throttle of the group in every domain; the lowest, if they differ."""
        lines = self._group.lines(self._group.folder)
        return min(float(re.sub(r"\D", "", value)) for value in lines["MB"].values())

    def place(self, pid: int) -> None:
        """Move a process into the group."""
        self._group.place(self.name, pid)

    def watch(self) -> None:
        """Nothing to see while a program runs."""

    def achieved(self, usage: Usage) -> float:
        """The throttle, read again."""
        return self.read()

    def restore(self) -> None:
        """Remove the group."""
        self._group.restore()
