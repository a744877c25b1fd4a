"""How many threads a program uses: told to it, for it to obey."""

from __future__ import annotations

from collections.abc import Sequence

from msbgen.measure.actuators.actuator import Capability, Usage


class Threads:
    """Number of threads of a program that is told its context when it starts.

    Parameters
    ----------
    name : str
    cores : sequence of int
        That the program is pinned to: no more threads than these make sense.
    """

    units = "1"
    long_name = "threads of the program"

    def __init__(self, name: str, cores: Sequence[int]):
        self.name = name
        self._most = len(cores)
        self._level = float(self._most)

    def capability(self) -> Capability:
        """Whole numbers up to the cores."""
        return Capability("number of threads", 1.0, float(self._most), 1.0, ())

    def apply(self, level: float) -> None:
        """Remember a level: the program reads it."""
        self._level = level

    def read(self) -> float:
        """The level that the next program is told."""
        return self._level

    def place(self, pid: int) -> None:
        """Nothing to place."""

    def watch(self) -> None:
        """Nothing to see while a program runs."""

    def achieved(self, usage: Usage) -> float:
        """What the program was told."""
        return self._level

    def restore(self) -> None:
        """Nothing was changed."""
