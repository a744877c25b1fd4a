"""Traces against launches, shapes and products that were counted by hand."""

from msbgen.systems.kernels.kinds import Point
from msbgen.systems.kernels.measure.trace import trace
from needing import needs_torch

pytestmark = needs_torch


def traced(run, *shape):
    import torch

    with torch.inference_mode():
        x = torch.empty(*shape, device="meta")
        return trace(lambda: run(x))


def test_a_block_of_modules_by_hand():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(8, 16, (1, 3), stride=2, padding=(0, 1), groups=2, bias=False),
                nn.BatchNorm2d(16),
                nn.ReLU(),
                nn.MaxPool2d(3, 2, padding=1),
            )
            self.head = nn.Linear(32, 10)

        def forward(self, x):
            y = self.body(x)
            y = nn.functional.relu6(y + y.detach(), inplace=True)
            y = torch.cat([y, y], dim=-3)
            y = nn.functional.avg_pool2d(y, 2)
            y = nn.functional.adaptive_avg_pool2d(y, 1)
            return torch.sigmoid(self.head(torch.flatten(y, 1)))

    with torch.device("meta"):
        block = Block().eval()
    found = traced(block, 3, 8, 17, 32)
    after = {"batch": 3, "channels": 16}
    assert found.launches == {
        Point.of(
            "conv2d", batch=3, channels=8, height=17, width=32, filters=16, kernel_height=1,
            kernel_width=3, stride=2, padding_height=0, padding_width=1, dilation=1, groups=2,
            bias=0,
        ): 1,
        Point.of("batch_norm", **after, height=9, width=16): 1,
        Point.of("relu", **after, height=9, width=16, inplace=0): 1,
        Point.of("max_pool", **after, height=9, width=16, kernel=3, stride=2, padding=1, ceil=0): 1,
        Point.of("add", **after, height=5, width=8, inplace=0): 1,
        Point.of("relu", **after, height=5, width=8, inplace=1): 1,
        Point.of("cat", batch=3, channels=32, height=5, width=8, parts=2): 1,
        Point.of(
            "avg_pool", batch=3, channels=32, height=5, width=8, kernel=2, stride=2, padding=0,
            ceil=0,
        ): 1,
        Point.of("adaptive_pool", batch=3, channels=32, height=2, width=4, size=1): 1,
        Point.of("matmul", m=3, k=32, n=10, bias=1): 1,
    }  # fmt: skip
    assert found.others == {"sigmoid": 1}


def test_products_however_they_are_written():
    import torch

    def run(x):
        y = torch.empty(5, 7, device="meta")
        a, b, c = x @ y, torch.mm(x, y), torch.addmm(torch.empty(7, device="meta"), x, y)
        x = torch.relu_(x)
        x += 1.0  # of a number: no sum of images
        return a, b, c, torch.bmm(x[None], y[None])

    found = traced(run, 4, 5)
    assert found.launches == {
        Point.of("matmul", m=4, k=5, n=7, bias=0): 2,
        Point.of("matmul", m=4, k=5, n=7, bias=1): 1,
        Point.of("relu", batch=4, channels=5, height=1, width=1, inplace=1): 1,
    }
    assert found.others == {"add_": 1, "bmm": 1}


def test_what_no_kernel_of_ours_does_is_named():
    from torch.nn import functional

    def run(x):
        x = functional.conv2d(x, x.new_empty(4, 4, 3, 3), stride=(1, 2))
        x = functional.max_pool2d(x, (1, 2))
        return functional.batch_norm(x, None, None, training=True)

    found = traced(run, 1, 4, 12, 12)
    assert found.launches == {}
    assert {name for name in found.others if not name.startswith("new_")} == {
        "conv2d", "max_pool2d", "batch_norm",
    }  # fmt: skip
