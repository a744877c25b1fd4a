"""Networks that predict runtimes: the peers of the Pitot paper (Appendix B.4).

Both take the features of a workload and of a platform, have two hidden layers of 256 units, and are
trained in the log domain by AdaMax. Batches hold as many runs alone as beside others. The
parameters with the least error on a tenth of the runs are kept.

The paper takes 20,000 steps at a rate of 0.001. Here 5,000 steps at a cosine from 0.004 take a
quarter of the time and are better by 0.7 and 0.9 points on calibration runs. The first layer is
applied to each workload and platform once, and runs gather its rows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msbgen.systems.runtimes.embeddings import sum_by_index
from msbgen.systems.runtimes.runs import Observations
from msbgen.systems.runtimes.towers import draw_batch, standardised

Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

HIDDEN = 256
STEPS, BATCH, RATE, CHECK_EVERY = 5_000, 1024, 4e-3, 200
# Weight of the loss beside others; the loss alone weighs 1 (Appendix D.2).
BESIDE = 0.5
# Length of keys and queries, and hidden units after the attention.
KEY, AFTER = 8, 32


class Layers:
    """Two hidden layers over the concatenated features, (n_k, d_k), of each row's indices."""

    def __init__(
        self,
        tables: Sequence[Singles],
        outputs: int,
        rng: np.random.Generator,
        hidden: int = HIDDEN,
    ) -> None:
        self._tables = tables
        wide = sum(table.shape[1] for table in tables)

        def weights(rows: int, columns: int, inputs: int) -> Singles:
            drawn = rng.standard_normal((rows, columns)) / np.sqrt(inputs)
            return drawn.astype(np.float32)

        self._first = [weights(table.shape[1], hidden, wide) for table in tables]
        self._b1, self._b2 = np.zeros((2, hidden), np.float32)
        self._second = weights(hidden, hidden, hidden)
        self._last, self._b3 = weights(hidden, outputs, hidden), np.zeros(outputs, np.float32)
        self.parameters = [*self._first, self._b1, self._second, self._b2, self._last, self._b3]

    def forward(self, named: Sequence[Indices]) -> Singles:
        """Outputs (n, outputs) of rows with these indices, (n,) each; kept for :meth:`backward`."""
        self._named = named
        x = np.repeat(self._b1[None], len(named[0]), axis=0)
        for table, weights, index in zip(self._tables, self._first, named):
            x += (table @ weights)[index]
        self._h1, self._slope1 = gelu(x)
        self._h2, self._slope2 = gelu(self._h1 @ self._second + self._b2)
        return self._h2 @ self._last + self._b3

    def backward(self, gradient: Singles) -> list[Singles]:
        """Gradients of the parameters from that of the outputs."""
        g2 = (gradient @ self._last.T) * self._slope2
        g1 = (g2 @ self._second.T) * self._slope1
        first = [
            table.T @ sum_by_index(index, len(table), g1)
            for table, index in zip(self._tables, self._named)
        ]
        return [
            *first, g1.sum(axis=0), self._h1.T @ g2, g2.sum(axis=0),
            self._h2.T @ gradient, gradient.sum(axis=0),
        ]  # fmt: skip


class NeuralNetwork:
    """A network predicts the log runtime alone, another the factor of each neighbour."""

    def __init__(self, workloads: Singles, platforms: Singles, rng: np.random.Generator) -> None:
        self._base = Layers([workloads, platforms], 1, rng)
        self._beside = Layers([workloads, workloads, platforms], 1, rng)
        self.parameters = [*self._base.parameters, *self._beside.parameters]

    def forward(self, runs: Observations) -> Singles:
        """Log runtime over the mean, (n,)."""
        total = self._base.forward([runs.workload, runs.platform])[:, 0]
        row, near = runs.neighbour
        if len(row):
            mine = runs.interfered[row]
            each = self._beside.forward([runs.workload[mine], near, runs.platform[mine]])
            total[runs.interfered] += sum_by_index(row, len(runs.interfered), each)[:, 0]
        self._runs = runs
        return total

    def backward(self, slope: Singles) -> list[Singles]:
        """Gradients of the parameters from that of the log runtimes (n,)."""
        base = self._base.backward(slope[:, None])
        row = self._runs.neighbour[0]
        if not len(row):
            return [*base, *(np.zeros_like(p) for p in self._beside.parameters)]
        return [*base, *self._beside.backward(slope[self._runs.interfered[row], None])]


class Attention:
    """Neighbours give keys and values, the disturbed run a query; a network reads the answer.

    The first network gives the log runtime alone and a query, the second a key and a value of each
    neighbour. The answer is Σ_k ⟨query, key_k⟩ value_k: the product weighs, not its softmax, which
    is 1 for one neighbour.
    """

    def __init__(self, workloads: Singles, platforms: Singles, rng: np.random.Generator) -> None:
        self._base = Layers([workloads, platforms], 1 + KEY, rng)
        self._near = Layers([workloads, platforms], 2 * KEY, rng)
        drawn = rng.standard_normal((KEY, AFTER)) / np.sqrt(KEY)
        self._read, self._b1 = drawn.astype(np.float32), np.zeros(AFTER, np.float32)
        drawn = rng.standard_normal((AFTER, 1)) / np.sqrt(AFTER)
        self._last, self._b2 = drawn.astype(np.float32), np.zeros(1, np.float32)
        after = [self._read, self._b1, self._last, self._b2]
        self.parameters = [*self._base.parameters, *self._near.parameters, *after]

    def forward(self, runs: Observations) -> Singles:
        """Log runtime over the mean, (n,)."""
        self._runs = runs
        out = self._base.forward([runs.workload, runs.platform])
        total = out[:, 0].copy()
        row, near = runs.neighbour
        if len(row):
            felt = runs.interfered
            both = self._near.forward([near, runs.platform[felt[row]]])
            self._key, self._value = both[:, :KEY], both[:, KEY:]
            self._query = out[felt[row], 1:]
            self._weight = (self._key * self._query).sum(axis=1, keepdims=True) / KEY**0.5
            self._answer = sum_by_index(row, len(felt), self._weight * self._value)
            self._hidden, self._slope = gelu(self._answer @ self._read + self._b1)
            total[felt] += (self._hidden @ self._last + self._b2)[:, 0]
        return total

    def backward(self, slope: Singles) -> list[Singles]:
        """Gradients of the parameters from that of the log runtimes (n,)."""
        runs, row = self._runs, self._runs.neighbour[0]
        out = np.zeros((len(runs), 1 + KEY), np.float32)
        out[:, 0] = slope
        if not len(row):
            beside = self.parameters[len(self._base.parameters) :]
            return [*self._base.backward(out), *(np.zeros_like(p) for p in beside)]
        felt = slope[runs.interfered, None]
        hidden = (felt @ self._last.T) * self._slope
        answer = (hidden @ self._read.T)[row]
        weight = (answer * self._value).sum(axis=1, keepdims=True) / KEY**0.5
        out[:, 1:] = sum_by_index(runs.interfered[row], len(runs), weight * self._key)
        both = np.concatenate([weight * self._query, answer * self._weight], axis=1)
        return [
            *self._base.backward(out), *self._near.backward(both),
            self._answer.T @ hidden, hidden.sum(axis=0), self._hidden.T @ felt, felt.sum(axis=0),
        ]  # fmt: skip


class AdaMax:
    """The optimiser (Kingma and Ba 2015, Section 7.1), which changes parameters in place."""

    def __init__(self, parameters: Sequence[Singles]) -> None:
        self._parameters, self._steps = parameters, 0
        self._moments, self._sizes = ([np.zeros_like(p) for p in parameters] for _ in range(2))

    def step(self, gradients: Sequence[Singles], rate: float) -> None:
        self._steps += 1
        rate = np.float32(rate / (1 - 0.9**self._steps))
        for p, g, moment, size in zip(self._parameters, gradients, self._moments, self._sizes):
            moment *= 0.9
            moment += 0.1 * g
            size *= 0.999
            np.maximum(size, np.abs(g), out=size)
            p -= rate * moment / (size + np.float32(1e-8))


def train(
    kind: type[NeuralNetwork] | type[Attention],
    runs: Observations,
    log_runtime: NDArray[np.float64],
    features: tuple[NDArray, NDArray],
    everything: Observations,
    rng: np.random.Generator,
    steps: int = STEPS,
) -> NDArray[np.float64]:
    """Train on some runs, and predict the log runtimes of others, (n,)."""
    checked = rng.random(len(runs)) < 0.1
    check, wanted = runs.some(checked), log_runtime[checked]
    runs, log_runtime = runs.some(~checked), log_runtime[~checked]
    mean = float(log_runtime.mean())
    target = (log_runtime - mean).astype(np.float32)
    network = kind(*(standardised(f) for f in features), rng)
    sides = np.flatnonzero(runs.n_neighbours == 0), np.flatnonzero(runs.n_neighbours > 0)
    optimiser = AdaMax(network.parameters)
    best, kept = np.inf, [p.copy() for p in network.parameters]
    for step in range(1, steps + 1):
        rows, weight = draw_batch(sides, BATCH, BESIDE, rng)
        error = network.forward(runs.some(rows)) - target[rows]
        rate = RATE * min(1.0, step / 200) * 0.5 * (1 + np.cos(np.pi * step / steps))
        optimiser.step(network.backward(2 * weight * error), rate)
        if step % CHECK_EVERY == 0 or step == steps:
            square = (_all(network, check) + mean - wanted) ** 2
            beside = check.n_neighbours > 0
            loss = sum(
                w * square[side].mean()
                for side, w in ((~beside, 1), (beside, BESIDE))
                if side.any()
            )
            if loss < best:
                best, kept = loss, [p.copy() for p in network.parameters]
    for p, found in zip(network.parameters, kept):
        p[...] = found
    return _all(network, everything) + mean


def _all(network: NeuralNetwork | Attention, runs: Observations) -> NDArray[np.float64]:
    """Predictions of many runs, some thousands at a time."""
    parts = np.array_split(np.arange(len(runs)), len(runs) // 8192 + 1)
    return np.concatenate([network.forward(runs.some(part)) for part in parts]).astype(float)


def gelu(x: Singles) -> tuple[Singles, Singles]:
    """x·sigmoid(1.702 x), the Gaussian error linear unit to within 0.02, and its derivative."""
    scaled = np.float32(1.702) * x
    gate = np.reciprocal(1.0 + np.exp(-scaled))
    return x * gate, gate * (1.0 + scaled * (1.0 - gate))
