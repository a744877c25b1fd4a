"""Memory bandwidth of a core, regulated by the kernel module MemGuard (Yun et al., RTAS 2013).

Its files in debugfs accept everything: for a value that is missing, zero or no number, a core keeps
its limit without an error.  So every limit is read back and compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msbgen.sources.measure.actuators.actuator import Actuator, Capability, SettingError
from msbgen.sources.measure.actuators.kernel_settings import NORMALISERS, KernelSettings

FOLDER = "/sys/kernel/debug/memguard"
# The limit that the module uses for "no limit" [MB/s].
_HIGHEST = 100_000.0
_CORE = re.compile(r"^CPU(\d+):", re.MULTILINE)


class MemGuard(Actuator):
    """Bandwidth of last-level misses of the cores that a program runs on [MB/s].

    The other cores keep their limits; the bandwidth used is in the program's counters.  `direction`
    is the limit to set, "read" or "write".
    """

    units = "MB s-1"
    long_name = "bandwidth budget of the core"

    def __init__(
        self, name: str, settings: KernelSettings, cores: Sequence[int], direction: str = "read"
    ):
        self.name = name
        self.settings = settings
        self._files = settings.files
        self._cores = tuple(cores)
        self._direction = direction
        self._path = f"{FOLDER}/{direction}_limit"

    def capability(self) -> Capability:
        """Whole megabytes per second, 1 or more."""
        mechanism = f"MemGuard {self._direction} limit"
        problems = []
        if not self._files.exists(self._path):
            problems.append(
                f"{self.name}: there is no {self._path}; load the module memguard.ko, and mount "
                f"debugfs: mount -t debugfs none /sys/kernel/debug"
            )
        else:
            limits = self._limits()
            problems += [
                f"{self.name}: MemGuard does not regulate core {core}, only "
                f"{', '.join(map(str, limits))}."
                for core in self._cores
                if core not in limits
            ]
        return Capability(mechanism, 1.0, _HIGHEST, 1.0, tuple(problems))

    def apply(self, level: float) -> None:
        """Write the limits of all cores, with new ones for ours, and read them back."""
        wanted = round(level)
        limits = self._limits()
        limits.update(dict.fromkeys(self._cores, wanted))
        text = "mb " + " ".join(map(str, limits.values()))
        try:
            self.settings.write(self._path, f"{text}\n", "memguard")
        except OSError as error:
            raise SettingError(
                f"{self._path}: the kernel refused '{text}' ({error.strerror}); run as root."
            ) from None
        for core, limit in self._limits().items():
            if core in self._cores and limit != wanted:
                raise SettingError(
                    f"{self._path}: core {core} has {limit} MB/s where {wanted} was written; "
                    f"choose a limit that MemGuard shows as it was written."
                )

    def read(self) -> float:
        """The lowest limit of our cores [MB/s]."""
        limits = self._limits()
        return float(min(limits[core] for core in self._cores))

    def _limits(self) -> dict[int, int]:
        """Limit of every core [MB/s]."""
        text = self._files.read(self._path)
        words = NORMALISERS["memguard"](text).removeprefix("mb").split()
        cores = [int(core) for core in _CORE.findall(text)] or range(len(words))
        return dict(zip(cores, map(int, words)))
