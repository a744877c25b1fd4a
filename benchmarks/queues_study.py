"""Queues of 50,000 jobs: the default placement beside those of the paper, at several loads.

``python benchmarks/reproduce.py queues [--data FOLDER] [--only programs graphs widths]``. FOLDER
holds `LCG.swf.gz` (run times and submissions) and `tasks_cpu_gpu1_gpu2.csv` (dense linear algebra);
neither ships. Without it programs are simulated with a random log, and nothing is stored.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from queues_data import WIDTHS, Log, Vectors, draw, graphs, logged, made_up, programs
from tables import RESULTS, find, markdown, parser, publish, store, stored

from msbgen.systems.machines import queue
from msbgen.systems.machines.queue.picture import arrival_name, plot_queues

SEEDS = (0, 1, 2)
ARRIVALS: tuple[Any, ...] = ("at once", 0.95, 0.7, 0.5)
MEASURES = ("makespan", "slowdown", "slowdown_against_fastest")
# Goals beside the best of the paper's placements: makespan, slowdown.
TARGETS = {
    "at once": ("−32 %, ≤ 1.28 × bound", "−20 %"),
    0.95: ("−32 %", "÷ 40 (÷ 25 against fastest)"),
    0.7: ("−14 %", "÷ 10"),
    0.5: ("no longer", "≤ 1.1"),
}
# Other numbers of nodes a job: those of the log, and of the paper's three scales.
OTHER_WIDTHS = ((1,), (1, 1, 2), (1, 2, 4, 8, 16, 32))
PARTS = ("programs", "graphs", "widths")


def play(vectors: Vectors, log: Log, widths: tuple[int, ...] = WIDTHS) -> list[list[dict]]:
    """Rows of every seed."""
    every = []
    for seed in SEEDS:
        jobs = draw(vectors, log, seed, widths=widths)
        every.append(
            queue.compare_variants(
                jobs, vectors.machines, arrivals=ARRIVALS, queues=queue.QUEUES, rng=seed
            )
        )
        print(f"seed {seed}: {len(every[-1])} simulations", flush=True)
    return every


def means(every: list[list[dict]]) -> list[dict]:
    """Mean over the seeds of each figure."""
    found = []
    for same in zip(*every):
        numbers = {k: v for k, v in same[0].items() if isinstance(v, float) and k != "arrivals"}
        found.append({**same[0], **{k: float(np.mean([r[k] for r in same])) for k in numbers}})
    return found


def beside(every: list[list[dict]], forms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The default over the best of the paper's placements in some forms of queues, by arrivals.

    The best is chosen for each seed and measure; ratios are means over the seeds.
    """
    found = {}
    for arrival in ARRIVALS:
        ratios: dict[str, list[float]] = {name: [] for name in (*MEASURES, "true_times")}
        names = set()
        for rows in every:
            here = find(rows, arrivals=arrival)
            (own,) = find(here, placement="aware", queue="machine", times="estimated")
            (true,) = find(here, placement="aware", queue="machine", times="true")
            others = [
                row
                for row in find(here, times="estimated")
                if row["placement"] in queue.PAPERS and row["queue"] in forms
            ]
            for name in MEASURES:
                best = min(others, key=lambda row: row[name])
                ratios[name].append(own[name] / best[name])
                names.add(f"{name}: {best['placement']}")
            ratios["true_times"].append(own["makespan"] / true["makespan"])
        own = find(means(every), arrivals=arrival, placement="aware", queue="machine",
                   times="estimated")[0]  # fmt: skip
        found[arrival_name(arrival)] = {
            **{name: own[name] for name in ("makespan_over_bound", *MEASURES[1:])},
            "ratios": {name: float(np.mean(values)) for name, values in ratios.items()},
            "factors": {n: float(np.mean(1 / np.array(ratios[n]))) for n in MEASURES[1:]},
            "ratios_of_seeds": ratios,
            "best": sorted(names),
        }
    return found


def part(vectors: Vectors, log: Log, widths: tuple[int, ...] = WIDTHS) -> dict[str, Any]:
    every = play(vectors, log, widths)
    return {
        "machines": vectors.machines,
        "log": log.name,
        "widths": widths,
        "seeds": SEEDS,
        "one_queue": beside(every, ("one",)),
        "either_form": beside(every, queue.QUEUES),
        "rows": means(every),
    }


def comparison(found: dict[str, Any], targets: dict[Any, tuple[str, str]]) -> str:
    header = ["load", "makespan / bound", "makespan against peers", "goal", "slowdown", "÷", "goal"]
    header += ["÷ against fastest", "makespan against true times"]
    header += ["peers with a queue per machine: makespan, ÷"]
    rows = []
    for arrival in ARRIVALS:
        one, either = (found[k][arrival_name(arrival)] for k in ("one_queue", "either_form"))
        goals = targets.get(arrival, ("", ""))
        rows.append(
            [
                arrival_name(arrival),
                f"{one['makespan_over_bound']:.3f}",
                percent(one["ratios"]["makespan"]),
                goals[0],
                f"{one['slowdown']:.4g}",
                f"{one['factors']['slowdown']:.1f}",
                goals[1],
                f"{one['factors']['slowdown_against_fastest']:.1f}",
                percent(one["ratios"]["true_times"]),
                f"{percent(either['ratios']['makespan'])}, {either['factors']['slowdown']:.1f}",
            ]
        )
    return markdown(header, rows)


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %".replace("-", "−")


def placements(found: dict[str, Any]) -> str:
    """Every placement: makespan over its bound, and slowdown."""
    header = ["placement", *(arrival_name(arrival) for arrival in ARRIVALS)]
    rows = []
    for placement in queue.PLACEMENTS:
        for form in queue.QUEUES:
            cells = []
            for arrival in ARRIVALS:
                known = {
                    row["times"]: row
                    for row in find(found["rows"], arrivals=arrival, placement=placement,
                                    queue=form)
                }  # fmt: skip
                ours, true = known["estimated"], known["true"]
                cells.append(
                    f"{ours['makespan_over_bound']:.2f}, {ours['slowdown']:.4g} "
                    f"({true['makespan_over_bound']:.2f}, {true['slowdown']:.4g})"
                )
            rows.append([f"{placement}{', one queue' if form == 'one' else ''}", *cells])
    return markdown(header, rows)


def widths_table(found: dict[str, Any]) -> str:
    header = ["nodes of jobs", *(arrival_name(arrival) for arrival in ARRIVALS)]
    rows = []
    for name, one in found.items():
        cells = [
            f"{row['makespan_over_bound']:.2f}, {percent(row['ratios']['makespan'])}, "
            f"÷ {row['factors']['slowdown']:.1f} (÷ "
            f"{row['factors']['slowdown_against_fastest']:.1f})"
            for row in one["one_queue"].values()
        ]
        rows.append([name, *cells])
    return markdown(header, rows)


def tables() -> dict[str, str]:
    """All tables of the page."""
    results = stored("queue")
    goals = dict.fromkeys(ARRIVALS, ("−50 %", ""))
    return {
        name: make(results[part])
        for name, part, make in (
            ("queue", "programs", partial(comparison, targets=TARGETS)),
            ("queue-placements", "programs", placements),
            ("queue-graphs", "graphs", partial(comparison, targets=goals)),
            ("queue-widths", "widths", widths_table),
        )
        if part in results
    }


def report(results: dict[str, Any]) -> None:
    publish(tables())
    if "programs" in results:
        shown = [
            row
            for row in results["programs"]["rows"]
            if row["placement"] in ("aware", "completion") or row["queue"] == "one"
        ]
        shown = [r for r in shown if r["placement"] in queue.PAPERS or r["queue"] == "machine"]
        plot_queues(shown, RESULTS / "queue.png", overwrite=True)


def run(data: Path | None, only: Sequence[str]) -> None:
    """Simulate the parts, keep the stored results of others, and write everything."""
    if data is None:
        print("The log and the task graphs do not ship: give --data FOLDER.  A made-up log it is.")
        print(comparison(part(programs(), made_up()), {}))
        return
    log = logged(data)
    results = stored("queue")
    shared = programs() if {"programs", "widths"} & set(only) else None
    for name in only:
        if name == "graphs":
            results[name] = part(graphs(data), log)
        elif name == "programs" and shared is not None:
            results[name] = part(shared, log)
        elif shared is not None:
            results[name] = {
                ", ".join(map(str, widths)): {
                    k: v for k, v in part(shared, log, widths).items() if k != "rows"
                }
                for widths in OTHER_WIDTHS
            }
        store(RESULTS / "queue.json", finite(results))
    report(stored("queue"))


def finite(content: Any) -> Any:
    """The content with null for infinities, which JSON lacks."""
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not np.isfinite(content) else content


def main() -> None:
    options = parser(__doc__, PARTS, data="folder of the log and the task graphs").parse_args()
    run(options.data, options.only)
