"""The interface of an actuator, which sets one resource of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msbgen.data.schema import same_level

# Levels that a message lists.
_SHOWN_LEVELS = 6


class SettingError(RuntimeError):
    """The machine did not accept settings; `problems` has value, reason and remedy of each."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Capability:
    """What an actuator can set on this machine.

    A profile file keeps the mechanism, because levels of different mechanisms are not comparable.
    """

    mechanism: str
    lowest: float
    highest: float
    step: float  # levels are `lowest` plus whole steps; 0 if every value is possible
    problems: tuple[str, ...]  # why it cannot be used, with a remedy each

    def level_problems(self, name: str, levels: Sequence[float], units: str) -> list[str]:
        """A sentence for each level that the machine would not set exactly."""
        if self.problems:
            return list(self.problems)
        refused = []
        for level in levels:
            if (
                not self.lowest <= level <= self.highest
                and not same_level(level, [self.lowest, self.highest]).any()
            ):
                refused.append(
                    f"{name} is {level:g} {units}; this machine's {self.mechanism} takes "
                    f"{self.lowest:g} to {self.highest:g}."
                )
            elif self.step:
                steps = (level - self.lowest) / self.step
                above = self.lowest + self.step * -(-(level - self.lowest) // self.step)
                if abs(steps - round(steps)) > 1e-6 * max(1.0, abs(steps)):
                    refused.append(
                        f"{name} is {level:g} {units}, which is rounded to {above:g}; whole steps "
                        f"of {self.step:g} from {self.lowest:g} on are wanted."
                    )
        return refused


@dataclass(frozen=True)
class Usage:
    """Times of a run."""

    wall: float  # from the program's release to its end [s]
    cpu: float  # CPU time of the program and of the child processes that it waited for [s]


class Actuator(Protocol):
    """Sets one resource of a program to levels in one unit.

    Every value is written unbuffered and read back, because the kernel may round or ignore it.
    `name` is that of the resource in contexts, `units` and `long_name` its attributes in a profile
    file.
    """

    name: str
    units: str
    long_name: str

    def capability(self) -> Capability:
        """What can be set on this machine; changes nothing."""
        ...

    def apply(self, level: float) -> None:
        """Set a level and read it back; raise :class:`SettingError` if they differ."""
        ...

    def read(self) -> float:
        """The level that the kernel shows now."""
        ...

    def place(self, pid: int) -> None:
        """Apply the setting to a process; nothing by default, as the program is pinned to cores."""
        return

    def watch(self) -> None:
        """Sample what the running program gets; called several times during a run."""
        return

    def begin(self) -> None:
        """Prepare for the release of the program; called once a run, directly before it."""
        return

    def end(self) -> None:
        """Stop what runs beside the program; called once a run, directly after its end."""
        return

    def achieved(self, usage: Usage) -> float:
        """Achieved level of the run, in the resource's unit; by default the level, read again."""
        return self.read()

    def failure(self) -> str:
        """How the setting ended the run, for a sentence; empty if it did not."""
        return ""


def listed(levels: Sequence[str]) -> str:
    """The first of these texts."""
    return ", ".join(levels[:_SHOWN_LEVELS]) + (", …" if len(levels) > _SHOWN_LEVELS else "")
