"""Tables and pictures of the models of kernels: errors, fronts, regret by what was measured."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from tables import RESULTS, markdown, subplots


def tables(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and text of every table with results."""
    makers = {
        "gemm": _gemm, "mobilenet": _mobilenet, "gpus": _gpus, "zeus": _zeus, "cpu": _cpu,
    }  # fmt: skip
    for name, make in makers.items():
        if name in results:
            both = {**results[name], **results.get(f"{name}-nano", {})}
            yield f"kernels-{name}", make(both)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _gemm(found: dict[str, Any]) -> str:
    rows = []
    for case, result in found.items():
        for method, row in result["methods"].items():
            cells = [
                _percent(row[q][m]) for q in ("runtime", "power") for m in ("within_5", "error")
            ]
            regret = _percent(row["regret"]) if "regret" in row else "—"
            rows.append([case, method, *cells, regret])
        if "highest clock" in result:
            highest = _percent(result["highest clock"])
            rows.append([case, "highest clock", *["—"] * 4, highest])
    head = ["products", "method", "runtime within 5 %", "error", "power within 5 %", "error"]
    return markdown([*head, "energy regret"], rows)


def _mobilenet(found: dict[str, Any]) -> str:
    rows = []
    for device, result in found.items():
        for method, row in result["methods"].items():
            cells = [_percent(row[m]) for m in ("runtime", "power", "regret", "late")]
            rows.append([device, method, *cells])
        rows.append([device, "highest clock", "—", "—", _percent(result["highest clock"]), "—"])
    return markdown(
        ["6 measured", "method", "runtime", "power", "regret under a bound", "late"], rows
    )


def _gpus(found: dict[str, Any]) -> str:
    rows = []
    for gpu, result in found.items():
        for count, methods in result["measured"].items():
            for method, row in methods.items():
                cells = [_percent(row[m]) for m in ("runtime", "power", "regret")]
                rows.append([gpu, count, method, *cells])
        rows.append([gpu, "", "highest clock", "—", "—", _percent(result["highest clock"])])
    head = ["GPU", "clocks measured", "method", "runtime", "power", "energy regret"]
    return markdown(head, rows)


def _zeus(found: dict[str, Any]) -> str:
    names = list(next(iter(found.values()))["methods"])
    rows = [
        [gpu, *(_percent(result["methods"][name]["regret"]) for name in names)]
        for gpu, result in found.items()
    ]
    means = [np.mean([r["methods"][name]["regret"] for r in found.values()]) for name in names]
    rows.append(["mean", *map(_percent, map(float, means))])
    return markdown(["energy regret", *names], rows)


def _cpu(found: dict[str, Any]) -> str:
    names = list(found["mean"])
    rows = [
        [network, *(_percent(row[name]) for name in names)]
        for network, row in {**found["networks"], "mean": found["mean"]}.items()
    ]
    rows += [
        [part, *(_percent(row[name]) if name in row else "" for name in names)]
        for part, row in found["parts"].items()
    ]
    differ = ", ".join(
        f"{name} {_percent(value)}" for name, value in found["repeatability"].items()
    )
    return f"{markdown(['network never seen', *names], rows)}\n\nsessions differ by: {differ}"


def draw(results: dict[str, Any]) -> None:
    """Draw Pareto fronts, errors by kernel or network, and regret by measurements."""
    if "gpus" in results:
        figure, axes = subplots(2, 4, figsize=(13, 6))
        for line, (gpu, found) in zip(axes, results["gpus"].items()):
            for axis, (name, front) in zip(line, found["fronts"].items()):
                axis.plot(front["time"], front["energy"], "o-", label="measured")
                axis.plot(front["said_time"], front["said_energy"], "x--", label="predicted")
                axis.set_title(f"{gpu}: {name.partition('/')[0]}", fontsize="small")
            line[0].set(xlabel="time [s]", ylabel="energy [J]")
        axes[0][0].legend(fontsize="small")
        figure.savefig(RESULTS / "kernels-fronts.png", dpi=80)
        figure, axes = subplots(1, 3, figsize=(12, 3.6))
        for axis, measure in zip(axes, ("runtime", "power", "regret")):
            for gpu, found in results["gpus"].items():
                for method, style in (("default", "o-"), ("boosting", "x--"), ("mean curve", ":")):
                    values = [100 * m[method][measure] for m in found["measured"].values()]
                    axis.plot([1, 2, 3, 4], values, style, label=f"{gpu}, {method}")
            axis.set(title=measure, xlabel="clocks measured", ylabel="[%]", yscale="symlog")
            axis.grid(alpha=0.3)
        axes[0].legend(fontsize="x-small")
        figure.savefig(RESULTS / "kernels-measured.png", dpi=80)
    if "gemm" in results or "cpu" in results:
        figure, axes = subplots(1, 2, figsize=(12, 4))
        for axis, quantity in zip(axes, ("runtime", "power")):
            cases = {**results.get("gemm", {}), **results.get("gemm-nano", {})}
            for shift, method in enumerate(("default", "boosting", "paper", "forest")):
                heights = [100 * r["methods"][method][quantity]["within_5"] for r in cases.values()]
                axis.bar(np.arange(len(cases)) + 0.2 * shift - 0.3, heights, 0.2, label=method)
            axis.set_xticks(range(len(cases)), list(cases), fontsize="small")
            axis.set(title=f"{quantity} within 5 % [%]", ylim=(0, 100))
        axes[0].legend(fontsize="small")
        figure.savefig(RESULTS / "kernels-errors.png", dpi=80)
