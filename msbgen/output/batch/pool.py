"""Pools that execute units; the local one runs them in this process, one after another."""

from typing import Protocol

from msbgen.output.batch.execute import ExecutionConfig, Unit, execute
from msbgen.output.batch.job import Facts


class ClusterError(RuntimeError):
    """The cluster does not answer or start; `suspect` if a running unit may be the cause."""

    def __init__(self, *problems: str, suspect: bool = True):
        super().__init__(" ".join(problems))
        self.problems, self.suspect = problems, suspect


class Pool(Protocol):
    """Executes units; raises :class:`ClusterError` where units or the cluster are lost."""

    def room(self) -> int:
        """Number of units that may be submitted now."""
        ...

    def submit(self, unit: Unit) -> None:
        """Submit a unit."""
        ...

    def collect(self) -> list[tuple[Unit, Facts]]:
        """Units that ended, with the fields of their lines; waits for at least one."""
        ...

    def renew(self) -> list[Unit]:
        """Restart; returns submitted units that have not ended."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class LocalPool:
    """Executes units in this process."""

    def __init__(self, config: ExecutionConfig):
        self._config = config
        self._ended: list[tuple[Unit, Facts]] = []

    def room(self) -> int:
        """One unit at a time."""
        return 0 if self._ended else 1

    def submit(self, unit: Unit) -> None:
        """Execute a unit."""
        self._ended.append((unit, execute(unit, self._config)))

    def collect(self) -> list[tuple[Unit, Facts]]:
        """All executed units."""
        ended, self._ended = self._ended, []
        return ended

    def renew(self) -> list[Unit]:
        """Local units are never lost."""
        return []

    def close(self) -> None:
        """Nothing to release."""
