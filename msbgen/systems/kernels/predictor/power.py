"""Power of the kernels of one kind: a law of clocks and achieved rates, times its residual.

The law is a sum of a constant, terms of the clocks (V²·f, where the voltage V rises with the clock
f), and these terms multiplied by the rates of operations and bytes that a kernel achieves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import POSITIVE, Stored
from msbgen.systems.kernels.predictor.law_and_residual import (
    LawAndResidual,
    ModelParts,
    fit_law_and_residual,
)
from msbgen.systems.kernels.predictor.shapes import ShapeColumns, Shapes, distinct_columns
from msbgen.systems.kernels.predictor.terms import POWERS, column_products, powers_of_clocks

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PowerModel:
    """Powers of one kind.

    Terms are in shares of the highest levels (n_resources,) and of the most operations and bytes a
    second (2,). `logs` are the columns that the process uses.
    """

    model: LawAndResidual
    highest: Annotated[Floats, Stored(("resource",), POSITIVE)]
    most: Annotated[Floats, Stored((2,), POSITIVE)]  # highest rates
    logs: Annotated[Indices, Stored(("seen",), dtype="i8")]  # columns of the process features

    def misfits(self, columns: ShapeColumns, n_resources: int) -> Iterator[tuple[str, object, str]]:
        """What does not fit shapes with so many columns, and so many resources."""
        if len(self.highest) != n_resources:
            yield "highest", f"of {len(self.highest)}", str(n_resources)
        if self.logs.max(initial=0) >= 2 + n_resources:
            yield "logs", int(self.logs.max()), f"less than {2 + n_resources}"
        # constant, clock and cube; operations and bytes, each by 1 and the powers of the clocks
        terms = 1 + 2 * n_resources + 2 * (1 + len(POWERS) * n_resources)
        rough = columns.logs + columns.raw + n_resources + 3
        yield from self.model.misfits(terms, len(self.logs), rough)

    def predict(self, shapes: Shapes, configurations: Floats, runtime: Floats) -> Floats:
        """Power [W] of every row, (n,), given its runtime [s], measured or predicted."""
        shares = configurations / self.highest
        rate_shares = _rates(shapes, runtime) / self.most
        terms, process_features, tree_features = _columns(shapes, shares, rate_shares, runtime)
        return np.exp(self.model.predict(terms, process_features[:, self.logs], tree_features))

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
        for work, highest, weights in zip((shapes.flops, shapes.touched), self.most, rate_weights):
            if weights.any():
                watts += (work[:, None] / highest) / runtime * (active @ weights)
        kernel = _kernel_columns(shapes.logs())
        columns, n_kernel = self.logs, kernel.shape[1]
        rows = kernel[:, columns[columns < n_kernel]]
        others = shares[:, columns[columns >= n_kernel] - n_kernel]
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
    highest_rates = np.maximum(rates.max(axis=0), 1e-300)
    terms, process_features, tree_features = _columns(
        shapes, configurations / highest, rates / highest_rates, runtime
    )
    process_columns = distinct_columns(process_features)
    model = fit_law_and_residual(
        terms, process_features[:, process_columns], tree_features, power, kernel, parts, seed
    )
    return PowerModel(model, highest, highest_rates, process_columns)


def _rates(shapes: Shapes, runtime: Floats) -> Floats:
    """Operations and bytes per second, (n, 2)."""
    return np.stack([shapes.flops, shapes.touched], axis=1) / runtime[:, None]


def _columns(
    shapes: Shapes, shares: Floats, rate_shares: Floats, runtime: Floats
) -> tuple[Floats, Floats, Floats]:
    """Terms of the law, features of the Gaussian process and of the trees, one row each."""
    terms = np.hstack(
        [powers_of_clocks(shares), column_products(rate_shares, _rate_factors(shares))]
    )
    every = shapes.logs()
    rates = np.log(np.maximum(rate_shares, 1e-300))
    process_features = np.hstack([_kernel_columns(every), shares])
    tree_features = np.hstack([every, shapes.raw, rates, np.log(runtime)[:, None], np.log(shares)])
    return terms, process_features, tree_features


def _rate_factors(shares: Floats) -> Floats:
    """Factors of the rates: 1 and powers of the levels; energy per operation rises with them."""
    return np.hstack([np.ones((len(shares), 1)), *(shares**power for power in POWERS)])


def _kernel_columns(logs: Floats) -> Floats:
    """Columns of a kernel's logarithms for power: operations, and the share of whole tiles."""
    return logs[:, [0, 3]] if logs.shape[1] > 3 else logs[:, :2]
