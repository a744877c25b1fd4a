"""Networks of torch give scores, the same ones in every pass."""

import pytest

from counted_networks import needs_torch
from msbgen.core.errors import ArgumentError
from msbgen.kernels.measure.network import Network, images

pytestmark = needs_torch


def test_weights_are_made_once_and_every_pass_uses_them():
    import torch

    network = Network("squeezenet")
    x = images(2, 64)
    with torch.inference_mode():
        first = network(x)
        made = [[id(w) for w in layer] for layer in network.layers.weights]
        again = network(x)
    assert [[id(w) for w in layer] for layer in network.layers.weights] == made
    torch.testing.assert_close(first, again, rtol=1e-4, atol=1e-5)
    assert first.numel() == 2 * 1000
    assert torch.isfinite(first).all()
    assert first.std() > 0


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ArgumentError, match="name is 'lenet'; one of alexnet"):
        Network("lenet")
