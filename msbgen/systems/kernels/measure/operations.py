"""Kernels as calls of torch with their tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msbgen.systems.kernels.kinds import Point
from msbgen.systems.kernels.measure.torch_import import load_torch


@dataclass(frozen=True)
class Operation:
    """A call that can be timed.

    `refresh` writes the input again, so that it is in the caches as after the previous kernel of a
    network.
    """

    refresh: Callable[[], object]
    call: Callable[[], object]


def prepare(point: Point) -> Operation:
    """Operation of a kernel on tensors of random numbers."""
    torch = load_torch()
    inputs, call = _PREPARED[point.kind](torch, point.parameters)

    def refresh() -> None:
        for tensor in inputs:
            tensor.mul_(1.0)

    return Operation(refresh, call)


def _image(torch: Any, p: Any, channels: int | None = None) -> Any:
    return torch.randn(p["batch"], channels or p["channels"], p["height"], p["width"])


def _conv2d(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x = _image(torch, p)
    sides = (p["kernel_height"], p["kernel_width"])
    weight = torch.randn(p["filters"], p["channels"] // p["groups"], *sides)
    bias = torch.randn(p["filters"]) if p["bias"] else None
    padding = (p["padding_height"], p["padding_width"])
    rest = (p["stride"], padding, p["dilation"], p["groups"])
    run = torch.nn.functional.conv2d
    return [x], lambda: run(x, weight, bias, *rest)


def _matmul(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x, weight = torch.randn(p["m"], p["k"]), torch.randn(p["n"], p["k"])
    bias = torch.randn(p["n"]) if p["bias"] else None
    run = torch.nn.functional.linear
    return [x], lambda: run(x, weight, bias)


def _batch_norm(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x = _image(torch, p)
    mean, weight, bias = (torch.randn(p["channels"]) for _ in range(3))
    variance = torch.rand(p["channels"]) + 0.5
    run = torch.nn.functional.batch_norm
    return [x], lambda: run(x, mean, variance, weight, bias, False, 0.1, 1e-5)


def _relu(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x, inplace, run = _image(torch, p), bool(p["inplace"]), torch.nn.functional.relu
    return [x], lambda: run(x, inplace=inplace)


def _cat(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    whole, more = divmod(p["channels"], p["parts"])
    parts = [_image(torch, p, whole + (i < more)) for i in range(p["parts"])]
    return parts, lambda: torch.cat(parts, 1)


def _max_pool(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    # rectified and smooth, as after a convolution, because the time depends on how often the
    # maximum changes
    x = torch.nn.functional.avg_pool2d(_image(torch, p), 3, 1, 1).relu_()
    run = torch.nn.functional.max_pool2d
    shape, ceil = (p["kernel"], p["stride"], p["padding"]), bool(p["ceil"])
    return [x], lambda: run(x, *shape, ceil_mode=ceil)


def _avg_pool(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x, run = _image(torch, p), torch.nn.functional.avg_pool2d
    shape, ceil = (p["kernel"], p["stride"], p["padding"]), bool(p["ceil"])
    return [x], lambda: run(x, *shape, ceil_mode=ceil)


def _add(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x, other = _image(torch, p), _image(torch, p) * 1e-3
    return [x, other], (lambda: x.add_(other)) if p["inplace"] else (lambda: x + other)


def _adaptive_pool(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x, size, run = _image(torch, p), p["size"], torch.nn.functional.adaptive_avg_pool2d
    return [x], lambda: run(x, (size, size))


def _shuffle(torch: Any, p: Any) -> tuple[list[Any], Callable[[], object]]:
    x, groups = _image(torch, p), p["groups"]
    batch, channels, *sides = x.shape
    turned = x.view(batch, groups, channels // groups, *sides).transpose(1, 2)
    return [x], lambda: turned.contiguous()


_PREPARED = {
    "conv2d": _conv2d,
    "matmul": _matmul,
    "batch_norm": _batch_norm,
    "relu": _relu,
    "cat": _cat,
    "max_pool": _max_pool,
    "add": _add,
    "avg_pool": _avg_pool,
    "adaptive_pool": _adaptive_pool,
    "shuffle": _shuffle,
}
