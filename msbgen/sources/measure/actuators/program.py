"""Settings of the program's own process: arguments, environment, cores, scheduling priority.

They end with the process, so there is nothing to restore.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msbgen.sources.measure.actuators.actuator import Actuator, Capability, SettingError

_POLICIES = {
    "batch": os.SCHED_BATCH, "idle": os.SCHED_IDLE, "fifo": os.SCHED_FIFO, "rr": os.SCHED_RR,
}  # fmt: skip


class ProgramInput(Actuator):
    """A level that the program reads at its start, from its arguments or environment."""

    def __init__(self, name: str, capability: Capability, units: str = "1", long_name: str = ""):
        self.name = name
        self.units = units
        self.long_name = long_name or capability.mechanism
        self._capability = capability
        self._level = capability.highest

    def capability(self) -> Capability:
        """As given."""
        return self._capability

    def apply(self, level: float) -> None:
        """Store the level; the new process gets it."""
        self._level = level

    def read(self) -> float:
        """The stored level."""
        return self._level


class Cores(ProgramInput):
    """Cores that a program may run on (CPU affinity), for each level."""

    def __init__(self, name: str, capability: Capability, sets: Mapping[float, Sequence[int]]):
        super().__init__(name, capability, "1", "cores of the program")
        self._sets = sets

    def place(self, pid: int) -> None:
        """Pin a process to the cores of the level, and read them back."""
        wanted = set(self._sets[self._level])
        os.sched_setaffinity(pid, wanted)
        if (got := os.sched_getaffinity(pid)) != wanted:
            raise SettingError(
                f"{self.name}: the program may run on cores {sorted(got)} where {sorted(wanted)} "
                f"were set; list cores that are online and allowed."
            )


class Priority(ProgramInput):
    """Scheduling of a program: a nice value, or a policy such as ``idle`` or ``fifo:10``."""

    def __init__(self, name: str, labels: Sequence[str]):
        problems = [
            f"{name}: policy '{label}' is unknown; batch, idle, fifo:1 to fifo:99 or rr:1 to rr:99 "
            f"are wanted."
            for label in labels
            if _policy(label) is None
        ]
        mechanism, limits = ("policy", (1.0, len(labels))) if labels else ("nice", (-20.0, 19.0))
        capability = Capability(f"scheduling {mechanism}", *limits, 1.0, tuple(problems))
        super().__init__(name, capability, "1", "scheduling priority of the program")
        self._labels = labels

    def place(self, pid: int) -> None:
        """Set priority or policy of a process, and read it back."""
        label = self._labels[round(self._level) - 1] if self._labels else f"{self._level:g}"
        try:
            if policy := _policy(label) if self._labels else None:
                os.sched_setscheduler(pid, policy[0], os.sched_param(policy[1]))
                got = os.sched_getscheduler(pid) == policy[0]
            else:
                os.setpriority(os.PRIO_PROCESS, pid, round(self._level))
                got = os.getpriority(os.PRIO_PROCESS, pid) == self._level
        except PermissionError:
            raise SettingError(f"{self.name} cannot be '{label}'; run as root.") from None
        if not got:
            raise SettingError(f"{self.name} is not '{label}' after it was set; run as root.")


def _policy(label: str) -> tuple[int, int] | None:
    """Policy and real-time priority of a word; None if it is unknown."""
    name, _, number = label.partition(":")
    real_time = name in ("fifo", "rr")
    valid = number.isdecimal() and 1 <= int(number) <= 99 if real_time else label == name
    return (_POLICIES[name], int(number or 0)) if name in _POLICIES and valid else None
