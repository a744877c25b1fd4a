"""What the labelled model, the bounds and the plans ask of a law of profiles, on arrays.

A law holds what was learned of a task's runs and answers for any resource context.  There are
two, and nobody asks which one it is: `ProgressLaw`, a trend over contexts on a progress clock and
a bridge on what it leaves, and the paper's `ElapsedLaw`, a bridge on the wall clock.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import OnProgress
from msbgen.generate.centre import Centre
from msbgen.generate.residuals import Residuals

Floats = NDArray[np.float64]

Kind = Literal["max_likelihood", "mean", "sample"]


class Law(Protocol):
    """A fitted law of profiles."""

    name: ClassVar[str]

    @property
    def settings(self) -> Any:
        """A frozen dataclass of numbers and strings."""
        ...

    @property
    def contexts(self) -> Floats:
        """Known contexts, (n_known, n_resources)."""
        ...

    @property
    def duration(self) -> Floats:
        """Measured execution times (n_known, n_runs) [s], NaN where one is missing or was cut."""
        ...

    @property
    def interval(self) -> float:
        """Sampling interval [s]."""
        ...

    @property
    def n_counters(self) -> int:
        """Counters that are generated."""
        ...

    @property
    def centre(self) -> Centre:
        """The trend over contexts, with what the known ones depart from it.

        Raises
        ------
        ArgumentError
            A law without a trend.
        """
        ...

    @property
    def residuals(self) -> Residuals:
        """How the measured runs depart from the centre; errors as :attr:`centre`."""
        ...

    def check(self, query: Floats) -> None:
        """Raise ArgumentError where a context (q, n_resources) cannot be answered for."""
        ...

    def prepare(self, kind: Kind, progress: OnProgress | None = None) -> None:
        """Work out, once, what profiles of a kind want beyond the fit.

        Called by itself where it was not called before: paths want a bridge, means do not.

        Raises
        ------
        msbgen.bridge.solve.NotConvergedError
            The solver of the bridge did not reach its tolerance.
        """
        ...

    def profiles(
        self,
        query: Floats,
        kind: Kind,
        *,
        n_samples: int = 1,
        rng: np.random.Generator | int = 0,
        progress: OnProgress | None = None,
    ) -> tuple[NDArray[np.float32], Floats]:
        """Counts per interval and durations at contexts (q, n_resources).

        Returns
        -------
        counts : ndarray, (q[, n_samples], n_times, n_counters)
            NaN after the end; the last interval holds the share that the duration covers.
        duration : ndarray, (q[, n_samples])
            [s]

        Raises
        ------
        msbgen.bridge.solve.NotConvergedError
            As :meth:`prepare`.
        """
        ...

    def durations(self, query: Floats) -> Floats:
        """Execution times (q,) [s] that mean profiles have at contexts (q, n_resources)."""
        ...

    def longest(self, query: Floats) -> float:
        """Execution time that no profile at contexts (q, n_resources) exceeds, of any kind [s]."""
        ...

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of progress of each known context, (n_known, bins, k).

        Errors as :attr:`centre`.
        """
        ...

    def provenance(self, kind: Kind) -> dict[str, Any]:
        """What the attributes of generated profiles of a kind say of how they were made."""
        ...

    def labels(self) -> dict[str, Any]:
        """Settings and outcome as JSON knows them."""
        ...

    def to_arrays(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Everything but the contexts and durations, as named arrays with their dimensions.

        A bridge that paths want is solved before, so that what is saved answers at once.
        """
        ...
