"""Contexts chosen for task graphs: searches, rules and agents, on families never seen.

A seed draws a device that differs from its data sheet, a quarter of the families to hold out, and
episodes of 20 graphs of those families. Predictors are fitted to runs of the other families, and
agents are trained on episodes of them. The work folder keeps each part, so that a study goes on
after an interruption.
"""

import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from graphs_data import all_graphs, all_kinds, draw_runs, true_device
from numpy.typing import NDArray
from tables import RESULTS, markdown, mean_rows, parser, publish, store, stored, subplots

from msbgen.systems.graphs import agents as play
from msbgen.systems.graphs.devices import Device, shipped_device
from msbgen.systems.graphs.predictor.forecaster import GraphForecaster
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.simulator import Simulator

DEVICE = "tx2"
# Episodes of each policy, and runs of each graph for the fit of predictors.
EPISODES, CONTEXTS = 20, 12
# Graphs from which the price of heat is learned.
HEATED = 12
# Deadlines of each graph, as multiples of the time in its fastest context.
DEADLINES, LEAST, MOST = 10, 1.1, 3.0
# A two-sided interval for deadlines: its upper end is exceeded half as often.
MISCOVERAGE = 0.05
SHORT, LONG = 200, 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """One seed's device, worlds of seen and unseen families, and forecasters."""

    seed: int
    seen: play.World
    unseen: play.World
    sheet: Device
    forecaster: GraphForecaster
    quick: GraphForecaster


def setting(seed: int, truth: dict[str, xr.Dataset], profiles: dict[str, xr.Dataset]) -> Setting:
    sheet = shipped_device(DEVICE)
    simulator = Simulator(true_device(sheet, seed), truth)
    graphs = all_graphs()
    families = sorted({str(graph.attrs["family"]) for graph in graphs.values()})
    held_out = np.random.default_rng([7, seed]).permutation(families)[: len(families) // 4]
    seen = {n: g for n, g in graphs.items() if g.attrs["family"] not in held_out}
    unseen = [g for g in graphs.values() if g.attrs["family"] in held_out]
    runs = draw_runs(simulator, seen, CONTEXTS, np.random.default_rng([8, seed]))
    predictor = GraphPredictor(random_state=seed)
    predictor.fit([runs], devices=[sheet], graphs=graphs, profiles=profiles).calibrate()
    # a running device is at least as warm as an idle one
    start = sheet.ambient + sheet.resistance * sheet.base_power, play.Cost().soft
    worlds = [play.World(simulator, g, start=start) for g in (list(seen.values()), unseen)]
    return Setting(
        seed, *worlds, sheet,
        GraphForecaster(predictor, sheet, MISCOVERAGE), GraphForecaster(predictor, sheet, None),
    )  # fmt: skip


def scored(at: Setting, policy: play.worlds.Policy) -> dict[str, float]:
    began = time.perf_counter()
    record = play.play_episodes(at.unseen, policy, EPISODES, at.seed)
    soft = at.unseen.cost.soft
    return {
        "cost": float(record.cost.mean()),
        "time": float(record.time.mean()),
        "energy": float(record.energy.mean()),
        "above": record.violated(soft),
        "mean temperature": float(record.last.mean()),
        "peak temperature": float(record.peak.max()),
        "seconds": time.perf_counter() - began,
    }


def searches(at: Setting) -> dict[str, dict[str, float]]:
    """Scores of searches and rules."""
    world, soft = at.unseen, at.unseen.cost.soft
    pick = np.random.default_rng([9, at.seed]).permutation(len(at.seen.graphs))[:HEATED]
    heat = play.FutureCost.learn(
        at.quick, at.sheet, [at.seen.graphs[i] for i in pick], world.contexts,
        cost=world.cost, length=world.length,
    )  # fmt: skip
    truth, bounded = play.Oracle(world), at.forecaster
    policies: dict[str, play.worlds.Policy] = {
        ORACLE: play.Search(world, truth),
        "search": play.Search(world, at.quick),
        "search, cautious": play.Search(world, bounded, cautious=True, cap=soft),
        "search, heat valued": play.Search(world, at.quick, future_cost=heat),
        "search, cautious, heat valued": play.Search(
            world, bounded, cautious=True, cap=soft, future_cost=heat
        ),
        "all cores fast": play.all_fast(world),
        "powersave": play.powersave(world),
        "step down": play.ThermalGovernor(world),
        "HEFT, all cores fast": play.heft(world),
    }
    return {name: scored(at, policy) for name, policy in policies.items()}


class CountingGate(play.Gate):
    """A gate that counts proposals, those that would end too hot, and those that it stops."""

    def __init__(self, world: play.World, forecaster: GraphForecaster):
        super().__init__(world, forecaster, world.cost.soft)
        self.proposals, self.hot, self.stopped = 0, 0, 0

    def passes(self, state: play.State, context: int) -> bool:
        world, kept = self.world, super().passes(state, context)
        truth = world.simulator.run(
            world.programs[state.graph], world.contexts[[context]],
            temperature=state.temperature, noise=False,
        )  # fmt: skip
        self.proposals, self.stopped = self.proposals + 1, self.stopped + (not kept)
        self.hot += bool(truth.peak[0, 0] > world.cost.soft)
        return kept

    @property
    def shares(self) -> dict[str, float]:
        """Shares of all proposals."""
        return {
            "hot proposals": self.hot / self.proposals,
            "stopped": self.stopped / self.proposals,
        }


def learned(at: Setting, episodes: int, names: dict[str, int]) -> dict[str, dict[str, float]]:
    """Scores of agents, by name; the number of each name is its ζ."""
    found = {}
    for name, imagined in names.items():
        kind = play.AgentPerCore if "per core" in name else play.OneAgent
        actions = kind(at.seen)
        gate = CountingGate(at.seen, at.forecaster) if "gated" in name else None
        agent: Any = (
            play.TabularQ(actions.branches[0])
            if "tabular" in name
            else play.D3QN(7, actions.branches, seed=at.seed)
        )
        began = time.perf_counter()
        done = play.train(
            at.seen, agent, actions, play.TrainingSettings(episodes, imagined, seed=at.seed),
            model=at.quick if imagined else None, gate=gate,
        )  # fmt: skip
        spent = time.perf_counter() - began
        row = {
            "training seconds": spent,
            "training above": float(done.above.mean()),
            "training cost": float(done.cost.mean()),
        }
        tested_gate = CountingGate(at.unseen, at.forecaster) if gate else None
        row |= scored(at, play.LearnedPolicy(at.unseen, agent, actions, tested_gate))
        if gate and tested_gate:
            row |= {f"training {what}": share for what, share in gate.shares.items()}
            row |= tested_gate.shares
        found[name] = row
    return found


ORACLE, TABLE, SEARCHES = "one-step oracle", "tabular Q", "searches"
FREE, GATED = "D3QN per core", "D3QN per core, gated"
DYNA_20 = {"Dyna 20": 20, "Dyna 20 per core": 20}
AGENTS = {"D3QN": 0, FREE: 0, GATED: 0, "Dyna 5": 5, "Dyna 10": 10, **DYNA_20}
LONG_AGENTS = {TABLE: 0, "D3QN": 0, FREE: 0, **DYNA_20}


def deadlines(at: Setting) -> dict[str, float]:
    """Least energy within deadlines: by upper bounds, by expected times, and by the truth."""
    world, rng = at.unseen, np.random.default_rng([10, at.seed])
    truth = play.Oracle(world)
    totals = {"oracle": np.zeros(2), "bounds": np.zeros(2), "no bounds": np.zeros(2)}
    n = len(world.graphs) * DEADLINES
    for number, graph in enumerate(world.graphs):
        for _ in range(DEADLINES):
            start = rng.uniform(*world.start)
            real = truth.forecast(graph, world.contexts, start)
            forecast = at.forecaster.forecast(graph, world.contexts, start)
            deadline = real.time.min() * rng.uniform(LEAST, MOST)
            noise = int(rng.integers(2**31))
            criteria = {
                "oracle": (real.energy, real.time),
                "bounds": (forecast.energy, forecast.time_bound),
                "no bounds": (forecast.energy, forecast.time),
            }
            for name, (energy, seconds) in criteria.items():
                kept = seconds <= deadline
                at_best = int(
                    np.where(kept, energy, np.inf).argmin() if kept.any() else seconds.argmin()
                )
                step = world.step(play.State(number, start, 1), at_best, noise)
                totals[name] += step.time > deadline, step.energy
    best = totals["oracle"][1]
    return {f"{name}: missed": float(miss / n) for name, (miss, _) in totals.items()} | {
        f"{name}: energy above": float(spent / best - 1) for name, (_, spent) in totals.items()
    }


def orders(at: Setting) -> dict[str, float]:
    """HEFT against arrival order: mean change of the time in contexts with several cores."""
    world, rng = at.unseen, np.random.default_rng([11, at.seed])
    cores = world.contexts[:, 0 : 2 * len(at.sheet.clusters) : 2].sum(axis=1)
    several = world.contexts[cores > 1]
    change = []
    for program in world.programs:
        some = several[rng.choice(len(several), 40, replace=False)]
        ways = [
            world.simulator.run(program, some, order=order, rng=at.seed).makespan[:, 0]
            for order in ("arrival", "heft")
        ]
        change.append(np.log(ways[1] / ways[0]))
    return {"mean": float(np.expm1(np.mean(change))), "largest": float(np.expm1(np.min(change)))}


def parts(seeds: int, long: int) -> list[tuple[int, str, int]]:
    """All parts as (seed, part, episodes), the cheap ones first."""
    return [
        *((seed, SEARCHES, SHORT) for seed in range(seeds)),
        *((seed, name, SHORT) for seed in range(seeds) for name in AGENTS),
        *((seed, name, LONG) for seed in range(long) for name in LONG_AGENTS),
    ]


def kept(work: Path, seed: int, part: str, episodes: int) -> Path:
    return work / "choice" / f"{seed}-{part.replace(' ', '_')}-{episodes}.json"


@cache
def setting_of(work: Path, seed: int) -> Setting:
    return setting(seed, *all_kinds(work))


def job(work: Path, seed: int, part: str, episodes: int) -> str:
    """Compute a part, unless its file is there."""
    path = kept(work, seed, part, episodes)
    if not path.exists():
        import torch

        torch.set_num_threads(1)
        at = setting_of(work, seed)
        if part == SEARCHES:
            found: Any = {"policies": searches(at), "deadlines": deadlines(at)}
            found["orders"] = orders(at)
            found["policies"] |= {
                f"{TABLE}, {SHORT} episodes": learned(at, SHORT, {TABLE: 0})[TABLE]
            }
        else:
            imagined = {**AGENTS, **LONG_AGENTS}[part]
            row = learned(at, episodes, {part: imagined})[part]
            found = {"policies": {f"{part}, {episodes} episodes": row}}
        store(path, found)
    return path.name


def run(work: Path, seeds: int = 5, long: int = 1, processes: int = 2) -> None:
    """Compute all missing parts, some at a time, and report."""
    all_kinds(work, processes)  # profiles of the kinds, once for all
    todo = parts(seeds, long)
    with ProcessPoolExecutor(processes) as pool:
        for done in pool.map(job, [work] * len(todo), *zip(*todo)):
            print(done, flush=True)
    report(work, seeds, long)


def report(work: Path, seeds: int = 5, long: int = 1) -> None:
    """Write JSON, tables and picture of the finished parts."""
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        own: dict[str, Any] = {"policies": {}}
        for at, part, episodes in parts(seeds, long):
            path = kept(work, at, part, episodes)
            if at == seed and path.exists():
                more = json.loads(path.read_text(encoding="utf-8"))
                own = {**more, **own, "policies": own["policies"] | more["policies"]}
        if ORACLE in own["policies"]:
            found.append(own)
    if not found:
        print(f"{work} holds no choices of contexts yet; run without --no-run.")
        return
    results = summary(found)
    store(RESULTS / "graph-choice.json", results)
    publish(tables(results))
    draw(results)


def tables(results: dict[str, Any] | None = None) -> dict[str, str]:
    """All tables of the page, of the stored results if none are given."""
    results = results or stored("graph-choice")
    return {
        "graph-choice": policy_table(results),
        "graph-gate": gate_table(results),
        "graph-deadlines": deadline_table(results),
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, each policy beside the oracle and tabular Q of its seed."""
    rows: dict[str, list[dict[str, float]]] = {}
    above = "cost above the oracle's"
    for one in found:
        oracle, by_table = (one["policies"][n] for n in (ORACLE, f"{TABLE}, {SHORT} episodes"))
        for name, row in one["policies"].items():
            ratios = {
                above: row["cost"] / oracle["cost"] - 1,
                "time against tabular Q": row["time"] / by_table["time"] - 1,
                "energy against tabular Q": row["energy"] / by_table["energy"] - 1,
            }
            rows.setdefault(name, []).append(row | ratios)
    return {
        "policies": {
            name: mean_rows(own) | {"seeds": len(own), f"worst {above}": max(p[above] for p in own)}
            for name, own in rows.items()
        },
        "deadlines": mean_rows([one["deadlines"] for one in found]),
        "orders": mean_rows([one["orders"] for one in found]),
    }


def policy_table(found: dict[str, Any]) -> str:
    """A row for each policy."""
    header = [
        *("policy", "cost above the oracle's (worst seed)", "time [s]", "energy [J]"),
        *("above 45 °C", "in training", "time, energy against tabular Q", "seeds"),
    ]
    rows = []
    for name, row in found["policies"].items():
        training = f"{row['training above']:.1%}" if "training above" in row else ""
        against = f"{row['time against tabular Q']:+.0%}, {row['energy against tabular Q']:+.0%}"
        above, worst = row["cost above the oracle's"], row["worst cost above the oracle's"]
        cells = [name, f"{above:+.1%} ({worst:+.1%})", f"{row['time']:.3f}"]
        cells += [f"{row['energy']:.2f}", f"{row['above']:.1%}", training, against]
        rows.append([*cells, str(row["seeds"])])
    return markdown(header, rows)


def gate_table(found: dict[str, Any]) -> str:
    """Proposals that are too hot, with the gate and without."""
    header = ["agents, one per core", "", "proposed above 45 °C", "stopped", "ran above 45 °C"]
    rows = []
    for title, name in (("no gate", FREE), ("gated", GATED)):
        row = found["policies"].get(f"{name}, {SHORT} episodes", {})
        for when, prefix in (("training", "training "), ("unseen families", "")):
            if row:
                ran = row[f"{prefix}above"]
                proposed = row.get(f"{prefix}hot proposals", ran)
                stopped = row.get(f"{prefix}stopped", 0.0)
                rows.append([title, when, *(f"{x:.1%}" for x in (proposed, stopped, ran))])
    return markdown(header, rows)


def deadline_table(found: dict[str, Any]) -> str:
    """Least energy within deadlines, and HEFT against the order of arrival."""
    rows = [
        [name, f"{own[f'{name}: missed']:.2%}", f"{own[f'{name}: energy above']:+.2%}"]
        for own in [found["deadlines"]]
        for name in ("oracle", "bounds", "no bounds")
    ]
    heft = f"HEFT against arrival order: {found['orders']['mean']:+.1%} of the time"
    return markdown(["by", "deadlines missed", "energy above the oracle's"], rows) + f"\n\n{heft}"


def draw(found: dict[str, Any]) -> None:
    """Draw the cost of each policy above the oracle's."""
    names = [name for name in found["policies"] if name != ORACLE]
    heights = [100 * found["policies"][name]["cost above the oracle's"] for name in names]
    figure, axes = subplots(figsize=(8, 0.3 * len(names) + 1))
    axes.barh(range(len(names))[::-1], heights)
    axes.set_yticks(range(len(names))[::-1], labels=names, fontsize="small")
    axes.set_xscale("symlog", linthresh=5)
    axes.set_xlabel("cost above the one-step oracle's [%]")
    axes.axvline(0, color="black", linewidth=0.8)
    figure.savefig(RESULTS / "graph-choice.png", dpi=90)


def main() -> None:
    arguments = parser(__doc__, required=("work",), work="folder that keeps each part")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--long", type=int, default=1, help="seeds with 1,000 episodes, too")
    arguments.add_argument("--processes", type=int, default=2, help="at a time")
    arguments.add_argument("--no-run", action="store_true", help="report what was done")
    options = arguments.parse_args()
    if options.no_run:
        report(options.work, options.seeds, options.long)
    else:
        run(options.work, options.seeds, options.long, options.processes)
