"""Networks of torch give scores, the same ones in every pass."""

import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.kinds import KINDS, Point, out_sides, work_of
from msbgen.systems.kernels.measure.architectures import (
    ARCHITECTURES,
    PUBLISHED_SIZE,
    Network,
    images,
)
from msbgen.systems.kernels.measure.operations import prepare
from msbgen.systems.kernels.measure.trace import trace
from needing import needs_torch

pytestmark = needs_torch


def test_weights_are_made_once_and_every_pass_uses_them():
    import torch

    network = Network("squeezenet")
    x = images(2, 64)
    with torch.inference_mode():
        first = network(x)
        made = [[id(w) for w in layer] for layer in network.layers.weights]
        again = network(x)
    assert [[id(w) for w in layer] for layer in network.layers.weights] == made
    torch.testing.assert_close(first, again, rtol=1e-4, atol=1e-5)
    assert first.numel() == 2 * 1000
    assert torch.isfinite(first).all()
    assert first.std() > 0


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ArgumentError, match="name is 'lenet'; one of alexnet"):
        Network("lenet")


# Weights (norms with their two), and products of a pass [10^9], as papers and model cards say.
PUBLISHED = {
    "alexnet": (61_100_840, 0.71),
    "densenet121": (7_978_856, 2.83),
    "googlenet": (6_624_904, 1.50),
    "inception_v3": (23_834_568, 5.71),
    "mnasnet": (4_383_312, 0.31),
    "mobilenet_v1": (4_231_976, 0.57),
    "mobilenet_v2": (3_504_872, 0.30),
    "resnet18": (11_689_512, 1.81),
    "resnet50": (25_557_032, 4.09),
    "shufflenet_v2": (2_278_604, 0.14),
    "squeezenet": (1_235_496, 0.35),
    "vgg11": (132_863_336, 7.61),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_and_products_are_those_published_and_other_images_pass(name):
    network, x = Network(name, "meta"), images(1, PUBLISHED_SIZE[name], "meta")
    network(x)
    found = trace(lambda: network(x))
    weights, products = PUBLISHED[name]
    assert sum(w.numel() for layer in network.layers.weights for w in layer[-2:]) == weights
    counted = {p: n for p, n in found.launches.items() if p.kind in ("conv2d", "matmul")}
    flops = sum(n * work_of(point).flops for point, n in counted.items())
    assert flops / 2e9 == pytest.approx(products, abs=0.0055)
    assert found.others == {}
    assert Network(name, "meta")(images(4, 112, "meta")).shape[:2] == (4, 1000)


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
