"""Goals of the speed and of the kernels: every measured figure beside its goal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Figure:
    """One measured figure beside its goal, a lower bound if ``at_least``.

    The value is NaN if it was not measured; the note says why.
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
    """Every figure with a goal, from the JSON of the benchmarks, in the order of a job."""
    makers = {"bridge": _bridge_figures, "generate": _generate_figures}
    return [figure for name in makers if name in results for figure in makers[name](results[name])]


def _bridge_figures(bridge: Mapping[str, Any]) -> Iterator[Figure]:
    targets = {0.1: {"pot": 6.0, "ott": 15.0}, 0.01: {"pot": 20.0, "ott": 40.0}}
    for row in bridge.get("pair", []):
        for peer, target in targets.get(row["epsilon"], {}).items():
            # the fastest of the peer's variants that reached the accuracy
            ratios = [ratio for name, ratio in row["ratio"].items() if name.startswith(peer)]
            notes = [f"{n} {t}" for n, t in row["notes"].items() if n.startswith(peer)]
            what = f"one pair, n = {row['n']}, ε = {row['epsilon']:g}: faster than {peer.upper()}"
            note, ratio = "; ".join(notes) or "peer not installed", min(ratios, default=np.nan)
            yield Figure(what, ratio, target, True, "×", note)
    for row in bridge.get("chain", []):
        chain = f"chain, n = {row['n']}, s = {row['s']}, ε = {row['epsilon']:g}"
        ratio = row["ratio"]["paper-like numpy"]
        yield Figure(f"{chain}: faster than the paper-like one", ratio, 100.0, True, "×")
    for row in bridge.get("pass", []):
        what = f"pass over the kernel, n = {row['n']}, against reading it"
        yield Figure(what, row["ratio"], 2.0, False, "×")
    if bridge.get("hard"):
        share = sum(row["converged"] for row in bridge["hard"]) / len(bridge["hard"])
        what = f"hard cases solved, of {len(bridge['hard'])}"
        yield Figure(what, 100 * share, 100.0, True, "%")
    if "threads" in bridge:
        yield Figure("two threads, solving", bridge["threads"]["speedup"], 1.6, True, "×")
    growth = {"points": ("points of a snapshot", 2.1), "snapshots": ("snapshots", 1.1)}
    for part, (what, target) in growth.items():
        if part in bridge:
            slope = bridge[part]["slope"]
            yield Figure(f"growth with the {what}, exponent", slope, target, False, "")


def _generate_figures(generate: Mapping[str, Any]) -> Iterator[Figure]:
    if "job" in generate:
        job = generate["job"]
        what = f"whole job, {job['task']}, {job['n_contexts']} contexts, every kind"
        yield Figure(what, job["seconds"], 14.0, False, "s")
        yield Figure(f"{what}: peak memory", job["peak_bytes"] / 1e9, 2.0, False, "GB")
    if "model" in generate:
        model = generate["model"]
        if "fit_seconds" in model:
            what = "a fit for means, bounds and plans"
            yield Figure(what, model["fit_seconds"], 3.5, False, "s")
        for kind, seconds in model["one_context_seconds"].items():
            what = f"one context from a fitted model, {kind}"
            yield Figure(what, 1e3 * seconds, 1.5 if kind == "mean" else 5.0, False, "ms")
        what = "one context's mean profile and duration bound"
        yield Figure(what, 1e3 * model["answer_seconds"], 1.5, False, "ms")
        what = f"{model['n_contexts']} mean profiles"
        yield Figure(what, model["seconds"]["mean, 2 cores"], 3.0, False, "s")
        for kind, speedup in model["speedup"].items():
            yield Figure(f"two threads, generating {kind}", speedup, 1.6, True, "×")
    if "growth" in generate:
        for kind, row in generate["growth"].items():
            if isinstance(row, dict):
                what = f"growth with the contexts, {kind}, exponent"
                yield Figure(what, row["slope"], 1.1, False, "")
    if "fits" in generate:
        yield from _fit_figures(generate["fits"])
    if "start" in generate:
        start = generate["start"]
        yield Figure("`msbgen --help`", start["help_seconds"], 0.15, False, "s")
        for kind, seconds in start["first_generate_seconds"].items():
            what = f"first `generate` of a fresh install, {kind}"
            yield Figure(what, seconds, 10.0 if kind == "mean" else 15.0, False, "s")
        what = "later `generate` with little to do"
        yield Figure(what, start["later_start_seconds"], 1.3, False, "s")
        what = "`msbgen demo` of a fresh install, all contexts generated"
        yield Figure(what, start["demo_seconds"], 40.0, False, "s")


def _fit_figures(fits: Mapping[str, Any]) -> Iterator[Figure]:
    goals = {  # seconds of fit, calibration and plan, gigabytes
        (4560, 3): {"fit": 60.0, "calibrate": 60.0, "plan": 20.0, "peak": 4.0},
        (20_000, 1): {"fit": 300.0, "peak": 8.0},
    }
    for row in fits["sizes"]:
        size = f"{row['contexts']} contexts × {row['runs']}"
        for part, goal in goals.get((row["contexts"], row["runs"]), {}).items():
            if part == "peak":
                yield Figure(f"{size}: peak memory", row["peak_bytes"] / 1e9, goal, False, "GB")
            else:
                yield Figure(f"{size}: {part}", row[f"{part}_seconds"], goal, False, "s")
    for row in fits["counters"]:
        if row["counters"] == 20:
            what = f"{row['contexts']} contexts × {row['runs']}, 20 counters: fit"
            yield Figure(what, row["fit_seconds"], 10.0, False, "s")
    for part, goal in (("fit", 1.3), ("calibrate", 1.3), ("counters", 1.2)):
        what = "fit with the counters" if part == "counters" else f"{part} with the contexts"
        yield Figure(f"growth of {what}, exponent", fits["slopes"][part], goal, False, "")


def kernel_figures(found: Mapping[str, Any]) -> Iterator[Figure]:
    """Figures with a goal of kernels, networks and programs at other clocks."""

    def figure(what: str, value: float, target: float, *, at_least: bool = False) -> Figure:
        return Figure(what, 100 * value, target, at_least, "%")

    if "gemm" in found:
        shapes, sizes = (found["gemm"][f"AGX, {n}"]["methods"] for n in ("shapes", "sizes"))
        for quantity, one, other in (("runtime", 98.0, 92.0), ("power", 97.0, 74.0)):
            within = shapes["default"][quantity]["within_5"]
            yield figure(f"AGX, unseen shapes: {quantity} within 5 %", within, one, at_least=True)
            within = sizes["default"][quantity]["within_5"]
            yield figure(f"AGX, unseen sizes: {quantity} within 5 %", within, other, at_least=True)
        yield figure("AGX, unseen sizes: energy regret", sizes["default"]["regret"], 0.7)
    for device, result in found.get("mobilenet", {}).items():
        row = result["methods"]["default"]
        for name, target in (("runtime", 3.5), ("power", 3.1), ("regret", 1.0), ("late", 7.0)):
            yield figure(f"MobileNet, {device}, 6 measured: {name}", row[name], target)
    for gpu, runtime, power in (("V100", 5.7, 3.0), ("RTX 8000", 1.3, 2.2)):
        if "gpus" in found:
            methods = {n: m["default"] for n, m in found["gpus"][gpu]["measured"].items()}
            for name, target in (("runtime", runtime), ("power", power), ("regret", 0.7)):
                yield figure(f"{gpu}, one more clock: {name}", methods["2"][name], target)
            for name in ("runtime", "power"):
                yield figure(f"{gpu}, two more than that: {name}", methods["4"][name], 1.4)
    if "zeus" in found:
        regrets = {g: r["methods"]["default"]["regret"] for g, r in found["zeus"].items()}
        for gpu, regret in regrets.items():
            yield figure(f"{gpu}, two extra limits: energy regret", regret, 2.0)
        yield figure("mean of the GPUs", sum(regrets.values()) / len(regrets), 1.2)
    if "cpu" in found:
        mean = found["cpu"]["mean"]
        yield figure("CPU, unseen network: error of the sum", mean["sum"], 7.0)
        beyond = mean["time"] - mean["time from measured kernels"]
        yield figure("CPU, unseen network: error of the time beyond its kernels'", beyond, 3.0)
        yield figure("CPU, unseen network: error of the time", mean["time"], 15.4)
    if "speed" in found:
        what = f"{found['speed']['configurations']} configurations of 580 launches"
        yield Figure(what, found["speed"]["seconds"], 1.0, False, "s")
