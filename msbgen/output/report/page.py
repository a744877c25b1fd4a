"""The report as one self-contained HTML file, with its numbers as JSON beside it."""

import base64
import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.machine import load_library
from msbgen.data.files import check_output, path_of, replace_file, write_json
from msbgen.data.schema import level_text
from msbgen.output.report import charts, figures, formatting, maps, summary
from msbgen.output.report.data import HeldOutScores, ReportData, Unavailable
from msbgen.output.report.numbers import loose_region, numbers_of, worst_region
from msbgen.output.report.verdict import verdict_of

if TYPE_CHECKING:
    import jinja2

Floats = NDArray[np.float64]

_FOLDER = Path(__file__).resolve().parent
# Counters whose profiles are drawn at each held-out context.
_MOST_COUNTERS = 6
# Maps that are printed, each with its table.
_MOST_PRINTED = 4
# Contexts that a table without maps lists.
_MOST_LISTED = 500
# Longer words may be broken.
_LONGEST_WORD = 24
# Metrics of the table of methods, with what their columns are called and how they are written.
_METRICS = {
    "ndtw_scaled": ("profile", "share"),
    "ndtw": ("counts", "share"),
    "duration_error": ("duration", "share"),
    "energy_distance": ("spread", "number"),
}
# Descriptions of the methods.
_METHODS = {
    "default/mean": "the model's mean profile",
    "default/max_likelihood": "the model's most likely profile",
    "default/sample": "one random profile of the model",
    "bracketing": "the mean of the two closest measured contexts around it",
    "nearest_context": "the profile of the nearest measured context",
    "log_log": "interpolation of logarithms over logarithms of the levels",
    "reciprocal": "least squares of a + b / level over all resources",
    "multilinear": "linear interpolation between the measured contexts around it",
    "kernel_mean": "the mean of all measured contexts, weighted by closeness",
}


def write_report(
    path: str | os.PathLike[str], data: ReportData, *, overwrite: bool = False
) -> tuple[Path, Path]:
    """Write a report, ``NAME.html``, and its numbers beside it, ``NAME.json``.

    Returns both paths.  Equal data give equal bytes.

    Raises
    ------
    ArgumentError
        The path does not end in ``.html``, or the extra ``report`` is not installed.
    FileExistsError
        One of the files exists and `overwrite` is False.
    OSError
        One of them cannot be written.
    """
    page, numbers = report_files(path)
    for file in (page, numbers):
        check_output(file, overwrite=overwrite)
    check_extra()
    found = numbers_of(data)
    sentences = verdict_of(formatting.Numbers(found))
    found["verdict"] = [formatting.plain(sentence) for sentence in sentences]
    text = render(data, found, numbers.name)
    with replace_file(page, overwrite=overwrite) as partial:
        partial.write_text(text, encoding="utf-8")
    write_json(found, numbers, overwrite=overwrite)
    return page, numbers


def report_files(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The two files of a report: the page, whose name must end in ``.html``, and its numbers."""
    page = path_of(path)
    if page.suffix != ".html":
        raise ArgumentError(f"path is '{page}'; a file that ends in .html is wanted.")
    return page, page.with_suffix(".json")


def check_extra() -> None:
    """Raise :class:`ArgumentError` where the extra ``report`` is not installed."""
    for name in ("jinja2", "matplotlib"):
        load_library(name, extra="report", purpose="reports")


def verdict(data: ReportData) -> list[str]:
    """The headline and the three sentences of the verdict."""
    return [
        formatting.plain(sentence) for sentence in verdict_of(formatting.Numbers(numbers_of(data)))
    ]


@cache
def environment() -> "jinja2.Environment":
    """Templates of pages, with the formats of numbers and names; each is compiled once."""
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.globals.update(zip=zip)
    templates.filters.update(
        short=formatting.shortened,
        unit=formatting.unit_of,
        unwieldy=lambda text: any(len(word) > _LONGEST_WORD for word in text.split()),
        unit_label=formatting.labelled_unit,
        level=formatting.as_level,
        named=level_text,
        form=lambda value, name: formatting.FORMS[name](value),
    )
    return templates


def style() -> str:
    """Style sheet of pages."""
    return (_FOLDER / "page.css").read_text(encoding="utf-8")


def render(data: ReportData, numbers: dict[str, Any], beside: str) -> str:
    """HTML of a report; `numbers` include the verdict and are in the file `beside` it."""
    look_up = formatting.Numbers(numbers)
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    everywhere = data.everywhere
    contexts = numbers["everywhere"]
    grid = maps.MapGrid.of_durations(
        np.array(contexts["context"], dtype=float), np.array(contexts["duration"])
    )
    shade, _ = maps.shades_of(np.array(contexts["duration"]))
    loose = loose_region(numbers["held_out"])
    drawn = charts.charts_of(grid, contexts, numbers["measured"])
    hatched, dotted = np.array(contexts["extrapolated"]), np.array(contexts["measured"])
    return (
        environment()
        .get_template("page.html")
        .render(
            number=look_up,
            numbers=numbers,
            verdict=verdict_of(look_up),
            tiles=summary.tiles(look_up),
            rule=summary.rule_of_light(numbers["held_out"]),
            metrics=_METRICS,
            methods=_METHODS,
            beside=beside,
            address=quote(beside),
            style=style(),
            script=script,
            digest=digest,
            panels=_panels(data, numbers, grid),
            shown=list(_shown(data)),
            all_drawn=len(numbers["measured"]["counters"]) <= _MOST_COUNTERS,
            worst_region=worst_region(numbers["held_out"]),
            grid=grid,
            charts=drawn,
            maps=maps.maps_of(grid, shade, hatched, dotted),
            printed=_MOST_PRINTED,
            listed=list(range(min(contexts["contexts"], _MOST_LISTED))),
            embedded={
                **maps.embedded(
                    everywhere.profiles, everywhere.spread, grid, contexts, contexts["measured"]
                ),
                "chart": None if drawn is None else drawn.embedded(),
                "loose": None if loose is None else numbers["held_out"]["regions"][loose],
            },
        )
    )


def _panels(data: ReportData, numbers: dict[str, Any], grid: maps.MapGrid) -> dict[str, str]:
    """Single panels by name."""
    measured, held = numbers["measured"], numbers["held_out"]
    panels = {
        "durations": figures.span_panel(
            "durations",
            *(np.array(measured[n]) for n in ("duration_least", "duration", "duration_most")),
        )
    }
    if isinstance(data.held_out, HeldOutScores):
        panels["errors"] = figures.error_panel(
            "errors",
            np.array(held["distance"]),
            np.array(held["context_error"], dtype=float),
            np.array(held["extrapolated"], dtype=bool),
        )
        if len(grid.axes) > 1:
            panels["places"] = figures.place_panel(
                "places",
                np.array(held["context"], dtype=float)[:, grid.axes],
                np.array(measured["context"], dtype=float)[:, grid.axes],
                np.array(held["context_error"], dtype=float),
                np.array(held["extrapolated"], dtype=bool),
            )
        bounds = data.held_out.bounds
        if not isinstance(bounds, Unavailable):
            ended = data.held_out.truth.ended
            panels["bounds"] = figures.bound_panel("bounds", ended, bounds.duration)
    convergence = data.convergence
    if not isinstance(convergence, Unavailable) and len(convergence.errors):
        panels["residuals"] = figures.residual_panel(
            "residuals", convergence.errors, convergence.tol
        )
    if not isinstance(data.next, Unavailable) and data.next.pays:
        panels["plan"] = figures.plan_panel("plan", data.next.seconds, data.next.error)
    return panels


def _shown(data: ReportData) -> Iterator[dict[str, Any]]:
    """Held-out contexts to draw, with a panel for each counter."""
    held = data.held_out
    if isinstance(held, Unavailable):
        return
    truth = held.truth
    for one in held.shown:
        runs = truth.counts[one.row]
        runs = runs[np.isfinite(runs).any(axis=(1, 2))]
        samples = None if isinstance(one.samples, Unavailable) else one.samples
        yield {
            "place": one.place,
            "row": one.row,
            "why": one.samples.why if isinstance(one.samples, Unavailable) else "",
            "panels": [
                {
                    "counter": name,
                    "units": str(attrs.get("units", "1")),
                    "svg": figures.profile_panel(
                        f"{one.place}-{k}",
                        runs[..., k],
                        one.mean[:, k],
                        None if samples is None else samples[..., k],
                        truth.interval,
                    ),
                }
                for k, (name, attrs) in enumerate(list(truth.counters.items())[:_MOST_COUNTERS])
            ],
        }
