"""Paths of the bridge: a Markov chain over equally large snapshots, run by run.

Where the same n runs make up every snapshot, the bridge is a chain over their numbers: from run r
at snapshot j it goes to run s with the probability n·Γ_j[r, s].  Conditioned on a context, only
some runs take part, each with a weight; then whole paths are drawn, or the most likely is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.bridge import _kernels
from msbgen.bridge.pair import NO_COST, ground_of, marginal_error
from msbgen.bridge.solve import SolverConfig, solve_bridge
from msbgen.core.arrays import StoredArrays
from msbgen.core.machine import OnProgress

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chain:
    """The bridge between neighbouring snapshots of the same runs, by its potentials.

    Attributes
    ----------
    points : ndarray, (snapshots, n, d)
        The runs at each snapshot, in scaled coordinates.
    potentials : ndarray, (2, snapshots − 1, n)
        f and g of each pair's coupling exp((f + g − |x − y|²)/ε).
    epsilon : float
        Weight of the entropy, in squared units of the points.
    status : str
        How the solver ended.
    marginal_error : float
        Largest L1 error of a marginal.
    """

    points: Floats
    potentials: Floats
    epsilon: float
    status: str
    marginal_error: float

    @classmethod
    def fit(
        cls,
        points: Floats,
        *,
        epsilon: float,
        tol: float,
        progress: OnProgress | None = None,
    ) -> Chain:
        """Solve the bridge between all neighbouring snapshots.

        Parameters
        ----------
        points : ndarray, (snapshots, n, d)
        epsilon : float
        tol : float
            Largest L1 error of the marginals.
        progress : callable
            Called with (done, total) pairs.

        Raises
        ------
        msbgen.bridge.solve.NotConvergedError
            The solver did not reach its tolerance.
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
        """Run that the most likely path of each context visits at each snapshot.

        Parameters
        ----------
        active : ndarray of int, (q, k)
            Runs that take part.
        log_weight : ndarray, (q, k)
            Log of their weights.
        bandwidth : float
            Of the kernel estimate of the runs' density, which a path is likely by.
        dims : int
            Leading coordinates of the points that the density is over.

        Returns
        -------
        ndarray of int, (q, snapshots)
        """
        path = np.empty((len(active), len(self.points)), dtype=np.int64)
        _kernels.most_likely_paths(
            self.points, *self.potentials, self.epsilon, active, log_weight, bandwidth, dims, path
        )
        return path

    def draw(self, active: Indices, log_weight: Floats, uniform: Floats) -> Indices:
        """Runs that drawn paths of each context visit.

        Parameters
        ----------
        active, log_weight
            As for :meth:`most_likely`.
        uniform : ndarray, (q, n_draws, snapshots)
            Random numbers in [0, 1).

        Returns
        -------
        ndarray of int, (q, n_draws, snapshots)
        """
        path = np.empty(uniform.shape, dtype=np.int64)
        _kernels.draw_paths(
            self.points, *self.potentials, self.epsilon, active, log_weight, uniform, path
        )
        return path

    def to_arrays(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """What the solver found as named arrays with their dimensions."""
        return {"potentials": (("side", "pair", "used"), self.potentials)}

    def labels(self) -> dict[str, Any]:
        """How the solver ended, as JSON knows it."""
        return {"status": self.status, "marginal_error": self.marginal_error}

    @classmethod
    def from_arrays(
        cls, stored: StoredArrays, labels: Mapping[str, Any], points: Floats, epsilon: float
    ) -> Chain:
        """Undo :meth:`to_arrays` and :meth:`labels` for the points that were solved.

        Raises
        ------
        ProfileError
            Arrays of another shape, or numbers that are not finite.
        """
        wanted = (2, len(points) - 1, points.shape[1])
        potentials = stored.numbers("potentials", wanted)
        return cls(points, potentials, epsilon, *outcome_of(stored, labels))


def outcome_of(stored: StoredArrays, labels: Mapping[str, Any]) -> tuple[str, float]:
    """How a solver ended, its sentence and the largest marginal error, from what JSON held.

    Raises
    ------
    ProfileError
        Something else is there.
    """
    status, error = labels.get("status"), labels.get("marginal_error")
    stored.want(isinstance(status, str), "'status'", status, "a sentence")
    stored.want(isinstance(error, float) and 0 <= error < 1, "'marginal_error'", error, "0 to 1")
    assert isinstance(status, str)
    assert isinstance(error, float)
    return status, error
