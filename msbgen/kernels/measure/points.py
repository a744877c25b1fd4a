"""Which kernels are measured: those that networks launch, and as many others like them.

The others are drawn at random from the ranges of the networks' parameters, with a margin: sizes
log-uniform, what belongs together (window, stride, padding, groups, bias) as some network has it,
and none that does much more, or less, than the networks' kernels of its kind (MIRAGE, section 4.2;
there the parameters of a window are drawn apart, so that most combinations are none that any
network has).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from msbgen.core.errors import ArgumentError
from msbgen.kernels.kinds import KINDS, Point, Work, out_sides, work_of

# Ranges reach beyond what was seen by this factor, at either end.
MARGIN = 1.25
# Drawn sizes; the others are taken together from one kernel that a network has.
_SIZES = {
    "conv2d": ("batch", "channels", "height", "filters"),
    "matmul": ("m", "k", "n"),
}
_DEFAULT_SIZES = ("batch", "channels", "height")
# Fewest kernels of a kind that are drawn, and draws of one before it is given up.
_LEAST = 20
_DRAWS = 500


def draw_points(
    seen: Sequence[Point], share: float, rng: np.random.Generator | int = 0
) -> list[Point]:
    """Draw kernels from the ranges of some.

    Parameters
    ----------
    seen : sequence of Point
        Of networks.
    share : float
        How many are drawn of each kind, per one that was seen; 20 at least, where it is not 0.
    rng : Generator or int

    Returns
    -------
    list of Point
        All different, none of those seen; fewer where the ranges hold no more.
    """
    if not 0 <= share < math.inf:
        raise ArgumentError(f"share is {share}; a number ≥ 0 is wanted.")
    rng = np.random.default_rng(rng)
    found: dict[Point, None] = {}
    for kind in KINDS:
        own = [point for point in dict.fromkeys(seen) if point.kind == kind]
        if own and share:
            wanted = max(_LEAST, round(share * len(own)))
            found.update(dict.fromkeys(_draw(kind, own, wanted, rng)))
    return list(found)


def _draw(kind: str, own: Sequence[Point], wanted: int, rng: np.random.Generator) -> list[Point]:
    sizes = _SIZES.get(kind, _DEFAULT_SIZES)
    ranges = {
        name: (min(values) / MARGIN, max(values) * MARGIN)
        for name in sizes
        if (values := [point.parameters[name] for point in own])
    }
    like_these, known = _reach([work_of(point) for point in own]), set(own)
    found: dict[Point, None] = {}
    for _ in range(_DRAWS * wanted):
        if len(found) == wanted:
            break
        like = dict(own[int(rng.integers(len(own)))].parameters)
        drawn = {name: _log_uniform(*bounds, rng) for name, bounds in ranges.items()}
        point = Point.of(kind, **_completed(kind, like, drawn))
        if point not in known and _makes_sense(point) and _is_like(work_of(point), like_these):
            found[point] = None
    return list(found)


def _log_uniform(low: float, high: float, rng: np.random.Generator) -> int:
    return max(1, round(math.exp(rng.uniform(math.log(low), math.log(high)))))


def _completed(kind: str, like: dict[str, int], drawn: dict[str, int]) -> dict[str, int]:
    """The parameters of a kernel with other sizes; images stay as square as they were."""
    given = {**like, **drawn}
    if "width" in like:
        given["width"] = max(1, round(drawn["height"] * like["width"] / like["height"]))
    if kind == "conv2d" and like["groups"] > 1:
        if like["groups"] == like["channels"]:  # each channel by itself
            given["groups"] = given["channels"]
            given["filters"] = given["channels"] * max(1, like["filters"] // like["channels"])
        else:
            for name in ("channels", "filters"):
                given[name] = like["groups"] * max(1, round(given[name] / like["groups"]))
    if kind == "shuffle":
        given["channels"] = like["groups"] * max(1, round(given["channels"] / like["groups"]))
    return given


def _makes_sense(point: Point) -> bool:
    p = point.parameters
    if point.kind == "cat" and p["parts"] > p["channels"]:
        return False
    if point.kind == "adaptive_pool" and p["size"] > min(p["height"], p["width"]):
        return False
    return "stride" not in p or min(out_sides(point)) >= 1


def _reach(works: Sequence[Work]) -> tuple[Work, Work]:
    """The least and the most that kernels may do to be like these."""
    flops, touched = [work.flops for work in works], [work.touched for work in works]
    return (
        Work(min(flops) / MARGIN, min(touched) / MARGIN),
        Work(max(flops) * MARGIN, max(touched) * MARGIN),
    )


def _is_like(work: Work, reach: tuple[Work, Work]) -> bool:
    least, most = reach
    return least.flops <= work.flops <= most.flops and least.touched <= work.touched <= most.touched
