"""The sequence of Sobol (1967): points of low discrepancy in the unit cube.

Direction numbers are those of Joe and Kuo (2008, "Constructing Sobol sequences with better
two-dimensional projections").  The same points as of ``scipy.stats.qmc``, whose import takes longer
than a plan.
"""

import numpy as np
from numpy.typing import NDArray

# A primitive polynomial over the field of two elements, as bits, and the first odd numbers m of
# each dimension.
_DIMENSIONS = (
    (1, (1,)),
    (3, (1,)),
    (7, (1, 3)),
    (11, (1, 3, 1)),
    (13, (1, 1, 1)),
    (19, (1, 1, 3, 3)),
    (25, (1, 3, 5, 13)),
    (37, (1, 1, 5, 5, 17)),
    (41, (1, 1, 5, 5, 5)),
    (47, (1, 1, 7, 11, 19)),
    (55, (1, 1, 5, 1, 1)),
    (59, (1, 1, 1, 3, 11)),
    (61, (1, 3, 5, 5, 31)),
    (67, (1, 3, 3, 9, 7, 49)),
    (91, (1, 1, 1, 15, 21, 21)),
    (97, (1, 3, 1, 13, 27, 49)),
    (103, (1, 1, 1, 15, 7, 5)),
    (109, (1, 3, 1, 15, 13, 25)),
    (115, (1, 1, 5, 5, 19, 61)),
    (131, (1, 3, 7, 11, 23, 15, 103)),
    (137, (1, 3, 7, 13, 13, 15, 69)),
    (143, (1, 1, 3, 13, 7, 35, 63)),
    (145, (1, 3, 5, 9, 1, 25, 53)),
    (157, (1, 3, 1, 13, 9, 35, 107)),
)
MOST_DIMENSIONS = len(_DIMENSIONS)
# Binary digits of a coordinate.
_DIGITS = 30


def sobol_points(dimensions: int, doublings: int) -> NDArray[np.float64]:
    """The first 2^`doublings` points (·, dimensions), at most 2^30 in `MOST_DIMENSIONS`.

    In the order of the Gray code: each doubling adds the points so far, last ones first, with one
    more binary digit.
    """
    directions = np.array([_directions(*one) for one in _DIMENSIONS[:dimensions]]).T
    points = np.zeros((1, dimensions), dtype=np.int64)
    for direction in directions[:doublings]:
        points = np.concatenate([points, points[::-1] ^ direction])
    return points / 2.0**_DIGITS


def _directions(polynomial: int, first: tuple[int, ...]) -> list[int]:
    """Direction numbers of a dimension, one for each binary digit."""
    degree, odd = polynomial.bit_length() - 1, list(first)
    while len(odd) < _DIGITS:
        following = 1 if degree == 0 else odd[-degree]
        for i in range(1, degree + 1):
            if polynomial >> (degree - i) & 1:
                following ^= odd[-i] << i
        odd.append(following)
    return [m << (_DIGITS - 1 - k) for k, m in enumerate(odd)]
