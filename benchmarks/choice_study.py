"""Decisions between clocks, power limits and batch sizes: their cost above the best.

``python benchmarks/reproduce.py choice --data FOLDER [--only zeus nv-dvfs …]``. Zeus' tables ship.
``nv-dvfs``, ``jetson`` and ``odroid-xu3`` are folders in FOLDER, and missing ones are skipped.
``repeats`` draws its own runs.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from tables import (
    RESULTS,
    errors_only,
    markdown,
    mean_rows,
    parser,
    publish,
    store,
    stored,
    subplots,
)

import msbgen
from msbgen.data.energy import add_energy, power_over_time, total_energy
from msbgen.data.schema import context_table, duration_array
from msbgen.systems.kernels.choice import Chooser, Limits, Offers, choose, pareto_front
from msbgen.systems.kernels.choice.configuration_model import ConfigurationModel
from msbgen.systems.kernels.choice.costs import Costs, costs_of
from msbgen.systems.kernels.choice.margins import leave_out
from msbgen.systems.kernels.choice.probes import improvement
from msbgen.systems.kernels.dataset import read as read_kernels
from msbgen.systems.kernels.energy import EnergyCorrector
from msbgen.systems.kernels.readers import NV_DVFS, ZEUS, read_jetson, read_nv_dvfs

# Latencies above the time at the highest clock, and the nominal share of late programs.
SLACKS = tuple(np.round(np.arange(0.05, 0.51, 0.05), 2).tolist())
NOMINAL = 0.1
# Measurements besides the highest limit.
PROBES = 4
# Latencies for MobileNet, from just above the shortest to the longest.
LATENCIES = 30
# Noisy tables: standard deviations of the noise of a run, draws of each, programs, clocks and runs.
NOISES, DRAWS, DRAWN, CLOCKS, RUNS = (0.0, 0.01, 0.03, 0.1, 0.2), 4, 12, 31, 2
NOISY_RIVALS = ("chooser", "mean curve", "parabola", "middle clock")
# Latencies of decisions on noisy tables, above the true time at the highest clock.
NOISY_SLACKS = (0.05, 0.15, 0.3, 0.5)
# Measured clocks: runs of each, standard deviations of a run, programs, and new runs at the chosen.
REPEATS, RUN_NOISES, REPEATED, NEW_RUNS = (3, 12, 19, 40), (0.02, 0.1), 400, 200
# Programs with runs that lost counts: their totals differ from those at other clocks.
BAD_RUNS = ("raytrace", "water_nsquared")


class Learned:
    """A predictor that learned from other programs: from microbenchmarks, for applications."""

    def __init__(self, costs: Costs):
        self._model = ConfigurationModel().fit(costs)

    def fit(self, others: Costs) -> ConfigurationModel:
        return self._model


def zeus() -> dict[str, Any]:
    """Regret for a network never seen, by the number of measured limits."""
    return {gpu: zeus_regret(gpu) for gpu in ZEUS}


def zeus_regret(gpu: str) -> dict[str, Any]:
    costs = costs_of(read_kernels(msbgen.shipped_file(f"training/{ZEUS[gpu]}.nc")))
    # bounds are not used here, and the networks are too few for a smaller rate
    chooser = Chooser(costs, ConfigurationModel(), miscoverage=0.5)
    regret: list[list[float]] = []
    highest = []
    for row in range(len(costs.programs)):
        one = costs.take([row])
        there = one.measured[0]  # limits without a measurement cannot be scored
        energy = np.where(there, one.energy[0], np.inf)
        known = [int(np.flatnonzero(there)[-1])]
        highest.append(energy[known[0]] / energy.min() - 1)
        paid = []
        for _ in range(PROBES + 1):
            posterior = chooser.posterior(one.only(known))
            expected = np.where(there, np.exp(posterior.logs[1]), np.inf)
            paid.append(energy[int(expected.argmin())] / energy.min() - 1)
            left = np.setdiff1d(np.flatnonzero(there), known)
            if len(left):
                gain = improvement(
                    posterior, one.only(known).time[0], one.only(known).energy[0], chooser.work,
                    objective="energy", limits=Limits(),
                )  # fmt: skip
                known.append(int(left[gain[left].argmax()]))
        regret.append(paid)
    return {
        "programs": len(costs.programs),
        "regret_by_probes": np.mean(regret, axis=0).tolist(),
        "highest_limit": float(np.mean(highest)),
    }


def nv_dvfs(folder: Path) -> dict[str, Any]:
    """Regret of applications within a latency: the highest clock and one more are measured."""
    out = {}
    for gpu in NV_DVFS:
        micro, real = map(costs_of, read_nv_dvfs(folder, gpu))
        out[gpu] = {**within_slack(micro, real), "energy_bounds": energy_bounds(micro, real)}
    return out


def within_slack(micro: Costs, real: Costs) -> dict[str, Any]:
    top = len(real.contexts) - 1
    chooser = Chooser(real, Learned(micro), miscoverage=NOMINAL)
    paid: dict[str, list[float]] = {"margins": [], "expected": [], "highest clock": []}
    late: dict[str, list[bool]] = {name: [] for name in paid}
    seconds, probes = [], []
    for row in range(len(real.programs)):
        one = real.take([row])
        times, energy = one.time[0], one.energy[0]
        for slack in SLACKS:
            limits = Limits(time=(1 + slack) * float(times[top]))
            probes.append(chooser.next_probe(one.only([top]), limits=limits))
            known = one.only([top, probes[-1]])
            view = chooser.offers(known)
            start = time.perf_counter()
            chosen = chooser.choose(known, limits=limits).context
            seconds.append(time.perf_counter() - start)
            plain = view.as_expected()
            picks = {
                "margins": chosen,
                "expected": choose(plain, limits).context,
                "highest clock": top,
            }
            best = energy[times <= limits.time].min()
            for name, pick in picks.items():
                paid[name].append(energy[pick] / best - 1)
                late[name].append(bool(times[pick] > limits.time))
    clocks = real.contexts[:, 0]
    return {
        "decisions": len(seconds),
        "regret": {name: float(np.mean(values)) for name, values in paid.items()},
        "late": {name: float(np.mean(values)) for name, values in late.items()},
        "second_clock": {f"{clocks[i]:g}": probes.count(i) for i in sorted(set(probes))},
        "median_decision_ms": 1e3 * float(np.median(seconds)),
    }


def energy_bounds(micro: Costs, real: Costs) -> dict[str, Any]:
    """Coverage of nominal 90 % bounds on applications' energies, by the source of the margins.

    One or two clocks are known; the share is over all other clocks, and at the worst of them.
    """
    top, fits = len(real.contexts) - 1, {}

    def without(families: tuple[str, ...]) -> ConfigurationModel:
        if families not in fits:
            fits[families] = ConfigurationModel().fit(micro.without(families))
        return fits[families]

    out = {}
    for known_clocks in ([top], [top, top // 2]):
        known = np.zeros(top + 1, dtype=bool)
        known[known_clocks] = True
        own = leave_out(micro, lambda family: without((family,)), known)
        # each microbenchmark is a family: there are too few families for 10 %
        alone = replace(own, others=replace(own.others, families=own.others.programs))
        small = alone.widths(NOMINAL, ~known)
        covered: dict[str, list[np.ndarray]] = {"microbenchmarks": [], "applications": []}
        for row in range(len(real.programs)):
            one, rest = real.take([row]), real.without([real.families[row]])
            whole = leave_out(rest, lambda _: without(()), known).widths(NOMINAL, ~known)
            known_values = (np.where(known, x[0], np.nan) for x in (one.time, one.power))
            posterior = without(()).posterior(*known_values)
            truth = np.log(one.energy[0])[~known]
            for name, width in zip(covered, (small, whole)):
                bound = (posterior.logs + width * posterior.deviations)[1, ~known]
                covered[name].append(truth <= bound)
        out["+".join(f"{real.contexts[i, 0]:g}" for i in known_clocks)] = {
            name: {
                "covered": float(np.mean(rows)),
                "at_the_worst_clock": float(np.mean(rows, axis=0).min()),
            }
            for name, rows in covered.items()
        }
    return out


def noisy_tables(folder: Path) -> dict[str, Any]:
    """Regret on tables of runs with noise: twelve applications, three of 31 clocks measured."""
    out: dict[str, Any] = {}
    for gpu in NV_DVFS:
        whole = between_clocks(costs_of(read_nv_dvfs(folder, gpu)[1]), CLOCKS)
        for noise in NOISES:
            found = []
            for draw in range(DRAWS):
                rng = np.random.default_rng(draw)
                some = np.sort(rng.permutation(len(whole.programs))[:DRAWN])
                found += noisy_decisions(whole.take(some), noise, rng)
            out.setdefault(gpu, {})[f"{noise:g}"] = {
                "programs": len(found),
                **{name: float(np.nanmean([row[name] for row in found])) for name in found[0]},
            }
    return out


def between_clocks(costs: Costs, count: int) -> Costs:
    """Programs at evenly spaced clocks, by monotone interpolation over the measured ones."""
    clocks = np.linspace(costs.contexts[0, 0], costs.contexts[-1, 0], count)
    time, energy = (
        np.exp(PchipInterpolator(np.log(costs.contexts[:, 0]), np.log(x), axis=1)(np.log(clocks)))
        for x in (costs.time, costs.energy)
    )
    return replace(costs, contexts=clocks[:, None], time=time, energy=energy, runs={})


def noisy_decisions(truth: Costs, noise: float, rng: np.random.Generator) -> list[dict[str, float]]:
    """Each program chosen for by the others, all as measured with noise in time and power."""
    time, power = (
        np.median(x * np.exp(noise * rng.standard_normal((RUNS, *x.shape))), axis=0)
        for x in (truth.time, truth.power)
    )
    seen, n = replace(truth, time=time, energy=time * power), len(truth.contexts)
    known, logs = [0, n // 2, n - 1], np.log(truth.contexts[:, 0])
    chooser = Chooser(seen, ConfigurationModel(), miscoverage=NOMINAL)
    rows = []
    for i, energy in enumerate(truth.energy):
        one = seen.take([i])
        view = chooser.offers(one.only(known))
        mean = np.log(np.delete(seen.energy, i, axis=0)).mean(axis=0)
        parabola = np.polyval(np.polyfit(logs[known], np.log(one.energy[0, known]), 2), logs)
        picks = {
            "chooser": view.expected["energy"].argmin(), "mean curve": mean.argmin(),
            "parabola": parabola.argmin(), "middle clock": n // 2,
        }  # fmt: skip
        row = {name: float(energy[pick] / energy.min() - 1) for name, pick in picks.items()}
        new = np.delete(time[i] > view.bound["time"], known)
        late, paid = [], []
        for slack in NOISY_SLACKS:
            limits = Limits(time=(1 + slack) * float(truth.time[i, -1]))
            within = truth.time[i] <= limits.time
            if limits.kept_by(view).any():
                pick = choose(view, limits).context
                late.append(not within[pick])
                paid.append(energy[pick] / energy[within].min() - 1)
        row |= {"exceeded": float(new.mean()), "refused": 1 - len(late) / len(NOISY_SLACKS)}
        # NaN where every latency was refused
        row["late"] = float(np.mean(late)) if late else np.nan
        row["within latency"] = float(np.mean(paid)) if paid else np.nan
        rows.append(row)
    return rows


def repeats() -> list[dict[str, float]]:
    """New runs above the bounds of measured clocks, and at the clock chosen within a latency.

    Half of the time of a program scales with the clock, and its power with the cube.  The noise of
    a run is log-normal, of time and of power.  The latency lies between the times of two clocks.
    """
    clocks, rows = np.array([1.0, 1.25, 1.5, 1.75, 2.0]), []
    seconds, watts = 0.5 + 1.0 / clocks, 2.0 + clocks**3
    for noise in RUN_NOISES:
        for count in REPEATS:
            rng = np.random.default_rng(count)
            found: dict[str, list[float]] = {"above the bound": [], "late": [], "median late": []}
            refused = 0
            for _ in range(REPEATED):
                draw = noise * rng.standard_normal((2, len(clocks), count + NEW_RUNS))
                time = seconds[:, None] * np.exp(draw[0])
                joules = time * watts[:, None] * np.exp(draw[1])
                known, new = np.stack([time, joules], axis=1)[:, :, :count], time[:, count:]
                one = Costs(
                    ("p",), ("p",), ("clock",), ("GHz",), clocks[:, None],
                    *np.median(known, axis=2).T[:, None],
                    runs={("p", c): runs for c, runs in enumerate(known)},
                )  # fmt: skip
                view = Chooser(one, ConfigurationModel(), miscoverage=NOMINAL).offers(one)
                found["above the bound"].append(float((new > view.bound["time"][:, None]).mean()))
                limits = Limits(time=float(rng.uniform(seconds[-1], seconds[0])))
                expected = view.as_expected()
                for name, each in (("late", view), ("median late", expected)):
                    if limits.kept_by(each).any():
                        pick = choose(each, limits).context
                        found[name].append(float((new[pick] > limits.time).mean()))
                    else:
                        refused += name == "late"
            figures = {name: float(np.mean(values)) for name, values in found.items()}
            figures["refused"] = refused / REPEATED
            rows.append({"noise": noise, "runs": count, **figures})
    return rows


def mobilenet(folder: Path) -> dict[str, Any]:
    """Energy of an inference within a latency, with six configurations measured."""
    return {device: one_board(folder, device) for device in ("AGX", "Nano")}


def one_board(folder: Path, device: str) -> dict[str, Any]:
    network = costs_of(read_jetson(folder, "mobilenet", device))
    products = costs_of(read_jetson(folder, "square", device))
    batch = network.contexts[:, network.resources.index("batch")]
    model = ConfigurationModel().fit(
        products, resources=network.resources, contexts=network.contexts
    )
    first = int(np.lexsort((batch, network.contexts[:, 0]))[-1])  # the highest clock and batch
    six = model.design(6, first=first)
    known = network.only(six)
    done, truth = known.measured[0], (network.time[0], network.energy[0])
    posterior = model.posterior(known.time[0], known.power[0])
    logs = np.where(done, np.log(np.stack([*truth, truth[1] / truth[0]])), posterior.logs)
    half = NormalDist().inv_cdf(1 - NOMINAL) * np.where(done, 0.0, posterior.deviations)
    plain = Offers.of_runs(*np.exp(logs[:2]), work=batch)
    wide = replace(plain, bound={**plain.bound, "time": np.exp(logs + half)[0]})
    views = {"expected": plain, "Gaussian 90 %": wide, "boosting": boosted(known, batch)}
    each = truth[1] / batch
    limits = np.geomspace(1.05 * truth[0].min(), truth[0].max(), LATENCIES)
    result: dict[str, Any] = {"configurations": len(batch), "known": network.contexts[six].tolist()}
    for name, view in views.items():
        paid, late = [], []
        for limit in limits:
            # if no configuration is expected in time, the fastest one is taken
            keeps = bool((view.bound["time"] <= limit).any())
            fastest = int(view.bound["time"].argmin())
            chosen = choose(view, Limits(time=limit)).context if keeps else fastest
            paid.append(each[chosen] / each[truth[0] <= limit].min() - 1)
            late.append(bool(truth[0][chosen] > limit))
        result[name] = {"regret": float(np.mean(paid)), "late": float(np.mean(late))}
    predicted = plain.expected["energy"] / batch
    result["fronts"] = {
        name: [[float(t[i]), float(e[i])] for i in pareto_front(t, e)]
        for name, t, e in (
            ("measured", truth[0], each),
            ("predicted", plain.expected["time"], predicted),
        )
    }
    result["points"] = [[float(t), float(e)] for t, e in zip(truth[0], each)]
    return result


def boosted(known: Costs, batch: np.ndarray) -> Offers:
    """The paper's model on the same measurements: boosted trees on raw parameters, log targets."""
    import xgboost

    done = known.measured[0]
    columns, found = known.contexts, []
    for values in (known.time[0], known.power[0]):
        trees = xgboost.XGBRegressor(n_estimators=300, max_depth=4, learning_rate=0.1, n_jobs=1)
        trees.fit(columns[done], np.log(values[done]))
        found.append(np.exp(trees.predict(columns).astype(float)))
    seconds, watts = (np.where(done, k, f) for k, f in zip((known.time[0], known.power[0]), found))
    return Offers.of_runs(seconds, seconds * watts, work=batch)


@errors_only()
def odroid(folder: Path) -> dict[str, Any]:
    """The middle clock from the two others: energy, and power per interval."""
    programs = {
        path.stem: add_energy(msbgen.read_profiles(path), "power")
        for path in sorted(folder.glob("*.nc"))
        if path.stem not in BAD_RUNS
    }
    rows = {}
    for name, whole in programs.items():
        order = np.argsort(context_table(whole)[:, 0])
        middle = order[len(order) // 2]
        measured = whole.isel(context=np.setdiff1d(order, [middle]))
        truth = whole.isel(context=[middle])
        others = [other for stem, other in programs.items() if stem != name]
        made = msbgen.fit_profiles(measured).generate(context_table(truth), kind="mean")
        repaired = EnergyCorrector(measured, others).correct(made)
        joules = float(np.nanmean(total_energy(truth)))
        seconds = float(np.nanmean(duration_array(truth)))
        runs = [truth.isel(run=[r]) for r in range(truth.sizes["run"])]
        rows[name] = {
            "energy": abs(float(total_energy(repaired)[0, 0]) / joules - 1),
            "energy_generated": abs(float(total_energy(made)[0, 0]) / joules - 1),
            "duration": abs(float(made["duration"].values[0]) / seconds - 1),
            "power_per_interval": apart(repaired, truth),
            "power_generated": apart(made, truth),
            "one_run_against_the_other": apart(runs[0].isel(run=0), runs[-1]),
        }
    return {"mean": mean_rows([*rows.values()]), "programs": rows}


def apart(made: Any, truth: Any) -> float:
    """Mean relative difference of power over intervals and runs, while both last."""
    mine, errors = power_over_time(made).values[0], []
    for run in power_over_time(truth).values[0]:
        both = np.isfinite(mine[: len(run)]) & np.isfinite(run[: len(mine)])
        errors.append(np.abs(mine[: len(run)][both] / run[: len(mine)][both] - 1).mean())
    return float(np.mean(errors))


PARTS = ("zeus", "nv-dvfs", "noise", "repeats", "jetson", "odroid-xu3")


def run(folder: Path | None, only: Sequence[str] = PARTS, results: Path = RESULTS) -> dict:
    """Measure the parts for which there are data; renew them in choice.json, and choice.png."""
    works = {
        "nv-dvfs": nv_dvfs, "noise": noisy_tables, "jetson": mobilenet, "odroid-xu3": odroid,
    }  # fmt: skip
    found: dict[str, Any] = {}
    if "zeus" in only:
        found["zeus"] = zeus()
    if "repeats" in only:
        found["repeats"] = repeats()
    for name in (name for name in works if name in only):
        data = "nv-dvfs" if name == "noise" else name
        if folder is None or not (folder / data).is_dir():
            print(f"{data}: no such folder in {folder}; skipped.", flush=True)
            continue
        found[name] = works[name](folder / data)
    path = results / "choice.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    every = {name: part for name in PARTS if (part := found.get(name, before.get(name)))}
    store(path, every)
    draw(every, results / "choice.png")
    return every


def tables(found: dict[str, Any] | None = None) -> dict[str, str]:
    """The tables of the parts that were measured, of the stored results if none are given."""
    found, out = stored("choice") if found is None else found, {}
    if rows := decision_rows(found):
        header = ["decision", "regret", "goal", "late", "goal", "compared with"]
        out["choice"] = markdown(header, rows)
    if "nv-dvfs" in found:
        header = ["GPU", "clocks known [MHz]", "margins from microbenchmarks", "from applications"]
        rows = [
            [gpu, clocks.replace("+", ", "), *(covered(bounds[m]) for m in bounds)]
            for gpu, result in found["nv-dvfs"].items()
            for clocks, bounds in result["energy_bounds"].items()
        ]
        out["choice-coverage"] = markdown(header, rows)
    if "noise" in found:
        header = ["GPU", "noise of a run", *(f"regret, {name}" for name in NOISY_RIVALS)]
        header += ["regret within a latency", "late", "bounds exceeded", "refused"]
        rest = ("within latency", "late", "exceeded", "refused")
        rows = [
            [gpu, f"{100 * float(noise):g} %", *(percent(row[n]) for n in (*NOISY_RIVALS, *rest))]
            for gpu, by_noise in found["noise"].items()
            for noise, row in by_noise.items()
        ]
        out["choice-noise"] = markdown(header, rows)
    if "repeats" in found:
        shown = ("above the bound", "late", "median late", "refused")
        header = ["noise of a run", "runs of a clock", "new runs above the bound"]
        header += ["late at the chosen clock", "late if chosen by the median", "refused"]
        rows = [
            [f"{100 * row['noise']:g} %", f"{row['runs']}", *(percent(row[n]) for n in shown)]
            for row in found["repeats"]
        ]
        out["choice-repeats"] = markdown(header, rows)
    if "odroid-xu3" in found:
        names = {
            "energy": "energy",
            "power_per_interval": "power per interval",
            "energy_generated": "energy, generated alone",
            "power_generated": "power, generated alone",
            "one_run_against_the_other": "power, one run against the other",
        }
        result = found["odroid-xu3"]
        every = {**result["programs"], "mean": result["mean"], "goal": {}}
        goals = {"energy": "≤ 1 %", "power_per_interval": "≤ 2.2 %"}
        rows = [
            [program, *(percent(row[f]) if row else goals.get(f, "") for f in names)]
            for program, row in every.items()
        ]
        out["choice-odroid"] = markdown(["program", *names.values()], rows)
    return out


def decision_rows(found: dict[str, Any]) -> list[list[str]]:
    rows = []
    for gpu, result in found.get("nv-dvfs", {}).items():
        regret, late = result["regret"], result["late"]
        beside = ", ".join(
            f"{name} {percent(regret[name])} ({percent(late[name])} late)" for name in regret
        )
        words = f"{gpu}: 20 applications, slack of 5 to 50 %, two clocks measured"
        own = percent(regret["margins"]), "≤ 1.8 %", percent(late["margins"]), "≤ 5 %"
        rows.append([words, *own, beside.partition(", ")[2]])
    for device, result in found.get("jetson", {}).items():
        own = result["expected"]
        beside = ", ".join(
            f"{name} {percent(result[name]['regret'])} ({percent(result[name]['late'])} late)"
            for name in ("Gaussian 90 %", "boosting")
        )
        words = f"{device}: MobileNet's batch and clock, 6 of {result['configurations']} measured"
        rows.append([words, percent(own["regret"]), "≤ 1 %", percent(own["late"]), "≤ 7 %", beside])
    if "zeus" in found:
        for gpu, result in found["zeus"].items():
            words = f"{gpu}: power limit of a network never seen, two more limits"
            beside = f"highest limit {percent(result['highest_limit'])}"
            own = percent(result["regret_by_probes"][2])
            rows.append([words, own, "≤ 2 %", "", "", beside])
        mean = float(np.mean([r["regret_by_probes"][2] for r in found["zeus"].values()]))
        rows.append(["mean of the four", percent(mean), "≤ 1.2 %", "", "", ""])
    return rows


def covered(bound: dict[str, float]) -> str:
    return f"{100 * bound['covered']:.0f} % (worst clock {100 * bound['at_the_worst_clock']:.0f})"


def percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw Pareto fronts of MobileNet, and regret against the number of measurements."""
    boards = found.get("jetson", {})
    figure, axes = subplots(1, len(boards) + 1, figsize=(4 * (len(boards) + 1), 3.4))
    axes = np.atleast_1d(axes)
    for axis, (device, result) in zip(axes, boards.items()):
        points = np.array(result["points"])
        axis.loglog(1e3 * points[:, 0], points[:, 1], ".", color="0.75", label="measured")
        for name, style in (("measured", "o-"), ("predicted", "x--")):
            front = np.array(result["fronts"][name])
            axis.loglog(1e3 * front[:, 0], front[:, 1], style, label=f"front, {name}", alpha=0.8)
        axis.set_title(f"MobileNet, {device}")
        axis.set_xlabel("latency [ms]")
        axis.set_ylabel("energy per inference [J]")
        axis.legend(fontsize="small")
    for gpu, result in found.get("zeus", {}).items():
        paid = 100 * np.array(result["regret_by_probes"])
        axes[-1].plot(np.arange(1, len(paid) + 1), paid, "o-", label=gpu)
    axes[-1].set_title("training under power limits")
    axes[-1].set_xlabel("limits measured")
    axes[-1].set_ylabel("energy above the best [%]")
    axes[-1].set_ylim(bottom=0)
    if "zeus" in found:
        axes[-1].legend(fontsize="small")
    figure.savefig(path, dpi=130)


def report(found: dict[str, Any]) -> None:
    """Write the tables; print the time of a decision."""
    publish(tables(found))
    for gpu, result in found.get("nv-dvfs", {}).items():
        print(f"{gpu}: a decision takes {result['median_decision_ms']:.3f} ms; ≤ 1 ms is asked")


def main() -> None:
    options = parser(__doc__, PARTS, data="folder of the public sets").parse_args()
    report(run(options.data, options.only))
