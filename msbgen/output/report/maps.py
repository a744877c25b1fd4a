"""Maps of a quantity over two resources, and the data of selected contexts, for the page.

The two resources whose levels change durations the most span the maps; of the others every
combination of levels has a map of its own, which sliders choose where scripts run.
"""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import LevelGrid
from msbgen.data.profiles import Profiles
from msbgen.data.schema import labels_of
from msbgen.output.report.data import SampleSpread, Unavailable
from msbgen.output.report.formatting import unit_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Shades of a map, and points of a mean profile, at most.
SHADES, _MOST_POINTS, _FEWEST_POINTS = 9, 100, 20
# Most contexts of a page, and most counts (one byte each) of mean profiles and their bands.
_MOST_CONTEXTS, _MOST_COUNTS, _CURVES = 5_000, 1_800_000, 3
# Contexts are mapped if they fill at least this share of the product of their levels.
_SPARSE = 0.25


@dataclass(frozen=True, eq=False)
class MapGrid(LevelGrid):
    """Contexts among the combinations of their levels, and the axes of their maps."""

    axes: tuple[int, ...]  # resources across and, where there are two that vary, up
    sparse: bool  # whether most combinations of levels are no context, so that maps would be empty
    strongest: int  # resource across or up whose levels change durations the most

    @classmethod
    def of_durations(cls, table: Floats, duration: Floats) -> MapGrid:
        """The grid of contexts (n, m) with the durations (n,) that choose its axes."""
        grid = LevelGrid.of(table)
        levels, place = grid.levels, grid.place
        effect = [_effect(place[:, i], np.log(duration)) for i in range(len(levels))]
        vary = [i for i in range(len(levels)) if len(levels[i]) > 1] or [0]
        most = sorted(vary, key=lambda i: -effect[i])[:2]
        two = tuple(sorted(most, key=lambda i: -len(levels[i])))
        return cls(levels, place, two, len(table) < _SPARSE * grid.size, most[0])

    @property
    def others(self) -> list[int]:
        """The resources that are not axes of the maps."""
        return [i for i in range(len(self.levels)) if i not in self.axes]


def _effect(place: Indices, value: Floats) -> float:
    """Difference of mean values between the levels of a resource."""
    counts = np.bincount(place)
    return float(np.ptp(np.bincount(place, value) / counts))


@dataclass(frozen=True)
class Map:
    """One map, as paths of an SVG whose unit is a cell."""

    key: str  # places of the other resources' levels, as "3" or "0-4"
    fixed: list[tuple[int, float]]  # resource and level
    shades: list[tuple[int, str]]  # shade and path
    hatched: str  # path over extrapolated cells
    dotted: str  # path at the middles of measured cells
    width: int  # cells
    height: int
    rows: list[list[int | None]]  # context of each cell, highest level first, for the table


def shades_of(values: Floats) -> tuple[Indices, Floats]:
    """Shade of each value, and the ascending edges of the shades.

    Between equal ratios, which leave most of a skewed quantity one shade, and equally many values
    a shade, which hide its extremes: half of each.
    """
    low, high = float(values.min()), float(values.max())
    if high <= low * (1 + 1e-9):
        return np.zeros(len(values), dtype=np.int64), np.array([low, high])
    ascending = np.sort(values)
    rank = np.linspace(0, 1, len(ascending))
    ratio = np.log(ascending / low) / np.log(high / low)
    edges = np.interp(np.linspace(0, 1, SHADES + 1), 0.5 * (rank + ratio), ascending)
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, SHADES - 1), edges


def maps_of(grid: MapGrid, shade: Indices, hatched: Floats, dotted: Floats) -> list[Map]:
    """Every map of a grid, in the order of the other resources' levels."""
    if grid.sparse:
        return []
    across, *up = grid.axes
    width, height = len(grid.levels[across]), len(grid.levels[up[0]]) if up else 1
    x = grid.place[:, across]
    y = height - 1 - grid.place[:, up[0]] if up else np.zeros_like(x)
    maps = []
    for places in itertools.product(*(range(len(grid.levels[i])) for i in grid.others)):
        here = np.flatnonzero((grid.place[:, grid.others] == places).all(axis=1))
        if not len(here):
            continue
        cells: list[list[int | None]] = [[None] * width for _ in range(height)]
        for row in here:
            cells[y[row]][x[row]] = int(row)
        maps.append(
            Map(
                key="-".join(map(str, places)),
                fixed=[(i, float(grid.levels[i][p])) for i, p in zip(grid.others, places)],
                shades=_filled(cells, shade),
                hatched="".join(f"M{x[r]} {y[r] + 1}l1-1" for r in here if hatched[r]),
                dotted="".join(f"M{x[r]}.5 {y[r]}.5h0" for r in here if dotted[r]),
                width=width,
                height=height,
                rows=cells,
            )
        )
    return maps


def _filled(cells: list[list[int | None]], shade: Indices) -> list[tuple[int, str]]:
    """One path for each shade; neighbours of one shade in a row are one rectangle."""
    paths: dict[int, list[str]] = {}
    for y, line in enumerate(cells):
        shades = [-1 if row is None else int(shade[row]) for row in line]
        x = 0
        for value, run in itertools.groupby(shades):
            n = len(list(run))
            if value >= 0:
                paths.setdefault(value, []).append(f"M{x} {y}h{n}v1h-{n}z")
            x += n
    return [(value, "".join(parts)) for value, parts in sorted(paths.items())]


def embedded(
    profiles: Profiles,
    spread: SampleSpread | Unavailable,
    grid: MapGrid,
    numbers: dict[str, Any],
    measured: list[int],
) -> dict[str, Any]:
    """Data of selected contexts for the page's script.

    Counts are bytes, as shares of the largest of their context; numbers as in the JSON file.
    """
    counts = profiles.counts[:, 0]
    n, k = len(counts), counts.shape[2]
    points = int(np.clip(_MOST_COUNTS // (_CURVES * n * k), _FEWEST_POINTS, _MOST_POINTS))
    points = min(points, counts.shape[1])
    duration, interval = profiles.mean_duration, profiles.interval
    drawn = [resampled(counts, duration, interval, points)]
    if isinstance(spread, SampleSpread):
        edges = (spread.lowest, spread.highest)
        drawn += [resampled(edge, duration, interval, points) for edge in edges]
    peak = np.max([part.max(axis=1) for part in drawn], axis=0)
    mean, *band = (_packed(part, peak) for part in drawn)
    return {
        "resources": [
            {
                "name": name,
                "unit": unit_of(str(attrs.get("units", "1"))),
                "labels": labels_of(attrs),
            }
            for name, attrs in profiles.resources.items()
        ],
        "levels": [axis.tolist() for axis in grid.levels],
        "axes": list(grid.axes),
        "others": grid.others,
        "sparse": grid.sparse,
        "place": [] if _is_in_order(grid) else grid.place.tolist(),
        "duration": numbers["duration"],
        "bound": numbers["bound"],
        "extrapolated": "".join(map(str, numbers["extrapolated"])),
        "beyond": "".join(map(str, numbers["beyond"])),
        "measured": "".join(map(str, measured)),
        "miscoverage": numbers["bounds"].get("miscoverage"),
        "counters": list(profiles.counters) if profiles.is_timed else [],
        "points": points,
        "peak": [[float(f"{x:.4g}") for x in row] for row in peak],
        "profiles": mean,
        "runs": numbers["random_runs"],
        "band": band,
    }


def most_contexts(n_counters: int) -> int:
    """Largest number of contexts with profiles on a page."""
    return min(_MOST_CONTEXTS, _MOST_COUNTS // (_CURVES * _FEWEST_POINTS * n_counters))


def _packed(counts: Floats, peak: Floats) -> str:
    """Counts (n, points, k) as bytes, shares of their peaks (n, k): contexts, then counters."""
    shares = np.round(255 * counts / np.where(peak > 0, peak, 1.0)[:, None])
    bytes_ = np.ascontiguousarray(shares.transpose(0, 2, 1).astype(np.uint8))
    return base64.b64encode(bytes_.tobytes()).decode("ascii")


def _is_in_order(grid: LevelGrid) -> bool:
    """Whether the contexts are all combinations of the levels, the last resource changing first."""
    return grid.is_full and bool(np.all(np.diff(grid.numbers) > 0))


def resampled(counts: NDArray[Any], duration: Floats, interval: float, points: int) -> Floats:
    """Counts per sampling interval in equal parts of each profile, (n, points, k).

    The counts (n, times, k) are NaN after the end; durations (n,) and the interval are in seconds.
    """
    n, times, k = counts.shape
    summed = np.concatenate([np.zeros((n, 1, k)), np.cumsum(np.nan_to_num(counts), axis=1)], axis=1)
    edges = np.minimum(np.linspace(0, 1, points + 1)[None] * duration[:, None] / interval, times)
    # the last interval is only partly filled: its time ends with the profile
    left = np.minimum(edges.astype(np.int64), times - 1)
    last = np.ceil(duration / interval - 1e-9)[:, None] - 1
    part = (duration[:, None] / interval - last).clip(1e-9, 1.0)
    share = np.where(left == last, (edges - left) / part, edges - left).clip(0, 1)
    rows = np.arange(n)[:, None]
    at = summed[rows, left] + share[..., None] * (summed[rows, left + 1] - summed[rows, left])
    width = np.maximum(duration / interval / points, 1e-12)
    return np.maximum(np.diff(at, axis=1), 0.0) / width[:, None, None]
