"""Trace of a network: the kernels that it launches, with parameters and counts.

``TorchDispatchMode`` reports every operation of torch while a network runs.  On the device ``meta``
shapes are tracked and nothing is computed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msbgen.systems.kernels.kinds import Point
from msbgen.systems.kernels.measure.torch_import import load_torch

# Operations that return a view of a tensor or allocate one, and compute nothing.
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
    """Launches of each kernel of a network, and of other operations by torch's name."""

    launches: dict[Point, int]
    others: dict[str, int]


def trace(run: Callable[[], object]) -> Trace:
    """Launches during a call of torch; with tensors on the device ``meta`` nothing is computed."""
    torch = load_torch()
    from torch.utils._python_dispatch import TorchDispatchMode

    launches: Counter[Point] = Counter()
    others: Counter[str] = Counter()

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            out = func(*args, **(kwargs or {}))
            name = func._schema.name.removeprefix("aten::")
            arguments = _by_name(func._schema, args, kwargs or {})
            point = _POINTS[name](arguments) if name in _POINTS else None
            if point is not None:
                launches[point] += 1
            elif name not in _FREE and not _is_same(name, args, out):
                others[name] += 1
            return out

    # under no_grad convolutions and sums of products would be split into lower-level operations
    with torch.inference_mode(), Recorder():
        run()
    return Trace(dict(launches), dict(others))


def _by_name(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an operation by name, with defaults for missing ones."""
    named = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    named.update(zip((a.name for a in schema.arguments), args))
    return {**named, **kwargs}


def _is_same(name: str, args: Sequence[Any], out: Any) -> bool:
    """Whether the input is returned, as by ``contiguous`` and ``dropout`` that do nothing."""
    return bool(args) and out is args[0] and not name.endswith("_")


def _shape(x: Any) -> dict[str, int]:
    """Parameters of an image; a table is an image of single pixels."""
    sides = [*x.shape, 1, 1, 1][:4] if x.dim() < 4 else x.shape
    return dict(zip(("batch", "channels", "height", "width"), map(int, sides)))


def _pair(value: Any) -> tuple[int, int]:
    """One number for both sides, or one each."""
    pair = list(value) if isinstance(value, (list, tuple)) else [value]
    return int(pair[0]), int(pair[-1])


def _conv2d(args: dict[str, Any]) -> Point | None:
    x, weight = args["input"], args["weight"]
    stride, dilation = _pair(args["stride"]), _pair(args["dilation"])
    if x.dim() != 4 or stride[0] != stride[1] or dilation[0] != dilation[1]:
        return None
    padding = args["padding"]
    if isinstance(padding, str):
        if padding == "same" and any(d % 2 == 0 for d in weight.shape[2:]):
            return None
        sides = [dilation[0] * (d - 1) // 2 for d in weight.shape[2:]]
        padding = sides if padding == "same" else [0, 0]
    high, wide = _pair(padding)
    return Point.of(
        "conv2d", **_shape(x), filters=weight.shape[0], kernel_height=weight.shape[2],
        kernel_width=weight.shape[3], stride=stride[0], padding_height=high, padding_width=wide,
        dilation=dilation[0], groups=args["groups"], bias=args["bias"] is not None,
    )  # fmt: skip


def _product(args: dict[str, Any], left: str, right: str, *, transposed: bool) -> Point | None:
    x, y = args[left], args[right]
    if x.dim() < 2 or y.dim() != 2:
        return None
    inner = int(x.shape[-1])
    columns = int(y.shape[0 if transposed else 1])
    bias = args.get("bias") is not None or left == "mat1"
    return Point.of("matmul", m=x.numel() // inner, k=inner, n=columns, bias=bias)


def _batch_norm(args: dict[str, Any]) -> Point | None:
    return None if args.get("training") else Point.of("batch_norm", **_shape(args["input"]))


def _relu(args: dict[str, Any], *, inplace: bool) -> Point:
    return Point.of("relu", **_shape(args["self"]), inplace=inplace)


def _cat(args: dict[str, Any]) -> Point | None:
    parts = args["tensors"]
    if args["dim"] not in (1, 1 - parts[0].dim()):
        return None
    shape = _shape(parts[0]) | {"channels": sum(int(part.shape[1]) for part in parts)}
    return Point.of("cat", **shape, parts=len(parts))


def _windows(args: dict[str, Any], *, kind: str) -> Point | None:
    """Pooling by square windows, each of all its pixels."""
    kernel, padding = _pair(args["kernel_size"]), _pair(args["padding"])
    stride = _pair(args["stride"] or args["kernel_size"])
    square = all(a == b for a, b in (kernel, stride, padding))
    if not square or _pair(args.get("dilation", 1)) != (1, 1) or args.get("divisor_override"):
        return None
    flags = {"kernel": kernel[0], "stride": stride[0], "padding": padding[0]}
    return Point.of(kind, **_shape(args["self"]), **flags, ceil=args["ceil_mode"])


def _add(args: dict[str, Any], *, inplace: bool) -> Point | None:
    x, other = args["self"], args["other"]
    if getattr(other, "shape", None) != x.shape or x.dim() > 4:  # a number, or stretched
        return None
    return Point.of("add", **_shape(x), inplace=inplace)


def _adaptive_pool(args: dict[str, Any]) -> Point | None:
    high, wide = _pair(args["output_size"])
    if high != wide or args["self"].dim() != 4:
        return None
    return Point.of("adaptive_pool", **_shape(args["self"]), size=high)


def _shuffle(args: dict[str, Any]) -> Point | None:
    """A copy of (batch, channels / groups, groups, height, width), stored groups first."""
    x = args["self"]
    if x.dim() != 5 or x.is_contiguous() or not x.transpose(1, 2).is_contiguous():
        return None
    batch, inner, groups, height, width = map(int, x.shape)
    shape = {"batch": batch, "channels": inner * groups, "height": height, "width": width}
    return Point.of("shuffle", **shape, groups=groups)


_POINTS: dict[str, Callable[[dict[str, Any]], Point | None]] = {
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
