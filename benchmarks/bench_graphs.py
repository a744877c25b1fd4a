"""Speed of predictions of task graphs: one core, 100 tasks, 99th percentiles, beside goals.

``python benchmarks/bench_graphs.py --work FOLDER``, on an idle machine; the folder holds the
profiles that `reproduce.py graphs` makes.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from graphs_data import study
from tables import ROOT, markdown, parser
from timing import seconds_of

from msbgen.systems.graphs.boards import Board
from msbgen.systems.graphs.devices import device_contexts
from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.writers import write as write_graph

MANY = 324


def percentile(call: Callable[[], object], repeats: int) -> float:
    """99th percentile of the seconds of a call, after a warm one."""
    call()
    return float(np.percentile([seconds_of(call) for _ in range(repeats)], 99))


def main() -> None:
    work = parser(__doc__, required=("work",), work="folder of the study").parse_args().work
    data = study(work)
    device = data.devices["tx2"]
    name = min(data.graphs, key=lambda n: abs(data.graphs[n].sizes["task"] - 100))
    graph, contexts = data.graphs[name], device_contexts(device)
    given = {"graphs": data.graphs, "profiles": data.profiles, "devices": [*data.devices.values()]}
    runs = data.runs["tx2"].isel(run=slice(0, None, 14))
    # the first fit compiles kernels, unless they are in numba's cache
    scheduling = GraphPredictor(residual=False)
    first, few = (seconds_of(lambda: scheduling.fit([runs], **given)) for _ in range(2))
    start = time.perf_counter()
    predictor = GraphPredictor().fit(list(data.runs.values()), **given).calibrate()
    whole = time.perf_counter() - start
    prepared = predictor.prepare(graph, device)
    one, many = prepared.rows(contexts[:1]), prepared.rows(contexts[:MANY])
    alone = percentile(lambda: prepared.scheduled(one), 2000)
    together = percentile(lambda: prepared.scheduled(many), 200)
    intervals = percentile(lambda: prepared.interval(many), 200)
    wide = network(data, graph, device)
    rows = [
        [f"fit of a schedule to {runs.sizes['run']} runs", f"{few:.2f} s", "≤ 2 s"],
        ["the first of a process, which may compile", f"{first:.2f} s", ""],
        ["fit of all runs with residual and intervals", f"{whole:.1f} s", ""],
        ["schedule, one context", f"{1e6 * alone:.0f} µs", "≤ 50 µs"],
        [f"schedule, {MANY} contexts", f"{1e3 * together:.1f} ms", "≤ 10 ms"],
        [f"residual and intervals, {MANY} contexts", f"{1e3 * intervals:.1f} ms", "≤ 25 ms"],
        ["network, one context", f"{1e3 * wide:.1f} ms", "≤ 7 ms"],
        ["`msbgen graph predict`", f"{command(predictor, graph):.2f} s", "≤ 2 s"],
    ]
    print(markdown([f"{name}, {graph.sizes['task']} tasks", "99 %", "asked"], rows))


def network(data, graph, device) -> float:
    """Seconds of one answer of a network of the paper's size, from a graph in a context."""
    import torch

    from msbgen.systems.graphs.predictor.encoder import GraphEncoder
    from msbgen.systems.graphs.predictor.training import NetworkTraining, fit_network

    torch.set_num_threads(1)
    board = Board(device, read_kinds(data.profiles))
    scene = GraphEncoder(graph, board)
    rows = board.rows(device_contexts(device)[:8])
    batches = [scene.batch(row, 30.0) for row in rows]
    brief = NetworkTraining(epochs=1, evidential_epochs=0)
    held = np.arange(8) < 2
    model = fit_network(batches, np.random.default_rng(0).normal(size=(8, 2)), held, training=brief)
    return percentile(lambda: model.predict([scene.batch(rows[0], 30.0)]), 200)


def command(predictor, graph) -> float:
    """Seconds of the command from start to answer, the best of three."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        predictor.save(folder / "m.nc")
        write_graph(graph, folder / "g.nc")
        line = [sys.executable, "-m", "msbgen", "graph", "predict", str(folder / "m.nc")]
        line += [str(folder / "g.nc"), "--device", "tx2", "--contexts", "grid:3x3x3x3x2x2"]
        line += ["--miscoverage", "0.05"]
        run = partial(subprocess.run, line, cwd=ROOT, capture_output=True, check=True)
        return min(seconds_of(run) for _ in range(3))


if __name__ == "__main__":
    main()
