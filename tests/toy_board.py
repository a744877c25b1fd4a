"""A device of two clusters, and profiles by a formula, whose durations are known everywhere."""

import numpy as np

from msbgen.data.build import make_profiles
from msbgen.systems.graphs.boards import Board, prepare_graph
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.devices import Cluster, Device, device_contexts
from msbgen.systems.graphs.predictor.factors import Factors, estimate
from msbgen.systems.graphs.runs import make_runs as make_graph_runs
from msbgen.systems.learn.boosting import BoostingSettings

WAYS, BANDWIDTHS, CLOCKS = (1.0, 2.0, 4.0, 8.0), (100.0, 200.0, 400.0, 800.0), (0.5, 1.0, 2.0)
CYCLES = {"busy": 1.0, "mixed": 0.5, "stream": 0.1}  # [1e9]
MOVED = {"busy": 0.0, "mixed": 20.0, "stream": 80.0}  # [MB], with no way


def seconds_of(kind, ways, bandwidth, clock):
    """Time of a run: linear in the ways, in 1/B and in 1/f, so that tables are exact."""
    return CYCLES[kind] / clock + MOVED[kind] * (1.0 - 0.05 * np.asarray(ways)) / bandwidth


def profiles_of(kind, runs=2):
    contexts = np.stack(np.meshgrid(WAYS, BANDWIDTHS, CLOCKS, indexing="ij"), -1).reshape(-1, 3)
    lasting = seconds_of(kind, *contexts.T)
    end = 0.05 * np.arange(1, int(np.ceil(lasting.max() / 0.05)) + 1)
    there = end - 0.05 < lasting[:, None] - 1e-9
    misses = MOVED[kind] * (1.0 - 0.05 * contexts[:, 0]) * 1e6 / 64 + 1.0
    counts = np.where(there, (misses / there.sum(axis=1))[:, None], np.nan)
    data = np.stack([np.where(there, 1e6, np.nan), counts], axis=-1)
    return make_profiles(
        np.repeat(data[:, None], runs, axis=1),
        np.repeat(lasting[:, None], runs, axis=1),
        contexts,
        interval=0.05,
        resources={
            "cache_ways": {"units": "1", "long_name": "ways", "levels": list(WAYS)},
            "bandwidth": {"units": "MB s-1", "long_name": "flow", "levels": list(BANDWIDTHS)},
            "frequency": {"units": "GHz", "long_name": "clock", "levels": list(CLOCKS)},
        },
        counters={
            "instructions": {"units": "1", "long_name": "instructions"},
            "cache_misses": {"units": "1", "long_name": "misses"},
        },
    )


def device_of(name="toy", **changes):
    values = {
        "base_power": 2.0,
        "cache_ways": (4.0, 8.0),
        "shared_by": "cluster",
        "bandwidth": (800.0,),
        "miss_energy": 50.0,
        "ambient": 25.0,
        "resistance": 2.0,
        "time_constant": 20.0,
        "cap": 70.0,
        "hysteresis": 2.0,
    }
    big = Cluster("big", 2, (0.5, 1.0, 2.0), 1.0, 1e-4, 2.0, 1.0, 0.1, (0.8, 1.1))
    little = Cluster("little", 2, (0.5, 1.0), 0.8, 2e-4, 0.5, 0.3, 0.05, (0.8, 1.0))
    return Device(name, (big, little), **{**values, **changes})


def layered(family, seed, size=4):
    """A graph whose shape the family settles and whose kinds and works the seed draws."""
    rng = np.random.default_rng([seed, len(family), sum(map(ord, family))])
    shape = np.random.default_rng(sum(map(ord, family)))
    widths = shape.integers(1, size + 1, 5)
    first = np.concatenate([[0], np.cumsum(widths)])
    edges = [
        (int(u), int(v))
        for layer in range(4)
        for v in range(first[layer + 1], first[layer + 2])
        for u in shape.permutation(np.arange(first[layer], first[layer + 1]))[:2]
    ]
    n = int(first[-1])
    kind = rng.choice(list(CYCLES), n)
    return make_graph(kind, rng.lognormal(-2, 0.7, n), edges, name=f"{family}{seed}", family=family)


FAMILIES = [f"family{i}" for i in range(20)]
GRAPHS = {
    str(g.attrs["name"]): g for name in FAMILIES for g in (layered(name, 1), layered(name, 2, 6))
}
FEW = BoostingSettings(rounds=30, depth=3, rate=0.15, least=5.0)
TRUE = Factors(np.array([0.25, -0.2, 0.3, 0.1, 0.2, 0.0, 0.0]))


def cores_law(prepared, contexts):
    """Logarithm of the part of times that no factor explains: it grows with the cores."""
    return 0.06 * (contexts[:, 0] + contexts[:, 2])


def runs_of(device, kinds, n=300, seed=0, factors=TRUE, names=tuple(GRAPHS), law=None):
    """Runs as a schedule with other factors has them, with noise and a law of their own."""
    rng = np.random.default_rng([seed, *map(ord, device.name)])
    board = Board(device, kinds)
    arrays = factors.applied(board)
    contexts = device_contexts(device)
    given = contexts[rng.integers(len(contexts), size=n)]
    which = rng.choice(names, n)
    start = rng.uniform(25, 45, n)
    times = np.empty((n, 2))
    for name in np.unique(which):
        own = np.flatnonzero(which == name)
        prepared = prepare_graph(GRAPHS[name], kinds)
        predicted = estimate(prepared, arrays, board.rows(given[own]), start[own])
        off = law(prepared, given[own]) if law else 0.0
        times[own] = predicted[:, :2] * np.exp(
            np.column_stack([np.broadcast_to(off, len(own))] * 2)
        )
    times *= np.exp(0.02 * rng.normal(size=(n, 2)))
    return make_graph_runs(
        device,
        given,
        graph=which.tolist(),
        family=[str(GRAPHS[name].attrs["family"]) for name in which],
        makespan=times[:, 0],
        energy=times[:, 1],
        start_temperature=start,
    )
