"""Two versions of a program compared on the virtual platform, beside other tests of the same runs.

Traces are edited, so that the change and its place are known.  The edits, designs and peers are
listed in ``benchmarks/compare.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import xarray as xr
from compare_edits import (
    DESIGNS,
    FAULTS,
    LEVELS,
    MAIN,
    PLACES,
    SCORED,
    SETTLED,
    SIZES,
    Case,
    original,
    size_of,
    true_ratio,
)
from compare_peers import alarms_by_context, bootstrap_alarm, change_points, mixed_alarm
from compare_scores import (
    GOALS,
    LEVEL,
    PEERS,
    RUNS,
    SWEEPS,
    goals,
    percent,
    shares_of,
    summarised,
    title,
    uniform_row,
)
from numpy.typing import NDArray
from tables import (
    RESULTS,
    cached,
    markdown,
    parser,
    publish,
    store,
    stored,
    subplots,
)

from msbgen.answers.compare.comparison import compare_profiles
from msbgen.answers.compare.ratio import Differences
from msbgen.answers.compare.results import CompareSettings
from msbgen.core.contexts import grid_contexts
from msbgen.data.profiles import Profiles
from msbgen.data.schema import duration_array, sampling_interval
from msbgen.engine.generate.progress import to_progress, uniform_knots
from msbgen.output.report.comparison_page import write_page
from msbgen.sources.platform import platform_contexts
from msbgen.sources.platform.replay import replay_trace

Floats = NDArray[np.float64]

# Sweeps without a change of each program: without faults in every design, with faults, and a drift.
_CLEAN, _FAULTY, _DRIFTING = {"9 x 2": 15, "27 x 3": 12, "125 x 1": 4}, 3, 9
# Sizes at the other designs, and sweeps of the changes that goals name.
_OTHER_SIZES, _MORE = {"9 x 2": (0.01, 0.05), "125 x 1": (0.05,)}, 12
# Change of the execution time of which the power of the ratio is measured, and its sweeps.
_OVERALL, _OVERALL_SWEEPS = 0.005, 8
# Programs that change throughout: levels of each resource, runs of a context, sizes.
_UNIFORM = {"1 x 20": ((1, 1, 1), 20), "3 x 6": ((1, 1, 3), 6), **DESIGNS}
_UNIFORM_SIZES = (0.05, -0.05, 0.02)
PARTS = ("alarms", "edits", "overall", "uniform", "runs", "speed")


def sweep(case: Case, seed: int) -> dict[str, Any]:
    """What the comparison and its peers find in one pair of measurements."""
    old, new = case.measured(seed)
    rng = np.random.default_rng([seed, 4])
    found = compare_profiles(old, new, settings=CompareSettings(permutations=299), rng=rng)
    time, instructions = found.time, found.totals["instructions"]
    peers = alarms_by_context(duration_array(old), duration_array(new))
    peers["bootstrap"] = bootstrap_alarm(duration_array(old), duration_array(new), rng)
    if case.fault == "clean" and (not case.edit or (case.edit, case.size) in GOALS):
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
            Profiles.of(dataset).counts,
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
    for seed in range(SWEEPS):
        durations = [duration_array(d) for d in case.replays(56_000_000 + seed, most, 1.0)]
        for runs in RUNS:
            old, new = (d[:, :runs] for d in durations)
            time = Differences.of(case.contexts, old, new).mean(None, 0.95)
            alarms = {"msbgen": time.p_value < LEVEL, **alarms_by_context(old, new)}
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


def uniform(program: str) -> dict[str, list[list[list[Any]]]]:
    """Begin, end and quantity of the changes reported of work that all takes longer, by design."""
    trace, out = original(program), {}
    for n, (design, (levels, runs)) in enumerate(_UNIFORM.items()):
        contexts = grid_contexts(LEVELS, levels)
        for k, size in enumerate(_UNIFORM_SIZES):
            slower = trace.assign(
                {
                    name: trace[name].copy(data=(1 + size) * trace[name].values)
                    for name in ("core_cycles", "fixed_time")
                }
            )
            seed = 57_000_000 + 100 * n + 2 * k
            old, new = (
                replay_trace(t, contexts, runs, 0.01, seed + v, threads=1)
                for v, t in enumerate((trace, slower))
            )
            found = compare_profiles(old, new, settings=CompareSettings(permutations=299))
            changes = [[*change.old, change.quantity] for change in found.changes]
            out.setdefault(design, []).append(changes)
    return out


def cases(part: str) -> Iterable[tuple[Case, Sequence[int]]]:
    """Cases of a part, and their seeds."""
    for n, program in enumerate((*SCORED, *SETTLED)):
        seed = (
            50_000_000 + 100_000 * (n + 1) + 50_000 * (part == "edits")
        )  # no two sweeps share their noise
        if part == "alarms":
            options = [Case(program, design=d, fault=f) for d, f in product(DESIGNS, FAULTS)]
        else:
            options = [Case(program, *o) for o in product(PLACES, SIZES, DESIGNS)]
            options *= program in SCORED
        for case in options:
            main, clean = case.design == MAIN, case.fault == "clean"
            if part == "alarms":
                spoilt = _DRIFTING if case.fault == "drift" else _FAULTY
                number = _CLEAN[case.design] if clean else spoilt if main else 0
            elif main:
                number = _MORE if (case.edit, case.size) in GOALS else 1
            else:
                number = int(case.size in _OTHER_SIZES[case.design])
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
            if part in ("runs", "uniform"):
                measure = power_by_runs if part == "runs" else uniform
                tasks = {p: partial(measure, p) for p in SCORED}
            elif part == "overall":
                first = {p: 55_000_000 + 1000 * n for n, p in enumerate(SCORED)}
                tasks = {
                    p: partial(overall, p, range(s, s + _OVERALL_SWEEPS)) for p, s in first.items()
                }
            else:
                tasks = {case.name: partial(cell, case, seeds) for case, seeds in cases(part)}
            paths = [work and work / part / f"{name}.json" for name in tasks]
            found = list(pool.map(cached, paths, tasks.values()))
            results[part] = (
                dict(zip(tasks, found))
                if part in ("runs", "uniform")
                else {p: shares_of([c]) for p, c in zip(tasks, found)} | {"all": shares_of(found)}
                if part == "overall"
                else summarised(part, found)
            )
            store(RESULTS / "compare.json", results)
    return results


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
        [case, f"{shares['sweeps']:.0f}", *percent(shares, *names)]
        for case, shares in results.get("alarms", {}).items()
        if case != "faulty"
    ]
    columns = ("found", "ends right", "overall", "coverage", *PEERS, "E-divisive, ends right")
    power = [
        [case, f"{shares['sweeps']:.0f}", *percent(shares, *columns)]
        for case, shares in results.get("edits", {}).items()
        if case != "all"
    ]
    programs = [r for name, r in results.get("runs", {}).items() if name in SCORED]
    tests = ("msbgen", "Welch", "Mann–Whitney")
    runs = [
        [
            str(n),
            *(f"{np.mean([p[str(n)][test] for p in programs]) / SWEEPS:.0%}" for test in tests),
        ]
        for n in (RUNS if programs else ())
    ]
    return {
        "compare-goals": markdown(["figure", "measured", "of", "goal"], goals(results)),
        "compare-alarms": markdown(["design, fault", "sweeps", *names], alarms),
        "compare-power": markdown(["design, edit, size", "sweeps", *columns], power),
        "compare-runs": markdown(["runs of a context", *tests], runs),
        "compare-uniform": markdown(
            ["design", "sweeps", "the whole", "parts", "nothing"],
            [uniform_row(design, results.get("uniform", {})) for design in _UNIFORM],
        ),
    }


def draw(path: Path) -> None:
    """Power over the size of the change, a panel for each edit."""
    figure, axes = subplots(2, 4, figsize=(11, 5), sharex=True, sharey=True)
    lines = {"found": "C0", "overall": "C2", "Welch": "C1", "E-divisive": "C3"}
    edits = stored("compare").get("edits", {})
    for panel, edit in zip(axes.flat, PLACES):
        shares = [edits.get(title(MAIN, edit, size), {}) for size in SIZES]
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
