"""Two towers: networks whose outputs are the embeddings of workloads and platforms.

One network maps the features x of each workload, and a few features φ that are learned with the
weights, to its embedding.  Another does so for platforms
(:mod:`~msbgen.systems.runtimes.embeddings`). All products of embeddings are small dense matrices,
so that a step over all runs costs little more than one over a batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, NotNegative, Positive, Share, Within, check_fields
from msbgen.systems.runtimes.embeddings import (
    LEAK,
    Embeddings,
    Observations,
    sum_by_cell,
    sum_by_index,
)

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class TowerSettings:
    """Size and training of the towers.

    Attributes
    ----------
    rank : int
        Length of the embeddings.
    hidden : int
        Units of each of two hidden layers.
    learned : int
        Learned features of each workload and each platform.
    types : int
        Types of interference.
    steps : int
        Steps of the optimiser.
    rate : float
        Learning rate of the first steps; it falls as a cosine to zero where `batch` is None.
    width : float
        The loss of an error e of the logarithm is √(e² + width²): quadratic below the width, linear
        above it.  None for a quadratic loss.
    decay : float
        Weight decay per step and unit of the learning rate is decay / (decay + observations).  It
        acts as a prior worth so many observations.
    quantiles : tuple of float
        Further outputs are trained to be exceeded with probability 1 − quantile.
    batch : int
        Observations a step, half of them alone; None for all.
    beside : float
        Weight of the loss of runs beside others in batches, relative to runs alone.
    infinity_norm : bool
        Use AdaMax in place of Adam.
    """

    rank: Count = 32
    hidden: Count = 128
    learned: Annotated[int, Within(0)] = 4
    types: Annotated[int, Within(0)] = 2
    steps: Count = 800
    rate: Positive = 0.01
    width: Positive | None = 0.03
    decay: NotNegative = 4500.0
    quantiles: tuple[Share, ...] = ()
    batch: Annotated[int, Within(2)] | None = None
    beside: Positive = 1.0
    infinity_norm: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


class _Tower:
    """A network of two hidden layers over features and learned features, with its gradient.

    There are several of them with other weights, along the first axis of all arrays.
    """

    def __init__(
        self,
        features: Singles,
        outputs: int,
        settings: TowerSettings,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        n, d = features.shape
        hidden, learned = settings.hidden, settings.learned

        def weights(rng: np.random.Generator, rows: int, columns: int) -> Singles:
            drawn = rng.standard_normal((rows, columns)) / np.sqrt(max(rows, 1))
            return drawn.astype(np.float32)

        def drawn(rng: np.random.Generator) -> list[Singles]:
            return [
                rng.standard_normal((n, learned)).astype(np.float32),
                weights(rng, d + learned, hidden), np.zeros((1, hidden), np.float32),
                weights(rng, hidden, hidden), np.zeros((1, hidden), np.float32),
                weights(rng, hidden, outputs), np.zeros((1, outputs), np.float32),
            ]  # fmt: skip

        self._features = np.broadcast_to(features, (len(rngs), n, d))
        self.parameters = [np.stack(several) for several in zip(*map(drawn, rngs))]

    def forward(self) -> Singles:
        """Outputs (members, n, outputs); stores the activations for :meth:`backward`."""
        learned, first, b1, second, b2, last, b3 = self.parameters
        self._x = np.concatenate([self._features, learned], axis=2)
        self._h1, self._slope1 = _gated(self._x @ first + b1)
        self._h2, self._slope2 = _gated(self._h1 @ second + b2)
        return self._h2 @ last + b3

    def backward(self, gradient: Singles) -> list[Singles]:
        """Gradients of the parameters from that of the outputs."""
        _, first, _, second, _, last, _ = self.parameters
        g2 = (gradient @ last.swapaxes(1, 2)) * self._slope2
        g1 = (g2 @ second.swapaxes(1, 2)) * self._slope1
        learned = g1 @ first[:, self._features.shape[2] :].swapaxes(1, 2)
        return [
            learned,
            self._x.swapaxes(1, 2) @ g1, g1.sum(axis=1, keepdims=True),
            self._h1.swapaxes(1, 2) @ g2, g2.sum(axis=1, keepdims=True),
            self._h2.swapaxes(1, 2) @ gradient, gradient.sum(axis=1, keepdims=True),
        ]  # fmt: skip


def _gated(x: Singles) -> tuple[Singles, Singles]:
    """x·sigmoid(x), close to the paper's GELU, and its derivative."""
    gate = np.reciprocal(1.0 + np.exp(-x), dtype=np.float32)
    slope = gate * (1.0 + x * (1.0 - gate))
    return x * gate, slope.astype(np.float32, copy=False)


@dataclass(eq=False)
class Model:
    """Pairs of towers under training: parameters, embeddings, and the gradient of a loss in them.

    There is a pair (member) for each generator, along the first axis of all arrays: small tables
    cost little more with several of them.  Features are (n, d). They are standardised, and
    constant ones are left out.
    """

    workload_features: Floats
    platform_features: Floats
    settings: TowerSettings
    rngs: Sequence[np.random.Generator]
    _workloads: _Tower = field(init=False)
    _platforms: _Tower = field(init=False)

    def __post_init__(self) -> None:
        s, rngs = self.settings, self.rngs
        heads = 1 + len(s.quantiles)
        self._workloads = _Tower(standardised(self.workload_features), heads * s.rank, s, rngs)
        outputs = (1 + 2 * s.types) * s.rank
        self._platforms = _Tower(standardised(self.platform_features), outputs, s, rngs)

    @property
    def parameters(self) -> list[Singles]:
        """Parameters of all towers; training changes them in place."""
        return [*self._workloads.parameters, *self._platforms.parameters]

    def embeddings(self) -> Embeddings:
        """Embeddings of all pairs at the current parameters."""
        n, rank = len(self.rngs), self.settings.rank
        w = self._workloads.forward().reshape(n, len(self.workload_features), -1, rank)
        p = self._platforms.forward().reshape(n, len(self.platform_features), -1, rank)
        scale = np.float32(rank**-0.5)
        return Embeddings(np.ascontiguousarray(w.swapaxes(1, 2)), scale * p.swapaxes(1, 2))

    def gradient(self, runs: Observations, residual: Singles, weight: Singles) -> list[Singles]:
        """Gradient of the weighted loss of many runs in all parameters.

        Residual and weight are (n,).  The cost grows with the tables of the products.
        """
        at, shape = self.embeddings(), runs.shape
        w, p, types, products = at.workload, at.platform, at.types, at.products()
        susceptibility, rectified = products.entries(runs)
        slope = weight * self._slopes(products.summed(runs, susceptibility, rectified) - residual)
        alone = sum_by_cell(slope, runs.cell, shape)
        gw = alone @ p[:, :1]
        gp = np.zeros_like(p)
        gp[:, 0] = (alone.swapaxes(-1, -2) @ w).sum(axis=1)
        if len(runs.interfered) and types:
            near_slope = slope.take(runs.interfered, axis=2)[:, :, None]
            by_run = sum_by_cell(
                near_slope * rectified[:, None], runs.cell[runs.interfered], shape
            )  # (members, heads, types, n_workloads, n_platforms)
            gw += (by_run @ p[:, None, 1 : 1 + types]).sum(axis=2)
            gp[:, 1 : 1 + types] = (by_run.swapaxes(-1, -2) @ w[:, :, None]).sum(axis=1)
            leak = np.where(rectified > 0, np.float32(1.0), np.float32(LEAK))
            through = leak * (near_slope * susceptibility).sum(axis=1)
            by_neighbour = sum_by_cell(
                through.take(runs.neighbour[0], axis=2), runs.neighbour_cell, shape
            )
            gw[:, 0] += (by_neighbour @ p[:, 1 + types :]).sum(axis=1)
            gp[:, 1 + types :] = by_neighbour.swapaxes(-1, -2) @ w[:, :1]
        return self._backward(gw.swapaxes(1, 2), gp.swapaxes(1, 2))

    def batch_gradient(
        self, runs: Observations, residual: Singles, weight: Singles
    ) -> list[Singles]:
        """The same as :meth:`gradient` for a single pair, at a cost that grows with the runs."""
        (at,) = self.embeddings().each()
        vectors, types, w0 = at.gather(runs), at.types, at.workload[0]
        interfered, (row, neighbour) = runs.interfered, runs.neighbour
        platform = runs.platform[interfered]
        n_workloads, n_platforms = runs.shape
        slope = weight * self._slopes(vectors.residual() - residual)
        weighted = (slope.T[:, :, None] * vectors.platform[:, None]).reshape(len(runs), -1)
        gw = sum_by_index(runs.workload, n_workloads, weighted).reshape(
            n_workloads, *at.workload.shape[::2]
        )
        back = np.einsum("hn,hnr->nr", slope, vectors.workload)
        gp = np.empty((n_platforms, *at.platform.shape[::2]), np.float32)
        gp[:, 0] = sum_by_index(runs.platform, n_platforms, back)
        through = np.einsum("mr,tmr->tm", back[interfered], vectors.susceptibility) * vectors.slope
        for t in range(types):
            gp[:, 1 + t] = sum_by_index(
                platform, n_platforms, vectors.rectified[t, :, None] * back[interfered]
            )
            pull = through[t, row, None]
            gp[:, 1 + types + t] = sum_by_index(platform[row], n_platforms, pull * w0[neighbour])
            gw[:, 0] += sum_by_index(neighbour, n_workloads, pull * vectors.magnitude[t])
        return self._backward(gw[None], gp[None])

    def _backward(self, workloads: Singles, platforms: Singles) -> list[Singles]:
        """Gradients of the parameters from those of the embeddings, (members, n, …, rank)."""
        n, scale = len(self.rngs), np.float32(self.settings.rank**-0.5)
        return [
            *self._workloads.backward(workloads.reshape(n, workloads.shape[1], -1)),
            *self._platforms.backward(platforms.reshape(n, platforms.shape[1], -1) * scale),
        ]

    def _slopes(self, error: Singles) -> Singles:
        """Derivative of the loss of each head in the prediction, (…, heads, n)."""
        width = self.settings.width
        slopes, first = np.empty_like(error), error[..., 0, :]
        slopes[..., 0, :] = 2.0 * first if width is None else first / np.hypot(first, width)
        for head, quantile in enumerate(self.settings.quantiles, start=1):
            slopes[..., head, :] = np.where(error[..., head, :] < 0, -quantile, 1.0 - quantile)
        return slopes


def train_towers(
    runs: Observations,
    residual: Floats,
    features: tuple[Floats, Floats],
    settings: TowerSettings,
    rngs: Sequence[np.random.Generator],
    *,
    check: tuple[Observations, Floats] | None = None,
    progress: OnProgress | None = None,
) -> Embeddings:
    """Embeddings of pairs of towers trained on the residuals (n,) of some runs: log runtimes over
    those of linear scaling.

    Each generator draws the initial parameters of a pair; where settings have batches, there is one
    generator, which draws these, too. `check` are validation runs and their
    residuals: every 200 steps their mean squared error is computed, and the parameters with the
    least one are kept (Appendix B.3 of the paper). `progress` is called with (done, total) steps.

    A step over all n runs costs O(n + n_workloads·n_platforms·rank).
    """
    model = Model(*features, settings, rngs)
    target = residual.astype(np.float32)
    changes = [np.empty_like(p) for p in model.parameters]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in model.parameters]
    rate, best, kept = settings.rate, np.inf, model.embeddings()
    alone = runs.n_neighbours == 0
    sides = np.flatnonzero(alone), np.flatnonzero(~alone)
    even = np.full(len(runs), 1.0 / len(runs), dtype=np.float32)
    for step in range(settings.steps):
        if settings.batch is None:
            rate = _annealed(settings.rate, step, settings.steps)
            gradient = model.gradient(runs, target, even)
        else:
            rows, weight = draw_batch(sides, settings.batch, settings.beside, rngs[0])
            gradient = model.batch_gradient(runs.some(rows), target[rows], weight)
        kept_share = 1.0 - rate * settings.decay / (settings.decay + len(runs))
        rise, rise_of_size = 1.0 - 0.9 ** (step + 1), 1.0 - 0.99 ** (step + 1)
        for p, g, (mean, size), change in zip(model.parameters, gradient, moments, changes):
            np.subtract(g, mean, out=change)
            change *= 0.1
            mean += change
            if settings.infinity_norm:
                np.maximum(0.999 * size, np.abs(g), out=size)
                change[:] = size
            else:
                np.multiply(g, g, out=change)
                change -= size
                change *= 0.01
                size += change
                np.divide(size, rise_of_size, out=change)
                np.sqrt(change, out=change)
            change += 1e-8
            np.divide(mean, change, out=change)
            change *= rate / rise
            p *= kept_share
            p -= change
        if check is not None and ((step + 1) % 200 == 0 or step + 1 == settings.steps):
            now = model.embeddings()
            error = float(np.mean((now.residual(check[0])[:, 0] - check[1]) ** 2))
            if error < best:
                best, kept = error, now
        if progress and (step + 1) % 50 == 0:
            progress(step + 1, settings.steps)
    return kept if check is not None else model.embeddings()


def _annealed(rate: float, step: int, steps: int) -> float:
    """A short rise, then half a cosine."""
    return rate * min(1.0, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / steps))


def draw_batch(
    sides: tuple[Indices, Indices], batch: int, beside: float, rng: np.random.Generator
) -> tuple[Indices, Singles]:
    """As many runs alone as beside others, and their weights, which sum to one.

    Either side may be empty.  The loss of runs beside others has the weight `beside`, that of runs
    alone 1.
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
