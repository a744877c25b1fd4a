"""Random kernels that are similar to those of networks.

Sizes are log-uniform in the range of the networks' sizes, with a margin.  Window, stride, padding,
groups and bias are taken together from one kernel of a network.  Kernels with much more or less
work than those of the networks are rejected.  (MIRAGE, section 4.2, draws the parameters of a
window independently, so that most combinations occur in no network.)
"""

import math
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from msbgen.core.draws import generator
from msbgen.core.records import NotNegative, checks_arguments
from msbgen.systems.kernels.kinds import KINDS, Point, out_sides, work_of

# Factor by which ranges are extended at either end.
MARGIN = 1.25
# Drawn sizes; the other parameters are taken together from one kernel of a network.
_SIZES = {"conv2d": ("batch", "channels", "height", "filters"), "matmul": ("m", "k", "n")}
_DEFAULT_SIZES = ("batch", "channels", "height")
# Fewest drawn kernels of a kind, and most attempts for one kernel.
_LEAST = 20
_DRAWS = 500


@checks_arguments
def draw_points(
    seen: Sequence[Point], share: NotNegative, rng: np.random.Generator | int = 0
) -> list[Point]:
    """Random kernels from the ranges of some kernels of networks, all different and none of them.

    `share` is the number of drawn kernels for each one of a network, by kind; at least 20 of a kind
    are drawn unless it is 0. There are fewer where the ranges have no more.
    """
    rng = generator(rng)
    points: dict[Point, None] = {}
    for kind in KINDS:
        same_kind = [point for point in dict.fromkeys(seen) if point.kind == kind]
        if same_kind and share:
            wanted = max(_LEAST, round(share * len(same_kind)))
            points.update(dict.fromkeys(_draw(kind, same_kind, wanted, rng)))
    return list(points)


def _draw(
    kind: str, same_kind: Sequence[Point], wanted: int, rng: np.random.Generator
) -> list[Point]:
    sizes = _SIZES.get(kind, _DEFAULT_SIZES)
    ranges = {
        name: (min(values) / MARGIN, max(values) * MARGIN)
        for name in sizes
        if (values := [point.parameters[name] for point in same_kind])
    }
    works, known = np.array([astuple(work_of(point)) for point in same_kind]), set(same_kind)
    least, most = works.min(axis=0) / MARGIN, works.max(axis=0) * MARGIN
    points: dict[Point, None] = {}
    for _ in range(_DRAWS * wanted):
        if len(points) == wanted:
            break
        like = dict(same_kind[int(rng.integers(len(same_kind)))].parameters)
        drawn = {name: _log_uniform(*bounds, rng) for name, bounds in ranges.items()}
        point = Point.of(kind, **_completed(kind, like, drawn))
        if point not in known and _makes_sense(point):
            work = np.array(astuple(work_of(point)))
            if ((least <= work) & (work <= most)).all():
                points[point] = None
    return list(points)


def _log_uniform(low: float, high: float, rng: np.random.Generator) -> int:
    return max(1, round(math.exp(rng.uniform(math.log(low), math.log(high)))))


def _completed(kind: str, like: dict[str, int], drawn: dict[str, int]) -> dict[str, int]:
    """Parameters of a kernel with drawn sizes; images keep their ratio of width to height."""
    sides = {**like, **drawn}
    if "width" in like:
        sides["width"] = max(1, round(drawn["height"] * like["width"] / like["height"]))
    if kind == "conv2d" and like["groups"] > 1:
        if like["groups"] == like["channels"]:  # each channel by itself
            sides["groups"] = sides["channels"]
            sides["filters"] = sides["channels"] * max(1, like["filters"] // like["channels"])
        else:
            for name in ("channels", "filters"):
                sides[name] = like["groups"] * max(1, round(sides[name] / like["groups"]))
    if kind == "shuffle":
        sides["channels"] = like["groups"] * max(1, round(sides["channels"] / like["groups"]))
    return sides


def _makes_sense(point: Point) -> bool:
    p = point.parameters
    if point.kind == "cat" and p["parts"] > p["channels"]:
        return False
    if point.kind == "adaptive_pool" and p["size"] > min(p["height"], p["width"]):
        return False
    return "stride" not in p or min(out_sides(point)) >= 1
