"""Two versions of a program compared on the virtual platform, beside other tests of the same runs.

Traces are edited, so that the change and its place are known.  The edits, designs and peers are
listed in ``benchmarks/compare.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import xarray as xr
from compare_peers import alarms_by_context, bootstrap_alarm, change_points, mixed_alarm
from faults_study import Run, _like, _runs_of, _together, spoil
from numpy.typing import NDArray
from tables import (
    PROFILES,
    RESULTS,
    cached,
    find,
    markdown,
    parser,
    publish,
    store,
    stored,
    subplots,
)

from msbgen.compare.comparison import CompareSettings, compare_profiles
from msbgen.compare.ratio import Differences
from msbgen.core.contexts import grid_contexts
from msbgen.data.schema import STARTED, count_array, duration_array, sampling_interval
from msbgen.generate.progress import to_progress, uniform_knots
from msbgen.platform import PlatformConfig, platform_contexts
from msbgen.platform.replay import replay_trace
from msbgen.platform.trace import make_trace, read_trace
from msbgen.report.comparison_page import write_page

Floats = NDArray[np.float64]

# The programs on which the method was settled, and those that only the study used.
SETTLED = ("bzip2", "gzip", "python", "sqlite")
SCORED = ("bc", "cg", "ffmpeg", "gcc", "openssl", "sort", "zstd")
SIZES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
# Levels of each resource, and runs of a context.
DESIGNS = {"9 x 2": ((3, 1, 3), 2), "27 x 3": ((3, 3, 3), 3), "125 x 1": ((5, 5, 5), 1)}
MAIN = "27 x 3"
# Begin and end of each edit's work; inserted and removed work has a place.
PLACES = {
    "cycles": (0.4, 0.5),
    "inserted": (0.5, 0.5),
    "removed": (0.3, 0.3),
    "misses": (0.6, 0.8),
    "working set": (0.6, 0.8),
    "high clock": (0.4, 0.5),
    "one run in ten": (0.0, 1.0),
}
GAPS = ("inserted", "removed")
PEERS = ("Welch", "Mann–Whitney", "bootstrap", "mixed model", "E-divisive", "instructions")
FAULTS = {"clean": "", "slow": "a", "stretched": "b", "exchanged": "c", "absurd": "e", "drift": "d"}
# Sweeps without a change of each program: without faults in every design, by fault, with a drift.
_CLEAN, _FAULTY, _DRIFTING = 19, 5, 10
# Sizes at the other designs, and sweeps of the changes that goals name.
_OTHER_SIZES, _MORE = (0.01, 0.05), 4
GOALS = (("cycles", 0.05), ("inserted", 0.02), ("removed", 0.02))
# Change of the execution time of which the power of the ratio is measured, and its sweeps.
_OVERALL, _OVERALL_SWEEPS = 0.005, 8
# Programs whose cumulative amounts differ by less than this share are the same within noise.
_SAME = 0.001
# Runs of a context from which each test's power is known, and the sweeps of each.
RUNS, _SWEEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32), 12

# The working set moves from one to another number of ways.
_WAYS = (4, 8)
_LEVEL, _DRIFT = 0.05, 0.02
# How near to the true ends a stretch must be found, as a share of the work.
_NEAR = 0.025
_QUIET = PlatformConfig().without_noise()
PARTS = ("alarms", "edits", "overall", "runs", "speed")


@cache
def original(program: str) -> xr.Dataset:
    """The recorded trace of a program."""
    return read_trace(PROFILES / "traces" / f"{program}.nc")


def edited(trace: xr.Dataset, edit: str, size: float, place: float | None = None) -> xr.Dataset:
    """The trace with one change, at its place or another; inserted work is that from .1 on."""
    arrays = [
        trace[name].values.astype(float) for name in ("instructions", "core_cycles", "fixed_time")
    ]
    depths = trace["distance_histogram"].transpose("depth", "interval", "colouring", "stream")
    histogram = depths.values.astype(float)
    done = np.cumsum(arrays[0]) / arrays[0].sum()
    begin, end = PLACES[edit] if place is None else (place, place)
    inside = (done > begin) & (done <= end)
    everywhere = np.arange(len(done))
    kept = everywhere
    if edit in ("cycles", "high clock"):
        arrays[1][inside] *= 1 + size
    elif edit == "misses":  # of those that every allocation misses
        more = np.minimum(_share(size, histogram[-1, inside]), histogram[0, inside])
        histogram[-1, inside] += more
        histogram[0, inside] -= more
    elif edit == "working set":
        few, many = _WAYS
        moved = np.stack([_share(size, hits[inside]) for hits in histogram[1:few]])
        histogram[1:few, inside] -= moved
        histogram[many - 1, inside] += moved.sum(axis=0)
    elif edit == "inserted":
        copied = everywhere[(done > 0.1) & (done <= 0.1 + size)]
        kept = np.insert(everywhere, int(np.searchsorted(done, begin)), copied)
    elif edit == "removed":
        kept = everywhere[(done <= begin) | (done > begin + size)]
    arrays = [part[kept] for part in arrays]
    attrs = {name: str(value) for name, value in trace.attrs.items()}
    instructions, cycles, fixed = arrays
    return make_trace(instructions, cycles, fixed, histogram[:, kept], attrs=attrs)


def _share(size: float, counts: Floats) -> Floats:
    """A share of counts (n, ...) in whole numbers, rounded so that sums over n keep the share."""
    reached = np.floor(size * np.cumsum(counts, axis=0))
    return np.minimum(np.diff(reached, axis=0, prepend=0), counts)


@dataclass(frozen=True)
class Case:
    """One change of a program, and how both versions are measured."""

    program: str
    edit: str = ""
    size: float = 0.0
    design: str = MAIN
    fault: str = "clean"

    @property
    def name(self) -> str:
        """Name of the file that keeps the result."""
        parts = (self.program, self.edit or "none", f"{self.size:g}", self.design, self.fault)
        return "-".join(parts).replace(" ", "")

    @property
    def contexts(self) -> Floats:
        """Contexts of the design."""
        config = PlatformConfig()
        levels = config.cache_ways, config.bandwidths, config.frequencies
        names = "cache_ways", "bandwidth", "frequency"
        return grid_contexts(dict(zip(names, levels)), DESIGNS[self.design][0])

    def replays(
        self, seed: int, runs: int = 0, interval: float = 0.01
    ) -> tuple[xr.Dataset, xr.Dataset]:
        """Measured profiles of both versions, without faults."""
        runs = runs or DESIGNS[self.design][1]
        trace = original(self.program)
        changed = edited(trace, self.edit, self.size) if self.edit else trace
        old, new = (
            replay_trace(t, self.contexts, runs, interval, 2 * seed + v, threads=1)
            for v, t in enumerate((trace, changed))
        )
        rng = np.random.default_rng([seed, 2])
        if self.edit == "high clock":
            seeded = 2 * seed + 1
            same = replay_trace(trace, self.contexts, runs, interval, seeded, threads=1)
            clock = self.contexts[:, 2]
            rows = (clock < clock.max())[:, None]
            new = _chosen(same, new, np.broadcast_to(rows, (len(clock), runs)))
        elif self.edit == "one run in ten":
            # a third of the run takes so much longer that the run takes `size` longer
            table = _runs_of(count_array(new), duration_array(new))
            for row, hit in zip(table, rng.random((len(table), runs)) < 0.1):
                for r in np.flatnonzero(hit):
                    begin = rng.uniform(0, 2 / 3)
                    row[r] = row[r].slowed(interval, 1 + 3 * self.size, begin, begin + 1 / 3)
            new = _like(new, _together(table), table)
        return old, new

    def measured(self, seed: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Measured profiles of both versions, with faults."""
        kind = FAULTS[self.fault]
        if kind == "d":
            return self._drifting(seed)
        old, new = self.replays(seed)
        if not kind:
            return old, new
        rng = np.random.default_rng([seed, 3])
        return spoil(old, kind, rng)[0], spoil(new, kind, rng)[0]

    def _drifting(self, seed: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Both versions, interleaved on a machine that slows down."""
        contexts, runs = self.contexts, DESIGNS[self.design][1]
        rng = np.random.default_rng([seed, 3])
        # as in `msbgen measure`: a run of either version, in random order, in each place of a
        # random order of contexts and runs
        places = rng.permutation(len(contexts) * runs).reshape(len(contexts), runs)
        second = rng.integers(2, size=places.shape)
        began = np.stack([2 * places + second, 2 * places + 1 - second], axis=1).astype(float)
        out = []
        for version in range(2):
            table: list[list[Run]] = []
            for context, row in zip(contexts, began[:, version]):
                table.append([])
                for r, place in enumerate(row):
                    factor = 1 + _DRIFT * (place / (began.size - 1) - 0.5)
                    own = replay_trace(
                        original(self.program),
                        context[None],
                        r + 1,
                        0.01 / factor,
                        2 * seed + version,
                        threads=1,
                    )
                    counts = count_array(own)[0, r]
                    counts = counts[np.isfinite(counts).all(axis=1)]
                    table[-1].append(Run(counts, factor * float(duration_array(own)[0, r])))
            like = self.replays(seed)[version]
            profiles = _like(like, _together(table), table)
            profiles[STARTED] = ("context", "run"), began[:, version], {"units": "s"}
            out.append(profiles.assign_attrs(sweep="drifting"))
        return out[0], out[1]


def _chosen(first: xr.Dataset, second: xr.Dataset, mask: NDArray[np.bool_]) -> xr.Dataset:
    """Runs of the first dataset where the mask holds, else of the second."""
    tables = [_runs_of(count_array(d), duration_array(d)) for d in (first, second)]
    table = [[a if own else b for a, b, own in zip(*rows)] for rows in zip(*tables, mask.tolist())]
    return _like(second, _together(table), table)


def true_ratio(case: Case) -> float:
    """Ratio of the mean execution times over all page colourings, without noise."""
    traces = original(case.program), edited(original(case.program), case.edit, case.size)
    logs = []
    for trace in traces:
        durations = [
            duration_array(
                replay_trace(trace.isel(colouring=[k]), case.contexts, 1, 1.0, 0, _QUIET, threads=1)
            )[:, 0]
            for k in range(trace.sizes["colouring"])
        ]
        logs.append(np.log(np.mean(durations, axis=0)))
    change = logs[1] - logs[0]
    if case.edit == "high clock":
        change[case.contexts[:, 2] < case.contexts[:, 2].max()] = 0.0
    return float(np.exp(change.mean()))


def size_of(program: str, ratio: float) -> float:
    """Share of more cycles in a tenth of the work that makes a program longer by a share."""
    size = 0.1
    for _ in range(2):  # the time is nearly linear in the cycles
        size *= ratio / (true_ratio(Case(program, "cycles", size)) - 1)
    return size


def sweep(case: Case, seed: int) -> dict[str, Any]:
    """What the comparison and its peers find in one pair of measurements."""
    old, new = case.measured(seed)
    rng = np.random.default_rng([seed, 4])
    found = compare_profiles(old, new, settings=CompareSettings(permutations=299), rng=rng)
    time, instructions = found.time, found.totals["instructions"]
    peers = alarms_by_context(duration_array(old), duration_array(new))
    peers["bootstrap"] = bootstrap_alarm(duration_array(old), duration_array(new), rng)
    if case.fault == "clean":
        peers["mixed model"] = mixed_alarm(duration_array(old), duration_array(new))
    points = change_points(_difference(old, new), rng)
    peers["E-divisive"] = bool(points)
    peers["instructions"] = not instructions.low <= 1 <= instructions.high
    return {
        "ratio": [time.value, time.low, time.high],
        "overall": not time.low <= 1 <= time.high,
        "contexts": bool(np.any((found.low > 1) | (found.high < 1))),
        "same program": found.same_program,
        "stretched": found.stretched_p,
        "changes": [[*change.old, change.quantity] for change in found.changes],
        "points": points,
        "peers": peers,
    }


def _difference(old: xr.Dataset, new: xr.Dataset) -> Floats:
    """Relative difference of the mean time in each hundredth of the instructions, (bins,)."""
    logs = []
    for dataset in (old, new):
        runs = to_progress(
            count_array(dataset),
            duration_array(dataset),
            sampling_interval(dataset),
            knots=uniform_knots(100),
            clock=1,
        )
        logs.append(np.log(np.nanmean(runs.state[..., 0], axis=1)).mean(axis=0))
    return logs[1] - logs[0]


def power_by_runs(program: str) -> dict[str, dict[str, int]]:
    """Number of sweeps in which each test alarms, by runs of a context: cycles +5 % in a tenth."""
    case, most = Case(program, "cycles", 0.05), max(RUNS)
    out: dict[str, dict[str, int]] = {}
    for seed in range(_SWEEPS):
        durations = [duration_array(d) for d in case.replays(10_000 + seed, most, 1.0)]
        for runs in RUNS:
            old, new = (d[:, :runs] for d in durations)
            time = Differences.of(case.contexts, old, new).mean(None, 0.95)
            alarms = {"msbgen": time.p_value < _LEVEL, **alarms_by_context(old, new)}
            row = out.setdefault(str(runs), {})
            for name, alarm in alarms.items():
                row[name] = row.get(name, 0) + int(bool(alarm))
    return out


def cell(case: Case, seeds: Sequence[int]) -> dict[str, Any]:
    """Results of a case over some seeds, and the true ratio."""
    known = case.design == MAIN and case.program in SCORED
    truth = true_ratio(case) if known and case.edit not in ("", "one run in ten") else None
    rows = [sweep(case, seed) for seed in seeds]
    return {**vars(case), "truth": truth, "sweeps": rows}


def overall(program: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Results of a program that became longer by `_OVERALL`."""
    return cell(Case(program, "cycles", size_of(program, _OVERALL)), seeds)


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


def cases(part: str) -> Iterable[tuple[Case, Sequence[int]]]:
    """Cases of a part, and their seeds."""
    for n, program in enumerate((*SCORED, *SETTLED)):
        seed = (
            20_000_000 + 100_000 * (n + 1) + 50_000 * (part == "edits")
        )  # no two sweeps share their noise
        if part == "alarms":
            options = [Case(program, design=d, fault=f) for d, f in product(DESIGNS, FAULTS)]
        else:
            options = [Case(program, *o) for o in product(PLACES, SIZES, DESIGNS)]
            options *= program in SCORED
        for case in options:
            main, clean = case.design == MAIN, case.fault == "clean"
            if part == "alarms":
                own = _DRIFTING if case.fault == "drift" else _FAULTY
                number = _CLEAN if clean else own if main else 0
            elif main:
                number = _MORE if (case.edit, case.size) in GOALS else 1
            else:
                number = int(case.size in _OTHER_SIZES)
            if number:
                yield case, range(seed, seed + number)
            seed += number


def run(parts: Sequence[str], work: Path | None, jobs: int) -> dict[str, Any]:
    """Measure some parts, each cell kept in a folder; results of the others stay as stored."""
    results: dict[str, Any] = dict(stored("compare"))
    with ProcessPoolExecutor(jobs) as pool:
        for part in parts:
            if part == "speed":
                results[part] = speed()
                store(RESULTS / "compare.json", results)
                continue
            if part == "runs":
                tasks = {p: partial(power_by_runs, p) for p in SCORED}
            elif part == "overall":
                first = {p: 25_000_000 + 1000 * n for n, p in enumerate(SCORED)}
                tasks = {
                    p: partial(overall, p, range(s, s + _OVERALL_SWEEPS)) for p, s in first.items()
                }
            else:
                tasks = {case.name: partial(cell, case, seeds) for case, seeds in cases(part)}
            paths = [work and work / part / f"{name}.json" for name in tasks]
            found = list(pool.map(cached, paths, tasks.values()))
            results[part] = (
                dict(zip(tasks, found))
                if part == "runs"
                else {p: _shares([c]) for p, c in zip(tasks, found)} | {"all": _shares(found)}
                if part == "overall"
                else summarised(part, found)
            )
            store(RESULTS / "compare.json", results)
    return results


def located(edit: str, size: float, changes: Sequence[Sequence[Any]]) -> tuple[bool, bool]:
    """Whether a change is reported where the edit is, and whether both of its ends are right."""
    begin, end = PLACES[edit]
    if edit in GAPS:
        end = begin + size * (edit == "removed")
        own = [change for change in changes if change[2] in (edit, "replaced")]
    else:
        own = [c for c in changes if c[2] not in GAPS and c[0] < end and c[1] > begin]
    near = [max(abs(c[0] - begin), abs(c[1] - end)) <= _NEAR + 1e-9 for c in own]
    return bool(own), any(near)


def _shares(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
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
        "stretched runs": float(np.mean([row["stretched"] < _LEVEL for _, row in rows])),
    }
    for peer in PEERS:
        if known := [r["peers"][peer] for _, r in rows if r["peers"].get(peer) is not None]:
            out[peer] = float(np.mean(known))
    # a run in ten changes the mean time by less than a stretched run's noise, and is left out
    if held := [r["ratio"][1] <= c["truth"] <= r["ratio"][2] for c, r in rows if c["truth"]]:
        out["coverage"] = float(np.mean(held))
    if cells[0]["edit"]:
        if cells[0]["edit"] == "one run in ten":
            found = [(row["stretched"] < _LEVEL,) * 2 for _, row in rows]
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


def _percent(shares: dict[str, float], *names: str) -> list[str]:
    values = [shares.get(name, np.nan) for name in names]
    return [f"{value:.0%}" if np.isfinite(value) else "—" for value in values]


def summarised(part: str, cells: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Shares of the sweeps by design and fault, or by design, edit and size in scored programs."""
    out = {}
    if part == "alarms":
        for design, fault in product(DESIGNS, FAULTS):
            out[f"{design}, {fault}"] = _shares(find(cells, design=design, fault=fault))
        faulty = [c for c in cells if c["fault"] not in ("clean", "drift")]
        out["faulty"] = _shares(find(faulty, design=MAIN))
    else:
        scored = [c for c in cells if c["program"] in SCORED]
        for design, edit, size in product(DESIGNS, PLACES, SIZES):
            own = find(scored, design=design, edit=edit, size=size)
            out[_title(design, edit, size)] = _shares(own)
        out["all"] = _shares([c for c in find(scored, design=MAIN) if c["truth"]])
        out["all"].pop("found", None)
    return {name: shares for name, shares in out.items() if shares["sweeps"]}


def _title(design: str, edit: str, size: float) -> str:
    return f"{design}, {edit}, {size:.1%}"


def fewer_runs(results: dict[str, Any], power: float = 0.9) -> dict[str, float]:
    """Runs that the best test by context needs over ours, by program where ours reaches a power.

    A test that does not reach it with the most runs counts as if it did.
    """
    out = {}
    for name, counts in results.get("runs", {}).items():
        needed = {
            test: min((n for n in RUNS if counts[str(n)][test] >= power * _SWEEPS), default=np.inf)
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
            out.append([f"false alarms {what}, {name}", *_percent(shares, what), n, "3 to 7 %"])
    cycles, inserted, removed = (edits.get(_title(MAIN, *g), {"sweeps": 0}) for g in GOALS)
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
        out.append([what, *_percent(shares, column), f"{shares['sweeps']:.0f} sweeps", "≥ 90 %"])
    every = edits.get("all", {"sweeps": 0})
    n = f"{every['sweeps']:.0f} sweeps"
    out.append(["coverage of the interval", *_percent(every, "coverage"), n, "93 to 97 %"])
    fewer = fewer_runs(results)
    least = f"≥ {np.median([*fewer.values()]):.1f}" if fewer else "—"
    what = "runs of the best test by context over ours, median of programs"
    out.append([what, least, f"{len(fewer)} programs", "≥ 4"])
    for name, (figure, unit, goal) in results.get("speed", {}).items():
        out.append(
            [name, f"{figure:.2g} {unit}", "CPU time, warm" if unit == "s" else "1 page", goal]
        )
    return out


def speed() -> dict[str, list[Any]]:
    """CPU seconds of comparisons of 81 and 81 runs, and the size of their page [MB]."""
    old, new = Case("gzip", "cycles", 0.05).replays(77)
    compare_profiles(old, new, settings=CompareSettings(permutations=99))
    out: dict[str, list[Any]] = {}
    for name, contexts, goal in (
        ("81 + 81 runs, their contexts", None, "≤ 3 s"),
        ("81 + 81 runs, maps of all 4,560 contexts", platform_contexts("all"), "≤ 10 s"),
    ):
        began = process_time()
        found = compare_profiles(old, new, contexts=contexts)
        out[name] = [process_time() - began, "s", goal]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        write_page(path, found.as_dict())
        out["page of all 4,560 contexts"] = [path.stat().st_size / 1e6, "MB", "≤ 3 MB"]
    return out


def tables() -> dict[str, str]:
    """All tables of the page."""
    results = stored("compare")
    names = ("overall", "stretches", "gaps", "contexts", "stretched runs", *PEERS)
    alarms = [
        [case, f"{shares['sweeps']:.0f}", *_percent(shares, *names)]
        for case, shares in results.get("alarms", {}).items()
        if case != "faulty"
    ]
    columns = ("found", "ends right", "overall", "coverage", *PEERS, "E-divisive, ends right")
    power = [
        [case, f"{shares['sweeps']:.0f}", *_percent(shares, *columns)]
        for case, shares in results.get("edits", {}).items()
        if case != "all"
    ]
    programs = [r for name, r in results.get("runs", {}).items() if name in SCORED]
    tests = ("msbgen", "Welch", "Mann–Whitney")
    runs = [
        [
            str(n),
            *(f"{np.mean([p[str(n)][test] for p in programs]) / _SWEEPS:.0%}" for test in tests),
        ]
        for n in (RUNS if programs else ())
    ]
    return {
        "compare-goals": markdown(["figure", "measured", "of", "goal"], goals(results)),
        "compare-alarms": markdown(["design, fault", "sweeps", *names], alarms),
        "compare-power": markdown(["design, edit, size", "sweeps", *columns], power),
        "compare-runs": markdown(["runs of a context", *tests], runs),
    }


def draw(path: Path) -> None:
    """Power over the size of the change, a panel for each edit."""
    figure, axes = subplots(2, 4, figsize=(11, 5), sharex=True, sharey=True)
    lines = {"found": "C0", "overall": "C2", "Welch": "C1", "E-divisive": "C3"}
    edits = stored("compare").get("edits", {})
    for panel, edit in zip(axes.flat, PLACES):
        shares = [edits.get(_title(MAIN, edit, size), {}) for size in SIZES]
        for name, colour in lines.items():
            power = [one.get(name, np.nan) for one in shares]
            panel.semilogx(np.array(SIZES) * 100, power, color=colour, marker="o", ms=3, label=name)
        panel.set_title(edit)
    axes.flat[0].legend()
    axes.flat[-1].axis("off")
    figure.supxlabel("size of the change [%]")
    figure.supylabel("share of sweeps")
    figure.savefig(path, dpi=120)


def main() -> None:
    options = parser(str(__doc__), PARTS, work="folder that keeps the cells, to go on later")
    options.add_argument("--jobs", type=int, default=2, help="processes")
    given = options.parse_args()
    run(given.only, given.work, given.jobs)
    draw(RESULTS / "compare.png")
    publish(tables())
