"""Work of kernels, counted by hand."""

import numpy as np

from msbgen.kernels.dataset import make as make_kernels
from msbgen.kernels.predictor.shapes import distinct_columns, shapes_of


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
