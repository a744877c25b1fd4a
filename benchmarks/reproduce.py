"""What the tables of ``benchmarks/README.md`` come from: writes their JSON and the tables.

``python benchmarks/reproduce.py tasks``: every method of the package on the six tasks.
``python benchmarks/reproduce.py fidelity [--only scores samples …]``: beside every peer; samples
beside their noise floors; little data; parts removed; error against the number of known contexts;
programs replayed from their traces, thirty runs a test context; how many runs a mean is worth;
which contexts to measure first.
``python benchmarks/reproduce.py real --data FOLDER``: the middle clock of programs measured at
three clocks.  The last two need ``pip install msbgen[bench]``.
``python benchmarks/reproduce.py speed [--quick] [--only bridge generate] [--no-run]``: speed,
every figure beside its target; on an idle machine, or the figures mean nothing.  ``--quick`` takes
small sizes, for a trial, and writes into a folder of its own.
``python benchmarks/reproduce.py allocation --work FOLDER [--only shares clocks …]``: decisions on
generated profiles beside decisions on measured ones, by simulation; the folder keeps a gigabyte of
replays.  `bench_schedule.py --work FOLDER` times the decisions.
``python benchmarks/reproduce.py runtime [--data FOLDER] [--work FOLDER] [--no-fit]``: runtimes
never measured, beside every peer and without each part; it takes an hour and may keep its fits.
``python benchmarks/reproduce.py relative [--only programs runs …] [--data FOLDER]``: which machine
runs a program best, beside peers and parts; the tasks of linear algebra in FOLDER do not ship.
``python benchmarks/reproduce.py measure --work FOLDER [--only example shares kills]``: a program
measured on this machine, contexts planned, profiles scored against quotas never measured; CPU
shares; sweeps killed at random moments.  On an idle machine, as root, with perf.
``python benchmarks/reproduce.py queue [--data FOLDER] [--only programs graphs widths]``: queues of
50,000 jobs placed on several machines; `bench_queue.py` times them.
``python benchmarks/reproduce.py kernels [--data FOLDER] [--work FOLDER] [--only gemm …]``: runtime
and power at clocks never measured; the folder holds public sets, absent ones are left out.
``python benchmarks/reproduce.py graph --work FOLDER [--seeds N] [--no-run]``: time and energy of
task graphs, beside every peer, and contexts chosen for them; the folder keeps what was found, so
that a study that was stopped goes on where it was.  `bench_graph.py` times the answers.
``python benchmarks/reproduce.py dirty [--only named fits peers] [--tasks …] [--designs 27x1 …]
[--seeds N] [--work FOLDER]``: faults put into the known contexts of the six tasks: what is named,
and fits beside those
to clean data; the folder keeps the fits, so that a study that was stopped goes on where it was.
``python benchmarks/reproduce.py partial [--tasks …] [--designs 27x3 125x10] [--cases a b …] [--only
errors joint] [--work FOLDER] [--no-run]``: counters in different runs, runs that were cut, samples
that were lost; the folder keeps what was done.
``python benchmarks/reproduce.py picture``: the picture of the project's README.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two processes share the cores as it is

import allocation
import dirty
import graph as graph_study
import graph_choice
import numpy as np
import partial as partial_runs
import queue_study
import relative
import runtime
from tables import PROFILES, RESULTS, ROOT, TASKS, markdown, put_into_readme, store
from targets import figures

import kernels
import msbgen
from msbgen.evaluate.scores import METHODS

COLUMNS = {
    "fastdtw": "nDTW (fastdtw)",
    "ndtw": "nDTW (exact)",
    "fastdtw_scaled": "scaled (fastdtw)",
    "ndtw_scaled": "scaled (exact)",
    "duration_error": "duration error",
    "energy_distance": "energy distance",
}
EXACT = {m: COLUMNS[m] for m in ("ndtw", "ndtw_scaled", "duration_error")}


# ----------------------------------------------------------------------------------------- tasks


def score_task(task: str) -> dict:
    train = msbgen.read_profiles(PROFILES / f"{task}.nc")
    truth = msbgen.read_profiles(PROFILES / f"{task}-truth.nc")
    return msbgen.summarise(msbgen.score_methods(train, truth, warping=("exact", "fastdtw")))


def tasks() -> None:
    results = _each_task(score_task)
    mean = _means(results, METHODS)
    _write("tasks", {"mean_over_tasks": mean, "tasks": results})
    put_into_readme("tasks", _score_table(mean, COLUMNS))


# -------------------------------------------------------------------------------------- fidelity


def fidelity_scores() -> None:
    import bench_evaluate as fidelity

    results = _each_task(fidelity.scores)
    of_all = {task: result["all"] for task, result in results.items()}
    corner = {task: result["longest tenth"] for task, result in results.items()}
    content = {
        "mean_over_tasks": _means(of_all, fidelity.EVERYONE),
        "longest_tenth_mean_over_tasks": _means(corner, fidelity.EVERYONE),
        "tasks": results,
    }
    _write("fidelity", content)
    columns = {m: text for m, text in COLUMNS.items() if m != "energy_distance"}
    put_into_readme("fidelity", _score_table(content["mean_over_tasks"], columns))
    put_into_readme("fidelity-tasks", _per_task_table(of_all))
    table = _score_table(content["longest_tenth_mean_over_tasks"], columns)
    put_into_readme("fidelity-corner", table)


def fidelity_samples() -> None:
    import bench_evaluate as fidelity

    results = _each_task(fidelity.samples)
    methods = list(results[TASKS[0]])
    figures = {
        m: {f: [r[m][f] for r in results.values()] for f in r[m]}
        for m in methods
        for r in [results[TASKS[0]]]
    }
    mean = {m: {f: float(np.mean(v)) for f, v in row.items()} for m, row in figures.items()}
    _write("fidelity-samples", {"mean_over_tasks": mean, "tasks": results})
    columns = list(mean["floor"])
    rows = []
    for method, row in mean.items():
        cells = [f"{row[f]:.3f} ({row[f] / mean['floor'][f]:.2f} ×)" for f in columns]
        rows.append([method, *cells])
    put_into_readme("fidelity-samples", markdown(["", *columns], rows))
    rows = [
        [
            task,
            *(
                f"{r[m][f]:.3f} ({r[m][f] / r['floor'][f]:.2f} ×)"
                for m in methods[1:]
                for f in ("kolmogorov", "energy")
            ),
        ]
        for task, r in results.items()
    ]
    header = [f"{m}, {f}" for m in methods[1:] for f in ("kolmogorov", "energy")]
    put_into_readme("fidelity-samples-tasks", markdown(["task", *header], rows))


def fidelity_little() -> None:
    import bench_evaluate as fidelity

    results = _each_task(fidelity.little)
    content: dict[str, Any] = {"mean_over_tasks": {}, "tasks": results}
    for design in results[TASKS[0]]:
        per_task = {task: r[design] for task, r in results.items()}
        content["mean_over_tasks"][design] = mean = _means(per_task, fidelity.EVERYONE)
        name = f"fidelity-{design.split()[0]}"
        put_into_readme(name, _score_table(mean, EXACT))
        put_into_readme(f"{name}-tasks", _per_task_table(per_task, ("ndtw", "ndtw_scaled")))
    _write("fidelity-little", content)


def fidelity_ablation() -> None:
    import bench_evaluate as fidelity

    results = _each_task(fidelity.ablation)
    mean = {}
    for name in fidelity.ABLATIONS:
        variant = [r[name] for r in results.values()]
        kinds = _means(dict(zip(results, variant)), ("mean", "max_likelihood"))
        drawn = [v["samples"] for v in variant]
        ratio = {
            f: float(np.mean([d["sample"][f] / d["floor"][f] for d in drawn]))
            for f in ("kolmogorov", "energy")
        }
        mean[name] = {**kinds, "samples_over_floor": ratio}
    _write("fidelity-ablation", {"mean_over_tasks": mean, "tasks": results})
    columns = ("ndtw", "ndtw_scaled", "duration_error")
    header = ["removed"]
    header += [f"{kind}, {EXACT[c]}" for kind in ("mean", "max_likelihood") for c in columns]
    header += [f"samples, {f} / floor" for f in ("kolmogorov", "energy")]
    rows = []
    for name, row in mean.items():
        scores = [(c, row[k][c]["score"]) for k in ("mean", "max_likelihood") for c in columns]
        cells = [f"{100 * v:.2f} %" if c == "duration_error" else f"{v:.4f}" for c, v in scores]
        ratios = [f"{v:.2f}" for v in row["samples_over_floor"].values()]
        rows.append([name, *cells, *ratios])
    put_into_readme("fidelity-ablation", markdown(header, rows))


def fidelity_curve() -> None:
    """Needs the scores: the three best peers are those of ``fidelity.json``."""
    import bench_evaluate as fidelity

    found = json.loads((RESULTS / "fidelity.json").read_text())["mean_over_tasks"]
    others = [*fidelity.PEERS, *fidelity.BASELINES]
    best = sorted(others, key=lambda m: found[m]["ndtw_scaled"]["score"])[:3]
    results = _each_task(partial(fidelity.curve, peers=tuple(best)))
    methods = ("default/mean", *best, "bracketing")
    designs = [str(n) for n in fidelity.DESIGNS]
    mean = {n: _means({t: r[n] for t, r in results.items()}, methods) for n in designs}
    _write("fidelity-curve", {"mean_over_tasks": mean, "tasks": results})
    _draw_curve(mean, methods)
    rows = []
    for method in methods:
        scores = [[mean[n][method][m]["score"] for m in ("ndtw", "ndtw_scaled")] for n in designs]
        rows.append([method, *(f"{raw:.4f} / {scaled:.4f}" for raw, scaled in scores)])
    header = ["nDTW raw / scaled (exact), contexts known", *designs]
    put_into_readme("fidelity-curve", markdown(header, rows))


def _draw_curve(mean: dict, methods: Sequence[str]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    titles = {
        "ndtw": "nDTW, raw",
        "ndtw_scaled": "nDTW, scaled",
        "duration_error": "duration error",
    }
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
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
    pyplot.close(figure)


def fidelity_replays() -> None:
    import bench_evaluate as fidelity

    results = _each_task(fidelity.replays, fidelity.PROGRAMS)
    unseen = {p: results[p] for p in fidelity.UNSEEN_PROGRAMS}
    methods = list(results[fidelity.PROGRAMS[0]]["all"]["methods"])
    means = {
        "five programs kept apart": _means(_part(unseen, "all"), methods),
        "the five in the corner of the platform": _means(_part(unseen, "corner"), methods),
        "all eleven programs": _means(_part(results, "all"), methods),
        "all eleven in the corner": _means(_part(results, "corner"), methods),
    }
    _write("fidelity-replays", {"means": means, "programs": results})
    rows = []
    for name, mean in means.items():
        rows += [[name, *row] for row in _score_rows(mean, EXACT)]
    put_into_readme("replays", markdown(["contexts", "method", *EXACT.values()], rows))
    put_into_readme("replays-programs", _per_task_table(_part(unseen, "all"), tuple(EXACT)[:2]))


def fidelity_equal() -> None:
    import bench_evaluate as fidelity

    results = _each_task(fidelity.equal, fidelity.UNSEEN_PROGRAMS)
    _write("fidelity-equal", {"programs": results})
    rows = []
    for method in [name for name in next(iter(results.values())) if name != "measured"]:
        own = {p: r[method] for p, r in results.items()}
        runs = np.array([r["equal"] for r in own.values()])
        runs = np.concatenate([runs, np.exp(np.log(runs).mean(axis=0))[None]])
        rows.append([f"{method}, equal runs", *(f"{a:.1f} / {b:.1f}" for a, b in runs)])
        worst = np.array([r["worst tenth"][:2] for r in own.values()])
        worst = np.concatenate([worst, worst.mean(axis=0)[None]])
        rows.append([f"{method}, worst tenth", *(f"{a:.3f} / {b:.3f}" for a, b in worst)])
    header = ["raw / scaled", *results, "mean (of runs, geometric)"]
    put_into_readme("equal", markdown(header, rows))


def fidelity_designs() -> None:
    import bench_evaluate as fidelity

    results = _each_task(fidelity.compare_designs, fidelity.PROGRAMS)
    _write("fidelity-designs", {"programs": results})
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
    put_into_readme("designs", markdown(header, rows))


def _part(results: Mapping[str, dict], name: str) -> dict[str, dict]:
    return {program: result[name] for program, result in results.items()}


FIDELITY: dict[str, Callable[[], None]] = {
    "scores": fidelity_scores,
    "samples": fidelity_samples,
    "little": fidelity_little,
    "ablation": fidelity_ablation,
    "curve": fidelity_curve,
    "replays": fidelity_replays,
    "equal": fidelity_equal,
    "designs": fidelity_designs,
}


# ---------------------------------------------------------------------------------- real hardware


def real(folder: Path) -> None:
    import bench_evaluate as fidelity

    paths = sorted(folder.glob("*.nc"))
    if not paths:
        raise SystemExit(f"no profiles in {folder}; give the folder that holds one file a program.")
    results = {path.stem: fidelity.middle_clock(path) for path in paths}
    mean = _means(results, fidelity.EVERYONE)
    _write("real", {"mean_over_programs": mean, "programs": results})
    put_into_readme("real", _score_table(mean, EXACT))
    rows = []
    for name, result in results.items():
        ours = result["methods"]["default/mean"]
        cells = [f"{ours['ndtw_scaled']:.3f}", f"{100 * ours['duration_error']:.2f} %"]
        rows.append([name, *cells, " ".join(result["warnings"])])
    header = ["program", "scaled (exact)", "duration error", "said of it"]
    put_into_readme("real-programs", markdown(header, rows))


# ----------------------------------------------------------------------------------------- speed

SPEED = ("bridge", "generate")
MEASURE = ("example", "shares", "kills")


def speed(names: Sequence[str], quick: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="msbgen-speed-")) if quick else RESULTS
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in names:
        script = ROOT / "benchmarks" / f"bench_{name}.py"
        command = [sys.executable, script, "--output", folder / f"{name}.json"]
        command += ["--quick"] if quick else []
        subprocess.run(list(map(str, command)), env=environment, check=True)
    paths = {name: folder / f"{name}.json" for name in SPEED}
    results = {n: json.loads(path.read_text()) for n, path in paths.items() if path.exists()}
    found = figures(results)
    rows = [{**asdict(f), "verdict": f.verdict} for f in found]
    for row in rows:
        row["value"] = None if row["value"] != row["value"] else row["value"]  # JSON has no NaN
    store(folder / "speed.json", {"machine": machine(), "figures": rows})
    text = markdown(["figure", "measured", "asked", ""], [figure.cells() for figure in found])
    if quick:
        print(f"\n{text}\n\n{folder}")
    else:
        put_into_readme("speed", f"{machine()}\n\n{text}")


def picture() -> None:
    """What the demo draws, in as many colours as it needs."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "demo"
        command = [sys.executable, "-m", "msbgen", "demo", "-o", str(folder)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
        with Image.open(folder / "profiles.png") as drawn:
            small = drawn.convert("RGB").resize((1200, 1200 * drawn.height // drawn.width))
    small.quantize(128).save(RESULTS / "demo.png", optimize=True)


def machine() -> str:
    """Processor and cores, in words."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


# ------------------------------------------------------------------------------ numbers and tables


def _each_task(measure: Callable[[str], dict], tasks: Sequence[str] = TASKS) -> dict[str, dict]:
    with ProcessPoolExecutor(2) as pool:
        return dict(zip(tasks, pool.map(measure, tasks)))


def _means(results: Mapping[str, dict], methods: Sequence[str] | Mapping[str, Any]) -> dict:
    """Mean over tasks of each task's mean score and of its improvement over the baseline."""
    one = next(iter(results.values()))["methods"]
    return {
        method: {
            metric: {
                "score": float(np.mean([r["methods"][method][metric] for r in results.values()])),
                "improvement": float(
                    np.mean([r["methods"][method]["improvement"][metric] for r in results.values()])
                ),
            }
            for metric in one[method]["improvement"]
        }
        for method in methods
    }


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
    methods = next(iter(results.values()))["methods"]
    rows = []
    for method in methods:
        cells = []
        for result in results.values():
            gain = result["methods"][method]["improvement"]
            cells.append(" / ".join(f"{100 * gain[metric]:.0f}" for metric in metrics) + " %")
        rows.append([method, *cells])
    return markdown(["improvement raw / scaled", *results], rows)


def _write(name: str, content: dict) -> None:
    store(RESULTS / f"{name}.json", content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("tasks", help="every method of the package on the six tasks")
    part = parts.add_parser("fidelity", help="the same beside every peer, samples, little data")
    part.add_argument("--only", nargs="+", choices=list(FIDELITY), default=list(FIDELITY))
    part = parts.add_parser("real", help="measured programs: the middle clock from the others")
    part.add_argument("--data", type=Path, required=True, help="folder of profiles, one a program")
    part = parts.add_parser("speed", help="every figure of speed beside its target")
    part.add_argument("--quick", action="store_true", help="small sizes, for a trial")
    part.add_argument("--only", nargs="+", choices=SPEED, default=SPEED)
    part.add_argument("--no-run", action="store_true", help="take the results that are stored")
    part = parts.add_parser("allocation", help="decisions on generated and measured profiles")
    part.add_argument("--work", type=Path, required=True, help="folder for what is made once")
    part.add_argument("--only", nargs="+", choices=allocation.PARTS, default=[*allocation.PARTS])
    part = parts.add_parser("runtime", help="runtimes never measured, beside every peer")
    part.add_argument("--data", type=Path, help="folder of npz archives; without, what ships")
    part.add_argument("--work", type=Path, help="folder that keeps the fits")
    part.add_argument("--no-fit", action="store_true", help="score the fits that are there")
    part = parts.add_parser("relative", help="which machine runs a program best, beside peers")
    part.add_argument("--only", nargs="+", choices=relative.PARTS, default=[*relative.PARTS])
    part.add_argument("--data", type=Path, help="folder of tasks of dense linear algebra")
    part = parts.add_parser("measure", help="a program measured on this machine, then generated")
    part.add_argument("--work", type=Path, required=True, help="folder for what is measured")
    part.add_argument("--only", nargs="+", choices=MEASURE, default=MEASURE)
    part.add_argument("--quick", action="store_true", help="few, short runs, for a trial")
    part = parts.add_parser("queue", help="queues of jobs placed on several machines")
    part.add_argument("--data", type=Path, help="folder of the log and the task graphs")
    part.add_argument("--only", nargs="+", choices=queue_study.PARTS, default=[*queue_study.PARTS])
    of_kernels = [*kernels.PARTS, kernels.CHOICE]
    part = parts.add_parser("kernels", help="kernels and programs at clocks never measured")
    part.add_argument("--data", type=Path, help="folder with jetson, nv-dvfs, zeus")
    part.add_argument("--work", type=Path, help="folder that keeps studies of the paper's model")
    part.add_argument("--only", nargs="+", choices=of_kernels, default=of_kernels)
    part = parts.add_parser("graph", help="time and energy of task graphs, beside every peer")
    part.add_argument("--work", type=Path, required=True, help="folder for what is made once")
    part.add_argument("--seeds", type=int, default=len(graph_study.SEEDS), help="of how many draws")
    part.add_argument("--processes", type=int, default=2, help="that fit at a time")
    part.add_argument("--no-run", action="store_true", help="report what the folder holds")
    part = parts.add_parser("dirty", help="faults in the known contexts: named, and fitted")
    part.add_argument("--only", nargs="+", choices=dirty.PARTS, default=[*dirty.PARTS])
    part.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    part.add_argument("--seeds", type=int, choices=(1, 2, 3), default=3, help="3")
    part.add_argument("--designs", nargs="+", choices=dirty.NAMES, default=[*dirty.NAMES])
    part.add_argument("--work", type=Path, help="folder that keeps the fits, to go on later")
    part.add_argument("--jobs", type=int, default=2, help="processes; 2")
    part = parts.add_parser("partial", help="groups of counters, cut runs, lost samples")
    part.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    part.add_argument("--designs", nargs="+", default=[*partial_runs.DESIGNS])
    part.add_argument("--cases", nargs="+", choices=partial_runs.CASES, default=partial_runs.CASES)
    part.add_argument("--only", nargs="+", choices=partial_runs.PARTS, default=partial_runs.PARTS)
    part.add_argument("--work", type=Path, help="folder that keeps what was done, to go on later")
    part.add_argument("--no-run", action="store_true", help="report what the folder holds")
    parts.add_parser("picture", help="the picture of the project's README")
    arguments = parser.parse_args()
    if arguments.part == "allocation":
        allocation.run(arguments.work, arguments.only)
    elif arguments.part == "runtime":
        runtime.run(arguments.data, arguments.work, fit=not arguments.no_fit)
    elif arguments.part == "kernels":
        kernels.run(arguments.only, arguments.data, arguments.work)
    elif arguments.part == "queue":
        queue_study.run(arguments.data, arguments.only)
    elif arguments.part == "relative":
        relative.run(arguments.only, arguments.data)
    elif arguments.part == "measure":
        import bench_sweep

        for name in arguments.only:
            bench_sweep.run(name, arguments.work, quick=arguments.quick)
    elif arguments.part == "graph":
        seeds = range(arguments.seeds)
        for study, which in ((graph_study, seeds), (graph_choice, arguments.seeds)):
            if arguments.no_run:
                study.report(arguments.work, which)
            else:
                study.run(arguments.work, which, processes=arguments.processes)
    elif arguments.part == "dirty":
        dirty.run(
            arguments.only,
            arguments.tasks,
            arguments.seeds,
            arguments.work,
            arguments.jobs,
            arguments.designs,
        )
    elif arguments.part == "partial":
        part = arguments.tasks, arguments.designs, arguments.cases, arguments.only
        partial_runs.run(*part, arguments.work, do=not arguments.no_run)
    elif arguments.part == "picture":
        picture()
    elif arguments.part == "speed":
        speed(() if arguments.no_run else arguments.only, arguments.quick)
    elif arguments.part == "tasks":
        tasks()
    elif arguments.part == "real":
        real(arguments.data)
    else:
        for name in arguments.only:
            FIDELITY[name]()


if __name__ == "__main__":
    sys.exit(main())
