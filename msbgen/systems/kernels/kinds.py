"""Kernels of networks: the parameters of each kind, its operations and bytes.

Datasets may hold any other kinds; for these the meaning of the parameters is known.

==================  ==============================================================================
kind                what it is, in single precision, by its name in torch
==================  ==============================================================================
``conv2d``          ``conv2d``; one stride and one dilation for both sides
``matmul``          ``linear``: (m, k) × (k, n), with or without a bias
``batch_norm``      ``batch_norm`` with fixed means and variances
``relu``            ``relu``, in place or not; ``relu6``, which goes over the same memory, counts
                    as one
``cat``             ``torch.cat`` of parts along the channels
``max_pool``        ``max_pool2d``; square windows
``add``             sum of two images, in place of one or not
``avg_pool``        ``avg_pool2d``; square windows
``adaptive_pool``   ``adaptive_avg_pool2d`` to a square image
``shuffle``         a copy that takes channels of groups in turn, as ShuffleNet does
==================  ==============================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.dataset import parameter_names, parameter_table

_IMAGE = ("batch", "channels", "height", "width")
# Parameters of each kind; all are whole numbers, flags are 0 or 1.
KINDS: dict[str, tuple[str, ...]] = {
    "conv2d": (
        *_IMAGE, "filters", "kernel_height", "kernel_width", "stride", "padding_height",
        "padding_width", "dilation", "groups", "bias",
    ),
    "matmul": ("m", "k", "n", "bias"),
    "batch_norm": _IMAGE,
    "relu": (*_IMAGE, "inplace"),
    "cat": (*_IMAGE, "parts"),
    "max_pool": (*_IMAGE, "kernel", "stride", "padding", "ceil"),
    "add": (*_IMAGE, "inplace"),
    "avg_pool": (*_IMAGE, "kernel", "stride", "padding", "ceil"),
    "adaptive_pool": (*_IMAGE, "size"),
    "shuffle": (*_IMAGE, "groups"),
}  # fmt: skip
# Every parameter of some kind, once.
PARAMETERS = tuple(dict.fromkeys(name for names in KINDS.values() for name in names))
_FLOAT = 4  # bytes
# Parameters that may be 0; all others are a size, a stride or a number of parts.
_MAY_BE_ZERO = frozenset({"padding", "padding_height", "padding_width", "bias", "inplace", "ceil"})


@dataclass(frozen=True)
class Point:
    """A kernel: a kind and the values of its parameters, in the order of :data:`KINDS`."""

    kind: str
    values: tuple[int, ...]

    @classmethod
    def of(cls, kind: str, **given: float) -> Point:
        """A kernel from parameters by name."""
        return cls(kind, tuple(int(given[name]) for name in KINDS[kind]))

    @property
    def parameters(self) -> Mapping[str, int]:
        """Parameters by name."""
        return dict(zip(KINDS[self.kind], self.values))


def out_side(side: int, kernel: int, stride: int, padding: int, *, ceil: bool = False) -> int:
    """Side of the image that windows make of an image, as torch counts it."""
    steps = (side + 2 * padding - kernel + (stride - 1 if ceil else 0)) // stride
    if ceil and steps * stride >= side + padding:  # a window that begins in the padding is none
        steps -= 1
    return steps + 1


def out_sides(point: Point) -> tuple[int, int]:
    """Height and width of the output of a convolution or pooling; below 1 where it is empty."""
    p = point.parameters
    if point.kind == "adaptive_pool":
        return p["size"], p["size"]
    if point.kind in ("max_pool", "avg_pool"):
        shape = (p["kernel"], p["stride"], p["padding"])
        high, wide = (out_side(p[s], *shape, ceil=bool(p["ceil"])) for s in ("height", "width"))
        return high, wide
    high, wide = (
        out_side(
            p[side],
            p["dilation"] * (p[f"kernel_{side}"] - 1) + 1,
            p["stride"],
            p[f"padding_{side}"],
        )
        for side in ("height", "width")
    )
    return high, wide


@dataclass(frozen=True)
class Work:
    """Work of a kernel.

    `flops` counts multiplications, additions and comparisons; `touched` the bytes read and written,
    each once.
    """

    flops: float
    touched: float


def work_of(point: Point) -> Work:
    """Work of a kernel."""
    p = point.parameters
    if point.kind == "matmul":
        m, k, n, bias = point.values
        return Work(2.0 * m * k * n, _FLOAT * float(m * k + k * n + bias * n + m * n))
    image = math.prod(point.values[:4])
    if point.kind == "conv2d":
        high, wide = out_sides(point)
        out = p["batch"] * p["filters"] * high * wide
        window = p["channels"] // p["groups"] * p["kernel_height"] * p["kernel_width"]
        weights = p["filters"] * (window + p["bias"])
        return Work(2.0 * out * window, _FLOAT * float(image + weights + out))
    if point.kind.endswith("_pool"):
        high, wide = out_sides(point)
        out = p["batch"] * p["channels"] * high * wide
        windows = out * p["kernel"] ** 2 if "kernel" in p else max(image, out)
        return Work(float(windows), _FLOAT * float(image + out))
    each = {"batch_norm": 2.0, "relu": 1.0, "add": 1.0, "cat": 0.0, "shuffle": 0.0}
    flops = each[point.kind] * image
    return Work(flops, _FLOAT * float(image * (3 if point.kind == "add" else 2)))


def works_of(dataset: xr.Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Operations and bytes of every measurement or launch, (n,) each; NaN for other kinds.

    A kind is known where all its parameters are there. A kernel that cannot exist raises
    :class:`ArgumentError`: parts of a size, a size of 0, a window larger than its image.
    """
    names = parameter_names(dataset)
    flops = np.full(dataset["kind"].size, np.nan)
    touched = flops.copy()
    known: dict[Point, Work] = {}
    for i, (word, row) in enumerate(zip(dataset["kind"].values, parameter_table(dataset))):
        given = dict(zip(names, row))
        wanted = KINDS.get(str(word))
        if wanted is None or any(np.isnan(given.get(name, np.nan)) for name in wanted):
            continue
        _check_possible(i, str(word), given)
        point = Point.of(str(word), **given)
        if point not in known:
            known[point] = work_of(point)
        flops[i], touched[i] = known[point].flops, known[point].touched
    return flops, touched


def _check_possible(row: int, kind: str, given: Mapping[str, float]) -> None:
    for name in KINDS[kind]:
        value, least = given[name], 0 if name in _MAY_BE_ZERO else 1
        if value < least or value != int(value):
            raise ArgumentError(
                f"kernel {row}, a {kind}, has the {name} {value:g}; a whole number from {least} on "
                f"is wanted."
            )
    point = Point.of(kind, **given)
    if (kind == "conv2d" or kind.endswith("_pool")) and min(out_sides(point)) < 1:
        raise ArgumentError(
            f"kernel {row}, a {kind}, has a window larger than its image; a smaller one is wanted."
        )
