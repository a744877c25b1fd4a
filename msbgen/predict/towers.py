"""Two towers: embeddings of workloads and platforms whose products are log residuals.

A network maps the features x of each workload, and a few features φ of its own that are learned
with the weights, to an embedding w_i; another maps each platform to p_j, and, for every type t of
interference, to a susceptibility direction v_jt and a magnitude direction g_jt.  A run of workload
i on platform j beside the workloads K has the residual (Equation 9 of the paper)

    y = w_i·p_j + Σ_t (w_i·v_jt) α(Σ_{k in K} w_k·g_jt),   α(m) = max(m, 0.1 m),

of its log runtime over linear scaling.

Two ways lead to the gradient.  Over all runs, the products are small dense matrices (workload ×
platform) from which runs gather scalars, so that a step over all of them costs little more than
one over a batch.  Over a batch, runs gather vectors: with what the neighbours do to the platform
put into its embedding (Equation 8),

    y = w_i·q,   q = p_j + Σ_t α(Σ_{k in K} w_k·g_jt) v_jt,

another head costs one more product a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from msbgen.errors import ArgumentError, check_positive, check_whole
from msbgen.machine import OnProgress

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

# Where the rectifier is negative it keeps this slope, so that no type of interference dies.
LEAK = 0.1


@dataclass(frozen=True)
class TowerSettings:
    """How the towers are built and trained.

    Attributes
    ----------
    rank, hidden, learned, types : int
        Length of the embeddings, units of each of two hidden layers, features learned a workload
        and a platform, and types of interference.
    steps : int
        Steps of the optimiser.
    rate : float
        Learning rate of the first steps; it falls as a cosine to zero where `batch` is None.
    width : float
        Errors of the logarithm below it count squared, above it absolutely (√(e² + width²)); None
        for squared errors throughout.
    decay : float
        Observations that the pull of the weights towards zero is worth: per step and unit of the
        learning rate it is decay / (decay + observations), as a prior does not grow with the data.
    quantiles : tuple of float
        Further outputs that are trained to be exceeded with probability 1 − quantile.
    batch : int
        Observations a step, half of them alone; None for all.
    beside : float
        Weight of the loss beside others in one of batches; that alone weighs 1.
    infinity_norm : bool
        AdaMax in place of Adam.
    """

    rank: int = 32
    hidden: int = 128
    learned: int = 4
    types: int = 2
    steps: int = 800
    rate: float = 0.01
    width: float | None = 0.03
    decay: float = 4500.0
    quantiles: tuple[float, ...] = ()
    batch: int | None = None
    beside: float = 1.0
    infinity_norm: bool = False

    def __post_init__(self) -> None:
        check_whole(self, "rank", "hidden", "steps")
        check_whole(self, "learned", "types", least=0)
        check_positive(self, "rate", "beside")
        if self.width is not None:
            check_positive(self, "width")
        if self.batch is not None:
            check_whole(self, "batch", least=2)
        if not 0 <= self.decay < float("inf"):
            raise ArgumentError(f"decay is {self.decay}; a number ≥ 0 is wanted.")
        if not all(0 < quantile < 1 for quantile in self.quantiles):
            raise ArgumentError(
                f"quantiles is {self.quantiles}; numbers between 0 and 1 are wanted."
            )


@dataclass(frozen=True, eq=False)
class Observations:
    """Runs, by index.

    Attributes
    ----------
    workload, platform : ndarray of int, (n,)
    beside : ndarray of int, (n, slots)
        Workloads that ran at the same time, −1 where there is none.
    shape : (n_workloads, n_platforms)
    """

    workload: Indices
    platform: Indices
    beside: Indices
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.workload)

    def some(self, rows: NDArray) -> Observations:
        """Some of them."""
        return Observations(self.workload[rows], self.platform[rows], self.beside[rows], self.shape)

    @cached_property
    def cell(self) -> Indices:
        """Place of each in a flattened (workload, platform) matrix."""
        return self.workload * self.shape[1] + self.platform

    @cached_property
    def degree(self) -> Indices:
        """Neighbours of each."""
        return (self.beside >= 0).sum(axis=1)

    @cached_property
    def felt(self) -> Indices:
        """Those that have neighbours, (m,)."""
        return np.flatnonzero(self.degree)

    @cached_property
    def neighbour(self) -> tuple[Indices, Indices]:
        """Of every neighbour: whose it is, as a place in `felt`, and the workload it is."""
        near = self.beside[self.felt]
        row, slot = np.nonzero(near >= 0)
        return row, near[row, slot]

    @cached_property
    def neighbour_cell(self) -> Indices:
        """Place of every neighbour in a flattened (workload, platform) matrix."""
        row, workload = self.neighbour
        return workload * self.shape[1] + self.platform[self.felt[row]]


@dataclass(frozen=True, eq=False)
class Products:
    """Matrices (workload, platform) that a residual is gathered from.

    Attributes
    ----------
    alone : ndarray, (heads, n_workloads, n_platforms)
    susceptibility : ndarray, (heads, types, n_workloads, n_platforms)
    magnitude : ndarray, (types, n_workloads, n_platforms)
    """

    alone: Singles
    susceptibility: Singles
    magnitude: Singles

    def residual(self, runs: Observations) -> Singles:
        """Log residual of each run, (heads, n)."""
        flat = self.alone.reshape(len(self.alone), -1)
        total = flat[:, runs.cell]
        if len(runs.felt) and len(self.magnitude):
            felt = _gathered(self.susceptibility, runs.cell[runs.felt])
            total[:, runs.felt] += np.einsum("htn,tn->hn", felt, self.rectified(runs))
        return total

    def rectified(self, runs: Observations) -> Singles:
        """Rectified sum of the neighbours' magnitudes, (types, m), of runs that have some."""
        each = _gathered(self.magnitude, runs.neighbour_cell)
        summed = each
        if len(runs.felt) < each.shape[1]:
            place = runs.neighbour[0]
            summed = np.stack([np.bincount(place, one, len(runs.felt)) for one in each])
        return np.maximum(summed, LEAK * summed).astype(np.float32)


def _gathered(matrices: Singles, cell: Indices) -> Singles:
    """Entries (…, n) of matrices (…, n_workloads, n_platforms)."""
    return matrices.reshape(*matrices.shape[:-2], -1)[..., cell]


def _scattered(values: NDArray, cell: Indices, shape: tuple[int, int]) -> Singles:
    """Sums (…, n_workloads, n_platforms) of values (…, n) by their cell."""
    flat = values.reshape(-1, values.shape[-1])
    sums = [np.bincount(cell, one, shape[0] * shape[1]) for one in flat]
    return np.array(sums, dtype=np.float32).reshape(*values.shape[:-1], *shape)


def _onto(index: Indices, n: int, values: Singles) -> Singles:
    """Sums (n, d) of rows (m, d) by their index (m,)."""
    m = len(index)
    ones = csc_array((np.ones(m, np.float32), index, np.arange(m + 1)), shape=(n, m))
    return ones @ np.ascontiguousarray(values, dtype=np.float32)


class _Tower:
    """A network of two hidden layers over features and learned features, with its gradient."""

    def __init__(self, features: Singles, outputs: int, settings: TowerSettings, rng) -> None:
        n, d = features.shape
        hidden, learned = settings.hidden, settings.learned

        def weights(rows: int, columns: int) -> Singles:
            drawn = rng.standard_normal((rows, columns)) / np.sqrt(max(rows, 1))
            return drawn.astype(np.float32)

        self._features, self._learned = features, learned
        self.parameters: list[Singles] = [
            rng.standard_normal((n, learned)).astype(np.float32),
            weights(d + learned, hidden), np.zeros(hidden, np.float32),
            weights(hidden, hidden), np.zeros(hidden, np.float32),
            weights(hidden, outputs), np.zeros(outputs, np.float32),
        ]  # fmt: skip

    def forward(self) -> Singles:
        """Outputs (n, outputs); what :meth:`backward` needs is kept."""
        own, first, b1, second, b2, last, b3 = self.parameters
        self._x = np.concatenate([self._features, own], axis=1)
        self._h1, self._slope1 = _gated(self._x @ first + b1)
        self._h2, self._slope2 = _gated(self._h1 @ second + b2)
        return self._h2 @ last + b3

    def backward(self, gradient: Singles) -> list[Singles]:
        """Gradients of the parameters from that of the outputs."""
        _, first, _, second, _, last, _ = self.parameters
        g2 = (gradient @ last.T) * self._slope2
        g1 = (g2 @ second.T) * self._slope1
        own = (g1 @ first.T)[:, self._x.shape[1] - self._learned :]
        return [
            own,
            self._x.T @ g1, g1.sum(axis=0),
            self._h1.T @ g2, g2.sum(axis=0),
            self._h2.T @ gradient, gradient.sum(axis=0),
        ]  # fmt: skip


def _gated(x: Singles) -> tuple[Singles, Singles]:
    """x·sigmoid(x), close to the paper's GELU, and its derivative."""
    gate = np.reciprocal(1.0 + np.exp(-x), dtype=np.float32)
    slope = gate * (1.0 + x * (1.0 - gate))
    return x * gate, slope.astype(np.float32, copy=False)


@dataclass(eq=False)
class Model:
    """Two towers under training: parameters, products, and the gradient of a loss in them.

    Features are (n, d), standardised here; constant ones say nothing and are left out.
    """

    workload_features: Floats
    platform_features: Floats
    settings: TowerSettings
    rng: np.random.Generator
    _workloads: _Tower = field(init=False)
    _platforms: _Tower = field(init=False)

    def __post_init__(self) -> None:
        s = self.settings
        heads = 1 + len(s.quantiles)
        self._workloads = _Tower(standardised(self.workload_features), heads * s.rank, s, self.rng)
        outputs = (1 + 2 * s.types) * s.rank
        self._platforms = _Tower(standardised(self.platform_features), outputs, s, self.rng)

    @property
    def parameters(self) -> list[Singles]:
        """Of both towers; changed in place by training."""
        return [*self._workloads.parameters, *self._platforms.parameters]

    def _embed(self) -> None:
        """Embeddings (heads, n_workloads, rank) and (1 + 2 types, n_platforms, rank)."""
        rank = self.settings.rank
        w = self._workloads.forward().reshape(len(self.workload_features), -1, rank)
        p = self._platforms.forward().reshape(len(self.platform_features), -1, rank)
        self._w, self._p = np.ascontiguousarray(w.swapaxes(0, 1)), p.swapaxes(0, 1)

    def products(self) -> Products:
        """Matrices at the current parameters."""
        s = self.settings
        self._embed()
        scale = np.float32(s.rank**-0.5)
        alone = (self._w @ self._p[0].T) * scale
        felt = [(self._w @ self._p[1 + t].T) * scale for t in range(s.types)]
        made = [(self._w[0] @ self._p[1 + s.types + t].T) * scale for t in range(s.types)]
        shape = alone.shape[1:]
        return Products(
            alone,
            np.stack(felt, axis=1) if felt else np.empty((len(alone), 0, *shape), np.float32),
            np.stack(made) if made else np.empty((0, *shape), np.float32),
        )

    def gradient(
        self, products: Products, runs: Observations, residual: Singles, weight: Singles
    ) -> list[Singles]:
        """Gradient of the weighted loss of some runs in all parameters.

        `products` is what :meth:`products` last returned; residual and weight are (n,).
        """
        s, shape = self.settings, runs.shape
        slope = weight * self._slopes(products.residual(runs) - residual)
        alone = _scattered(slope, runs.cell, shape)
        gw = alone @ self._p[0]
        gp = np.zeros_like(self._p)
        gp[0] = np.einsum("hij,hir->jr", alone, self._w, optimize=True)
        if len(runs.felt) and s.types:
            rectified, near = products.rectified(runs), slope[:, runs.felt]
            cell = runs.cell[runs.felt]
            mine = _scattered(near[:, None] * rectified, cell, shape)
            leak = np.where(rectified > 0, np.float32(1.0), np.float32(LEAK))
            through = np.einsum("hn,htn->tn", near, _gathered(products.susceptibility, cell))
            back = (through * leak)[:, runs.neighbour[0]]
            theirs = _scattered(back, runs.neighbour_cell, shape)
            for t in range(s.types):
                gw += mine[:, t] @ self._p[1 + t]
                gp[1 + t] = np.einsum("hij,hir->jr", mine[:, t], self._w, optimize=True)
                gw[0] += theirs[t] @ self._p[1 + s.types + t]
                gp[1 + s.types + t] = theirs[t].T @ self._w[0]
        return self._backward(gw.swapaxes(0, 1), gp.swapaxes(0, 1))

    def batch_gradient(self, runs: Observations, residual: Singles, weight: Singles) -> list:
        """What :meth:`gradient` returns, at a cost that grows with the runs, not with the tables.

        Everything here has the runs last but for the length of the embeddings.
        """
        s, scale = self.settings, np.float32(self.settings.rank**-0.5)
        self._embed()
        felt, (row, near) = runs.felt, runs.neighbour
        place = runs.platform[felt]
        pushed, pulls = self._p[1 : 1 + s.types, place], self._p[1 + s.types :, place[row]]
        made = np.einsum("qr,tqr->tq", self._w[0, near], pulls) * scale
        summed = _onto(row, len(felt), made.T).T
        leak = np.where(summed > 0, np.float32(1.0), np.float32(LEAK))
        rectified = leak * summed
        moved = self._p[0, runs.platform]
        moved[felt] += np.einsum("tm,tmr->mr", rectified, pushed)
        mine = self._w[:, runs.workload]
        error = np.einsum("hnr,nr->hn", mine, moved) * scale - residual
        slope = weight * self._slopes(error)
        gw = _onto(
            runs.workload,
            runs.shape[0],
            (slope.T[:, :, None] * moved[:, None]).reshape(len(runs), -1),
        ).reshape(runs.shape[0], -1, s.rank)
        back = np.einsum("hn,hnr->nr", slope, mine)
        gp = np.empty((runs.shape[1], 1 + 2 * s.types, s.rank), np.float32)
        gp[:, 0] = _onto(runs.platform, runs.shape[1], back)
        through = np.einsum("mr,tmr->tm", back[felt], pushed) * leak * scale
        for t in range(s.types):
            gp[:, 1 + t] = _onto(place, runs.shape[1], rectified[t, :, None] * back[felt])
            each = through[t, row, None]
            gp[:, 1 + s.types + t] = _onto(place[row], runs.shape[1], each * self._w[0, near])
            gw[:, 0] += _onto(near, runs.shape[0], each * pulls[t])
        return self._backward(gw, gp)

    def _backward(self, workloads: Singles, platforms: Singles) -> list[Singles]:
        """Gradients of the parameters from those of the products in the embeddings."""
        scale = np.float32(self.settings.rank**-0.5)
        return [
            *self._workloads.backward(workloads.reshape(len(workloads), -1) * scale),
            *self._platforms.backward(platforms.reshape(len(platforms), -1) * scale),
        ]

    def _slopes(self, error: Singles) -> Singles:
        """Derivative of the loss in the prediction, (heads, n): one loss a head."""
        width = self.settings.width
        slopes = np.empty_like(error)
        slopes[0] = 2.0 * error[0] if width is None else error[0] / np.hypot(error[0], width)
        for head, quantile in enumerate(self.settings.quantiles, start=1):
            slopes[head] = np.where(error[head] < 0, -quantile, 1.0 - quantile)
        return slopes


def train_towers(
    runs: Observations,
    residual: Floats,
    features: tuple[Floats, Floats],
    settings: TowerSettings,
    *,
    rng: np.random.Generator | int = 0,
    check: tuple[Observations, Floats] | None = None,
    progress: OnProgress | None = None,
) -> Products:
    """Train the towers on the residuals of some runs.

    Parameters
    ----------
    runs : Observations
    residual : ndarray, (n,)
        Log runtime over that of linear scaling.
    features : pair of ndarray, (n_workloads, d) and (n_platforms, d')
    settings : TowerSettings
    rng : numpy.random.Generator or int
        Where the first parameters, and batches, come from.
    check : pair of Observations and ndarray
        Other runs: every 200 steps the mean squared error of their residuals is taken, and the
        parameters that had the least are kept (Appendix B.3 of the paper).
    progress : callable
        Called with (done, total) steps.

    Returns
    -------
    Products

    Notes
    -----
    A step over all n runs costs O(n + n_workloads·n_platforms·rank).
    """
    rng = np.random.default_rng(rng)
    model = Model(*features, settings, rng)
    target = residual.astype(np.float32)
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in model.parameters]
    rate, best, kept = settings.rate, np.inf, model.products()
    alone = runs.degree == 0
    sides = np.flatnonzero(alone), np.flatnonzero(~alone)
    even = np.full(len(runs), 1.0 / len(runs), dtype=np.float32)
    for step in range(settings.steps):
        if settings.batch is None:
            rate = _annealed(settings.rate, step, settings.steps)
            gradient = model.gradient(model.products(), runs, target, even)
        else:
            rows, weight = draw_batch(sides, settings.batch, settings.beside, rng)
            gradient = model.batch_gradient(runs.some(rows), target[rows], weight)
        pull = rate * settings.decay / (settings.decay + len(runs))
        for p, g, (mean, size) in zip(model.parameters, gradient, moments):
            mean *= 0.9
            mean += 0.1 * g
            if settings.infinity_norm:
                np.maximum(0.999 * size, np.abs(g), out=size)
                scaled = mean / (1 - 0.9 ** (step + 1)) / (size + 1e-8)
            else:
                size *= 0.99
                size += 0.01 * g * g
                scaled = mean / (1 - 0.9 ** (step + 1))
                scaled /= np.sqrt(size / (1 - 0.99 ** (step + 1))) + 1e-8
            p -= np.float32(rate) * scaled + np.float32(pull) * p
        if check is not None and ((step + 1) % 200 == 0 or step + 1 == settings.steps):
            now = model.products()
            error = float(np.mean((now.residual(check[0])[0] - check[1]) ** 2))
            if error < best:
                best, kept = error, now
        if progress and (step + 1) % 50 == 0:
            progress(step + 1, settings.steps)
    return kept if check is not None else model.products()


def _annealed(rate: float, step: int, steps: int) -> float:
    """A short rise, then half a cosine."""
    return rate * min(1.0, (step + 1) / 20) * 0.5 * (1 + np.cos(np.pi * step / steps))


def draw_batch(
    sides: tuple[Indices, Indices], batch: int, beside: float, rng: np.random.Generator
) -> tuple[Indices, Singles]:
    """As many runs alone as beside others, and their weights, which sum to one.

    Either side may be empty; `beside` is what the loss of the second weighs, that of the first 1.
    """
    some = [(side, w) for side, w in zip(sides, (1.0, beside)) if len(side)]
    each = batch // len(some)
    rows = np.concatenate([side[rng.integers(len(side), size=each)] for side, _ in some])
    weight = np.repeat([w for _, w in some], each)
    return rows, (weight / weight.sum()).astype(np.float32)


def standardised(features: Floats) -> Singles:
    """Features of mean zero and variance one; those that are constant are left out."""
    deviation = features.std(axis=0)
    varies = deviation > 0
    centred = (features - features.mean(axis=0))[:, varies] / deviation[varies]
    return centred.astype(np.float32)
