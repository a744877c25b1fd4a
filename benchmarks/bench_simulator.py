"""Simulations of task graphs a second, one core: ``python benchmarks/bench_simulator.py``.

Graphs of about 100 tasks of every family run on every device, in contexts of all cores and clocks.
Figures are percentiles over graphs and devices of the time of a simulation, noise included, and the
first call's time.
"""

from functools import partial

import numpy as np
from tables import PROFILES, RESULTS, TASKS, markdown, publish, store, stored
from timing import seconds_of

import msbgen
from msbgen.systems.graphs import simulator as simulators
from msbgen.systems.graphs.devices import device_contexts, shipped_device
from msbgen.systems.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.systems.graphs.rates import RESOLUTION
from msbgen.systems.phases.phases import phase_table

DEVICES = ("tx2", "orin-nx", "rubik-pi")
REPEATS, RUNS, CONTEXTS = 5, 2, 100


def graphs() -> list:
    """The graph of each family nearest to 100 tasks, its tasks running six programs in turn."""
    found = []
    for family in FAMILIES.values():
        drawn = [family_graph(family.name, size) for size in family.sizes]
        graph = min(drawn, key=lambda g: abs(g.sizes["task"] - 100))
        kinds = [TASKS[i % len(TASKS)] for i in range(graph.sizes["task"])]
        found.append(graph.assign(kind=("task", np.array(kinds))))
    return found


def main() -> None:
    tables = {
        task: phase_table(msbgen.read_profiles(PROFILES / f"{task}.nc"), resolution=RESOLUTION)
        for task in TASKS
    }
    per_task, first = [], None
    rng = np.random.default_rng(0)
    for name in DEVICES:
        device = shipped_device(name)
        every = device_contexts(device)
        contexts = every[rng.permutation(len(every))[:CONTEXTS]]
        simulator = simulators.Simulator(device, tables)
        for graph in graphs():
            program = simulator.program(graph)
            once = seconds_of(partial(simulator.run, program, contexts[:1]))
            first = once if first is None else first
            often = partial(simulator.run, program, contexts, runs=RUNS)
            best = min(seconds_of(often) for _ in range(REPEATS))
            per_task.append(best / (RUNS * CONTEXTS) * 100 / graph.sizes["task"])
    slow, typical = np.percentile(per_task, [99, 50])
    content = {
        "microseconds, 100 tasks, 99th percentile": round(1e6 * float(slow), 2),
        "microseconds, 100 tasks, median": round(1e6 * float(typical), 2),
        "simulations per second, 99th percentile": round(1 / float(slow)),
        "seconds, first call": round(float(first or 0.0), 2),
        "graphs and devices": len(per_task),
    }
    store(RESULTS / "soc.json", content)
    publish(tables())


def tables() -> dict[str, str]:
    rows = [[what, f"{value:,}"] for what, value in stored("soc").items()]
    return {"simulator-speed": markdown(["simulation of a task graph", "figure"], rows)}


if __name__ == "__main__":
    main()
