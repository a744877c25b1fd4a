"""Power of the kernels of one kind: a law of clocks and achieved rates, times its residual.

The law is a sum of a constant, terms of the clocks (V²·f, where the voltage V rises with the clock
f), and such terms times the rates of operations and bytes that a kernel achieves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.kernels.predictor.law_and_residual import (
    LawAndResidual,
    ModelParts,
    fit_law_and_residual,
)
from msbgen.kernels.predictor.shapes import Shapes, distinct_columns
from msbgen.kernels.predictor.terms import POWERS, column_products, powers_of_clocks

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PowerModel:
    """Powers of one kind.

    Terms are in shares of the highest levels (n_resources,) and of the most operations and bytes a
    second (2,). `logs` are the columns that the process uses.
    """

    model: LawAndResidual
    highest: Floats
    most: Floats
    logs: Indices

    def predict(self, shapes: Shapes, configurations: Floats, runtime: Floats) -> Floats:
        """Power [W] of every row, (n,), given its runtime [s], measured or predicted."""
        shares, busy = configurations / self.highest, _rates(shapes, runtime) / self.most
        terms, smooth, rough = _columns(shapes, shares, busy, runtime)
        return np.exp(self.model.predict(terms, smooth[:, self.logs], rough))

    def predict_product(self, shapes: Shapes, configurations: Floats, runtime: Floats) -> Floats:
        """Power [W] of every kernel in every configuration, (n, m), given their runtimes [s]."""
        n, m = runtime.shape
        model, shares = self.model, configurations / self.highest
        if model.share > 0 or not len(model.weights):
            rows = [
                self.predict(shapes.some(np.full(m, i)), configurations, runtime[i])
                for i in range(n)
            ]
            return np.stack(rows)
        idle, active = powers_of_clocks(shares), _rate_factors(shares)
        watts = np.broadcast_to(idle @ model.weights[: idle.shape[1]], (n, m)).copy()
        rate_weights = model.weights[idle.shape[1] :].reshape(2, -1)
        for work, most, weights in zip((shapes.flops, shapes.touched), self.most, rate_weights):
            if weights.any():
                watts += (work[:, None] / most) / runtime * (active @ weights)
        kernel = _kernel_columns(shapes.logs())
        rows = kernel[:, self.logs[self.logs < kernel.shape[1]]]
        others = shares[:, self.logs[self.logs >= kernel.shape[1]] - kernel.shape[1]]
        return watts * np.exp(model.process.predict_product(rows, others))


def fit_power(
    shapes: Shapes,
    configurations: Floats,
    runtime: Floats,
    power: Floats,
    kernel: Indices,
    parts: ModelParts,
    seed: int,
) -> PowerModel:
    """Fit the powers [W] of one kind.

    Parameters are those of :func:`msbgen.kernels.predictor.runtime.fit_runtime`.
    """
    highest = configurations.max(axis=0)
    rates = _rates(shapes, runtime)
    most = np.maximum(rates.max(axis=0), 1e-300)
    terms, smooth, rough = _columns(shapes, configurations / highest, rates / most, runtime)
    logs = distinct_columns(smooth)
    model = fit_law_and_residual(terms, smooth[:, logs], rough, power, kernel, parts, seed)
    return PowerModel(model, highest, most, logs)


def _rates(shapes: Shapes, runtime: Floats) -> Floats:
    """Operations and bytes per second, (n, 2)."""
    return np.stack([shapes.flops, shapes.touched], axis=1) / runtime[:, None]


def _columns(
    shapes: Shapes, shares: Floats, busy: Floats, runtime: Floats
) -> tuple[Floats, Floats, Floats]:
    """Terms, and features of the process and of the trees, in every row."""
    terms = np.hstack([powers_of_clocks(shares), column_products(busy, _rate_factors(shares))])
    every = shapes.logs()
    rates = np.log(np.maximum(busy, 1e-300))
    smooth = np.hstack([_kernel_columns(every), shares])
    rough = np.hstack([every, shapes.raw, rates, np.log(runtime)[:, None], np.log(shares)])
    return terms, smooth, rough


def _rate_factors(shares: Floats) -> Floats:
    """Factors of the rates: power rises faster with the clock than the rates themselves."""
    return np.hstack([np.ones((len(shares), 1)), *(shares**power for power in POWERS)])


def _kernel_columns(logs: Floats) -> Floats:
    """Columns of a kernel's logarithms for power: operations, and the share of whole tiles."""
    return logs[:, [0, 3]] if logs.shape[1] > 3 else logs[:, :2]
