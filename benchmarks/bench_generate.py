"""Speed of whole jobs: fit and generate, single contexts, growth, fits, the start of the command.

    python benchmarks/bench_generate.py [--quick] [--output benchmarks/results/generate.json]

The whole job reads 125 contexts × 10 runs, generates every kind of profile in all 4,560 contexts
and writes them. It runs in a process of its own, so that its memory can be measured.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from bench_fits import bench_fits
from tables import PROFILES, renew
from timing import CORES, interleaved, on_cores, run_python, seconds_of, slope, standing_in

KINDS = ("max_likelihood", "mean", "sample")
PARTS = ("job", "model", "growth", "fits", "start")
HERE = Path(__file__).resolve()


class Stages:
    """Seconds of wall time by stage, without the stages inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = time.perf_counter()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def calls(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed if the main thread calls it."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **kwargs)
            with self.of(name):
                return function(*args, **kwargs)

        return timed

    def each(self, name: str, items: Iterable[Any]) -> Iterator[Any]:
        """The items, with the time that it takes to make them."""
        iterator = iter(items)
        while True:
            with self.of(name):
                item = next(iterator, None)
            if item is None:
                return
            yield item

    def _turn(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now


def whole_job(task: str, n_contexts: int, folder: Path) -> dict[str, Any]:
    """Read, fit, generate every kind and write it; seconds of each stage."""
    start = time.perf_counter()
    stages = Stages()
    with stages.of("import"):
        import msbgen
        from msbgen.engine.bridge.solve import solve_bridge
        from msbgen.engine.generate.progress import deconvolve
        from msbgen.engine.trend.fit import Trend, fit_trend
    with stages.of("read"):
        measured = msbgen.read_profiles(PROFILES / f"{task}.nc")
    Trend.refit = stages.calls("trend", Trend.refit)
    with ExitStack() as stack:
        parts = {"trend": fit_trend, "deconvolution": deconvolve, "bridge": solve_bridge}
        for stage, part in parts.items():
            stack.enter_context(standing_in(part, stages.calls(stage, part)))
        with stages.of("rest of the fit"):
            model = msbgen.fit_profiles(measured)
        with stages.of("contexts"):
            contexts = msbgen.all_contexts(measured)
            contexts = contexts[np.linspace(0, len(contexts) - 1, n_contexts).astype(int)]
        for kind in KINDS:
            with stages.of(f"write {kind}"):
                blocks = stages.each(f"generate {kind}", model.stream(contexts, kind=kind, rng=0))
                msbgen.write_blocks(blocks, folder / f"{kind}.nc")
    return {
        "seconds": time.perf_counter() - start,
        "stages": dict(stages.seconds),
        "file_bytes": {kind: (folder / f"{kind}.nc").stat().st_size for kind in KINDS},
    }


def bench_job(task: str, n_contexts: int, repeats: int) -> dict[str, Any]:
    runs = []
    for _ in range(repeats + 1):  # the first may compile
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["--job", task, str(n_contexts), folder]
            run = run_python([HERE, *arguments])
        usage = {"cpu_seconds": run.cpu_seconds, "peak_bytes": run.peak_bytes}
        runs.append({**json.loads(run.output), **usage})
    middle = sorted(runs[1:], key=lambda one: one["seconds"])[(repeats - 1) // 2]
    return {"task": task, "n_contexts": n_contexts, "cores": len(CORES), **middle}


def bench_model(task: str, n_contexts: int, repeats: int) -> dict[str, Any]:
    """Times of single contexts, of all mean profiles in one call, and with two threads."""
    import msbgen

    measured = msbgen.read_profiles(PROFILES / f"{task}.nc")
    model = msbgen.fit_profiles(measured)
    fit = interleaved({"fit": partial(msbgen.fit_profiles, measured)}, repeats)["fit"]
    contexts = msbgen.all_contexts(measured)
    contexts = contexts[np.linspace(0, len(contexts) - 1, n_contexts).astype(int)]
    some = np.random.default_rng(0).permutation(contexts)[:100]
    answer = msbgen.calibrate_model(model, measured).answer
    one = {kind: _each(partial(_generate_one, model, kind), some) for kind in KINDS}

    def generate(kind: str, cores: int) -> None:
        with on_cores(cores):
            model.generate(contexts, kind=kind, rng=0)

    calls = {(kind, cores): partial(generate, kind, cores) for kind in KINDS for cores in (1, 2)}
    seconds = interleaved(calls, repeats)
    return {
        "task": task,
        "n_contexts": len(contexts),
        "fit_seconds": fit,
        "one_context_seconds": one,
        "answer_seconds": _each(answer, some),
        "seconds": {f"{kind}, {cores} cores": s for (kind, cores), s in seconds.items()},
        "speedup": {kind: seconds[kind, 1] / seconds[kind, 2] for kind in KINDS},
        "cores": len(CORES),
    }


def _generate_one(model: Any, kind: str, context: Any) -> None:
    model.generate([context], kind=kind, rng=0)


def _each(call: Callable[[Any], object], contexts: Any) -> float:
    """Median seconds of a call on one context."""
    call(contexts[0])
    return statistics.median(seconds_of(partial(call, context)) for context in contexts)


def bench_growth(task: str, sizes: Sequence[int], repeats: int) -> dict[str, Any]:
    """Profiles of so many contexts from one fitted model, kind by kind."""
    import msbgen

    measured = msbgen.read_profiles(PROFILES / f"{task}.nc")
    model = msbgen.fit_profiles(measured)
    every = np.random.default_rng(0).permutation(msbgen.all_contexts(measured))
    result: dict[str, Any] = {"task": task, "sizes": list(sizes)}
    for kind in KINDS:
        calls = {n: partial(model.generate, every[:n], kind=kind, rng=0) for n in sizes}
        with on_cores(1):
            seconds = list(interleaved(calls, repeats).values())
        result[kind] = {"seconds": seconds, "slope": slope(sizes, seconds)}
    return result


def compiled_kernels(task: str, folder: Path) -> dict[str, float]:
    """Seconds to compile each kernel, in a job without a cache."""
    from numba.core import event

    stages = Stages()

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            name = event.data["dispatcher"].py_func.__name__
            self.open = [*getattr(self, "open", []), stages.of(name)]
            self.open[-1].__enter__()

        def on_end(self, event: Any) -> None:
            self.open.pop().__exit__(None, None, None)

    event.register("numba:compile", Listener())
    generate = partial(small_job, task, folder)
    for kind in KINDS:
        generate(kind)
    return dict(sorted(stages.seconds.items(), key=lambda item: -item[1]))


def small_job(task: str, folder: Path, kind: str) -> None:
    """Run the command on the corners of a task's design, which takes little but its start."""
    from msbgen.cli.main import main
    from msbgen.data.schema import context_table, resource_names
    from msbgen.data.store import read_profiles, write_profiles

    part = folder / "part.nc"
    if not part.exists():
        measured = read_profiles(PROFILES / f"{task}.nc")
        table = context_table(measured)
        corner = ((table == table.min(axis=0)) | (table == table.max(axis=0))).all(axis=1)
        write_profiles(measured.isel(context=corner, run=slice(2)), part)
        rows = [resource_names(measured), table[len(table) // 2]]
        (folder / "one.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    arguments = [part, "-o", folder / "one.nc", "--contexts", folder / "one.csv"]
    if main(["generate", *map(str, arguments), "--kind", kind, "--force"]):
        raise SystemExit("the command failed")


def bench_start(task: str, repeats: int) -> dict[str, Any]:
    """Times of help, of the first job of a fresh install, and of a small job in a later start."""
    command = ["-m", "msbgen"]
    helped = [run_python([*command, "--help"]).seconds for _ in range(repeats + 1)][1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = [*command, "generate", PROFILES / f"{task}.nc", "--contexts", "all"]
        first, second = {}, {}
        for kind in ("max_likelihood", "mean"):
            fresh = {"NUMBA_CACHE_DIR": str(folder / kind)}
            one = [*job, "--kind", kind, "--force", "-o", folder / "o.nc"]
            first[kind], second[kind] = (run_python(one, **fresh).seconds for _ in range(2))
        kernels = run_python(
            [HERE, "--kernels", task, folder], NUMBA_CACHE_DIR=str(folder / "another")
        )
        small = [*command, "generate", folder / "part.nc", "-o", folder / "o.nc", "--force"]
        small += ["--contexts", folder / "one.csv", "--kind", "mean"]
        later = [run_python(small, **fresh).seconds for _ in range(repeats)]
        untouched = {"NUMBA_CACHE_DIR": str(folder / "a third")}
        demo = run_python([*command, "demo", "-o", folder / "demo"], **untouched).seconds
    return {
        "task": task,
        "help_seconds": statistics.median(helped),
        "first_generate_seconds": first,
        "second_generate_seconds": second,
        "later_start_seconds": statistics.median(later),
        "demo_seconds": demo,
        "compile_seconds": json.loads(kernels.output.splitlines()[-1]),
    }


def main() -> None:
    if sys.argv[1:2] == ["--job"]:
        task, n_contexts, folder = sys.argv[2:]
        print(json.dumps(whole_job(task, int(n_contexts), Path(folder))))
        return
    if sys.argv[1:2] == ["--kernels"]:
        task, folder = sys.argv[2:]
        print(json.dumps(compiled_kernels(task, Path(folder))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few contexts, for a trial")
    parser.add_argument("--task", default="zstd")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--output", type=Path, help="JSON file to write, or whose parts to renew")
    options = parser.parse_args()
    n, repeats = (300, 1) if options.quick else (4560, 3)
    sizes = (128, 256, 512) if options.quick else (285, 570, 1140, 2280, 4560)
    parts = {
        "job": partial(bench_job, options.task, n, repeats),
        "model": partial(bench_model, options.task, n, repeats),
        "growth": partial(bench_growth, options.task, sizes, 2 if options.quick else 3),
        "fits": partial(bench_fits, quick=options.quick),
        "start": partial(bench_start, options.task, 3 if options.quick else 9),
    }
    renew(options.output, {part: parts[part] for part in options.parts})


if __name__ == "__main__":
    main()
