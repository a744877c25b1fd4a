"""Kernels, networks and programs at clocks never measured: the default beside peers and parts.

``python benchmarks/reproduce.py kernels [--data FOLDER] [--only gemm …] [--work FOLDER]``. FOLDER
holds the public sets `jetson`, `nv-dvfs` and `zeus`; missing ones are skipped. The work folder
keeps studies of the paper's model.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import kernels_cpu
import kernels_pictures
import numpy as np
import xarray as xr
from kernels_peers import CURVES, PEERS, SURFACES, TRIALS, tuned_boosting
from numpy.typing import NDArray
from tables import RESULTS, markdown, mean_rows, parser, publish, store, stored
from targets import kernel_figures
from timing import seconds_of

from msbgen.core.contexts import grid_contexts
from msbgen.data.shipped import shipped_folder
from msbgen.systems.kernels.choice.configuration_model import ConfigurationModel
from msbgen.systems.kernels.choice.costs import Costs, costs_of
from msbgen.systems.kernels.dataset import (
    kernels_of,
    measured_table,
    names_of,
    parameter_table,
    powers_of,
    runtimes_of,
)
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.predictor.evaluation import scores
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.systems.kernels.predictor.law_and_residual import ModelParts
from msbgen.systems.kernels.predictor.networks import predict_network
from msbgen.systems.kernels.readers import NV_DVFS, ZEUS, read_jetson, read_nv_dvfs, read_zeus
from msbgen.systems.kernels.workloads import make_workload

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

DEVICES = ("AGX", "Nano")
# Numbers of folds, and of known clocks of the square products.
FOLDS, SQUARE_FOLDS, CLOCKS = 5, 8, 5
ABLATIONS = {
    "without the law": ModelParts(terms=False),
    "law alone": ModelParts(process=False, trees=False),
    "without trees": ModelParts(trees=False),
    "without the process": ModelParts(process=False),
}


def choice_regret(predicted: Floats, truth: Floats, groups: Indices) -> float:
    """Mean over groups of the regret of choosing the row with the least predicted cost.

    Costs, as energy, and the number of each row's group are (n,).
    """
    regrets = []
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        chosen = rows[int(np.argmin(predicted[rows]))]
        regrets.append(truth[chosen] / truth[rows].min() - 1.0)
    return float(np.mean(regrets))


def gemm(data: Path, work: Path, device: str = "AGX") -> dict[str, Any]:
    """Matrix products: shapes never measured, and sizes never measured at five known clocks."""
    folder = _folder(data, "jetson")
    runs = read_jetson(folder, "rectangular", device)
    found = {f"{device}, shapes": _held_out(runs, FOLDS, None, work, f"shapes-{device}")}
    runs = read_jetson(folder, "square", device)
    known = grid_contexts({"clock": runs["gpu_clock"].attrs["levels"]}, [CLOCKS])[:, 0]
    found[f"{device}, sizes"] = _held_out(runs, SQUARE_FOLDS, known, work, f"sizes-{device}")
    return found


def _held_out(
    runs: xr.Dataset, folds: int, clocks: Floats | None, work: Path, name: str
) -> dict[str, Any]:
    """Scores of every method on held-out kernels; if clocks are named, only these are known."""
    methods: dict[str, Callable[[xr.Dataset, xr.Dataset], tuple[Floats, Floats]]] = {
        "default": _ours(None)
    }
    methods |= {
        peer: lambda known, new, peer=peer: _peer(PEERS[peer], known, new) for peer in PEERS
    }
    if clocks is not None:
        methods |= {part: _ours(settings) for part, settings in ABLATIONS.items()}
    kernel = kernels_of(runs).of
    part = np.random.default_rng(0).permutation(int(kernel.max()) + 1)[kernel] % folds
    clock = runs["gpu_clock"].values
    seen = np.ones(len(clock), dtype=bool) if clocks is None else np.isin(clock, clocks)
    truth, watts = runtimes_of(runs), powers_of(runs)
    result: dict[str, Any] = {"kernels": int(kernel.max()) + 1, "rows": len(truth), "methods": {}}
    if clocks is not None:
        highest = np.where(clock == clock.max(), 0.0, 1.0)
        result["highest clock"] = choice_regret(highest, truth * watts, kernel)

    def score(predict: Callable[..., tuple[Floats, Floats]], only: range) -> dict[str, Any]:
        predicted = np.full((2, len(truth)), np.nan)
        start = time.perf_counter()
        for k in only:
            known = runs.isel(measurement=np.flatnonzero((part != k) & seen))
            new = np.flatnonzero(part == k)
            predicted[:, new] = predict(known, runs.isel(measurement=new))
        scored = np.isfinite(predicted[0])
        row: dict[str, Any] = {
            "runtime": scores(predicted[0][scored], truth[scored]),
            "power": scores(predicted[1][scored], watts[scored]),
            "folds": len(only),
            "seconds": time.perf_counter() - start,
        }
        if clocks is not None:
            energy = predicted[0] * predicted[1]
            row["regret"] = choice_regret(energy[scored], (truth * watts)[scored], kernel[scored])
        return row

    for method, predict in methods.items():
        result["methods"][method] = score(predict, range(folds))
        _log(name, method, result["methods"][method])

    def paper(known: xr.Dataset, new: xr.Dataset) -> tuple[Floats, Floats]:
        return _peer(tuned_boosting, known, new, journal=work / f"{name}.log", name=name)

    # one fold, since a study takes minutes
    result["methods"]["paper"] = {**score(paper, range(1)), "trials": TRIALS}
    _log(name, "paper", result["methods"]["paper"])
    return result


def _ours(settings: ModelParts | None) -> Callable[..., tuple[Floats, Floats]]:
    def predict(known: xr.Dataset, new: xr.Dataset) -> tuple[Floats, Floats]:
        predictor = KernelPredictor(parts=settings).fit(known)
        return predictor.predict(new), predictor.predict_power(new)

    return predict


def _peer(
    peer: Callable[..., Floats], known: xr.Dataset, new: xr.Dataset, **more: Any
) -> tuple[Floats, Floats]:
    tables = [np.column_stack([parameter_table(d), d["gpu_clock"].values]) for d in (known, new)]
    of, name = kernels_of(known).of, more.pop("name", "")
    predicted = []
    for what, truth in (("runtime", runtimes_of(known)), ("power", powers_of(known))):
        named = {**more, "name": f"{name}-{what}"} if name else more
        predicted.append(peer(tables[0], truth, of, tables[1], **named))
    return predicted[0], predicted[1]


def mobilenet(data: Path, work: Path) -> dict[str, Any]:
    """MobileNet at six configurations of clock and batch, with matrix products known."""
    folder = _folder(data, "jetson")
    found: dict[str, Any] = {}
    for device in DEVICES:
        others = costs_of(read_jetson(folder, "square", device))
        own = costs_of(read_jetson(folder, "mobilenet", device))
        model = ConfigurationModel().fit(others, resources=own.resources, contexts=own.contexts)
        design = model.design(6)
        predictions = {"default": model.predict(*_given(own, 0, design))}
        for name, peer in SURFACES.items():
            seconds, watts = (
                peer(curve, own.contexts, design, known, is_time)
                for curve, known, is_time in (
                    (_curve(others.time, others, own), own.time[0], True),
                    (_curve(others.power, others, own), own.power[0], False),
                )
            )
            predictions[name] = seconds, watts
        work_done = own.contexts[:, 1]
        cost = own.energy[0] / work_done
        bounds = [float(q) for q in np.quantile(own.time[0], np.linspace(0.1, 0.95, 18))]
        rows = {}
        for name, predicted in predictions.items():
            rows[name] = _errors(own, 0, design, *predicted)
            late, regret = _bounded(own.time[0], cost, predicted, work_done, bounds)
            rows[name] |= {"regret": regret, "late": late}
        # with true times, the highest clock and the largest batch that is in time there
        fast = np.where(own.contexts[:, 0] == own.contexts[:, 0].max(), 1.0 / work_done, np.inf)
        predicted = own.time[0], fast * work_done / own.time[0]
        bounds = [bound for bound in bounds if bound >= own.time[0][np.isfinite(fast)].min()]
        _, regret = _bounded(own.time[0], cost, predicted, work_done, bounds)
        found[device] = {
            "design": own.contexts[design].tolist(),
            "configurations": len(own.contexts),
            "methods": rows,
            "highest clock": regret,
        }
        for name, row in rows.items():
            _log("mobilenet", f"{device}, {name}", row)
    return found


def _curve(table: Floats, others: Costs, own: Costs) -> Floats:
    """Mean logarithm of other programs at the clock of every context, interpolated, (n,)."""
    means = np.nanmean(np.log(table), axis=0)
    order = np.argsort(others.contexts[:, 0])
    return np.interp(own.contexts[:, 0], others.contexts[order, 0], means[order])


def gpus(data: Path, work: Path) -> dict[str, Any]:
    """Applications at the highest clock and up to three more, with microbenchmarks known."""
    folder = _folder(data, "nv-dvfs")
    found: dict[str, Any] = {}
    for gpu in NV_DVFS:
        sets = read_nv_dvfs(folder, gpu)
        micro, apps = (costs_of(part) for part in sets)
        counters = [_counters(part, len(micro.contexts) - 1) for part in sets]
        fits = {
            "default": ConfigurationModel().fit(micro, counters[0]),
            "with counters": ConfigurationModel(counters="yes").fit(micro, counters[0]),
            "without counters": ConfigurationModel(counters="no").fit(micro, counters[0]),
        }
        design, every = fits["default"].design(4), range(len(apps.programs))
        found[gpu] = {"design": micro.contexts[design, 0].tolist(), "measured": {}}
        found[gpu]["uses counters"] = fits["default"].uses_counters_
        for count in range(1, 5):
            measured, methods = design[:count], {}
            for name, model in fits.items():
                predicted = [
                    model.predict(*_given(apps, r, measured), counters[1][r]) for r in every
                ]
                errors = [_errors(apps, r, measured, *predicted[r]) for r in every]
                methods[name] = mean_rows(errors)
            for name, peer in CURVES.items():
                errors = []
                for r in every:
                    t, p = (
                        peer(table, own, measured, micro.contexts)
                        for table, own in ((micro.time, apps.time[r]), (micro.power, apps.power[r]))
                    )
                    errors.append(_errors(apps, r, measured, t, p))
                methods[name] = mean_rows(errors)
            found[gpu]["measured"][str(count)] = methods
            _log(gpu, f"{count} measured", methods["default"])
        energy = apps.energy
        highest = energy[:, -1] / energy.min(axis=1) - 1.0
        found[gpu]["highest clock"] = float(highest.mean())
        found[gpu]["fronts"] = _fronts(fits["default"], apps, design[:2])
    return found


def zeus(data: Path, work: Path) -> dict[str, Any]:
    """Training of networks never seen, with two power limits measured beside the highest."""
    folder = _folder(data, "zeus")
    found: dict[str, Any] = {}
    for gpu in ZEUS:
        costs = costs_of(read_zeus(folder, gpu))
        whole = costs.measured.all(axis=1)
        last = len(costs.contexts) - 1
        regrets: dict[str, list[float]] = {}
        for family in sorted(set(costs.families)):
            learned = costs.without([family])
            model = ConfigurationModel().fit(learned)
            for row in np.flatnonzero(whole & (np.array(costs.families) == family)).tolist():
                energy = costs.energy[row]
                measured = [last]
                for _ in range(2):
                    measured.append(_hopeful(model, costs, row, measured))
                seconds, watts = model.predict(*_given(costs, row, np.array(measured)))
                picks = {
                    "default": int(np.argmin(seconds * watts)),
                    "best measured": measured[int(np.argmin(energy[measured]))],
                    "highest limit": last,
                }
                # peers know the same limits
                for name, peer in CURVES.items():
                    seconds, watts = (
                        peer(table, own[row], np.array(measured), costs.contexts)
                        for table, own in ((learned.time, costs.time), (learned.power, costs.power))
                    )
                    predicted = seconds * watts
                    predicted[measured] = energy[measured]
                    picks[name] = int(np.argmin(predicted))
                for name, at in picks.items():
                    regrets.setdefault(name, []).append(float(energy[at] / energy.min() - 1.0))
        found[gpu] = {
            "programs": int(whole.sum()),
            "methods": {name: {"regret": float(np.mean(v))} for name, v in regrets.items()},
        }
        _log("zeus", gpu, found[gpu]["methods"]["default"])
    return found


def _hopeful(model: ConfigurationModel, costs: Costs, row: int, given: list[int]) -> int:
    """The configuration with the largest expected improvement of log energy."""
    from scipy.special import ndtr

    mean, covariance = model.condition(*_given(costs, row, np.array(given)))
    n = len(mean) // 2
    both = np.hstack([np.eye(n), np.eye(n)])
    energy = both @ mean
    deviation = np.sqrt(np.maximum(np.diag(both @ covariance @ both.T), 1e-12))
    steps = (energy[given].min() - energy) / deviation
    hope = deviation * (steps * ndtr(steps) + np.exp(-0.5 * steps**2) / np.sqrt(2 * np.pi))
    hope[given] = -1.0
    return int(np.argmax(hope))


def cpu(data: Path, work: Path) -> dict[str, Any]:
    """Networks never seen on a CPU, from kernels of other networks."""
    files = [shipped_folder() / "kernels" / name for name in ("cpu.nc", "cpu.workloads.nc")]
    lacking = [path.name for path in files if not path.is_file()]
    if lacking:
        raise Absent(f"{', '.join(lacking)} does not ship yet")
    return kernels_cpu.cpu(kernels_cpu.load())


def speed(data: Path, work: Path) -> dict[str, Any]:
    """Seconds of 3,654 configurations of 580 launches."""
    rng = np.random.default_rng(0)
    n = 1000
    levels = {
        "cpu": np.linspace(115, 2265, 29).tolist(),
        "gpu": np.linspace(115, 1377, 14).tolist(),
        "memory": np.linspace(204, 2133, 9).tolist(),
    }
    configurations = {name: rng.choice(values, n) for name, values in levels.items()}
    m, k, wide = (2 ** rng.uniform(4, 11, n).round() for _ in range(3))
    seconds = 1e-5 + 1e-3 / configurations["cpu"] + m * k * wide / (3e8 * configurations["gpu"])
    sizes = {"m": m, "k": k, "n": wide}
    runs = make_kernels(
        ["matmul"] * n,
        seconds * np.exp(0.02 * rng.standard_normal(n)),
        power=8 + 20 * (configurations["gpu"] / 1377) ** 3,
        parameters=sizes,
        resources=configurations,
    )
    predictor = KernelPredictor(parts=ModelParts(trees=False))
    fitted = seconds_of(lambda: predictor.fit(runs))
    few = {name: values[:580] for name, values in sizes.items()}
    launches = make_workload(["matmul"] * 580, np.ones(580), parameters=few)
    table = grid_contexts(levels, [29, 14, 9])
    taken = [seconds_of(lambda: predict_network(predictor, launches, table)) for _ in range(3)]
    found = {"configurations": len(table), "launches": 580}
    return {**found, "fit_seconds": fitted, "seconds": min(taken)}


class Absent(Exception):
    """A set that is missing."""


PARTS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "gemm": gemm,
    "gemm-nano": partial(gemm, device="Nano"),
    "mobilenet": mobilenet,
    "gpus": gpus,
    "zeus": zeus,
    "cpu": cpu,
    "speed": speed,
}


def run(only: list[str], data: Path | None, work: Path | None) -> None:
    """Measure the parts, keep the stored results of others, and write everything."""
    results = stored("kernels")
    for name in only:
        try:
            results[name] = PARTS[name](data or Path(), work or RESULTS / "kernels-studies")
        except Absent as reason:
            print(f"{name}: left out, as {reason}.", flush=True)
            continue
        store(RESULTS / "kernels.json", results)
    publish(tables())
    kernels_pictures.draw(results)


def tables() -> dict[str, str]:
    """All tables of the page."""
    results = stored("kernels")
    rows = [figure.cells() for figure in kernel_figures(results)]
    goals = {"kernels-targets": markdown(["", "measured", "goal", ""], rows)}
    return {**goals, **dict(kernels_pictures.tables(results))}


def _folder(data: Path, name: str) -> Path:
    """The folder of a set: the data's own, or one in it."""
    for place in (data / name, data):
        if place.name == name and place.is_dir():
            return place
    raise Absent(f"there is no folder '{name}' in {data}")


def _given(costs: Costs, row: int, given: Indices) -> tuple[Floats, Floats]:
    """Time and power of a program as if measured in some configurations only."""
    time_, power = np.full((2, len(costs.contexts)), np.nan)
    time_[given], power[given] = costs.time[row, given], costs.power[row, given]
    return time_, power


def _errors(
    costs: Costs, row: int, given: Indices, seconds: Floats, watts: Floats
) -> dict[str, float]:
    """Mean relative errors where it was not measured, and the regret of the choice by energy."""
    left = np.setdiff1d(np.flatnonzero(costs.measured[row]), given)
    truth = np.where(costs.measured[row], costs.energy[row], np.inf)
    predicted = seconds * watts
    predicted[given] = costs.energy[row, given]
    predicted = np.where(costs.measured[row], predicted, np.inf)
    return {
        "runtime": float(np.abs(seconds / costs.time[row] - 1)[left].mean()),
        "power": float(np.abs(watts / costs.power[row] - 1)[left].mean()),
        "regret": float(truth[int(np.argmin(predicted))] / truth.min() - 1.0),
    }


def _bounded(
    truth: Floats, cost: Floats, predicted: tuple[Floats, Floats], work: Floats, bounds: list[float]
) -> tuple[float, float]:
    """Share of late choices under latency bounds, and the mean regret of the others."""
    seconds, watts = predicted
    energy = seconds * watts / work
    late, regret = [], []
    for bound in bounds:
        if not (seconds <= bound).any() or not (truth <= bound).any():
            continue
        chosen = int(np.argmin(np.where(seconds <= bound, energy, np.inf)))
        late.append(bool(truth[chosen] > bound))
        least = np.where(truth <= bound, cost, np.inf).min()
        regret.append(float(cost[chosen] / least - 1.0))
    return float(np.mean(late)), float(np.mean(regret))


def _fronts(model: ConfigurationModel, apps: Costs, given: Indices) -> dict[str, Any]:
    """Times and energies of four programs, measured and predicted from two clocks."""
    found = {}
    for row in range(0, len(apps.programs), max(len(apps.programs) // 4, 1)):
        predicted = model.predict(*_given(apps, row, given)) if not model.uses_counters_ else None
        if predicted is not None:
            found[apps.programs[row]] = {
                "time": apps.time[row].tolist(),
                "energy": apps.energy[row].tolist(),
                "said_time": predicted[0].tolist(),
                "said_energy": (predicted[0] * predicted[1]).tolist(),
            }
    return found


def _counters(runs: xr.Dataset, column: int) -> Floats:
    columns = [measured_table(runs, runs[n].values)[:, column] for n in names_of(runs, "counter")]
    return np.stack(columns, axis=1)


def _log(part: str, name: str, row: dict[str, Any]) -> None:
    print(f"{part}, {name}: {row}", flush=True)


def main() -> None:
    folders = {"data": "folder with jetson, nv-dvfs, zeus", "work": "folder that keeps studies"}
    options = parser(__doc__, PARTS, **folders).parse_args()
    run(options.only, options.data, options.work)
