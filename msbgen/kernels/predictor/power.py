"""Power of the kernels of one kind: terms of clocks and achieved rates, times what they leave.

A chip draws a constant, its clocks' share (V²·f, where the voltage V rises with the clock f), and
that times how busy it is: the rates of operations and bytes that a kernel achieves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.kernels.predictor.shapes import Shapes, distinct_columns
from msbgen.kernels.predictor.structured import RestSettings, Structured, fit_structured
from msbgen.kernels.predictor.terms import POWERS, crossed, draws

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PowerModel:
    """Powers of one kind.

    Attributes
    ----------
    structured : Structured
    highest : ndarray, (n_resources,)
        Of every resource, in whose shares the terms are.
    most : ndarray, (2,)
        Highest rates of operations and bytes [1/s].
    logs : ndarray of int
        Columns that the process sees.
    """

    structured: Structured
    highest: Floats
    most: Floats
    logs: Indices

    def predict(self, shapes: Shapes, configurations: Floats, runtime: Floats) -> Floats:
        """Power [W] of every row, (n,).

        Parameters
        ----------
        shapes : Shapes
            Of n rows.
        configurations : ndarray, (n, n_resources)
        runtime : ndarray, (n,)
            [s], measured or predicted.
        """
        shares, busy = configurations / self.highest, _rates(shapes, runtime) / self.most
        terms, smooth, rough = _columns(shapes, shares, busy, runtime)
        return np.exp(self.structured.predict(terms, smooth[:, self.logs], rough))

    def predict_product(self, shapes: Shapes, configurations: Floats, runtime: Floats) -> Floats:
        """Power [W] of every kernel in every configuration, (n, m), given their runtimes [s]."""
        n, m = runtime.shape
        model, shares = self.structured, configurations / self.highest
        if model.share > 0 or not len(model.weights):
            said = [
                self.predict(shapes.some(np.full(m, i)), configurations, runtime[i])
                for i in range(n)
            ]
            return np.stack(said)
        always, active = draws(shares), _active(shares)
        constant = model.weights[: always.shape[1]]
        watts = np.broadcast_to(always @ constant, (n, m)).copy()
        own = model.weights[always.shape[1] :].reshape(2, -1)
        for work, most, weights in zip((shapes.flops, shapes.touched), self.most, own):
            if weights.any():
                watts += (work[:, None] / most) / runtime * (active @ weights)
        kernel = _kernel(shapes.logs())
        rows = kernel[:, self.logs[self.logs < kernel.shape[1]]]
        others = shares[:, self.logs[self.logs >= kernel.shape[1]] - kernel.shape[1]]
        return watts * np.exp(model.process.predict_product(rows, others))


def fit_power(
    shapes: Shapes,
    configurations: Floats,
    runtime: Floats,
    power: Floats,
    kernel: Indices,
    settings: RestSettings,
    seed: int,
) -> PowerModel:
    """Learn the powers of one kind; parameters as :func:`msbgen.kernels.predictor.runtime`."""
    highest = configurations.max(axis=0)
    rates = _rates(shapes, runtime)
    most = np.maximum(rates.max(axis=0), 1e-300)
    terms, smooth, rough = _columns(shapes, configurations / highest, rates / most, runtime)
    logs = distinct_columns(smooth)
    model = fit_structured(terms, smooth[:, logs], rough, power, kernel, settings, seed)
    return PowerModel(model, highest, most, logs)


def _rates(shapes: Shapes, runtime: Floats) -> Floats:
    """Operations and bytes a second, (n, 2)."""
    return np.stack([shapes.flops, shapes.touched], axis=1) / runtime[:, None]


def _columns(
    shapes: Shapes, shares: Floats, busy: Floats, runtime: Floats
) -> tuple[Floats, Floats, Floats]:
    """Terms, and what process and trees see, of every row."""
    terms = np.hstack([draws(shares), crossed(busy, _active(shares))])
    every = shapes.logs()
    rates = np.log(np.maximum(busy, 1e-300))
    smooth = np.hstack([_kernel(every), shares])
    rough = np.hstack([every, shapes.raw, rates, np.log(runtime)[:, None], np.log(shares)])
    return terms, smooth, rough


def _active(shares: Floats) -> Floats:
    """What rates are multiplied with: they rise with the clock themselves, power beyond that."""
    return np.hstack([np.ones((len(shares), 1)), *(shares**power for power in POWERS)])


def _kernel(logs: Floats) -> Floats:
    """What power depends on of a kernel's logarithms: operations, and the share of whole tiles."""
    return logs[:, [0, 3]] if logs.shape[1] > 3 else logs[:, :2]
