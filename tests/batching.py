"""Small batches: tasks, steps that go wrong, and what is compared of their results."""

import hashlib
import json
import os
import signal
import time

import numpy as np

from conftest import synthetic_task
from msbgen.core.contexts import combinations_of
from msbgen.data.store import write_profiles
from msbgen.output.batch.execute import BatchStep, ExecutionConfig, StepResult
from msbgen.output.batch.run import run_batch
from msbgen.output.batch.tasks import TaskSettings, read_tasks

GRID = [(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)]
SETTINGS = TaskSettings(kinds=("mean", "sample"), samples=2, preset="paper")


def make_tasks(folder, n=2):
    """Profile files of small tasks, each of its own runs."""
    folder.mkdir(exist_ok=True)
    for i in range(n):
        contexts = np.array(GRID[i % 2 :])
        task = synthetic_task(contexts, n_runs=2 + i).assign_attrs(task=f"t{i}")
        write_profiles(task, folder / f"t{i}.nc", overwrite=True)
    return folder


def contexts_of(source, measured):
    """All contexts, whatever is asked for."""
    return combinations_of([attrs["levels"] for attrs in measured.resources.values()])


def note(job):
    """A step that leaves a file, and counts how often it was carried out."""
    with (job.out / f"{job.task.name}.carried-out").open("a") as stream:
        stream.write(".")
    (job.folder / "note.txt").write_text(job.task.name)
    return StepResult(["note.txt"], {"error": float(len(job.task.name)), "other": float("nan")})


def fail(job):
    """A step that raises in one task."""
    if job.task.name == "t0":
        raise ZeroDivisionError("<script>")
    return note(job)


def hang(job):
    """A step that hangs in one task, until it is allowed to go on."""
    while job.task.name == "t0" and not (job.out / "go on").exists():
        time.sleep(0.05)
    return note(job)


def eat(job):
    """A step that takes more and more memory in one task."""
    eaten = []
    while job.task.name == "t0" and not (job.out / "go on").exists():
        eaten.append(np.ones(10_000_000))
    return note(job)


def die(job):
    """A step whose process is killed in one task."""
    if job.task.name == "t0" and not (job.out / "go on").exists():
        with (job.out / "deaths").open("a") as stream:
            stream.write(".")
        os.kill(os.getpid(), signal.SIGKILL)
    return note(job)


def batch(folder, out, step=note, settings=SETTINGS, tasks=None, **options):
    """Run a batch of the tasks of a folder."""
    limits = {k: options.pop(k) for k in ("timeout", "memory", "retries") if k in options}
    config = ExecutionConfig(contexts_of, {"note": BatchStep(step)}, **limits)
    tasks = read_tasks(folder, settings) if tasks is None else tasks
    return run_batch(tasks, out, config, **options)


def results(out):
    """Content of every result, by its name, as hashes."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.parent != out and ".work" not in path.parts
    }


def lines(out):
    """Records of a manifest, but for half a line at its end."""
    text = (out / "manifest.jsonl").read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def done(out):
    """Units that a manifest says are done, in its order."""
    return [f"{r['task']}/{r['unit']}" for r in lines(out)[1:] if r["outcome"] == "done"]
