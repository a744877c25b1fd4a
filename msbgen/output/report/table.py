"""The table of scores as text."""

from collections.abc import Mapping
from typing import Any

# Metrics of the table, in order, with the heads of their columns.
COLUMNS = {
    "ndtw": "nDTW raw",
    "ndtw_scaled": "nDTW scaled",
    "fastdtw": "fastdtw raw",
    "fastdtw_scaled": "fastdtw scaled",
    "duration_error": "duration",
    "energy_distance": "energy dist.",
}


def score_table(summary: Mapping[str, Any]) -> str:
    """Method × metric as aligned text, each score with its improvement over the baseline.

    The summary is that of :func:`msbgen.evaluate.scores.summarise`.

    Examples
    --------
    >>> row = {"ndtw": 0.0131, "duration_error": 0.004}
    >>> gain = {"improvement": {"ndtw": 0.81, "duration_error": 0.95}}
    >>> summary = {"n_contexts": 9, "n_contexts_undefined": 0, "methods": {"mean": row | gain}}
    >>> print(score_table(summary))
    method         nDTW raw        duration
    ---------------------------------------
    mean    0.0131 ( +81 %)  0.4 % ( +95 %)
    Lower is better; means over 9 contexts.
    """
    methods = summary["methods"]
    metrics = [m for m in COLUMNS if any(m in row for row in methods.values())]
    lines = [["method", *(COLUMNS[m] for m in metrics)]]
    for name, row in methods.items():
        cells = []
        for metric in metrics:
            if metric not in row:
                cells.append("not defined")
                continue
            better = row.get("improvement", {}).get(metric)
            gain = "" if better is None else f" ({100 * better:+4.0f} %)"
            is_share = metric == "duration_error"
            cells.append(
                (f"{100 * row[metric]:.1f} %" if is_share else f"{row[metric]:.4f}") + gain
            )
        lines.append([name, *cells])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = []
    for line in lines:
        first, rest = line[0].ljust(widths[0]), zip(line[1:], widths[1:])
        text.append("  ".join([first, *(cell.rjust(width) for cell, width in rest)]))
    text.insert(1, "-" * len(text[0]))
    foot = f"Lower is better; means over {summary['n_contexts']} contexts"
    if summary["n_contexts_undefined"]:
        foot += f" ({summary['n_contexts_undefined']} where a method is not defined are left out)"
    if "baseline" in summary:
        foot += f"; in brackets the improvement over '{summary['baseline']}'"
    return "\n".join([*text, foot + "."])
