"""A solved bridge: couplings, trajectories, and clouds at any time, given a context or not."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import generator, numbers_of
from msbgen.core.errors import ArgumentError, quoted
from msbgen.core.lazy import lazy_module
from msbgen.engine.bridge.pair import NO_COST, Ground, ground_of

_kernels = lazy_module("msbgen.engine.bridge._kernels")

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# A snapshot, and some of its points.
_Points = tuple[int, Indices]


class Status(enum.StrEnum):
    """How a solve ended."""

    CONVERGED = "converged: the marginals hold to the tolerance"
    MAX_ITERATIONS = "not converged: the iteration limit was reached"
    STAGNATED = "not converged: rounding stops the marginal error above the tolerance"


@dataclass(frozen=True)
class Cloud:
    """A weighted point cloud: points (n, d) and weights (n,).

    ``variance`` is that of the Brownian bridge around each point, per coordinate. The exact
    Schrödinger bridge is a mixture of Gaussians with that variance; the paper's cloud has none.
    NaN where other costs than those of a Brownian motion were given.
    """

    points: Floats
    weights: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class Bridge:
    r"""The solved bridge, stored as potentials.

    The bimarginal of snapshots j and j + 1 is ``exp((f[:, None] + g[None, :] - C) / epsilon)``
    with ``f, g = potentials[j]``. Without given times snapshot j is at ``t = j``, so that
    ``t = 2.25`` is a quarter of the way from snapshot 2 to snapshot 3.

    Attributes
    ----------
    points : tuple of (n_j, d) arrays
    weights : tuple of (n_j,) arrays
        Of total mass 1. At an unconstrained snapshot: the marginal of the solution.
    times : (s,) array
        When the snapshots were taken, ascending.
    costs : tuple of (n_j, n_{j+1}) arrays
        Empty where the cost is the squared Euclidean distance over the step of time.
    epsilon : float
        [squared units of the points per unit of time, or units of the costs]
    potentials : tuple of (f (n_j,), g (n_{j+1},))
        Minus infinity exactly where the weight is zero.
    status : Status
    marginal_error : (s - 1,) array
        L1 error of both marginals of each pair, in float64, to 1 % of the tolerance.
    iterations : (s - 1,) array of int
        Passes over the kernel of each pair, or sweeps over the path.
    """

    points: tuple[Floats, ...]
    weights: tuple[Floats, ...]
    times: Floats
    costs: tuple[Floats, ...]
    epsilon: float
    potentials: tuple[tuple[Floats, Floats], ...]
    status: Status
    marginal_error: Floats
    iterations: NDArray[np.int64]
    timed: bool = False  # whether times were given

    def coupling(self, pair: int) -> Floats:
        """Bimarginal of snapshots ``pair`` and ``pair + 1``, dense (n_j, n_{j+1}).

        Raises
        ------
        ArgumentError
            A pair that does not exist.
        """
        if not 0 <= pair < len(self.potentials):
            raise ArgumentError(
                f"pair is {quoted(pair)}; one of the {len(self.potentials)} of this bridge, from 0 "
                f"on, is wanted."
            )
        f, g = self.potentials[pair]
        plan = np.empty((f.size, g.size))
        _kernels.gibbs(self._ground(pair), f, g, self.epsilon, plan)
        return plan

    def interpolate(self, t: float) -> Cloud:
        r"""Displacement interpolation at time ``t``.

        Between snapshots the atoms are :math:`\lambda x_r + (1 - \lambda) y_s` with the mass of
        the coupling, where :math:`\lambda` falls from 1 to 0. Atoms without mass are dropped, so
        that there are up to ``n_j * n_{j+1}``; :meth:`sample_points` draws some of them. The
        variance around each atom is :math:`\lambda (1 - \lambda) \varepsilon \Delta t / 2`.

        Raises
        ------
        ArgumentError
            A time outside the path.
        """
        return self._atoms(t)[0]

    def condition(
        self,
        t: float,
        contexts: Sequence[ArrayLike],
        query: ArrayLike,
        bandwidth: ArrayLike,
    ) -> Cloud:
        """The cloud at time `t`, given a context.

        Each point x_r has a context β_r, such as the settings under which it was measured.  Atom
        λ·x_r + (1−λ)·x_s of :meth:`interpolate` has the probability Γ[r, s]·κ(β − λβ_r − (1−λ)β_s),
        normalised, with a Gaussian κ: eq. (5) of the source, :mod:`msbgen.engine.bridge.condition`.

        Parameters
        ----------
        t : float
        contexts : sequence of (n_j, m) arrays
            Of the points of each snapshot.
        query : array_like, (m,)
            The context β.
        bandwidth : array_like, () or (m,)
            Standard deviation of κ [units of the contexts], for each column or for all.

        Returns
        -------
        Cloud
            Up to n_j·n_{j+1} atoms; their weights are the conditional probabilities.

        Raises
        ------
        ArgumentError
            Arguments of another shape, a bandwidth that is not above 0, a time outside the path.
        """
        wanted, width = numbers_of(query, "query"), numbers_of(bandwidth, "bandwidth")
        if wanted.ndim != 1 or width.shape not in ((), wanted.shape) or not (width > 0.0).all():
            raise ArgumentError(
                f"query is {quoted(query)} and bandwidth {quoted(bandwidth)}; one context, and "
                f"numbers above 0, are wanted."
            )
        known = [numbers_of(c, f"contexts[{j}]") / width for j, c in enumerate(contexts)]
        shapes = [(len(points), wanted.size) for points in self.points]
        if (given := [c.shape for c in known]) != shapes:
            raise ArgumentError(f"contexts have the shapes {given}; {shapes} are wanted.")
        cloud, lam, (first, rows), (second, columns) = self._atoms(t)
        mixed = lam * known[first][rows] + (1.0 - lam) * known[second][columns]
        exponent = -0.5 * ((wanted / width - mixed) ** 2).sum(axis=1) + np.log(cloud.weights)
        weights = np.exp(exponent - exponent.max())
        return Cloud(cloud.points, weights / weights.sum(), cloud.variance)

    def _atoms(self, t: float) -> tuple[Cloud, float, _Points, _Points]:
        """The cloud at time t, λ, and which points of which snapshot its atoms mix."""
        pair, lam = self._locate(t)
        if lam == 1.0:
            kept = np.flatnonzero(self.weights[pair])
            cloud = Cloud(self.points[pair][kept], self.weights[pair][kept], 0.0)
            return cloud, 1.0, (pair, kept), (pair, kept)
        plan = self.coupling(pair)
        rows, columns = np.nonzero(plan)
        atoms = lam * self.points[pair][rows] + (1.0 - lam) * self.points[pair + 1][columns]
        cloud = Cloud(atoms, plan[rows, columns], self._rate(pair) * lam * (1.0 - lam))
        return cloud, lam, (pair, rows), (pair + 1, columns)

    def sample_points(
        self, times: ArrayLike, size: int, rng: np.random.Generator | int = 0
    ) -> Floats:
        """Trajectories of the Schrödinger bridge, drawn independently, at `times`.

        A trajectory goes through one point of each snapshot, a whole path, and is a Brownian bridge
        between them, so that its points at several times are drawn jointly. Nothing of the size of
        a coupling is stored.

        Parameters
        ----------
        times : array_like, (k,)
            In any order.
        size : int
        rng : numpy.random.Generator or int

        Returns
        -------
        ndarray, (size, k, d)

        Raises
        ------
        ArgumentError
            A time outside the path; costs were given, but no times.
        """
        wanted = numbers_of(times, "times").ravel()
        rng, places = generator(rng), [self._locate(t) for t in wanted.tolist()]
        if not np.isfinite(self._rate(0)):
            raise ArgumentError(
                "costs were given without times, so that the variance between snapshots is "
                "unknown; solve_bridge(..., times=) is wanted."
            )
        paths = self.sample_paths(size, rng)
        out = np.empty((size, wanted.size, self.points[0].shape[1]))
        here, at, last_pair = self.points[0][paths[:, 0]], 1.0, 0
        for i in np.argsort(wanted, kind="stable"):
            # invariant: `here`, at share `at` of the first snapshot, is the last point drawn
            pair, lam = places[i]
            if pair != last_pair:
                here, at, last_pair = self.points[pair][paths[:, pair]], 1.0, pair
            if lam < at:
                end = self.points[pair + 1][paths[:, pair + 1]]
                left = lam / at
                noise = rng.standard_normal(here.shape)
                deviation = np.sqrt(self._rate(pair) * (at - lam) * left)
                here, at = left * here + (1.0 - left) * end + deviation * noise, lam
            out[:, i] = here
        return out

    def sample_paths(self, size: int, rng: np.random.Generator | int = 0) -> Indices:
        """Independent draws (size, s) of whole paths, as indices into each snapshot's points."""
        rng = generator(rng)
        paths = np.empty((size, len(self.points)), dtype=np.intp)
        paths[:, 0] = _draw(self.weights[0], size, rng)
        for pair in range(len(self.potentials)):
            paths[:, pair + 1] = self._successors(pair, paths[:, pair], rng)
        return paths

    def _successors(self, pair: int, rows: Indices, rng: np.random.Generator) -> Indices:
        order = np.argsort(rows, kind="stable")
        drawn = np.empty(rows.size, dtype=np.intp)
        _kernels.draw_successors(
            self._ground(pair),
            *self.potentials[pair],
            self.epsilon,
            rows[order],
            rng.random(rows.size),
            drawn,
        )
        successors = np.empty_like(drawn)
        successors[order] = drawn
        return successors

    def _rate(self, pair: int) -> float:
        """Variance of the underlying Brownian motion over the step of a pair, per coordinate."""
        if self.costs and not self.timed:
            return np.nan
        step = self.times[pair + 1] - self.times[pair] if len(self.times) > 1 else 0.0
        return 0.5 * self.epsilon * float(step)

    def _ground(self, pair: int) -> Ground:
        return grounds_of(self.points, self.costs, self.times)[pair]

    def _locate(self, t: float) -> tuple[int, float]:
        """Pair and weight of its first snapshot; the weight is 1 exactly at a snapshot."""
        first, last = self.times[0], self.times[-1]
        if not first <= t <= last:
            raise ArgumentError(f"t is {quoted(t)}; {first:g} to {last:g}, the path, is wanted.")
        pair = int(np.searchsorted(self.times, t, "right")) - 1
        if t == self.times[pair]:
            return pair, 1.0
        return pair, float((self.times[pair + 1] - t) / (self.times[pair + 1] - self.times[pair]))


def grounds_of(points: Sequence[Floats], costs: Sequence[Floats], times: Floats) -> list[Ground]:
    """The ground cost of each pair: a matrix, or squared distances over the step of time."""
    if costs:
        return [ground_of(points[j], points[j + 1], cost) for j, cost in enumerate(costs)]
    grounds = []
    for x, y, step in zip(points, points[1:], np.diff(times).tolist()):
        unit = 1.0 if step == 1.0 else np.sqrt(step)
        grounds.append(ground_of(x / unit, y / unit, NO_COST))
    return grounds


def _draw(weights: Floats, size: int, rng: np.random.Generator) -> Indices:
    cumulated = np.cumsum(weights)
    # side="right" never draws a point without mass, also not at the end of the range
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(cumulated, rng.random(size) * cumulated[-1], "right"), last)
