"""Comparisons of two versions in words: sentences, a text table, and Markdown.

All functions take the results as ``Comparison.as_dict`` returns them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import printable
from msbgen.data.schema import level_text
from msbgen.output.report.formatting import shortened

Values = Mapping[str, Any]

# A rule in words may be wrong for at most this share of the contexts.
_EXCEPTIONS = 0.1
# Smaller changes of a counter in a stretch are not listed: sampling intervals at its ends share
# events with its neighbours.
_LEAST_CHANGE = 0.02
# Smaller changes of a whole counter are not listed.
_LEAST_TOTAL = 0.001
# Work whose place is known worse than this, as a share of the work, is listed with its range.
_PLACED = 0.03
# Most lines of a comment on a change.
_MOST_LISTED = 20
# Signs that mark text up in Markdown or HTML, and what begins a link or a mention, escaped.
_MARKUP = "\\`*_[]|#<>&@~$"
_LINKED = re.compile(r"&#(35|64);|:(?=//)|www(?=[.])|GH(?=-\d)|[!%](?=\w)", re.IGNORECASE)
# Versions whose numbers of slowed-down runs are less likely alike differ in them.
_UNLIKELY = 0.05


def verdict_of(values: Values) -> str:
    """The verdict: ``slower by 0.5 % (95 % interval 0.3 % to 0.7 %)``."""
    time, verdict = values["time"], values["verdict"]
    interval = (
        f"{100 * values['confidence']:g} % interval {_signed(time['low'])} to "
        f"{_signed(time['high'])}"
    )
    if verdict in ("slower", "faster"):
        sign = 1 if verdict == "slower" else -1
        ends = sorted(sign * (time[end] - 1) for end in ("low", "high"))
        return (
            f"{verdict} by {_share(abs(time['ratio'] - 1))} ({100 * values['confidence']:g} % "
            f"interval {_share(ends[0])} to {_share(ends[1])})"
        )
    if verdict == "same":
        return f"the same within {_share(values['tolerance'])} ({interval})"
    return f"undecided: {_signed(time['ratio'])} ({interval})"


def sentences_of(values: Values) -> list[str]:
    """The answer in sentences: verdict, contexts, counters, smallest change, and further runs."""
    where = where_of(values)
    out = [f"{_name(values['task'])}: {verdict_of(values)}.", f"By context: {where}."]
    if values["totals"]:
        out.append(f"Counters: {totals_of(values)}.")
    if math.isfinite(values["detectable"]):
        out.append(
            f"These runs would have found a change of {_share(values['detectable'])} nine times "
            f"in ten."
        )
    if values["more_runs"]:
        runs = "run" if values["more_runs"] == 1 else "runs"
        out.append(
            f"About {values['more_runs']:,} more {runs} of each version in every context would "
            f"decide, if the change is {_signed(values['time']['ratio'])}."
        )
    return out


def where_of(values: Values) -> str:
    """Contexts that differ, by the simplest rule of one resource: ``slower only below 6 …``."""
    low, high = np.array(values["low"]), np.array(values["high"])
    parts = []
    for word, differs in (("slower", low > 1), ("faster", high < 1)):
        if differs.all():
            parts.append(f"{word} in every context")
        elif differs.any():
            rule = _rule(values, differs)
            rule = rule or f"in {differs.sum():,} of {len(differs):,} contexts"
            parts.append(f"{word} {rule}")
    return ", ".join(parts) or "no single context differs for certain"


def totals_of(values: Values) -> str:
    """Counters whose totals differ, with their intervals: ``instructions +2.1 % (1.9 % to …)``."""
    level = (1 - values["confidence"]) / len(values["totals"])
    parts = [
        f"{_name(name)} {_signed(one['ratio'])} ({_signed(one['low'])} to {_signed(one['high'])})"
        for name, one in values["totals"].items()
        if one["p_value"] < level and abs(one["ratio"] - 1) >= _LEAST_TOTAL
    ]
    return ", ".join(parts) or "no total differs for certain"


def change_of(change: Values, confidence: float) -> str:
    """What changed in a stretch: ``same counts, 4.7 % slower``, ``cache_misses +20 %``."""
    if not change["ratios"]:
        length = max(change[part][1] - change[part][0] for part in ("old", "new"))
        return f"{change['quantity']} work, {_share(length)} of the {_side(change)} work"
    level = (1 - confidence) / len(change["ratios"])
    clear = {
        name: ratio["ratio"]
        for name, ratio in change["ratios"].items()
        if name == change["quantity"]
        or (ratio["p_value"] < level and abs(ratio["ratio"] - 1) >= _LEAST_CHANGE)
    }
    time = clear.pop("time", None)
    if time is not None and not clear and change["quantity"] in change["ratios"]:
        return f"same counts, {_share(abs(time - 1))} {'slower' if time > 1 else 'faster'}"
    parts = [f"{_name(name)} {_signed(ratio)}" for name, ratio in clear.items()]
    if change["quantity"] not in change["ratios"]:  # without counts there is no ratio
        parts.insert(0, f"{_name(change['quantity'])} without counts in one version")
    parts.append("same time" if time is None else f"time {_signed(time)}")
    return ", ".join(parts)


def changes_of(values: Values) -> list[list[str]]:
    """Rows of the changes, as they come in the old work: work of both, what changed, contexts."""
    return [
        [
            *_stretches(change),
            change_of(change, values["confidence"]),
            _group(values, change),
        ]
        for change in sorted(values["changes"], key=lambda change: change["old"])
    ]


def notes_of(values: Values) -> list[str]:
    """What limits a comparison, a sentence each."""
    out = []
    if values["same_program"] is False:
        out.append(
            "the counters of most of the work look different: these are different programs, and "
            "stretches are not compared."
        )
    if values["noise"] == "neighbours":
        out.append(
            "each context has one run of a version: the noise is that between neighbouring "
            "contexts; measure two runs for safer intervals."
        )
    if values["stretched_p"] is not None and values["stretched_p"] < _UNLIKELY:
        counts = [f"{s} of {n}" for s, n in zip(values["stretched_runs"], values["runs"])]
        out.append(
            f"{counts[0]} old and {counts[1]} new runs had a slowed-down part and were left out; "
            f"the numbers differ (p = {values['stretched_p']:.2g}), which may be the change."
        )
    return [*out, *map(printable, values["notes"])]


def text_of(comparisons: Sequence[Values]) -> str:
    """Comparisons as plain text: sentences, tables and notes."""
    blocks = []
    if len(comparisons) > 1:
        blocks.append(_aligned([["task", "time", "verdict"], *map(_row, comparisons)]))
    for values in comparisons:
        lines = sentences_of(values)
        if values["changes"]:
            head = ["old work", "new work", "what changed", "contexts"]
            lines += ["", _aligned([head, *changes_of(values)])]
        lines += [f"Note: {note}" for note in notes_of(values)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def markdown_of(comparisons: Sequence[Values]) -> str:
    """Comparisons as Markdown, short enough for a comment on a change."""
    lines = ["| task | time | verdict |", "|---|---|---|"]
    order = sorted(comparisons, key=lambda values: values["verdict"] not in ("slower", "faster"))
    for values in order[:_MOST_LISTED]:
        lines.append("| " + " | ".join(map(_escaped, _row(values))) + " |")
    if len(order) > _MOST_LISTED:
        lines.append(f"\n{len(order) - _MOST_LISTED} more tasks are not listed.")
    for values in order[:_MOST_LISTED]:
        details = [f"- {_escaped(s)}" for s in sentences_of(values)[1:]]
        details += [
            f"- work {_escaped(old)}: {_escaped(what)}, {_escaped(contexts)}"
            for old, _, what, contexts in changes_of(values)
        ]
        details += [f"- note: {_escaped(note)}" for note in notes_of(values)]
        title = f"<summary>{_escaped(_name(values['task']))}</summary>"
        lines += ["", f"<details>{title}", "", *details, "", "</details>"]
    return "\n".join(lines)


def _row(values: Values) -> list[str]:
    return [_name(values["task"]), _signed(values["time"]["ratio"]), verdict_of(values)]


def _name(text: str) -> str:
    return shortened(text, 40)


def _escaped(text: str) -> str:
    """Text without markup of Markdown or HTML, links and mentions, in both of them.

    A backslash is text within HTML, as in the title of details; a numeric reference is none.  A
    comment splits what services make a link of after the references are resolved.
    """
    text = "".join(f"&#{ord(sign)};" if sign in _MARKUP else sign for sign in text)
    return _LINKED.sub(lambda found: f"{found[0]}<!-- -->", text)


def _share(value: float) -> str:
    """A share in per cent with two digits, at most hundredths: ``0.52 %``."""
    return f"{100 * value:.{2 if abs(value) < 0.01 else 1}f} %".replace(".0 %", " %")


def _signed(ratio: float) -> str:
    """A ratio as a signed change in per cent: ``+4.7 %``."""
    return f"{'+' if ratio >= 1 else '−'}{_share(abs(ratio - 1))}"


def _stretch(span: Sequence[float]) -> str:
    if span[1] - span[0] < 1e-9:
        return f"at {100 * span[0]:.1f} %"
    return f"{100 * span[0]:.1f} to {100 * span[1]:.1f} %"


def _stretches(change: Values) -> tuple[str, str]:
    """Where a change is in the old and in the new work; the range of an uncertain place."""
    first, last = change["begins"]
    if last - first <= _PLACED:
        return _stretch(change["old"]), _stretch(change["new"])
    end = last + change["old"][1] - change["old"][0]
    return f"between {100 * max(0.0, first):.0f} and {100 * min(1.0, end):.0f} %", "unclear"


def _side(change: Values) -> str:
    return "old" if change["old"][1] - change["old"][0] > 1e-9 else "new"


def _rule(values: Values, differs: NDArray[np.bool_]) -> str:
    """The simplest rule of one resource that holds for most contexts; empty without one."""
    contexts = np.array(values["contexts"], dtype=float).reshape(len(differs), -1)
    best, rule = _EXCEPTIONS * min(differs.sum(), (~differs).sum()) + 1e-9, ""
    for r, column in enumerate(contexts.T):
        levels = np.unique(column)
        candidates = [(column == level, f"at {_level(values, r, level)}") for level in levels]
        if not values["resources"][r]["labels"]:
            for level in levels[1:]:
                text = _level(values, r, level)
                candidates += [(column < level, f"below {text}"), (column >= level, f"from {text}")]
        for members, text in candidates:
            wrong = int((members != differs).sum())
            if wrong < best or (wrong == 0 and not rule):
                best, rule = wrong, f"only {text}" if wrong == 0 else f"mostly {text}"
    return rule


def _level(values: Values, resource: int, level: float) -> str:
    """A level with its resource: ``6 cache ways``, ``batch size 64``, ``frequency 1.7 GHz``."""
    one = values["resources"][resource]
    name, units, text = _name(one["name"]), one["units"], level_text(level, one["labels"])
    if units not in ("", "1"):
        return f"{name} {text} {shortened(units, 20)}"
    name = name.replace("_", " ")
    return f"{text} {name}" if name.endswith("s") and not one["labels"] else f"{name} {text}"


def _group(values: Values, change: Values) -> str:
    if change["resource"] < 0:
        return "all contexts"
    side = "below" if change["below"] else "from"
    return f"{side} {_level(values, change['resource'], change['level'])}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows, the header first, as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)
