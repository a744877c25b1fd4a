"""Speed, all of it: runs the three benchmarks, prints every figure beside its target, stores it.

    python benchmarks/run_all.py [--quick] [--only solver generate scaling] [--no-run]

Writes ``benchmarks/results/{solver,generate,scaling,speed}.json`` and the README's table; with
``--quick`` small sizes, for a trial, and nothing but a folder of its own.  On an idle machine, or
the figures mean nothing.  Where a peer (``pip install msbgen[bench]``) is missing, the table says
so.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tables import RESULTS, markdown, put_into_readme, store

HERE = Path(__file__).resolve().parent
BENCHMARKS = ("solver", "generate", "scaling")


@dataclass(frozen=True)
class Figure:
    """One measured number beside what is asked of it.

    Attributes
    ----------
    what : str
    value : float
        NaN where it was not measured.
    target : float
    at_least : bool
        The target is a lower bound; an upper one otherwise.
    unit : str
    note : str
        Why there is no value.
    """

    what: str
    value: float
    target: float
    at_least: bool
    unit: str
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.value != self.value:
            return self.note or "not measured"
        met = self.value >= self.target if self.at_least else self.value <= self.target
        return "met" if met else "missed"

    def cells(self) -> list[str]:
        sign = "≥" if self.at_least else "≤"
        value = "—" if self.value != self.value else f"{self.value:.3g} {self.unit}".strip()
        return [self.what, value, f"{sign} {self.target:g} {self.unit}".strip(), self.verdict]


def figures(results: Mapping[str, Mapping[str, Any]]) -> list[Figure]:
    """Every figure with a target, from the JSON of the three benchmarks; in the order of a job."""
    makers: dict[str, Callable[[Any], Iterator[Figure]]] = {
        "solver": _solver_figures,
        "generate": _generate_figures,
        "scaling": _scaling_figures,
    }
    return [figure for name in makers if name in results for figure in makers[name](results[name])]


def _solver_figures(solver: Mapping[str, Any]) -> Iterator[Figure]:
    targets = {0.1: {"pot": 5.0, "ott": 15.0}, 0.01: {"pot": 20.0, "ott": 40.0}}
    for row in solver.get("pair", []):
        for peer, target in targets.get(row["epsilon"], {}).items():
            # the fastest of the peer's variants that reached the accuracy
            ratios = [ratio for name, ratio in row["ratio"].items() if name.startswith(peer)]
            notes = [f"{n} {t}" for n, t in row["notes"].items() if n.startswith(peer)]
            yield Figure(
                f"one pair, n = {row['n']}, ε = {row['epsilon']:g}: faster than {peer.upper()}",
                min(ratios, default=float("nan")),
                target,
                True,
                "×",
                "; ".join(notes) or "peer not installed",
            )
    for row in solver.get("chain", []):
        yield Figure(
            f"chain, n = {row['n']}, s = {row['s']}, ε = {row['epsilon']:g}: faster than the "
            f"paper-like one",
            row["ratio"]["paper-like numpy"],
            100.0,
            True,
            "×",
        )
    for row in solver.get("pass", []):
        what = f"pass over the kernel, n = {row['n']}, against reading it"
        yield Figure(what, row["ratio"], 2.0, False, "×")
    if solver.get("hard"):
        share = sum(row["converged"] for row in solver["hard"]) / len(solver["hard"])
        what = f"hard cases solved, of {len(solver['hard'])}"
        yield Figure(what, 100 * share, 100.0, True, "%")
    if "threads" in solver:
        yield Figure("two threads, solving", solver["threads"]["speedup"], 1.6, True, "×")


def _generate_figures(generate: Mapping[str, Any]) -> Iterator[Figure]:
    if "job" in generate:
        job = generate["job"]
        what = f"whole job, {job['task']}, {job['n_contexts']} contexts, every kind"
        yield Figure(what, job["seconds"], 60.0, False, "s")
        yield Figure(f"{what}: peak memory", job["peak_bytes"] / 1e9, 2.0, False, "GB")
    if "model" in generate:
        model = generate["model"]
        for kind, seconds in model["one_context_seconds"].items():
            what = f"one context from a fitted model, {kind}"
            yield Figure(what, 1e3 * seconds, 5.0, False, "ms")
        what = "one context's mean profile and duration bound"
        yield Figure(what, 1e3 * model["answer_seconds"], 5.0, False, "ms")
        what = f"{model['n_contexts']} mean profiles"
        yield Figure(what, model["seconds"]["mean, 2 cores"], 3.0, False, "s")
        for kind, speedup in model["speedup"].items():
            yield Figure(f"two threads, generating {kind}", speedup, 1.6, True, "×")
    if "start" in generate:
        start = generate["start"]
        yield Figure("`msbgen --help`", start["help_seconds"], 0.3, False, "s")
        what = "first `generate` of a fresh install"
        yield Figure(what, start["first_generate_seconds"], 30.0, False, "s")
        what = "later `generate` with little to do"
        yield Figure(what, start["later_start_seconds"], 2.0, False, "s")
        what = "`msbgen demo` of a fresh install, all contexts generated"
        yield Figure(what, start["demo_seconds"], 60.0, False, "s")


def _scaling_figures(scaling: Mapping[str, Any]) -> Iterator[Figure]:
    if "snapshots" in scaling:
        what = "growth with the snapshots, exponent"
        yield Figure(what, scaling["snapshots"]["slope"], 1.1, False, "")
    if "contexts" in scaling:
        rows = {k: row["slope"] for k, row in scaling["contexts"].items() if isinstance(row, dict)}
        for kind, slope in rows.items():
            yield Figure(f"growth with the contexts, {kind}, exponent", slope, 1.1, False, "")
    if "points" in scaling:
        yield Figure("growth with n, exponent", scaling["points"]["slope"], 2.1, False, "")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a trial")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS)
    parser.add_argument("--no-run", action="store_true", help="take the results that are stored")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="msbgen-speed-")) if options.quick else RESULTS
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    for name in () if options.no_run else options.only:
        command = [sys.executable, HERE / f"bench_{name}.py", "--output", folder / f"{name}.json"]
        command += ["--quick"] if options.quick else []
        subprocess.run(list(map(str, command)), env=environment, check=True)
    paths = {name: folder / f"{name}.json" for name in BENCHMARKS}
    results = {n: json.loads(path.read_text()) for n, path in paths.items() if path.exists()}
    found = figures(results)
    rows = [{**asdict(f), "verdict": f.verdict} for f in found]
    for row in rows:
        row["value"] = None if row["value"] != row["value"] else row["value"]  # JSON has no NaN
    store(folder / "speed.json", {"machine": machine(), "figures": rows})
    text = markdown(["figure", "measured", "asked", ""], [figure.cells() for figure in found])
    if options.quick:
        print(f"\n{text}\n\n{folder}")
    else:
        put_into_readme("speed", f"{machine()}\n\n{text}")


if __name__ == "__main__":
    main()
