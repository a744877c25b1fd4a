"""Runtimes of a synthetic machine with a known law, at new sizes and clocks."""

import numpy as np

from kernelling import made_kernels
from msbgen.kernels.dataset import kernels_of, runtimes_of
from msbgen.kernels.predictor.law_and_residual import ModelParts
from msbgen.kernels.predictor.runtime import fit_runtime
from msbgen.kernels.predictor.shapes import shapes_of


def fitted(runs, parts=ModelParts()):  # noqa: B008
    clocks = runs["clock"].values[:, None]
    shapes, of = shapes_of(runs), kernels_of(runs).of
    return fit_runtime(shapes, clocks, runtimes_of(runs), of, parts, 0)


def test_sizes_and_clocks_that_were_not_measured():
    model = fitted(made_kernels(clocks=np.array([200.0, 600.0, 1000.0])))
    new = made_kernels(sizes=(80, 160, 300, 448), clocks=np.array([300.0, 750.0, 900.0]))
    seconds = model.predict(shapes_of(new), new["clock"].values[:, None])
    np.testing.assert_allclose(seconds, runtimes_of(new), rtol=0.02)


def test_without_the_law_new_sizes_are_worse():
    runs = made_kernels(noise=0.01)
    new = made_kernels(sizes=(1024,))
    errors = []
    for parts in (ModelParts(), ModelParts(terms=False)):
        seconds = fitted(runs, parts).predict(shapes_of(new), new["clock"].values[:, None])
        errors.append(np.abs(np.log(seconds / runtimes_of(new))).mean())
    assert errors[0] < 0.1
    assert 1.5 * errors[0] < errors[1]
