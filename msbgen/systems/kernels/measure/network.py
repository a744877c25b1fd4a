"""Networks in torch, from their definitions by layers; the first pass makes the weights."""

from collections.abc import Callable
from typing import Any

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.measure.architectures import ARCHITECTURES
from msbgen.systems.kernels.measure.layers import Layers, Tensor
from msbgen.systems.kernels.measure.torch_import import load_torch


class Network:
    """A network of :data:`.architectures.ARCHITECTURES` to call with images.

    On the device ``meta`` it computes shapes alone.
    """

    def __init__(self, name: str, device: str = "cpu"):
        if name not in ARCHITECTURES:
            raise ArgumentError(f"name is {name!r}; one of {', '.join(ARCHITECTURES)} is wanted.")
        self._define: Callable[[Layers, Tensor], Tensor] = ARCHITECTURES[name]
        self.layers = Layers(device)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of classes for images, (batch, 3, height, width)."""
        self.layers.rewind()
        return self._define(self.layers, x)


def images(batch: int, size: int, device: str = "cpu") -> Any:
    """Random images, (batch, 3, size, size)."""
    return load_torch().randn(batch, 3, size, size, device=device)
