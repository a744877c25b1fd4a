"""Profiles in contexts never measured: every part of the study, its JSON and its tables.

``python benchmarks/reproduce.py fidelity [--only tasks scores …] [--data FOLDER]``.  FOLDER holds
the profiles of programs that were measured at three clocks, which do not ship; without it the part
``real`` is skipped.  `fidelity_scores.py` measures one task, `fidelity_peers.py` holds the peers.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fidelity_many
import fidelity_predictive
import fidelity_scores as fidelity
import numpy as np
from tables import (
    PROFILES,
    RESULTS,
    TASKS,
    markdown,
    mean_rows,
    parser,
    publish,
    store,
    stored,
    subplots,
)

import msbgen
from msbgen.answers.evaluate.scores import METHODS

COLUMNS = {
    "fastdtw": "nDTW (fastdtw)",
    "ndtw": "nDTW (exact)",
    "fastdtw_scaled": "scaled (fastdtw)",
    "ndtw_scaled": "scaled (exact)",
    "duration_error": "duration error",
    "energy_distance": "energy distance",
}
PROFILE_COLUMNS = {metric: COLUMNS[metric] for metric in [*COLUMNS][:-1]}
EXACT = {metric: COLUMNS[metric] for metric in ("ndtw", "ndtw_scaled", "duration_error")}
Tables = dict[str, str]


def score_task(task: str) -> dict:
    """Scores of every method of the package on a task."""
    train, truth = fidelity.read_task(task)
    return msbgen.summarise(msbgen.score_methods(train, truth, warping=("exact", "fastdtw")))


def measure_tasks() -> dict[str, Any]:
    results = _each_task(score_task)
    return {"mean_over_tasks": _means(results, METHODS), "tasks": results}


def measure_scores() -> dict[str, Any]:
    results = _each_task(fidelity.scores)
    return {
        "mean_over_tasks": _means(_part(results, "all"), fidelity.EVERYONE),
        "longest_tenth_mean_over_tasks": _means(_part(results, "longest tenth"), fidelity.EVERYONE),
        "tasks": results,
    }


def measure_samples() -> dict[str, Any]:
    results = _each_task(fidelity.samples)
    mean = {method: mean_rows([*_part(results, method).values()]) for method in results[TASKS[0]]}
    return {"mean_over_tasks": mean, "tasks": results}


def measure_little() -> dict[str, Any]:
    results = _each_task(fidelity.little)
    mean = {
        design: _means(_part(results, design), fidelity.EVERYONE) for design in results[TASKS[0]]
    }
    return {"mean_over_tasks": mean, "tasks": results}


def measure_ablation() -> dict[str, Any]:
    results = _each_task(fidelity.ablation)
    mean = {}
    for name in fidelity.ABLATIONS:
        variant = _part(results, name)
        drawn = [v["samples"] for v in variant.values()]
        ratio = {
            f: float(np.mean([d["sample"][f] / d["floor"][f] for d in drawn]))
            for f in ("kolmogorov", "energy")
        }
        mean[name] = {**_means(variant, ("mean", "max_likelihood")), "samples_over_floor": ratio}
    return {"mean_over_tasks": mean, "tasks": results}


def measure_curve() -> dict[str, Any]:
    """Scores against the number of contexts, beside the three best peers of the stored scores."""
    known = stored("fidelity")["mean_over_tasks"]
    others = [*fidelity.PEERS, *fidelity.BASELINES]
    best = sorted(others, key=lambda m: known[m]["ndtw_scaled"]["score"])[:3]
    results = _each_task(partial(fidelity.curve, peers=tuple(best)))
    methods = ("default/mean", *best, "bracketing")
    mean = {str(n): _means(_part(results, str(n)), methods) for n in fidelity.DESIGNS}
    _draw_curve(mean, methods)
    return {"mean_over_tasks": mean, "tasks": results}


def measure_replays() -> dict[str, Any]:
    results = _each_task(fidelity.replays, fidelity.PROGRAMS)
    unseen = {p: results[p] for p in fidelity.UNSEEN_PROGRAMS}
    methods = list(results[fidelity.PROGRAMS[0]]["all"]["methods"])
    means = {
        "five programs kept apart": _means(_part(unseen, "all"), methods),
        "the five in the corner of the platform": _means(_part(unseen, "corner"), methods),
        "all eleven programs": _means(_part(results, "all"), methods),
        "all eleven in the corner": _means(_part(results, "corner"), methods),
        "those not marked": _means(_part(results, "corner, not marked"), methods),
    }
    return {"means": means, "programs": results}


def measure_programs(score: Callable[[str], dict], programs: Sequence[str]) -> dict[str, Any]:
    return {"programs": _each_task(score, programs)}


measure_equal = partial(measure_programs, fidelity.equal, fidelity.UNSEEN_PROGRAMS)
measure_designs = partial(measure_programs, fidelity.compare_designs, fidelity.PROGRAMS)
measure_many = partial(measure_programs, fidelity_many.many, fidelity_many.TRACES)
measure_few = partial(measure_programs, fidelity.few, fidelity.PROGRAMS)


def measure_real(folder: Path) -> dict[str, Any]:
    paths = sorted(folder.glob("*.nc"))
    if not paths:
        raise SystemExit(f"no profiles in {folder}; give the folder that holds one file a program.")
    results = {path.stem: fidelity.middle_clock(path) for path in paths}
    return {
        "mean_over_programs": _means(results, fidelity.EVERYONE),
        "programs": results,
        "single runs": {path.stem: fidelity.left_out_clocks(path) for path in paths},
    }


def tabulate_tasks(content: dict[str, Any]) -> Tables:
    return {"tasks": _score_table(content["mean_over_tasks"], COLUMNS)}


def tabulate_scores(content: dict[str, Any]) -> Tables:
    corner = content["longest_tenth_mean_over_tasks"]
    return {
        "fidelity": _score_table(content["mean_over_tasks"], PROFILE_COLUMNS),
        "fidelity-tasks": _per_task_table(_part(content["tasks"], "all")),
        "fidelity-corner": _score_table(corner, PROFILE_COLUMNS),
    }


def tabulate_samples(content: dict[str, Any]) -> Tables:
    mean = content["mean_over_tasks"]

    def cells(row: dict[str, dict], method: str, columns: Sequence[str]) -> list[str]:
        """Each distance, and its ratio to the floor."""
        own, floor = row[method], row["floor"]
        return [f"{own[f]:.3f} ({own[f] / floor[f]:.2f} ×)" for f in columns]

    columns, methods = list(mean["floor"]), [m for m in mean if m != "floor"]
    pair = ("kolmogorov", "energy")
    by_task = [
        [task, *(cell for m in methods for cell in cells(row, m, pair))]
        for task, row in content["tasks"].items()
    ]
    header = ["task", *(f"{m}, {f}" for m in methods for f in pair)]
    rows = [[method, *cells(mean, method, columns)] for method in mean]
    return {
        "fidelity-samples": markdown(["", *columns], rows),
        "fidelity-samples-tasks": markdown(header, by_task),
    }


def tabulate_little(content: dict[str, Any]) -> Tables:
    found = {}
    for design, mean in content["mean_over_tasks"].items():
        name = f"fidelity-{design.split()[0]}"
        found[name] = _score_table(mean, EXACT)
        by_task = _part(content["tasks"], design)
        found[f"{name}-tasks"] = _per_task_table(by_task, ("ndtw", "ndtw_scaled"))
    return found


def tabulate_ablation(content: dict[str, Any]) -> Tables:
    kinds = ("mean", "max_likelihood")
    header = ["removed", *(f"{kind}, {title}" for kind in kinds for title in EXACT.values())]
    header += [f"samples, {f} / floor" for f in ("kolmogorov", "energy")]
    rows = []
    for name, row in content["mean_over_tasks"].items():
        scores = [(metric, row[kind][metric]["score"]) for kind in kinds for metric in EXACT]
        cells = [f"{100 * v:.2f} %" if m == "duration_error" else f"{v:.4f}" for m, v in scores]
        rows.append([name, *cells, *(f"{v:.2f}" for v in row["samples_over_floor"].values())])
    return {"fidelity-ablation": markdown(header, rows)}


def tabulate_curve(content: dict[str, Any]) -> Tables:
    mean = content["mean_over_tasks"]
    rows = []
    for method in next(iter(mean.values())):
        scores = [
            [row[method][m]["score"] for m in ("ndtw", "ndtw_scaled")] for row in mean.values()
        ]
        rows.append([method, *(f"{raw:.4f} / {scaled:.4f}" for raw, scaled in scores)])
    header = ["nDTW raw / scaled (exact), contexts known", *mean]
    return {"fidelity-curve": markdown(header, rows)}


def tabulate_replays(content: dict[str, Any]) -> Tables:
    rows = []
    for name, mean in content["means"].items():
        rows += [[name, *row] for row in _score_rows(mean, EXACT)]
    unseen = {p: content["programs"][p]["all"] for p in fidelity.UNSEEN_PROGRAMS}
    return {
        "replays": markdown(["contexts", "method", *EXACT.values()], rows),
        "replays-programs": _per_task_table(unseen, ("ndtw", "ndtw_scaled")),
    }


def tabulate_equal(content: dict[str, Any]) -> Tables:
    results, rows = content["programs"], []
    for method in [name for name in next(iter(results.values())) if name != "measured"]:
        of_method = _part(results, method).values()
        runs = np.array([row["equal"] for row in of_method])
        runs = np.concatenate([runs, np.exp(np.log(runs).mean(axis=0))[None]])
        rows.append([f"{method}, equal runs", *(f"{a:.1f} / {b:.1f}" for a, b in runs)])
        worst = np.array([row["worst tenth"][:2] for row in of_method])
        worst = np.concatenate([worst, worst.mean(axis=0)[None]])
        rows.append([f"{method}, worst tenth", *(f"{a:.3f} / {b:.3f}" for a, b in worst)])
    header = ["raw / scaled", *results, "mean (of runs, geometric)"]
    return {"equal": markdown(header, rows)}


def tabulate_designs(content: dict[str, Any]) -> Tables:
    results = content["programs"]
    names = list(results[TASKS[0]])
    parts = {"six tasks": TASKS, "five kept apart": fidelity.UNSEEN_PROGRAMS}
    rows = []
    for name in names:
        seconds = [r[name]["seconds"] / r[names[0]]["seconds"] for r in results.values()]
        runs = results[TASKS[0]][name]["runs"]
        cells = [name, str(runs), f"{100 * np.exp(np.mean(np.log(seconds))):.0f} %"]
        for programs in parts.values():
            error, worst = (
                np.mean([results[p][name][part] for p in programs], axis=0)
                for part in ("error", "worst tenth")
            )
            cells += [f"{error[0]:.4f} / {error[1]:.4f}", f"{100 * error[2]:.2f} %"]
            cells += [f"{worst[0]:.3f} / {worst[1]:.3f}"]
        rows.append(cells)
    header = ["known", "runs", "time of measuring"]
    for part in parts:
        header += [f"{part}: nDTW raw / scaled", "duration error", "worst tenth"]
    return {"designs": markdown(header, rows)}


def tabulate_few(content: dict[str, Any]) -> Tables:
    results, rows = content["programs"], []
    sets = [*results[TASKS[0]]]
    spinning = [name for name in sets if name.endswith(fidelity.SPINNING)]
    for kind, chosen in (("", [n for n in sets if n not in spinning]), ("spinning", spinning)):
        for name, own in [*((one, [one]) for one in chosen), (f"mean {kind}".rstrip(), chosen)]:
            found = [result[one] for result in results.values() for one in own]
            single = np.mean([r["single"] for r in found])
            rows.append([name, f"{100 * single:.2f} %", *_duration_cells(found)])
    header = ["known, single runs", "one run", "default/mean", *fidelity.INTERPOLATIONS]
    return {"few": markdown(header, rows)}


def _duration_cells(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Mean errors of duration and scaled profile, of the default and the interpolations."""
    cells = []
    for method in ("default/mean", *fidelity.INTERPOLATIONS):
        error, scaled = (
            np.mean([r[method][metric] for r in found])
            for metric in ("duration_error", "ndtw_scaled")
        )
        cells.append(f"{100 * error:.2f} % / {scaled:.3f}")
    return cells


def tabulate_many(content: dict[str, Any]) -> Tables:
    """Scores of both fits, and their ratios (differences of the coverage)."""
    rows = []
    for name in fidelity_many.TITLES:
        cells = [fidelity_many.TITLES[name]]
        for result in content["programs"].values():
            own, exact = (result[method][name] for method in fidelity_many.METHODS)
            if name == "coverage":
                cells.append(f"{100 * own:.1f} / {100 * exact:.1f} %")
            elif name == "seconds":
                cells.append(f"{own:.0f} / {exact:.0f} s")
            else:
                cells.append(f"{own:.4f} / {exact:.4f} = {own / exact:.3f}")
        rows.append(cells)
    return {"many": markdown(["approximated / exact", *content["programs"]], rows)}


def measure_predictive() -> dict[str, Any]:
    """Ranges of samples beside new runs, of every trace."""
    names = sorted(path.stem for path in (PROFILES / "traces").glob("*.nc"))
    return {"programs": {name: fidelity_predictive.predictive(name) for name in names}}


def tabulate_predictive(content: dict[str, Any]) -> Tables:
    """Shares of runs within the ranges, and widths over the narrowest, by program."""
    rows = []
    for name, designs in content["programs"].items():
        cells = [name]
        for result in designs.values():
            cells += [f"{100 * result['held']:.1f} %", f"{100 * result['held as known']:.1f} %"]
            cells.append(f"{result['relative width']:.2f}")
        rows.append(cells)
    header = ["program"]
    for design in fidelity_predictive.DESIGNS:
        header += [f"{design}: within", "as known", "width"]
    held = np.array(
        [
            [[one["held"], one["held as known"], one["relative width"]] for one in designs.values()]
            for designs in content["programs"].values()
        ]
    ).mean(axis=0)
    mean = ["mean"]
    for within, as_known, width in held:
        mean += [f"{100 * within:.1f} %", f"{100 * as_known:.1f} %", f"{width:.2f}"]
    return {"predictive": markdown(header, [*rows, mean])}


def tabulate_real(content: dict[str, Any]) -> Tables:
    rows = []
    for name, result in content["programs"].items():
        ours = result["methods"]["default/mean"]
        cells = [f"{ours['ndtw_scaled']:.3f}", f"{100 * ours['duration_error']:.2f} %"]
        rows.append([name, *cells, " ".join(result["warnings"])])
    single = content["single runs"]
    clocks = [[place, *_duration_cells([*_part(single, place).values()])]
              for place in next(iter(single.values()))]  # fmt: skip
    return {
        "real": _score_table(content["mean_over_programs"], EXACT),
        "real-single": markdown(
            ["clock left out", "default/mean", *fidelity.INTERPOLATIONS], clocks
        ),
        "real-programs": markdown(["program", "scaled (exact)", "duration error", "warning"], rows),
    }


# Measurement, tables and result file of each part.
PARTS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[dict], Tables], str]] = {
    "tasks": (measure_tasks, tabulate_tasks, "tasks"),
    "scores": (measure_scores, tabulate_scores, "fidelity"),
    "samples": (measure_samples, tabulate_samples, "fidelity-samples"),
    "little": (measure_little, tabulate_little, "fidelity-little"),
    "ablation": (measure_ablation, tabulate_ablation, "fidelity-ablation"),
    "curve": (measure_curve, tabulate_curve, "fidelity-curve"),
    "replays": (measure_replays, tabulate_replays, "fidelity-replays"),
    "equal": (measure_equal, tabulate_equal, "fidelity-equal"),
    "designs": (measure_designs, tabulate_designs, "fidelity-designs"),
    "few": (measure_few, tabulate_few, "fidelity-few"),
    "many": (measure_many, tabulate_many, "fidelity-many"),
    "predictive": (measure_predictive, tabulate_predictive, "fidelity-predictive"),
    "real": (measure_real, tabulate_real, "real"),
}


def tables() -> Tables:
    """All tables of the page."""
    found: Tables = {}
    for _, tabulate, file in PARTS.values():
        found |= tabulate(stored(file))
    return found


def _draw_curve(mean: dict, methods: Sequence[str]) -> None:
    titles = dict(zip(EXACT, ("nDTW, raw", "nDTW, scaled", "duration error")))
    figure, axes = subplots(1, 3, figsize=(11, 3.6))
    for axis, (metric, title) in zip(axes, titles.items()):
        for method in methods:
            line = [row[method][metric]["score"] for row in mean.values()]
            axis.loglog([int(n) for n in mean], line, marker="o", label=method)
        axis.set_xlabel("known contexts")
        axis.set_title(title)
        axis.set_xticks([int(n) for n in mean], labels=list(mean))
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(fontsize="small")
    figure.savefig(RESULTS / "fidelity-curve.png", dpi=130)


def _each_task(measure: Callable[[str], dict], tasks: Sequence[str] = TASKS) -> dict[str, dict]:
    # a fork would wait for ever for threads of OpenMP that a part before has started
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        return dict(zip(tasks, pool.map(measure, tasks)))


def _part(results: Mapping[str, dict], name: str) -> dict[str, dict]:
    return {program: result[name] for program, result in results.items()}


def _means(results: Mapping[str, dict], methods: Sequence[str] | Mapping[str, Any]) -> dict:
    """Mean over tasks of each task's mean score and of its improvement over the baseline."""
    metrics = next(iter(results.values()))["methods"]
    found: dict[str, dict] = {}
    for method in methods:
        rows = [r["methods"][method] for r in results.values()]
        found[method] = {
            metric: {
                "score": float(np.mean([row[metric] for row in rows])),
                "improvement": float(np.mean([row["improvement"][metric] for row in rows])),
            }
            for metric in metrics[method]["improvement"]
        }
    return found


def _score_table(mean: dict, columns: Mapping[str, str]) -> str:
    return markdown(["method", *columns.values()], _score_rows(mean, columns))


def _score_rows(mean: dict, columns: Mapping[str, str]) -> list[list[str]]:
    rows = []
    for method, row in mean.items():
        cells = []
        for metric in columns:
            score, gain = row[metric]["score"], row[metric]["improvement"]
            text = f"{100 * score:.1f} %" if metric == "duration_error" else f"{score:.3f}"
            cells.append(f"{text} ({100 * gain:+.0f} %)")
        rows.append([method, *cells])
    return rows


def _per_task_table(
    results: Mapping[str, dict], metrics: Sequence[str] = ("fastdtw", "fastdtw_scaled")
) -> str:
    """Improvement in per cent of every method on every task, raw / scaled."""
    rows = []
    for method in next(iter(results.values()))["methods"]:
        gains = [result["methods"][method]["improvement"] for result in results.values()]
        cells = [" / ".join(f"{100 * g[metric]:.0f}" for metric in metrics) + " %" for g in gains]
        rows.append([method, *cells])
    return markdown(["improvement raw / scaled", *results], rows)


def main() -> None:
    options = parser(__doc__, PARTS, data="folder with a file a measured program").parse_args()
    for name in options.only:
        measure, tabulate, file = PARTS[name]
        if name == "real" and options.data is None:
            print("real: the measured programs do not ship; give --data FOLDER.")
            continue
        content = measure(options.data) if name == "real" else measure()
        store(RESULTS / f"{file}.json", content)
        publish(tabulate(content))
