"""The commands and functions that read the files of :mod:`mutate_originals`, for :mod:`mutate`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mutate_recordings
import numpy as np
import xarray as xr
from mutate_answers import DoubtError, doubt
from mutate_originals import QUICK

import msbgen
from msbgen.systems.graphs import simulator as simulators
from msbgen.systems.graphs.dataset import describe as describe_graph
from msbgen.systems.machines.dataset import read as read_relative
from msbgen.systems.machines.dataset import runtimes_of
from msbgen.systems.machines.predictor import RelativePredictor

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
measured.nc: find --on IN --deadline 1h --cost cache_ways=1 --miscoverage 0.4 --budget 6 -o found
measured.nc: choose IN --deadline 1.5x --cost cache_ways=1,frequency=2 --miscoverage 0.4 -o p.csv
  --front --json o.json --measure next.csv
made.nc: choose IN --deadline 1h --cost cache_ways=1 --miscoverage 0.4 -o p.csv
contexts.csv: choose model-calibrated.nc --contexts IN --deadline 1h --cost cache_ways=1
  --miscoverage 0.4 -o p.csv --untested --apply resctrl
deadlines.csv: choose --deadlines IN --cost cache_ways=1 --miscoverage 0.4 --total cache_ways=9
  -o p.csv
measured.nc: export IN --format perfetto -o x.pftrace
measured.nc: export IN --format openmetrics -o x.txt
measured.nc: plan IN --budget 3s -o p.csv
spec.toml: measure IN --dry-run -o o.nc
sweep.journal: measure --restore IN
partial.nc: generate IN -o o.nc --contexts contexts.csv --kind sample --samples 2 --model m.nc
partial.nc: realtime phases IN -o t.nc
partial.nc: compare measured.nc IN --json o.json --report r.html
partial.nc: evaluate IN --leave-out 2 --methods default/mean,multilinear
partial.nc: plan IN --budget 3s -o p.csv
campaign.toml: kernels measure IN --dry-run -o o.nc
own__ways=4.csv > own__ways=5.csv: import own__ways=5.csv own__ways=4.csv -o o.nc --form table
  --columns columns.toml
columns.toml: import own__ways=4.csv -o o.nc --form table --columns IN
measured.nc: plan IN --compare 2% -o p.csv
model-default.nc: plan IN --budget 4 -o p.csv --json o.json
program.nc: plan IN --beside --budget 1s -o p.csv
measured.nc: evaluate IN --truth truth.nc --methods default/mean,nearest_context,multilinear -o s
measured.nc: report IN -o r.html --truth truth.nc --miscoverage 0.4 --contexts grid:2x2 --budget 2
model-calibrated.nc: report IN -o r.html --miscoverage 0.4 --contexts grid:2x2 --budget 2
measured.nc > batch/small.nc: batch batch.toml -o many
tasks.toml: batch IN -o many
truth.nc: evaluate measured.nc --truth IN --methods default/mean,nearest_context,multilinear
measured.nc: evaluate IN --leave-out 2 --methods nearest_context
truth.nc: generate measured.nc -o o.nc --contexts IN
made.nc: evaluate measured.nc --truth truth.nc --methods nearest_context --generated IN
measured.nc: compare measured.nc IN --json o.json -o o.csv --report r.html
measured.nc: compare IN measured.nc --contexts grid:2x2 --markdown
other.nc > others/measured.nc: compare measured.nc --with others --json o.json -o o.csv
weights.csv: compare measured.nc other.nc --weights IN --strict
program.nc: beside predict IN neighbour.nc --clock 2 --bandwidth 150 --starts 0s,10ms
  --json o.json -o o.nc
program.nc: beside repair IN neighbour.nc --clock 2 --bandwidth 150 --starts 0s,10ms --json o.json
program.nc: beside predict neighbour.nc IN --clock 2 --ways 5,3 --cache 0,1 --channel queue --loop
  -o o.nc
program.nc: beside choose IN neighbour.nc program.nc neighbour.nc --clock 2 --bandwidth 150
  --json o.json --deadlines 1s,1s,1s,1ms
model-program.nc: beside predict IN neighbour.nc --clock 2 --bandwidth 150 --misses cache_misses
  --json o.json
model-program.nc: beside choose neighbour.nc IN program.nc --clock 1 --sockets 2
  --objective slowdown
contexts.csv: generate measured.nc -o o.nc --contexts IN
contexts.csv: bound measured.nc --contexts IN --miscoverage 0.4
trace.nc: platform replay IN -o o.nc --contexts grid:2x2x1 --runs 2
stream.nc: platform replay stream-b.nc --beside IN -o o.nc --contexts grid:2x2x1 --runs 1
  --interval 10us
grid.nc: platform replay trace.nc -o o.nc --contexts grid:2x2x1 --runs 1 --with IN --interval 1ms
  --seed 1
rt.nc: check IN
plan.csv: platform replay trace.nc -o o.nc --contexts IN
grid.nc: realtime phases IN -o t.nc
grid.nc: realtime taskset IN grid.nc --utilisation 1.5 -o s.toml
  --capacity cache_ways=20,bandwidth=1400
taskset.csv: realtime taskset grid.nc --tasks IN -o s.toml
grid.nc > truths/work.nc: realtime simulate set.toml --tables tables --truth truths
  -o o.nc --horizon 1s
work.nc: realtime allocate IN work.nc --progress 0.2,0.6 --capacity cache_ways=20,bandwidth=1400
work.nc: realtime allocate IN --progress 0 --capacity cache_ways=20,bandwidth=1400 --cores 2
  --allocator dna --objective progress --slack 0.1
work.nc > tables/work.nc: realtime simulate set.toml --tables tables --truth truths
  -o o.nc --horizon 1s --slack simulated --profiles truths
set.toml: realtime simulate IN --tables tables --truth truths -o o.nc --horizon 1s --allocator dna
  --objective progress
set.toml: realtime simulate IN --tables tables --truth truths -o o.nc --horizon 1s --slack reference
rt.csv: runtime import IN -o o.nc
data.npz > archives/data.npz: runtime import archives -o o.nc
if2.npz > archives/if2.npz: runtime import archives -o o.nc
rt.nc: runtime fit IN -o m.nc
rt.nc: runtime evaluate IN --replicates 1 -o p.csv
model-runtime.nc: runtime predict IN --wanted wanted.csv -o p.csv
model-runtime.nc: runtime bound IN --wanted wanted.csv --miscoverage 0.3 -o p.csv
wanted.csv: runtime predict model-runtime.nc --wanted IN -o p.csv
runs.csv: machines import IN -o r.nc
runs.csv: machines predict model-relative.nc --runs IN --source old --miscoverage 0.3 -o p.csv
runs.nc: machines predict model-relative.nc --runs IN --source old --miscoverage 0.3 -o p.csv
runs.nc: machines fit IN -o m.nc --folds 2
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
map.toml: kernels choose costs.csv --columns IN --miscoverage 0.4 -o p.csv --power 20
costs.nc: kernels choose IN --miscoverage 0.4 -o p.csv
costs.nc: kernels choose IN --miscoverage 0.4 -o p.csv --objective front --latency 1h
costs.nc: kernels choose IN --miscoverage 0.4 -o p.csv --program p0 --probes 1
costs.csv: kernels choose IN --miscoverage 0.4 -o p.csv --resources clock --objective edp
energy.nc: kernels choose IN --miscoverage 0.4 -o p.csv
bounds.nc: kernels choose energy.nc --bounds IN -o p.csv
graph.nc: graph check IN -o g.json
graph.json: graph check IN -o g.dot
workflow.json: graph check IN -o g.json
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


_PROFILES = (
    "measured", "truth", "made", "energy", "grid", "trace", "other", "partial", "program",
    "neighbour", "stream",
)  # fmt: skip


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
        if "--dry-run" in self.verb:
            return ()
        flags = ("-o", "--model", "--json", "--report", "--measure")
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
