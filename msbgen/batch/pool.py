"""Where units are carried out: in this process, one after another."""

from __future__ import annotations

from typing import Protocol

from msbgen.batch.execute import ExecutionConfig, Unit, execute
from msbgen.batch.job import Facts


class ClusterError(RuntimeError):
    """The cluster that units were given to does not answer, or cannot be had.

    Attributes
    ----------
    problems : tuple of str
        A sentence each.
    suspect : bool
        Whether a unit that was under way may have been what ended it.
    """

    def __init__(self, *problems: str, suspect: bool = True):
        super().__init__(" ".join(problems))
        self.problems, self.suspect = problems, suspect


class Pool(Protocol):
    """Takes units, and tells of those that have ended."""

    def room(self) -> int:
        """Units that may be submitted now."""
        ...

    def submit(self, unit: Unit) -> None:
        """Have a unit carried out."""
        ...

    def collect(self) -> list[tuple[Unit, Facts]]:
        """Units that have ended, with the fields of their lines; waits for one.

        Raises
        ------
        ClusterError
            None ended within the limit, or nobody answers any more.
        """
        ...

    def renew(self) -> list[Unit]:
        """Begin anew elsewhere; returns units that were submitted and have not ended.

        Raises
        ------
        ClusterError
            There is nowhere else.
        """
        ...

    def close(self) -> None:
        """End what was begun."""
        ...


class LocalPool:
    """Carries units out in this process, as they come.

    Parameters
    ----------
    config : ExecutionConfig
    """

    def __init__(self, config: ExecutionConfig):
        self._config = config
        self._ended: list[tuple[Unit, Facts]] = []

    def room(self) -> int:
        """One at a time."""
        return 0 if self._ended else 1

    def submit(self, unit: Unit) -> None:
        """Carry a unit out."""
        self._ended.append((unit, execute(unit, self._config)))

    def collect(self) -> list[tuple[Unit, Facts]]:
        """Those that have ended: all."""
        ended, self._ended = self._ended, []
        return ended

    def renew(self) -> list[Unit]:
        """Nothing is ever lost here."""
        return []

    def close(self) -> None:
        """Nothing was begun."""
