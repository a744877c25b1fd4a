"""Layers of networks in torch."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from msbgen.systems.kernels.measure.torch_import import load_torch

Tensor = Any


class Layers:
    """Layers of a network; the first pass makes the `weights`, and all others use them in order."""

    def __init__(self, device: str):
        self._torch = load_torch()
        self._call = self._torch.nn.functional
        self._device = device
        self._at = 0
        self.weights: list[list[Tensor]] = []

    def rewind(self) -> None:
        """Start a pass."""
        self._at = 0

    def _layer_weights(self, make: Callable[[], list[Tensor]]) -> list[Tensor]:
        at = self._at
        self._at += 1
        if at == len(self.weights):
            self.weights.append(make())
        return self.weights[at]

    def _filters(self, shape: tuple[int, ...], bias: bool) -> list[Tensor]:
        """Weights that keep the scale of their input."""
        wide = math.sqrt(3 / math.prod(shape[1:]))
        made = [self._torch.empty(shape, device=self._device).uniform_(-wide, wide)]
        return made + [self._torch.zeros(shape[0], device=self._device)] * bias

    def conv(
        self,
        x: Tensor,
        filters: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> Tensor:
        """Convolution."""
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        shape = (filters, x.shape[1] // groups, *sides)
        weight, *rest = self._layer_weights(lambda: self._filters(shape, bias))
        return self._call.conv2d(x, weight, rest[0] if rest else None, stride, padding, 1, groups)

    def norm(self, x: Tensor) -> Tensor:
        """Batch normalisation with fixed means and variances."""

        def make() -> list[Tensor]:
            made = [self._torch.ones, self._torch.zeros] * 2
            return [some(x.shape[1], device=self._device) for some in made]

        weight, bias, variance, mean = self._layer_weights(make)
        return self._call.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-5)

    def relu(self, x: Tensor) -> Tensor:
        """Rectifier, in place."""
        return self._call.relu(x, inplace=True)

    def relu6(self, x: Tensor) -> Tensor:
        """Rectifier that ends at 6, in place."""
        return self._call.relu6(x, inplace=True)

    def max_pool(
        self, x: Tensor, kernel: int, stride: int, padding: int = 0, *, ceil: bool = False
    ) -> Tensor:
        """Maximum over windows."""
        return self._call.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil)

    def avg_pool(self, x: Tensor, kernel: int, stride: int, padding: int = 0) -> Tensor:
        """Mean over windows."""
        return self._call.avg_pool2d(x, kernel, stride, padding)

    def adaptive_pool(self, x: Tensor, size: int) -> Tensor:
        """Mean over as many windows as make an image of this size."""
        return self._call.adaptive_avg_pool2d(x, (size, size))

    def linear(self, x: Tensor, columns: int) -> Tensor:
        """Matrix multiplication with a bias; images are flattened first."""
        x = x.flatten(1)
        weight, bias = self._layer_weights(lambda: self._filters((columns, x.shape[1]), True))
        return self._call.linear(x, weight, bias)

    def cat(self, parts: Sequence[Tensor]) -> Tensor:
        """Channels of all parts."""
        return self._torch.cat(list(parts), 1)

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """Sum, in the place of the first."""
        x += other
        return x

    def halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each half of the channels."""
        return x.chunk(2, 1)

    def shuffle(self, x: Tensor) -> Tensor:
        """Channels of two groups in turn."""
        batch, channels, *sides = x.shape
        x = x.view(batch, 2, channels // 2, *sides)
        return x.transpose(1, 2).contiguous().view(batch, channels, *sides)

    def channels(self, x: Tensor) -> int:
        """How many channels there are."""
        return x.shape[1]
