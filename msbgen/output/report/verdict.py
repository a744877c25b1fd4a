"""The verdict of a report: a headline, and three sentences on error, bounds and warnings."""

import math

from msbgen.data.schema import level_text
from msbgen.output.report.formatting import Figure, Numbers, Sentence, shortened, unit_of
from msbgen.output.report.numbers import AS_GOOD, loose_region, worst_region
from msbgen.output.report.summary import headline


def verdict_of(number: Numbers) -> list[Sentence]:
    """The headline, then the error, the coverage of the bounds, and where to be careful."""
    held = number.tree["held_out"]
    if "missing" in held:
        return [
            headline(number),
            ("The error of these profiles is unknown. ", held["missing"]),
            ("The coverage of the bounds is unknown: no runs were held out.",),
            _care(number),
        ]
    return [headline(number), _error(number), _bounds(number), _care(number)]


def _error(number: Numbers) -> Sentence:
    held = number.tree["held_out"]
    error, baseline, halves = held["error"], held["baseline"]["error"], held["halves"]["error"]
    best = held["best"]
    if error is None or not math.isfinite(error):
        return ("No comparison: in no held-out context are all methods defined.",)
    parts = [*_far(number), *_lead(number)]
    parts += [
        "at ", number("held_out.compared", "count"), " held-out ",
        "context" if held["compared"] == 1 else "contexts", " the mean profile is off by ",
        number("held_out.error", "share"), " of the largest counts (95 % of ",
        *_all(number), " contexts within ", number("held_out.tail.error.p95", "share"),
        ", the worst ", number("held_out.tail.error.largest", "share"), ")",
    ]  # fmt: skip
    if baseline is not None:
        parts += [", where bracketing is off by ", number("held_out.baseline.error", "share")]
    if best["error"] is not None and best["error"]["method"] != "bracketing":
        parts += [
            f", the best simple method ({best['error']['method']}) by ",
            number("held_out.best.error.value", "share"),
        ]
    if halves is not None:
        parts += [
            " and two halves of the measured runs are ",
            number("held_out.halves.error", "share"),
            " apart",
        ]
    parts += ["; its duration is off by ", number("held_out.time", "share")]
    others: list[str | Figure] = []
    if held["baseline"]["time"] is not None:
        others += [", bracketing ", number("held_out.baseline.time", "share")]
    if best["time"] is not None and best["time"]["method"] != "bracketing":
        others += [f", {best['time']['method']} ", number("held_out.best.time.value", "share")]
    if held["halves"]["time"] is not None:
        others += [", halves ", number("held_out.halves.time", "share")]
    if others:
        parts += [" (", str(others[0])[2:], *others[1:], ")"]
    return (*parts, ".")


def _far(number: Numbers) -> list[str | Figure]:
    """Sentence where most held-out contexts were extrapolated."""
    held = number.tree["held_out"]
    if 2 * held["outside"] <= held["contexts"]:
        return []
    some = [number("held_out.outside", "count"), " of the "]
    return [
        *(["All "] if held["outside"] == held["contexts"] else some),
        number("held_out.contexts", "count"), " held-out contexts were extrapolated. ",
    ]  # fmt: skip


def _all(number: Numbers) -> list[str | Figure]:
    """Number of held-out contexts, where means are over fewer."""
    if not number.tree["held_out"]["undefined"]:
        return ["the"]
    return ["all ", number("held_out.contexts", "count")]


def _lead(number: Numbers) -> list[str | Figure]:
    """Summary of the errors, relative to halves of the runs, else to simple methods."""
    held = number.tree["held_out"]
    ratios, best = held["over_halves"], held["best"]["error"]
    good = [name for name, ratio in ratios.items() if ratio <= AS_GOOD]
    bad = [name for name in ratios if name not in good]
    if "profile" in good:
        worst = max(good, key=lambda name: ratios[name])
        beyond = ratios[worst] > 1
        lead: list[str | Figure] = [
            f"In {_listed(good)} generated profiles are about as good as measuring again "
            f"(off by {'at most ' if len(good) > 1 else ''}",
            number(f"held_out.over_halves.{worst}", "number" if beyond else "share"),
            f" {'times' if beyond else 'of'} the distance between two halves of the runs)",
        ]
        for i, name in enumerate(bad):
            lead += [", and in " if i else ", but in ", f"{name} off by "]
            lead += [number(f"held_out.over_halves.{name}"), " times that"]
        return [*lead, ": "]
    if best is None:
        return []
    better = "better" if held["error"] < best["value"] else "no better"
    return [f"Generated profiles are {better} than simple methods: "]


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _bounds(number: Numbers) -> Sentence:
    bounds = number.tree["held_out"]["bounds"]
    if "missing" in bounds:
        return ("There are no bounds on the duration to check. ", bounds["missing"])
    wanted = bounds["wanted"]
    if bounds["coverage"] >= wanted:
        lead = "Bounds on the duration hold: "
    elif bounds["coverage_high"] >= wanted:
        lead = "Bounds on the duration hold within chance: "
    else:
        lead = "Bounds on the duration fail too often: "
    held = number.tree["held_out"]
    return (
        *_guesses(number), lead, number("held_out.bounds.coverage", "rate"), " of ",
        number("held_out.bounds.runs", "count"),
        f" {'left' if held['left_out'] else 'held'}-out runs ended in time (95 % interval ",
        number("held_out.bounds.coverage_low", "rate"), " to ",
        number("held_out.bounds.coverage_high", "rate"), "), ",
        number("held_out.bounds.wanted", "rate"),
        " is the goal, and half of the bounds are within ",
        number("held_out.bounds.margin", "share"), " of the mean run", *_outside(number), ".",
        *_fewer(number),
    )  # fmt: skip


def _fewer(number: Numbers) -> list[str | Figure]:
    """Sentence on what left-out contexts tell of fresh runs."""
    if not number.tree["held_out"]["left_out"]:
        return []
    return [
        " Each left-out context is bounded by a model that lacks ",
        number("held_out.left_out", "count"), " of the measured contexts: fresh runs are usually "
        "within the bounds of this page more often.",
    ]  # fmt: skip


def _outside(number: Numbers) -> list[str | Figure]:
    """Rates of exceeded bounds outside and inside of the measured contexts, where both exist."""
    bounds = number.tree["held_out"]["bounds"]
    if bounds["exceeded_outside"] is None or bounds["exceeded_among"] is None:
        return []
    return [
        "; outside of the measured contexts ", number("held_out.bounds.exceeded_outside", "rate"),
        " of the runs took longer", *_of(number, "held_out.bounds.over_outside",
        "held_out.bounds.runs_outside"), ", inside ",
        number("held_out.bounds.exceeded_among", "rate"),
        *_of(number, "held_out.bounds.over_among", "held_out.bounds.runs_among"),
    ]  # fmt: skip


def _of(number: Numbers, part: str, whole: str) -> list[str | Figure]:
    """The counts behind a share."""
    return [" (", number(part, "count"), " of ", number(whole, "count"), ")"]


def _guesses(number: Numbers) -> list[str | Figure]:
    """Sentence where most of the shown bounds are guesses."""
    everywhere = number.tree["everywhere"]
    if 2 * everywhere["bounds"].get("beyond", 0) <= everywhere["contexts"]:
        return []
    return [
        number("everywhere.bounds.beyond", "count"), " of the ",
        number("everywhere.contexts", "count"), " bounds shown are guesses, farther out than "
        "all contexts of the calibration. ",
    ]  # fmt: skip


def _care(number: Numbers) -> Sentence:
    held, n = number.tree["held_out"], len(number.tree["warnings"])
    parts: list[str | Figure] = []
    worst = worst_region(held)
    if worst is not None:
        at = f"held_out.regions.{worst}"
        parts += [
            "The error is largest at ",
            *_region(number, worst),
            ", where profiles are off by ",
            number(f"{at}.error", "share"),
            "; ",
        ]
    loose = loose_region(held)
    if loose is not None:
        parts += [
            "bounds are exceeded most at ",
            *_region(number, loose),
            ", for ",
            number(f"held_out.regions.{loose}.exceeded", "rate"),
            " of the runs",
            *_of(number, f"held_out.regions.{loose}.over", f"held_out.regions.{loose}.runs"),
            "; ",
        ]
    if n == 0:
        parts += ["the measurements have no warnings."]
    else:
        parts += [f"{n} warning{'s are' if n > 1 else ' is'} below."]
    if isinstance(parts[0], str):
        parts[0] = parts[0][:1].upper() + parts[0][1:]
    return tuple(parts)


def _region(number: Numbers, index: int) -> list[str | Figure]:
    """Levels of a resource, from low to high."""
    region = number.tree["held_out"]["regions"][index]
    resources = number.tree["measured"]["resources"]
    ((units, labels),) = (
        (r["units"], r["labels"]) for r in resources if r["name"] == region["resource"]
    )
    at = f"held_out.regions.{index}"
    levels: list[str | Figure] = [number(f"{at}.low", "level")]
    if labels:
        levels = [shortened(level_text(region["low"], labels))]
    elif region["low"] != region["high"]:
        levels += [" to ", number(f"{at}.high", "level")]
    return [f"{shortened(region['resource'])} ", *levels, unit_of(units)]
