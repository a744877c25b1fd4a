"""The small interface of what gives a resource to a program: capability, apply, read, restore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msbgen.data.schema import same_level

# What is set and what is read back are one value up to this share: units are whole numbers.
_SHOWN_LEVELS = 6


class SettingError(RuntimeError):
    """The machine did not take a setting; the message has value, the kernel's word and a remedy.

    Attributes
    ----------
    problems : tuple of str
        One sentence each.
    """

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Capability:
    """What an actuator can set on this machine.

    Attributes
    ----------
    mechanism : str
        What does it, in words that a file keeps: other mechanisms never share its axis.
    lowest, highest : float
        The range of its levels.
    step : float
        Levels are `lowest` and whole numbers of steps above it; 0 where every value will do.
    problems : tuple of str
        Why it cannot be used, a sentence with its remedy each; empty where it can.
    """

    mechanism: str
    lowest: float
    highest: float
    step: float
    problems: tuple[str, ...]

    def level_problems(self, name: str, levels: Sequence[float], units: str) -> list[str]:
        """A sentence for each level that the machine would not take as it stands."""
        if self.problems:
            return list(self.problems)
        said = []
        for level in levels:
            if (
                not self.lowest <= level <= self.highest
                and not same_level(level, [self.lowest, self.highest]).any()
            ):
                said.append(
                    f"{name} is {level:g} {units}; this machine's {self.mechanism} takes "
                    f"{self.lowest:g} to {self.highest:g}."
                )
            elif self.step:
                steps = (level - self.lowest) / self.step
                above = self.lowest + self.step * -(-(level - self.lowest) // self.step)
                if abs(steps - round(steps)) > 1e-6 * max(1.0, abs(steps)):
                    said.append(
                        f"{name} is {level:g} {units}, which is rounded to {above:g}; whole steps "
                        f"of {self.step:g} from {self.lowest:g} on are wanted."
                    )
        return said


@dataclass(frozen=True)
class Usage:
    """What a run used.

    Attributes
    ----------
    wall : float
        From its release to its end [s].
    cpu : float
        Of the program and of the children that it waited for [s].
    """

    wall: float
    cpu: float


class Actuator(Protocol):
    """Gives one resource to a program, in levels of one unit.

    Every value is written unbuffered and read back; what the kernel makes of it is never assumed.

    Attributes
    ----------
    name : str
        The resource, as contexts name it.
    units, long_name : str
        As a profile file has them.
    """

    name: str
    units: str
    long_name: str

    def capability(self) -> Capability:
        """What can be set here; changes nothing."""
        ...

    def apply(self, level: float) -> None:
        """Set a level and read it back; raises :class:`SettingError` where it did not take."""
        ...

    def read(self) -> float:
        """The level that is set now, as the kernel says it."""
        ...

    def place(self, pid: int) -> None:
        """Put a process under the setting."""
        ...

    def watch(self) -> None:
        """Look at what the running program has, from time to time."""
        ...

    def achieved(self, usage: Usage) -> float:
        """What the run had of the resource, in its units."""
        ...

    def restore(self) -> None:
        """Take everything back; raises :class:`SettingError` for what could not be."""
        ...


def listed(levels: Sequence[float]) -> str:
    """A few levels in words."""
    shown = ", ".join(f"{level:g}" for level in levels[:_SHOWN_LEVELS])
    return shown + (", …" if len(levels) > _SHOWN_LEVELS else "")
