"""Networks have the weights and the products that were published for them."""

import pytest

from counted_networks import Counting
from msbgen.kernels.measure.architectures import ARCHITECTURES, PUBLISHED_SIZE

# Weights (norms with their two), and products of a pass [10^9], as papers and model cards say.
PUBLISHED = {
    "alexnet": (61_100_840, 0.71),
    "densenet121": (7_978_856, 2.83),
    "googlenet": (6_624_904, 1.50),
    "inception_v3": (23_834_568, 5.71),
    "mnasnet": (4_383_312, 0.31),
    "mobilenet_v1": (4_231_976, 0.57),
    "mobilenet_v2": (3_504_872, 0.30),
    "resnet18": (11_689_512, 1.81),
    "resnet50": (25_557_032, 4.09),
    "shufflenet_v2": (2_278_604, 0.14),
    "squeezenet": (1_235_496, 0.35),
    "vgg11": (132_863_336, 7.61),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_and_products_are_those_published_and_other_images_pass(name):
    counting = Counting()
    size = PUBLISHED_SIZE[name]
    scores = ARCHITECTURES[name](counting, (1, 3, size, size))
    assert scores[:2] == (1, 1000)
    weights, products = PUBLISHED[name]
    assert counting.weights == weights
    assert counting.products / 1e9 == pytest.approx(products, abs=0.0055)
    assert ARCHITECTURES[name](Counting(), (4, 3, 112, 112))[:2] == (4, 1000)


def test_launches_are_those_that_the_paper_counted():
    """MIRAGE, section 3.2: from 28 launches (AlexNet) to 580 (DenseNet), dropout and copies too."""
    for name, fewest, most in [("alexnet", 19, 28), ("densenet121", 400, 580)]:
        counting = Counting()
        ARCHITECTURES[name](counting, (1, 3, 224, 224))
        assert fewest <= len(counting.launches) <= most
