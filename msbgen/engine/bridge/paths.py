"""Paths of the bridge: a Markov chain over snapshots of the same runs.

Where the same n runs make up every snapshot, the bridge is a Markov chain over the runs.  From run
r at snapshot j it moves to run s with probability n·Γ_j[r, s].  Conditioned on a context, some of
the runs take part, with weights.  Then paths are drawn, or the most likely path is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import SHARE, Stored
from msbgen.core.compiled import is_compiled
from msbgen.core.lazy import lazy_module
from msbgen.core.machine import OnProgress
from msbgen.core.parts import Given
from msbgen.engine.bridge.pair import NO_COST, ground_of, marginal_error
from msbgen.engine.bridge.solve import SolverConfig, solve_bridge

_kernels = lazy_module("msbgen.engine.bridge._kernels")

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chain:
    """The bridge between neighbouring snapshots of the same runs, stored as potentials."""

    # (snapshots, n, d): the runs at each snapshot, in scaled coordinates
    points: Annotated[Floats, Given("points")]
    # (2, snapshots − 1, n): f and g of each pair's exp((f + g − |x − y|²)/ε)
    potentials: Annotated[Floats, Stored((2, "pair", "used"))]
    # weight of the entropy, in squared units of the points
    epsilon: Annotated[float, Given("settings.epsilon")]
    status: str  # of the solver, a sentence
    marginal_error: Annotated[float, Stored((), SHARE)]  # largest L1 error of a marginal

    @classmethod
    def fit(
        cls, points: Floats, *, epsilon: float, tol: float, progress: OnProgress | None = None
    ) -> Chain:
        """The solved bridge between all neighbouring snapshots (snapshots, n, d).

        `progress` is called with (done, total) pairs.  The solver raises NotConvergedError where
        an L1 error of the marginals stays above `tol`.
        """
        bridge = solve_bridge(
            list(points), epsilon=epsilon, config=SolverConfig(tol=tol), progress=progress
        )
        potentials = np.array(bridge.potentials).reshape(len(points) - 1, 2, points.shape[1])
        return cls(
            points,
            np.ascontiguousarray(potentials.transpose(1, 0, 2)),
            epsilon,
            str(bridge.status),
            float(bridge.marginal_error.max(initial=0.0)),
        )

    def marginal_errors(self) -> Floats:
        """L1 error of the marginals of each pair of neighbouring snapshots, (snapshots − 1,)."""
        even = np.full(self.points.shape[1], 1.0 / self.points.shape[1])
        return np.array(
            [
                marginal_error(ground_of(x, y, NO_COST), f, g, (even, even), self.epsilon)
                for x, y, f, g in zip(self.points, self.points[1:], *self.potentials)
            ]
        )

    def most_likely(
        self, active: Indices, log_weight: Floats, *, bandwidth: float, dims: int
    ) -> Indices:
        """The most likely path of each context, as the run at each snapshot, (q, snapshots).

        The runs `active` (q, k) take part with weights of these logarithms (q, k).  `bandwidth` is
        that of the kernel estimate of their density in the `dims` leading coordinates of the
        points.
        """
        path = np.empty((len(active), len(self.points)), dtype=np.int64)
        _kernels.most_likely_paths(
            self.points, *self.potentials, self.epsilon, active, log_weight, bandwidth, dims, path
        )
        return path

    def draw(self, active: Indices, log_weight: Floats, uniform: Floats) -> Indices:
        """Drawn paths of each context, as the run at each snapshot, (q, n_draws, snapshots).

        `uniform` (q, n_draws, snapshots) are random numbers in [0, 1); the other arguments are as
        of :meth:`most_likely`.
        """
        path = np.empty(uniform.shape, dtype=np.int64)
        _kernels.draw_paths(
            self.points, *self.potentials, self.epsilon, active, log_weight, uniform, path
        )
        return path

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored potentials."""
        wanted = (2, len(self.points) - 1, self.points.shape[1])
        if self.potentials.shape != wanted:
            yield "potentials", f"of shape {self.potentials.shape}", f"one of {wanted}"


def paths_are_compiled(*, drawn: bool) -> bool:
    """Whether the cache has the kernels of drawn paths, or of the most likely ones.

    See :func:`msbgen.core.compiled.is_compiled`.
    """
    paths = _kernels.draw_paths if drawn else _kernels.most_likely_paths
    return is_compiled(_kernels.sinkhorn) and is_compiled(paths)
