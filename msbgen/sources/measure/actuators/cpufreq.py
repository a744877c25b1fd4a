"""Clock frequency of a program's cores: minimum and maximum of cpufreq set to one value.

This works under every governor and driver.  Under ``userspace`` alone, a thermal limit or a boost
may override the clock, so minimum and maximum are set there, too.  On Intel cores a fixed clock "is
fiction" (Documentation/admin-guide/pm/intel_pstate.rst): so the actual clock is sampled while the
program runs, and stored beside the level.
"""

from __future__ import annotations

from collections.abc import Sequence

from msbgen.sources.measure.actuators.actuator import Actuator, Capability, SettingError, Usage
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings

ROOT = "/sys/devices/system/cpu"
_LOW, _HIGH = "scaling_min_freq", "scaling_max_freq"


class CoreClock(Actuator):
    """Clock frequency of the cores that a program runs on [MHz]."""

    units = "MHz"
    long_name = "clock of the core"

    def __init__(self, name: str, settings: KernelSettings, cores: Sequence[int]):
        self.name = name
        self.settings = settings
        self._files = settings.files
        self._folders = [f"{ROOT}/cpu{core}/cpufreq" for core in cores]
        self._samples: list[float] = []

    def capability(self) -> Capability:
        """The range of the hardware."""
        for folder in self._folders:
            if not self._files.exists(folder):
                lack = (
                    f"{self.name}: there is no {folder}; the kernel needs a cpufreq driver, which "
                    f"virtual machines do not have."
                )
                return Capability("cpufreq", 0.0, 0.0, 0.0, (lack,))
        driver = self._files.read(f"{self._folders[0]}/scaling_driver").strip()
        lowest = max(self._number(folder, "cpuinfo_min_freq") for folder in self._folders)
        highest = min(self._number(folder, "cpuinfo_max_freq") for folder in self._folders)
        return Capability(f"cpufreq ({driver})", lowest, highest, 0.0, ())

    def apply(self, level: float) -> None:
        """Set minimum and maximum of every core, and read them back."""
        wanted = round(level * 1000)
        for folder in self._folders:
            up = wanted > round(1000 * self._number(folder, _HIGH))
            for file in (_HIGH, _LOW) if up else (_LOW, _HIGH):
                self._write(f"{folder}/{file}", wanted)
            for file in (_LOW, _HIGH):
                back = round(1000 * self._number(folder, file))
                if back != wanted:
                    raise SettingError(
                        f"{folder}/{file} is {back} kHz where {wanted} was written; a clock that "
                        f"the driver has is wanted{self._available(folder)}."
                    )
            if self._files.read(f"{folder}/scaling_governor").strip() == "userspace":
                self._write(f"{folder}/scaling_setspeed", wanted)
        self._samples.clear()

    def read(self) -> float:
        """Clock that the first core is set to [MHz]."""
        low, high = (self._number(self._folders[0], file) for file in (_LOW, _HIGH))
        if low != high:
            raise SettingError(
                f"{self.name} is {low:g} to {high:g} MHz: another process sets "
                f"{self._folders[0]}; end that first."
            )
        return high

    def watch(self) -> None:
        """Sample the actual clocks of the cores."""
        self._samples += [self._number(folder, "scaling_cur_freq") for folder in self._folders]

    def achieved(self, usage: Usage) -> float:
        """Mean of the sampled clocks; for a very short run, the clock at its end [MHz]."""
        if not self._samples:
            self.watch()
        mean = sum(self._samples) / len(self._samples)
        self._samples.clear()
        return mean

    def _number(self, folder: str, file: str) -> float:
        """A clock [MHz], from kHz in the file."""
        return int(self._files.read(f"{folder}/{file}")) / 1000

    def _available(self, folder: str) -> str:
        file = f"{folder}/scaling_available_frequencies"
        return f": {self._files.read(file).strip()}" if self._files.exists(file) else ""

    def _write(self, path: str, wanted: int) -> None:
        try:
            self.settings.write(path, str(wanted))
        except OSError as error:
            raise SettingError(
                f"{path}: the kernel refused {wanted} ({error.strerror}); run as root, and choose "
                f"a clock that the driver has{self._available(path.rpartition('/')[0])}."
            ) from None
