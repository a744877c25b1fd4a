"""Speed of queues: 50,000 jobs on 650, 1,400 and 5,400 nodes, every placement; needs no data.

Times are of warm calls on an idle machine, and of the first call.
"""

from functools import partial
from itertools import product

import numpy as np
from queues_data import JOBS, made_up
from tables import RESULTS, markdown, publish, store, stored
from timing import seconds_of

from msbgen.systems.machines import queue

# Nodes of four machines, and the goal for a simulation [s].
SIZES = {
    650: ((200, 200, 150, 100), 2.0),
    1400: ((500, 400, 300, 200), 2.0),
    5400: ((2000, 1500, 1200, 700), 5.0),
}
# Mean time on each machine relative to the first; jobs differ from it by a factor of 1.5.
SLOWER = (1.0, 1.4, 2.7, 4.4)
LOADS = (0.5, 0.95, 2.0)


def make(nodes: tuple[int, ...]) -> tuple[queue.Jobs, dict[str, int]]:
    """Random jobs on machines with so many nodes."""
    rng, log = np.random.default_rng(0), made_up()
    factors = np.array(SLOWER) * rng.lognormal(0, 0.4, (JOBS, 4))
    runtime = log.runtime[:JOBS, None] * factors
    jobs = queue.make_jobs(
        log.submission[:JOBS],
        rng.choice([1, 2, 4, 8, 16, 32], JOBS),
        runtime,
        estimate=runtime * rng.lognormal(0, 0.2, (JOBS, 4)),
    )
    return jobs, {f"m{k}": n for k, n in enumerate(nodes)}


def main() -> None:
    few = queue.make_jobs([0, 0], [1, 1], [[1.0, 2.0]] * 2)
    first = seconds_of(lambda: queue.simulate_queue(few, {"a": 1, "b": 1}))
    content = {"first_call": first, "simulations": []}
    for size, (nodes, _) in SIZES.items():
        jobs, machines = make(nodes)
        for load in (*LOADS, None):
            come = jobs.submitted(np.zeros(JOBS))
            come = queue.at_load(jobs, machines, load) if load else come
            seconds = {}
            for placement, form in product(queue.PLACEMENTS, queue.QUEUES):
                how = {"placement": placement, "queue": form}
                simulate = partial(queue.simulate_queue, come, machines, **how)
                seconds[f"{placement}, {form}"] = min(seconds_of(simulate) for _ in range(3))
            content["simulations"].append({"nodes": size, "load": load, "seconds": seconds})
    store(RESULTS / "queue-speed.json", content)
    publish(tables())


def tables() -> dict[str, str]:
    """Seconds of a simulation by nodes and load."""
    content, rows = stored("queue-speed"), []
    for row in content["simulations"]:
        size, load, seconds = row["nodes"], row["load"], row["seconds"]
        slowest = max(seconds, key=lambda key: seconds[key])
        cells = [f"{size:,}", f"load {load:g}" if load else "at once"]
        cells += [f"{seconds['aware, machine']:.2f} s", f"{seconds[slowest]:.2f} s ({slowest})"]
        rows.append([*cells, f"≤ {SIZES[size][1]:g} s"])
    text = markdown(["nodes", "load", "aware", "slowest placement", "goal"], rows)
    first = f"The first call, compilation included: {content['first_call']:.1f} s"
    return {"queue-speed": f"{text}\n\n{first}"}


if __name__ == "__main__":
    main()
