r"""Path-structured multi-marginal Schrödinger bridge between weighted point clouds.

Given snapshots :math:`\mu_1, \dots, \mu_\sigma` (weighted points) and costs :math:`C_j` between
adjacent ones, find the law :math:`M` of a path with these marginals that minimises

.. math:: \langle C, M\rangle + \varepsilon \langle M, \log M\rangle,
          \qquad C = \sum_j C_j(x_j, x_{j+1}).

As the cost sees adjacent snapshots only, :math:`M` is the Markov chain of the two-marginal
entropic plans :math:`\Gamma_j = \exp((f_j \oplus g_j - C_j)/\varepsilon)`: among the laws with
given adjacent bimarginals the Markov one has the largest entropy, and the entropies of the
constrained snapshots are fixed. Hence ``method="pairwise"`` solves each pair by itself. Snapshots
*without* data couple their neighbours; ``method="multimarginal"`` then passes messages along the
whole path. Potentials are stored, plans never.
"""

import enum
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from msbgen import _kernels

Array = np.ndarray
Ground = tuple[Array, Array, Array]  # see _kernels: points, transposed points, given costs

_NO_COST = np.zeros((0, 0))
_ROUNDING = 16 * np.finfo(np.float64).eps  # relative error of a potential after some sums


class Status(enum.StrEnum):
    """How a solve ended."""

    CONVERGED = "converged: the marginals hold to the tolerance"
    MAX_ITERATIONS = "not converged: the iteration limit was reached"
    STAGNATED = "not converged: rounding stops the marginal error above the tolerance"


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class SolverConfig:
    """When to stop, and with how many threads.

    Parameters
    ----------
    tol : float
        Largest L1 distance between the marginals of a pair's plan and the given weights, both
        ends summed, evaluated in float64 from the potentials that are returned. Newton steps make
        the last digits cheap, hence the strict default. What float64 can hold is about
        ``1e-15 * max(C) / epsilon``.
    max_iter : int
        Limit per pair on passes over its kernel (``pairwise``), or on sweeps over the path
        (``multimarginal``).
    hilbert_tol : float
        ``multimarginal`` stops when no dual variable moves by more than this in Hilbert's
        projective metric during a sweep (the paper's rule). ``tol`` must hold besides.
    threads : int
        Pairs solved side by side; by default the cores this process may use.
    """

    tol: float = 1e-9
    max_iter: int = 20_000
    hilbert_tol: float = 1e-12
    threads: int = field(default_factory=available_cores)

    def __post_init__(self):
        for name in ("tol", "hilbert_tol"):
            value = getattr(self, name)
            if not 0.0 < value < 1.0:
                raise ValueError(f"{name} is {value!r}; it must lie between 0 and 1")
        for name in ("max_iter", "threads"):
            value = getattr(self, name)
            if value != int(value) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be a positive integer")


class NotConvergedError(RuntimeError):
    """The marginals do not hold to the tolerance; ``bridge`` carries what was reached."""

    def __init__(self, bridge: "Bridge", tol: float):
        worst = int(np.argmax(bridge.marginal_error))
        remedy = (
            "raise max_iter"
            if bridge.status is Status.MAX_ITERATIONS
            else "raise tol, or epsilon, to what float64 can hold"
        )
        super().__init__(
            f"{bridge.status} (pair {worst}: L1 marginal error "
            f"{bridge.marginal_error[worst]:.3g} > tol {tol:.3g}, epsilon {bridge.epsilon:.3g}); "
            f'{remedy}, or pass on_failure="return" to use the partial result'
        )
        self.bridge = bridge


@dataclass(frozen=True)
class Cloud:
    """A weighted point cloud: points (n, d) and weights (n,).

    ``variance`` is that of the Brownian bridge around each point, per coordinate: the exact
    Schrödinger bridge is the mixture of Gaussians with it, the paper's cloud takes it as zero.
    """

    points: Array
    weights: Array
    variance: float


@dataclass(frozen=True, eq=False)
class Bridge:
    r"""The solved bridge, held by its potentials.

    The bimarginal of snapshots j and j + 1 is ``exp((f[:, None] + g[None, :] - C) / epsilon)``
    with ``f, g = potentials[j]``. Positions between snapshots are fractional: ``t = 2.25`` is a
    quarter of the way from snapshot 2 to snapshot 3.

    Attributes
    ----------
    points : tuple of (n_j, d) arrays
    weights : tuple of (n_j,) arrays
        Of total mass 1; for an unconstrained snapshot the marginal that was found.
    costs : tuple of (n_j, n_{j+1}) arrays
        The given costs, or empty when the cost is the squared Euclidean distance.
    epsilon : float
        [squared units of the points, or units of the costs]
    potentials : tuple of (f (n_j,), g (n_{j+1},))
        Minus infinity exactly where the weight is zero.
    status : Status
    marginal_error : (s - 1,) array
        L1 error of both marginals of each pair, in float64, as the stored potentials have it
        (to 1 % of the tolerance).
    iterations : (s - 1,) array of int
        Passes over the kernel of each pair, or sweeps over the path.
    """

    points: tuple[Array, ...]
    weights: tuple[Array, ...]
    costs: tuple[Array, ...]
    epsilon: float
    potentials: tuple[tuple[Array, Array], ...]
    status: Status
    marginal_error: Array
    iterations: Array

    def coupling(self, pair: int) -> Array:
        """Bimarginal of snapshots ``pair`` and ``pair + 1``, dense (n_j, n_{j+1})."""
        pair = self._checked("pair", pair, len(self.potentials))
        f, g = self.potentials[pair]
        plan = np.empty((f.size, g.size))
        _kernels.gibbs(self._ground(pair), f, g, self.epsilon, plan)
        return plan

    def marginal(self, snapshot: int) -> Array:
        """Marginal (n_j,) that the potentials imply; differs from ``weights`` by the error."""
        snapshot = self._checked("snapshot", snapshot, len(self.points))
        if not self.potentials:
            return self.weights[0].copy()
        pair = min(snapshot, len(self.potentials) - 1)
        return _marginals(self._ground(pair), *self.potentials[pair], self.epsilon)[snapshot - pair]

    def interpolate(self, t: float) -> Cloud:
        r"""Displacement interpolation at position ``t``.

        Between snapshots the atoms are :math:`\lambda x_r + (1 - \lambda) y_s` with the mass of
        the plan, :math:`\lambda = j + 1 - t`; atoms without mass are dropped. Up to
        ``n_j * n_{j+1}`` atoms: prefer `moments` or `sample` where they do.
        """
        pair, lam = self._locate(t)
        if lam == 1.0:
            held = self.weights[pair] > 0.0
            return Cloud(self.points[pair][held], self.weights[pair][held], 0.0)
        plan = self.coupling(pair)
        rows, columns = np.nonzero(plan)
        atoms = lam * self.points[pair][rows] + (1.0 - lam) * self.points[pair + 1][columns]
        return Cloud(atoms, plan[rows, columns], 0.5 * self.epsilon * lam * (1.0 - lam))

    def moments(self, t: float, *, spread: bool = False) -> tuple[Array, Array]:
        r"""Mean (d,) and covariance (d, d) at position ``t``, in memory linear in the points.

        ``spread`` adds what the exact bridge has beyond the displacement atoms: a Brownian bridge
        around each, of variance :math:`(\varepsilon / 2) \lambda (1 - \lambda)` per coordinate.
        """
        pair, lam = self._locate(t)
        x, a = self.points[pair], self.weights[pair]
        mean_x = a @ x
        x = x - mean_x
        if lam == 1.0:
            return mean_x, (x.T * a) @ x
        y, b = self.points[pair + 1], self.weights[pair + 1]
        mean_y = b @ y
        y = y - mean_y
        carried = np.empty((x.shape[0], y.shape[1]))
        _kernels.plan_times(
            self._ground(pair),
            *self.potentials[pair],
            self.epsilon,
            np.ascontiguousarray(y.T),
            carried,
        )
        cross = x.T @ carried
        covariance = (
            lam**2 * (x.T * a) @ x
            + (1.0 - lam) ** 2 * (y.T * b) @ y
            + lam * (1.0 - lam) * (cross + cross.T)
        )
        if spread:
            covariance.flat[:: x.shape[1] + 1] += 0.5 * self.epsilon * lam * (1.0 - lam)
        return lam * mean_x + (1.0 - lam) * mean_y, covariance

    def sample(
        self, t: float, size: int, rng: np.random.Generator, *, spread: bool = False
    ) -> Array:
        """Independent draws (size, d) at position ``t``; ``spread`` as in `moments`."""
        pair, lam = self._locate(t)
        rows = _draw(self.weights[pair], size, rng)
        if lam == 1.0:
            return self.points[pair][rows]
        columns = self._successors(pair, rows, rng)
        draws = lam * self.points[pair][rows] + (1.0 - lam) * self.points[pair + 1][columns]
        if spread:
            draws += rng.normal(0.0, np.sqrt(0.5 * self.epsilon * lam * (1.0 - lam)), draws.shape)
        return draws

    def sample_paths(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws (size, s) of whole paths, as indices into each snapshot's points."""
        paths = np.empty((size, len(self.points)), dtype=np.intp)
        paths[:, 0] = _draw(self.weights[0], size, rng)
        for pair in range(len(self.potentials)):
            paths[:, pair + 1] = self._successors(pair, paths[:, pair], rng)
        return paths

    def _successors(self, pair: int, rows: Array, rng: np.random.Generator) -> Array:
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

    def _ground(self, pair: int) -> Ground:
        cost = self.costs[pair] if self.costs else _NO_COST
        return _ground(self.points[pair], self.points[pair + 1], cost)

    def _locate(self, t: float) -> tuple[int, float]:
        """Pair and weight of its first snapshot; the weight is 1 exactly at a snapshot."""
        last = len(self.points) - 1
        if not 0.0 <= t <= last:
            raise ValueError(f"t is {t!r}; it must lie between 0 and {last}, the last snapshot")
        pair = int(np.floor(t))
        return pair, pair + 1.0 - t

    @staticmethod
    def _checked(name: str, index: int, count: int) -> int:
        if not 0 <= index < count:
            raise ValueError(f"{name} is {index!r}; this bridge has {count} (from 0)")
        return index


def solve_bridge(
    points: Sequence[Array],
    weights: Sequence[Array | None] | None = None,
    *,
    epsilon: float,
    costs: Sequence[Array] | None = None,
    method: Literal["pairwise", "multimarginal"] = "pairwise",
    config: SolverConfig | None = None,
    rng: np.random.Generator | None = None,
    on_failure: Literal["raise", "return"] = "raise",
    progress: Callable[[int, int], None] | None = None,
) -> Bridge:
    r"""Solve the path-structured multi-marginal Schrödinger bridge (problem in the module).

    Parameters
    ----------
    points : sequence of (n_j, d) arrays
        The snapshots, s >= 1 of them, each of its own size n_j >= 1.
    weights : sequence of (n_j,) arrays or None
        Non-negative, of any positive total (normalised to 1); by default uniform. An entry None
        leaves that snapshot unconstrained: its points are places where mass may pass.
    epsilon : float
        Weight of the entropy, positive [squared units of the points, or units of ``costs``].
    costs : sequence of (n_j, n_{j+1}) arrays
        One per pair; by default the squared Euclidean distances.
    method : {"pairwise", "multimarginal"}
        Independent two-marginal solves, or Sinkhorn iterations by message passing over the whole
        path (log domain, dual variables started at random in (0, 1), cyclic updates, Hilbert
        stopping), which also takes unconstrained snapshots. Where those crawl, which at small
        epsilon is for ever, and every snapshot is constrained, the dual variables are taken from
        the pairs; the sweep that follows confirms them.
    config : SolverConfig
    rng : numpy Generator
        For the random start of ``multimarginal`` (the solution does not depend on it); by default
        seeded with 0.
    on_failure : {"raise", "return"}
        What to do when the tolerance was not reached.
    progress : callable (done, total)
        Called after each pair, or each sweep (with total = max_iter).

    Returns
    -------
    Bridge

    Raises
    ------
    ValueError
        For malformed input, or an unconstrained snapshot with ``method="pairwise"``.
    NotConvergedError
        Unless ``on_failure="return"``.

    Notes
    -----
    Memory: one kernel (n_j, n_{j+1}) per thread, and as much again at most for a Newton step; two
    to three more where a dense factor is needed. Time: a few kernel builds and 10 to 100 passes
    over it, ``multimarginal`` two log-domain messages per pair and sweep and nothing stored.

    Pairwise, per pair: Sinkhorn passes on an absorbed kernel down a ladder of decreasing epsilon,
    then Newton steps on the semi-dual, by conjugate gradients on the plan (compressed once most of
    its entries are negligible), by a sparse or dense factor where those crawl.

    References
    ----------
    Haasler, Ringh, Chen, Karlsson, "Multimarginal optimal transport with a tree-structured cost
    and the Schrödinger bridge problem", SIAM J. Control Optim. 59(4), 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> bridge = solve_bridge([rng.random((5, 2)), rng.random((7, 2))], epsilon=0.1)
    >>> bridge.coupling(0).sum().round(9)
    np.float64(1.0)
    """
    config = SolverConfig() if config is None else config
    clouds = _checked_points(points)
    masses = _checked_weights(weights, clouds)
    given = _checked_costs(costs, clouds)
    if not (np.isfinite(epsilon) and epsilon > 0.0):
        raise ValueError(f"epsilon is {epsilon!r}; it must be positive and finite")
    if method not in ("pairwise", "multimarginal"):
        raise ValueError(f'method is {method!r}; it must be "pairwise" or "multimarginal"')
    if on_failure not in ("raise", "return"):
        raise ValueError(f'on_failure is {on_failure!r}; it must be "raise" or "return"')
    free = [j for j, mass in enumerate(masses) if mass is None]
    if free and method == "pairwise":
        raise ValueError(
            f"weights[{free[0]}] is None, an unconstrained snapshot; pairs are independent only "
            'between constrained ones: use method="multimarginal"'
        )
    if len(free) == len(masses):
        raise ValueError("weights are None for every snapshot; at least one must be constrained")

    epsilon = float(epsilon)
    grounds = [
        _ground(clouds[j], clouds[j + 1], given[j] if given else _NO_COST)
        for j in range(len(clouds) - 1)
    ]
    if method == "pairwise":
        constrained = [mass for mass in masses if mass is not None]
        outcomes = _solve_pairwise(grounds, constrained, epsilon, config, progress)
        potentials = tuple((o.f, o.g) for o in outcomes)
        error = np.array([o.error for o in outcomes])
        iterations = np.array([o.iterations for o in outcomes], dtype=np.int64)
        exhausted = any(o.exhausted and o.error > config.tol for o in outcomes)
    else:
        rng = np.random.default_rng(0) if rng is None else rng
        potentials, constrained, sweeps, exhausted = _solve_multimarginal(
            grounds, masses, [len(cloud) for cloud in clouds], epsilon, config, rng, progress
        )
        error = np.array(
            [
                _marginal_error(grounds[j], *potentials[j], constrained[j : j + 2], epsilon)
                for j in range(len(grounds))
            ]
        )
        iterations = np.full(len(grounds), sweeps, dtype=np.int64)
    if np.all(error <= config.tol):  # NaN fails
        status = Status.CONVERGED
    else:
        status = Status.MAX_ITERATIONS if exhausted else Status.STAGNATED
    bridge = Bridge(
        clouds, tuple(constrained), given, epsilon, potentials, status, error, iterations
    )
    if status is not Status.CONVERGED and on_failure == "raise":
        raise NotConvergedError(bridge, config.tol)
    return bridge


# ------------------------------------------------------------------------------ validation


def _checked_points(points: Sequence[Array]) -> tuple[Array, ...]:
    clouds = tuple(np.ascontiguousarray(cloud, dtype=np.float64) for cloud in points)
    if not clouds:
        raise ValueError("points is empty; at least one snapshot is wanted")
    for j, cloud in enumerate(clouds):
        if cloud.ndim != 2 or cloud.shape[0] == 0 or cloud.shape[1] != clouds[0].shape[-1]:
            raise ValueError(
                f"points[{j}] has shape {cloud.shape}; wanted (n, {clouds[0].shape[-1]}), n >= 1"
            )
        if not np.isfinite(cloud).all():
            raise ValueError(f"points[{j}] holds NaN or infinity; all coordinates must be finite")
    return clouds


def _checked_weights(
    weights: Sequence[Array | None] | None, clouds: tuple[Array, ...]
) -> list[Array | None]:
    if weights is None:
        return [np.full(len(cloud), 1.0 / len(cloud)) for cloud in clouds]
    if len(weights) != len(clouds):
        raise ValueError(
            f"weights has {len(weights)} entries; wanted {len(clouds)}, one a snapshot"
        )
    masses: list[Array | None] = []
    for j, (given, cloud) in enumerate(zip(weights, clouds)):
        if given is None:
            masses.append(None)
            continue
        mass = np.asarray(given, dtype=np.float64)
        if mass.shape != (len(cloud),):
            raise ValueError(f"weights[{j}] has shape {mass.shape}; wanted ({len(cloud)},)")
        if not (np.isfinite(mass).all() and (mass >= 0.0).all() and mass.any()):
            raise ValueError(
                f"weights[{j}] must be finite and non-negative, and not all zero; "
                f"got values from {mass.min()!r} to {mass.max()!r}"
            )
        mass = mass / mass.max()  # first, so that the sum of huge weights does not overflow
        masses.append(mass / mass.sum())
    return masses


def _checked_costs(costs: Sequence[Array] | None, clouds: tuple[Array, ...]) -> tuple[Array, ...]:
    if costs is None:
        return ()
    if len(costs) != len(clouds) - 1:
        raise ValueError(f"costs has {len(costs)} entries; wanted {len(clouds) - 1}, one a pair")
    given = tuple(np.ascontiguousarray(cost, dtype=np.float64) for cost in costs)
    for j, cost in enumerate(given):
        wanted = (len(clouds[j]), len(clouds[j + 1]))
        if cost.shape != wanted:
            raise ValueError(f"costs[{j}] has shape {cost.shape}; wanted {wanted}")
        if not np.isfinite(cost).all():
            raise ValueError(f"costs[{j}] holds NaN or infinity; all costs must be finite")
    return given


# ------------------------------------------------------------------------- shared by both forms


def _ground(x: Array, y: Array, cost: Array) -> Ground:
    return x, np.ascontiguousarray(y.T), cost


def _transposed(ground: Ground) -> Ground:
    x, yt, cost = ground
    return np.ascontiguousarray(yt.T), np.ascontiguousarray(x.T), np.ascontiguousarray(cost.T)


def _largest_cost(ground: Ground) -> float:
    """An upper bound of the largest absolute cost, from the bounding boxes of the points."""
    x, yt, cost = ground
    if cost.size:
        return float(np.abs(cost).max())
    above = np.maximum(x.max(axis=0), yt.max(axis=1))
    below = np.minimum(x.min(axis=0), yt.min(axis=1))
    return float(((above - below) ** 2).sum())


def _restricted(ground: Ground, rows: Array, columns: Array) -> Ground:
    x, yt, cost = ground
    held = np.ascontiguousarray(cost[np.ix_(rows, columns)]) if cost.size else cost
    return x[rows], np.ascontiguousarray(yt[:, columns]), held


def _spread_out(values: Array, held: Array) -> Array:
    """Potential on all points from that on the points with mass."""
    full = np.full(held.size, -np.inf)
    full[held] = values
    return full


def _marginals(ground: Ground, f: Array, g: Array, epsilon: float) -> tuple[Array, Array]:
    rows, columns = np.empty(f.size), np.empty(g.size)
    _kernels.plan_marginals(ground, f, g, epsilon, rows, columns)
    return rows, columns


def _marginal_error(
    ground: Ground, f: Array, g: Array, wanted: Sequence[Array], epsilon: float
) -> float:
    rows, columns = _marginals(ground, f, g, epsilon)
    return float(np.abs(rows - wanted[0]).sum() + np.abs(columns - wanted[1]).sum())


def _draw(weights: Array, size: int, rng: np.random.Generator) -> Array:
    cumulated = np.cumsum(weights)
    # side="right" never lands on a point without mass, also not at the end of the range
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(cumulated, rng.random(size) * cumulated[-1], "right"), last)


# ------------------------------------------------------------------------------ pairwise form

_MILD = 80.0  # up to this ratio of the largest cost to epsilon nothing underflows
_LADDER = 4.0  # epsilon shrinks so from one rung of the ladder to the next; `sharpen` knows it
_LADDER_TOP = 0.3  # the first rung, relative to the mean reduced cost
_RUNG_TOL = 1e-2  # L1 error at which a rung hands over to the next
_SWEEPS = 40  # plain Sinkhorn at most so long before Newton
_REACH = 8.0  # longest Newton step to begin with, as a change of a log dual variable
_REACH_MAX = 160.0  # two clusters that barely exchange mass may have far to go
_ABSORB = 100.0  # absorb dual variables into the kernel beyond this logarithm
_DENSE = 64  # up to this size a factorisation costs less than conjugate gradients
_DAMPING = 1e-3  # first Levenberg damping, relative to the column sums
_SPARSE = 0.25  # share of entries up to which a plan is worth compressing
_SPARSE_GAIN = 0.15  # time per entry, full rows against compressed ones
_SPARSE_DIRECT = 0.02  # share of entries up to which a sparse factor has little fill-in
_PATIENCE = 60  # Newton steps without progress until rounding is held responsible


@dataclass(frozen=True)
class _Outcome:
    """One pair, solved as far as it went."""

    f: Array
    g: Array
    error: float
    iterations: int
    exhausted: bool


class _Workspace:
    """Large arrays that a thread uses for one pair after another: fresh ones cost page faults."""

    def __init__(self):
        self._kernel = np.empty(0)
        self._values, self._columns = np.empty(0), np.empty(0, np.int32)

    def kernel(self, n: int, m: int) -> Array:
        if self._kernel.size < n * m:
            self._kernel = np.empty(n * m)
        return self._kernel[: n * m].reshape(n, m)

    def entries(self, size: int) -> tuple[Array, Array]:
        if self._values.size < size:
            self._values, self._columns = np.empty(size), np.empty(size, np.int32)
        return self._values[:size], self._columns[:size]


def _solve_pairwise(
    grounds: list[Ground],
    masses: list[Array],
    epsilon: float,
    config: SolverConfig,
    progress: Callable[[int, int], None] | None,
) -> list[_Outcome]:
    """Every pair by itself, side by side in threads: the kernels release the lock."""

    idle: list[_Workspace] = []

    def solve(j: int) -> _Outcome:
        workspace = idle.pop() if idle else _Workspace()
        outcome = _solve_pair(grounds[j], masses[j], masses[j + 1], epsilon, config, workspace)
        idle.append(workspace)
        return outcome

    def collect(stream: Iterator[_Outcome]) -> list[_Outcome]:
        outcomes = []
        for outcome in stream:
            outcomes.append(outcome)
            if progress is not None:
                progress(len(outcomes), len(grounds))
        return outcomes

    workers = min(config.threads, len(grounds))
    if workers <= 1:
        return collect(map(solve, range(len(grounds))))
    with ThreadPoolExecutor(workers) as pool:
        try:
            return collect(pool.map(solve, range(len(grounds))))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _solve_pair(
    ground: Ground,
    a: Array,
    b: Array,
    epsilon: float,
    config: SolverConfig,
    workspace: _Workspace,
) -> _Outcome:
    """Two-marginal problem: points without mass aside, the smaller side as columns."""
    rows, columns = a > 0.0, b > 0.0
    held = ground
    if not (rows.all() and columns.all()):
        held = _restricted(ground, rows, columns)
    flip = columns.sum() > rows.sum()
    if flip:
        solver = _PairSolver(_transposed(held), b[columns], a[rows], epsilon, config, workspace)
        g, f, error = solver.run()
    else:
        solver = _PairSolver(held, a[rows], b[columns], epsilon, config, workspace)
        f, g, error = solver.run()
    # the error is that of the kernel: evaluate the potentials afresh where rounding may matter
    rounding = _ROUNDING * (np.abs(f).max() + np.abs(g).max()) / epsilon
    f, g = _spread_out(f, rows), _spread_out(g, columns)
    if not rounding < 0.01 * config.tol:
        error = _marginal_error(ground, f, g, (a, b), epsilon)
    return _Outcome(f, g, error, solver.passes, solver.exhausted())


@dataclass(frozen=True, eq=False)
class _SparsePlan:
    """Entries (by rows) of the plan scaled by its marginals, and its squares' column sums."""

    values: Array
    columns: Array
    starts: Array
    squares: Array


class _PairSolver:
    r"""Maximises the semi-dual of one pair with positive weights.

    The plan is diag(u) K diag(v) with the absorbed kernel K = exp((f0 + g0 - C)/epsilon) and
    u = a / (K v), so that its rows are always exact and only the column sums c = v * (K^T u) are
    off. In y = log v the semi-dual D = a . log(u/a) + b . log(v/b) + const is concave with
    gradient b - c; a Sinkhorn update is the step log(b/c), a Newton step solves
    (diag(c) - P^T diag(1/a) P) d = b - c. At small epsilon both start far away, so a ladder of
    decreasing epsilon leads there, each rung solved loosely.
    """

    def __init__(
        self,
        ground: Ground,
        a: Array,
        b: Array,
        epsilon: float,
        config: SolverConfig,
        workspace: _Workspace,
    ):
        self.workspace = workspace
        self.ground, self.a, self.b = ground, a, b
        self.target, self.config = epsilon, config
        self.epsilon = epsilon
        self.passes = 0
        self.kernel = workspace.kernel(a.size, b.size)
        self.f0, self.g0 = np.zeros(a.size), np.zeros(b.size)
        self.u, self.t = np.empty(a.size), np.empty(b.size)
        self.v = b
        self.built = False  # the kernel is that of f0, g0 and epsilon
        # conjugate gradients cost passes over K, a Cholesky factor about as much as 0.4 m of them
        self.patience = max(20, int(0.4 * b.size))
        self.stubborn = False  # conjugate gradients have hit their limit on this rung: factorise
        self.tol = config.tol
        self.damping = 0.0
        self.reach = _REACH

    def run(self) -> tuple[Array, Array, float]:
        """Potentials f and g, and the L1 error of the marginals."""
        largest = _largest_cost(self.ground)
        if largest > _MILD * self.target:
            self.epsilon = self._top()
        if largest > _MILD * self.epsilon:
            # hard c-transforms on both sides: every row and column of K then holds a one,
            # however small epsilon is
            _kernels.nearest(self.ground, np.zeros(self.b.size), self.f0)
            _kernels.nearest(_transposed(self.ground), self.f0, self.g0)
        while True:
            last = self.epsilon <= self.target * (1.0 + 1e-9)
            if last:
                self.epsilon = self.target
            self._solve(self.config.tol if last else _RUNG_TOL)
            if last:
                break
            self._descend()
        f = self.f0 + self.epsilon * np.log(self.u)
        g = self.g0 + self.epsilon * np.log(self.v)
        return f, g, float(np.abs(self.v * self.t - self.b).sum())

    def _top(self) -> float:
        """First rung: target * _LADDER**k, up to about the mean reduced cost of some points."""
        rows = np.linspace(0, self.a.size - 1, min(self.a.size, 64)).astype(np.intp)
        columns = np.linspace(0, self.b.size - 1, min(self.b.size, 64)).astype(np.intp)
        x, yt, cost = _restricted(self.ground, rows, columns)
        reduced = cost if cost.size else ((x[:, :, None] - yt[None]) ** 2).sum(axis=1)
        reduced = reduced - reduced.min(axis=1, keepdims=True)
        reduced = reduced - reduced.min(axis=0, keepdims=True)
        top = _LADDER_TOP * float(reduced.mean())
        epsilon = self.target
        while epsilon * _LADDER <= top:
            epsilon *= _LADDER
        return epsilon

    def exhausted(self) -> bool:
        """Whether the limit on passes is reached."""
        return self.passes >= self.config.max_iter

    def _descend(self) -> None:
        """To the next rung: by powers of the kernel at hand, for a tenth of the time to build it.

        Rounding grows as the exponents do; where the tolerance may feel it, build afresh.
        """
        left, right = self.u / self.a, self.v / self.b
        self._absorb()
        if self.exhausted():  # the potentials of this rung are the best there is
            self.epsilon, self.built = self.target, False
            return
        self.epsilon /= _LADDER
        largest = np.abs(self.f0).max() + np.abs(self.g0).max()
        self.built = _ROUNDING * largest / self.epsilon < 0.01 * self.config.tol
        if self.built:
            _kernels.sharpen(self.kernel, left, right)
            self.passes += 1

    def _rebuild(self) -> None:
        _kernels.gibbs(self.ground, self.f0, self.g0, self.epsilon, self.kernel)

    def _absorb(self) -> None:
        """Move u / a and v / b into the potentials; the kernel is then out of date."""
        self.f0 = self.f0 + self.epsilon * np.log(self.u / self.a)
        self.g0 = self.g0 + self.epsilon * np.log(self.v / self.b)

    def _out_of_range(self) -> bool:
        scaling = np.abs(np.log(self.u / self.a)).max(), np.abs(np.log(self.v / self.b)).max()
        return max(scaling) > _ABSORB

    def _evaluate(self, v: Array) -> tuple[Array, float]:
        """Column sums of the plan at v and their L1 error; sets u, t and v."""
        _kernels.sweep(self.kernel, v, self.a, True, self.u, self.t)
        self.passes += 1
        self.v = v
        with np.errstate(all="ignore"):  # a trial step may leave the range; its error then says so
            columns = v * self.t
            return columns, float(np.abs(columns - self.b).sum())

    def _dual(self) -> float:
        """The semi-dual at the point last evaluated, but for a constant of the kernel."""
        with np.errstate(all="ignore"):
            return float(self.a @ np.log(self.u / self.a) + self.b @ np.log(self.v / self.b))

    def _start(self) -> tuple[Array, float]:
        """Kernel at this rung; through the log domain when the warm start is out of range."""
        if not self.built:
            self._rebuild()
        columns, error = self._evaluate(self.b)
        if not (np.isfinite(error) and columns.min() > 0.0):
            half = np.empty(self.a.size)
            log_b = self.epsilon * np.log(self.b)
            _kernels.soft_nearest(self.ground, self.g0 + log_b, self.epsilon, half)
            self.f0 = half
            log_a = self.epsilon * np.log(self.a)
            _kernels.soft_nearest(_transposed(self.ground), self.f0 + log_a, self.epsilon, self.g0)
            self._rebuild()
            columns, error = self._evaluate(self.b)
        return columns, error

    def _solve(self, tol: float) -> None:
        """Sinkhorn while it is fast, then Newton, until tol, the limit, or no more progress."""
        self.tol = tol
        self.stubborn, self.damping, self.reach = False, 0.0, _REACH
        columns, error = self._start()
        if error > tol:
            self.v = self.b / self.t
            passes, error = _kernels.scale(
                self.kernel, self.a, self.b, self.v, tol, _SWEEPS, self.u, self.t
            )
            self.passes += passes
            columns = self.v * self.t
        best, best_v, waited = error, self.v, 0
        while error > tol and waited < _PATIENCE and not self.exhausted():
            columns, error = self._newton_step(columns, error)
            if error > tol:  # the Sinkhorn update comes free with t and smooths what Newton left
                columns, error = self._evaluate(self.b / self.t)
            waited = 0 if error < 0.9 * best else waited + 1
            if error < best:
                best, best_v = error, self.v
            if self._out_of_range():
                self._absorb()
                self._rebuild()
                columns, error = self._evaluate(self.b)
                best, best_v = error, self.v
        if error > best:
            self._evaluate(best_v)

    def _newton_step(self, columns: Array, error: float) -> tuple[Array, float]:
        """A step along the Newton direction, shortened until the semi-dual has grown.

        Clusters that barely exchange mass make the Hessian nearly singular: the direction then
        moves them by more than the model holds for. Each coordinate is cut to the trusted reach
        (or, where that spoils the ascent, all are shrunk alike).
        """
        residual = self.b - columns
        direction = self._direction(columns, residual, error)
        longest = float(np.abs(direction).max())
        slope, first = float(residual @ direction), 1.0
        if longest > self.reach:
            cut = np.clip(direction, -self.reach, self.reach)
            cut -= columns @ cut / columns.sum()
            if residual @ cut > 0.1 * slope:
                direction, slope = cut, float(residual @ cut)
            else:
                first = self.reach / longest
        v, dual, step = self.v, self._dual(), first
        if slope > 0.0 and np.isfinite(longest):
            for _ in range(10):
                columns, trial = self._evaluate(v * np.exp(step * direction))
                gain = self._dual() - dual
                enough = 1e-4 * step * slope - 1e-14 * (1.0 + abs(dual))
                if gain >= enough or trial < 0.5 * error:
                    faithful = step == first and gain > 0.4 * step * slope
                    self._adapt(step / first, longest > self.reach, faithful)
                    return columns, trial
                step *= 0.3
        self._adapt(0.0, False, False)
        self._evaluate(v)
        return self._evaluate(self.b / self.t)

    def _adapt(self, taken: float, cut: bool, faithful: bool) -> None:
        """Adapt reach and damping to the share of the step taken; faithful: gain as predicted."""
        if faithful and cut and self.reach < _REACH_MAX:
            self.reach *= 4.0
        elif faithful:
            self.damping = 0.1 * self.damping if self.damping > 1e-9 else 0.0
        if taken < 1.0:
            self.reach = max(_REACH, 0.3 * self.reach)
        if taken < 0.3:
            self.damping = min(max(10.0 * self.damping, _DAMPING), 1.0)

    def _direction(self, columns: Array, residual: Array, error: float) -> Array:
        """Newton direction in log v, by the cheapest way that has not failed yet."""
        if self.b.size <= _DENSE:
            return self._dense_direction(columns, residual)
        # superlinear on the way, no further than tol at the end
        reduction = max(min(0.1, np.sqrt(error)), min(0.5, 0.2 * self.tol / error))
        plan = self._sparse_plan(columns, error)
        if plan is not None:
            return self._sparse_direction(plan, columns, residual, reduction)
        if self.stubborn:
            return self._dense_direction(columns, residual)
        direction = np.empty(residual.size)
        done = _kernels.newton_direction(
            self.kernel,
            self.u**2 / self.a,
            self.v,
            columns,
            self.damping,
            residual,
            reduction,
            self.patience,
            direction,
        )
        self.passes += done
        self.stubborn = done >= self.patience
        return direction

    def _sparse_plan(self, columns: Array, error: float) -> _SparsePlan | None:
        """The entries that matter for a step, or None where most of them do.

        What is left out acts as a damping of its size. It shrinks with the error, so that the
        steps still converge superlinearly.
        """
        n, m = self.kernel.shape
        values, indices = self.workspace.entries(int(_SPARSE * n * m) + m)
        starts, squares = np.empty(n + 1, np.int64), np.empty(m)
        threshold = min(max(1e-4 * error, 1e-13), 1e-6)
        count = _kernels.sparse_plan(
            self.kernel,
            self.u,
            self.a,
            self.v,
            columns,
            threshold,
            values,
            indices,
            starts,
            squares,
        )
        if count < 0:
            return None
        self.passes += 1
        return _SparsePlan(values[:count], indices[:count], starts, squares)

    def _sparse_direction(
        self, plan: _SparsePlan, columns: Array, residual: Array, reduction: float
    ) -> Array:
        root = np.sqrt(columns)
        scaled = residual / root
        if not self.stubborn:
            limit = int(self.patience * _SPARSE_GAIN * self.kernel.size / (plan.values.size + 1))
            limit = min(limit, 10 * self.b.size)
            direction = np.empty_like(scaled)
            done = _kernels.sparse_direction(
                plan.values,
                plan.columns,
                plan.starts,
                np.maximum(1.0 + self.damping - plan.squares, 1e-12),
                self.damping,
                scaled,
                reduction,
                limit,
                direction,
            )
            self.passes += 1 + int(done * plan.values.size / self.kernel.size)
            self.stubborn = done >= limit
            return direction / root
        if plan.values.size > _SPARSE_DIRECT * self.kernel.size:
            return self._dense_direction(columns, residual)
        return self._sparse_factor(plan, scaled) / root

    def _sparse_factor(self, plan: _SparsePlan, scaled: Array) -> Array:
        """Newton direction from a sparse factor of the whole dual's Hessian [[I, S], [S^T, I]].

        As epsilon goes to zero the support of the plan becomes a forest, which has no fill-in:
        the worse the conditioning, the cheaper the factor.
        """
        import scipy.sparse as sp
        from scipy.sparse.linalg import splu

        n, m = self.kernel.shape
        coupling = sp.csr_array((plan.values, plan.columns, plan.starts), shape=(n, m))
        lifted = 1.0 + max(self.damping, 1e-13)
        matrix = sp.block_array(
            [[sp.eye_array(n), coupling], [coupling.T, lifted * sp.eye_array(m)]], format="csc"
        )
        factor = splu(
            matrix,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        self.passes += 1
        return factor.solve(np.concatenate([np.zeros(n), scaled]))[n:]

    def _dense_direction(self, columns: Array, residual: Array) -> Array:
        r"""Newton direction by Cholesky, in coordinates scaled by sqrt(c).

        The Hessian is then I - S^T S, whose null vector sqrt(c) is lifted by adding its square.
        Clusters that exchange almost no mass leave it singular to rounding: the smallest shift
        that lets the factorisation pass is added.
        """
        factor = np.empty_like(self.kernel)
        _kernels.newton_factor(self.kernel, self.u, self.a, self.v, columns, factor)
        root = np.sqrt(columns)
        self.passes += 1
        shift = max(1e-14, self.damping)
        while shift < 10.0:
            hessian = np.multiply.outer(root, root)
            hessian.reshape(-1)[:: root.size + 1] += 1.0 + shift
            _kernels.subtract_gram(factor, 0, hessian)
            direction = residual / root
            if _kernels.cholesky_solve(hessian, direction):
                return direction / root
            shift *= 100.0
        return residual / columns  # the Sinkhorn direction to first order


# -------------------------------------------------------------------------- multi-marginal form


_CRAWL = 20  # sweeps after which the message form lets the pair solver leap, where it can


def _pairwise_duals(
    grounds: list[Ground], log_mass: list[Array], epsilon: float, config: SolverConfig
) -> list[Array]:
    r"""Dual variables phi of a path with positive weights throughout, from its pairs.

    At the solution B_j = epsilon log mu_j - f_j and A_j = epsilon log mu_j - g_j, so that
    phi_j = f_j + g_j - epsilon log mu_j, f_j of the pair after snapshot j and g_j of that before.
    """
    # sweeps after it crawl again unless it goes as far as float64 does
    tight = replace(config, tol=np.finfo(np.float64).eps)
    masses = [np.exp(log / epsilon) for log in log_mass]
    pairs = _solve_pairwise(grounds, masses, epsilon, tight, None)
    after = [pair.f for pair in pairs] + [log_mass[-1]]
    before = [log_mass[0]] + [pair.g for pair in pairs]
    return [f + g - log for f, g, log in zip(after, before, log_mass)]


def _solve_multimarginal(
    grounds: list[Ground],
    masses: list[Array | None],
    sizes: list[int],
    epsilon: float,
    config: SolverConfig,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> tuple[tuple[tuple[Array, Array], ...], list[Array], int, bool]:
    r"""Sinkhorn iterations over the whole path by message passing, in the log domain.

    With phi = epsilon log u (zero at an unconstrained snapshot), the messages are

    - forward A_1 = 0, A_{j+1} = epsilon log K_j^T exp((phi_j + A_j) / epsilon),
    - backward B_s = 0, B_j = epsilon log K_j exp((phi_{j+1} + B_{j+1}) / epsilon),

    and snapshot j has the marginal exp((phi_j + A_j + B_j) / epsilon). A sweep visits the
    snapshots in their order, each with messages that are up to date: two messages per pair.
    Returns potentials, weights, sweeps and whether their number was the limit.
    """
    held = [
        np.ones(n, dtype=bool) if mass is None else mass > 0.0 for n, mass in zip(sizes, masses)
    ]
    grounds = [_restricted(ground, held[j], held[j + 1]) for j, ground in enumerate(grounds)]
    reverse = [_transposed(ground) for ground in grounds]
    count = len(masses)
    constrained = all(mass is not None for mass in masses)
    phi = [
        np.zeros(keep.sum()) if mass is None else epsilon * np.log(1.0 - rng.random(keep.sum()))
        for keep, mass in zip(held, masses)
    ]
    log_mass = [
        np.zeros(0) if mass is None else epsilon * np.log(mass[keep])
        for keep, mass in zip(held, masses)
    ]

    def message(ground: Ground, source: Array, size: int) -> Array:
        out = np.empty(size)
        _kernels.soft_nearest(ground, source, epsilon, out)
        return np.negative(out, out=out)

    def backward_messages() -> list[Array]:
        messages = [np.zeros(phi[-1].size)]
        for j in range(count - 2, -1, -1):
            messages.append(message(grounds[j], phi[j + 1] + messages[-1], phi[j].size))
        return messages[::-1]

    sweeps, exhausted = 0, False
    while True:
        backward = backward_messages()
        forward = [np.zeros(phi[0].size)]
        moved = largest = 0.0
        for j in range(count):
            if masses[j] is not None:
                new = log_mass[j] - forward[j] - backward[j]
                change = new - phi[j]
                moved = max(moved, float(change.max() - change.min()) / epsilon)
                phi[j] = new
                largest = max(largest, float(np.abs(new).max()))
            if j + 1 < count:
                forward.append(message(reverse[j], phi[j] + forward[j], phi[j + 1].size))
        sweeps += 1
        if progress is not None:
            progress(sweeps, config.max_iter)
        # rounding moves the dual variables by so much for ever: at small epsilon tol decides
        rounding = _ROUNDING * largest / epsilon
        if moved <= max(config.hilbert_tol, rounding):
            break
        if sweeps >= config.max_iter:
            exhausted = True
            break
        if sweeps == _CRAWL and constrained:
            phi = _pairwise_duals(grounds, log_mass, epsilon, config)
    backward = backward_messages()
    potentials = tuple(
        (
            _spread_out(phi[j] + forward[j], held[j]),
            _spread_out(phi[j + 1] + backward[j + 1], held[j + 1]),
        )
        for j in range(count - 1)
    )
    weights = []
    for j, mass in enumerate(masses):
        if mass is None:
            mass = np.exp((phi[j] + forward[j] + backward[j]) / epsilon)
            mass /= mass.sum()
        weights.append(mass)
    return potentials, weights, sweeps, exhausted
