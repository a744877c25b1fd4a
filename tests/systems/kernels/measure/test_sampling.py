"""Kernels at random: like those of networks, and different from them."""

import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.kinds import KINDS, Point, out_sides, work_of
from msbgen.systems.kernels.measure.sampling import MARGIN, draw_points

IMAGES = [(1, 16, 56, 56), (1, 64, 28, 28), (4, 128, 14, 14), (4, 256, 7, 7)]


def seen():
    """A few kernels of every kind."""
    found = []
    for batch, channels, height, width in IMAGES:
        image = {"batch": batch, "channels": channels, "height": height, "width": width}
        for kernel, groups in [(1, 1), (3, 1), (3, channels)]:
            found.append(
                Point.of(
                    "conv2d", **image, filters=channels, kernel_height=kernel,
                    kernel_width=kernel, stride=2, padding_height=kernel // 2,
                    padding_width=kernel // 2, dilation=1, groups=groups, bias=0,
                )
            )  # fmt: skip
        found.append(Point.of("matmul", m=batch, k=4 * channels, n=1000, bias=1))
        found.append(Point.of("batch_norm", **image))
        found += [Point.of(kind, **image, inplace=1) for kind in ("relu", "add")]
        found.append(Point.of("cat", **image, parts=2))
        found.append(Point.of("max_pool", **image, kernel=3, stride=2, padding=1, ceil=0))
        found.append(Point.of("avg_pool", **image, kernel=2, stride=2, padding=0, ceil=0))
        found.append(Point.of("adaptive_pool", **image, size=1))
        found.append(Point.of("shuffle", **image, groups=2))
    return found


DRAWN = draw_points(seen(), 5.0, 0)


def test_the_drawn_kernels_are_new_and_different_and_have_similar_work():
    assert len(set(DRAWN)) == len(DRAWN)
    assert not set(DRAWN) & set(seen())
    for kind in KINDS:
        many = sum(point.kind == kind for point in seen())
        assert sum(point.kind == kind for point in DRAWN) == max(20, 5 * many)
        touched = [work_of(point).touched for point in seen() if point.kind == kind]
        for point in DRAWN:
            if point.kind == kind:
                assert min(touched) / MARGIN <= work_of(point).touched <= max(touched) * MARGIN


def test_sizes_stay_in_the_ranges_with_their_margin_and_fill_them():
    for name in ("batch", "channels", "height", "filters"):
        values = [p.parameters[name] for p in DRAWN if p.kind == "conv2d"]
        low, high = (
            f(p.parameters[name] for p in seen() if p.kind == "conv2d") for f in (min, max)
        )
        assert min(values) >= round(low / MARGIN)
        assert max(values) <= round(high * MARGIN)
        assert len(set(values)) >= 4


def test_windows_strides_and_groups_are_those_of_some_network():
    windows = ("kernel_height", "kernel_width", "stride", "padding_height", "dilation", "bias")
    known = {tuple(p.parameters[n] for n in windows) for p in seen() if p.kind == "conv2d"}
    for point in DRAWN:
        if point.kind == "conv2d":
            p = point.parameters
            assert tuple(p[n] for n in windows) in known
            assert p["groups"] in (1, p["channels"])
            assert p["filters"] % p["groups"] == 0
            assert min(out_sides(point)) >= 1


def test_nothing_is_drawn_where_nothing_is_wanted_or_ranges_hold_no_more():
    assert draw_points(seen(), 0.0) == []
    assert draw_points([], 1.0) == []
    only = Point.of("matmul", m=1, k=1, n=1, bias=0)
    assert draw_points([only], 1.0) == []
    with pytest.raises(ArgumentError, match="share is -1"):
        draw_points(seen(), -1.0)
