"""Batches: the eleven programs on one to three workers, killed processes, long manifests.

    python benchmarks/reproduce.py batch programs --work FOLDER [--tasks gzip,zstd] [--every 2]
                                                [--ways "1 worker,2 workers"]
    python benchmarks/reproduce.py batch kills --work FOLDER [--count 20]
    python benchmarks/reproduce.py batch manifest --work FOLDER [--tasks 10000]

``programs`` runs the same batch in several ways, which must give the same bytes. ``kills`` ends
workers, the client and the scheduler at random moments, resumes, and compares. ``manifest`` resumes
a long complete batch. The overhead is the time of workers outside units, without that of the start.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np
import psutil
from tables import RESULTS, ROOT, markdown, publish, store, stored

import msbgen
from msbgen.output.batch.tasks import BatchTask, read_tasks
from msbgen.sources.platform import PlatformConfig, read_trace, replay_trace

sys.path.insert(0, str(ROOT / "tests"))

# Part of the command line of a local worker.
_WORKER = "multiprocessing.spawn"
# Longest time of a batch of small tasks [s].
_LIMIT = 900


def command(tasks: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "msbgen", "batch", str(tasks), "-o", str(out), *more]


def started(tasks: Path, out: Path, *more: str) -> subprocess.Popen:
    log = (out.parent / f"{out.name}.log").open("ab")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    given = command(tasks, out, *more)
    return subprocess.Popen(given, stdout=log, stderr=log, env=environment, start_new_session=True)


def finished(process: subprocess.Popen) -> int:
    try:
        return process.wait(_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def results(out: Path) -> dict[str, str]:
    """Hash of every result by its name."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.parent != out and ".work" not in path.parts
    }


def lines(out: Path) -> list[dict]:
    path = out / "manifest.jsonl"
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()][1:]


def redone(out: Path) -> int:
    """Number of units that were finished more than once."""
    done = [(r["task"], r["unit"]) for r in lines(out) if r["outcome"] == "done"]
    return len(done) - len(set(done))


def measured_programs(folder: Path, names: list[str], every: int) -> None:
    """Write programs of the virtual platform, 5 x 5 x 5 contexts and ten runs, like the demo."""
    folder.mkdir(parents=True, exist_ok=True)
    levels = [np.array(v)[np.linspace(0, len(v) - 1, 5).round().astype(int)][::every]
              for v in PlatformConfig().levels.values()]  # fmt: skip
    grid = np.array(list(itertools.product(*levels)))
    for name in names:
        path = folder / f"{name}.nc"
        if not path.exists():
            trace = read_trace(msbgen.shipped_file(f"traces/{name}.nc"))
            msbgen.write_profiles(replay_trace(trace, grid, 10), path)


def programs(options: argparse.Namespace) -> dict:
    traces = msbgen.shipped_file("traces/gzip.nc").parent
    names = sorted(path.stem for path in traces.glob("*.nc"))
    if options.tasks:
        names = options.tasks.split(",")
    measured_programs(options.work / "measured", names, options.every)
    text = "[defaults]\nsteps = []\n"
    text += "".join(f'[[task]]\nmeasured = "measured/{name}.nc"\n' for name in names)
    (options.work / "tasks.toml").write_text(text)
    ways = {
        "in the process": [],
        "1 worker": ["--scheduler", "local:1"],
        "2 workers": ["--scheduler", "local:2"],
        "3 workers": ["--scheduler", "local:3"],
        "blocks of 500, 2 workers": ["--scheduler", "local:2", "--block", "500"],
    }
    chosen = [way for way in ways if not options.ways or way in options.ways.split(",")]
    found, first = {}, None
    for way in chosen:
        given = ways[way]
        out = options.work / way.replace(" ", "-").replace(",", "")
        shutil.rmtree(out, ignore_errors=True)
        begun = time.perf_counter()
        process = started(options.work / "tasks.toml", out, *given)
        while process.poll() is None and not lines(out):
            time.sleep(0.02)
        start = time.perf_counter() - begun - lines(out)[0]["seconds"]
        code = process.wait()
        wall = time.perf_counter() - begun
        own = lines(out)
        busy = sum(r["seconds"] for r in own)
        hashes = results(out)
        first = first or hashes
        workers = int(given[1][-1]) if given else 1
        found[way] = {
            "exit": code,
            "seconds": wall,
            "start": start,
            "workers": workers,
            "busy": busy,
            "units": len(own),
            "overhead_ms": 1e3 * ((wall - start) * workers - busy) / len(own),
            "megabytes": sum(r["bytes"] for r in own) / 1e6,
            "identical": hashes == first,
            "load": os.getloadavg()[0],
        }
        print(way, found[way], flush=True)
    if options.ways:  # the others stay as they were
        found = stored("batch-programs").get("ways", {}) | found
    return {"tasks": len(names), "every": options.every, "ways": found}


def programs_table(found: dict) -> str:
    one = found["ways"].get("1 worker", {}).get("seconds")
    rows = [
        [
            way,
            f"{row['seconds']:.1f}",
            f"{row['seconds'] / one:.2f}" if one else "",
            f"{row['start']:.1f}" if "start" in row else "in the overhead",
            f"{row['busy']:.1f}",
            str(row["units"]),
            f"{row['overhead_ms']:.0f}",
            f"{row['megabytes']:.0f}",
            "yes" if row["identical"] else "no",
        ]
        for way, row in found["ways"].items()
    ]
    header = ["way", "seconds", "of one worker", "start [s]", "within units [s]", "units"]
    return markdown([*header, "overhead per unit [ms]", "MB", "same bytes"], rows)


def small_tasks(folder: Path, n: int) -> Path:
    from batching import make_tasks

    make_tasks(folder / "in", n)
    text = '[defaults]\nkinds = ["mean", "sample"]\npreset = "paper"\nsamples = 3\nsteps = []\n'
    text += "".join(f'[[task]]\nmeasured = "in/t{i}.nc"\n' for i in range(n))
    (folder / "tasks.toml").write_text(text)
    return folder / "tasks.toml"


def workers(pid: int) -> list[int]:
    """Processes of the workers that a client has started."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            line = " ".join(child.cmdline())
            if _WORKER in line and "resource_tracker" not in line:
                found.append(child.pid)
    return found


def kills(options: argparse.Namespace) -> dict:
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    draw = random.Random(options.seed)
    tasks = small_tasks(options.work, 16)
    good = options.work / "good"
    assert finished(started(tasks, good)) == 0
    wanted = results(good)

    out, killed = options.work / "workers", 0
    local = ["--scheduler", "local:2", "--retries", "20"]
    runs, gave_up, given = 0, 0, []
    while killed < options.count or given:
        if not given:
            shutil.rmtree(out, ignore_errors=True)
            runs += 1
        process = started(tasks, out, *given, *local)
        while process.poll() is None and killed < options.count:
            time.sleep(draw.uniform(0.5, 8))
            alive = workers(process.pid)
            if alive and lines(out):
                os.kill(draw.choice(alive), signal.SIGKILL)
                killed += 1
        code = finished(process)
        assert redone(out) == 0
        if code == 5:  # killed as often as a cluster is started: it says so, and is resumed
            gave_up, given = gave_up + 1, ["--resume"]
            continue
        given = []
        assert code == 0, code
        assert results(out) == wanted, "other results"
        print(f"workers: {killed} killed in {runs} batches, {gave_up} resumed", flush=True)
    of_workers = {"killed": killed, "batches": runs, "resumed": gave_up, "identical": True}
    answer = {"workers": of_workers}

    out, moments = options.work / "client", 0
    while True:
        given = ["--resume"] if out.exists() else []
        process = started(tasks, out, *given, *local)
        known = len(lines(out))
        until = known + draw.randint(1, 40)
        while process.poll() is None and len(lines(out)) < until:
            time.sleep(0.02)
        if process.poll() is not None:
            break
        left = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        moments += 1
        end = time.monotonic() + 30
        while any(child.is_running() for child in left):
            assert time.monotonic() < end, "workers outlive their client"
            time.sleep(0.1)
    assert process.returncode == 0, process.returncode
    assert results(out) == wanted, "other results"
    assert redone(out) == 0
    answer["client"] = {"killed": moments, "identical": True, "left_behind": 0}
    print("client", answer["client"], flush=True)

    answer["scheduler"] = killed_scheduler(options.work, tasks, wanted, draw)
    print("scheduler", answer["scheduler"], flush=True)
    return answer


def killed_scheduler(work: Path, tasks: Path, wanted: dict[str, str], draw: random.Random) -> dict:
    """Kill a separate scheduler with two workers, start another one, and resume."""
    out, moments, waited = work / "scheduler", 0, []
    while True:
        file = work / f"scheduler-{moments}.json"
        common = ["--scheduler-file", str(file), "--no-dashboard"]
        cli = [sys.executable, "-m", "distributed.cli"]
        head = [*cli[:2], "distributed.cli.dask_scheduler", *common, "--port", "0"]
        node = [*cli[:2], "distributed.cli.dask_worker", *common, "--nthreads", "1"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        scheduler = subprocess.Popen(
            [*head, "--host", "127.0.0.1"], start_new_session=True, **quiet
        )
        both = [
            subprocess.Popen([*node, "--death-timeout", "10"], start_new_session=True, **quiet)
            for _ in range(2)
        ]
        try:
            while not (file.exists() and file.stat().st_size):
                time.sleep(0.1)
            given = ["--resume"] if out.exists() else []
            process = started(tasks, out, *given, "--scheduler", str(file))
            until = len(lines(out)) + draw.randint(1, 80)
            while process.poll() is None and len(lines(out)) < until:
                time.sleep(0.02)
            if process.poll() is None and moments < 2:
                os.kill(scheduler.pid, signal.SIGKILL)
                moments += 1
                begun = time.monotonic()
                code = finished(process)
                waited.append(time.monotonic() - begun)
                assert code == 5, code
                continue
            code = finished(process)
            assert code == 0, code
            break
        finally:
            for one in (scheduler, *both):
                with suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGKILL)
                one.wait()
    assert results(out) == wanted, "other results"
    assert redone(out) == 0
    return {"killed": moments, "identical": True, "longest_wait_s": max(waited, default=0.0)}


def kills_table(found: dict) -> str:
    header = ["killed", "times", "same bytes after `--resume`", "done again", "longest wait [s]"]
    rows = []
    for name, row in found.items():
        cells = [f"{name.removesuffix('s')}, SIGKILL", str(row["killed"])]
        wait = f"{row['longest_wait_s']:.0f}" if "longest_wait_s" in row else ""
        rows.append([*cells, "yes" if row["identical"] else "no", "nothing", wait])
    return markdown(header, rows)


def manifest(options: argparse.Namespace) -> dict:
    shutil.rmtree(options.work, ignore_errors=True)
    source, out = options.work / "in", options.work / "out"
    source.mkdir(parents=True)
    out.mkdir()
    text = '[defaults]\nkinds = ["mean"]\nsteps = []\n'
    n = int(options.tasks or 10_000)
    text += "".join(f'[[task]]\nmeasured = "in/task-{i}.nc"\n' for i in range(n))
    for i in range(n):
        (source / f"task-{i}.nc").write_bytes(b"x")
    path = options.work / "tasks.toml"
    path.write_text(text)
    now, blocks = version("msbgen"), 8
    head = {"event": "batch", "version": 1, "msbgen": now}
    with (out / "manifest.jsonl").open("w") as stream:
        stream.write(json.dumps({**head, "options": {"zarr": False, "models": False}}) + "\n")
        for task in read_tasks(path):
            for line in unit_lines(task, out, now, blocks):
                stream.write(json.dumps(line) + "\n")
    begun = time.perf_counter()
    process = subprocess.Popen(command(path, out, "--resume"), stdout=subprocess.PIPE)
    with process:
        output = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output
    assert "0 units were carried out" in output
    return {
        "tasks": n,
        "units": n * (blocks + 2),
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
        "held_before_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "index_mb": (out / "index.html").stat().st_size / 1e6,
        "load": os.getloadavg()[0],
    }


def manifest_table(found: dict) -> str:
    header = ["tasks", "units", "resumed in [s]", "peak [MB]", "index [MB]"]
    row = [f"{found['tasks']:,}", f"{found['units']:,}", f"{found['seconds']:.1f}",
           f"{found['peak_mb']:.0f}", f"{found['index_mb']:.2f}"]  # fmt: skip
    return markdown(header, [row])


def unit_lines(task: BatchTask, out: Path, now: str, blocks: int) -> list[dict]:
    (out / task.name).mkdir()
    (out / task.name / "mean.nc").write_bytes(b"y")
    stat = task.measured.stat()
    facts = {"input": "0" * 32, "stat": [[1, stat.st_mtime_ns]], "contexts": blocks}
    facts |= {"blocks": {"mean": 1}, "within": {"mean": 9999}, "model_bytes": 1}
    names = ["fit", *(f"generate/mean/{k}" for k in range(blocks)), "join/mean"]
    return [
        {
            "event": "unit", "task": task.name, "unit": name, "outcome": "done",
            "settings": task.digest, "version": now, "attempt": 1, "seconds": 1.5, "host": "node",
            "bytes": 1 if name == "join/mean" else 0,
            "files": {"mean.nc": 1} if name == "join/mean" else {},
            "facts": facts if name == "fit" else {"rows": 100, "part_bytes": 1}, "error": "",
        }
        for name in names
    ]  # fmt: skip


# Measurement and table of each part.
PARTS = {
    "programs": (programs, programs_table),
    "kills": (kills, kills_table),
    "manifest": (manifest, manifest_table),
}


def tables() -> dict[str, str]:
    """All tables of the page."""
    return {f"batch {part}": table(stored(f"batch-{part}")) for part, (_, table) in PARTS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--count", type=int, default=20, help="workers to kill")
    parser.add_argument("--tasks", default="", help="programs by name, or how many tasks")
    parser.add_argument("--ways", default="", help="of running the programs, by name")
    parser.add_argument("--every", type=int, default=1, help="measure every so many levels only")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.work = options.work.resolve()
    found = PARTS[options.part][0](options)
    print(json.dumps(found, indent=1))
    store(RESULTS / f"batch-{options.part}.json", found)
    publish(tables())
