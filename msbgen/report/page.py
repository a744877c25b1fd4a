"""The report as one HTML file that asks for nothing else, and its numbers as JSON beside it."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.machine import load_library
from msbgen.data.files import check_output, replace_file, write_json
from msbgen.data.schema import (
    count_array,
    counter_names,
    ended_durations,
    sampling_interval,
)
from msbgen.report import figures, maps
from msbgen.report.data import HeldOutScores, ReportData, Unavailable
from msbgen.report.formatting import (
    FORMS,
    Numbers,
    as_level,
    labelled_unit,
    plain,
    shortened,
    unit_of,
)
from msbgen.report.numbers import loose_region, numbers_of, worst_region
from msbgen.report.verdict import verdict_of

Floats = NDArray[np.float64]

_FOLDER = Path(__file__).resolve().parent
# Counters whose profiles are drawn at each held-out context.
_MOST_COUNTERS = 6
# Maps that are printed, each with its table.
_MOST_PRINTED = 4
# Contexts that a table without maps lists.
_MOST_LISTED = 500
# Longer words may break anywhere; others stay whole.
_LONGEST_WORD = 24
# Metrics of the table of methods, with what their columns are called and how they are written.
_METRICS = {
    "ndtw_scaled": ("profile", "share"),
    "ndtw": ("counts", "share"),
    "duration_error": ("duration", "share"),
    "energy_distance": ("spread", "number"),
}
# What the methods of that table do.
_METHODS = {
    "default/mean": "the model's mean profile",
    "default/max_likelihood": "the model's most likely profile",
    "default/sample": "one random profile of the model",
    "bracketing": "the mean of the two measured contexts that enclose it most tightly",
    "nearest_context": "the profile of the nearest measured context",
    "multilinear": "linear interpolation between the measured contexts around it",
    "kernel_mean": "the mean of all measured contexts, near ones weighing more",
}


def write_report(
    path: str | os.PathLike[str], material: ReportData, *, overwrite: bool = False
) -> tuple[Path, Path]:
    """Write a report, ``NAME.html``, and its numbers beside it, ``NAME.json``.

    Equal material makes equal bytes.

    Parameters
    ----------
    path : str or os.PathLike
        Of the page; it ends in ``.html``.
    material : ReportData
    overwrite : bool

    Returns
    -------
    tuple of pathlib.Path
        The page, and its numbers.

    Raises
    ------
    ArgumentError
        A path that does not end in ``.html``; jinja2 or matplotlib, of the extra ``report``, is not
        installed.
    FileExistsError
        One of the files exists and `overwrite` is False.
    OSError
        One of them cannot be written.
    """
    page, numbers = report_files(path)
    for file in (page, numbers):
        check_output(file, overwrite=overwrite)
    check_extra()
    found = numbers_of(material)
    sentences = verdict_of(Numbers(found))
    found["verdict"] = [plain(sentence) for sentence in sentences]
    text = render(material, found, numbers.name)
    with replace_file(page, overwrite=overwrite) as partial:
        partial.write_text(text, encoding="utf-8")
    write_json(found, numbers, overwrite=overwrite)
    return page, numbers


def report_files(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The two files of a report: the page, and its numbers.

    Raises
    ------
    ArgumentError
        The path does not end in ``.html``.
    """
    page = Path(path)
    if page.suffix != ".html":
        raise ArgumentError(f"path is '{page}'; a file that ends in .html is wanted.")
    return page, page.with_suffix(".json")


def check_extra() -> None:
    """Raise ArgumentError, with the remedy, where what reports are made with is not installed."""
    for name in ("jinja2", "matplotlib"):
        load_library(name, extra="report", purpose="reports")


def verdict(material: ReportData) -> list[str]:
    """The three sentences that a report begins with."""
    return [plain(sentence) for sentence in verdict_of(Numbers(numbers_of(material)))]


def render(material: ReportData, numbers: dict[str, Any], beside: str) -> str:
    """The page of a material whose numbers, verdict included, are known and in a file beside it."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    look_up = Numbers(numbers)
    environment.globals.update(number=look_up, zip=zip)
    environment.filters.update(
        short=shortened,
        unit=unit_of,
        unwieldy=lambda text: any(len(word) > _LONGEST_WORD for word in text.split()),
        unit_label=labelled_unit,
        level=as_level,
        form=lambda value, name: FORMS[name](value),
    )
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    everywhere = material.everywhere
    told = numbers["everywhere"]
    grid = maps.MapGrid.of(np.array(told["context"], dtype=float), np.array(told["duration"]))
    shade, _ = maps.shades_of(np.array(told["duration"]))
    hatched, dotted = np.array(told["extrapolated"]), np.array(told["measured"])
    return environment.get_template("page.html").render(
        numbers=numbers,
        verdict=verdict_of(look_up),
        metrics=_METRICS,
        methods=_METHODS,
        beside=beside,
        address=quote(beside),
        style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        script=script,
        digest=digest,
        panels=_panels(material, numbers, grid),
        shown=list(_shown(material)),
        all_drawn=len(numbers["measured"]["counters"]) <= _MOST_COUNTERS,
        worst_region=worst_region(numbers["held_out"]),
        grid=grid,
        maps=maps.maps_of(grid, shade, hatched, dotted),
        printed=_MOST_PRINTED,
        listed=list(range(min(told["contexts"], _MOST_LISTED))),
        embedded={
            **maps.embedded(everywhere.profiles, everywhere.spread, grid, told, told["measured"]),
            "loose": _loose(numbers["held_out"]),
        },
    )


def _loose(held: dict[str, Any]) -> dict[str, Any] | None:
    """Where bounds fail most, as the script marks it on a chosen context."""
    region = loose_region(held)
    return None if region is None else held["regions"][region]


def _panels(material: ReportData, numbers: dict[str, Any], grid: maps.MapGrid) -> dict[str, str]:
    """The panels that stand alone, by name."""
    measured, held = numbers["measured"], numbers["held_out"]
    found = {
        "durations": figures.span_panel(
            "durations",
            *(np.array(measured[n]) for n in ("duration_least", "duration", "duration_most")),
        )
    }
    if isinstance(material.held_out, HeldOutScores):
        found["errors"] = figures.error_panel(
            "errors",
            np.array(held["distance"]),
            np.array(held["context_error"], dtype=float),
            np.array(held["extrapolated"], dtype=bool),
        )
        if len(grid.axes) > 1:
            found["places"] = figures.place_panel(
                "places",
                np.array(held["context"], dtype=float)[:, grid.axes],
                np.array(measured["context"], dtype=float)[:, grid.axes],
                np.array(held["context_error"], dtype=float),
                np.array(held["extrapolated"], dtype=bool),
            )
        bounds = material.held_out.bounds
        if not isinstance(bounds, Unavailable):
            durations = ended_durations(material.held_out.truth)
            found["bounds"] = figures.bound_panel("bounds", durations, bounds.duration)
    convergence = material.convergence
    if not isinstance(convergence, Unavailable) and len(convergence.errors):
        found["residuals"] = figures.residual_panel(
            "residuals", convergence.errors, convergence.tol
        )
    if not isinstance(material.next, Unavailable):
        found["plan"] = figures.plan_panel("plan", material.next.seconds, material.next.error)
    return found


def _shown(material: ReportData) -> Iterator[dict[str, Any]]:
    """The held-out contexts that are drawn, each with a panel a counter."""
    held = material.held_out
    if isinstance(held, Unavailable):
        return
    truth, interval = held.truth, sampling_interval(held.truth)
    for one in held.shown:
        runs = count_array(truth.isel(context=[one.row]))[0]
        runs = runs[np.isfinite(runs).any(axis=(1, 2))]
        mean = count_array(one.mean)[0, 0]
        samples = None if isinstance(one.samples, Unavailable) else count_array(one.samples)[0]
        yield {
            "place": one.place,
            "row": one.row,
            "why": one.samples.why if isinstance(one.samples, Unavailable) else "",
            "panels": [
                {
                    "counter": name,
                    "units": str(truth[name].attrs.get("units", "1")),
                    "svg": figures.profile_panel(
                        f"{one.place}-{k}",
                        runs[..., k],
                        mean[:, k],
                        None if samples is None else samples[..., k],
                        interval,
                    ),
                }
                for k, name in enumerate(counter_names(truth)[:_MOST_COUNTERS])
            ],
        }
