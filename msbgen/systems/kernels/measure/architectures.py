"""Twelve networks of computer vision, layer by layer as they were published.

Each is a function of layers (:class:`msbgen.kernels.measure.layers.Layers`) and an input, and
returns scores of 1,000 classes.  Ten of them were measured in the paper on kernels.  Shapes are
those of the cited papers, as usually implemented (inference, without auxiliary classifiers).
"""

from collections.abc import Callable, Sequence
from typing import Any

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.measure.layers import Layers, Tensor
from msbgen.systems.kernels.measure.torch_import import load_torch

CLASSES = 1000


def _conv_norm_relu(
    o: Layers, x: Tensor, filters: int, kernel: int | tuple[int, int], **given: Any
) -> Tensor:
    return o.relu(o.norm(o.conv(x, filters, kernel, **given)))


def _head(o: Layers, x: Tensor) -> Tensor:
    return o.linear(o.adaptive_pool(x, 1), CLASSES)


def alexnet(o: Layers, x: Tensor) -> Tensor:
    """Krizhevsky 2014, one tower."""
    x = o.relu(o.conv(x, 64, 11, stride=4, padding=2, bias=True))
    x = o.max_pool(x, 3, 2)
    x = o.relu(o.conv(x, 192, 5, padding=2, bias=True))
    x = o.max_pool(x, 3, 2)
    for filters in (384, 256, 256):
        x = o.relu(o.conv(x, filters, 3, padding=1, bias=True))
    x = o.adaptive_pool(o.max_pool(x, 3, 2), 6)
    for columns in (4096, 4096):
        x = o.relu(o.linear(x, columns))
    return o.linear(x, CLASSES)


def vgg11(o: Layers, x: Tensor) -> Tensor:
    """Simonyan and Zisserman 2015, configuration A."""
    for filters, many in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(many):
            x = o.relu(o.conv(x, filters, 3, padding=1, bias=True))
        x = o.max_pool(x, 2, 2)
    x = o.adaptive_pool(x, 7)
    for columns in (4096, 4096):
        x = o.relu(o.linear(x, columns))
    return o.linear(x, CLASSES)


def _basic_block(o: Layers, x: Tensor, filters: int, stride: int) -> Tensor:
    y = _conv_norm_relu(o, x, filters, 3, stride=stride, padding=1)
    y = o.norm(o.conv(y, filters, 3, padding=1))
    if stride > 1 or o.channels(x) != filters:
        x = o.norm(o.conv(x, filters, 1, stride=stride))
    return o.relu(o.add(y, x))


def _bottleneck(o: Layers, x: Tensor, filters: int, stride: int) -> Tensor:
    y = _conv_norm_relu(o, x, filters, 1)
    y = _conv_norm_relu(o, y, filters, 3, stride=stride, padding=1)
    y = o.norm(o.conv(y, 4 * filters, 1))
    if stride > 1 or o.channels(x) != 4 * filters:
        x = o.norm(o.conv(x, 4 * filters, 1, stride=stride))
    return o.relu(o.add(y, x))


def _resnet(o: Layers, x: Tensor, block: Callable[..., Tensor], blocks: Sequence[int]) -> Tensor:
    x = _conv_norm_relu(o, x, 64, 7, stride=2, padding=3)
    x = o.max_pool(x, 3, 2, 1)
    for stage, many in enumerate(blocks):
        for i in range(many):
            x = block(o, x, 64 * 2**stage, 2 if stage and not i else 1)
    return _head(o, x)


def resnet18(o: Layers, x: Tensor) -> Tensor:
    """He et al. 2016, 18 layers."""
    return _resnet(o, x, _basic_block, (2, 2, 2, 2))


def resnet50(o: Layers, x: Tensor) -> Tensor:
    """He et al. 2016, 50 layers; strides at the 3 × 3 convolutions."""
    return _resnet(o, x, _bottleneck, (3, 4, 6, 3))


def mobilenet_v1(o: Layers, x: Tensor) -> Tensor:
    """Howard et al. 2017."""
    x = _conv_norm_relu(o, x, 32, 3, stride=2, padding=1)
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for filters, stride in [*plan, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        inner = o.channels(x)
        x = _conv_norm_relu(o, x, inner, 3, stride=stride, padding=1, groups=inner)
        x = _conv_norm_relu(o, x, filters, 1)
    return _head(o, x)


def _inverted(
    o: Layers,
    x: Tensor,
    filters: int,
    rectify: Callable[[Tensor], Tensor],
    *,
    expansion: int,
    kernel: int,
    stride: int,
) -> Tensor:
    """Expand, convolve each channel, shrink; plus the input if the shape is the same."""
    inner = o.channels(x) * expansion
    y = x
    if expansion > 1:
        y = rectify(o.norm(o.conv(y, inner, 1)))
    y = o.conv(y, inner, kernel, stride=stride, padding=kernel // 2, groups=inner)
    y = o.norm(o.conv(rectify(o.norm(y)), filters, 1))
    return o.add(y, x) if stride == 1 and o.channels(x) == filters else y


def mobilenet_v2(o: Layers, x: Tensor) -> Tensor:
    """Sandler et al. 2018."""
    x = o.relu6(o.norm(o.conv(x, 32, 3, stride=2, padding=1)))
    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    for expansion, filters, many, stride in [*plan, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(many):
            s = 1 if i else stride
            x = _inverted(o, x, filters, o.relu6, expansion=expansion, kernel=3, stride=s)
    x = o.relu6(o.norm(o.conv(x, 1280, 1)))
    return _head(o, x)


def mnasnet(o: Layers, x: Tensor) -> Tensor:
    """Tan et al. 2019, B1."""
    x = _conv_norm_relu(o, x, 32, 3, stride=2, padding=1)
    x = _conv_norm_relu(o, x, 32, 3, padding=1, groups=32)
    x = o.norm(o.conv(x, 16, 1))
    plan = [(3, 24, 3, 2, 3), (5, 40, 3, 2, 3), (5, 80, 3, 2, 6)]
    plan += [(3, 96, 2, 1, 6), (5, 192, 4, 2, 6), (3, 320, 1, 1, 6)]
    for kernel, filters, many, stride, expansion in plan:
        for i in range(many):
            s = 1 if i else stride
            x = _inverted(o, x, filters, o.relu, expansion=expansion, kernel=kernel, stride=s)
    x = _conv_norm_relu(o, x, 1280, 1)
    return _head(o, x)


def squeezenet(o: Layers, x: Tensor) -> Tensor:
    """Iandola et al. 2016, version 1.1."""

    def fire(x: Tensor, squeezed: int, expanded: int) -> Tensor:
        x = o.relu(o.conv(x, squeezed, 1, bias=True))
        narrow = o.relu(o.conv(x, expanded, 1, bias=True))
        return o.cat([narrow, o.relu(o.conv(x, expanded, 3, padding=1, bias=True))])

    x = o.relu(o.conv(x, 64, 3, stride=2, bias=True))
    for plan in ([(16, 64)] * 2, [(32, 128)] * 2, [(48, 192)] * 2 + [(64, 256)] * 2):
        x = o.max_pool(x, 3, 2, ceil=True)
        for squeezed, expanded in plan:
            x = fire(x, squeezed, expanded)
    return o.adaptive_pool(o.relu(o.conv(x, CLASSES, 1, bias=True)), 1)


def densenet121(o: Layers, x: Tensor) -> Tensor:
    """Huang et al. 2017, 121 layers, growth 32."""
    x = _conv_norm_relu(o, x, 64, 7, stride=2, padding=3)
    x = o.max_pool(x, 3, 2, 1)
    for stage, many in enumerate((6, 12, 24, 16)):
        if stage:
            x = o.conv(o.relu(o.norm(x)), o.channels(x) // 2, 1)
            x = o.avg_pool(x, 2, 2)
        parts = [x]
        for _ in range(many):
            y = o.conv(o.relu(o.norm(o.cat(parts))), 128, 1)
            parts.append(o.conv(o.relu(o.norm(y)), 32, 3, padding=1))
        x = o.cat(parts)
    return _head(o, o.relu(o.norm(x)))


def googlenet(o: Layers, x: Tensor) -> Tensor:
    """Szegedy et al. 2015, with batch normalisation."""

    def inception(x: Tensor, one: int, three: tuple[int, int], five: tuple[int, int], pool: int):
        branches = [_conv_norm_relu(o, x, one, 1)]
        for inner, filters in (three, five):  # the usual code has 3 × 3 for the paper's 5 × 5
            y = _conv_norm_relu(o, x, inner, 1)
            branches.append(_conv_norm_relu(o, y, filters, 3, padding=1))
        branches.append(_conv_norm_relu(o, o.max_pool(x, 3, 1, 1, ceil=True), pool, 1))
        return o.cat(branches)

    x = _conv_norm_relu(o, x, 64, 7, stride=2, padding=3)
    x = _conv_norm_relu(o, o.max_pool(x, 3, 2, ceil=True), 64, 1)
    x = o.max_pool(_conv_norm_relu(o, x, 192, 3, padding=1), 3, 2, ceil=True)
    x = inception(x, 64, (96, 128), (16, 32), 32)
    x = inception(x, 128, (128, 192), (32, 96), 64)
    x = o.max_pool(x, 3, 2, ceil=True)
    x = inception(x, 192, (96, 208), (16, 48), 64)
    x = inception(x, 160, (112, 224), (24, 64), 64)
    x = inception(x, 128, (128, 256), (24, 64), 64)
    x = inception(x, 112, (144, 288), (32, 64), 64)
    x = inception(x, 256, (160, 320), (32, 128), 128)
    x = o.max_pool(x, 2, 2, ceil=True)
    x = inception(x, 256, (160, 320), (32, 128), 128)
    x = inception(x, 384, (192, 384), (48, 128), 128)
    return _head(o, x)


def inception_v3(o: Layers, x: Tensor) -> Tensor:
    """Szegedy et al. 2016."""

    def unit(x: Tensor, filters: int, kernel: int | tuple[int, int], **given: Any) -> Tensor:
        return _conv_norm_relu(o, x, filters, kernel, **given)

    def pooled(x: Tensor, filters: int) -> Tensor:
        return unit(o.avg_pool(x, 3, 1, 1), filters, 1)

    def wide(x: Tensor, filters: int) -> Tensor:
        return unit(x, filters, (1, 7), padding=(0, 3))

    def high(x: Tensor, filters: int) -> Tensor:
        return unit(x, filters, (7, 1), padding=(3, 0))

    def double(x: Tensor, stride: int) -> Tensor:
        x = unit(unit(x, 64, 1), 96, 3, padding=1)
        return unit(x, 96, 3, stride=stride, padding=1 if stride == 1 else 0)

    for filters, stride, padding in ((32, 2, 0), (32, 1, 0), (64, 1, 1)):
        x = unit(x, filters, 3, stride=stride, padding=padding)
    x = unit(unit(o.max_pool(x, 3, 2), 80, 1), 192, 3)
    x = o.max_pool(x, 3, 2)
    for pool in (32, 64, 64):
        five = unit(unit(x, 48, 1), 64, 5, padding=2)
        x = o.cat([unit(x, 64, 1), five, double(x, 1), pooled(x, pool)])
    x = o.cat([unit(x, 384, 3, stride=2), double(x, 2), o.max_pool(x, 3, 2)])
    for inner in (128, 160, 160, 192):
        seven = high(wide(unit(x, inner, 1), inner), 192)
        twice = wide(high(wide(high(unit(x, inner, 1), inner), inner), inner), 192)
        x = o.cat([unit(x, 192, 1), seven, twice, pooled(x, 192)])
    three = unit(unit(x, 192, 1), 320, 3, stride=2)
    seven = unit(high(wide(unit(x, 192, 1), 192), 192), 192, 3, stride=2)
    x = o.cat([three, seven, o.max_pool(x, 3, 2)])
    for _ in range(2):
        branches = [unit(x, 320, 1)]
        for y in (unit(x, 384, 1), unit(unit(x, 448, 1), 384, 3, padding=1)):
            split = [unit(y, 384, (1, 3), padding=(0, 1)), unit(y, 384, (3, 1), padding=(1, 0))]
            branches.append(o.cat(split))
        x = o.cat([*branches, pooled(x, 192)])
    return _head(o, x)


def shufflenet_v2(o: Layers, x: Tensor) -> Tensor:
    """Ma et al. 2018, × 1."""

    def branch(x: Tensor, filters: int, stride: int) -> Tensor:
        x = _conv_norm_relu(o, x, filters, 1)
        x = o.norm(o.conv(x, filters, 3, stride=stride, padding=1, groups=filters))
        return _conv_norm_relu(o, x, filters, 1)

    def down(x: Tensor, filters: int) -> Tensor:
        inner = o.channels(x)
        y = o.norm(o.conv(x, inner, 3, stride=2, padding=1, groups=inner))
        return _conv_norm_relu(o, y, filters, 1)

    x = _conv_norm_relu(o, x, 24, 3, stride=2, padding=1)
    x = o.max_pool(x, 3, 2, 1)
    for filters, many in ((116, 4), (232, 8), (464, 4)):
        half = filters // 2
        x = o.shuffle(o.cat([down(x, half), branch(x, half, 2)]))
        for _ in range(many - 1):
            kept, y = o.halves(x)
            x = o.shuffle(o.cat([kept, branch(y, half, 1)]))
    x = _conv_norm_relu(o, x, 1024, 1)
    return _head(o, x)


# Networks by name, and the side of the images that each was published for.
ARCHITECTURES: dict[str, Callable[[Layers, Tensor], Tensor]] = {
    "alexnet": alexnet,
    "densenet121": densenet121,
    "googlenet": googlenet,
    "inception_v3": inception_v3,
    "mnasnet": mnasnet,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "shufflenet_v2": shufflenet_v2,
    "squeezenet": squeezenet,
    "vgg11": vgg11,
}
PUBLISHED_SIZE = dict.fromkeys(ARCHITECTURES, 224) | {"inception_v3": 299}


class Network:
    """A network of :data:`ARCHITECTURES` to call with images.

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
