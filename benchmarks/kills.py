"""Kill long verbs at random moments: nothing may be left behind, and the next call succeeds.

    python benchmarks/reproduce.py kills --count 60 --seed 0 [--only plan report]

Each verb runs undisturbed first. Then it gets SIGKILL, SIGTERM or SIGINT at a random moment, and is
called again: with ``--resume`` where it resumes, else with ``--force``. A failure is a traceback, a
wrong exit code, a process or a temporary file that is left, a file that is half written, or another
result. SIGKILL may leave temporary files until the next call.
"""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr
from tables import RESULTS, ROOT, find, markdown, parser, publish, store, stored

SIGNALS = {"SIGKILL": -9, "SIGTERM": 143, "SIGINT": 130}  # and the exit code after each
LIMIT = 400.0  # of a verb [s]
PATIENCE = 20.0  # for the processes of a killed verb [s]
_TAG = "MSBGEN_KILLS"


@dataclass(frozen=True)
class Verb:
    """A verb with its arguments; outputs are named out…"""

    line: str  # {traces} and {inputs} are folders
    again: str = "--force"  # what the call after a kill adds
    measured: bool = False  # times differ between calls


GRID = "--contexts grid:3x3x3"
TO_BATCH = "batch {inputs}/tasks.toml -o out"
VERBS = {
    "generate": Verb(f"generate {{inputs}}/gzip.nc -o out.nc {GRID} --kind sample --samples 3"),
    "bound": Verb(f"bound {{inputs}}/gzip.nc -o out.csv {GRID} --miscoverage 0.05"),
    "plan": Verb("plan {inputs}/gzip.nc -o out.csv --budget 20s"),
    "evaluate": Verb("evaluate {inputs}/gzip.nc -o out --leave-out 16 --methods default/mean"),
    "report": Verb(f"report {{inputs}}/gzip.nc -o out.html {GRID} --leave-out 16"),
    "compare": Verb(f"compare {{inputs}}/gzip.nc {{inputs}}/again.nc -o out.csv {GRID}"),
    "batch": Verb(TO_BATCH, "--resume"),
    "batch, dask": Verb(f"{TO_BATCH} --scheduler local:2", "--resume"),
    "batch, zarr": Verb(f"{TO_BATCH} --scheduler local:2 --format zarr", "--resume"),
    "measure": Verb("measure {inputs}/spec.toml -o out.nc", "--resume --force", True),
    "kernels measure": Verb(
        "kernels measure {inputs}/campaign.toml -o out.nc", "--resume --force", True
    ),
    "platform record": Verb("platform record -o out.nc -- /usr/bin/sort {inputs}/lines.txt"),
    "platform replay": Verb(f"platform replay {{traces}}/gzip.nc -o out.nc {GRID} --runs 20"),
    "graph fit": Verb(
        "graph fit {inputs}/graph-runs.nc -o out.nc --device tx2 --graphs {inputs}/graphs "
        "--profiles {inputs}/kinds --folds 3"
    ),
    "kernels fit": Verb("kernels fit {inputs}/kernels.nc -o out.nc --folds 2"),
    "runtime fit": Verb("runtime fit {inputs}/runtimes.nc -o out.nc"),
    "machines fit": Verb("machines fit {inputs}/runs.nc -o out.nc --folds 2"),
    "demo": Verb("demo -o out"),
}


def make_inputs(folder: Path) -> None:
    """Write the small inputs of all verbs."""
    sys.path.insert(0, str(ROOT / "tests"))
    import mutate_originals
    import numpy as np

    import msbgen
    from msbgen.systems.graphs.devices import shipped_device
    from msbgen.systems.graphs.kinds import read_kinds
    from toy_board import CYCLES, GRAPHS, profiles_of, runs_of

    with chdir(folder):
        mutate_originals.make_kernels()
        mutate_originals.make_machines()
    measured = msbgen.read_profiles(msbgen.shipped_file("gzip.nc"))
    msbgen.write_profiles(
        measured.isel(context=slice(None, None, 4), run=slice(2)), folder / "gzip.nc"
    )
    other = measured.isel(context=slice(None, None, 4), run=slice(2, 4))
    msbgen.write_profiles(other, folder / "again.nc")
    (folder / "tasks.toml").write_text(
        '[defaults]\ncontexts = "grid:3x3x3"\nkinds = ["mean"]\nsteps = ["bound", "plan"]\n'
        '[[task]]\nmeasured = "gzip.nc"\n'
        '[[task]]\nname = "other seed"\nmeasured = "gzip.nc"\nseed = 1\n'
    )
    (folder / "spec.toml").write_text(
        'command = ["python3", "-S", "-c", "sum(range(3000000))"]\nevents = ["task-clock"]\n'
        "runs = 3\nwarmups = 0\n[resources.cpu_share]\nby = 'quota'\nlevels = [50, 100]\n"
    )
    (folder / "campaign.toml").write_text(
        'networks = ["squeezenet"]\nimages = [[1, 32]]\nrandom = 0.0\nquotas = [60, 100]\n'
        "sessions = 2\nrepetitions = 2\npasses = 1\n"
    )
    rng = np.random.default_rng(0)
    (folder / "lines.txt").write_text("".join(f"{n}\n" for n in rng.integers(10**9, size=300)))
    rows = [
        f"w{i},p{j},{10 * 1.5**i * 2.0**j * np.exp(rng.normal() / 50):.4f}\n"
        for i in range(8) for j in range(6) for _ in range(4)
    ]  # fmt: skip
    (folder / "runtimes.csv").write_text("workload,platform,runtime [ms]\n" + "".join(rows))
    from msbgen.cli.main import main as command

    command(["runtime", "import", f"{folder}/runtimes.csv", "-o", f"{folder}/runtimes.nc"])
    for name in ("graphs", "kinds"):
        (folder / name).mkdir()
    profiles = {kind: profiles_of(kind, runs=1) for kind in CYCLES}
    for kind, dataset in profiles.items():
        msbgen.write_profiles(dataset, folder / "kinds" / f"{kind}.nc")
    names = [name for name in GRAPHS if name.endswith("1")][:6]
    for name in names:
        msbgen.graphs.write(GRAPHS[name], folder / "graphs" / f"{name}.json")
    runs = runs_of(shipped_device("tx2"), read_kinds(profiles), 120, names=tuple(names))
    msbgen.graphs.write_runs(runs, folder / "graph-runs.nc")


class Call:
    """A verb that runs in a folder of its own, with a tag in the environment of its processes."""

    def __init__(self, verb: Verb, inputs: Path, folder: Path, more: str = "") -> None:
        self.tag = f"{_TAG}={folder}"
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        line = verb.line.format(inputs=inputs, traces=ROOT / "profiles" / "traces").split()
        place = line.index("--") if "--" in line else len(line)
        line[place:place] = more.split()
        self._errors = (folder / "tmp.log").open("wb+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "msbgen", *line], cwd=folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp"),
                 _TAG: str(folder)},
        )  # fmt: skip

    def end(self) -> tuple[int, str]:
        """Exit code and messages; a verb that hangs is killed."""
        try:
            code = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            code = self.process.wait()
        with self._errors as errors:
            errors.seek(0)
            return code, errors.read().decode(errors="replace")

    def left(self) -> list[str]:
        """Command lines of the processes that live on, after some patience."""
        until = time.monotonic() + PATIENCE
        while (found := tagged(self.tag.encode())) and time.monotonic() < until:
            time.sleep(0.1)
        return found


def tagged(tag: bytes) -> list[str]:
    """Command lines of the processes with a tag in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if tag in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has ended
            continue
    return [line for line in found if line]  # a zombie has none


def contents(folder: Path, *, measured: bool = False) -> dict[str, str]:
    """Each output and its digest, or its variables if its values are measured."""
    found = {}
    for path in sorted(p for p in folder.glob("out*") for p in (p, *p.rglob("*")) if p.is_file()):
        name = str(path.relative_to(folder))
        if measured and path.suffix == ".nc":
            with xr.open_dataset(path) as data:
                sizes = {k: n for k, n in data.sizes.items() if k != "time"}
                found[name] = str((sizes, {n: v.dims for n, v in data.variables.items()}))
        elif not measured and not re.search(r"manifest|index|\.work", name):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def temporary(folder: Path) -> list[str]:
    """Files that no verb shall leave."""
    partial = [p for p in folder.rglob(".*") if p.name.endswith(".partial")]
    # torch keeps its cache, and dask its folder and locks
    others = [p for p in (folder / "tmp").rglob("*") if "torchinductor" not in str(p)]
    others = [p for p in others if p.name != "dask-scratch-space" and p.suffix[-4:] != "lock"]
    return [str(p.relative_to(folder)) for p in (*partial, *others)]


def try_kill(verb: Verb, name: str, moment: float, inputs: Path, work: Path, wanted: dict) -> dict:
    """Send a signal to a verb at a moment [s], call it again, and list the faults."""
    faults: list[str] = []
    folder = Path(tempfile.mkdtemp(dir=work))
    call = Call(verb, inputs, folder)
    time.sleep(moment)
    ended = call.process.poll() is not None
    number = getattr(signal, name)
    if not ended:  # a terminal interrupts the whole group
        (os.killpg if name == "SIGINT" else os.kill)(call.process.pid, number)
    code, messages = call.end()
    early = code in (0, -number)  # it was done, or had not begun
    if code != SIGNALS[name] and not early:
        faults.append(f"exit {code}: {messages[-300:]}")
    faults += ["traceback: " + messages[-1500:]] * ("Traceback" in messages)
    faults += [f"process left: {line[:150]}" for line in call.left()]
    if name != "SIGKILL" and (left := temporary(folder)):
        faults.append(f"left: {left}")
    half = {n: d for n, d in contents(folder, measured=verb.measured).items() if wanted.get(n) != d}
    faults += [f"half written: {n}" for n in half]
    kept = {p: p.read_bytes() for p in folder.glob("out.recordings/*")}
    begun = any(p.name != "out.nc" for p in folder.glob("out*")) or verb.again == "--force"
    call = Call(verb, inputs, folder, verb.again if begun else "")
    code, messages = call.end()
    if code != 0 or "Traceback" in messages:
        faults.append(f"called again, exit {code}: {messages[-600:]}")
    elif contents(folder, measured=verb.measured) != wanted:
        faults.append("called again, another result")
    elif sum(p.read_bytes() != data for p, data in kept.items() if p.exists()) > 1:
        faults.append("called again, measured runs were measured again")
    faults += [f"called again, process left: {line[:150]}" for line in call.left()]
    if left := temporary(folder):
        faults.append(f"called again, left: {left}")
    shutil.rmtree(folder)
    faults = [without_folders(fault) for fault in faults]
    return {"signal": name, "moment": round(moment, 3), "ended": ended, "faults": faults}


def without_folders(text: str) -> str:
    """Messages without the folders of this machine, which say nothing elsewhere."""
    return re.sub(r"(?<![\w.])/(?:[^/\s\"']+/)+", "", text)


def study(names: list[str], count: int, seed: int, work: Path) -> list[dict]:
    """Kill verbs in turn; a row for each kill."""
    rng, rows, inputs = random.Random(seed), [], work / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    whole: dict[str, tuple[float, dict]] = {}
    for k in range(count):
        name = names[k % len(names)]
        verb = VERBS[name]
        if name not in whole:
            folder = Path(tempfile.mkdtemp(dir=work))
            begun = time.monotonic()
            code, messages = Call(verb, inputs, folder).end()
            assert code == 0, f"{name}: {messages}"
            whole[name] = time.monotonic() - begun, contents(folder, measured=verb.measured)
        seconds, wanted = whole[name]
        # the three signals come equally often to each verb
        which = list(SIGNALS)[(k // len(names) + k % len(names)) % 3]
        row = try_kill(verb, which, rng.uniform(0, seconds), inputs, work, wanted)
        rows.append({"verb": name, "seconds": round(seconds, 1), **row})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def tables() -> dict[str, str]:
    """The table of the page."""
    found = stored("kills")
    return {"kills": kills_table(found)} if found else {}


def kills_table(found: dict[str, Any]) -> str:
    """A row for each verb, and one for all."""
    rows = found["rows"]
    lines = [_line(name, find(rows, verb=name)) for name in dict.fromkeys(r["verb"] for r in rows)]
    return markdown(
        ("verb", "undisturbed [s]", *(f"{name[3:]}" for name in SIGNALS), "ended before", "faults"),
        [*lines, _line(f"all, seed {found['seed']}", rows)],
    )


def _line(name: str, rows: list[dict[str, Any]]) -> list[str]:
    seconds = sum({row["verb"]: row["seconds"] for row in rows}.values())
    each = [len(find(rows, signal=name)) for name in SIGNALS]
    faulty = sum(bool(row["faults"]) for row in rows)
    ended = sum(row["ended"] for row in rows)
    return [name, f"{seconds:.1f}", *map(str, (*each, ended, faulty))]


def main() -> int:
    options = parser(__doc__, VERBS)
    options.add_argument("--count", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as work:
        rows = study(chosen.only, chosen.count, chosen.seed, Path(work))
    if chosen.only == [*VERBS]:  # not the trial of a few
        store(RESULTS / "kills.json", {"seed": chosen.seed, "rows": rows})
        publish(tables())
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
