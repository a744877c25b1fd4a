"""The numbers of a report: the content of its JSON file and of its page."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.conformal import share_interval
from msbgen.core.contexts import squared_distances, to_unit_range
from msbgen.data.durations_only import WHOLE_RUN
from msbgen.data.partial import describe_partial, partial_attrs
from msbgen.data.profiles import Profiles
from msbgen.data.schema import labels_of
from msbgen.output.report.data import Bounds, HeldOutScores, ReportData, Unavailable
from msbgen.output.report.maps import shades_of
from msbgen.output.report.summary import summary_of

Floats = NDArray[np.float64]

SCHEMA_VERSION = 1

# The metric that ranks contexts, and the one of execution times.
ERROR, TIME, SPREAD = "ndtw_scaled", "duration_error", "energy_distance"
_BASELINE = "bracketing"
# Methods without a model.
_SIMPLE = (_BASELINE, "nearest_context", "multilinear", "kernel_mean", "log_log", "reciprocal")
# Mean profiles have no spread: the method whose spread is compared instead.
_SPREADS = {"default/mean": "default/sample"}
# Confidence of intervals of shares.
_CONFIDENCE = 0.95
# Errors up to this multiple of the distance between halves of the runs count as noise.
AS_GOOD = 1.5
# Bounds exceeded this many times as often as the miscoverage are reported.
_LOOSE = 1.5
# Quantile of the errors over held-out contexts.
_MOST = 0.95
# Fewest contexts for the error of a region.
_FEW = 3


def numbers_of(data: ReportData) -> dict[str, Any]:
    """The numbers of a report as JSON values; a missing part holds ``missing``, the reason."""
    measured = data.measured
    held = data.held_out
    numbers = {
        "schema_version": SCHEMA_VERSION,
        "task": measured.task,
        "source": data.source,
        "platform": str(measured.attrs.get("platform", "")),
        "origin": str(measured.attrs.get("source", "")),
        "simulated": is_simulated(measured),
        "command": data.command,
        "seed": data.seed,
        "settings": dict(data.settings),
        "versions": dict(data.versions),
        "warnings": list(data.warnings),
        "measured": _measured(measured),
        "held_out": _missing(held) if isinstance(held, Unavailable) else _held_out(held, measured),
        "everywhere": _everywhere(data),
        "convergence": _convergence(data),
        "next": _next(data, held),
    }
    return {**numbers, "summary": summary_of(numbers)}


def _missing(part: Unavailable) -> dict[str, str]:
    return {"missing": part.why}


def is_simulated(measured: Profiles) -> bool:
    """Whether the attributes of a file name a simulated or virtual platform."""
    texts = (str(measured.attrs.get(key, "")) for key in ("platform", "source"))
    return any(
        re.search(r"\b(simulated|virtual platform)\b", text, re.IGNORECASE) for text in texts
    )


def _measured(measured: Profiles) -> dict[str, Any]:
    duration, ended, mean = measured.duration, measured.ended, measured.mean_duration
    present = np.isfinite(duration)
    least, most = (f.reduce(ended, axis=1) for f in (np.fmin, np.fmax))
    again = np.isfinite(ended).sum(axis=1) > 1  # one run says nothing of how runs differ
    spread = ((most - least) / mean)[again]
    totals = {
        name: total[np.isfinite(total)]
        for name, total in zip(measured.counters, np.moveaxis(measured.totals, 2, 0))
        if name != WHOLE_RUN
    }
    return {
        "contexts": len(duration),
        "runs": int(present.sum()),
        "runs_least": int(present.sum(axis=1).min()),
        "runs_most": int(present.sum(axis=1).max()),
        "runs_ended": int(np.isfinite(ended).sum()),
        "partial": _partial(measured) if measured.counters else [],  # none in a saved model
        "timed": measured.is_timed,
        "interval": measured.interval,
        "seconds": float(duration[present].sum()),
        "shortest": float(np.nanmin(ended)),
        "longest": float(np.nanmax(ended)),
        "spread_median": float(np.median(spread)) if len(spread) else None,
        "spread_largest": float(spread.max()) if len(spread) else None,
        "resources": [
            {
                "name": name,
                "units": str(attrs.get("units", "1")),
                "labels": list(labels_of(attrs)),
                **_levels(column, attrs),
            }
            for (name, attrs), column in zip(measured.resources.items(), measured.contexts.T)
        ],
        "n_counters": len(totals),
        "counters": [
            {
                "name": name,
                "units": str(measured.counters[name].get("units", "1")),
                "long_name": str(measured.counters[name].get("long_name", name)),
                "least": float(total.min()),
                "most": float(total.max()),
            }
            for name, total in totals.items()
        ],
        "context": measured.contexts.tolist(),
        "duration": mean.tolist(),
        "duration_least": least.tolist(),
        "duration_most": most.tolist(),
        "run_durations": [row[np.isfinite(row)].tolist() for row in ended],
    }


def _partial(measured: Profiles) -> list[dict[str, str]]:
    """Missing parts of runs in words: groups of counters, cut runs, gaps."""
    lines = [line.partition("   ") for line in describe_partial(measured)]
    parts = [{"about": topic, "text": text.strip()} for topic, _, text in lines]
    coupled = partial_attrs(measured).get("coupled")
    return [*parts, {"about": "coupled", "text": coupled}] if coupled else parts


def _levels(column: Floats, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Measured levels of a resource, and those of the platform if listed."""
    levels = np.unique(column)
    listed = np.unique(np.asarray(attrs.get("levels", []), dtype=float))
    return {
        "measured": levels.tolist(),
        "n_measured": len(levels),
        "levels": listed.tolist(),
        "n_levels": len(listed),
    }


# --------------------------------------------------------------------------- held out


def _held_out(held: HeldOutScores, measured: Profiles) -> dict[str, Any]:
    scores = held.scores["score"].sel({"method": held.method})
    error, time = scores.sel(metric=ERROR).values, scores.sel(metric=TIME).values
    methods = held.summary["methods"]
    compared = {
        name: {"error": methods[name].get(ERROR), "time": methods[name].get(TIME)}
        for name in (held.method, _BASELINE)
        if name in methods
    }
    table, durations, ended = held.truth.contexts, held.truth.duration, held.truth.ended
    bounds = held.bounds
    missing = isinstance(bounds, Unavailable)
    exceeded = None if isinstance(bounds, Unavailable) else _exceeded(bounds, ended)
    apart = _distance(measured.contexts, table)
    return {
        "how": held.how,
        "left_out": held.left_out,
        "method": held.method,
        "contexts": len(table),
        "outside": int(held.extrapolated.sum()),
        "compared": held.summary["n_contexts"],
        "undefined": held.summary["n_contexts_undefined"],
        "error": compared[held.method]["error"],
        "time": compared[held.method]["time"],
        "baseline": compared.get(_BASELINE, {"error": None, "time": None}),
        "best": {
            name: best_simple(methods, metric)
            for name, metric in (("error", ERROR), ("time", TIME))
        },
        "halves": {"error": held.halves.get(ERROR), "time": held.halves.get(TIME)},
        "over_halves": _over_halves(held),
        "as_good": AS_GOOD,
        "spread_of": _SPREADS.get(held.method, held.method),
        "tail": {"error": _tail(error), "time": _tail(time)},
        "counters": _counters(held),
        "scores": {name: dict(row) for name, row in methods.items()},
        "halves_scores": dict(held.halves),
        "bounds": (
            _missing(bounds)
            if isinstance(bounds, Unavailable)
            else _coverage(bounds, ended, held.extrapolated)
        ),
        "regions": _regions(held.truth, error, time, None if missing else bounds.duration),
        "shown": [
            {"place": one.place, "row": one.row, "runs": int(np.isfinite(durations[one.row]).sum())}
            for one in held.shown
        ],
        "worst": np.argsort(-error, kind="stable")[:10].tolist(),
        "context": table.tolist(),
        "distance": apart.tolist(),
        "extrapolated": held.extrapolated.astype(int).tolist(),
        "context_error": error.tolist(),
        "context_time": time.tolist(),
        "duration": held.truth.mean_duration.tolist(),
        "bound": [] if missing else bounds.duration.tolist(),
        "context_exceeded": [] if exceeded is None else exceeded.tolist(),
    }


def _tail(error: Floats) -> dict[str, float | None]:
    """95 % quantile and maximum of an error over contexts."""
    finite = error[np.isfinite(error)]
    if not len(finite):
        return {"p95": None, "largest": None}
    return {"p95": float(np.quantile(finite, _MOST)), "largest": float(finite.max())}


def _counters(held: HeldOutScores) -> list[dict[str, Any]]:
    """Error of each counter, beside the baseline and the best simple method."""
    best = best_simple(held.summary["methods"])
    names = (held.method, _BASELINE, _BASELINE if best is None else best["method"])
    errors, baseline, simple = (
        held.counters["score"].sel({"method": name}).transpose("counter", "context").values
        for name in names
    )
    both = np.isfinite(errors) & np.isfinite(baseline) & np.isfinite(simple)
    return [
        {
            "name": str(name),
            "contexts": int(both[k].sum()),
            "error": float(errors[k, both[k]].mean()) if both[k].any() else None,
            "baseline": float(baseline[k, both[k]].mean()) if both[k].any() else None,
            "best": float(simple[k, both[k]].mean()) if both[k].any() else None,
            **_tail(errors[k]),
        }
        for k, name in enumerate(held.counters["counter"].values)
        if name != WHOLE_RUN
    ]


def best_simple(methods: Mapping[str, Any], metric: str = ERROR) -> dict[str, Any] | None:
    """The simple method with the smallest error; None where none was scored."""
    simple = {name: methods[name][metric] for name in _SIMPLE if metric in methods.get(name, {})}
    if not simple:
        return None
    name = min(simple, key=lambda name: simple[name])
    return {"method": name, "value": simple[name]}


def _over_halves(held: HeldOutScores) -> dict[str, float]:
    """Scores divided by those of halves of the runs, where both are defined.

    A mean profile has no spread: that of random profiles stands for it, where there are some.
    """
    methods = held.summary["methods"]
    scores = methods[held.method]
    spread = methods.get(_SPREADS.get(held.method, held.method), {})
    scores = {
        "profile": (scores.get(ERROR), held.halves.get(ERROR)),
        "duration": (scores.get(TIME), held.halves.get(TIME)),
        "spread": (spread.get(SPREAD), held.halves.get(SPREAD)),
    }
    return {
        name: score / floor
        for name, (score, floor) in scores.items()
        if score is not None and floor and math.isfinite(score)
    }


def _exceeded(bounds: Bounds, durations: Floats) -> Floats:
    """Share of the runs of each context that exceeded its bound; NaN durations are ignored."""
    present = np.isfinite(durations)
    return ((durations > bounds.duration[:, None]) & present).sum(axis=1) / present.sum(axis=1)


def _coverage(bounds: Bounds, durations: Floats, outside: NDArray[np.bool_]) -> dict[str, Any]:
    """Coverage of the bounds; `durations` [s] (n, n_runs) are NaN for cut runs."""
    present = np.isfinite(durations)
    mean = np.nansum(durations, axis=1) / present.sum(axis=1)
    inside = (durations <= bounds.duration[:, None]) & present
    low, high = interval_of(inside.sum(axis=1), present.sum(axis=1))
    return {
        "miscoverage": bounds.miscoverage,
        "wanted": 1 - bounds.miscoverage,
        "runs": int(present.sum()),
        "exceeded": int(present.sum() - inside.sum()),
        "coverage": float(inside.sum() / present.sum()),
        "coverage_low": low,
        "coverage_high": high,
        "margin": float(np.median(bounds.duration / mean - 1)),
        "beyond": int(bounds.beyond.sum()),
        **_over("among", inside[~outside], present[~outside]),
        **_over("outside", inside[outside], present[outside]),
    }


def _over(
    where: str, inside: NDArray[np.bool_], present: NDArray[np.bool_]
) -> dict[str, float | int | None]:
    """Share of runs (n, n_runs) of some contexts that exceeded their bounds; None without runs."""
    runs, over = int(present.sum()), int(present.sum() - inside.sum())
    return {
        f"exceeded_{where}": over / runs if runs else None,
        f"over_{where}": over,
        f"runs_{where}": runs,
    }


def interval_of(inside: NDArray[np.int64], runs: NDArray[np.int64]) -> tuple[float, float]:
    """95 % interval of the share of runs within their bounds.

    The exact interval of Clopper and Pearson at the effective number of runs: the number of
    independent runs whose share varies as much as this one, where each context is drawn with all of
    its runs (Korn and Graubard, Survey Methodology 24, 1998).  It is the number of contexts where
    all runs are within their bounds, or none: how alike runs are is then not known.

    Examples
    --------
    >>> low, high = interval_of(np.array([5, 5, 5, 5, 5]), np.array([5, 5, 5, 5, 5]))
    >>> round(low, 3), high
    (0.478, 1.0)
    """
    share = float(inside.sum() / runs.sum())
    effective = _effective(inside, runs, share)
    return share_interval(share * effective, effective, _CONFIDENCE)


def _effective(inside: NDArray[np.int64], runs: NDArray[np.int64], share: float) -> float:
    """Effective number of independent runs; contexts are clusters of runs."""
    from scipy.special import stdtrit

    n, total = len(runs), int(runs.sum())
    if n < 2 or share in (0.0, 1.0):
        return float(n)
    off = (inside - share * runs) / runs.mean()  # ratio estimator: Cochran, 1977, section 9A
    variance = float((off**2).sum()) / (n - 1) / n
    independent = share * (1 - share)
    effective = total if variance * total <= independent else independent / variance
    # few contexts leave the variance uncertain
    end = (1 + _CONFIDENCE) / 2
    return max(1.0, float(effective * (stdtrit(total - 1, end) / stdtrit(n - 1, end)) ** 2))


def _distance(known: Floats, table: Floats) -> Floats:
    """Distance to the nearest other measured context, each resource relative to its range."""
    both = squared_distances(to_unit_range(known, table), to_unit_range(known, known))
    both[both < 1e-18] = np.inf
    nearest = np.sqrt(both.min(axis=1))
    return np.where(np.isfinite(nearest), nearest, 0.0)


def _regions(
    truth: Profiles, error: Floats, time: Floats, bound: Floats | None
) -> list[dict[str, Any]]:
    """Mean errors and exceeded bounds by low, middle and high levels of each resource."""
    durations = truth.ended
    runs = np.isfinite(durations).sum(axis=1)
    over = None if bound is None else (durations > bound[:, None]).sum(axis=1)
    regions = []
    for (name, attrs), values in zip(truth.resources.items(), truth.contexts.T):
        for group in groups_of(np.unique(values), labels_of(attrs)):
            inside = np.isin(values, group) & np.isfinite(error)
            if not inside.any():
                continue
            regions.append(
                {
                    "resource": name,
                    "low": float(group[0]),
                    "high": float(group[-1]),
                    "contexts": int(inside.sum()),
                    "error": float(error[inside].mean()),
                    "time": float(time[inside].mean()),
                    "runs": int(runs[inside].sum()),
                    "over": None if over is None else int(over[inside].sum()),
                    "exceeded": (
                        None if over is None else float(over[inside].sum() / runs[inside].sum())
                    ),
                }
            )
    return regions


def groups_of(levels: Floats, labels: Sequence[str] = ()) -> Sequence[Floats]:
    """Levels in three groups; three or fewer levels, and words, are groups of their own."""
    return np.array_split(levels, len(levels) if labels else min(3, len(levels)))


def worst_region(held_out: dict[str, Any], of: str = "error") -> int | None:
    """Index of the region with the largest figure; None without regions."""
    regions = held_out.get("regions", [])
    names = [region["resource"] for region in regions]
    candidates = [
        i
        for i, region in enumerate(regions)
        if region["contexts"] >= _FEW and names.count(region["resource"]) > 1 and region[of]
    ]
    return max(candidates, key=lambda i: regions[i][of]) if candidates else None


def loose_region(held_out: dict[str, Any]) -> int | None:
    """Index of the region where bounds are exceeded most; None where no rate is much too large."""
    loose = worst_region(held_out, "exceeded")
    if loose is None:
        return None
    allowed = _LOOSE * held_out["bounds"]["miscoverage"]
    return loose if held_out["regions"][loose]["exceeded"] > allowed else None


# --------------------------------------------------------------------------- the rest


def _everywhere(data: ReportData) -> dict[str, Any]:
    everywhere = data.everywhere
    profiles, bounds = everywhere.profiles, everywhere.bounds
    table, duration = profiles.contexts, profiles.mean_duration
    measured = {tuple(row) for row in data.measured.contexts.tolist()}
    outside = everywhere.extrapolated.astype(int)
    missing = isinstance(bounds, Unavailable)
    return {
        "resources": list(profiles.resources),
        "contexts": len(table),
        "measured": [int(tuple(row) in measured) for row in table.tolist()],
        "shortest": float(duration.min()),
        "longest": float(duration.max()),
        "shades": shades_of(duration)[1].tolist(),
        "random_runs": 0 if isinstance(everywhere.spread, Unavailable) else everywhere.spread.runs,
        "extrapolated_contexts": int(outside.sum()),
        "notes": list(everywhere.notes),
        "bounds": (
            _missing(bounds)
            if isinstance(bounds, Unavailable)
            else {"miscoverage": bounds.miscoverage, "beyond": int(bounds.beyond.sum())}
        ),
        "context": table.tolist(),
        "duration": duration.tolist(),
        "bound": [] if missing else bounds.duration.tolist(),
        "extrapolated": outside.tolist(),
        "beyond": [] if missing else bounds.beyond.astype(int).tolist(),
    }


def _convergence(data: ReportData) -> dict[str, Any]:
    part = data.convergence
    if isinstance(part, Unavailable):
        return _missing(part)
    return {
        "status": part.status,
        "epsilon": part.epsilon,
        "tol": part.tol,
        "largest": float(part.errors.max(initial=0.0)),
        "pairs": len(part.errors),
        "errors": part.errors.tolist(),
    }


def _next(data: ReportData, held: HeldOutScores | Unavailable) -> dict[str, Any]:
    part = data.next
    if isinstance(part, Unavailable):
        return _missing(part)
    error = None
    if not isinstance(held, Unavailable):
        error = held.summary["methods"][held.method].get(ERROR)
    comparable = (
        part.calibrated and error is not None and math.isfinite(error) and error * part.error[0] > 0
    )
    return {
        "contexts": part.pays,
        "total_seconds": float(part.seconds[: part.pays].sum()),
        "before": float(part.error[0]),
        "after": float(part.error[part.pays]),
        "observed_over_expected": error / float(part.error[0]) if error and comparable else None,
        "noise": part.noise,
        "calibrated": part.calibrated,
        "left": float(part.error[part.pays] / part.error[0]) if part.error[0] else 1.0,
        "pays": part.pays,
        "advice": part.advice,
        "again": part.again,
        "groups": [", ".join(group) for group in part.groups],
        "commands": list(part.commands),
        "note": part.note,
        "context": part.contexts.tolist(),
        "runs": part.runs.tolist(),
        "seconds": part.seconds.tolist(),
        "error": part.error.tolist(),
    }
