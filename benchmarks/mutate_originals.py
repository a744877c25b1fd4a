"""Small files of every kind for :mod:`mutate`, and the commands that read them."""

import json
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mutate_recordings
import numpy as np
import xarray as xr
from mutate_answers import DoubtError, doubt

import msbgen
from msbgen.cli.main import main as command
from msbgen.graphs import simulator as simulators
from msbgen.graphs.dataset import describe as describe_graph
from msbgen.graphs.predictor import network_predictor
from msbgen.graphs.predictor.network import NetworkSettings
from msbgen.graphs.predictor.network_storage import save_network
from msbgen.graphs.predictor.storage import save as save_graphs
from msbgen.graphs.predictor.training import NetworkTraining
from msbgen.kernels.predictor.kernel_predictor import KernelPredictor
from msbgen.kernels.predictor.storage import save as save_kernels
from msbgen.learn.boosting import BoostingSettings
from msbgen.learn.randomised import TreesSettings
from msbgen.machines.dataset import read as read_relative
from msbgen.machines.dataset import runtimes_of
from msbgen.machines.kriging import KrigingSettings
from msbgen.machines.predictor import RelativePredictor
from msbgen.machines.storage import save as save_relative
from msbgen.platform.trace import make_trace, write_trace
from msbgen.runtimes.towers import TowerSettings

QUICK = {
    "boosting": BoostingSettings(rounds=3),
    "kriging": KrigingSettings(tuned=20, steps=3),
    "trees": TreesSettings(trees=5),
}
TOWERS = TowerSettings(rank=4, hidden=8, steps=20)

# A line a command: the original that is damaged, where the copy goes (spoilt.* unless after '>'),
# and the command, with IN for the copy. A line without '>' and ':' continues the one before.
COMMANDS = """
measured.nc: check IN
measured.nc: generate IN -o o.nc --contexts contexts.csv
measured.nc: generate IN -o o.nc --contexts contexts.csv --kind mean --interval 0.03 --model m.nc
measured.nc: generate IN -o o.nc --contexts contexts.csv --kind sample --samples 2 --preset paper
energy.nc: generate energy-b.nc -o o.nc --contexts energy.nc --power-of IN energy-c.nc
measured.nc: bound IN -o b.nc --contexts contexts.csv --miscoverage 0.4 --model m.nc
model-calibrated.nc: choose IN --deadline 1h --cost cache_ways=1 --miscoverage 0.4 -o p.csv
deadlines.csv: choose --deadlines IN --cost cache_ways=1 --miscoverage 0.4 --total cache_ways=9
  -o p.csv
measured.nc: export IN --format perfetto -o x.pftrace
measured.nc: export IN --format openmetrics -o x.txt
measured.nc: plan IN --budget 3s -o p.csv
measured.nc: evaluate IN --truth truth.nc --methods default/mean,nearest_context,multilinear -o s
measured.nc: report IN -o r.html --truth truth.nc --miscoverage 0.4 --contexts grid:2x2 --budget 2
measured.nc > batch/small.nc: batch batch.toml -o many
tasks.toml: batch IN -o many
truth.nc: evaluate measured.nc --truth IN --methods default/mean,nearest_context,multilinear
measured.nc: evaluate IN --leave-out 2 --methods nearest_context
truth.nc: generate measured.nc -o o.nc --contexts IN
made.nc: evaluate measured.nc --truth truth.nc --methods nearest_context --generated IN
measured.nc: compare measured.nc IN --json o.json -o o.csv --report r.html
measured.nc: compare IN measured.nc --contexts grid:2x2 --markdown
contexts.csv: generate measured.nc -o o.nc --contexts IN
contexts.csv: bound measured.nc --contexts IN --miscoverage 0.4
trace.nc: platform replay IN -o o.nc --contexts grid:2x2x1 --runs 2
rt.nc: check IN
plan.csv: platform replay trace.nc -o o.nc --contexts IN
grid.nc: realtime phases IN -o t.nc
grid.nc: realtime taskset IN grid.nc --utilisation 1.5 -o s.toml
  --capacity cache_ways=20,bandwidth=1400
grid.nc > truths/work.nc: realtime simulate set.toml --tables tables --truth truths
  -o o.nc --horizon 1s
work.nc: realtime allocate IN work.nc --progress 0.2,0.6 --capacity cache_ways=20,bandwidth=1400
work.nc: realtime allocate IN --progress 0 --capacity cache_ways=20,bandwidth=1400 --cores 2
  --allocator dna --objective progress --slack 0.1
work.nc > tables/work.nc: realtime simulate set.toml --tables tables --truth truths
  -o o.nc --horizon 1s --slack simulated --profiles truths
set.toml: realtime simulate IN --tables tables --truth truths -o o.nc --horizon 1s --slack reference
rt.csv: runtime import IN -o o.nc
rt.nc: runtime fit IN -o m.nc
rt.nc: runtime evaluate IN --replicates 1 -o p.csv
model-runtime.nc: runtime predict IN --wanted wanted.csv -o p.csv
model-runtime.nc: runtime bound IN --wanted wanted.csv --miscoverage 0.3 -o p.csv
wanted.csv: runtime predict model-runtime.nc --wanted IN -o p.csv
runs.csv: machines import IN -o r.nc
runs.csv: machines predict model-relative.nc --runs IN --source old --miscoverage 0.3 -o p.csv
runs.nc: machines predict model-relative.nc --runs IN --source old --miscoverage 0.3 -o p.csv
runs.nc: machines evaluate IN --folds 2 -o p.csv
model-relative.nc: machines predict IN --runs runs.nc --source old --miscoverage 0.3 -o p.csv
model-relative.nc: machines predict IN --runs runs.nc --source old,new -o p.csv
sim.toml: machines queue IN -o q
jobs.csv: machines queue spoilt-jobs.toml -o q --swf
log.swf: machines queue spoilt-log.toml -o q
kernels.nc: kernels fit IN --folds 2 -o m.nc
kernels.nc: kernels evaluate IN --folds 2 -o p.csv
kernels.csv: kernels import IN --columns map.toml -o k.nc
map.toml: kernels import kernels.csv --columns IN -o k.nc
model-kernels.nc: kernels predict IN --workload launches.csv --network n -o p.csv
model-kernels.nc: kernels predict IN --workload launches.csv --network n --contexts grid:2
launches.csv: kernels predict model-kernels.nc --workload IN --network n -o p.csv
launches.nc: kernels predict model-kernels.nc --workload IN --network n -o p.csv
tuned.json: kernels import IN -o k.nc
costs.nc: kernels choose IN --miscoverage 0.4 -o p.csv
costs.nc: kernels choose IN --miscoverage 0.4 -o p.csv --objective front --latency 1h
costs.nc: kernels choose IN --miscoverage 0.4 -o p.csv --program p0 --probes 1
costs.csv: kernels choose IN --miscoverage 0.4 -o p.csv --resources clock --objective edp
energy.nc: kernels choose IN --miscoverage 0.4 -o p.csv
bounds.nc: kernels choose energy.nc --bounds IN --miscoverage 0.4 -o p.csv
graph.nc: graph check IN -o g.json
graph.json: graph check IN -o g.dot
graph.csv: graph simulate IN --device tx2 --contexts grid:2x1x2x1x1x1 --profiles kinds -o o.nc
graph.dot: graph simulate IN --device tx2 --contexts grid:2x1x2x1x1x1 --profiles kinds -o p.csv
sheet.toml: graph simulate graph.csv --device IN --contexts grid:2x1x2x1x1x1
  --profiles kinds -o o.nc --order heft
grid.nc > kinds/work.nc: graph simulate graph.csv --device tx2 --contexts grid:2x1x2x1x1x1
  --profiles kinds -o o.nc
boards.csv: graph simulate graph.csv --device tx2 --contexts IN --profiles kinds -o o.nc
graph-runs.nc: graph fit IN --device tx2 --graphs graphs --profiles kinds --schedule-only -o m.nc
graph-runs.csv: graph fit IN --device tx2 --graphs graphs --profiles kinds --folds 2 -o m.nc
graph.nc > graphs/genome-2.nc: graph fit graph-runs.nc --device tx2 --graphs graphs
  --profiles kinds --schedule-only -o m.nc
model-graph.nc: graph predict IN graph.nc --device tx2 --contexts boards.csv
  --miscoverage 0.4 -o p.csv
model-graph.nc: graph choose IN graph.nc --device tx2 --contexts boards.csv
  --miscoverage 0.4 -o p.csv
model-network.nc: graph predict IN graph.nc --device tx2 --contexts boards.csv -o p.csv
graph.json: graph predict model-graph.nc IN --device tx2 --contexts boards.csv
sheet.toml: graph choose model-graph.nc graph.nc --device IN --contexts boards.csv --miscoverage 0.4
"""


_PROFILES = ("measured", "truth", "made", "energy", "grid", "trace")


@dataclass(frozen=True)
class Reader:
    """A command with IN for its damaged input, or a function, and the file that it reads."""

    original: str
    verb: tuple[str, ...] = ()
    call: Callable[[Path], None] | None = None
    place: str = ""  # of the damaged copy; "": beside the original

    @property
    def kind(self) -> str:
        """The kind of its input."""
        name = Path(self.original).name
        if "/" in self.original:
            return "recordings"
        if name.startswith("model-"):
            return "models"
        if name.startswith("graph") or name == "workflow.json":
            return "task graphs and their runs"
        if not name.endswith(".nc"):
            return "tables and settings"
        return "profiles and traces" if Path(name).stem in _PROFILES else "datasets of systems"

    @property
    def spoilt(self) -> str:
        return self.place or str(Path(self.original).with_stem("spoilt"))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files and folders that the command writes."""
        flags = ("-o", "--model", "--json", "--report")
        found = [after for flag, after in zip(self.verb, self.verb[1:]) if flag in flags]
        beside = [f"{Path(name).stem}.json" for name in found if "report" in self.verb]
        return (*found, *beside)

    def __str__(self) -> str:
        return " ".join(self.verb) or f"{getattr(self.call, '__qualname__', '')}()"


def readers() -> list[Reader]:
    """Every command, and the functions that read what no command reads."""
    found = []
    for line in COMMANDS.replace("\n  ", " ").strip().splitlines():
        where, _, verb = line.partition(": ")
        original, _, place = where.partition(" > ")
        found.append(Reader(original, tuple(verb.split()), None, place))
    calls = {
        "model-default.nc": answer, "model-paper.nc": answer, "model-calibrated.nc": bound,
        "runs.nc": learn, "graph.nc": play, "workflow.json": play, "graph-runs.nc": read_runs,
    }  # fmt: skip
    found += [Reader(name, call=call) for name, call in calls.items()]
    for recording in mutate_recordings.recordings():
        found.append(Reader(f"recordings/{recording.name}", call=recording.read))
    return found


def make_originals(folder: Path) -> None:
    """Write one small file of every kind, most of them with the commands that users have."""
    grid = np.array([(ways, clock) for ways in (2.0, 4.0, 8.0) for clock in (1.0, 2.0)])
    measured = small_task(grid)
    for name, some in {
        "measured": measured,
        "truth": small_task(np.array([(6.0, 1.5), (3.0, 2.0)])),
        **{name: small_task(grid, "J", name) for name in ("energy", "energy-b", "energy-c")},
    }.items():
        msbgen.write_profiles(some, folder / f"{name}.nc")
    model = msbgen.fit_profiles(measured)
    model.save(folder / "model-default.nc")
    msbgen.fit_profiles(measured, msbgen.PRESETS["paper"]).save(folder / "model-paper.nc")
    msbgen.calibrate_model(model, measured).save(folder / "model-calibrated.nc")
    rng = np.random.default_rng(0)
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
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    with chdir(folder):
        for each in ("batch", "truths", "tables", "kinds", "graphs"):
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
        make_machines()
        _make_queues()
        _make_graphs()
        make_kernels()
        _make_costs()
    mutate_recordings.make_originals(folder / "recordings")


def _must(line: str) -> None:
    if command(line.split()):
        raise RuntimeError(f"msbgen {line} failed")


def small_task(contexts: np.ndarray, units: str = "1", task: str = "small") -> xr.Dataset:
    """A task of two phases, one computing and one missing; three runs of about 15 rows."""
    rng = np.random.default_rng(7)
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
    save_relative(
        RelativePredictor(**QUICK).fit(runs).calibrate(runs, folds=2), "model-relative.nc"
    )


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
    save_graphs(predictor.fit([joined], **given).calibrate(), "model-graph.nc")
    network = network_predictor.NetworkPredictor(
        network=NetworkSettings(width=8, layers=1, heads=2),
        training=NetworkTraining(epochs=1, evidential_epochs=1, rows=8), runs=20,
    )  # fmt: skip
    save_network(network.fit([joined], **given), "model-network.nc")


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
    save_kernels(KernelPredictor().fit(runs).calibrate(runs, folds=2), "model-kernels.nc")
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
_BOARDS = """cores_denver,clock_denver,cores_a57,clock_a57,cache_ways,bandwidth
2,2.0352,4,2.0352,16,4200
0,0.3456,1,0.3456,8,1050
"""


def answer(path: Path) -> None:
    """Load a model and generate every kind of profile."""
    model = msbgen.ProfileModel.load(path)
    contexts = [[3.0, 1.5], [4.0, 2.0]]
    for kind in ("mean", "max_likelihood", "sample"):
        made = model.generate(contexts, kind=kind, n_samples=2, rng=0)
        msbgen.validate_profiles(made, source=f"kind {kind}", part=True)
        doubt(made)


def bound(path: Path) -> None:
    """Load a calibrated model and compute a bound."""
    doubt(msbgen.CalibratedModel.load(path).bounds([[3.0, 1.5], [4.0, 2.0]], 0.4))


def learn(path: Path) -> None:
    """Learn from runs, and predict them from each of their machines."""
    runs = read_relative(path)
    predictor = RelativePredictor(**QUICK).fit(runs)
    for s, source in enumerate(predictor.machines_):
        there = np.isfinite(runtimes_of(runs)[:, s])
        times = predictor.predict(runs.isel(run=np.flatnonzero(there)), source)
        if not (np.isfinite(times) & (times > 0)).all():
            raise DoubtError(f"times from {source} are {times.min()} to {times.max()}")


def play(path: Path) -> None:
    """Read a graph, describe it, simulate it, write it and read it back."""
    graph = msbgen.graphs.read(path)
    describe_graph(graph)
    back = path.with_name("back.dot")
    msbgen.graphs.write(graph, back, overwrite=True)
    again = msbgen.graphs.read(back).drop_attrs()
    if not again.equals(graph.drop_attrs()[[*again.variables]]):
        raise DoubtError("what was written is not what is read back")
    back.unlink()
    device = msbgen.graphs.shipped_device("tx2")
    outcome = simulators.Simulator(device, {"work": _table(path.parent)}).run(graph, device.largest)
    for name in ("makespan", "energy", "peak", "last", "throttled"):
        values = getattr(outcome, name)
        if not np.isfinite(values).all() or (name in ("makespan", "energy") and values.min() <= 0):
            raise DoubtError(f"{name} is {values.ravel()[0]}")


@cache
def _table(folder: Path) -> xr.Dataset:
    return xr.load_dataset(folder / "work.nc")


def read_runs(path: Path) -> None:
    """Read runs of the device."""
    runs = msbgen.graphs.read_runs(path, msbgen.graphs.shipped_device("tx2"))
    if not ((runs["makespan"] > 0) & (runs["energy"] > 0)).all():
        raise DoubtError("a makespan or an energy is not positive")
