"""Small files of every kind for :mod:`mutate`."""

import itertools
import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import mutate_recordings
import numpy as np
import xarray as xr

import msbgen
from msbgen.cli.main import main as command
from msbgen.sources.platform.stream import make_stream, write_stream
from msbgen.sources.platform.trace import make_trace, write_trace
from msbgen.systems.graphs import simulator as simulators
from msbgen.systems.graphs.predictor import network_predictor
from msbgen.systems.graphs.predictor.network import NetworkSettings
from msbgen.systems.graphs.predictor.training import NetworkTraining
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.systems.learn.boosting import BoostingSettings
from msbgen.systems.learn.randomised import TreesSettings
from msbgen.systems.machines.dataset import read as read_relative
from msbgen.systems.machines.kriging import KrigingSettings
from msbgen.systems.machines.predictor import RelativePredictor

QUICK = {
    "boosting": BoostingSettings(rounds=3),
    "kriging": KrigingSettings(tuned=20, steps=3),
    "trees": TreesSettings(trees=5),
}


def make_originals(folder: Path) -> None:
    """Write one small file of every kind, most of them with the commands that users have."""
    grid = np.array([(ways, clock) for ways in (2.0, 4.0, 8.0) for clock in (1.0, 2.0)])
    measured = small_task(grid)
    for name, some in {
        "measured": measured,
        "truth": small_task(np.array([(6.0, 1.5), (3.0, 2.0)])),
        "other": small_task(grid, seed=8),
        "partial": partial_task(grid),
        "program": sharing_task("program", 1e5),
        "neighbour": sharing_task("neighbour", 2e5),
        **{name: small_task(grid, "J", name) for name in ("energy", "energy-b", "energy-c")},
    }.items():
        msbgen.write_profiles(some, folder / f"{name}.nc")
    model = msbgen.fit_profiles(measured)
    model.save(folder / "model-default.nc")
    msbgen.fit_profiles(measured, msbgen.PRESETS["paper"]).save(folder / "model-paper.nc")
    msbgen.calibrate_model(model, measured).save(folder / "model-calibrated.nc")
    msbgen.fit_profiles(sharing_task("program", 1e5)).save(folder / "model-program.nc")
    rng = np.random.default_rng(0)
    for name in ("stream", "stream-b"):
        write_stream(small_stream(rng), folder / f"{name}.nc")
    depth = np.sort(rng.integers(0, 4000, (21, 8, 1, 2)), axis=0)[::-1]
    trace = make_trace(
        np.full(8, 10**6), np.full(8, 8e5), np.full(8, 1e4), np.repeat(depth, 2, axis=2),
        attrs={"program": "small", "platform": "made up"},
    )  # fmt: skip
    write_trace(trace, folder / "trace.nc")
    texts = {
        "contexts.csv": "cache_ways,frequency\n3,1.5\n6,2\n4,1\n",
        "tuned.json": _TUNED,
        "deadlines.csv": "file,deadline [s],weight\nmodel-calibrated.nc,900,1\n"
        "model-calibrated.nc,800,2\n",
        "weights.csv": "cache_ways,frequency,weight\n"
        + "".join(f"{ways:g},{clock:g},{ways * clock:g}\n" for ways, clock in grid),
        "taskset.csv": "profile,period [s],name\ngrid,0.2,a\ngrid,0.1,b\n",
        "spec.toml": _SPEC,
        "campaign.toml": 'networks = ["squeezenet"]\nimages = [[1, 32]]\nrandom = 0.1\n'
        "threads = [1, 2]\nquotas = [60, 100]\nsessions = 2\nrepetitions = 2\npasses = 1\n",
        "own__ways=4.csv": "core,t [ms],INST,misses so far,MB/s\n"
        + "".join(f"{c},{15 * t - 5},{1500 * t},{5 * t},100\n" for t in (1, 2, 3) for c in (0, 1)),
        "columns.toml": 'totals = ["misses"]\nrates = ["bytes"]\n[columns]\n"time [ms]" = '
        '"t [ms]"\n"place" = "core"\n"instructions" = "INST"\n"misses" = "misses so far"\n'
        '"bytes [1e6]" = "MB/s"\n',
        "plan.csv": "cache_ways,bandwidth,frequency,runs,seconds,cumulative_seconds,expected_error"
        "\n2,70,1.2,2,0.1,0.1,0.3\n4,700,2.3,1,0.1,0.2,0.2\n3,1400,1.9,3,0.1,0.3,0.1\n",
        "tasks.toml": '[defaults]\ncontexts = "grid:2x2"\nkinds = ["mean"]\nsteps = "all"\n'
        'budget = 2\nmiscoverage = 0.4\n[[task]]\nmeasured = "measured.nc"\ntruth = "truth.nc"\n',
        "batch.toml": '[defaults]\ncontexts = "grid:2x2"\nkinds = ["mean", "sample"]\nsamples = 2\n'
        'steps = ["bound"]\nmiscoverage = 0.4\n[[task]]\nmeasured = "batch/small.nc"\n',
        "set.toml": "cores = 2\n[capacity]\ncache_ways = 20\nbandwidth = 1400\n"
        + "".join(f'[[task]]\nprofile = "work"\nperiod = {p}\nwcet = 0.02\n' for p in (0.1, 0.15)),
        "wanted.csv": "workload,platform,beside\nw3,p2,\nw2,p1,w0\n",
        "boards.csv": _BOARDS,
        "sweep.journal": "".join(f"{json.dumps(record)}\n" for record in _JOURNAL),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    with chdir(folder):
        for each in ("batch", "others", "truths", "tables", "kinds", "graphs", "archives"):
            Path(each).mkdir()
        for line in (
            "generate measured.nc -o made.nc --contexts truth.nc --kind sample --samples 2",
            "bound energy.nc -o bounds.nc --contexts energy.nc --miscoverage 0.4",
            "platform replay trace.nc -o grid.nc --contexts grid:2x2x2 --runs 2 --interval 1ms",
            "realtime phases grid.nc -o work.nc",
        ):
            _must(line)
        for name in ("truths/work.nc", "kinds/work.nc"):
            Path(name).write_bytes(Path("grid.nc").read_bytes())
        Path("tables/work.nc").write_bytes(Path("work.nc").read_bytes())
        Path("batch/small.nc").write_bytes(Path("measured.nc").read_bytes())
        make_runtimes()
        _make_archives()
        make_machines()
        _make_queues()
        _make_graphs()
        make_kernels()
        _make_costs()
    mutate_recordings.make_originals(folder / "recordings")


def _must(line: str) -> None:
    if command(line.split()):
        raise RuntimeError(f"msbgen {line} failed")


def small_task(
    contexts: np.ndarray, units: str = "1", task: str = "small", seed: int = 7
) -> xr.Dataset:
    """A task of two phases, one computing and one missing; three runs of about 15 rows."""
    rng = np.random.default_rng(seed)
    ways, clock = contexts[:, None].T
    speed = 1 + 0.01 * rng.standard_normal((3, 1))
    ends = np.cumsum(np.stack([0.1 / clock * speed, 0.3 / ways * speed]), axis=0)
    duration = ends[-1].T  # (context, run)
    time = 0.02 * np.arange(1, int(np.ceil(duration.max() / 0.02)) + 1)
    edges = np.concatenate([[0.0], time])
    work = np.stack([np.clip(edges / ends[0].T[..., None], 0, 1),
                     np.clip((edges - ends[0].T[..., None]) / np.diff(ends, axis=0)[0].T[..., None],
                             0, 1)], axis=-1)  # fmt: skip
    counts = np.diff(work, axis=2) @ np.array([[1e8, 1e5], [5e7, 1e6]])
    counts[time - 0.02 >= duration[..., None]] = np.nan
    second = {"energy": {"units": "J"}} if units == "J" else {"cache_misses": {}}
    return msbgen.make_profiles(
        counts, duration, contexts, interval=0.02,
        resources={
            "cache_ways": {"units": "1", "long_name": "ways", "levels": [2.0, 3.0, 4.0, 6.0, 8.0]},
            "frequency": {"units": "GHz", "long_name": "clock", "levels": [1.0, 1.5, 2.0]},
        },
        counters={"instructions": {"long_name": "work"}, **second},
        attrs={"task": task},
    )  # fmt: skip


def partial_task(contexts: np.ndarray) -> xr.Dataset:
    """A task with groups of counters, a gap, and a run cut short."""
    task = small_task(contexts)
    task["cache_requests"] = task["cache_misses"].copy(deep=True).assign_attrs(gaps="carried")
    task["cache_requests"][:, 2] = np.nan
    task["cache_misses"][:, 0] = np.nan
    task["cache_requests"][1, 1, 4] = np.nan
    complete = np.ones(task["duration"].shape, dtype=np.int8)
    complete[3, 1] = 0
    task["duration"][3, 1] = 5 * task.attrs["interval"]
    for name in ("instructions", "cache_requests", "cache_misses"):
        task[name][3, 1, 5:] = np.nan
    return task.assign(complete=(("context", "run"), complete, {"units": "1"}))


def sharing_task(task: str, lines: float) -> xr.Dataset:
    """A program that uses so many lines of the cache again and again, and waits for each miss."""
    levels = {
        "cache_ways": (1.0, 2.0, 4.0, 8.0),
        "bandwidth": (100.0, 1e6),
        "frequency": (1.0, 2.0),
    }
    contexts = [*itertools.product(*levels.values())]
    counts, durations = [], []
    for ways, bandwidth, clock in contexts:
        misses = lines * max(1 - ways / 10, 0.1)
        duration = 0.1 / clock + misses * max(50e-9, 64e-6 / bandwidth)
        share = np.diff(np.minimum(np.arange(31) * 0.02, duration)) / duration
        share[share == 0] = np.nan
        counts.append([np.outer(share, [1e8, 2 * lines, misses])] * 2)
        durations.append([duration, 1.01 * duration])
    units = dict(zip(levels, ("1", "MB s-1", "GHz")))
    return msbgen.make_profiles(
        np.array(counts), durations, contexts, interval=0.02,
        resources={n: {"units": units[n], "levels": [*some]} for n, some in levels.items()},
        counters={"instructions": {}, "cache_requests": {}, "cache_misses": {}},
        attrs={"task": task},
    )  # fmt: skip


def small_stream(rng: np.random.Generator) -> xr.Dataset:
    """Random requests in 2 MiB, spread evenly over 20 intervals."""
    summaries = {
        name: np.full(20, value)
        for name, value in {"instructions": 20_000, "core_cycles": 2e4, "fixed_time": 0.0,
                            "requests": 50}.items()
    }  # fmt: skip
    lines = 2 * rng.integers(0, 2**15, 1000, dtype=np.uint64)
    return make_stream(summaries, lines, {"program": "small"})


def make_runtimes() -> None:
    """Write runtimes on four platforms, and a model of them, into this folder."""
    rng = np.random.default_rng(0)
    rows = ["workload,platform,beside,runtime [ms]"]
    for i, j, k in np.ndindex(5, 4, 5):
        time = 10 * 1.5**i * 2.0**j * (1.0 if k == 4 else 1.2) * np.exp(rng.normal() / 50)
        rows += [f"w{i},p{j},{'' if k == 4 else f'w{k}'},{time:.4f}"] * (1 + (k == 4))
    Path("rt.csv").write_text("\n".join(rows) + "\n")
    _must("runtime import rt.csv -o rt.nc")
    _must("runtime fit rt.nc -o model-runtime.nc")


def _make_archives() -> None:
    """Write runtimes as archives of Pitot's form, and a copy in a folder."""
    rng = np.random.default_rng(0)
    workload, platform = np.divmod(np.arange(12), 3)
    alone = {
        "t": np.exp(rng.normal(10, 1, 12)), "i_workload": workload, "i_platform": platform,
        "n_workload": np.array(list("abcd")), "n_platform": np.array(list("xyz")),
        "d_workload": rng.random((4, 2)), "d_platform": rng.random((3, 1)),
        "f_workload": np.array(["size", "loads"]), "f_platform": np.array(["clock"]),
    }  # fmt: skip
    beside = {
        "t": np.exp(rng.normal(10.2, 1, 6)), "i_workload": np.array([0, 1, 1, 2, 2, 3]),
        "i_platform": np.zeros(6, dtype=int), "i_interference0": np.array([1, 0, 2, 1, 3, 2]),
    }  # fmt: skip
    for name, arrays in (("data.npz", alone), ("if2.npz", beside)):
        np.savez(name, **arrays)
        Path("archives", name).write_bytes(Path(name).read_bytes())


def make_machines() -> None:
    """Write runs on three machines, and a model of them, into this folder."""
    rng, machines = np.random.default_rng(3), ("old", "new", "odd")
    work, share = np.exp(rng.normal(15, 1, 16)), np.repeat(rng.random(8), 2)
    times = work[:, None] * (np.array([2e-9, 1e-9, 5e-10]) + np.outer(share, [2e-9, 2e-10, 4e-9]))
    lines = ["program,scale,machine,runtime [ms],instructions [1],loads [1]"]
    for r, m in np.ndindex(16, 3):
        numbers = (1e3 * times[r, m], work[r], share[r] * work[r])
        cells = (f"p{r // 2}", ("small", "large")[r % 2], machines[m])
        lines.append(",".join([*cells, *(f"{n:.9g}" for n in numbers)]))
    Path("runs.csv").write_text("\n".join(lines) + "\n")
    _must("machines import runs.csv -o runs.nc")
    runs = read_relative("runs.nc")
    RelativePredictor(**QUICK).fit(runs).calibrate(runs, folds=2).save("model-relative.nc")


def _make_queues() -> None:
    head = "submission [s],nodes,runtime fast [s],runtime slow [s],estimate fast [s]"
    rows = (f"{k},{1 + k % 3},{2 + k % 5},{9 - k % 4},{3 + k % 4},8\n" for k in range(20))
    Path("jobs.csv").write_text(f"{head},estimate slow [s]\n{''.join(rows)}")
    rows = (
        f"{k} {5 * k} -1 {9 + k % 5} {1 + k % 3} -1 -1 {1 + k % 3} 20 -1 1 1 1 1 1 1 -1 -1\n"
        for k in range(1, 21)
    )
    Path("log.swf").write_text("; Version: 2.2\n" + "".join(rows))
    Path("factors.csv").write_text("application,fast,slow\n*,0.5,2\n")
    for name, jobs in (
        ("sim.toml", 'jobs = "jobs.csv"'),
        ("spoilt-jobs.toml", 'jobs = "spoilt.csv"'),
        ("spoilt-log.toml", 'workload = "spoilt.swf"\nrelative = "factors.csv"'),
    ):
        Path(name).write_text(
            f'arrivals = ["at once", 0.8]\nplacements = ["aware", "random"]\n{jobs}\n'
            "[machines]\nfast = 3\nslow = 4\n"
        )


def _make_graphs() -> None:
    tx2 = msbgen.graphs.shipped_device("tx2")
    profiles = {"work": msbgen.read_profiles("grid.nc")}
    runs: list[xr.Dataset] = []
    graphs: dict[str, xr.Dataset] = {}
    board = simulators.Simulator(tx2, profiles)
    for family, size in (("genome", 2), ("cholesky", 2), ("fft", 2), ("wavefront", 2)):
        drawn = msbgen.graphs.family_graph(family, size)
        n = drawn.sizes["task"]
        edges = np.stack([drawn["source"].values, drawn["target"].values], axis=1)
        work = drawn["work"].values
        graph = msbgen.graphs.make(
            ["work"] * n, work, edges, names=drawn["task"].values.tolist(),
            types=drawn["type"].values.tolist(), time=work, loops=np.ones(n),
            edge_bytes=np.arange(len(edges)), name=f"{family}-{size}", family=family,
        )  # fmt: skip
        msbgen.graphs.write(graph, f"graphs/{family}-{size}.nc")
        graphs[f"{family}-{size}"] = graph
        contexts = msbgen.graphs.device_contexts(tx2, clocks=2)[::40]
        runs.append(simulators.label_runs(graph, board, contexts, rng=size))
    for name in ("graph.nc", "graph.json", "graph.dot"):
        msbgen.graphs.write(graphs["genome-2"], name)
    Path("graph.csv").write_text(
        "task,parents,kind,time [s]\na,,work,0.1\nb,a,work,0.3\nc,a b,work,0.2\n"
    )
    Path("workflow.json").write_text(json.dumps(_workflow()))
    Path("sheet.toml").write_bytes(msbgen.shipped_file("devices/tx2.toml").read_bytes())
    joined: xr.Dataset = xr.concat(runs, "run", combine_attrs="override")
    for name in ("graph-runs.nc", "graph-runs.csv"):
        msbgen.graphs.write_runs(joined, name)
    given = {"devices": [tx2], "graphs": graphs, "profiles": profiles}
    predictor = msbgen.graphs.GraphPredictor(boosting=QUICK["boosting"], folds=2)
    predictor.fit([joined], **given).calibrate().save("model-graph.nc")
    _make_network(joined, given)


def _make_network(runs: xr.Dataset, given: dict[str, Any]) -> None:
    """The network of task graphs, which needs torch."""
    network = network_predictor.NetworkPredictor(
        network=NetworkSettings(width=8, layers=1, heads=2),
        training=NetworkTraining(epochs=1, evidential_epochs=1, rows=8), runs=20,
    )  # fmt: skip
    network.fit([runs], **given).save("model-network.nc")


def _workflow() -> dict[str, object]:
    """Four tasks in WfFormat 1.5."""
    waits = {"s": [], "a": ["s"], "b": ["s"], "j": ["a", "b"]}
    tasks = [
        {
            "name": name, "id": name, "parents": parents, "inputFiles": parents,
            "children": [other for other, of in waits.items() if name in of],
            "outputFiles": [name],
        }
        for name, parents in waits.items()
    ]  # fmt: skip
    ran = [
        {"id": name, "runtimeInSeconds": 0.5 + k, "command": {"program": "/bin/work"}}
        for k, name in enumerate(waits)
    ]
    files = [{"id": name, "sizeInBytes": 10} for name in waits]
    both = {"specification": {"tasks": tasks, "files": files}, "execution": {"tasks": ran}}
    return {"name": "small", "schemaVersion": "1.5", "workflow": both}


def make_kernels() -> None:
    """Write kernels in three clocks, launches and a model into this folder."""
    m, clock = (
        x.ravel().astype(float)
        for x in np.meshgrid([32, 48, 64, 96, 128, 192], _CLOCKS, indexing="ij")
    )
    work = m**3 / (2.6e8 * clock)
    seconds = 5e-6 + 1e-3 / (clock * 1e3) + work
    watts = 8 + 20 * work / seconds * (clock / 900) ** 2.5
    rows = ["kind,m [1],k [1],n [1],clock [MHz],runtime [s],power [W]"]
    for a, f, t, p in zip(m, clock, seconds, watts):
        rows.append(f"matmul,{a:g},{a:g},{a:g},{f:g},{t:.6g},{p:.6g}")
    Path("kernels.csv").write_text("\n".join(rows) + "\n")
    Path("map.toml").write_text('resources = ["clock"]\n')
    Path("launches.csv").write_text(
        "workload,kind,count,m,k,n\nn,matmul,3,64,64,64\nn,matmul,1,100,100,100\n"
    )
    _must("kernels import kernels.csv --columns map.toml -o kernels.nc")
    runs = msbgen.kernels.read("kernels.nc")
    KernelPredictor().fit(runs).calibrate(runs, folds=2).save("model-kernels.nc")
    launches = msbgen.kernels.make_workload(
        ["matmul"] * 2, [3, 1], parameters={p: [64, 100] for p in "mkn"}, workload=["n", "n"]
    )
    msbgen.kernels.write_workload(launches, "launches.nc")


def _make_costs() -> None:
    """Five programs in three clocks, one of them not measured in the lowest."""
    rng, lines = np.random.default_rng(4), ["kind,clock [MHz],runtime [s],power [W]"]
    for i, (scale, share) in enumerate(zip(rng.uniform(0.1, 2, 5), rng.uniform(0, 0.6, 5))):
        for f in _CLOCKS[i == 0 :]:
            seconds = scale * (share + (1 - share) * 900 / f)
            lines.append(f"p{i},{f:g},{seconds:.6g},{5 + 20 * (1 - share) * (f / 900) ** 3:.6g}")
    Path("costs.csv").write_text("\n".join(lines) + "\n")
    _must("kernels import costs.csv --columns map.toml -o costs.nc")


_CLOCKS = np.array([300.0, 600.0, 900.0])  # [MHz]
_TUNED = """{"kernel_name": "k", "tune_params_keys": ["clock"], "cache": {
"300": {"clock": 300, "time": 5.0, "times": [5.1, 4.9], "nvml_power": 20.0},
"600": {"clock": 600, "time": 3.0, "times": [3.0, 3.0], "nvml_power": 50.0}}}
"""
_SPEC = """command = ["true", "1"]
events = ["task-clock"]
runs = 3
warmups = 0
interval = "10ms"
timeout = "5s"
[resources.cpu_share]
by = "quota"
levels = [50, 100]
[resources.nice]
by = "priority"
levels = [0, 10]
"""
_CLOCK = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"
_JOURNAL = (
    {"event": "sweep", "version": 1, "tag": "0123456789abcdef", "digest": "0", "task": "small",
     "boot": "another", "machine": "another", "perf": "6.1"},
    {"event": "set", "path": _CLOCK, "reading": "plain", "before": "2", "wrote": "1"},
    {"event": "make", "path": "/sys/fs/resctrl/msbgen-spoilt"},
    {"event": "run", "slot": 0, "attempt": 0, "run": 0, "recording": "r", "context": [1.0],
     "outcome": "failed", "why": "ended"},
)  # fmt: skip
_BOARDS = """cores_denver,clock_denver,cores_a57,clock_a57,cache_ways,bandwidth
2,2.0352,4,2.0352,16,4200
0,0.3456,1,0.3456,8,1050
"""
