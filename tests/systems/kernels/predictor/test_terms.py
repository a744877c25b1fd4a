"""Non-negative terms: the minimum of the fit, and the columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.predictor import law_and_residual as module
from msbgen.systems.kernels.predictor.law_and_residual import ModelParts, fit_law_and_residual
from msbgen.systems.kernels.predictor.shapes import distinct_columns, shapes_of
from msbgen.systems.kernels.predictor.terms import (
    column_products,
    fit_terms,
    inverse_products,
    powers_of_clocks,
)


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_no_step_makes_the_relative_error_smaller(seed):
    """Karush, Kuhn and Tucker: the slope is 0 at positive weights, and at least 0 at others."""
    rng = np.random.default_rng(seed)
    columns, target = np.exp(rng.normal(0, 1, (30, 5))), np.exp(rng.normal(0, 1, 30))
    weight = fit_terms(columns, target)
    relative = columns / target[:, None]
    slope = relative.T @ (relative @ weight - 1.0)
    assert (weight >= 0).all()
    assert (slope >= -1e-6).all()
    np.testing.assert_allclose(slope[weight > 0], 0.0, atol=1e-6)


def test_a_column_of_zeros_has_no_weight():
    columns = np.stack([np.zeros(5), np.arange(1.0, 6.0)], axis=1)
    np.testing.assert_allclose(fit_terms(columns, 3 * columns[:, 1]), [0.0, 3.0])


def test_inverse_products_of_up_to_three_resources():
    np.testing.assert_allclose(inverse_products(np.array([[2.0], [4.0]])), [[1, 0.5], [1, 0.25]])
    np.testing.assert_allclose(inverse_products(np.array([[2.0, 4.0]])), [[1, 0.5, 0.25, 0.125]])
    assert inverse_products(np.ones((3, 3))).shape == (3, 8)
    assert inverse_products(np.ones((3, 5))).shape == (3, 6)


def test_powers_of_clocks_and_column_products():
    np.testing.assert_allclose(powers_of_clocks(np.array([[0.5]])), [[1, 0.5, 0.125]])
    np.testing.assert_allclose(
        column_products(np.array([[1.0, 2]]), np.array([[3.0, 4]])), [[3, 4, 6, 8]]
    )


def test_work_of_products_convolutions_and_unknown_kinds():
    def one(kind, **sides):
        made = make_kernels(
            [kind], [1.0], resources={"clock": [1]}, parameters={k: [v] for k, v in sides.items()}
        )
        return shapes_of(made)

    gemm = one("gemm", rows=64, columns=8)
    assert (gemm.m[0], gemm.n[0], gemm.k[0]) == (64, 64, 8)
    assert gemm.flops[0] == 2 * 64 * 64 * 8
    assert gemm.touched[0] == 4 * (2 * 64 * 8 + 64 * 64)
    image = {"batch": 2, "channels": 4, "height": 6, "width": 6}
    conv = one(
        "conv2d", **image, filters=8, kernel_height=3, kernel_width=3, stride=1,
        padding_height=1, padding_width=1, dilation=1, groups=1, bias=0,
    )  # fmt: skip
    assert (conv.m[0], conv.n[0], conv.k[0]) == (2 * 36, 8, 4 * 9)
    assert conv.flops[0] == 2 * 72 * 8 * 36
    relu = one("relu", **image, inplace=0)
    assert (relu.m[0], relu.flops[0], relu.touched[0]) == (1, 288, 8 * 288)
    other = one("sort", length=1000, passes=3)
    assert other.flops[0] == 3000
    bare = make_kernels(["sort"], [1.0], resources={"clock": [1]})
    assert shapes_of(bare).flops[0] == 1


def test_work_is_rounded_up_to_whole_tiles():
    made = make_kernels(
        ["matmul"] * 2,
        [1.0] * 2,
        resources={"clock": [1, 1]},
        parameters={"m": [128, 129], "k": [64, 64], "n": [128, 128], "bias": [0, 0]},
    )
    works = shapes_of(made).works()
    # the last column: 128 × 128, sixteen at once
    np.testing.assert_allclose(works[:, -1], 2 * 64 * 128 * 128 * 16)
    one_at_a_time = works[:, -3]
    np.testing.assert_allclose(one_at_a_time, 2 * 64 * 128 * 128 * np.array([1, 2]))


def test_duplicate_columns_are_dropped():
    x = np.arange(10.0)
    table = np.stack([x, np.ones(10), 3 - 2 * x, x**2, np.zeros(10)], axis=1)
    assert distinct_columns(table).tolist() == [0, 3]


def data(residual, n=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 10, (n, 2))
    return x, (3 * x[:, 0] + x[:, 1]) * np.exp(residual(x))


def fitted(x, y, parts=ModelParts()):  # noqa: B008
    return fit_law_and_residual(x, np.log(x), x, y, np.arange(len(y)), parts, 0)


def test_terms_alone_recover_their_weights():
    x, y = data(lambda x: 0 * x[:, 0])
    model = fitted(x, y, ModelParts(process=False, trees=False))
    np.testing.assert_allclose(model.weights, [3, 1], rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict(x, np.log(x), x)), y, rtol=1e-6)
    assert model.share == 0


def test_trees_fit_steps_and_the_process_fits_waves():
    pytest.importorskip("sklearn")
    rough = data(lambda x: 0.5 * (np.floor(7.3 * x[:, 0]) % 2), n=250)
    smooth = data(lambda x: 0.3 * np.sin(x[:, 0]))
    assert fitted(*rough).share > 0.5
    assert fitted(*smooth).share == 0


def test_few_kernels_have_no_trees(monkeypatch):
    x, y = data(lambda x: 0.1 * x[:, 0], n=module.FEWEST_FOR_TREES - 1)
    monkeypatch.setattr(module, "fit_trees", None)  # a call fails
    assert fitted(x, y).share == 0


def test_without_terms_the_law_is_the_mean():
    x, y = data(lambda x: 0 * x[:, 0])
    model = fitted(x, y, ModelParts(terms=False, process=False, trees=False))
    np.testing.assert_allclose(model.predict(x, x, x), np.log(y).mean())
