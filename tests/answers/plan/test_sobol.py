"""Points of low discrepancy, against those of scipy."""

import numpy as np
import pytest
from scipy.stats import qmc

from msbgen.answers.plan.sobol import MOST_DIMENSIONS, sobol_points


@pytest.mark.parametrize("doublings", [0, 1, 5, 13])
@pytest.mark.parametrize("dimensions", [1, 2, 4, MOST_DIMENSIONS])
def test_the_points_are_those_of_scipy(dimensions, doublings):
    expected = qmc.Sobol(dimensions, scramble=False).random_base2(doublings)
    np.testing.assert_array_equal(sobol_points(dimensions, doublings), expected)
