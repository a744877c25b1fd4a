"""Runtime of the kernels of one kind: a law of work and clocks, times its residual.

The law is a sum of terms.  Each is one amount of work (a launch, operations, operations of whole
tiles, bytes, depth) times one factor of the configuration (1, 1/r of a clock or number of threads
r, products of these).  Coefficients are not negative and are fitted in relative error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import Stored
from msbgen.systems.kernels.predictor.law_and_residual import (
    LawAndResidual,
    ModelParts,
    fit_law_and_residual,
)
from msbgen.systems.kernels.predictor.shapes import ShapeColumns, Shapes, distinct_columns
from msbgen.systems.kernels.predictor.terms import (
    column_products,
    count_inverse_products,
    inverse_products,
)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RuntimeModel:
    """Runtimes of one kind.

    The process uses the columns `logs` of :meth:`Shapes.logs`, the law the columns `works` of
    :meth:`Shapes.works`: those that vary among the kernels, and the launch.
    """

    model: LawAndResidual
    logs: Annotated[Indices, Stored(("seen",), dtype="i8")]
    works: Annotated[Indices, Stored(("term",), dtype="i8")]

    def misfits(self, columns: ShapeColumns, n_resources: int) -> Iterator[tuple[str, object, str]]:
        """What does not fit shapes with so many columns, and so many resources."""
        for name, indices, below in (
            ("logs", self.logs, columns.logs), ("works", self.works, columns.works),
        ):  # fmt: skip
            if indices.max(initial=0) >= below:
                yield name, int(indices.max()), f"less than {below}"
        terms = len(self.works) * count_inverse_products(n_resources)
        rough = columns.logs + columns.raw + n_resources
        yield from self.model.misfits(terms, len(self.logs) + n_resources, rough)

    def predict(self, shapes: Shapes, configurations: Floats) -> Floats:
        """Runtime [s] of every row, (n,)."""
        terms = column_products(shapes.works()[:, self.works], inverse_products(configurations))
        smooth, rough = _features(shapes, configurations, self.logs)
        return np.exp(self.model.predict(terms, smooth, rough))

    def predict_product(self, shapes: Shapes, configurations: Floats) -> Floats:
        """Runtime [s] of every kernel in every configuration, (n, m).

        Without trees this is a product of two small tables.
        """
        n, m = len(shapes.flops), len(configurations)
        model = self.model
        if model.share > 0 or not len(model.weights):
            rows = np.repeat(np.arange(n), m)
            return self.predict(shapes.some(rows), np.tile(configurations, (n, 1))).reshape(n, m)
        works, factors = shapes.works()[:, self.works], inverse_products(configurations)
        law = works @ model.weights.reshape(works.shape[1], -1) @ factors.T
        logs = shapes.logs()[:, self.logs]
        return law * np.exp(model.process.predict_product(logs, np.log(configurations)))


def fit_runtime(
    shapes: Shapes,
    configurations: Floats,
    runtime: Floats,
    kernel: Indices,
    parts: ModelParts,
    seed: int,
) -> RuntimeModel:
    """Fit the runtimes (n,) [s] of one kind in configurations (n, n_resources).

    Kernels are numbered from 0 on.
    """
    works = shapes.works()
    varies = np.ptp(works, axis=0) > 0
    varies[0] = True
    columns, logs = np.flatnonzero(varies), distinct_columns(shapes.logs())
    terms = column_products(works[:, columns], inverse_products(configurations))
    smooth, rough = _features(shapes, configurations, logs)
    model = fit_law_and_residual(terms, smooth, rough, runtime, kernel, parts, seed)
    return RuntimeModel(model, logs, columns)


def _features(shapes: Shapes, configurations: Floats, logs: Indices) -> tuple[Floats, Floats]:
    """Features of the process and of the trees, in every row."""
    every = shapes.logs()
    clocks = np.log(configurations)
    rough = np.hstack([every, shapes.raw, clocks])
    return np.hstack([every[:, logs], clocks]), rough
