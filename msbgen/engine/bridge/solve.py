r"""Schrödinger bridge along a path of snapshots: all pairs, or the multimarginal solver.

Given snapshots :math:`\mu_1, \dots, \mu_\sigma` (weighted points) and costs :math:`C_j` between
adjacent ones, find the distribution :math:`M` of paths with these marginals that minimises

.. math:: \langle C, M\rangle + \varepsilon \langle M, \log M\rangle,
          \qquad C = \sum_j C_j(x_j, x_{j+1}).

The cost concerns adjacent snapshots only.  So :math:`M` is the Markov chain of the two-marginal
entropic couplings :math:`\Gamma_j = \exp((f_j \oplus g_j - C_j)/\varepsilon)`.  Among the
distributions with given adjacent bimarginals the Markov one has the largest entropy, and the
entropies of the constrained snapshots are fixed.  Hence ``method="pairwise"``, the default, solves
each pair by itself (:mod:`.pair`).

Snapshots *without* data couple their neighbours. ``method="multimarginal"`` then passes messages
along the whole path; its loop is in this module. Potentials are stored, couplings never.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import generator, numbers_of
from msbgen.core.errors import ArgumentError, quoted
from msbgen.core.lazy import lazy_module
from msbgen.core.machine import OnProgress, available_cores
from msbgen.core.records import Count, Positive, Share, check_fields, checks_arguments
from msbgen.engine.bridge.pair import (
    ROUNDING,
    Ground,
    Outcome,
    Workspace,
    marginal_error,
    on_all_points,
    restricted,
    solve_pair,
    transposed,
)
from msbgen.engine.bridge.solution import Bridge, Status, grounds_of

_kernels = lazy_module("msbgen.engine.bridge._kernels")

Array = np.ndarray
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class SolverConfig:
    """Stopping rules and the number of threads.

    Parameters
    ----------
    tol : float
        Largest L1 distance between the marginals of a pair's coupling and the weights, both ends
        summed. It is evaluated in float64 from the returned potentials. The default is strict
        because Newton steps make the last digits cheap. The limit of float64 is about
        ``1e-15 * max(C) / epsilon``.
    max_iter : int
        The most passes over the kernel of a pair (``pairwise``), or sweeps over the path
        (``multimarginal``).
    hilbert_tol : float
        Largest change of a dual variable in Hilbert's projective metric during the last sweep of
        ``multimarginal`` (the paper's rule). ``tol`` must hold as well.
    threads : int
        Number of pairs solved in parallel; by default the cores this process may use.
    """

    tol: Share = 1e-9
    max_iter: Count = 20_000
    hilbert_tol: Share = 1e-12
    threads: Count = field(default_factory=available_cores)

    def __post_init__(self):
        check_fields(self)


class NotConvergedError(RuntimeError):
    """The marginals do not hold to the tolerance.

    ``bridge`` is the partial result, ``reached`` a sentence with its error.
    """

    def __init__(self, bridge: Bridge, tol: float):
        worst = int(np.argmax(bridge.marginal_error))
        limited = bridge.status is Status.MAX_ITERATIONS
        remedy = "raise max_iter" if limited else "raise tol, or epsilon, to the limit of float64"
        self.reached = (
            f"{bridge.status} (pair {worst}: L1 marginal error "
            f"{bridge.marginal_error[worst]:.3g} > tol {tol:.3g}, epsilon {bridge.epsilon:.3g})"
        )
        otherwise = 'or pass on_failure="return" to use the partial result'
        super().__init__(f"{self.reached}; {remedy}, {otherwise}")
        self.bridge = bridge


@checks_arguments
def solve_bridge(
    points: Sequence[Array],
    weights: Sequence[Array | None] | None = None,
    *,
    epsilon: Positive,
    times: ArrayLike | None = None,
    costs: Sequence[Array] | None = None,
    method: Literal["pairwise", "multimarginal"] = "pairwise",
    config: SolverConfig | None = None,
    rng: np.random.Generator | int = 0,
    on_failure: Literal["raise", "return"] = "raise",
    progress: OnProgress | None = None,
) -> Bridge:
    r"""Solve the path-structured multi-marginal Schrödinger bridge (problem in the module).

    Parameters
    ----------
    points : sequence of (n_j, d) or (n_j,) arrays
        The snapshots, s >= 1 of them, each of its own size n_j >= 1. Points of one coordinate may
        be given without its axis.
    weights : sequence of (n_j,) arrays or None
        Non-negative, of any positive total (normalised to 1); by default uniform. None leaves a
        snapshot unconstrained: its points are places through which mass may pass.
    epsilon : float
        Weight of the entropy, positive [squared units of the points per unit of time, or units of
        ``costs``]. Between snapshots each coordinate moves as a Brownian motion of variance
        ``epsilon / 2`` per unit of time.
    times : array_like, (s,)
        When the snapshots were taken, ascending; 0, 1, …, s - 1 by default.
    costs : sequence of (n_j, n_{j+1}) arrays
        One per pair; by default the squared Euclidean distances over the step of time. With
        ``times``, costs are taken for those of that Brownian motion, up to other terms; without,
        the variance between snapshots is unknown (NaN).
    method : {"pairwise", "multimarginal"}
        Independent two-marginal solves, or Sinkhorn iterations by message passing over the whole
        path, which also takes unconstrained snapshots. Messages are in the log domain, dual
        variables start at random in (0, 1), updates are cyclic, and the stopping rule is
        Hilbert's. These iterations converge too slowly at small epsilon. Where every snapshot is
        constrained the dual variables are then taken from the pairs, and a sweep confirms them.
    config : SolverConfig
    rng : numpy Generator or int
        For the random start of ``multimarginal``. The solution does not depend on it.
    on_failure : {"raise", "return"}
        The action where the tolerance is not reached.
    progress : callable (done, total)
        Called after each pair, or each sweep (with total = max_iter).

    Returns
    -------
    Bridge

    Raises
    ------
    ArgumentError
        Malformed input, or an unconstrained snapshot with ``method="pairwise"``.
    NotConvergedError
        The tolerance is not reached, unless ``on_failure="return"``.

    Notes
    -----
    Memory: one kernel (n_j, n_{j+1}) per thread, up to one more for a Newton step, and two to three
    more for a dense factor. ``multimarginal`` stores no kernel.

    Time: a few kernel builds and 10 to 100 passes over the kernel (:mod:`.pair`), or
    two log-domain messages per pair and sweep.

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
    matrices = _checked_costs(costs, clouds)
    free = [j for j, mass in enumerate(masses) if mass is None]
    if free and method == "pairwise":
        raise ArgumentError(
            f"weights[{free[0]}] is None, an unconstrained snapshot, which couples its neighbours; "
            f"method 'multimarginal' is wanted."
        )
    if len(free) == len(masses):
        raise ArgumentError("weights are None for every snapshot; at least one array is wanted.")

    epsilon, at = float(epsilon), _checked_times(times, len(clouds))
    grounds = grounds_of(clouds, matrices, at)
    if method == "pairwise":
        constrained = [mass for mass in masses if mass is not None]
        outcomes = _solve_pairwise(grounds, constrained, epsilon, config, progress)
        potentials = tuple((o.f, o.g) for o in outcomes)
        error = np.array([o.error for o in outcomes])
        iterations = np.array([o.iterations for o in outcomes], dtype=np.int64)
        exhausted = any(o.exhausted and not o.error <= config.tol for o in outcomes)
    else:
        sizes, start = [len(cloud) for cloud in clouds], generator(rng)
        potentials, constrained, sweeps, exhausted = _solve_multimarginal(
            grounds, masses, sizes, epsilon, config, start, progress
        )
        error = np.array(
            [
                marginal_error(grounds[j], *potentials[j], constrained[j : j + 2], epsilon)
                for j in range(len(grounds))
            ]
        )
        iterations = np.full(len(grounds), sweeps, dtype=np.int64)
    if np.all(error <= config.tol):  # NaN fails
        status = Status.CONVERGED
    else:
        status = Status.MAX_ITERATIONS if exhausted else Status.STAGNATED
    bridge = Bridge(
        clouds, tuple(constrained), at, matrices, epsilon, potentials, status, error, iterations,
        timed=times is not None,
    )  # fmt: skip
    if status is not Status.CONVERGED and on_failure == "raise":
        raise NotConvergedError(bridge, config.tol)
    return bridge


def _checked_points(points: Sequence[Array]) -> tuple[Array, ...]:
    if not isinstance(points, (Sequence, np.ndarray)):
        raise ArgumentError(f"points is {quoted(points)}; a list of arrays is wanted.")
    if len(points) == 0:
        raise ArgumentError("points is empty; at least one snapshot is wanted.")
    arrays = [numbers_of(cloud, f"points[{j}]") for j, cloud in enumerate(points)]
    if arrays[0].ndim == 0:
        raise ArgumentError(
            "points is a single snapshot; a list of them, as solve_bridge([x, y], epsilon=...), is "
            "wanted."
        )
    clouds = tuple(np.ascontiguousarray(x[:, None] if x.ndim == 1 else x) for x in arrays)
    for j, cloud in enumerate(clouds):
        if cloud.ndim != 2 or cloud.shape[0] == 0 or cloud.shape[1] != clouds[0].shape[-1]:
            wanted = f"(n ≥ 1, {clouds[0].shape[-1] if clouds[0].ndim else 'd'})"
            raise ArgumentError(f"points[{j}] has shape {cloud.shape}; {wanted} is wanted.")
        if not np.isfinite(cloud).all():
            raise ArgumentError(f"points[{j}] holds NaN or infinity; finite numbers are wanted.")
    return clouds


def _checked_times(times: ArrayLike | None, count: int) -> Floats:
    if times is None:
        return np.arange(float(count))
    at = numbers_of(times, "times")
    if at.shape != (count,) or not (np.diff(at) > 0.0).all() or not np.isfinite(at).all():
        raise ArgumentError(
            f"times is {quoted(times)}; {count} ascending numbers, one per snapshot, are wanted."
        )
    return at


def _checked_weights(
    weights: Sequence[Array | None] | None, clouds: tuple[Array, ...]
) -> list[Array | None]:
    if weights is None:
        return [np.full(len(cloud), 1.0 / len(cloud)) for cloud in clouds]
    if isinstance(weights, np.ndarray) and weights.ndim == 2:
        raise ArgumentError(
            "weights is a matrix; a list of one array per snapshot is wanted: is it a second "
            "snapshot, as in solve_bridge([x, y], epsilon=...)?"
        )
    if len(weights) != len(clouds):
        raise ArgumentError(
            f"weights has {len(weights)} entries; {len(clouds)}, one per snapshot, are wanted."
        )
    masses: list[Array | None] = []
    for j, (values, cloud) in enumerate(zip(weights, clouds)):
        if values is None:
            masses.append(None)
            continue
        mass = np.asarray(values, dtype=np.float64)
        if mass.shape != (len(cloud),):
            raise ArgumentError(f"weights[{j}] has shape {mass.shape}; ({len(cloud)},) is wanted.")
        if not (np.isfinite(mass).all() and (mass >= 0.0).all() and mass.any()):
            raise ArgumentError(
                f"weights[{j}] goes from {mass.min():g} to {mass.max():g}; finite numbers ≥ 0, not "
                f"all 0, are wanted."
            )
        mass = mass / mass.max()  # first, so that the sum of huge weights does not overflow
        masses.append(mass / mass.sum())
    return masses


def _checked_costs(costs: Sequence[Array] | None, clouds: tuple[Array, ...]) -> tuple[Array, ...]:
    if costs is None:
        return ()
    if len(costs) != len(clouds) - 1:
        raise ArgumentError(
            f"costs has {len(costs)} entries; {len(clouds) - 1}, one per pair, are wanted."
        )
    matrices = tuple(np.ascontiguousarray(cost, dtype=np.float64) for cost in costs)
    for j, cost in enumerate(matrices):
        wanted = (len(clouds[j]), len(clouds[j + 1]))
        if cost.shape != wanted:
            raise ArgumentError(f"costs[{j}] has shape {cost.shape}; {wanted} is wanted.")
        if not np.isfinite(cost).all():
            raise ArgumentError(f"costs[{j}] holds NaN or infinity; finite numbers are wanted.")
    return matrices


# Small workspaces of earlier calls, up to one per core.  Clearing the pages of a new one takes a
# third of the time of a pair of a thousand points.
_SPARE: list[Workspace] = []
_SPARE_BYTES = 2**25


def _solve_pairwise(
    grounds: list[Ground],
    masses: list[Array],
    epsilon: float,
    config: SolverConfig,
    progress: OnProgress | None,
) -> list[Outcome]:
    """The solutions of all pairs, in threads: the kernels release the lock."""
    idle: list[Workspace] = []

    def solve(j: int) -> Outcome:
        workspace = _workspace(idle)
        outcome = solve_pair(
            grounds[j], masses[j], masses[j + 1], epsilon, config.tol, config.max_iter, workspace
        )
        idle.append(workspace)
        return outcome

    def collect(stream: Iterator[Outcome]) -> list[Outcome]:
        outcomes = []
        for outcome in stream:
            outcomes.append(outcome)
            if progress is not None:
                progress(len(outcomes), len(grounds))
        return outcomes

    workers = min(config.threads, len(grounds))
    try:
        if workers <= 1:
            return collect(map(solve, range(len(grounds))))
        with ThreadPoolExecutor(workers) as pool:
            try:
                return collect(pool.map(solve, range(len(grounds))))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        small = [workspace for workspace in idle if workspace.nbytes <= _SPARE_BYTES]
        _SPARE.extend(small[: max(available_cores() - len(_SPARE), 0)])


def _workspace(idle: list[Workspace]) -> Workspace:
    """An idle workspace of this call or of earlier ones, or a new one."""
    for workspaces in (idle, _SPARE):
        try:
            return workspaces.pop()  # atomic: other threads pop, too
        except IndexError:
            continue
    return Workspace()


# Sweeps after which dual variables are taken from the pairs, if every snapshot is constrained.
_SLOW_SWEEPS = 20


def _pairwise_duals(
    grounds: list[Ground], log_mass: list[Array], epsilon: float, config: SolverConfig
) -> list[Array]:
    r"""Dual variables phi of a path with positive weights throughout, from its pairs.

    At the solution phi_j = f_j + g_j - epsilon log mu_j. Here f_j belongs to the pair after
    snapshot j and g_j to the pair before it. The reason is that B_j = epsilon log mu_j - f_j and
    A_j = epsilon log mu_j - g_j.
    """
    # the next sweeps are slow again unless this is accurate to the limit of float64
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
    progress: OnProgress | None,
) -> tuple[tuple[tuple[Array, Array], ...], list[Array], int, bool]:
    r"""Sinkhorn iterations over the whole path by message passing, in the log domain.

    With phi = epsilon log u (zero at an unconstrained snapshot), the messages are

    - forward A_1 = 0, A_{j+1} = epsilon log K_j^T exp((phi_j + A_j) / epsilon),
    - backward B_s = 0, B_j = epsilon log K_j exp((phi_{j+1} + B_{j+1}) / epsilon),

    and snapshot j has the marginal exp((phi_j + A_j + B_j) / epsilon). A sweep visits the
    snapshots in order, each with current messages: two messages per pair. Returns potentials,
    weights, the number of sweeps, and whether it is the limit.
    """
    has_mass = [
        np.ones(n, dtype=bool) if mass is None else mass > 0.0 for n, mass in zip(sizes, masses)
    ]
    grounds = [restricted(ground, has_mass[j], has_mass[j + 1]) for j, ground in enumerate(grounds)]
    reverse = [transposed(ground) for ground in grounds]
    count = len(masses)
    constrained = all(mass is not None for mass in masses)
    phi = [
        np.zeros(keep.sum()) if mass is None else epsilon * np.log(1.0 - rng.random(keep.sum()))
        for keep, mass in zip(has_mass, masses)
    ]
    log_mass = [
        np.zeros(0) if mass is None else epsilon * np.log(mass[keep])
        for keep, mass in zip(has_mass, masses)
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
        largest_change = largest = 0.0
        for j in range(count):
            if masses[j] is not None:
                new = log_mass[j] - forward[j] - backward[j]
                change = new - phi[j]
                largest_change = max(largest_change, float(change.max() - change.min()) / epsilon)
                phi[j] = new
                largest = max(largest, float(np.abs(new).max()))
            if j + 1 < count:
                forward.append(message(reverse[j], phi[j] + forward[j], phi[j + 1].size))
        sweeps += 1
        if progress is not None:
            progress(sweeps, config.max_iter)
        # rounding always changes the dual variables by so much: at small epsilon tol decides
        rounding = ROUNDING * largest / epsilon
        if largest_change <= max(config.hilbert_tol, rounding):
            break
        if sweeps >= config.max_iter:
            exhausted = True
            break
        if sweeps == _SLOW_SWEEPS and constrained:
            phi = _pairwise_duals(grounds, log_mass, epsilon, config)
    backward = backward_messages()
    potentials = tuple(
        (
            on_all_points(phi[j] + forward[j], has_mass[j]),
            on_all_points(phi[j + 1] + backward[j + 1], has_mass[j + 1]),
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
