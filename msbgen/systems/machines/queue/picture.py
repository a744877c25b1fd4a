"""What placements of jobs do at each load: a table, and curves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msbgen.core.machine import load_library
from msbgen.data.files import check_output, path_of, replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]

_DOTS_PER_INCH = 130
_MEASURES = {
    "makespan_over_bound": "makespan / lower bound",
    "slowdown": "mean bounded slowdown",
    "slowdown_against_fastest": "against the fastest machine",
}


def queue_table(rows: Rows) -> str:
    """Arrivals × placement as aligned text, with estimated times; true ones in brackets.

    `rows` are those of :func:`msbgen.machines.queue.compare.compare_variants`.

    Examples
    --------
    >>> row = {"arrivals": 0.7, "placement": "aware", "queue": "one", "times": "true",
    ...        "makespan": 90.0, "makespan_over_bound": 1.25, "slowdown": 2.0,
    ...        "slowdown_against_fastest": 3.0}
    >>> print(queue_table([row]))
    arrivals   placement    makespan / bound   slowdown   against fastest
    ---------------------------------------------------------------------
    load 0.7   aware, one   1.250              2.00       3.00
    """
    head = ["arrivals", "placement", "makespan / bound", "slowdown", "against fastest"]
    lines = [head]
    for row, true in _paired(rows):
        cells = [arrival_name(row["arrivals"]), _label(row)]
        for name, digits in zip(_MEASURES, (3, 2, 2)):
            beside = "" if true is row else f" ({true[name]:.{digits}f})"
            cells.append(f"{row[name]:.{digits}f}{beside}")
        lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = ["   ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    if any(true is not row for row, true in _paired(rows)):
        text.append("In brackets: with true times as estimates.")
    return "\n".join(text)


def plot_queues(rows: Rows, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Draw makespan and slowdown against load as PNG; needs the extra ``plot``.

    Errors are those of :func:`msbgen.data.files.replace_file`.
    """
    check_output(path_of(path), overwrite=overwrite)
    figure = queue_figure(rows)
    with replace_file(path, overwrite=overwrite) as partial:
        figure.savefig(partial, format="png", dpi=_DOTS_PER_INCH)


def queue_figure(rows: Rows) -> Figure:
    """A curve a placement over the arrivals, loads in their order.

    A panel each for makespan over its bound, and slowdown as of the paper and against the fastest
    machine, on logarithmic scales.  Dotted where there is one queue, thin and dashed with true
    times.
    """
    figures = load_library("matplotlib.figure", "plot", "the picture")
    loads = [a for a in _each(rows, "arrivals") if not isinstance(a, str)]
    ticks = [*sorted(loads), *(a for a in _each(rows, "arrivals") if isinstance(a, str))]
    pairs = list(_paired(rows))
    curves = list(dict.fromkeys(_label(row) for row, _ in pairs))
    placements = _each(rows, "placement")
    figure = figures.Figure(figsize=(11, 3.8), layout="constrained")
    for axis, (name, title) in zip(figure.subplots(1, len(_MEASURES)), _MEASURES.items()):
        for label in curves:
            curve = [(row, true) for row, true in pairs if _label(row) == label]
            curve.sort(key=lambda pair: ticks.index(pair[0]["arrivals"]))
            at = [ticks.index(row["arrivals"]) for row, _ in curve]
            colour = f"C{placements.index(curve[0][0]['placement']) % 10}"
            style = "s:" if curve[0][0]["queue"] == "one" else "o-"
            axis.plot(at, [row[name] for row, _ in curve], style, color=colour, label=label, ms=3)
            if any(true is not row for row, true in curve):
                values = [true[name] for _, true in curve]
                axis.plot(at, values, "--", color=colour, alpha=0.6, lw=1)
        axis.set_yscale("log")
        axis.set_xticks(range(len(ticks)), [arrival_name(a) for a in ticks])
        axis.set_title(title)
        axis.grid(alpha=0.3, which="both")
    figure.axes[0].legend(fontsize="x-small")
    return figure


def arrival_name(arrival: str | float) -> str:
    """How a table and a picture name when jobs come."""
    return arrival if isinstance(arrival, str) else f"load {arrival:g}"


def _label(row: Mapping[str, Any]) -> str:
    return row["placement"] + (", one" if row["queue"] == "one" else "")


def _each(rows: Rows, name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows))


def _paired(rows: Rows) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each row with estimates, and that with true times; the same twice where they are alike."""
    pairs: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        key = row["arrivals"], row["placement"], row["queue"]
        pairs.setdefault(key, {})[row["times"]] = row
    return [(times.get("estimated", times["true"]), times["true"]) for times in pairs.values()]
