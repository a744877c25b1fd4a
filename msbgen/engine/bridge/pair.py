r"""Solver of one pair of snapshots (the default): the two-marginal Schrödinger bridge.

Find the coupling with the marginals a (n,) and b (m,) that minimises

.. math:: \langle C, \Gamma\rangle + \varepsilon \langle\Gamma, \log\Gamma\rangle.

It is exp((f + g - C) / epsilon) with potentials f and g. Sinkhorn passes on an absorbed kernel
solve it for a sequence of decreasing epsilon. Newton steps on the semi-dual follow. They use
conjugate gradients on the coupling, compressed once most of its entries are negligible, and a
sparse or dense factor where these converge slowly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from msbgen.core.lazy import lazy_module

_kernels = lazy_module("msbgen.engine.bridge._kernels")

Array = np.ndarray
Ground = tuple[Array, Array, Array]  # ground cost, see _kernels: points, transposed points, costs

NO_COST = np.zeros((0, 0))
ROUNDING = 16 * np.finfo(np.float64).eps  # relative error of a potential after some sums
_MILD = 80.0  # largest cost over epsilon up to which neither precision underflows
_SINGLE = 2.0**-23  # bound of the L1 error of both marginals by a kernel of single precision
_SINGLE_TOL = 1e-6  # the strictest tolerance for which that error is negligible
_STEP = 4.0  # ratio of successive epsilons, as in `quarter_epsilon`
_FIRST_EPSILON = 0.3  # the first epsilon, relative to the mean reduced cost
_STEP_TOL = 1e-2  # L1 error at which the next epsilon follows
_STRICT = 1e-9  # the same for clusters that must exchange mass before they are apart
_UPDATES = 40  # the most Sinkhorn updates before Newton steps
_REACH = 8.0  # first limit of a Newton step, as a change of a log dual variable
_REACH_MAX = 160.0  # last limit: two clusters that barely exchange mass need long steps
_ABSORB = 100.0  # absorb dual variables into the kernel beyond this logarithm
_DENSE = 64  # size up to which a factorisation is faster than conjugate gradients
_DAMPING = 1e-3  # first Levenberg damping, relative to the column sums
_SPARSE = 0.25  # share of entries up to which a coupling is compressed
_SPARSE_GAIN = 0.15  # time per entry of a full row over that of a compressed one
_SPARSE_DIRECT = 0.02  # share of entries up to which a sparse factor has little fill-in
_PATIENCE = 60  # Newton steps without progress, after which rounding is the limit


def ground_of(x: Array, y: Array, cost: Array) -> Ground:
    """The ground cost from points x (n, d) to y (m, d): `cost`, or squared distances if empty."""
    return x, np.ascontiguousarray(y.T), cost


def transposed(ground: Ground) -> Ground:
    """The ground cost in the other direction."""
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


def restricted(ground: Ground, rows: Array, columns: Array) -> Ground:
    """The ground cost between some of the points."""
    x, yt, cost = ground
    part = np.ascontiguousarray(cost[np.ix_(rows, columns)]) if cost.size else cost
    return x[rows], np.ascontiguousarray(yt[:, columns]), part


def on_all_points(values: Array, has_mass: Array) -> Array:
    """The potential on all points, from that on the points with mass."""
    full = np.full(has_mass.size, -np.inf)
    full[has_mass] = values
    return full


def marginals(ground: Ground, f: Array, g: Array, epsilon: float) -> tuple[Array, Array]:
    """Row and column sums of the coupling of the potentials."""
    rows, columns = np.empty(f.size), np.empty(g.size)
    _kernels.plan_marginals(ground, f, g, epsilon, rows, columns)
    return rows, columns


def marginal_error(
    ground: Ground, f: Array, g: Array, weights: Sequence[Array], epsilon: float
) -> float:
    """L1 error of both marginals against the weights."""
    rows, columns = marginals(ground, f, g, epsilon)
    with np.errstate(over="ignore"):  # of a solver that diverges, the error is infinite
        return float(np.abs(rows - weights[0]).sum() + np.abs(columns - weights[1]).sum())


@dataclass(frozen=True)
class Outcome:
    """The solution of one pair, or the best approximation reached."""

    f: Array
    g: Array
    error: float  # L1, of both marginals
    iterations: int  # passes over the kernel
    exhausted: bool  # whether the limit on passes was reached


class Workspace:
    """Large arrays that a thread reuses for successive pairs, since new ones cost page faults."""

    def __init__(self):
        self._kernel = np.empty(0)
        self._values, self._columns = np.empty(0), np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return self._kernel.nbytes + self._values.nbytes + self._columns.nbytes

    def kernel(self, n: int, m: int) -> Array:
        """An array (n, m) for a kernel; it overwrites the last one."""
        if self._kernel.size < n * m:
            self._kernel = np.empty(n * m)
        return self._kernel[: n * m].reshape(n, m)

    def single_kernel(self, n: int, m: int) -> Array:
        """An array of single precision in the same memory."""
        return self.kernel(n, m).reshape(-1).view(np.float32)[: n * m].reshape(n, m)

    def entries(self, size: int) -> tuple[Array, Array]:
        """Arrays for the values and columns of a compressed coupling."""
        if self._values.size < size:
            self._values, self._columns = np.empty(size), np.empty(size, np.int32)
        return self._values[:size], self._columns[:size]


def solve_pair(
    ground: Ground,
    a: Array,
    b: Array,
    epsilon: float,
    tol: float,
    max_iter: int,
    workspace: Workspace,
) -> Outcome:
    """Solve a two-marginal problem, without points of no mass and with fewer columns than rows."""
    rows, columns = a > 0.0, b > 0.0
    positive = ground
    if not (rows.all() and columns.all()):
        positive = restricted(ground, rows, columns)
    tol = 0.9 * tol  # the error of the potentials, evaluated again, differs by rounding
    flip = columns.sum() > rows.sum()
    if flip:
        solver = _PairSolver(
            transposed(positive), b[columns], a[rows], epsilon, tol, max_iter, workspace
        )
        g, f, error = solver.run()
    else:
        solver = _PairSolver(positive, a[rows], b[columns], epsilon, tol, max_iter, workspace)
        f, g, error = solver.run()
    # the error is that of the kernel: evaluate the potentials again where rounding may matter
    rounding = ROUNDING * (np.abs(f).max() + np.abs(g).max()) / epsilon
    f, g = on_all_points(f, rows), on_all_points(g, columns)
    if not rounding < 0.01 * tol:
        error = marginal_error(ground, f, g, (a, b), epsilon)
    return Outcome(f, g, error, solver.passes, solver.exhausted())


@dataclass(frozen=True, eq=False)
class _SparsePlan:
    """A coupling over its marginals, in compressed rows, and the column sums of its squares."""

    values: Array
    columns: Array
    starts: Array
    squares: Array


class _PairSolver:
    r"""Maximises the semi-dual of one pair with positive weights.

    The coupling is diag(u) K diag(v) with the absorbed kernel K = exp((f0 + g0 - C)/epsilon). As
    u = a / (K v), its rows are always exact. The error is in the column sums c = v * (K^T u).

    In y = log v the semi-dual D = a . log(u/a) + b . log(v/b) + const is concave, with gradient
    b - c. A Sinkhorn update is the step log(b/c). A Newton step d solves
    (diag(c) - P^T diag(1/a) P) d = b - c. At small epsilon both start far from the solution. So a
    sequence of decreasing epsilon leads there, each solved to a loose tolerance.
    """

    def __init__(
        self,
        ground: Ground,
        a: Array,
        b: Array,
        epsilon: float,
        tol: float,
        max_iter: int,
        workspace: Workspace,
    ):
        self.workspace = workspace
        self.ground, self.a, self.b = ground, a, b
        self.target, self.wanted, self.max_iter = epsilon, tol, max_iter
        self.epsilon = epsilon
        self.passes = 0
        self.kernel = workspace.kernel(a.size, b.size)
        self.f0, self.g0 = np.zeros(a.size), np.zeros(b.size)
        self.u, self.t = np.empty(a.size), np.empty(b.size)
        self.v = b
        self.built = False  # the kernel is that of f0, g0 and epsilon
        # conjugate gradients cost passes over K, a Cholesky factor about as much as 0.4 m of them
        self.patience = max(20, int(0.4 * b.size))
        self.slow = False  # conjugate gradients reached their limit at this epsilon: factorise
        self.tol = tol  # at this epsilon
        self.damping = 0.0
        self.reach = _REACH

    def run(self) -> tuple[Array, Array, float]:
        """Potentials f and g, and the L1 error of the marginals."""
        # at an epsilon beyond float64 an overflow becomes a status, not a warning
        with np.errstate(all="ignore"):
            return self._run()

    def _run(self) -> tuple[Array, Array, float]:
        largest = _largest_cost(self.ground)
        if largest > _MILD * self.target:
            self.epsilon = self._first_epsilon()
        elif self.wanted >= _SINGLE_TOL and self.b.size > _DENSE:
            error = self._solve_in_single_precision()
            if error <= self.wanted:
                return *self._potentials(), error
            self._absorb()
        first = self.epsilon
        f, g, error = self._follow(largest, _STEP_TOL)
        if not error <= max(self.wanted, _STRICT) and first > self.target:
            # clusters whose masses differed by less than the step's tolerance are too far apart now
            # to exchange the rest
            self.epsilon, self.built = first, False
            strict = self._follow(largest, max(self.wanted, _STRICT))
            if strict[2] < error or not np.isfinite(error):
                return strict
        return f, g, error

    def _follow(self, largest: float, step_tol: float) -> tuple[Array, Array, float]:
        """As `run`, through decreasing epsilons, each but the last one solved to `step_tol`."""
        if largest > _MILD * self.epsilon:
            # hard c-transforms on both sides: every row and column of K then has an entry 1, at
            # every epsilon
            _kernels.nearest(self.ground, np.zeros(self.b.size), self.f0)
            _kernels.nearest(transposed(self.ground), self.f0, self.g0)
        while self.epsilon > self.target * (1.0 + 1e-9):
            self._solve(step_tol)
            self._descend()
        self.epsilon = self.target
        self._solve(self.wanted)
        return *self._potentials(), float(np.abs(self.v * self.t - self.b).sum())

    def _solve_in_single_precision(self) -> float:
        """Bound of the L1 error after Sinkhorn updates on a kernel of half the bytes.

        The entries are rounded to single precision, the sums are not. Updates continue while they
        converge fast. The solver in double precision starts from the result.
        """
        kernel = self.workspace.single_kernel(self.a.size, self.b.size)
        _kernels.gibbs(self.ground, self.f0, self.g0, self.epsilon, kernel)
        self.v = self.b.copy()
        limit = min(_UPDATES, self.max_iter)
        self.passes, error = _kernels.sinkhorn(
            kernel, self.a, self.b, self.v, self.wanted - _SINGLE, limit, self.u, self.t
        )
        return error + _SINGLE

    def _potentials(self) -> tuple[Array, Array]:
        f = self.f0 + self.epsilon * np.log(self.u)
        return f, self.g0 + self.epsilon * np.log(self.v)

    def _first_epsilon(self) -> float:
        """The first epsilon, target * _STEP**k, up to about the mean reduced cost."""
        rows = np.linspace(0, self.a.size - 1, min(self.a.size, 64)).astype(np.intp)
        columns = np.linspace(0, self.b.size - 1, min(self.b.size, 64)).astype(np.intp)
        x, yt, cost = restricted(self.ground, rows, columns)
        reduced = cost if cost.size else ((x[:, :, None] - yt[None]) ** 2).sum(axis=1)
        reduced = reduced - reduced.min(axis=1, keepdims=True)
        reduced = reduced - reduced.min(axis=0, keepdims=True)
        top = _FIRST_EPSILON * float(reduced.mean())
        epsilon = self.target
        while epsilon * _STEP <= top:
            epsilon *= _STEP
        return epsilon

    def exhausted(self) -> bool:
        """Whether the limit on passes is reached."""
        return self.passes >= self.max_iter

    def _descend(self) -> None:
        """Go to the next epsilon by powers of the kernel, at a tenth of the cost of a new one.

        Rounding grows with the exponents. Where it may reach the tolerance the kernel is rebuilt.
        """
        left, right = self.u / self.a, self.v / self.b
        self._absorb()
        if self.exhausted():  # these potentials are the best approximation
            self.epsilon, self.built = self.target, False
            return
        self.epsilon /= _STEP
        largest = np.abs(self.f0).max() + np.abs(self.g0).max()
        self.built = ROUNDING * largest / self.epsilon < 0.01 * self.wanted
        if self.built:
            _kernels.quarter_epsilon(self.kernel, left, right)
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
        """Column sums of the coupling at v and their L1 error; sets u, t and v."""
        _kernels.sinkhorn_pass(self.kernel, v, self.a, True, self.u, self.t)
        self.passes += 1
        self.v = v
        with np.errstate(all="ignore"):  # a trial step may overflow, and has no finite error then
            columns = v * self.t
            return columns, float(np.abs(columns - self.b).sum())

    def _dual(self) -> float:
        """The semi-dual at the point last evaluated, up to a constant of the kernel."""
        with np.errstate(all="ignore"):
            return float(self.a @ np.log(self.u / self.a) + self.b @ np.log(self.v / self.b))

    def _start(self) -> tuple[Array, float]:
        """Kernel at this epsilon; by the log domain where the warm start overflows."""
        if not self.built:
            self._rebuild()
        columns, error = self._evaluate(self.b)
        if not (np.isfinite(error) and columns.min() > 0.0):
            half = np.empty(self.a.size)
            log_b = self.epsilon * np.log(self.b)
            _kernels.soft_nearest(self.ground, self.g0 + log_b, self.epsilon, half)
            self.f0 = half
            log_a = self.epsilon * np.log(self.a)
            _kernels.soft_nearest(transposed(self.ground), self.f0 + log_a, self.epsilon, self.g0)
            self._rebuild()
            columns, error = self._evaluate(self.b)
        return columns, error

    def _solve(self, tol: float) -> None:
        """Sinkhorn updates while they are fast, then Newton steps, until tol or the limit."""
        self.tol = tol
        self.slow, self.damping, self.reach = False, 0.0, _REACH
        columns, error = self._start()
        if error > tol:
            self.v = self.b / self.t
            passes, error = _kernels.sinkhorn(
                self.kernel, self.a, self.b, self.v, tol, _UPDATES, self.u, self.t
            )
            self.passes += passes
            columns = self.v * self.t
        best, best_v, waited = error, self.v, 0
        while error > tol and waited < _PATIENCE and not self.exhausted():
            columns, error = self._newton_step(columns, error)
            if error > tol:  # t is known, so that a Sinkhorn update is free; it smooths the error
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

        Clusters that barely exchange mass make the Hessian nearly singular. The direction then
        moves them beyond the region where the quadratic model is accurate. So each coordinate is
        cut to the trusted reach. Where that ruins the ascent all coordinates are shrunk equally.
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
        """Adapt reach and damping to the share of the step taken, and to its gain."""
        if faithful and cut and self.reach < _REACH_MAX:
            self.reach *= 4.0
        elif faithful:
            self.damping = 0.1 * self.damping if self.damping > 1e-9 else 0.0
        if taken < 1.0:
            self.reach = max(_REACH, 0.3 * self.reach)
        if taken < 0.3:
            self.damping = min(max(10.0 * self.damping, _DAMPING), 1.0)

    def _direction(self, columns: Array, residual: Array, error: float) -> Array:
        """Newton direction in log v, by the cheapest method that has not failed yet."""
        if self.b.size <= _DENSE:
            return self._dense_direction(columns, residual)
        # superlinear convergence first, and tol at the end
        reduction = max(min(0.1, np.sqrt(error)), min(0.5, 0.2 * self.tol / error))
        plan = self._sparse_plan(columns, error)
        if plan is not None:
            return self._sparse_direction(plan, columns, residual, reduction)
        if self.slow:
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
        self.slow = done >= self.patience
        return direction

    def _sparse_plan(self, columns: Array, error: float) -> _SparsePlan | None:
        """The coupling without negligible entries, or None where most entries are not negligible.

        The omitted entries act as a damping of their size. It shrinks with the error, so that the
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
        if not self.slow:
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
            self.slow = done >= limit
            return direction / root
        if plan.values.size > _SPARSE_DIRECT * self.kernel.size:
            return self._dense_direction(columns, residual)
        return self._sparse_factor(plan, scaled) / root

    def _sparse_factor(self, plan: _SparsePlan, scaled: Array) -> Array:
        """Newton direction from a sparse factor of the whole dual's Hessian [[I, S], [S^T, I]].

        As epsilon goes to zero the support of the coupling becomes a forest, without fill-in. So
        the factor is cheapest where the conditioning is worst.
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
        Clusters that exchange almost no mass leave it singular to rounding. So the smallest shift
        with which the factorisation succeeds is added.
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
