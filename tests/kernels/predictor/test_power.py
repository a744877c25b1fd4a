"""Power of a machine whose law is known."""

import numpy as np

from kernelling import made_kernels
from msbgen.kernels.dataset import kernels_of, powers_of, runtimes_of
from msbgen.kernels.predictor.power import fit_power
from msbgen.kernels.predictor.shapes import shapes_of
from msbgen.kernels.predictor.structured import RestSettings


def test_sizes_and_clocks_never_measured():
    runs = made_kernels(clocks=np.array([200.0, 400.0, 700.0, 1000.0]))
    clocks = runs["clock"].values[:, None]
    model = fit_power(
        shapes_of(runs), clocks, runtimes_of(runs), powers_of(runs), kernels_of(runs).of,
        RestSettings(), 0,
    )  # fmt: skip
    new = made_kernels(sizes=(160, 300), clocks=np.array([300.0, 600.0, 900.0]))
    said = model.predict(shapes_of(new), new["clock"].values[:, None], runtimes_of(new))
    np.testing.assert_allclose(said, powers_of(new), rtol=0.05)
    rows, three = np.array([0, 3]), new["clock"].values[:3, None]
    product = model.predict_product(
        shapes_of(new).some(rows), three, runtimes_of(new).reshape(2, 3)
    )
    np.testing.assert_allclose(product.ravel(), said, rtol=1e-9)
    # a kernel that does nothing for longer draws less
    slow = model.predict(shapes_of(new), new["clock"].values[:, None], 10 * runtimes_of(new))
    assert (slow < said).all()
