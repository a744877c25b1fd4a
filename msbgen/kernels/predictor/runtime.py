"""Runtime of the kernels of one kind: terms of work × slowness, times what they leave.

A kernel takes what its launch, its operations (those of whole tiles, too), its bytes and its depth
take, each at a pace of its own: constant, 1/r of a clock or number of threads r, or a product of
such.  The coefficients cannot be negative, and are fitted in relative error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.kernels.predictor.shapes import Shapes, distinct_columns
from msbgen.kernels.predictor.structured import RestSettings, Structured, fit_structured
from msbgen.kernels.predictor.terms import crossed, slowness

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RuntimeModel:
    """Runtimes of one kind.

    Attributes
    ----------
    structured : Structured
    logs : ndarray of int
        Logarithms of a kernel that the process sees.
    works : ndarray of int
        Columns of work that vary among the kernels, and the launch.
    """

    structured: Structured
    logs: Indices
    works: Indices

    def predict(self, shapes: Shapes, configurations: Floats) -> Floats:
        """Runtime [s] of every row, (n,).

        Parameters
        ----------
        shapes : Shapes
            Of n rows.
        configurations : ndarray, (n, n_resources)
        """
        terms = crossed(shapes.works()[:, self.works], slowness(configurations))
        smooth, rough = _seen(shapes, configurations, self.logs)
        return np.exp(self.structured.predict(terms, smooth, rough))

    def predict_product(self, shapes: Shapes, configurations: Floats) -> Floats:
        """Runtime [s] of every kernel in every configuration, (n, m).

        Where the rest is a process this takes two small tables and their product.
        """
        n, m = len(shapes.flops), len(configurations)
        model = self.structured
        if model.share > 0 or not len(model.weights):
            rows = np.repeat(np.arange(n), m)
            return self.predict(shapes.some(rows), np.tile(configurations, (n, 1))).reshape(n, m)
        works, slow = shapes.works()[:, self.works], slowness(configurations)
        law = works @ model.weights.reshape(works.shape[1], -1) @ slow.T
        logs = shapes.logs()[:, self.logs]
        return law * np.exp(model.process.predict_product(logs, np.log(configurations)))


def fit_runtime(
    shapes: Shapes,
    configurations: Floats,
    runtime: Floats,
    kernel: Indices,
    settings: RestSettings,
    seed: int,
) -> RuntimeModel:
    """Learn the runtimes of one kind.

    Parameters
    ----------
    shapes : Shapes
        Of n measurements.
    configurations : ndarray, (n, n_resources)
    runtime : ndarray, (n,)
        [s]
    kernel : ndarray of int, (n,)
        Which rows are of one kernel, from 0 on.
    settings : RestSettings
    seed : int
    """
    works = shapes.works()
    varies = np.ptp(works, axis=0) > 0
    varies[0] = True
    columns, logs = np.flatnonzero(varies), distinct_columns(shapes.logs())
    terms = crossed(works[:, columns], slowness(configurations))
    smooth, rough = _seen(shapes, configurations, logs)
    model = fit_structured(terms, smooth, rough, runtime, kernel, settings, seed)
    return RuntimeModel(model, logs, columns)


def _seen(shapes: Shapes, configurations: Floats, logs: Indices) -> tuple[Floats, Floats]:
    """What process and trees see of every row."""
    every = shapes.logs()
    clocks = np.log(configurations)
    rough = np.hstack([every, shapes.raw, clocks])
    return np.hstack([every[:, logs], clocks]), rough
