"""The summary of a report: a light, and the three numbers that it stands for."""

import math
from collections.abc import Mapping
from typing import Any

from msbgen.output.report.formatting import Figure, Numbers, Sentence, as_rate

# Errors of at most this share are good, and errors above the second one poor.
GOOD, POOR = 0.05, 0.2
# Left-out contexts are predicted from fewer contexts: more of their runs exceed their bounds.
_LEFT_OUT = 3.0
# Fewer held-out contexts than this show too little.
_FEW = 8

# Grades, the best first, and what the light says at each.
WORDS = {
    "good": "Reliable",
    "unknown": "Not tested",
    "fair": "Use with care",
    "poor": "Not reliable",
}
_COLOURS = {"good": "green", "unknown": "yellow", "fair": "yellow", "poor": "red"}


def summary_of(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Light, word and reasons, and the grades of the error, the bounds and the plan.

    The light is green where errors are small and bounds hold, red where one of both is poor.
    """
    held = numbers["held_out"]
    parts = {
        "error": _error(held),
        "bounds": _bounds(held, numbers["everywhere"]),
        "next": _next(numbers["next"], numbers["everywhere"]),
    }
    grades = [part["grade"] for part in parts.values()]
    worst = max(grades, key=list(WORDS).index)
    reasons = [part["why"] for part in parts.values() if part["why"]]
    return {
        "light": _COLOURS[worst],
        "grade": worst,
        "word": WORDS[worst],
        "reasons": reasons or ["errors are small and the bounds hold"],
        **parts,
    }


def headline(number: Numbers) -> Sentence:
    """The word of the light and its reasons."""
    summary = number.tree["summary"]
    return (f"{summary['word']}: {', '.join(summary['reasons'])}.",)


def _part(grade: str, why: str = "", **values: Any) -> dict[str, Any]:
    return {"grade": grade, "why": why, **values}


def _error(held: Mapping[str, Any]) -> dict[str, Any]:
    """Grade of the errors of profiles and durations."""
    if "missing" in held:
        return _part("unknown", "the errors are unknown")
    errors = {"profile": held["error"], "duration": held["time"]}
    known = {
        name: value for name, value in errors.items() if value is not None and math.isfinite(value)
    }
    if not known:
        return _part("unknown", "the errors are unknown")
    # what repeated measurements differ by is no fault of the model
    noise = [n for n, ratio in held["over_halves"].items() if ratio <= held["as_good"]]
    largest = max((v for n, v in known.items() if n not in noise), default=0.0)
    if largest > POOR:
        return _part("poor", "errors are large")
    if largest > GOOD:
        return _part("fair", "errors are noticeable")
    if held["contexts"] < _FEW:
        return _part("fair", "few contexts were tested")
    return _part("good")


def _bounds(held: Mapping[str, Any], everywhere: Mapping[str, Any]) -> dict[str, Any]:
    """Grade of the bounds, with the runs that are within theirs."""
    bounds = held.get("bounds", {"missing": ""})
    if "missing" in bounds:
        return _part("unknown", "the bounds are not tested")
    runs, high = bounds["runs"], bounds["coverage_high"]
    values = {"held": runs - bounds["exceeded"], "runs": runs}
    allowed = bounds["miscoverage"] * (_LEFT_OUT if held["left_out"] else 1.0)
    if high < 1 - allowed:
        return _part("poor", "bounds fail too often", **values)
    if high < bounds["wanted"]:
        return _part("fair", "bounds fail often at left-out contexts", **values)
    if 2 * everywhere["bounds"].get("beyond", 0) > everywhere["contexts"]:
        return _part("fair", "most bounds are guesses", **values)
    return _part("good", **values)


def _next(following: Mapping[str, Any], everywhere: Mapping[str, Any]) -> dict[str, Any]:
    """What to do next: measure again, measure more, or stop."""
    if "missing" in following:
        return _part("good", advice="Stop" if all(everywhere["measured"]) else "No plan")
    if following["again"]:
        return _part("fair", "some measurements look faulty", advice="Measure again")
    return _part("good", advice="Measure more" if following["pays"] else "Stop")


def tiles(number: Numbers) -> list[dict[str, Any]]:
    """The three numbers with their titles, and a line on each."""
    summary = number.tree["summary"]
    parts = {
        "error": ("Error of the duration", _error_tile),
        "bounds": ("Bounds that held", _bound_tile),
        "next": ("What to measure", _next_tile),
    }
    return [
        {"title": title, "grade": summary[name]["grade"], **tile(number)}
        for name, (title, tile) in parts.items()
    ]


def _error_tile(number: Numbers) -> dict[str, Sentence]:
    held = number.tree["held_out"]
    if "missing" in held:
        return {"value": ("unknown",), "line": (held["missing"],)}
    line: list[str | Figure] = [
        "mean over ", number("held_out.compared", "count"), " ", _which(held), " contexts; worst ",
        number("held_out.tail.time.largest", "share"),
    ]  # fmt: skip
    if held["halves"]["time"] is not None:
        line += ["; halves of the runs differ by ", number("held_out.halves.time", "share")]
    best = held["best"]["time"]
    if best is not None:
        line += [
            f"; {best['method'].replace('_', ' ')} ", number("held_out.best.time.value", "share")
        ]  # fmt: skip
    return {"value": (number("held_out.time", "share"),), "line": (*line, ".")}


def _bound_tile(number: Numbers) -> dict[str, Sentence]:
    bounds = number.tree["held_out"].get("bounds", {"missing": "No runs were held out."})
    if "missing" in bounds:
        return {"value": ("unknown",), "line": (bounds["missing"],)}
    value = (
        number("summary.bounds.held", "count"), " of ", number("summary.bounds.runs", "count")
    )  # fmt: skip
    line = (
        f"runs of {_which(number.tree['held_out'])} contexts; goal ",
        number("held_out.bounds.wanted", "rate"), "; 95 % interval ",
        number("held_out.bounds.coverage_low", "rate"), " to ",
        number("held_out.bounds.coverage_high", "rate"), ".",
    )  # fmt: skip
    return {"value": value, "line": line}


def _next_tile(number: Numbers) -> dict[str, Sentence]:
    following, advice = number.tree["next"], number.tree["summary"]["next"]["advice"]
    if "missing" in following:
        reason = "every context is measured." if advice == "Stop" else following["missing"]
        return {"value": (advice,), "line": (reason,)}
    if not following["pays"]:
        return {"value": (advice,), "line": ("further contexts hardly lower the error.",)}
    line: list[str | Figure] = [
        number("next.contexts", "count"), _plural(" context", following["contexts"]), ", ",
        number("next.total_seconds", "seconds"),
        ": expected error of profiles ",
    ]  # fmt: skip
    if following["calibrated"]:
        line += ["from ", number("next.before", "fine"), " to ", number("next.after", "fine")]
    else:
        line += ["falls to ", number("next.left", "share"), " of what it is"]
    return {"value": (advice,), "line": (*line, ".")}


def _plural(word: str, n: int) -> str:
    return word if n == 1 else f"{word}s"


def _which(held: Mapping[str, Any]) -> str:
    return "left-out" if held["left_out"] else "held-out"


def rule_of_light(held: Mapping[str, Any]) -> str:
    """How the light is chosen, in words."""
    more = "" if held.get("left_out", 0) == 0 else f", or {_LEFT_OUT:g} times that if left out"
    return (
        f"Green: errors of profiles and durations are at most {as_rate(GOOD)}, or like those of "
        f"repeated measurements, and bounds hold within chance. Red: an error is above "
        f"{as_rate(POOR)}, or more runs exceed their bounds than may{more}. Yellow: all else."
    )
