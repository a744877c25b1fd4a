"""Networks counted by hand: layers that follow shapes and compute nothing, without torch."""

import importlib.util
import math
from dataclasses import dataclass, field

import pytest

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="needs torch: pip install torch==2.13.0, or msbgen[kernels]",
)


@dataclass
class Counting:
    """Layers whose tensors are shapes."""

    weights: int = 0
    products: int = 0
    launches: list = field(default_factory=list)

    def _out(self, shape, kernel, stride, padding, ceil=False):
        rounded = math.ceil if ceil else math.floor
        sides = []
        for side, k, p in zip(shape[2:], kernel, padding):
            out = rounded((side + 2 * p - k) / stride) + 1
            if ceil and (out - 1) * stride >= side + p:
                out -= 1
            assert out > 0
            sides.append(out)
        return tuple(sides)

    def conv(self, x, filters, kernel, *, stride=1, padding=0, groups=1, bias=False):
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (padding, padding) if isinstance(padding, int) else padding
        assert x[1] % groups == filters % groups == 0
        window = x[1] // groups * kernel[0] * kernel[1]
        out = (x[0], filters, *self._out(x, kernel, stride, padding))
        self.weights += filters * (window + bias)
        self.products += window * math.prod(out)
        self.launches.append("conv2d")
        return out

    def norm(self, x):
        self.weights += 2 * x[1]
        self.launches.append("batch_norm")
        return x

    def relu(self, x):
        self.launches.append("relu")
        return x

    relu6 = relu

    def max_pool(self, x, kernel, stride, padding=0, *, ceil=False):
        self.launches.append("max_pool")
        out = self._out(x, (kernel, kernel), stride, (padding, padding), ceil)
        return (*x[:2], *out)

    def avg_pool(self, x, kernel, stride, padding=0):
        self.launches.append("avg_pool2d")
        return (*x[:2], *self._out(x, (kernel, kernel), stride, (padding, padding)))

    def adaptive_pool(self, x, size):
        self.launches.append("adaptive_pool")
        return (*x[:2], size, size)

    def linear(self, x, columns):
        self.launches.append("matmul")
        inner = math.prod(x[1:])
        self.weights += columns * (inner + 1)
        self.products += x[0] * inner * columns
        return (x[0], columns)

    def cat(self, parts):
        self.launches.append("cat")
        assert len({(x[0], *x[2:]) for x in parts}) == 1
        return (parts[0][0], sum(x[1] for x in parts), *parts[0][2:])

    def add(self, x, other):
        assert x == other
        self.launches.append("add")
        return x

    def halves(self, x):
        return ((x[0], x[1] // 2, *x[2:]),) * 2

    def shuffle(self, x):
        self.launches.append("contiguous")
        return x

    def channels(self, x):
        return x[1]
