"""Choosing contexts of graphs: searches, rules and agents, on families that nobody saw.

A seed draws a device that its sheet does not quite know, a quarter of the families to hold back,
and episodes of 20 graphs of those, from a device that idles up to one at the soft limit of 45 °C.
Predictors are fitted to runs of the other families, agents are trained on episodes of them.

    python benchmarks/graph_choice.py --data FOLDER -o choice.json [--seeds 5] [--long 1]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from graph_data import all_graphs, all_kinds, draw_runs, true_device
from numpy.typing import NDArray

from msbgen.data.devices import Device, shipped_device
from msbgen.predict.graph.forecaster import GraphForecaster
from msbgen.predict.graph.predictor import GraphPredictor
from msbgen.schedule import agents as play
from msbgen.schedule.soc import Simulator

DEVICE = "tx2"
# Episodes that policies are judged in, and runs of each graph that predictors are fitted to.
EPISODES, CONTEXTS = 20, 12
# Graphs that the price of heat is learned from.
HEATED = 12
# Deadlines of each graph, as multiples of what its fastest context takes.
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
    held = np.random.default_rng([7, seed]).permutation(families)[: len(families) // 4]
    seen = {n: g for n, g in graphs.items() if g.attrs["family"] not in held}
    unseen = [g for g in graphs.values() if g.attrs["family"] in held]
    runs = draw_runs(simulator, seen, CONTEXTS, np.random.default_rng([8, seed]))
    predictor = GraphPredictor(random_state=seed)
    predictor.fit([runs], devices=[sheet], graphs=graphs, profiles=profiles).calibrate()
    # a device that is on is no cooler than one that idles
    start = sheet.ambient + sheet.resistance * sheet.base_power, play.Cost().soft
    worlds = [play.World(simulator, g, start=start) for g in (list(seen.values()), unseen)]
    return Setting(
        seed, *worlds, sheet,
        GraphForecaster(predictor, sheet, MISCOVERAGE), GraphForecaster(predictor, sheet, None),
    )  # fmt: skip


def judged(at: Setting, policy: play.worlds.Policy) -> dict[str, float]:
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
    """Searches and rules."""
    world, soft = at.unseen, at.unseen.cost.soft
    pick = np.random.default_rng([9, at.seed]).permutation(len(at.seen.graphs))[:HEATED]
    heat = play.Heat.learn(
        at.quick, at.sheet, [at.seen.graphs[i] for i in pick], world.contexts,
        cost=world.cost, length=world.length,
    )  # fmt: skip
    truth, bounded = play.Truthful(world), at.forecaster
    policies: dict[str, play.worlds.Policy] = {
        "one-step oracle": play.Search(world, truth),
        "search": play.Search(world, at.quick),
        "search, cautious": play.Search(world, bounded, cautious=True, cap=soft),
        "search, heat valued": play.Search(world, at.quick, heat=heat),
        "search, cautious, heat valued": play.Search(
            world, bounded, cautious=True, cap=soft, heat=heat
        ),
        "all cores fast": play.all_fast(world),
        "powersave": play.powersave(world),
        "step down": play.StepDown(world),
        "HEFT, all cores fast": play.heft(world),
    }
    return {name: judged(at, policy) for name, policy in policies.items()}


def learned(at: Setting, episodes: int, names: dict[str, int]) -> dict[str, dict[str, float]]:
    """Agents, by name; a name's number is its ζ."""
    found = {}
    for name, imagined in names.items():
        kind = play.AgentPerCore if "per core" in name else play.OneAgent
        actions = kind(at.seen)
        gate = play.Gate(at.seen, at.forecaster, at.seen.cost.soft) if "gated" in name else None
        agent: Any = (
            play.TabularQ(actions.branches[0])
            if "tabular" in name
            else play.D3QN(7, actions.branches, seed=at.seed)
        )
        began = time.perf_counter()
        done = play.train(
            at.seen, agent, actions, play.TrainingSettings(episodes, imagined),
            model=at.quick if imagined else None, gate=gate, seed=at.seed,
        )  # fmt: skip
        spent = time.perf_counter() - began
        gate = play.Gate(at.unseen, at.forecaster, at.unseen.cost.soft) if gate else None
        found[name] = judged(at, play.Learned(at.unseen, agent, actions, gate)) | {
            "training seconds": spent,
            "training above": float(done.above.mean()),
            "training cost": float(done.cost.mean()),
        }
    return found


AGENTS = {
    "tabular Q": 0,
    "D3QN": 0,
    "D3QN per core": 0,
    "D3QN per core, gated": 0,
    "Dyna 5": 5,
    "Dyna 10": 10,
    "Dyna 20": 20,
    "Dyna 20 per core": 20,
}
LONG_AGENTS = {"tabular Q": 0, "D3QN": 0, "D3QN per core": 0, "Dyna 20": 20, "Dyna 20 per core": 20}


def deadlines(at: Setting) -> dict[str, float]:
    """Least energy within deadlines: with bounds, without, and by the truth."""
    world, rng = at.unseen, np.random.default_rng([10, at.seed])
    truth = play.Truthful(world)
    totals = {"oracle": np.zeros(2), "bounds": np.zeros(2), "no bounds": np.zeros(2)}
    n = len(world.graphs) * DEADLINES
    for number, graph in enumerate(world.graphs):
        for _ in range(DEADLINES):
            start = rng.uniform(*world.start)
            real = truth.forecast(graph, world.contexts, start)
            said = at.forecaster.forecast(graph, world.contexts, start)
            deadline = real.time.min() * rng.uniform(LEAST, MOST)
            noise = int(rng.integers(2**31))
            asked = {
                "oracle": (real.energy, real.time),
                "bounds": (said.energy, said.time_bound),
                "no bounds": (said.energy, said.time),
            }
            for name, (energy, seconds) in asked.items():
                kept = seconds <= deadline
                at_best = int(
                    np.where(kept, energy, np.inf).argmin() if kept.any() else seconds.argmin()
                )
                step = world.step(play.State(number, start, 1), at_best, noise)
                totals[name] += step.time > deadline, step.energy
    best = totals["oracle"][1]
    return {f"{name}: missed": float(miss / n) for name, (miss, _) in totals.items()} | {
        f"{name}: energy above the oracle's": float(spent / best - 1)
        for name, (_, spent) in totals.items()
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


def choice(folder: Path, seeds: int = 5, long: int = 1, save: Callable[[Any], None] = print) -> Any:
    """Everything, seed by seed; `long` seeds are trained in 1,000 episodes, too."""
    truth, profiles = all_kinds(folder)
    found = []
    for seed in range(seeds):
        at = setting(seed, truth, profiles)
        one = {
            "policies": searches(at),
            "deadlines": deadlines(at),
            "orders": orders(at),
            "agents": {str(SHORT): learned(at, SHORT, AGENTS)},
        }
        found.append(one)
        save(summary(found))
    for seed in range(long):
        at = setting(seed, truth, profiles)
        found[seed]["agents"][str(LONG)] = learned(at, LONG, LONG_AGENTS)
        save(summary(found))
    return summary(found)


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, each policy beside the oracle and tabular Q of its seed."""
    rows: dict[str, list[dict[str, float]]] = {}
    for one in found:
        oracle = one["policies"]["one-step oracle"]
        table = one["agents"][str(SHORT)]["tabular Q"]
        named = dict(one["policies"])
        for episodes, agents in one["agents"].items():
            named |= {f"{name}, {episodes} episodes": row for name, row in agents.items()}
        for name, row in named.items():
            ratios = {
                "cost above the oracle's": row["cost"] / oracle["cost"] - 1,
                "time against tabular Q": row["time"] / table["time"] - 1,
                "energy against tabular Q": row["energy"] / table["energy"] - 1,
            }
            rows.setdefault(name, []).append(row | ratios)

    def mean(parts: list[dict[str, float]]) -> dict[str, float]:
        return {key: float(np.mean([part[key] for part in parts])) for key in parts[0]}

    return {
        "policies": {
            name: mean(parts)
            | {
                "seeds": len(parts),
                "worst cost above the oracle's": max(p["cost above the oracle's"] for p in parts),
            }
            for name, parts in rows.items()
        },
        "deadlines": mean([one["deadlines"] for one in found]),
        "orders": mean([one["orders"] for one in found]),
    }


def table(found: dict[str, Any]) -> str:
    """The policies as a table in Markdown."""
    lines = [
        "| policy | cost above the oracle's | time [s] | energy [J] | above 45 °C "
        "| against tabular Q: time, energy |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found["policies"].items():
        above = row["cost above the oracle's"]
        lines.append(
            f"| {name} | {above:+.1%} | {row['time']:.3f} | "
            f"{row['energy']:.2f} | {row['above']:.1%} | {row['time against tabular Q']:+.0%}, "
            f"{row['energy against tabular Q']:+.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--long", type=int, default=1)
    given = parser.parse_args()
    try:
        import torch

        torch.set_num_threads(1)
    except ModuleNotFoundError:
        raise SystemExit("torch is missing; pip install msbgen[graph]") from None

    def keep(found: Any) -> None:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(table(found), found["deadlines"], found["orders"], sep="\n", flush=True)

    choice(given.data, given.seeds, given.long, keep)
