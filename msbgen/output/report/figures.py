"""Panels of a report as SVG: one plot each, text as text, colours left to the page's style sheet.

A panel is as wide as a telephone and is never scaled, so that its type stays what it is.  Nothing
that a file calls its task, counters or resources is drawn: names stand beside, where text wraps.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import load_library

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

# Width and height of a panel [px], and the size of its type.
WIDTH, HEIGHT, _TYPE = 340, 220, 12
# Placeholders for colours, replaced by variables of the style sheet.
_COLOURS = {
    "fg": "#010101",
    "muted": "#020202",
    "rule": "#030303",
    "measured": "#040404",
    "mean": "#050505",
    "band": "#060606",
    "bad": "#070707",
}
_STYLE = {
    "svg.fonttype": "none",
    "font.size": _TYPE,
    "axes.edgecolor": _COLOURS["muted"],
    "axes.facecolor": "none",
    "axes.labelcolor": _COLOURS["fg"],
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 5),
    "axes.formatter.use_mathtext": False,
    "figure.facecolor": "none",
    "grid.color": _COLOURS["rule"],
    "text.color": _COLOURS["fg"],
    "text.parse_math": False,
    "xtick.color": _COLOURS["muted"],
    "xtick.labelcolor": _COLOURS["fg"],
    "ytick.color": _COLOURS["muted"],
    "ytick.labelcolor": _COLOURS["fg"],
    "path.simplify": True,
    "path.simplify_threshold": 0.4,
    "figure.dpi": 72,
}
# Most intervals of a profile in a panel, and most runs.
_MOST_TIMES, _MOST_RUNS = 300, 60
# Area of the largest error on a map [pt²].
_LARGEST = 350
# Most contexts that are drawn one by one.
_MOST_POINTS = 1_000


def profile_panel(
    name: str, runs: Floats, mean: Floats, samples: Floats | None, interval: float
) -> str:
    """Measured runs of a counter, its generated mean, and the band of generated runs.

    The runs (n_runs, n_times), the mean (n_times,) and the samples (n_samples, n_times) are counts
    per `interval` [s], NaN after the end; `name` is for the identifiers within the panel.
    """

    def draw(axes: Axes) -> None:
        longest = max(_length(runs), _length(mean[None]))
        step = max(1, -(-longest // _MOST_TIMES))
        chosen = runs[np.linspace(0, len(runs) - 1, min(len(runs), _MOST_RUNS)).astype(int)]
        chosen = chosen[:, :longest]
        if samples is not None:
            low, high = band_of(samples)
            low, high = _coarse(low[None], step)[0], _coarse(high[None], step)[0]
            time = _times(len(low), step * interval)
            axes.fill_between(time, low, high, color=_COLOURS["band"], alpha=0.25, linewidth=0)
            for edge in (low, high):
                axes.plot(time, edge, color=_COLOURS["band"], linewidth=0.9, linestyle=(0, (4, 2)))
        drawn = _coarse(chosen, step)
        broken = np.column_stack([drawn, np.full(len(drawn), np.nan)]).ravel()
        time = np.append(_times(drawn.shape[1], step * interval), np.nan)
        axes.plot(
            np.tile(time, len(drawn)), broken, color=_COLOURS["measured"], linewidth=0.9, alpha=0.8
        )
        line = _coarse(mean[None, :longest], step)[0]
        axes.plot(_times(len(line), step * interval), line, color=_COLOURS["mean"], linewidth=1.6)
        axes.set_xlim(0, interval * 1.02 * longest)
        top = axes.get_ylim()[1]
        axes.set_ylim(0, top if top > 0 else 1)
        axes.set_xlabel("time [s]")

    return _panel(name, draw)


def band_of(samples: Floats) -> tuple[Floats, Floats]:
    """5 % and 95 % quantiles of samples (n_samples, n_times), until fewer than 5 % continue.

    Samples are NaN after their end, where they count as 0.
    """
    going = np.isfinite(samples).mean(axis=0)
    last = int(np.flatnonzero(going >= 0.05)[-1]) + 1 if (going >= 0.05).any() else 1
    low, high = np.quantile(np.nan_to_num(samples[:, :last]), [0.05, 0.95], axis=0)
    return low, high


def span_panel(name: str, low: Floats, middle: Floats, high: Floats) -> str:
    """Durations of contexts [s] in order, each from its shortest to its longest run.

    Contexts without a duration (NaN) are left out.
    """

    def draw(axes: Axes) -> None:
        order = np.argsort(middle, kind="stable")
        order = _spread(order[np.isfinite(middle[order])])
        _bars(axes, np.arange(len(order)), low[order], high[order], "measured")
        axes.plot(np.arange(len(order)), middle[order], color=_COLOURS["mean"], linewidth=1.5)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("duration [s]")
        axes.set_xlabel("contexts, shortest first")
        axes.set_xticks([])

    return _panel(name, draw)


def bound_panel(name: str, durations: Floats, bound: Floats) -> str:
    """Durations (n, n_runs) of held-out runs over their bounds (n,); crosses exceed them."""

    def draw(axes: Axes) -> None:
        share = durations / bound[:, None]
        highest, lowest = np.nanmax(share, axis=1), np.nanmin(share, axis=1)
        order = _spread(np.argsort(highest, kind="stable"))
        _bars(axes, np.arange(len(order)), lowest[order], highest[order], "measured")
        place, run = np.nonzero(share[order] > 1)
        kept = _spread(np.arange(len(place)))
        axes.scatter(
            place[kept], share[order][place, run][kept], marker="x", s=28, color=_COLOURS["bad"]
        )
        axes.axhline(1, color=_COLOURS["fg"], linewidth=1.2, linestyle=(0, (5, 3)))
        axes.set_ylabel("run / bound")
        axes.set_xlabel("held-out contexts, in order")
        axes.set_xticks([])

    return _panel(name, draw)


def error_panel(name: str, distance: Floats, error: Floats, outside: NDArray[np.bool_]) -> str:
    """Error of each held-out context over its distance to the nearest measured one."""

    def draw(axes: Axes) -> None:
        for group, marker, colour in ((~outside, "o", "mean"), (outside, "^", "bad")):
            rows = _spread(np.flatnonzero(group & np.isfinite(error)))
            axes.scatter(
                distance[rows], 100 * error[rows], marker=marker, s=20, alpha=0.8,
                facecolors="none" if marker == "o" else _COLOURS[colour],
                edgecolors=_COLOURS[colour], linewidths=1,
            )  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.set_ylabel("error [%]")
        axes.set_xlabel("distance to the nearest measured")

    return _panel(name, draw)


def place_panel(
    name: str, places: Floats, measured: Floats, error: Floats, outside: NDArray[np.bool_]
) -> str:
    """Errors (n,) of held-out contexts over their levels (n, 2) of two resources.

    Areas are proportional to errors.  Contexts outside of the measured ones (n_known, 2), which are
    dots, are triangles.
    """

    def draw(axes: Axes) -> None:
        finite = np.isfinite(error)
        largest = float(error[finite].max(initial=0.0)) or 1.0
        for group, marker, colour in ((~outside, "o", "mean"), (outside, "^", "bad")):
            rows = _spread(np.flatnonzero(group & finite))
            axes.scatter(
                *places[rows].T, s=np.maximum(_LARGEST * error[rows] / largest, 3), marker=marker,
                facecolors="none", edgecolors=_COLOURS[colour], linewidths=1.2,
            )  # fmt: skip
        dots = np.unique(measured, axis=0)
        axes.scatter(*dots[_spread(np.arange(len(dots)))].T, s=9, color=_COLOURS["measured"])
        axes.margins(0.1)

    return _panel(name, draw)


def ratio_panel(
    name: str, places: Floats, labels: Sequence[str], band: tuple[Floats, Floats, Floats]
) -> str:
    """Ratios of contexts with their band (value, low, high), (n,) each, as changes [%].

    Contexts of one level of a resource stand side by side; `labels` are words of its levels.
    """

    def draw(axes: Axes) -> None:
        value, low, high = (100 * (part - 1) for part in band)
        levels, level = np.unique(places, return_inverse=True)
        x = np.empty(len(places))
        for i in range(len(levels)):
            rows = np.flatnonzero(level == i)
            x[rows[np.argsort(value[rows], kind="stable")]] = (
                i + 0.7 * (np.arange(len(rows)) + 0.5) / len(rows) - 0.35
            )
        shown = _spread(np.argsort(x, kind="stable"))
        _bars(axes, x[shown], low[shown], high[shown], "measured")
        axes.scatter(x[shown], value[shown], s=9, color=_COLOURS["mean"], zorder=3)
        axes.axhline(0, color=_COLOURS["fg"], linewidth=1.2, linestyle=(0, (5, 3)))
        ticks = np.unique(np.linspace(0, len(levels) - 1, min(len(levels), 6)).round().astype(int))
        axes.set_xticks(
            ticks,
            [str(t + 1) if labels else f"{levels[t]:.4g}" for t in ticks],  # no names are drawn
        )
        axes.set_ylabel("change [%]")

    return _panel(name, draw)


def course_panel(
    name: str, versions: Sequence[tuple[Floats, Floats]], shaded: Sequence[Sequence[float]]
) -> str:
    """Amounts (bins,) between edges (bins + 1,) of the old and the new version, over the work.

    The stretches `shaded` changed.
    """

    def draw(axes: Axes) -> None:
        for begin, end in shaded:
            axes.axvspan(100 * begin, 100 * end, color=_COLOURS["bad"], alpha=0.2, linewidth=0)
        for (edges, amounts), colour in zip(versions, ("measured", "mean")):
            axes.stairs(amounts, 100 * edges, color=_COLOURS[colour], linewidth=1.4, baseline=None)
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("work [%]")

    return _panel(name, draw)


def residual_panel(name: str, errors: Floats, tol: float) -> str:
    """Marginal error of every pair of snapshots, with the tolerance."""

    def draw(axes: Axes) -> None:
        axes.semilogy(
            np.arange(1, len(errors) + 1), np.maximum(errors, 1e-17), color=_COLOURS["mean"],
            marker="o", markersize=3, linewidth=1.2,
        )  # fmt: skip
        axes.axhline(tol, color=_COLOURS["fg"], linewidth=1.2, linestyle=(0, (5, 3)))
        low = float(max(errors.min(initial=tol), 1e-17))
        axes.set_ylim(min(low, tol) / 10, max(float(errors.max(initial=tol)), tol) * 10)
        ends = axes.get_ylim()
        ticks = np.arange(np.ceil(np.log10(ends[0])), np.floor(np.log10(ends[1])) + 1)
        ticks = ticks[:: max(1, len(ticks) // 4)]
        axes.set_yticks(10.0**ticks, [f"1e{int(tick):d}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylabel("marginal error")
        axes.set_xlabel("pair of snapshots")

    return _panel(name, draw)


def plan_panel(name: str, seconds: Floats, error: Floats) -> str:
    """Expected error over the seconds that a plan takes."""

    def draw(axes: Axes) -> None:
        time = np.concatenate([[0.0], np.cumsum(seconds)])
        axes.step(
            time, 100 * error, where="post", color=_COLOURS["mean"], linewidth=1.5, marker="o",
            markersize=4,
        )  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.set_ylabel("expected error [%]")
        axes.set_xlabel("seconds of measuring")

    return _panel(name, draw)


def _bars(axes: Axes, x: NDArray[Any], low: Floats, high: Floats, colour: str) -> None:
    """Vertical lines, as one path; a line without length is a dot."""
    gap = np.full(len(x), np.nan)
    width = float(np.clip(200 / max(len(x), 1), 1.0, 6.0))
    axes.plot(
        np.column_stack([x, x, gap]).ravel(), np.column_stack([low, high, gap]).ravel(),
        color=_COLOURS[colour], linewidth=width, solid_capstyle="butt",
    )  # fmt: skip
    single = low == high
    if single.any():
        axes.plot(
            x[single], low[single], linestyle="none", marker="o", markersize=max(width, 3.0),
            markeredgewidth=0, color=_COLOURS[colour],
        )  # fmt: skip


def _spread(rows: NDArray[Any]) -> NDArray[Any]:
    """Evenly spaced rows, with the first and the last."""
    if len(rows) <= _MOST_POINTS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, _MOST_POINTS).round().astype(int)]


def _length(profiles: Floats) -> int:
    """Intervals until the last of the profiles (n, times) ends, at least one."""
    there = np.flatnonzero(np.isfinite(profiles).any(axis=0))
    return int(there[-1]) + 1 if len(there) else 1


def _times(n: int, interval: float) -> Floats:
    """Middles of n intervals [s]."""
    return interval * (np.arange(n, dtype=np.float64) + 0.5)


def _coarse(profiles: NDArray[Any], step: int) -> NDArray[Any]:
    """Means over `step` intervals (n, times); NaN where all are NaN."""
    if step == 1:
        return profiles
    n = profiles.shape[1] // step * step or profiles.shape[1]
    parts = profiles[:, :n].reshape(len(profiles), -1, min(step, n))
    there = np.isfinite(parts).sum(axis=2)
    return np.where(there > 0, np.nansum(parts, axis=2) / np.maximum(there, 1), np.nan)


def _panel(name: str, draw: Callable[[Axes], None]) -> str:
    """SVG of one pair of axes, to be embedded with others."""
    matplotlib = load_library("matplotlib", "report", "reports")
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {**_STYLE, "svg.hashsalt": name}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained")
        canvas = FigureCanvasSVG(figure)
        axes = figure.subplots()
        axes.grid(axis="y", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.locator_params(nbins=5)
        draw(axes)
        text = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        # as `savefig`, which draws everything once more before
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine("none")
        canvas.print_svg(text, metadata=nothing)
    return tidied(text.getvalue(), name)


def tidied(svg: str, name: str) -> str:
    """SVG file as an element of a page.

    Without what only a file has, with identifiers that no other panel has, coordinates to a tenth
    of a pixel, and the style sheet's colours.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r' d="([^"]+)"', lambda m: f' d="{_short(m[1])}"', svg)
    svg = re.sub(r' (x|y)="(-?[\d.]+)"', lambda m: f' {m[1]}="{_short(m[2])}"', svg)
    svg = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", svg)
    svg = re.sub(r" font-family: [^;]*;", "", svg).replace("xlink:href", "href")
    for variable, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    head = f'<svg class="panel" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    svg = re.sub(r"<svg[^>]*>", head + ' aria-hidden="true" focusable="false">', svg, count=1)
    return re.sub(r">\s+<", "><", svg).strip()


def _short(path: str) -> str:
    """Path with coordinates to a tenth of a pixel."""
    numbers = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), path)
    return " ".join(numbers.split())
