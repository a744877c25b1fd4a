"""Interface of a distribution of profiles: what the labelled model, the bounds and the plans use.

A distribution is fitted to the runs of a task, and generates profiles of any context on arrays.
The default is `ProgressDistribution`: a trend over the contexts at equal progress, and a bridge of
its residuals.  The paper's `ElapsedDistribution` is a bridge in wall time.
"""

from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import OnProgress
from msbgen.engine.generate.centre import Centre
from msbgen.engine.generate.residuals import Residuals

Floats = NDArray[np.float64]

Kind = Literal["max_likelihood", "mean", "sample"]


class ProfileDistribution(Protocol):
    """A fitted distribution of profiles."""

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
        """Number of counters that are generated."""
        ...

    @property
    def centre(self) -> Centre:
        """The trend and the context residuals; ArgumentError for a distribution without trend."""
        ...

    @property
    def residuals(self) -> Residuals:
        """Residuals of the measured runs from the centre; errors as :attr:`centre`."""
        ...

    def prepare(self, kind: Kind, progress: OnProgress | None = None) -> None:
        """Solve, once, what profiles of a kind need beyond the fit: paths need a bridge.

        `profiles` does so if it was not done before.  Raises NotConvergedError where the solver did
        not reach its tolerance.
        """
        ...

    def profiles(
        self,
        query: Floats,
        kind: Kind,
        *,
        n_samples: int = 1,
        as_known: bool = False,
        rng: np.random.Generator | int = 0,
        progress: OnProgress | None = None,
    ) -> tuple[NDArray[np.float32], Floats]:
        """Counts per interval and durations at contexts (q, n_resources).

        Counts (q[, n_samples], n_times, n_counters) are NaN after the end; the last interval holds
        the share that the duration covers.  Durations (q[, n_samples]) are in seconds.  The
        answer for a context depends neither on its position nor on the others: samples come from
        one random stream per context (:func:`msbgen.engine.generate.streams.context_streams`).
        Samples include the error of the context's duration, unless `as_known`.  Errors as
        :meth:`prepare`.
        """
        ...

    def durations(self, query: Floats) -> Floats:
        """Execution times (q,) [s] of mean profiles at contexts (q, n_resources)."""
        ...

    def longest(self, query: Floats) -> float:
        """Execution time that no profile at contexts (q, n_resources) exceeds, of any kind [s]."""
        ...

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of progress of each known context, (n_known, bins, k).

        Errors as :attr:`centre`.
        """
        ...

    def provenance(self, kind: Kind, *, as_known: bool = False) -> dict[str, Any]:
        """Attributes of generated profiles of a kind: how they were made."""
        ...
