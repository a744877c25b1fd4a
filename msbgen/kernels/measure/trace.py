"""Which kernels a network launches, with which parameters, how often.

torch tells every operation that is called while a network runs (``TorchDispatchMode``), whatever
module, function or operator it came from; on the device ``meta`` shapes are followed and nothing
is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msbgen.kernels.kinds import Point
from msbgen.kernels.measure.torches import load_torch

# Operations that give another view of a tensor, or memory for one, and compute nothing.
_FREE = frozenset(
    (
        *("alias", "as_strided", "chunk", "detach", "empty", "empty_like", "expand", "expand_as"),
        *("flatten", "lift_fresh", "movedim", "narrow", "numpy_T", "permute", "reshape", "select"),
        *("slice", "split", "split_with_sizes", "squeeze", "swapaxes", "t", "tensor_split"),
        *("transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as"),
    )
)


@dataclass(frozen=True)
class Trace:
    """What a network launches.

    Attributes
    ----------
    launches : dict of Point to int
        How often each kernel, in the order of their first launches.
    others : dict of str to int
        How often each operation that is no kernel of ours, by torch's name.
    """

    launches: dict[Point, int]
    others: dict[str, int]


def trace(run: Callable[[], object]) -> Trace:
    """Follow a call of torch.

    Parameters
    ----------
    run : callable
        Calls a network once; with tensors on the device ``meta`` nothing is computed.
    """
    torch = load_torch()
    from torch.utils._python_dispatch import TorchDispatchMode

    launches: Counter[Point] = Counter()
    others: Counter[str] = Counter()

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            out = func(*args, **(kwargs or {}))
            name = func._schema.name.removeprefix("aten::")
            given = _by_name(func._schema, args, kwargs or {})
            point = _READ[name](given) if name in _READ else None
            if point is not None:
                launches[point] += 1
            elif name not in _FREE and not _is_same(name, args, out):
                others[name] += 1
            return out

    # not no_grad: under it convolutions and sums of products come apart into what carries them out
    with torch.inference_mode(), Listening():
        run()
    return Trace(dict(launches), dict(others))


def _by_name(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an operation by name, those that were not given with their defaults."""
    named = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    named.update(zip((a.name for a in schema.arguments), args))
    return {**named, **kwargs}


def _is_same(name: str, args: Sequence[Any], out: Any) -> bool:
    """Whether what came in went out: ``contiguous`` had nothing to do, ``dropout`` is off."""
    return bool(args) and out is args[0] and not name.endswith("_")


def _shape(x: Any) -> dict[str, int]:
    """Parameters of an image; a table is one of single pixels."""
    sides = [*x.shape, 1, 1, 1][:4] if x.dim() < 4 else x.shape
    return dict(zip(("batch", "channels", "height", "width"), map(int, sides)))


def _pair(value: Any) -> tuple[int, int]:
    """One number for both sides, or one each."""
    pair = list(value) if isinstance(value, (list, tuple)) else [value]
    return int(pair[0]), int(pair[-1])


def _conv2d(given: dict[str, Any]) -> Point | None:
    x, weight = given["input"], given["weight"]
    stride, dilation = _pair(given["stride"]), _pair(given["dilation"])
    if x.dim() != 4 or stride[0] != stride[1] or dilation[0] != dilation[1]:
        return None
    padding = given["padding"]
    if isinstance(padding, str):
        if padding == "same" and any(d % 2 == 0 for d in weight.shape[2:]):
            return None
        sides = [dilation[0] * (d - 1) // 2 for d in weight.shape[2:]]
        padding = sides if padding == "same" else [0, 0]
    high, wide = _pair(padding)
    return Point.of(
        "conv2d",
        **_shape(x),
        filters=weight.shape[0],
        kernel_height=weight.shape[2],
        kernel_width=weight.shape[3],
        stride=stride[0],
        padding_height=high,
        padding_width=wide,
        dilation=dilation[0],
        groups=given["groups"],
        bias=given["bias"] is not None,
    )


def _product(given: dict[str, Any], left: str, right: str, *, transposed: bool) -> Point | None:
    x, y = given[left], given[right]
    if x.dim() < 2 or y.dim() != 2:
        return None
    inner = int(x.shape[-1])
    columns = int(y.shape[0 if transposed else 1])
    bias = given.get("bias") is not None or left == "mat1"
    return Point.of("matmul", m=x.numel() // inner, k=inner, n=columns, bias=bias)


def _batch_norm(given: dict[str, Any]) -> Point | None:
    return None if given.get("training") else Point.of("batch_norm", **_shape(given["input"]))


def _relu(given: dict[str, Any], *, inplace: bool) -> Point:
    return Point.of("relu", **_shape(given["self"]), inplace=inplace)


def _cat(given: dict[str, Any]) -> Point | None:
    parts = given["tensors"]
    if given["dim"] not in (1, 1 - parts[0].dim()):
        return None
    shape = _shape(parts[0]) | {"channels": sum(int(part.shape[1]) for part in parts)}
    return Point.of("cat", **shape, parts=len(parts))


def _windows(given: dict[str, Any], *, kind: str) -> Point | None:
    """Pooling by square windows, each of all its pixels."""
    kernel, padding = _pair(given["kernel_size"]), _pair(given["padding"])
    stride = _pair(given["stride"] or given["kernel_size"])
    square = all(a == b for a, b in (kernel, stride, padding))
    if not square or _pair(given.get("dilation", 1)) != (1, 1) or given.get("divisor_override"):
        return None
    flags = {"kernel": kernel[0], "stride": stride[0], "padding": padding[0]}
    return Point.of(kind, **_shape(given["self"]), **flags, ceil=given["ceil_mode"])


def _add(given: dict[str, Any], *, inplace: bool) -> Point | None:
    x, other = given["self"], given["other"]
    if getattr(other, "shape", None) != x.shape or x.dim() > 4:  # a number, or stretched
        return None
    return Point.of("add", **_shape(x), inplace=inplace)


def _adaptive_pool(given: dict[str, Any]) -> Point | None:
    high, wide = _pair(given["output_size"])
    if high != wide or given["self"].dim() != 4:
        return None
    return Point.of("adaptive_pool", **_shape(given["self"]), size=high)


def _shuffle(given: dict[str, Any]) -> Point | None:
    """A copy of (batch, channels / groups, groups, height, width), stored groups first."""
    x = given["self"]
    if x.dim() != 5 or x.is_contiguous() or not x.transpose(1, 2).is_contiguous():
        return None
    batch, inner, groups, height, width = map(int, x.shape)
    shape = {"batch": batch, "channels": inner * groups, "height": height, "width": width}
    return Point.of("shuffle", **shape, groups=groups)


_READ: dict[str, Callable[[dict[str, Any]], Point | None]] = {
    "conv2d": _conv2d,
    "linear": partial(_product, left="input", right="weight", transposed=True),
    "matmul": partial(_product, left="self", right="other", transposed=False),
    "mm": partial(_product, left="self", right="mat2", transposed=False),
    "addmm": partial(_product, left="mat1", right="mat2", transposed=False),
    "batch_norm": _batch_norm,
    "relu": partial(_relu, inplace=False),
    "relu_": partial(_relu, inplace=True),
    "relu6": partial(_relu, inplace=False),
    "relu6_": partial(_relu, inplace=True),
    "cat": _cat,
    "max_pool2d": partial(_windows, kind="max_pool"),
    "avg_pool2d": partial(_windows, kind="avg_pool"),
    "add": partial(_add, inplace=False),
    "add_": partial(_add, inplace=True),
    "adaptive_avg_pool2d": _adaptive_pool,
    "contiguous": _shuffle,
}
