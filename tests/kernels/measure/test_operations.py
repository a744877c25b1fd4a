"""Kernels that are made ready do in torch what their parameters say."""

import pytest

from counted_networks import needs_torch
from msbgen.kernels.kinds import KINDS, Point, out_sides
from msbgen.kernels.measure.operations import prepare
from msbgen.kernels.measure.trace import trace

pytestmark = needs_torch
IMAGE = {"batch": 2, "channels": 6, "height": 9, "width": 7}
POINTS = [
    Point.of(
        "conv2d", **IMAGE, filters=4, kernel_height=3, kernel_width=1, stride=2, padding_height=1,
        padding_width=0, dilation=2, groups=2, bias=1,
    ),
    Point.of("matmul", m=3, k=4, n=5, bias=0),
    Point.of("batch_norm", **IMAGE),
    Point.of("relu", **IMAGE, inplace=1),
    Point.of("relu", **IMAGE, inplace=0),
    Point.of("cat", **IMAGE, parts=4),
    Point.of("max_pool", **IMAGE, kernel=3, stride=2, padding=1, ceil=1),
    Point.of("avg_pool", **IMAGE, kernel=2, stride=2, padding=0, ceil=1),
    Point.of("add", **IMAGE, inplace=1),
    Point.of("add", **IMAGE, inplace=0),
    Point.of("adaptive_pool", **IMAGE, size=3),
    Point.of("shuffle", **IMAGE, groups=3),
]  # fmt: skip


@pytest.mark.parametrize("point", POINTS, ids=lambda p: f"{p.kind}-{p.values[-1]}")
def test_what_is_timed_traces_back_to_its_parameters(point):
    ready = prepare(point)
    ready.refresh()
    found = trace(ready.call)
    assert found.launches == {point: 1}
    assert found.others == {}
    if "stride" in point.parameters or point.kind == "adaptive_pool":
        assert tuple(prepare(point).call().shape[2:]) == out_sides(point)


def test_every_kind_can_be_made_ready():
    assert {point.kind for point in POINTS} == set(KINDS)


def test_a_shuffle_takes_channels_of_groups_in_turn():
    ready = prepare(Point.of("shuffle", batch=1, channels=6, height=1, width=1, groups=3))
    x = ready.call.__closure__[0].cell_contents  # the turned input
    taken = ready.call().flatten()
    stored = x.transpose(1, 2).flatten()
    assert taken.tolist() == [stored[i].item() for i in (0, 2, 4, 1, 3, 5)]
