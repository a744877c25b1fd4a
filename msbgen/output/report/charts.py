"""Charts of the duration over one resource, for the page: generated, bound, and measured runs.

The resource that changes durations the most is the horizontal axis; the other one of the maps has
a panel for each of a few levels.  Of all others every combination of levels has charts of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.data.schema import level_text, same_level
from msbgen.output.report.formatting import shortened
from msbgen.output.report.maps import MapGrid

Floats = NDArray[np.float64]

# Units of a plot across and up; it is stretched to its place on the page.
_SIZE = 1000
# Most panels beside one another, and most ticks of an axis.
_MOST_PANELS, _MOST_TICKS = 6, 5
# Bounds are drawn up to this multiple of the largest duration.
_HIGHEST = 2.5
# Axes begin at zero unless all durations are above this share of the highest bound.
_FLAT = 0.4
# Levels that span this ratio and are more even in their logarithms have a logarithmic axis.
_RATIO = 8.0
# A tick takes this share of the width of a panel, and more with each character.
_TICK, _CHARACTER = 0.03, 0.027


@dataclass(frozen=True)
class Chart:
    """One panel."""

    level: int  # index of its level of the resource over the panels; 0 without one
    svg: str
    low: float  # shortest generated duration [s]
    high: float  # longest one [s]


@dataclass(frozen=True)
class ChartGroup:
    """The panels of one combination of levels of the other resources."""

    key: str  # places of their levels, as "3" or "0-4"
    fixed: list[tuple[int, float]]  # resource and level
    charts: list[Chart]
    runs: int  # measured runs that are drawn
    cut: bool  # whether bounds are too high to be drawn


@dataclass(frozen=True)
class Charts:
    """All charts of a page."""

    across: int  # resource of the horizontal axis
    panels: int | None  # resource with a panel a level; None where a single one varies
    levels: tuple[int, ...]  # levels of it that have a panel
    positions: tuple[float, ...]  # of the levels across, from 0 to 1000
    groups: list[ChartGroup]
    first: str  # key of the group with the most measured runs

    def embedded(self) -> dict[str, Any]:
        """What the page's script needs to mark the chosen context."""
        return {
            "across": self.across,
            "panels": self.panels,
            "x": self.positions,
            "first": self.first,
        }


@dataclass(frozen=True, eq=False)
class _Runs:
    """Measured runs on the levels of a grid."""

    place: NDArray[np.int64]  # levels of each measured context, -1 where it is not among them
    durations: Sequence[Sequence[float]]  # [s]


def charts_of(
    grid: MapGrid, everywhere: Mapping[str, Any], measured: Mapping[str, Any]
) -> Charts | None:
    """Charts of the contexts of a page; None where these are scattered over their levels."""
    if grid.sparse:
        return None
    labels = [resource["labels"] for resource in measured["resources"]]
    # words have no order: they are panels where the other resource has numbers
    across, *others = sorted(grid.axes, key=lambda i: (bool(labels[i]), i != grid.strongest))
    panels = others[0] if others else None
    runs = _runs(grid, measured)
    chosen = _spread_levels(grid, panels, runs)
    rest = [i for i in range(len(grid.levels)) if i not in (across, panels)]
    draw = _Plot(grid, everywhere, runs, across, labels[across])
    groups = []
    for places in itertools.product(*(range(len(grid.levels[i])) for i in rest)):
        here = (grid.place[:, rest] == places).all(axis=1)
        if here.any():
            groups.append(draw.group(here, rest, places, panels, chosen))
    middle = len(groups) // 2
    first = max(range(len(groups)), key=lambda i: (groups[i].runs, -abs(i - middle)))
    return Charts(
        across, panels, tuple(chosen), tuple(np.round(draw.x, 1).tolist()), groups,
        groups[first].key,
    )  # fmt: skip


def _runs(grid: MapGrid, measured: Mapping[str, Any]) -> _Runs:
    """Measured runs with the places of their contexts among the levels of the grid."""
    table = np.array(measured["context"], dtype=float).reshape(-1, len(grid.levels))
    place = np.full(table.shape, -1)
    for i, levels in enumerate(grid.levels):
        same = same_level(table[:, i, None], levels[None])
        place[:, i] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
    return _Runs(place, measured["run_durations"])


def _spread_levels(grid: MapGrid, panels: int | None, runs: _Runs) -> list[int]:
    """Levels with a panel: all, or a few that are far apart, measured ones first."""
    if panels is None:
        return [0]
    n = len(grid.levels[panels])
    known = np.unique(runs.place[:, panels][(runs.place >= 0).all(axis=1)])
    levels = np.arange(n) if n <= _MOST_PANELS or len(known) < 2 else known
    few = np.linspace(0, len(levels) - 1, min(len(levels), _MOST_PANELS)).round().astype(int)
    return levels[few].tolist()


class _Plot:
    """Draws the panels of a page, which have one horizontal axis."""

    def __init__(
        self,
        grid: MapGrid,
        everywhere: Mapping[str, Any],
        runs: _Runs,
        across: int,
        labels: Sequence[str],
    ):
        self.grid, self.runs, self.across, self.labels = grid, runs, across, labels
        self.duration = np.array(everywhere["duration"])
        self.bound = np.array(everywhere["bound"] or np.full(len(self.duration), np.nan))
        self.outside = np.array(everywhere["extrapolated"], dtype=bool)
        levels = grid.levels[across]
        self.words = bool(labels)
        self.x = _positions(levels, self.words)
        texts = [shortened(level_text(level, labels), 12) for level in levels]
        self.ticks = _ticks_of(self.x, texts)

    def group(
        self,
        here: NDArray[np.bool_],
        rest: Sequence[int],
        places: Sequence[int],
        panels: int | None,
        chosen: Sequence[int],
    ) -> ChartGroup:
        """Panels of the contexts `here`, with one vertical axis."""
        rows, dots = [], []
        alike = (self.runs.place >= 0).all(axis=1) & (
            self.runs.place[:, rest] == np.array(places, dtype=int)
        ).all(axis=1)
        for level in chosen:
            mine, known = here.copy(), alike.copy()
            if panels is not None:
                mine &= self.grid.place[:, panels] == level
                known &= self.runs.place[:, panels] == level
            order = np.flatnonzero(mine)
            rows.append(order[np.argsort(self.grid.place[order, self.across], kind="stable")])
            dots.append(
                [
                    (self.x[self.runs.place[c, self.across]], duration)
                    for c in np.flatnonzero(known)
                    for duration in self.runs.durations[int(c)]
                ]
            )
        drawn = np.concatenate(rows)
        longest = max([*self.duration[drawn], *(y for part in dots for _, y in part)])
        bounds = self.bound[drawn][np.isfinite(self.bound[drawn])]
        high = min(float(bounds.max(initial=longest)), _HIGHEST * longest)
        shortest = min([*self.duration[drawn], *(y for part in dots for _, y in part)])
        axis = _Axis.of(shortest, high)
        charts = [
            Chart(
                level, self._svg(order, part, axis),
                *(float(end(self.duration[order])) for end in (np.min, np.max)),
            )
            for level, order, part in zip(chosen, rows, dots)
            if len(order)
        ]  # fmt: skip
        return ChartGroup(
            "-".join(map(str, places)),
            [(i, float(self.grid.levels[i][p])) for i, p in zip(rest, places)],
            charts,
            sum(map(len, dots)),
            bool((bounds > axis.high).any()),
        )

    def _svg(
        self, rows: NDArray[np.int64], dots: Sequence[tuple[float, float]], axis: _Axis
    ) -> str:
        x, outside = self.x[self.grid.place[rows, self.across]], self.outside[rows]
        duration, bound = axis.y(self.duration[rows]), axis.y(self.bound[rows])
        paths = [("grid", "".join(f"M0 {y:.1f}H{_SIZE}" for y in axis.y(np.array(axis.ticks))))]
        if self.words or len(rows) == 1:  # there is nothing between words
            half = 0.35 * _SIZE / len(self.x)
            paths += [("limit", _dashes(x, bound, half)), ("mean", _dashes(x, duration, half))]
        else:
            far = outside[:-1] | outside[1:]
            top = np.maximum(axis.y(self.bound[rows], cut=False), 0.0)
            paths += [
                ("room", _area(x, duration, top)),
                ("limit", _line(x, bound, ~far)), ("limit far", _line(x, bound, far)),
                ("mean", _line(x, duration, ~far)), ("mean far", _line(x, duration, far)),
            ]  # fmt: skip
        heights = axis.y(np.array([y for _, y in dots]))
        circles = "".join(f"M{at:.1f} {y:.1f}h0" for (at, _), y in zip(dots, heights))
        paths += [("run halo", circles), ("run", circles)]
        drawn = "".join(f'<path class="{name}" d="{d}"/>' for name, d in paths if d)
        return (
            f'<svg class="lines" viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none">{drawn}'
            f"</svg>{self._texts(axis)}"
        )

    def _texts(self, axis: _Axis) -> str:
        """Labels of both axes, which are not stretched."""
        up = zip(axis.y(np.array(axis.ticks)), axis.texts())
        across = ((100 * at / _SIZE, text) for at, text in self.ticks)
        return "".join(
            [
                *(
                    f'<text class="up" x="-6" y="{y / 10:.2f}%" dy=".35em">{t}</text>'
                    for y, t in up
                ),
                *(
                    f'<text class="across" x="{at:.2f}%" y="100%" dy="1.3em">{escape(t)}</text>'
                    for at, t in across
                ),
            ]
        )


@dataclass(frozen=True)
class _Axis:
    """A vertical axis of durations [s]."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, low: float, high: float) -> _Axis:
        """Axis from zero, or just below `low` where durations differ little, to `high`."""
        start = low - 0.15 * (high - low) if low > _FLAT * high and high > low else 0.0
        top = high + 0.06 * (high - start)
        step = _step(top - start)
        ticks = np.arange(math.ceil(start / step - 1e-9), math.floor(top / step + 1e-9) + 1) * step
        return cls(start, top, tuple(ticks.tolist()))

    def y(self, seconds: Floats, *, cut: bool = True) -> Floats:
        """Heights from the top; NaN above the axis, if it is `cut` there."""
        y = _SIZE * (self.high - seconds) / (self.high - self.low)
        return np.where((y >= 0) | (not cut), y, np.nan)

    def texts(self) -> list[str]:
        digits = max(0, -math.floor(math.log10(_step(self.high - self.low)) + 1e-9))
        return [f"{tick:,.{digits}f}" if digits < 5 else f"{tick:.3g}" for tick in self.ticks]


def _step(span: float) -> float:
    """Distance of ticks: 1, 2 or 5 times a power of ten."""
    least = span / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _positions(levels: Floats, words: bool) -> Floats:
    """Places of levels across: of words evenly, of numbers to scale, or to their logarithms."""
    if words or len(levels) == 1:
        return _SIZE * (np.arange(len(levels)) + 0.5) / len(levels)
    scaled = levels
    if levels[0] > 0 and levels[-1] >= _RATIO * levels[0]:
        logs = np.log(levels)
        scaled = min((levels, logs), key=lambda one: float(np.std(np.diff(one)) / np.ptp(one)))
    return _SIZE * (scaled - scaled[0]) / (scaled[-1] - scaled[0])


def _ticks_of(x: Floats, texts: Sequence[str]) -> list[tuple[float, str]]:
    """Labels of levels that have room: the first and the last, then those between."""
    taken: list[tuple[float, float]] = []
    ticks = []
    n = len(texts)
    halves = range(1, n.bit_length() + 1)
    order = [0, n - 1, *(round((n - 1) * k / 2**h) for h in halves for k in range(1, 2**h, 2))]
    for i in dict.fromkeys(order):
        at, half = float(x[i]), _SIZE * (_TICK + _CHARACTER * len(texts[i])) / 2
        if all(at + half <= low or high <= at - half for low, high in taken):
            taken.append((at - half, at + half))
            ticks.append((at, texts[i]))
    return sorted(ticks)


def _line(x: Floats, y: Floats, segments: NDArray[np.bool_]) -> str:
    """The given segments (n - 1,) of the line through points (n,), without undrawn points."""
    parts, last = [], -1
    for i in np.flatnonzero(segments & np.isfinite(y[:-1] + y[1:])):
        if i != last:
            parts.append(f"M{x[i]:.1f} {y[i]:.1f}")
        parts.append(f"L{x[i + 1]:.1f} {y[i + 1]:.1f}")
        last = i + 1
    return "".join(parts)


def _dashes(x: Floats, y: Floats, half: float) -> str:
    """A horizontal dash at each point."""
    return "".join(
        f"M{a - half:.1f} {b:.1f}h{2 * half:.1f}" for a, b in zip(x, y) if np.isfinite(b)
    )


def _area(x: Floats, low: Floats, high: Floats) -> str:
    """Area between two lines; empty where one is missing."""
    if len(x) < 2 or not np.isfinite(high).all():
        return ""
    points = [f"{a:.1f} {b:.1f}" for a, b in [*zip(x, low), *zip(x[::-1], high[::-1])]]
    return f"M{'L'.join(points)}z"
