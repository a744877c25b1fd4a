"""A comparison of two versions as one self-contained HTML file."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from msbgen.data.files import check_output, replace_file
from msbgen.output.report import comparison, figures, maps, page

# Quantities whose course is drawn, and contexts that the table lists.
_MOST_DRAWN, _MOST_LISTED = 6, 100


def check_path(path: str | os.PathLike[str]) -> Path:
    """The path of a page; ArgumentError where it is none, or the extra is missing."""
    checked, _ = page.report_files(path)
    page.check_extra()
    return checked


def write_page(
    path: str | os.PathLike[str], values: comparison.Values, *, overwrite: bool = False
) -> None:
    """Write the page of a comparison, as ``Comparison.as_dict`` returns it.

    Raises
    ------
    ArgumentError
        The path does not end in ``.html``, or the extra ``report`` is not installed.
    FileExistsError
        The file exists and `overwrite` is False.
    """
    checked = check_path(path)
    check_output(checked, overwrite=overwrite)
    text = render(values)
    with replace_file(checked, overwrite=overwrite) as partial:
        partial.write_text(text, encoding="utf-8")


def render(values: comparison.Values) -> str:
    """HTML of a comparison; equal values give equal bytes."""
    ratio, low, high = (np.array(values[name]) for name in ("ratio", "low", "high"))
    table = np.array(values["contexts"], dtype=float).reshape(len(ratio), -1)
    axes = maps.MapGrid.of_durations(table, ratio).axes
    largest = np.argsort(-np.abs(np.log(ratio)), kind="stable")[:_MOST_LISTED]
    return page.environment().get_template("comparison.html").render(
        values=values,
        sentences=comparison.sentences_of(values),
        changes=comparison.changes_of(values),
        notes=comparison.notes_of(values),
        differ=f"{int(((low > 1) | (high < 1)).sum()):,}",
        style=page.style(),
        ratios=[
            {
                "resource": values["resources"][axis],
                "svg": figures.ratio_panel(
                    f"ratio{axis}", table[:, axis], values["resources"][axis]["labels"],
                    (ratio, low, high),
                ),
            }
            for axis in axes
        ],
        courses=_courses(values),
        rows=largest.tolist(),
    )  # fmt: skip


def _courses(values: comparison.Values) -> list[dict[str, Any]]:
    """Panels of the time and the counters over the work, where versions share contexts."""
    course = values["course"]
    if course is None:
        return []
    shaded = []
    for change in values["changes"]:
        side = "new" if change["old"][1] - change["old"][0] < 1e-9 else "old"
        edges = course[f"{side}_edges"]
        shaded.append(np.interp(change[side], np.linspace(0, 1, len(edges)), edges).tolist())
    lines = [(np.array(course[f"{side}_edges"]), np.array(course[side])) for side in ("old", "new")]
    return [
        {
            "quantity": name,
            "svg": figures.course_panel(
                f"course{q}", [(edges, amounts[:, q]) for edges, amounts in lines], shaded
            ),
        }
        for q, name in enumerate(course["quantities"][:_MOST_DRAWN])
    ]
