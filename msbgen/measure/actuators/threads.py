"""Number of threads, for programs that read their context from the environment."""

from __future__ import annotations

from collections.abc import Sequence

from msbgen.measure.actuators.actuator import Actuator, Capability


class Threads(Actuator):
    """Number of threads of a program that reads its context at its start; at most one per core."""

    units = "1"
    long_name = "threads of the program"

    def __init__(self, name: str, cores: Sequence[int]):
        self.name = name
        self._n_cores = len(cores)
        self._level = float(self._n_cores)

    def capability(self) -> Capability:
        """Whole numbers up to the number of cores."""
        return Capability("number of threads", 1.0, float(self._n_cores), 1.0, ())

    def apply(self, level: float) -> None:
        """Store the level; the program itself reads it."""
        self._level = level

    def read(self) -> float:
        """The stored level."""
        return self._level
