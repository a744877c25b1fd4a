"""What kernels do, counted by slow loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.kinds import KINDS, Point, out_side, out_sides, work_of, works_of
from msbgen.systems.kernels.workloads import make_workload

SIDES = st.integers(1, 9)


def windows(side, kernel, stride, padding, ceil):
    """Windows one by one: where they begin, of those that begin in the image or before it."""
    many = 0
    begin = -padding
    last = side + padding - kernel
    while begin <= last or (ceil and begin < last + stride and begin < side):
        many += 1
        begin += stride
    return many


@given(SIDES, SIDES, st.integers(1, 4), st.integers(0, 4), st.booleans())
def test_windows_are_counted_as_they_are_moved(side, kernel, stride, padding, ceil):
    if padding <= kernel // 2 and kernel <= side + 2 * padding:
        wanted = windows(side, kernel, stride, padding, ceil)
        assert out_side(side, kernel, stride, padding, ceil=ceil) == wanted


@given(SIDES, st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.integers(1, 2))
def test_products_of_a_convolution_are_those_of_its_loops(side, kernel, stride, groups, each):
    if kernel > side:
        return
    point = Point.of(
        "conv2d", batch=2, channels=groups * each, height=side, width=side, filters=groups,
        kernel_height=kernel, kernel_width=1, stride=stride, padding_height=0, padding_width=0,
        dilation=1, groups=groups, bias=1,
    )  # fmt: skip
    high = windows(side, kernel, stride, 0, False)
    wide = windows(side, 1, stride, 0, False)
    loops = (range(2), range(groups), range(high), range(wide), range(each), range(kernel))
    assert out_sides(point) == (high, wide)
    assert work_of(point).flops == 2 * sum(1 for _ in itertools.product(*loops))
    touched = 2 * groups * each * side * side + groups * (each * kernel + 1)
    assert work_of(point).touched == 4 * (touched + 2 * groups * high * wide)


def test_other_kinds_by_hand():
    image = {"batch": 2, "channels": 3, "height": 4, "width": 4}  # 96 numbers
    by_hand = {
        Point.of("matmul", m=2, k=3, n=5, bias=1): (60, 4 * (6 + 15 + 5 + 10)),
        Point.of("batch_norm", **image): (192, 4 * 192),
        Point.of("relu", **image, inplace=1): (96, 4 * 192),
        Point.of("add", **image, inplace=0): (96, 4 * 288),
        Point.of("cat", **image, parts=3): (0, 4 * 192),
        Point.of("shuffle", **image, groups=3): (0, 4 * 192),
        Point.of("avg_pool", **image, kernel=3, stride=1, padding=1, ceil=0): (864, 4 * 192),
        Point.of("adaptive_pool", **image, size=1): (96, 4 * (96 + 6)),
        Point.of("max_pool", **image, kernel=2, stride=2, padding=0, ceil=0): (96, 4 * (96 + 24)),
    }
    for point, (flops, touched) in by_hand.items():
        assert (work_of(point).flops, work_of(point).touched) == (flops, touched), point


def test_works_of_datasets_are_those_of_their_kernels_where_they_are_known():
    point = Point.of("matmul", m=2, k=3, n=5, bias=1)
    work = work_of(point)
    columns = {"m": [2, 2, 2], "k": [3, 3, 3], "n": [5, 5, np.nan], "bias": [1, 1, 1]}
    kinds = ["matmul", "fft", "matmul"]
    runs = make_kernels(kinds, [1.0] * 3, resources={"threads": [1] * 3}, parameters=columns)
    for dataset in (runs, make_workload(kinds, [1] * 3, parameters=columns)):
        np.testing.assert_array_equal(works_of(dataset)[0], [work.flops, np.nan, np.nan])
        np.testing.assert_array_equal(works_of(dataset)[1], [work.touched, np.nan, np.nan])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"stride": 0}, "kernel 0, a max_pool, has the stride 0; a whole number from 1 on"),
        ({"height": 6.5}, "kernel 0, a max_pool, has the height 6.5; a whole number from 1 on"),
        ({"padding": 0.5}, "kernel 0, a max_pool, has the padding 0.5; a whole number from 0 on"),
        ({"kernel": 9}, "kernel 0, a max_pool, has a window larger than its image"),
    ],
)
def test_kernels_that_cannot_be_are_named(changed, sentence):
    sizes = dict(zip(KINDS["max_pool"], (1, 3, 6, 6, 2, 2, 0, 0)))
    assert works_of(make_workload(["max_pool"], [1], parameters=dict_of(sizes)))[0] == 3 * 9 * 4
    with pytest.raises(ArgumentError, match=sentence):
        works_of(make_workload(["max_pool"], [1], parameters=dict_of(sizes | changed)))


def dict_of(sizes):
    return {name: [size] for name, size in sizes.items()}
