"""Scores of the study of comparisons: shares of sweeps that alarm, or are right, and its goals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from compare_edits import (
    DESIGNS,
    FAULTS,
    GAPS,
    MAIN,
    PLACES,
    SCORED,
    SIZES,
    edited,
    original,
)
from numpy.typing import NDArray
from tables import find

from msbgen.engine.generate.progress import uniform_knots

Floats = NDArray[np.float64]

PEERS = ("Welch", "Mann–Whitney", "bootstrap", "mixed model", "E-divisive", "instructions")
# Changes that goals name.
GOALS = (("cycles", 0.05), ("inserted", 0.02), ("removed", 0.02))
# Runs of a context from which each test's power is known, and the sweeps of each.
RUNS, SWEEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32), 12
LEVEL = 0.05
# Programs whose cumulative amounts differ by less than this share are the same within noise.
_SAME = 0.001
# How near to the true ends a stretch must be found, as a share of the work.
_NEAR = 0.025


def is_same_work(program: str, edit: str, size: float, place: float) -> bool:
    """Whether work inserted or removed at another place makes the same program within noise."""
    trace = original(program)
    programs = [_cumulative(edited(trace, edit, size, at)) for at in (PLACES[edit][0], place)]
    knots = uniform_knots(1000)
    curves = [
        np.stack([np.interp(knots, done, amount) for amount in amounts])
        for done, *amounts in programs
    ]
    return bool(np.abs(curves[1] - curves[0]).max() <= _SAME)


def _cumulative(trace: xr.Dataset) -> Floats:
    """Shares of the instructions, cycles and hits within 4, 8 and 12 ways that are done, (k, n)."""
    hits = trace["distance_histogram"].sum(("stream", "colouring")).transpose("depth", ...).values
    amounts = [
        trace["instructions"].values,
        trace["core_cycles"].values + trace["fixed_time"].values,
    ]
    amounts += [hits[:ways].sum(axis=0) for ways in (4, 8, 12)]
    sums = np.cumsum(np.array(amounts, dtype=float), axis=1)
    return sums / np.maximum(sums[:, -1:], 1.0)


def located(edit: str, size: float, changes: Sequence[Sequence[Any]]) -> tuple[bool, bool]:
    """Whether a change is reported where the edit is, and whether both of its ends are right."""
    begin, end = PLACES[edit]
    if edit in GAPS:
        end = begin + size * (edit == "removed")
        there = [change for change in changes if change[2] in (edit, "replaced")]
    else:
        there = [c for c in changes if c[2] not in GAPS and c[0] < end and c[1] > begin]
    near = [max(abs(c[0] - begin), abs(c[1] - end)) <= _NEAR + 1e-9 for c in there]
    return bool(there), any(near)


def shares_of(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Shares of the sweeps of some cells in which each test alarms, or is right."""
    rows = [(c, row) for c in cells for row in c["sweeps"]]
    out = {"sweeps": float(len(rows))}
    if not rows:
        return out
    out |= {
        "overall": float(np.mean([row["overall"] for _, row in rows])),
        "contexts": float(np.mean([row["contexts"] for _, row in rows])),
        "stretches": float(np.mean([any(c[2] not in GAPS for c in r["changes"]) for _, r in rows])),
        "gaps": float(np.mean([any(c[2] in GAPS for c in r["changes"]) for _, r in rows])),
        "stretched runs": float(np.mean([row["stretched"] < LEVEL for _, row in rows])),
    }
    for peer in PEERS:
        if known := [r["peers"][peer] for _, r in rows if r["peers"].get(peer) is not None]:
            out[peer] = float(np.mean(known))
    # a run in ten changes the mean time by less than a stretched run's noise, and is left out
    if held := [r["ratio"][1] <= c["truth"] <= r["ratio"][2] for c, r in rows if c["truth"]]:
        out["coverage"] = float(np.mean(held))
    if cells[0]["edit"]:
        if cells[0]["edit"] == "one run in ten":
            found = [(row["stretched"] < LEVEL,) * 2 for _, row in rows]
        else:
            found = [located(c["edit"], c["size"], row["changes"]) for c, row in rows]
            points = [
                all(min((abs(p - e) for p in row["points"]), default=1) <= _NEAR for e in ends)
                for c, row in rows
                for ends in [PLACES[c["edit"]]]
            ]
            out["E-divisive, ends right"] = float(np.mean(points))
            if cells[0]["edit"] in GAPS:
                out["ends right or same program"] = float(
                    np.mean(
                        [_is_placed(c, row, right) for (c, row), (_, right) in zip(rows, found)]
                    )
                )
                out["others"] = float(
                    np.mean([any(h[2] not in GAPS for h in row["changes"]) for _, row in rows])
                )
        out["found"], out["ends right"] = np.mean(found, axis=0).tolist()
    return out


def _is_placed(cell: dict[str, Any], row: dict[str, Any], is_right: bool) -> bool:
    """Whether reported inserted or removed work makes the same program as that of the edit."""
    return is_right or any(
        is_same_work(cell["program"], cell["edit"], cell["size"], change[0])
        for change in row["changes"]
        if change[2] == cell["edit"] and abs(_length(cell, change) - cell["size"]) <= _NEAR
    )


def _length(cell: dict[str, Any], change: Sequence[Any]) -> float:
    """Share of the work that a change spans; inserted work has none in the old version."""
    return cell["size"] if cell["edit"] == "inserted" else change[1] - change[0]


def percent(shares: dict[str, float], *names: str) -> list[str]:
    values = [shares.get(name, np.nan) for name in names]
    return [f"{value:.0%}" if np.isfinite(value) else "—" for value in values]


def summarised(part: str, cells: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Shares of the sweeps by design and fault, or by design, edit and size in scored programs."""
    out = {}
    if part == "alarms":
        for design, fault in product(DESIGNS, FAULTS):
            out[f"{design}, {fault}"] = shares_of(find(cells, design=design, fault=fault))
        faulty = [c for c in cells if c["fault"] not in ("clean", "drift")]
        out["faulty"] = shares_of(find(faulty, design=MAIN))
    else:
        scored = [c for c in cells if c["program"] in SCORED]
        for design, edit, size in product(DESIGNS, PLACES, SIZES):
            found = find(scored, design=design, edit=edit, size=size)
            out[title(design, edit, size)] = shares_of(found)
        out["all"] = shares_of([c for c in find(scored, design=MAIN) if c["truth"]])
        out["all"].pop("found", None)
    return {name: shares for name, shares in out.items() if shares["sweeps"]}


def title(design: str, edit: str, size: float) -> str:
    return f"{design}, {edit}, {size:.1%}"


def uniform_row(design: str, found: dict[str, dict[str, list[list[list[Any]]]]]) -> list[str]:
    """Of a change of all work: sweeps, and how many report the whole, only parts, and nothing."""
    sweeps = [changes for by_design in found.values() for changes in by_design[design]]
    whole = [
        len(changes) == 1 and changes[0][0] <= _NEAR and changes[0][1] >= 1 - _NEAR
        for changes in sweeps
    ]
    nothing = sum(not changes for changes in sweeps)
    counts = len(sweeps), sum(whole), len(sweeps) - sum(whole) - nothing, nothing
    return [design, *map(str, counts)]


def fewer_runs(results: dict[str, Any], power: float = 0.9) -> dict[str, float]:
    """Runs that the best test by context needs over ours, by program where ours reaches a power.

    A test that does not reach it with the most runs counts as if it did.
    """
    out = {}
    for name, counts in results.get("runs", {}).items():
        needed = {
            test: min((n for n in RUNS if counts[str(n)][test] >= power * SWEEPS), default=np.inf)
            for test in ("msbgen", "Welch", "Mann–Whitney")
        }
        best = min(needed["Welch"], needed["Mann–Whitney"], max(RUNS))
        if name in SCORED and np.isfinite(needed["msbgen"]):
            out[name] = best / needed["msbgen"]
    return out


def goals(results: dict[str, Any]) -> list[list[str]]:
    """Rows of the goals: what, the figure, and the goal."""
    alarms, edits = results.get("alarms", {}), results.get("edits", {})
    out = []
    for name, row in (
        ("clean", f"{MAIN}, clean"),
        ("with faults", "faulty"),
        ("with a drift of 2 %", f"{MAIN}, drift"),
    ):
        shares = alarms.get(row, {"sweeps": 0})
        for what in ("overall", "stretches"):
            n = f"{shares['sweeps']:.0f} sweeps"
            out.append([f"false alarms {what}, {name}", *percent(shares, what), n, "3 to 7 %"])
    cycles, inserted, removed = (edits.get(title(MAIN, *g), {"sweeps": 0}) for g in GOALS)
    longer = results.get("overall", {}).get("all", {"sweeps": 0})
    same = "ends right or same program"
    for what, shares, column in (
        ("power, +0.5 % overall", longer, "overall"),
        ("power, +5 % in a tenth, ends within 2.5 %", cycles, "ends right"),
        ("2 % of inserted work located within 2.5 %", inserted, "ends right"),
        ("2 % of inserted work located, or at a place of the same program", inserted, same),
        ("2 % of removed work located within 2.5 %", removed, "ends right"),
        ("2 % of removed work located, or at a place of the same program", removed, same),
    ):
        out.append([what, *percent(shares, column), f"{shares['sweeps']:.0f} sweeps", "≥ 90 %"])
    every = edits.get("all", {"sweeps": 0})
    n = f"{every['sweeps']:.0f} sweeps"
    out.append(["coverage of the interval", *percent(every, "coverage"), n, "93 to 97 %"])
    fewer = fewer_runs(results)
    least = f"≥ {np.median([*fewer.values()]):.1f}" if fewer else "—"
    what = "runs of the best test by context over ours, median of programs"
    out.append([what, least, f"{len(fewer)} programs", "≥ 4"])
    for name, (figure, unit, goal) in results.get("speed", {}).items():
        out.append(
            [name, f"{figure:.2g} {unit}", "CPU time, warm" if unit == "s" else "1 page", goal]
        )
    return out
