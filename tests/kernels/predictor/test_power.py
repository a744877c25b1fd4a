"""Power of a synthetic machine with a known law."""

import numpy as np

from kernelling import made_kernels
from msbgen.kernels.dataset import kernels_of, powers_of, runtimes_of
from msbgen.kernels.predictor.law_and_residual import ModelParts
from msbgen.kernels.predictor.power import fit_power
from msbgen.kernels.predictor.shapes import shapes_of


def test_sizes_and_clocks_that_were_not_measured():
    runs = made_kernels(clocks=np.array([200.0, 400.0, 700.0, 1000.0]))
    clocks = runs["clock"].values[:, None]
    model = fit_power(
        shapes_of(runs), clocks, runtimes_of(runs), powers_of(runs), kernels_of(runs).of,
        ModelParts(), 0,
    )  # fmt: skip
    new = made_kernels(sizes=(160, 300), clocks=np.array([300.0, 600.0, 900.0]))
    watts = model.predict(shapes_of(new), new["clock"].values[:, None], runtimes_of(new))
    np.testing.assert_allclose(watts, powers_of(new), rtol=0.05)
    # a kernel that takes longer for the same work has less power
    slow = model.predict(shapes_of(new), new["clock"].values[:, None], 10 * runtimes_of(new))
    assert (slow < watts).all()
