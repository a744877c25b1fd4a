"""Every number of a report: what its JSON file holds, and all that its page may show."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.contexts import squared_distances, to_unit_range
from msbgen.data.partial import describe_partial, held_counters, partial_attrs
from msbgen.data.schema import (
    context_table,
    count_array,
    counter_names,
    duration_array,
    ended_durations,
    mean_duration,
    resource_names,
    sampling_interval,
)
from msbgen.report.data import Bounds, HeldOutScores, ReportData, Unavailable
from msbgen.report.maps import shades_of

Floats = NDArray[np.float64]

SCHEMA_VERSION = 1

# The metric that ranks contexts, and the one of execution times.
ERROR, TIME, SPREAD = "ndtw_scaled", "duration_error", "energy_distance"
_BASELINE = "bracketing"
# Methods that know no task: what anyone could do without a model.
_SIMPLE = (_BASELINE, "nearest_context", "multilinear", "kernel_mean")
# Whose spread is compared where mean profiles, which have none, are judged.
_SPREADS = {"default/mean": "default/sample"}
# Standard errors to either side of a share, which chance leaves 95 times in 100 within them.
_NORMAL = 1.96
# Errors up to so many times the distance of halves of the runs are hardly more than noise.
AS_GOOD = 1.5
# Where runs exceed their bounds so many times as often as asked for, it is said.
_LOOSE = 1.5
# Of the held-out contexts this share is not worse than what is called so.
_MOST = 0.95
# Fewer contexts than these say nothing of a region of the platform.
_FEW = 3


def numbers_of(material: ReportData) -> dict[str, Any]:
    """Everything that a report says in numbers, as JSON knows it.

    Returns
    -------
    dict
        ``schema_version``; ``task``, ``source``, ``command``, ``seed``, ``settings``, ``versions``;
        ``warnings``; ``measured``; ``held_out``; ``everywhere``; ``convergence``; ``next``.  A part
        that there is not holds ``missing``, the reason.
    """
    measured = material.measured
    held = material.held_out
    return {
        "schema_version": SCHEMA_VERSION,
        "task": str(measured.attrs.get("task", "")),
        "source": material.source,
        "platform": str(measured.attrs.get("platform", "")),
        "origin": str(measured.attrs.get("source", "")),
        "simulated": is_simulated(measured),
        "command": material.command,
        "seed": material.seed,
        "settings": dict(material.settings),
        "versions": dict(material.versions),
        "warnings": list(material.warnings),
        "measured": _measured(measured),
        "held_out": _missing(held) if isinstance(held, Unavailable) else _held_out(held, measured),
        "everywhere": _everywhere(material),
        "convergence": _convergence(material),
        "next": _next(material, held),
    }


def _missing(part: Unavailable) -> dict[str, str]:
    return {"missing": part.why}


def is_simulated(measured: xr.Dataset) -> bool:
    """Whether the file says that its platform is a simulated one, as replays call it virtual."""
    told = (str(measured.attrs.get(key, "")) for key in ("platform", "source"))
    return any(re.search(r"\b(simulated|virtual platform)\b", text, re.IGNORECASE) for text in told)


def _measured(measured: xr.Dataset) -> dict[str, Any]:
    duration, ended = duration_array(measured), ended_durations(measured)
    present, held = np.isfinite(duration), held_counters(measured)
    mean = mean_duration(measured)
    least, most = (f.reduce(ended, axis=1) for f in (np.fmin, np.fmax))
    again = np.isfinite(ended).sum(axis=1) > 1  # one run says nothing of how runs differ
    spread = ((most - least) / mean)[again]
    totals = {}
    for k, name in enumerate(counter_names(measured)):
        total = np.nansum(count_array(measured[[name, "duration"]])[..., 0], axis=2)
        totals[name] = total[held[..., k] & np.isfinite(ended)]
    return {
        "contexts": len(duration),
        "runs": int(present.sum()),
        "runs_least": int(present.sum(axis=1).min()),
        "runs_most": int(present.sum(axis=1).max()),
        "runs_ended": int(np.isfinite(ended).sum()),
        "partial": _partial(measured),
        "interval": sampling_interval(measured),
        "seconds": float(duration[present].sum()),
        "shortest": float(np.nanmin(ended)),
        "longest": float(np.nanmax(ended)),
        "spread_median": float(np.median(spread)) if len(spread) else None,
        "spread_largest": float(spread.max()) if len(spread) else None,
        "resources": [
            {
                "name": name,
                "units": str(measured[name].attrs.get("units", "1")),
                **_levels(measured[name]),
            }
            for name in resource_names(measured)
        ],
        "n_counters": len(totals),
        "counters": [
            {
                "name": name,
                "units": str(measured[name].attrs.get("units", "1")),
                "long_name": str(measured[name].attrs.get("long_name", name)),
                "least": float(total.min()),
                "most": float(total.max()),
            }
            for name, total in totals.items()
        ],
        "context": context_table(measured).tolist(),
        "duration": mean.tolist(),
        "duration_least": least.tolist(),
        "duration_most": most.tolist(),
    }


def _partial(measured: xr.Dataset) -> list[dict[str, str]]:
    """What of the runs was not measured, in words: groups of counters, cut runs, gaps."""
    lines = [line.partition("   ") for line in describe_partial(measured)]
    said = [{"about": about, "text": text.strip()} for about, _, text in lines]
    coupled = partial_attrs(measured).get("coupled")
    return [*said, {"about": "coupled", "text": coupled}] if coupled else said


def _levels(resource: xr.DataArray) -> dict[str, Any]:
    """Levels of a resource that were measured, and those of the platform, where they are listed."""
    known = np.unique(resource.values.astype(float))
    listed = np.unique(np.asarray(resource.attrs.get("levels", []), dtype=float))
    return {
        "measured": known.tolist(),
        "n_measured": len(known),
        "levels": listed.tolist(),
        "n_levels": len(listed),
    }


# --------------------------------------------------------------------------- held out


def _held_out(held: HeldOutScores, measured: xr.Dataset) -> dict[str, Any]:
    own = held.scores["score"].sel({"method": held.method})
    error, time = own.sel(metric=ERROR).values, own.sel(metric=TIME).values
    methods = held.summary["methods"]
    compared = {
        name: {"error": methods[name].get(ERROR), "time": methods[name].get(TIME)}
        for name in (held.method, _BASELINE)
        if name in methods
    }
    table = context_table(held.truth)
    durations, ended = duration_array(held.truth), ended_durations(held.truth)
    bounds = held.bounds
    missing = isinstance(bounds, Unavailable)
    exceeded = None if isinstance(bounds, Unavailable) else _exceeded(bounds, ended)
    apart = _distance(context_table(measured), table)
    return {
        "how": held.how,
        "method": held.method,
        "contexts": len(table),
        "outside": int(held.extrapolated.sum()),
        "compared": held.summary["n_contexts"],
        "undefined": held.summary["n_contexts_undefined"],
        "error": compared[held.method]["error"],
        "time": compared[held.method]["time"],
        "baseline": compared.get(_BASELINE, {"error": None, "time": None}),
        "best": {
            name: _best(methods, metric) for name, metric in (("error", ERROR), ("time", TIME))
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
            {
                "place": one.place,
                "row": one.row,
                "runs": int(np.isfinite(durations[one.row]).sum()),
            }
            for one in held.shown
        ],
        "worst": np.argsort(-error, kind="stable")[:10].tolist(),
        "context": table.tolist(),
        "distance": apart.tolist(),
        "extrapolated": held.extrapolated.astype(int).tolist(),
        "context_error": error.tolist(),
        "context_time": time.tolist(),
        "duration": mean_duration(held.truth).tolist(),
        "bound": [] if missing else bounds.duration.tolist(),
        "context_exceeded": [] if exceeded is None else exceeded.tolist(),
    }


def _tail(error: Floats) -> dict[str, float | None]:
    """How far the worst contexts are off: all but one in twenty, and all."""
    known = error[np.isfinite(error)]
    if not len(known):
        return {"p95": None, "largest": None}
    return {"p95": float(np.quantile(known, _MOST)), "largest": float(known.max())}


def _counters(held: HeldOutScores) -> list[dict[str, Any]]:
    """How far each counter is off by itself, beside the baseline where both are known."""
    own, baseline = (
        held.counters["score"].sel({"method": name}).transpose("counter", "context").values
        for name in (held.method, _BASELINE)
    )
    both = np.isfinite(own) & np.isfinite(baseline)
    return [
        {
            "name": str(name),
            "contexts": int(both[k].sum()),
            "error": float(own[k, both[k]].mean()) if both[k].any() else None,
            "baseline": float(baseline[k, both[k]].mean()) if both[k].any() else None,
            **_tail(own[k]),
        }
        for k, name in enumerate(held.counters["counter"].values)
    ]


def _best(methods: Mapping[str, Any], metric: str) -> dict[str, Any] | None:
    """The simple method with the least error; None where none was scored."""
    known = {name: methods[name][metric] for name in _SIMPLE if metric in methods.get(name, {})}
    if not known:
        return None
    name = min(known, key=lambda name: known[name])
    return {"method": name, "value": known[name]}


def _over_halves(held: HeldOutScores) -> dict[str, float]:
    """Scores over those of halves of the runs, of what both are known of.

    A mean profile has no spread: that of random profiles stands for it, where there are some.
    """
    methods = held.summary["methods"]
    own = methods[held.method]
    spread = methods.get(_SPREADS.get(held.method, held.method), {})
    scores = {
        "profile": (own.get(ERROR), held.halves.get(ERROR)),
        "duration": (own.get(TIME), held.halves.get(TIME)),
        "spread": (spread.get(SPREAD), held.halves.get(SPREAD)),
    }
    return {
        name: score / floor
        for name, (score, floor) in scores.items()
        if score is not None and floor and math.isfinite(score)
    }


def _exceeded(bounds: Bounds, durations: Floats) -> Floats:
    """Share of the runs of each context that took longer than its bound; NaN is no duration [s]."""
    present = np.isfinite(durations)
    return ((durations > bounds.duration[:, None]) & present).sum(axis=1) / present.sum(axis=1)


def _coverage(bounds: Bounds, durations: Floats, outside: NDArray[np.bool_]) -> dict[str, Any]:
    """How many runs ended within their bounds; `durations` [s] (n, n_runs), NaN of those cut."""
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
    """Share of the runs of some contexts (n, n_runs) over their bounds; None without runs."""
    runs, over = int(present.sum()), int(present.sum() - inside.sum())
    return {
        f"exceeded_{where}": over / runs if runs else None,
        f"over_{where}": over,
        f"runs_{where}": runs,
    }


def interval_of(inside: NDArray[np.int64], runs: NDArray[np.int64]) -> tuple[float, float]:
    """The 95 % interval of the share of runs that lie inside the bound of their context.

    Contexts are drawn, each with all of its runs (cluster sampling with the ratio estimator:
    Cochran, Sampling Techniques, 1977, section 9A).  Anything where there is one context.

    Examples
    --------
    >>> low, high = interval_of(np.array([10, 10, 10, 6]), np.array([10, 10, 10, 10]))
    >>> round(low, 3), high
    (0.704, 1.0)
    """
    n, share = len(runs), inside.sum() / runs.sum()
    if n < 2:
        return 0.0, 1.0
    off = (inside - share * runs) / runs.mean()
    error = math.sqrt(float((off**2).sum()) / (n - 1) / n)
    return max(0.0, float(share) - _NORMAL * error), min(1.0, float(share) + _NORMAL * error)


def _distance(known: Floats, table: Floats) -> Floats:
    """Distance to the nearest measured context but itself, each resource over its range."""
    both = squared_distances(to_unit_range(known, table), to_unit_range(known, known))
    both[both < 1e-18] = np.inf
    nearest = np.sqrt(both.min(axis=1))
    return np.where(np.isfinite(nearest), nearest, 0.0)


def _regions(
    truth: xr.Dataset, error: Floats, time: Floats, bound: Floats | None
) -> list[dict[str, Any]]:
    """Mean errors, and runs over their bound, by low, middle and high levels of each resource."""
    durations = ended_durations(truth)
    runs = np.isfinite(durations).sum(axis=1)
    over = None if bound is None else (durations > bound[:, None]).sum(axis=1)
    regions = []
    for name in resource_names(truth):
        values = truth[name].values.astype(float)
        for group in thirds(np.unique(values)):
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


def thirds(levels: Floats) -> Sequence[Floats]:
    """Levels in three groups; alone where there are three or fewer."""
    return np.array_split(levels, min(3, len(levels)))


def worst_region(held_out: dict[str, Any], of: str = "error") -> int | None:
    """Where among the regions a figure is the largest; None where they say nothing."""
    regions = held_out.get("regions", [])
    names = [region["resource"] for region in regions]
    told = [
        i
        for i, region in enumerate(regions)
        if region["contexts"] >= _FEW and names.count(region["resource"]) > 1 and region[of]
    ]
    return max(told, key=lambda i: regions[i][of]) if told else None


def loose_region(held_out: dict[str, Any]) -> int | None:
    """Where among the regions bounds fail most; None where nowhere much too often."""
    loose = worst_region(held_out, "exceeded")
    if loose is None:
        return None
    allowed = _LOOSE * held_out["bounds"]["miscoverage"]
    return loose if held_out["regions"][loose]["exceeded"] > allowed else None


# --------------------------------------------------------------------------- the rest


def _everywhere(material: ReportData) -> dict[str, Any]:
    everywhere = material.everywhere
    profiles, bounds = everywhere.profiles, everywhere.bounds
    table = context_table(profiles)
    known = {tuple(row) for row in context_table(material.measured).tolist()}
    outside = profiles["extrapolated"].values.astype(int)
    duration = mean_duration(profiles)
    missing = isinstance(bounds, Unavailable)
    return {
        "resources": resource_names(profiles),
        "contexts": len(table),
        "measured": [int(tuple(row) in known) for row in table.tolist()],
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


def _convergence(material: ReportData) -> dict[str, Any]:
    part = material.convergence
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


def _next(material: ReportData, held: HeldOutScores | Unavailable) -> dict[str, Any]:
    part = material.next
    if isinstance(part, Unavailable):
        return _missing(part)
    own = None if isinstance(held, Unavailable) else held.summary["methods"][held.method].get(ERROR)
    known = part.calibrated and own is not None and math.isfinite(own) and own * part.error[0] > 0
    return {
        "contexts": len(part.contexts),
        "total_seconds": float(part.seconds.sum()),
        "before": float(part.error[0]),
        "after": float(part.error[-1]),
        "observed_over_expected": own / float(part.error[0]) if own and known else None,
        "noise": part.noise,
        "calibrated": part.calibrated,
        "left": float(part.error[-1] / part.error[0]) if part.error[0] else 1.0,
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
